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
    /// Evaluates the alerts of recorded runs, once per kind and run, and scores them against unquantized twins.
    ///
    /// Thresholds are those of each run's `config.toml`, unless `--set` overrides them. `--twin` classifies runs as
    /// healthy or failing by a comparison of their training loss with that of a twin, the run of the same seed, data,
    /// model and length among those that `--twin` names. A run fails if the median of its last 40 losses ends more than
    /// 5 % above the twin's, or if its loss stops being finite.
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
    /// Names of the unquantized twins; `*` matches any characters.
    #[arg(long, value_name = "NAME")]
    twin: Option<String>,
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
    let twins = match &args.twin {
        Some(twin) => alert_score::twins(&found.runs, twin),
        None => vec![None; found.runs.len()],
    };
    if let Some(twin) = args.twin.as_ref().filter(|_| twins.iter().all(Option::is_none)) {
        return Err(Diagnostic::config(format!("no run has a twin called `{twin}`"))
            .at("--twin")
            .hint("a twin has the same seed, data, model and length"));
    }
    let outcomes = alert_score::outcomes(&twins, &replays);
    let score = args.twin.is_some().then(|| Score::of(&replays, &outcomes));
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
    let columns = ["run", "loss / twin", "fails from step", "first alert", "step", "others, and information"];
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
    let twin = outcome.as_ref().map(|outcome| runs[outcome.twin].name.clone());
    json!({
        "run": run.name,
        "folder": run.path,
        "twin": twin,
        "ratio": outcome.as_ref().and_then(|outcome| outcome.ratio),
        "fails_from": outcome.as_ref().and_then(|outcome| outcome.fails_from),
        "alerts": alerts,
    })
}
