//! Progress on a terminal as a bar, elsewhere as plain lines.

use altgrad_base::eprintln;
use std::{
    io::{IsTerminal, stderr},
    time::{Duration, Instant},
};

use altgrad_engine::train::ProgressListener;
use altgrad_run_folder::record::Progress;
use indicatif::{ProgressBar, ProgressStyle};

/// Plain lines of a run, roughly at most.
const LINES: u64 = 50;

/// Shows progress on stderr.
#[derive(Debug)]
pub(crate) struct TerminalProgress {
    display: Display,
    /// The first step of this process that was over, and when.
    first: Option<(u64, Instant)>,
    /// The step of the evaluation that was shown last.
    evaluated: Option<u64>,
}

#[derive(Debug)]
enum Display {
    Nothing,
    Bar(ProgressBar),
    Lines,
}

impl TerminalProgress {
    /// A bar if stderr is a terminal, lines on stderr otherwise, nothing if `quiet`.
    pub fn new(quiet: bool) -> Self {
        let display = if quiet {
            Display::Nothing
        } else if stderr().is_terminal() {
            let bar = ProgressBar::no_length();
            let template = "{bar:30} {pos}/{len}  {msg}";
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            Display::Bar(bar)
        } else {
            Display::Lines
        };
        Self { display, first: None, evaluated: None }
    }

    /// The time until the last step, at the pace of this process, evaluations included; `None` at its first step.
    fn left(&mut self, done: u64, total: u64) -> Option<Duration> {
        let (first, at) = *self.first.get_or_insert_with(|| (done, Instant::now()));
        (done > first).then(|| at.elapsed().mul_f64((total - done) as f64 / (done - first) as f64))
    }

    /// Step and loss of the last evaluation, if it is a new one.
    fn new_evaluation(&mut self, progress: &Progress) -> Option<(u64, f64)> {
        let step = progress.validation_step.filter(|step| self.evaluated != Some(*step))?;
        self.evaluated = Some(step);
        Some((step, progress.validation_loss?))
    }
}

/// Steps between plain lines: 1, 2 or 5 times a power of ten.
fn interval(total: u64) -> u64 {
    let powers = std::iter::successors(Some(1u64), |power| power.checked_mul(10));
    let mut steps = powers.flat_map(|power| [1, 2, 5].map(|factor| power.saturating_mul(factor)));
    steps.find(|steps| total <= steps.saturating_mul(LINES)).unwrap_or(u64::MAX)
}

impl ProgressListener for TerminalProgress {
    fn step(&mut self, progress: &Progress) {
        let (done, total) = (progress.step, progress.steps);
        let loss = progress.loss.unwrap_or(f64::NAN);
        let rate = progress.tokens_per_s.unwrap_or(f64::NAN);
        let left = self.left(done, total);
        let left = left.map_or("?".to_owned(), |left| format!("{:.0} s", left.as_secs_f64().ceil()));
        let evaluated = self.new_evaluation(progress);
        match &self.display {
            Display::Nothing => {}
            Display::Bar(bar) => {
                let held_out = progress.validation_loss;
                let held_out = held_out.map_or(String::new(), |loss| format!("  validation loss {loss:.4}"));
                bar.set_length(total);
                bar.set_message(format!("loss {loss:.4}{held_out}  {rate:.0} tokens/s  ETA {left}"));
                bar.set_position(done);
            }
            Display::Lines => {
                if let Some((step, held_out)) = evaluated {
                    eprintln!("step {step}/{total}  validation loss {held_out:.4}");
                }
                if done == total || done.is_multiple_of(interval(total)) {
                    eprintln!("step {done}/{total}  loss {loss:.4}  {rate:.0} tokens/s  ETA {left}");
                }
            }
        }
    }

    /// Shows a message without breaking the bar; also when quiet.
    fn say(&mut self, text: &str) {
        match &self.display {
            Display::Bar(bar) => bar.suspend(|| eprintln!("{text}")),
            Display::Nothing | Display::Lines => eprintln!("{text}"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_every_so_many_steps() {
        assert_eq!([1, 50, 51, 500, 2000, 600_000].map(interval), [1, 1, 2, 10, 50, 20_000]);
        assert_eq!(interval(u64::MAX), 500_000_000_000_000_000);
    }

    /// Also if two evaluations have equal losses, or NaN, which equals nothing.
    #[test]
    fn an_evaluation_is_shown_once() {
        let mut progress = TerminalProgress::new(true);
        let mut shown = |step: u64, loss: f64| {
            let (validation_step, validation_loss) = (Some(step), Some(loss));
            let line = Progress { validation_step, validation_loss, ..Progress::default() };
            progress.new_evaluation(&line).map(|(step, _)| step)
        };
        let losses = [(0, 2.5), (0, 2.5), (5, 2.5), (5, 2.5), (10, f64::NAN), (10, f64::NAN), (15, f64::NAN)];
        let shown = losses.map(|(step, loss)| shown(step, loss));
        assert_eq!(shown, [Some(0), None, Some(5), None, Some(10), None, Some(15)]);
    }

    #[test]
    fn the_time_left_is_that_of_this_process() {
        let mut progress = TerminalProgress::new(true);
        assert_eq!(progress.left(901, 1000), None);
        progress.first = Some((901, Instant::now() - Duration::from_secs(9)));
        let left = progress.left(910, 1000).unwrap().as_secs_f64();
        assert!((left - 90.0).abs() < 1.0, "{left}");
    }
}
