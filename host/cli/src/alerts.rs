//! `alerts evaluate`: evaluates alerts on recorded runs, with other thresholds if wanted, and scores them.

use std::{path::PathBuf, process::ExitCode};

use altgrad_base::{diagnostic::Diagnostic, eprintln, print, println};
use altgrad_report::{
    alert_replay::{self, AlertReplay},
    alert_score::{self, Score, ScoredRun},
    find,
    run::Run,
    table::{Cell, Digits, Table},
};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

/// `altgrad-host alerts`.
#[derive(Debug, Subcommand)]
pub(super) enum AlertsCommand {
    /// Evaluates the alerts of recorded runs, once per kind and run, and scores them against unquantized runs.
    ///
    /// Thresholds are those of each run's `config.toml`, unless `--set` overrides them. `--baseline` classifies runs as
    /// healthy or failing. It compares the training loss of each with that of its baseline, the run of the same seed,
    /// data, model and length among those that `--baseline` names. A run fails if the median of its last 40 losses ends
    /// more than 5 % above the baseline's, or if its loss stops being finite.
    Evaluate(EvaluateArgs),
}

/// `altgrad-host alerts evaluate`.
#[derive(Debug, Args)]
pub(super) struct EvaluateArgs {
    /// Run folders, or folders of run folders (a sweep's).
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// A key of `[alerts]`: `--set kurtosis_growth=30`; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Names of the unquantized runs; `*` matches any characters.
    #[arg(long, alias = "twin", value_name = "NAME")]
    baseline: Option<String>,
    /// Writes one JSON object: each run with its outcome and alerts, and the score.
    #[arg(long)]
    json: bool,
}

/// A run with its alerts.
struct Evaluated<'a> {
    run: &'a Run,
    replay: Option<AlertReplay>,
    outcome: Option<ScoredRun>,
}

pub(super) fn run(command: &AlertsCommand) -> Result<ExitCode, Diagnostic> {
    let AlertsCommand::Evaluate(args) = command;
    let set = altgrad_config::alert_settings(&args.set)?;
    let found = find::find(&args.runs);
    found.left_out.iter().for_each(|left| eprintln!("left out: {}: {}", left.path.display(), left.reason));
    let replayed = alert_replay::all(&found.runs, &set);
    for (run, replay) in found.runs.iter().zip(&replayed) {
        if let Err(reason) = replay {
            eprintln!("left out: {}: {reason}", run.path.display());
        }
    }
    let replays: Vec<Option<AlertReplay>> = replayed.into_iter().map(Result::ok).collect();
    if replays.iter().all(Option::is_none) {
        return Err(Diagnostic::config("no readable run was found in the named paths")
            .hint("name run folders with a `metrics.csv`, or folders of such"));
    }
    let baselines = match &args.baseline {
        Some(baseline) => alert_score::baselines(&found.runs, baseline),
        None => vec![None; found.runs.len()],
    };
    if let Some(baseline) = args.baseline.as_ref().filter(|_| baselines.iter().all(Option::is_none)) {
        return Err(Diagnostic::config(format!("no run has a baseline called `{baseline}`"))
            .at("--baseline")
            .hint("a baseline has the same seed, data, model and length"));
    }
    let outcomes = alert_score::outcomes(&baselines, &replays);
    let score = args.baseline.is_some().then(|| Score::of(&replays, &outcomes));
    let runs = found.runs.iter().zip(replays).zip(outcomes);
    let runs: Vec<_> = runs.map(|((run, replay), outcome)| Evaluated { run, replay, outcome }).collect();
    if args.json {
        let runs: Vec<Value> = runs.iter().map(|evaluated| to_json(evaluated, &found.runs)).collect();
        println!("{:#}", json!({ "runs": runs, "score": score }));
    } else {
        print!("{}", table(&runs).to_terminal());
        score.iter().flat_map(Score::lines).for_each(|line| println!("{line}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn table(runs: &[Evaluated<'_>]) -> Table {
    let columns =
        ["run", "loss / baseline", "fails from step", "first alert", "step", "others, and information"];
    let mut table = Table::new("alerts", "Alerts", &columns);
    let step = |step: Option<u64>| Cell::number(step.map(|step| step as f64), Digits::Fixed(0));
    for Evaluated { run, replay, outcome } in runs {
        let Some(replay) = replay else { continue };
        let first = replay.warnings().next();
        let others = replay.alerts.iter().filter(|alert| first.is_none_or(|first| first.kind != alert.kind));
        let others = others.map(|alert| format!("{} {}", alert.kind.name(), alert.step));
        let ratio = outcome.as_ref().and_then(|outcome| outcome.ratio);
        table.rows.push(vec![
            Cell::text(&run.name),
            Cell::number(ratio, Digits::Fixed(3)),
            step(outcome.as_ref().and_then(|outcome| outcome.fails_from)),
            first.map_or(Cell::Missing, |alert| Cell::text(alert.kind.name())),
            step(first.map(|alert| alert.step)),
            Cell::text(others.collect::<Vec<_>>().join(", ")),
        ]);
    }
    table
}

fn to_json(evaluated: &Evaluated<'_>, runs: &[Run]) -> Value {
    let Evaluated { run, replay, outcome } = evaluated;
    let alerts = replay.as_ref().map(|replay| {
        let alerts = replay.alerts.iter().map(|alert| {
            json!({
                "step": alert.step,
                "kind": alert.kind.name(),
                "place": alert.place,
                "value": alert.value,
                "text": alert.text,
            })
        });
        alerts.collect::<Vec<_>>()
    });
    let baseline = outcome.as_ref().map(|outcome| runs[outcome.baseline].name.clone());
    json!({
        "run": run.name,
        "folder": run.path,
        "twin": baseline,
        "ratio": outcome.as_ref().and_then(|outcome| outcome.ratio),
        "fails_from": outcome.as_ref().and_then(|outcome| outcome.fails_from),
        "alerts": alerts,
    })
}
