//! The sink through its trait, its files read back by a reader of these tests, with checksums and the purge at starts.
//!
//! TensorBoard's own reader is used in `tests/end-to-end/tests/sinks/tensorboard.rs`.
#![allow(clippy::unwrap_used)]

use std::{fs, io};

use altgrad_plugin_api::{AlertLevel, ConfigValue, MetricName};
use prost::Message;
use tempfile::TempDir;

use super::*;

altgrad_conformance::sink_suite!(TensorBoard);

fn new_sink(folder: &str) -> Result<TensorBoard, PluginError> {
    let given = [("folder".to_string(), ConfigValue::Text(folder.into()))];
    TensorBoard::new(&Config::resolve(&TensorBoard::DESCRIPTOR.options, given).unwrap())
}

fn open(folder: &Path, resume_step: Option<u64>) -> Result<TensorBoard, PluginError> {
    let mut sink = new_sink(".")?;
    sink.open(&RunInfo {
        name: "run".into(),
        folder: folder.to_str().unwrap().into(),
        config_toml: "[run]\nname = \"x\"\n".into(),
        metrics: [].as_slice().into(),
        resume_step: resume_step.into(),
        state: [].as_slice().into(),
    })?;
    Ok(sink)
}

fn log(sink: &mut TensorBoard, step: u64, name: &str, value: f64) {
    let name = MetricName { name: name.into(), timing: false };
    sink.log(step, &[Metric { name, value }]).unwrap();
}

/// The folder's event files in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Whole events of a file, and their length in bytes.
fn events(bytes: &[u8]) -> (Vec<Event>, usize) {
    let (mut events, mut at) = (Vec::new(), 0);
    let mut one = || -> io::Result<usize> {
        let rest = &bytes[at..];
        let end = || io::Error::other("torn");
        let length = rest.get(..8).ok_or_else(end)?;
        let bytes = u64::from_le_bytes(length.try_into().unwrap()) as usize;
        let event = rest.get(12..12 + bytes).ok_or_else(end)?;
        let sums = [rest.get(8..12), rest.get(12 + bytes..16 + bytes)];
        for (sum, of) in sums.into_iter().zip([length, event]) {
            let sum = u32::from_le_bytes(sum.ok_or_else(end)?.try_into().unwrap());
            assert_eq!(sum, crc32c::crc32c(of).rotate_right(15).wrapping_add(0xa282_ead8));
        }
        events.push(Event::decode(event).unwrap());
        at += 16 + bytes;
        Ok(at)
    };
    while one().is_ok() {}
    (events, at)
}

/// The values that a reader shows: step, tag and content, after the purges.
fn shown(folder: &Path) -> Vec<(i64, String, Content)> {
    let mut shown: Vec<(i64, String, Content)> = Vec::new();
    for file in files(folder) {
        let (events, _) = events(&fs::read(file).unwrap());
        // A file is empty until its first row.
        if let Some(first) = events.first() {
            assert_eq!(first.what, Some(What::FileVersion("brain.Event:2".into())));
        }
        for event in events {
            match event.what {
                Some(What::SessionLog(_)) => shown.retain(|(step, ..)| *step < event.step),
                Some(What::Summary(summary)) => {
                    let values =
                        summary.value.into_iter().filter(|value| !value.tag.starts_with("_hparams_/"));
                    shown.extend(values.map(|value| (event.step, value.tag, value.content.unwrap())));
                }
                _ => {}
            }
        }
    }
    shown
}

/// Steps of a tag.
fn steps(folder: &Path, tag: &str) -> Vec<i64> {
    shown(folder).into_iter().filter(|(_, found, _)| found == tag).map(|(step, ..)| step).collect()
}

/// The first bytes of every event file there is: 24, and its checksum.
#[test]
fn a_file_begins_as_tensorboards_own() {
    let folder = TempDir::new().unwrap();
    log(&mut open(folder.path(), None).unwrap(), 0, "x", 0.0);
    let bytes = fs::read(&files(folder.path())[0]).unwrap();
    assert_eq!(bytes[..12], [0x18, 0, 0, 0, 0, 0, 0, 0, 0xa3, 0x7f, 0x4b, 0x22]);
    assert_eq!((bytes[12], &bytes[21..36]), (9, &b"\x1a\x0dbrain.Event:2"[..]));
}

#[test]
fn everything_is_in_the_file_when_the_call_returns() {
    let folder = TempDir::new().unwrap();
    let mut sink = open(folder.path(), None).unwrap();
    log(&mut sink, 0, "train/loss", f64::NAN);
    log(&mut sink, 3, "a, \"b\"/ä", 0.1);
    let (edges, counts) = ([-1.0, 0.0, 2.0, f64::INFINITY], [0, 3, 1]);
    let (edges, counts) = (edges.as_slice().into(), counts.as_slice().into());
    sink.histogram(3, &Histogram { name: "h".into(), edges, counts }).unwrap();
    let (level, kind) = (AlertLevel::WARN, "overflow".into());
    sink.alert(&Alert { step: 3, level, kind, text: "look".into() }).unwrap();
    let name = MetricName { name: "final/loss".into(), timing: false };
    sink.summary(&[Metric { name, value: 2.0 }]).unwrap();
    let shown = shown(folder.path());
    let tags: Vec<(i64, &str)> = shown.iter().map(|(step, tag, _)| (*step, tag.as_str())).collect();
    let expected = [
        (0, "config"),
        (0, "train/loss"),
        (3, "a, \"b\"/ä"),
        (3, "h"),
        (3, "alerts/overflow"),
        (3, "final/loss"),
    ];
    assert_eq!(tags, expected);
    assert!(
        matches!(&shown[0].2, Content::Tensor(text) if text.string_val == [b"    [run]\n    name = \"x\"\n"])
    );
    assert!(matches!(shown[1].2, Content::Scalar(value) if value.is_nan()));
    assert_eq!(shown[2].2, Content::Scalar(0.1));
    let histogram = proto::Histogram {
        min: 0.0,
        max: f64::INFINITY,
        num: 4.0,
        sum: 5.0,
        sum_squares: 7.0,
        bucket_limit: vec![0.0, 2.0, f64::INFINITY],
        bucket: vec![0.0, 3.0, 1.0],
    };
    assert_eq!(shown[3].2, Content::Histogram(histogram));
    assert!(matches!(&shown[4].2, Content::Tensor(text) if text.string_val == [b"warn: look"]));
    sink.finish(RunOutcome::COMPLETED).unwrap();
    assert!(sink.log(4, &[]).is_err(), "the sink is closed");
}

