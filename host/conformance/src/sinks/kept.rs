//! Checks that a sink keeps its input: every value of every row, with all digits.
//!
//! Files are read without knowing their layout. Each value differs from all others in its first digits, so a number in
//! a file that is close to one that was logged is that one. A sink whose files hold no such numbers, because it sends
//! them elsewhere or writes them in a form of its own, is skipped.

use std::{collections::BTreeSet, fs, io, path::Path};

use altgrad_plugin_api::RunOutcome;

use super::SinkSubject;
use crate::{CheckResult, Random, Verdict};

/// Rows.
const ROWS: u64 = 2_000;
/// The step of the first row with a metric that was not announced.
const LATE: u64 = 1_000;
/// Of the values that were logged, the share that files hold, at least roughly, if they hold values at all.
const HELD: f64 = 0.2;
/// Bytes after which logs of binary records may break a record, and with it a number.
const RECORDS: u64 = 32 * 1024;

/// The logged values.
struct Logged {
    /// The value; exact in f32 where the metric is.
    value: f64,
    step: u64,
    metric: &'static str,
}

/// Some value of 17 digits, between 1 and 2 times a power of ten, that lies apart from all others.
fn values() -> Vec<Logged> {
    let mut random = Random(131);
    let mut logged = Vec::new();
    for step in 0..ROWS {
        let late = (step >= LATE).then_some("late/metric");
        for (index, metric) in
            ["train/loss", "grad_norm_l2/h.0.attn.c_attn.weight"].into_iter().chain(late).enumerate()
        {
            let rank = step * 3 + index as u64;
            let exact = 1.0 + (rank as f64 + 0.1 + 0.8 * random.unit()) / (3.0 * ROWS as f64);
            // The first metric has values that are exact in f32, for sinks whose files have only those.
            let value = if index == 0 { f64::from(exact as f32) } else { exact };
            logged.push(Logged { value, step, metric });
        }
    }
    logged
}

pub(super) fn kept_values(subject: &SinkSubject) -> CheckResult {
    let logged = values();
    let scratch = subject.scratch()?;
    let mut sink = subject.opened(&scratch)?;
    for row in logged.chunk_by(|a, b| a.step == b.step) {
        let values: Vec<(&str, f64)> = row.iter().map(|logged| (logged.metric, logged.value)).collect();
        sink.log(row[0].step, &values)?;
    }
    sink.state()?;
    sink.finish(RunOutcome::COMPLETED)?;
    drop(sink);
    let mut found = Found::default();
    found.look(&scratch.run()).map_err(|error| format!("the run folder cannot be read ({error})"))?;
    scratch.closed(found.verdict(&logged))
}

/// The numbers of all files.
#[derive(Default)]
struct Found {
    /// Written with digits, by their bits.
    written: BTreeSet<u64>,
    /// Bits that are four or eight bytes of a binary file.
    singles: BTreeSet<u32>,
    doubles: BTreeSet<u64>,
    /// Values that may be broken by the form of binary logs.
    broken: u64,
}

impl Found {
    fn look(&mut self, folder: &Path) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                self.look(&path)?;
            } else {
                self.read(&fs::read(path)?);
            }
        }
        Ok(())
    }

    fn read(&mut self, bytes: &[u8]) {
        let is_number = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
        for word in bytes.split(|byte| !is_number(byte)).filter(|word| word.len() > 2) {
            let number = std::str::from_utf8(word).ok().and_then(|word| word.parse::<f64>().ok());
            if let Some(number) = number.filter(|number| (1.0..=2.0).contains(number)) {
                self.written.insert(number.to_bits());
            }
        }
        if std::str::from_utf8(bytes).is_err() {
            self.broken += bytes.len() as u64 / RECORDS + 1;
            for window in bytes.windows(8) {
                if let Ok(eight) = <[u8; 8]>::try_from(window) {
                    let double = f64::from_le_bytes(eight);
                    if (1.0..=2.0).contains(&double) {
                        self.doubles.insert(double.to_bits());
                    }
                }
            }
            for four in bytes.windows(4).filter_map(|window| <[u8; 4]>::try_from(window).ok()) {
                let single = f32::from_le_bytes(four);
                if (1.0..=2.0).contains(&single) {
                    self.singles.insert(single.to_bits());
                }
            }
        }
    }

    /// True if a written number equals this one except for its last digits. Positive numbers compare like their bits.
    fn roughly(&self, value: f64) -> bool {
        let apart = 0.05 / (3.0 * ROWS as f64);
        let range = (value - apart).to_bits()..=(value + apart).to_bits();
        self.written.range(range).next().is_some()
    }

    fn verdict(&self, logged: &[Logged]) -> CheckResult {
        let share = |is: &dyn Fn(&Logged) -> bool| {
            logged.iter().filter(|one| is(one)).count() as f64 / logged.len() as f64
        };
        let in_text = |one: &Logged| self.written.contains(&one.value.to_bits());
        let in_bytes = |one: &Logged| {
            self.singles.contains(&(one.value as f32).to_bits())
                || self.doubles.contains(&one.value.to_bits())
        };
        let holds: &dyn Fn(&Logged) -> bool = if share(&|one| self.roughly(one.value)) >= HELD {
            &in_text
        } else if share(&in_bytes) >= HELD {
            &in_bytes
        } else {
            return Ok(Verdict::Skipped(
                "no file of the run folder holds the values in a form that is known".into(),
            ));
        };
        let missing: Vec<&Logged> = logged.iter().filter(|one| !holds(one)).collect();
        match missing.first() {
            Some(first) if missing.len() as u64 > self.broken => {
                let how = if self.roughly(first.value) { "only rounded" } else { "not there" };
                let (step, metric, value) = (first.step, first.metric, first.value);
                let of = format!("{} of {} values are missing in the files", missing.len(), logged.len());
                Err(format!("{of}: the first, `{metric}` of step {step}, {value}, is {how}"))
            }
            _ => Ok(Verdict::Passed),
        }
    }
}
