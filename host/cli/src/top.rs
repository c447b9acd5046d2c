//! `top`: one line per run, live.

use std::{path::PathBuf, process::ExitCode, thread, time::Duration};

use altgrad_base::{diagnostic::Diagnostic, print, print::escaped};
use altgrad_report::follow::{Follower, LiveRun};
use clap::Args;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets::NOTHING};
use console::Term;

/// Levels of a curve of letters, from low to high.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Letters of a curve.
const CURVE: usize = 16;
/// Letters of the longest name and the longest alert.
const NAME: usize = 40;
const ALERT: usize = 60;
/// Columns of a table that is not for a terminal.
const PLAIN: u16 = 200;

/// `altgrad-host top`.
#[derive(Debug, Args)]
pub(super) struct TopArgs {
    /// Run folders, folders of run folders (a sweep's), or `metrics.csv` files.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Seconds between updates.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    every: f64,
    /// Shows the runs once, as without a terminal.
    #[arg(long)]
    once: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    seconds.ok_or_else(|| "a number from 0.1 to 3600".into())
}

pub(super) fn run(args: &TopArgs) -> Result<ExitCode, Diagnostic> {
    let mut follower = Follower::new(&args.runs);
    let terminal = Term::stdout();
    if args.once || !terminal.is_term() {
        follower.look();
        let runs = follower.runs();
        if runs.is_empty() {
            return Err(Diagnostic::config("no readable run was found in the named paths")
                .hint("name run folders, folders of run folders, or metrics.csv files"));
        }
        print!("{}\n", table(&runs, PLAIN));
        return Ok(ExitCode::SUCCESS);
    }
    loop {
        follower.look();
        let runs = follower.runs();
        let (rows, columns) = terminal.size();
        let text = table(&runs, columns).to_string();
        let lines: Vec<&str> = text.lines().collect();
        let shown = lines.len().min(usize::from(rows).saturating_sub(2).max(1));
        let more =
            if shown < lines.len() { format!("and {} more\n", lines.len() - shown) } else { String::new() };
        let lines = lines[..shown].join("\n");
        // The terminal is gone, so output that cannot be shown is dropped.
        let cleared = terminal.clear_screen();
        let written = cleared.and_then(|()| terminal.write_str(&format!("{}\n{more}", escaped(&lines))));
        if written.is_err() || !runs.iter().any(|run| run.is_running) && !runs.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        thread::sleep(Duration::from_secs_f64(args.every));
    }
}

fn table(runs: &[LiveRun], columns: u16) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_width(columns);
    table.set_header([
        "run",
        "status",
        "step",
        "loss",
        "so far",
        "held out",
        "minus baseline",
        "tokens/s",
        "left",
        "alerts",
        "newest alert",
    ]);
    for run in runs {
        let number = |value: Option<f64>, digits: usize| {
            value.map_or("–".to_string(), |value| format!("{value:.digits$}"))
        };
        let step = run.steps.map_or(run.step.to_string(), |steps| format!("{}/{steps}", run.step));
        let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
        table.add_row([
            Cell::new(cut(&run.name, NAME)),
            Cell::new(run.state),
            right(step),
            right(number(run.loss, 4)),
            Cell::new(sparkline(&run.curve)),
            right(number(run.held_out, 4)),
            right(number(run.against_twin, 4)),
            right(number(run.tokens_per_s, 0)),
            right(run.eta_s.map_or("–".into(), time)),
            right(run.alerts.to_string()),
            Cell::new(cut(run.last_alert.as_deref().unwrap_or_default(), ALERT)),
        ]);
    }
    table
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}

/// A curve as letters of eight heights.
fn sparkline(curve: &[f64]) -> String {
    let (low, high) =
        curve.iter().fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(*value), high.max(*value)));
    let parts = curve.len().div_ceil(CURVE).max(1);
    let level = |part: &[f64]| {
        let mean = part.iter().sum::<f64>() / part.len() as f64;
        let share = if high > low { (mean - low) / (high - low) } else { 0.0 };
        LEVELS[((share * 7.0).round() as usize).min(7)]
    };
    curve.chunks(parts).map(level).collect()
}

/// `1 h 20 min`.
fn time(seconds: f64) -> String {
    let seconds = seconds as u64;
    match (seconds / 3600, seconds / 60 % 60) {
        (0, 0) => format!("{seconds} s"),
        (0, minutes) => format!("{minutes} min {} s", seconds % 60),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_and_times_are_short() {
        assert_eq!(sparkline(&[8.0, 4.5, 1.0]), "█▅▁");
        assert_eq!(sparkline(&[1.0; 40]).chars().count(), 14);
        assert_eq!(sparkline(&[]), "");
        assert_eq!([59.9, 61.0, 7260.0].map(time), ["59 s", "1 min 1 s", "2 h 1 min"]);
        assert_eq!(cut("äöü", 2), "äö…");
    }
}
