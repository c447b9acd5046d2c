//! Runs that end and resume: no step is lost or repeated.
//!
//! A row's value encodes the step and the part of the run that wrote it, so text files in the run folder can be read
//! without knowing their layout. Of a sink without such files (a tracker, a binary file) only the calls are checked,
//! and a warning says so: a binary file may keep what it counts as deleted. What a sink [reads
//! itself](altgrad_plugin_api::Sink::read_back) is checked exactly.

use std::{collections::BTreeMap, fs, path::Path};

use altgrad_plugin_api::{AlertLevel, RunOutcome};

use super::{
    SinkSubject,
    rows::names,
    subject::{Instance, Scratch, Stored},
};
use crate::{CheckResult, Random, Verdict};

/// The value of a step as part `part` of the run writes it: a number that occurs nowhere else in a file.
fn value(step: u64, part: u64) -> f64 {
    (7_000_000_000 + step * 1_000 + part) as f64 + 0.5
}

/// A run in parts: the part that wrote each step last.
struct Parts<'a> {
    subject: &'a SinkSubject,
    scratch: Scratch,
    sink: Option<Instance>,
    part: u64,
    last: BTreeMap<u64, u64>,
    overwritten: Vec<f64>,
}

impl<'a> Parts<'a> {
    fn new(subject: &'a SinkSubject) -> Result<Self, String> {
        let scratch = subject.scratch()?;
        let sink = Some(subject.opened(&scratch)?);
        Ok(Self { subject, scratch, sink, part: 0, last: BTreeMap::new(), overwritten: Vec::new() })
    }

    /// The open sink.
    fn sink(&mut self) -> Result<&mut Instance, String> {
        self.sink.as_mut().ok_or_else(|| "no sink is open".into())
    }

    fn write(&mut self, step: u64, more: &[(&str, f64)]) -> Result<(), String> {
        let row = [&[("train/loss", value(step, self.part))], more].concat();
        self.sink()?.log(step, &row)?;
        self.last.insert(step, self.part);
        Ok(())
    }

    /// Continues from `step` in a new instance; the last one is left as a killed process leaves it.
    fn resume(&mut self, step: u64, state: &[u8]) -> Result<(), String> {
        self.sink = None;
        self.part += 1;
        for (step, part) in self.last.split_off(&step) {
            self.overwritten.push(value(step, part));
        }
        let mut sink = self.subject.instance()?;
        sink.open(&self.scratch.run(), Some(step), state)?;
        self.sink = Some(sink);
        Ok(())
    }

    /// Finishes and checks the files.
    fn close(mut self) -> CheckResult {
        self.sink()?.finish(RunOutcome::COMPLETED)?;
        self.sink = None;
        let folder = self.scratch.run();
        let held = match self.subject.stored(&folder)? {
            Some(stored) => stored_are(&stored, &self.last),
            None => files_hold(&folder, &self.last, &self.overwritten),
        };
        self.scratch.closed(held)
    }
}

/// Checks that each kept step has the value that was written last, once, and that there are no others.
fn stored_are(stored: &Stored, last: &BTreeMap<u64, u64>) -> CheckResult {
    let rows = stored.iter().filter(|((_, name), _)| name == "train/loss");
    let rows: BTreeMap<u64, &Vec<f64>> = rows.map(|((step, _), values)| (*step, values)).collect();
    for (&step, &part) in last {
        let (due, found) = (value(step, part), rows.get(&step).map_or(&[][..], |values| values));
        if *found != [due] {
            return Err(format!(
                "`read_back` has {found:?} at step {step}, {due} was written last in part {part}"
            ));
        }
    }
    match rows.keys().find(|step| !last.contains_key(step)) {
        Some(step) => Err(format!("`read_back` has step {step}, which came again after resuming or never")),
        None => Ok(Verdict::Passed),
    }
}

/// The warning where files cannot be read.
const UNSEEN: &str =
    "no text file of the run folder holds the rows: lost, repeated and outdated steps are not seen";

/// Checks that each text file of the folder that holds the last row's value holds every kept step exactly once, and no
/// other step.
fn files_hold(folder: &Path, last: &BTreeMap<u64, u64>, overwritten: &[f64]) -> CheckResult {
    let Some((&step, &part)) = last.last_key_value() else { return Ok(Verdict::Passed) };
    let (newest, mut verdict) = (value(step, part).to_string(), Verdict::Warned(UNSEEN.into()));
    let entries = fs::read_dir(folder).map_err(|error| format!("the run folder is gone ({error})"))?;
    for entry in entries.flatten() {
        let Ok(text) = fs::read_to_string(entry.path()) else { continue };
        let name = entry.file_name();
        if !text.contains(&newest) {
            continue;
        }
        verdict = Verdict::Passed;
        for (&step, &part) in last {
            let found = text.matches(&value(step, part).to_string()).count();
            if found != 1 {
                return Err(format!("step {step} is {found} times in {name:?}, written last in part {part}"));
            }
        }
        if let Some(found) = overwritten.iter().find(|value| text.contains(&value.to_string())) {
            return Err(format!("{name:?} still has the row {found}, which came again after resuming"));
        }
    }
    Ok(verdict)
}

