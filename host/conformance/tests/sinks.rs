//! The suite of sinks on a correct sink, and on sinks with one fault each, which the checks must find.

#![allow(clippy::unwrap_used)]

use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
};

use altgrad_conformance::sinks;
use altgrad_plugin_api::{Config, Descriptor, ErrorKind, Metric, PluginError, RunInfo, RunOutcome, Sink};

/// Faults of the sink.
const SOUND: u8 = 0;
const REPEATS: u8 = 1;
const FORGETS: u8 = 2;
const BESIDE: u8 = 3;
const NAN: u8 = 4;
const EAGER: u8 = 5;
const NAMES: u8 = 6;

/// A line a value, `step value`.
struct Lines<const FAULT: u8> {
    file: Option<File>,
}

fn begin(path: PathBuf, resume_step: Option<u64>, fault: u8) -> Result<File, PluginError> {
    let old =
        if resume_step.is_some() { fs::read_to_string(&path).unwrap_or_default() } else { String::new() };
    let before = |line: &&str| line.split(' ').next().and_then(|step| step.parse().ok()) < resume_step;
    let kept: Vec<&str> = match fault {
        REPEATS => old.lines().collect(),
        FORGETS => Vec::new(),
        _ => old.lines().filter(before).collect(),
    };
    let mut file = File::create(path)?;
    kept.iter().try_for_each(|line| writeln!(file, "{line}"))?;
    Ok(file)
}

impl<const FAULT: u8> Sink for Lines<FAULT> {
    const DESCRIPTOR: Descriptor = Descriptor::sink("lines", "1.0.0", "A line a value");

    fn new(_: &Config) -> Result<Self, PluginError> {
        Ok(Self { file: None })
    }

    fn open(&mut self, run: &RunInfo<'_>) -> Result<(), PluginError> {
        let folder = Path::new(run.folder.as_str());
        if FAULT == BESIDE {
            let beside = folder.parent().unwrap().join("all_runs.txt");
            OpenOptions::new().create(true).append(true).open(beside)?.write_all(b"one more")?;
        }
        self.file = Some(begin(folder.join("lines.txt"), run.resume_step.into_option(), FAULT)?);
        Ok(())
    }

    fn log(&mut self, step: u64, metrics: &[Metric<'_>]) -> Result<(), PluginError> {
        let Some(file) = &mut self.file else {
            assert!(FAULT != EAGER, "not open");
            return Err(PluginError::new(ErrorKind::OTHER, "not open"));
        };
        for metric in metrics {
            assert!(!(FAULT == NAN && metric.value.is_nan()), "a NaN");
            if FAULT == NAMES && metric.name.name.contains('"') {
                return Err(PluginError::new(ErrorKind::VALUE, "a strange name"));
            }
            writeln!(file, "{step} {:?}", metric.value)?;
        }
        Ok(())
    }

    fn finish(&mut self, _: RunOutcome) -> Result<(), PluginError> {
        self.file = None;
        Ok(())
    }
}

/// The checks that fail.
fn failing<const FAULT: u8>() -> Vec<&'static str> {
    let checks = sinks::checks().iter().map(|check| check.name);
    checks.filter(|name| sinks::run_on::<Lines<FAULT>>(name).is_err()).collect()
}

#[test]
fn a_sound_sink_passes_and_each_fault_is_found_by_the_checks_for_it() {
    assert_eq!(failing::<SOUND>(), [""; 0]);
    assert_eq!(failing::<REPEATS>(), ["resume", "resume_again", "random_lives"]);
    assert_eq!(failing::<FORGETS>(), ["resume", "resume_again", "random_lives"]);
    let beside = failing::<BESIDE>();
    assert!(beside.contains(&"life") && beside.contains(&"resume"), "{beside:?}");
    assert_eq!(failing::<NAN>(), ["odd_values"]);
    assert_eq!(failing::<EAGER>(), ["wrong_order", "no_folder"]);
    assert_eq!(failing::<NAMES>(), ["odd_names", "random_lives"]);
}

#[test]
fn a_failure_names_the_step_and_the_file() {
    let fault = sinks::run_on::<Lines<REPEATS>>("resume").unwrap_err();
    assert!(fault.contains("resumed at step 0 of 10: \"lines.txt\" still has the row"), "{fault}");
    let fault = sinks::run_on::<Lines<FORGETS>>("random_lives").unwrap_err();
    assert!(fault.starts_with("seed ") && fault.contains("is 0 times in \"lines.txt\""), "{fault}");
}
