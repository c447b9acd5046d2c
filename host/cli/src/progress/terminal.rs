//! Progress on a terminal as a bar, elsewhere as plain lines.

use altgrad_base::eprintln;
use std::{
    io::{IsTerminal, stderr},
    time::{Duration, Instant},
};

use altgrad_engine::train::RunObserver;
use altgrad_run_folder::record::Progress;
use indicatif::{ProgressBar, ProgressStyle};

/// Time between plain lines.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Shows progress on stderr.
#[derive(Debug)]
pub(crate) struct TerminalProgress {
    display: Display,
}

#[derive(Debug)]
enum Display {
    Nothing,
    Bar(ProgressBar),
    Lines { last: Option<Instant> },
}

impl TerminalProgress {
    /// A bar if stderr is a terminal, lines on stderr otherwise, nothing if `quiet`.
    pub fn new(quiet: bool) -> Self {
        let display = if quiet {
            Display::Nothing
        } else if stderr().is_terminal() {
            let bar = ProgressBar::no_length();
            let template = "{bar:30} {pos}/{len}  {msg}  ETA {eta}";
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            Display::Bar(bar)
        } else {
            Display::Lines { last: None }
        };
        Self { display }
    }
}

impl RunObserver for TerminalProgress {
    fn step(&mut self, progress: &Progress) {
        let (done, total) = (progress.step, progress.steps);
        let loss = progress.loss.unwrap_or(f64::NAN);
        let rate = progress.tokens_per_s.unwrap_or(f64::NAN);
        match &mut self.display {
            Display::Nothing => {}
            Display::Bar(bar) => {
                bar.set_length(total);
                bar.set_message(format!("loss {loss:.4}  {rate:.0} tokens/s"));
                bar.set_position(done);
            }
            Display::Lines { last } => {
                if done == total || last.is_none_or(|last| last.elapsed() >= LINE_INTERVAL) {
                    *last = Some(Instant::now());
                    let left = progress.training_s / done as f64 * (total - done) as f64;
                    eprintln!("step {done}/{total}  loss {loss:.4}  {rate:.0} tokens/s  ETA {left:.0} s");
                }
            }
        }
    }

    /// Without tearing the bar; also when quiet.
    fn say(&mut self, text: &str) {
        match &self.display {
            Display::Bar(bar) => bar.suspend(|| eprintln!("{text}")),
            Display::Nothing | Display::Lines { .. } => eprintln!("{text}"),
        }
    }

    /// Not when quiet.
    fn mention(&mut self, text: &str) {
        if !matches!(self.display, Display::Nothing) {
            self.say(text);
        }
    }

    /// Takes the bar away.
    fn finish(&mut self) {
        if let Display::Bar(bar) = &self.display {
            bar.finish_and_clear();
        }
    }
}
