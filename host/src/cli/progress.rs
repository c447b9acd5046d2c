//! Progress on a terminal as a bar, elsewhere as plain lines.

use std::{
    io::{IsTerminal, stderr},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};

use crate::train::status::Report;

/// Time between plain lines.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Where progress is shown.
#[derive(Debug)]
pub struct Progress {
    shown: Shown,
}

#[derive(Debug)]
enum Shown {
    Nothing,
    Bar(ProgressBar),
    Lines { last: Option<Instant> },
}

impl Progress {
    /// A bar if stderr is a terminal, lines on stderr otherwise, nothing if `quiet`.
    #[must_use]
    pub fn new(quiet: bool) -> Self {
        let shown = if quiet {
            Shown::Nothing
        } else if stderr().is_terminal() {
            let bar = ProgressBar::no_length();
            let template = "{bar:30} {pos}/{len}  {msg}  ETA {eta}";
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            Shown::Bar(bar)
        } else {
            Shown::Lines { last: None }
        };
        Self { shown }
    }

    /// Step `done` of `total` is done.
    pub fn step(&mut self, done: u64, total: u64, loss: f64, report: &Report) {
        let rate = report.tokens_per_s().unwrap_or(f64::NAN);
        match &mut self.shown {
            Shown::Nothing => {}
            Shown::Bar(bar) => {
                bar.set_length(total);
                bar.set_message(format!("loss {loss:.4}  {rate:.0} tokens/s"));
                bar.set_position(done);
            }
            Shown::Lines { last } => {
                if done == total || last.is_none_or(|last| last.elapsed() >= LINE_INTERVAL) {
                    *last = Some(Instant::now());
                    let left = report.training_time.as_secs_f64() / done as f64 * (total - done) as f64;
                    eprintln!("step {done}/{total}  loss {loss:.4}  {rate:.0} tokens/s  ETA {left:.0} s");
                }
            }
        }
    }

    /// Shows a message without tearing the bar; also when quiet.
    pub fn say(&self, text: &str) {
        match &self.shown {
            Shown::Bar(bar) => bar.suspend(|| eprintln!("{text}")),
            Shown::Nothing | Shown::Lines { .. } => eprintln!("{text}"),
        }
    }

    /// Shows a message of lesser weight: not when quiet.
    pub fn mention(&self, text: &str) {
        if !matches!(self.shown, Shown::Nothing) {
            self.say(text);
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Shown::Bar(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }
}