#[test]
fn resuming_after_a_kill_at_any_byte_shows_each_step_once() {
    let folder = TempDir::new().unwrap();
    let mut sink = open(folder.path(), None).unwrap();
    (0..4).for_each(|step| log(&mut sink, step, "x", step as f64));
    drop(sink);
    let whole = fs::read(&files(folder.path())[0]).unwrap();
    let kept = {
        // Two steps, as in a checkpoint of step 2.
        let ends: Vec<usize> = (0..whole.len()).map(|end| events(&whole[..end]).1).collect();
        let ends: std::collections::BTreeSet<usize> = ends.into_iter().collect();
        *ends.iter().nth(5).unwrap()
    };
    for end in kept..=whole.len() {
        let torn = TempDir::new().unwrap();
        fs::write(torn.path().join(files(folder.path())[0].file_name().unwrap()), &whole[..end]).unwrap();
        let mut sink = open(torn.path(), Some(2)).unwrap();
        (2..5).for_each(|step| log(&mut sink, step, "x", 10.0 + step as f64));
        drop(sink);
        // Once more in the same second, and from the beginning of the resumed run's file.
        let mut sink = open(torn.path(), Some(3)).unwrap();
        (3..5).for_each(|step| log(&mut sink, step, "x", 20.0 + step as f64));
        assert_eq!(files(torn.path()).len(), 3);
        assert_eq!(steps(torn.path(), "x"), [0, 1, 2, 3, 4], "cut to {end} bytes");
        assert_eq!(steps(torn.path(), "config"), [0, 2, 3]);
        let last = shown(torn.path()).pop().unwrap();
        assert_eq!(last.2, Content::Scalar(24.0));
    }
}

#[test]
fn a_resume_that_fails_before_its_first_row_changes_nothing() {
    let folder = TempDir::new().unwrap();
    let mut sink = open(folder.path(), None).unwrap();
    (0..4).for_each(|step| log(&mut sink, step, "x", step as f64));
    sink.finish(RunOutcome::INTERRUPTED).unwrap();
    let mut sink = open(folder.path(), Some(2)).unwrap();
    assert_eq!(steps(folder.path(), "x"), [0, 1, 2, 3], "a resumed run is open, and may be refused yet");
    sink.finish(RunOutcome::FAILED).unwrap();
    assert_eq!(files(folder.path()).len(), 1);
    // One that ends otherwise has accepted that the steps are gone; one that fails later has rows.
    open(folder.path(), Some(3)).unwrap().finish(RunOutcome::INTERRUPTED).unwrap();
    assert_eq!(steps(folder.path(), "x"), [0, 1, 2]);
    let mut sink = open(folder.path(), Some(2)).unwrap();
    log(&mut sink, 2, "x", 5.0);
    sink.finish(RunOutcome::FAILED).unwrap();
    assert_eq!(steps(folder.path(), "x"), [0, 1, 2]);
    open(folder.path(), Some(1)).unwrap().state().unwrap();
    assert_eq!(steps(folder.path(), "x"), [0], "a checkpoint forgets the steps that come again");
}

/// TensorBoard keeps the first end of a run.
#[test]
fn only_a_completed_run_ends_its_session() {
    let ends = |outcome| {
        let folder = TempDir::new().unwrap();
        let mut sink = open(folder.path(), None).unwrap();
        log(&mut sink, 0, "x", 0.0);
        sink.finish(outcome).unwrap();
        let (events, _) = events(&fs::read(&files(folder.path())[0]).unwrap());
        let values = events.into_iter().filter_map(|event| match event.what {
            Some(What::Summary(summary)) => Some(summary.value),
            _ => None,
        });
        values.flatten().filter(|value| value.tag == "_hparams_/session_end_info").count()
    };
    let all = [RunOutcome::COMPLETED, RunOutcome::INTERRUPTED, RunOutcome::FAILED];
    assert_eq!(all.map(ends), [1, 0, 0]);
}

#[test]
fn two_sinks_do_not_share_a_folder_and_stay_inside_the_run_folder() {
    let folder = TempDir::new().unwrap();
    let first = open(folder.path(), None).unwrap();
    let error = open(folder.path(), Some(0)).unwrap_err();
    assert!(error.message.ends_with(".altgrad`: in use by another sink or run"), "{error}");
    drop(first);
    assert!(open(folder.path(), Some(0)).is_ok());
    for outside in ["/tmp", "..", "a/../.."] {
        assert_eq!(new_sink(outside).unwrap_err().kind, ErrorKind::CONFIG, "{outside}");
    }
    assert_eq!(new_sink("./a/b").unwrap().folder, Path::new("a/b"));
}
