//! The suite of sinks on correct sinks, of text and of binary files, and on sinks with one fault each, which the checks
//! must find or say that they cannot see.

#![allow(clippy::unwrap_used)]

use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
};

use altgrad_conformance::{Verdict, sinks};
use altgrad_plugin_api::{
    Config, Descriptor, ErrorKind, Metric, OptionSpec, PluginError, RunInfo, RunOutcome, Sink, StoredValue,
    texts,
};

/// Faults of the sink.
const SOUND: u8 = 0;
const REPEATS: u8 = 1;
const FORGETS: u8 = 2;
const BESIDE: u8 = 3;
const NAN: u8 = 4;
const EAGER: u8 = 5;
const NAMES: u8 = 6;
const LATE: u8 = 7;
const BY_CHOICE: u8 = 8;
const ROUNDS: u8 = 9;
const SHIFTS: u8 = 10;

/// A line a value, `step value`.
struct Lines<const FAULT: u8> {
    file: Option<File>,
    late: Vec<u8>,
    brief: bool,
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
    const DESCRIPTOR: Descriptor = Descriptor::sink("lines", "1.0.0", "A line a value")
        .options(&[OptionSpec::text("style", "long").choices(texts!["long", "brief"])]);

    fn new(config: &Config) -> Result<Self, PluginError> {
        Ok(Self { file: None, late: Vec::new(), brief: config.text("style")? == "brief" })
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
            assert!(!(FAULT == BY_CHOICE && self.brief), "not written yet");
            let line = format!("{step} {:?}\n", metric.value);
            if FAULT == LATE {
                self.late.extend(line.into_bytes());
            } else {
                file.write_all(line.as_bytes())?;
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<u8>, PluginError> {
        let late = std::mem::take(&mut self.late);
        self.file.as_mut().map_or(Ok(()), |file| file.write_all(&late))?;
        Ok(Vec::new())
    }

    fn finish(&mut self, _: RunOutcome) -> Result<(), PluginError> {
        self.state()?;
        self.file = None;
        Ok(())
    }
}

/// Numbers as databases store them: the step and the value of each metric, 8 bytes each, most significant first. With
/// `READS` the sink has a table of the metrics' names too, and reads itself.
struct Pages<const FAULT: u8, const READS: bool = false> {
    file: Option<File>,
    names: PathBuf,
    late: Vec<u8>,
}

impl<const FAULT: u8, const READS: bool> Sink for Pages<FAULT, READS> {
    const DESCRIPTOR: Descriptor = Descriptor::sink("pages", "1.0.0", "16 bytes a value");

    fn new(_: &Config) -> Result<Self, PluginError> {
        Ok(Self { file: None, names: PathBuf::new(), late: Vec::new() })
    }

    fn open(&mut self, run: &RunInfo<'_>) -> Result<(), PluginError> {
        let path = Path::new(run.folder.as_str()).join("pages.db");
        self.names = path.with_extension("names");
        let old = if run.resume_step.is_some() { fs::read(&path).unwrap_or_default() } else { Vec::new() };
        // The fault keeps one step too many.
        let end = run.resume_step.unwrap_or(0) + u64::from(FAULT == REPEATS);
        let step = |row: &[u8]| row[..8].try_into().map_or(u64::MAX, u64::from_be_bytes);
        let kept: Vec<u8> = old.chunks_exact(16).filter(|row| step(row) < end).flatten().copied().collect();
        fs::write(&path, [b"\xff".repeat(16), kept].concat())?;
        self.file = Some(OpenOptions::new().append(true).open(path)?);
        Ok(())
    }

    fn log(&mut self, step: u64, metrics: &[Metric<'_>]) -> Result<(), PluginError> {
        // The fault counts steps from 1.
        let step = step + u64::from(FAULT == SHIFTS);
        for metric in metrics {
            let value = if FAULT == ROUNDS { f64::from(metric.value as f32) } else { metric.value };
            self.late.extend([step.to_be_bytes(), value.to_be_bytes()].concat());
            if READS {
                let mut names = OpenOptions::new().create(true).append(true).open(&self.names)?;
                names.write_all(
                    format!("{step}\t{:016x}\t{:?}\n", value.to_bits(), metric.name.name.as_str()).as_bytes(),
                )?;
            }
        }
        if FAULT == LATE { Ok(()) } else { self.state().map(drop) }
    }

    fn state(&mut self) -> Result<Vec<u8>, PluginError> {
        let late = std::mem::take(&mut self.late);
        let closed = || PluginError::new(ErrorKind::OTHER, "not open");
        self.file.as_mut().ok_or_else(closed)?.write_all(&late)?;
        Ok(Vec::new())
    }

    fn finish(&mut self, _: RunOutcome) -> Result<(), PluginError> {
        self.state()?;
        self.file = None;
        Ok(())
    }

    fn read_back(&self, folder: &Path) -> Result<Option<Vec<StoredValue>>, PluginError> {
        if !READS {
            return Ok(None);
        }
        let names = fs::read_to_string(folder.join("pages.names")).unwrap_or_default();
        let rows = fs::read(folder.join("pages.db")).unwrap_or_default();
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_be_bytes);
        let name = |step: u64, bits: u64| {
            let start = format!("{step}\t{bits:016x}\t");
            let line = names.lines().find_map(|line| line.strip_prefix(&start));
            line.unwrap_or("\"\"").trim_matches('"').into()
        };
        let read = rows.chunks_exact(16).skip(1).map(|row| {
            let (step, bits) = (number(&row[..8]), number(&row[8..]));
            StoredValue { step, name: name(step, bits), value: f64::from_bits(bits) }
        });
        Ok(Some(read.collect()))
    }
}

/// Writes nothing.
struct Nothing;

impl Sink for Nothing {
    const DESCRIPTOR: Descriptor = Descriptor::sink("nothing", "1.0.0", "Elsewhere");

    fn new(_: &Config) -> Result<Self, PluginError> {
        Ok(Self)
    }

    fn open(&mut self, _: &RunInfo<'_>) -> Result<(), PluginError> {
        Ok(())
    }

    fn log(&mut self, _: u64, _: &[Metric<'_>]) -> Result<(), PluginError> {
        Ok(())
    }

    fn finish(&mut self, _: RunOutcome) -> Result<(), PluginError> {
        Ok(())
    }
}

/// The checks that fail on the sink of lines.
fn failing<const FAULT: u8>() -> Vec<&'static str> {
    failing_of::<Lines<FAULT>>()
}

fn failing_of<S: Sink>() -> Vec<&'static str> {
    let checks = sinks::checks().iter().map(|check| check.name);
    checks.filter(|name| sinks::run_on::<S>(name).is_err()).collect()
}

/// The checks that say that they cannot see everything.
fn warning<S: Sink>() -> Vec<&'static str> {
    let subject = sinks::SinkSubject::of::<S>().unwrap();
    let warns = |check: &&altgrad_conformance::Check<sinks::SinkSubject>| {
        matches!((check.run)(&subject), Ok(Verdict::Warned(_)))
    };
    sinks::checks().iter().filter(warns).map(|check| check.name).collect()
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
    assert_eq!(failing::<LATE>(), ["survives"]);
    assert_eq!(failing::<BY_CHOICE>(), ["choices"]);
    assert_eq!(warning::<Lines<SOUND>>(), [""; 0]);
}