pub(super) fn resume(subject: &SinkSubject) -> CheckResult {
    let mut verdict = Verdict::Passed;
    for step in [0, 1, 5, 9, 10] {
        for finished in [true, false] {
            let mut parts = Parts::new(subject)?;
            let mut state = Vec::new();
            for now in 0..10 {
                if now == step {
                    state = parts.sink()?.state()?;
                }
                parts.write(now, &[("grad_norm_l2/wte.weight", 1.0), ("time/step_ms", 2.0)])?;
                parts.sink()?.histogram(now, "weights/hist/wte.weight", &[0.0, 1.0], &[now])?;
                parts.sink()?.alert(now, AlertLevel::INFO, "best", "the best so far")?;
            }
            if step == 10 {
                state = parts.sink()?.state()?;
            }
            if finished {
                parts.sink()?.summary(&[("final/train_loss", 2.0)])?;
                parts.sink()?.finish(RunOutcome::INTERRUPTED)?;
            }
            parts.resume(step, &state)?;
            (step..20).try_for_each(|now| parts.write(now, &[("late/metric", 3.0)]))?;
            let closed = parts.close();
            verdict = closed.map_err(|fault| format!("resumed at step {step} of 10: {fault}"))?;
        }
    }
    Ok(verdict)
}

pub(super) fn resume_again(subject: &SinkSubject) -> CheckResult {
    let mut parts = Parts::new(subject)?;
    (0..5).try_for_each(|step| parts.write(step, &[]))?;
    let state = parts.sink()?.state()?;
    for _ in 0..4 {
        parts.resume(5, &state)?;
        (5..8).try_for_each(|step| parts.write(step, &[]))?;
    }
    parts.resume(5, &state)?;
    (5..12).try_for_each(|step| parts.write(step, &[]))?;
    let verdict = parts.close()?;

    // A sink that joins a run when it is resumed.
    let scratch = subject.scratch()?;
    let mut sink = subject.instance()?;
    sink.open(&scratch.run(), Some(100), &[])?;
    (100..105).try_for_each(|step| sink.log(step, &[("train/loss", 1.0)]))?;
    sink.finish(RunOutcome::COMPLETED)?;
    scratch.closed(Ok(verdict))
}

pub(super) fn random_lives(subject: &SinkSubject) -> CheckResult {
    let mut verdict = Verdict::Passed;
    for seed in subject.seed..subject.seed + 12 {
        verdict = random_life(subject, seed).map_err(|fault| format!("seed {seed}: {fault}"))?;
    }
    Ok(verdict)
}

fn random_life(subject: &SinkSubject, seed: u64) -> CheckResult {
    let mut random = Random(seed);
    let mut below = |bound: u64| random.next_u64() % bound;
    let names = names();
    let mut parts = Parts::new(subject)?;
    let (mut step, mut checkpoints) = (0, vec![(0, Vec::new())]);
    for _ in 0..100 {
        match below(12) {
            0 => {
                // Killed, and resumed from one of the last checkpoints.
                let keep = checkpoints.len() - below(2).min(checkpoints.len() as u64 - 1) as usize;
                checkpoints.truncate(keep);
                let Some((at, state)) = checkpoints.last().cloned() else { continue };
                parts.resume(at, &state)?;
                step = at;
            }
            1 => {
                let state = parts.sink()?.state()?;
                checkpoints.push((step, state));
            }
            2 => parts.sink()?.alert(step, AlertLevel::WARN, "overflow", &names[below(40) as usize])?,
            3 => {
                let counts: Vec<u64> = (0..=below(30)).collect();
                let edges: Vec<f64> = (0..=counts.len()).map(|edge| edge as f64).collect();
                parts.sink()?.histogram(step, &names[below(40) as usize], &edges, &counts)?;
            }
            _ => {
                // Neighbours from a random place on: no name comes twice in a row.
                let (first, count) = (below(36) as usize, below(5) as usize);
                let more = names[first..first + count].iter();
                let more: Vec<(&str, f64)> =
                    more.map(|name| (name.as_str(), f64::from_bits(below(1 << 60)))).collect();
                parts.write(step, &more)?;
                step += 1;
            }
        }
    }
    parts.close()
}
