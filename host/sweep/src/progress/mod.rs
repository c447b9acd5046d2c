//! Progress over all runs of a sweep: a bar on a terminal, plain lines elsewhere, and a line for each run that ends.

pub(super) mod log;

use altgrad_base::eprintln;
use std::{
    collections::BTreeMap,
    io::{IsTerminal, stderr},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};

use super::{outcome::Outcome, task::Task, twins::Twins};

/// Time between plain lines.
const LINE_INTERVAL: Duration = Duration::from_secs(10);
/// Runs that a line shows.
const MOST_SHOWN: usize = 4;
/// Time between two readings of the logs.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The display of progress.
#[derive(Debug)]
pub struct SweepProgress {
    display: Display,
    /// The current phase.
    phase: String,
    /// Steps done of each run of the phase.
    steps: BTreeMap<String, u64>,
    /// Steps of the phase.
    total: u64,
    runs: usize,
    ended: usize,
    failed: usize,
    pub(super) twins: Twins,
    looked: Option<Instant>,
    said: Option<Instant>,
}

#[derive(Debug)]
enum Display {
    Nothing,
    Bar(ProgressBar),
    Lines,
}

impl SweepProgress {
    /// A bar if stderr is a terminal, lines on stderr otherwise, nothing if `quiet`.
    #[must_use]
    pub(super) fn new(quiet: bool, twins: Twins) -> Self {
        let display = if quiet {
            Display::Nothing
        } else if stderr().is_terminal() {
            let bar = ProgressBar::no_length();
            if let Ok(style) = ProgressStyle::with_template("{bar:24} {percent}%  {msg}  ETA {eta}") {
                bar.set_style(style);
            }
            Display::Bar(bar)
        } else {
            Display::Lines
        };
        Self {
            display,
            phase: String::new(),
            steps: BTreeMap::new(),
            total: 0,
            runs: 0,
            ended: 0,
            failed: 0,
            twins,
            looked: None,
            said: None,
        }
    }

    /// The display of runs without twins.
    #[must_use]
    pub fn without_twins(quiet: bool) -> Self {
        Self::new(quiet, Twins::default())
    }

    /// A batch of runs begins.
    pub fn begin(&mut self, phase: &str, tasks: &[Task]) {
        let outcomes: Vec<(&Task, Outcome)> = tasks.iter().map(|task| (task, task.outcome())).collect();
        self.phase = phase.to_string();
        self.steps = outcomes.iter().map(|(task, outcome)| (task.name.clone(), outcome.steps)).collect();
        self.total = tasks.iter().map(|task| task.until).sum();
        self.runs = tasks.len();
        self.ended = outcomes.iter().filter(|(task, outcome)| outcome.is_done(task.until)).count();
        self.failed = 0;
        let before =
            if self.ended > 0 { format!(", {} of them done before", self.ended) } else { String::new() };
        self.say(&format!("{phase}: {} runs{before}", self.runs));
        let done = outcomes.iter().filter(|(task, outcome)| outcome.is_done(task.until));
        let worse: Vec<String> = done.flat_map(|(task, _)| self.twins.ended(&task.name)).collect();
        worse.iter().for_each(|line| self.say(line));
    }

    /// A run ended: well, or for a reason.
    pub fn ended(&mut self, task: &Task, outcome: &Outcome, failure: Option<&str>) {
        self.ended += 1;
        self.steps.insert(task.name.clone(), task.until);
        let line = match failure {
            Some(reason) => {
                self.failed += 1;
                format!("{}: failed at step {}: {reason}", task.name, outcome.steps)
            }
            None => format!(
                "{}: {} steps, held-out loss {}",
                task.name,
                outcome.steps,
                loss(outcome.final_val_loss)
            ),
        };
        self.say(&format!("[{}/{}] {line}", self.ended, self.runs));
        let worse = self.twins.ended(&task.name);
        worse.iter().for_each(|line| self.say(line));
    }

    /// Runs are under way: each with where its part of the log begins.
    pub fn show<'a>(&mut self, running: impl Iterator<Item = (&'a Task, u64)>) {
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOK_INTERVAL) {
            return;
        }
        self.looked = Some(Instant::now());
        let running: Vec<(&Task, u64)> = running.collect();
        let worse = self.twins.look_at(running.iter().map(|(task, _)| task.name.as_str()));
        worse.iter().for_each(|line| self.say(line));
        let (mut said, mut more) = (Vec::new(), 0);
        for (task, from) in running {
            let step = log::last_step(&task.log, from);
            if let Some(step) = &step {
                self.steps.insert(task.name.clone(), step.step.min(task.until));
            }
            match step {
                _ if said.len() == MOST_SHOWN => more += 1,
                Some(step) => {
                    let loss = step.loss.unwrap_or(f64::NAN);
                    said.push(format!("{} {}/{} loss {loss:.4}", task.name, step.step, task.until));
                }
                None => said.push(format!("{} begins", task.name)),
            }
        }
        if more > 0 {
            said.push(format!("{more} more"));
        }
        let done: u64 = self.steps.values().sum();
        let failed = if self.failed > 0 { format!(", {} failed", self.failed) } else { String::new() };
        let text = format!("{} {}/{}{failed}: {}", self.phase, self.ended, self.runs, said.join(", "));
        match &self.display {
            Display::Nothing => {}
            Display::Bar(bar) => {
                bar.set_length(self.total);
                bar.set_position(done);
                bar.set_message(text);
            }
            Display::Lines => {
                let due = self.said.is_none_or(|said| said.elapsed() >= LINE_INTERVAL);
                if due && !said.is_empty() {
                    self.said = Some(Instant::now());
                    eprintln!("{text}");
                }
            }
        }
    }

    /// Shows a line without breaking the bar; not when quiet.
    pub fn say(&self, text: &str) {
        match &self.display {
            Display::Nothing => {}
            Display::Bar(bar) => bar.suspend(|| eprintln!("{text}")),
            Display::Lines => eprintln!("{text}"),
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Display::Bar(bar) = &self.display {
            bar.finish_and_clear();
        }
    }
}

/// A loss for people.
#[must_use]
pub fn loss(loss: Option<f64>) -> String {
    loss.map_or("missing".to_string(), |loss| format!("{loss:.4}"))
}