/// Everything is seen of a sink that reads its files.
#[test]
fn a_sink_that_reads_its_files_is_checked_as_one_of_text() {
    let of_files = ["resume", "resume_again", "random_lives"];
    assert_eq!(failing_of::<Pages<SOUND, true>>(), [""; 0]);
    assert_eq!(warning::<Pages<SOUND, true>>(), [""; 0]);
    // The rows from the step at which the run resumes are not deleted.
    assert_eq!(failing_of::<Pages<REPEATS, true>>(), of_files);
    // The values of the other checks are no f32.
    assert_eq!(failing_of::<Pages<ROUNDS, true>>(), [&["kept_values"][..], &of_files].concat());
    let fault = sinks::run_on::<Pages<ROUNDS, true>>("kept_values").unwrap_err();
    assert!(
        fault.contains("`grad_norm_l2/h.0.attn.c_attn.weight` of step 0")
            && fault.ends_with("is only rounded")
    );
    // Rows that are not committed, which a reader does not see.
    assert_eq!(failing_of::<Pages<LATE, true>>(), ["survives"]);
    let fault = sinks::run_on::<Pages<REPEATS, true>>("resume").unwrap_err();
    assert!(fault.contains("`read_back` has ["), "{fault}");
    assert_eq!(failing_of::<Pages<SHIFTS, true>>(), [&["kept_values"][..], &of_files].concat());
}

/// Values are seen in binary files too; what is deleted there is not.
#[test]
fn what_cannot_be_seen_is_a_warning() {
    assert_eq!(failing_of::<Pages<SOUND>>(), [""; 0]);
    assert_eq!(failing_of::<Pages<ROUNDS>>(), ["kept_values"]);
    assert_eq!(failing_of::<Pages<LATE>>(), ["survives"]);
    let of_files = ["resume", "resume_again", "random_lives"];
    assert_eq!(warning::<Pages<REPEATS>>(), of_files);
    assert_eq!(warning::<Pages<SOUND>>(), of_files);
    assert_eq!(warning::<Nothing>(), [&["kept_values", "survives"][..], &of_files].concat());
}

#[test]
fn a_failure_names_the_step_and_the_file() {
    let fault = sinks::run_on::<Lines<REPEATS>>("resume").unwrap_err();
    assert!(fault.contains("resumed at step 0 of 10: \"lines.txt\" still has the row"), "{fault}");
    let fault = sinks::run_on::<Lines<FORGETS>>("random_lives").unwrap_err();
    assert!(fault.starts_with("seed ") && fault.contains("is 0 times in \"lines.txt\""), "{fault}");
}
