//! Checks that a sink keeps its input: every value of every row, with all digits.
//!
//! Files are read without knowing their layout, as text, and as f32 and f64 at any byte. Each value differs from all
//! others in its first digits, so a number in a file that is close to one that was logged is that one. If files hold no
//! such numbers, because a sink sends them elsewhere or writes them in a form of its own, a warning says so. A sink
//! that [reads its files](altgrad_plugin_api::Sink::read_back) is believed.

use std::{collections::BTreeSet, fs, io, path::Path};

use altgrad_plugin_api::RunOutcome;

use super::{SinkSubject, subject::Stored};
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
    rows_and_files(subject, |[_, finished], logged| finished.verdict(logged))
}

pub(super) fn survives(subject: &SinkSubject) -> CheckResult {
    rows_and_files(subject, |[logged_only, finished], logged| {
        let Some(form) = finished.form(logged) else { return Ok(Verdict::Warned(UNSEEN.into())) };
        let missing = |found: &Found| logged.iter().filter(|one| !found.holds(form, one)).count() as u64;
        let late = missing(logged_only).saturating_sub(missing(finished));
        if late <= finished.broken {
            return Ok(Verdict::Passed);
        }
        let of = format!("{late} of {} values are not in the files when `log` returns", logged.len());
        Err(format!("{of}, only after `state` and `finish`: a crash of the process loses them"))
    })
}

/// The verdict on the files of a run of many rows: as they are after the last `log`, and at the end.
fn rows_and_files(
    subject: &SinkSubject,
    verdict: impl FnOnce([&Found; 2], &[Logged]) -> CheckResult,
) -> CheckResult {
    let logged = values();
    let scratch = subject.scratch()?;
    let mut sink = subject.opened(&scratch)?;
    for row in logged.chunk_by(|a, b| a.step == b.step) {
        let values: Vec<(&str, f64)> = row.iter().map(|logged| (logged.metric, logged.value)).collect();
        sink.log(row[0].step, &values)?;
    }
    let look = || {
        let found = Found::of(&scratch.run());
        let found = found.map_err(|error| format!("the run folder cannot be read ({error})"))?;
        Ok::<_, String>(Found { stored: subject.stored(&scratch.run())?, ..found })
    };
    let logged_only = look()?;
    sink.state()?;
    sink.finish(RunOutcome::COMPLETED)?;
    drop(sink);
    scratch.closed(verdict([&logged_only, &look()?], &logged))
}

/// The warning where nothing can be seen.
const UNSEEN: &str = "no file of the run folder holds the values in a form that is known: lost and rounded values are not seen";

/// The form in which files hold values.
#[derive(Clone, Copy)]
enum Form {
    /// As the sink reads it.
    Stored,
    Text,
    Bytes,
}

/// The numbers of all files.
#[derive(Default)]
struct Found {
    /// As the sink reads them.
    stored: Option<Stored>,
    /// Written with digits, by their bits.
    written: BTreeSet<u64>,
    /// Bits that are four or eight bytes of a binary file, the latter in either order.
    singles: BTreeSet<u32>,
    doubles: BTreeSet<u64>,
    /// Values that may be broken by the form of binary logs.
    broken: u64,
}

impl Found {
    fn of(folder: &Path) -> io::Result<Self> {
        let mut found = Self::default();
        found.look(folder)?;
        Ok(found)
    }

    fn look(&mut self, folder: &Path) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                self.look(&path)?;
            } else {
                self.add(&fs::read(path)?);
            }
        }
        Ok(())
    }

    fn add(&mut self, bytes: &[u8]) {
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
                    let both = [f64::from_le_bytes(eight), f64::from_be_bytes(eight)];
                    let numbers = both.into_iter().filter(|double| (1.0..=2.0).contains(double));
                    self.doubles.extend(numbers.map(f64::to_bits));
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

    /// True if a number of this form equals this one except for its last digits. Positive numbers compare like their
    /// bits.
    fn roughly(&self, form: Form, one: &Logged) -> bool {
        let (value, apart) = (one.value, 0.05 / (3.0 * ROWS as f64));
        let range = (value - apart).to_bits()..=(value + apart).to_bits();
        let numbers = match form {
            Form::Stored => return self.read(one).iter().any(|read| (read - value).abs() <= apart),
            Form::Text => &self.written,
            Form::Bytes => &self.doubles,
        };
        numbers.range(range).next().is_some()
    }

    /// The values that the sink reads in the place of this one.
    fn read(&self, one: &Logged) -> &[f64] {
        let key = (one.step, one.metric.to_string());
        self.stored.as_ref().and_then(|stored| stored.get(&key)).map_or(&[], Vec::as_slice)
    }

    /// True if the value is there with all its digits; as f32 if files hold those.
    fn holds(&self, form: Form, one: &Logged) -> bool {
        match form {
            Form::Stored => self.read(one) == [one.value],
            Form::Text => self.written.contains(&one.value.to_bits()),
            Form::Bytes => {
                self.singles.contains(&(one.value as f32).to_bits())
                    || self.doubles.contains(&one.value.to_bits())
            }
        }
    }

    /// The form in which files hold values, if it is known.
    fn form(&self, logged: &[Logged]) -> Option<Form> {
        if self.stored.is_some() {
            return Some(Form::Stored);
        }
        let is_held = |form: Form| {
            let held = |one: &&Logged| self.roughly(form, one) || self.holds(form, one);
            logged.iter().filter(held).count() as f64 >= HELD * logged.len() as f64
        };
        [Form::Text, Form::Bytes].into_iter().find(|&form| is_held(form))
    }

    fn verdict(&self, logged: &[Logged]) -> CheckResult {
        let Some(form) = self.form(logged) else { return Ok(Verdict::Warned(UNSEEN.into())) };
        let missing: Vec<&Logged> = logged.iter().filter(|one| !self.holds(form, one)).collect();
        match missing.first() {
            Some(first) if missing.len() as u64 > self.broken => {
                let how = if self.roughly(form, first) { "only rounded" } else { "not there" };
                let (step, metric, value) = (first.step, first.metric, first.value);
                let of = format!("{} of {} values are missing in the files", missing.len(), logged.len());
                Err(format!("{of}: the first, `{metric}` of step {step}, {value}, is {how}"))
            }
            _ => Ok(Verdict::Passed),
        }
    }
}
