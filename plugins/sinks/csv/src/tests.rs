//! The sink through its trait, on real files.
#![allow(clippy::unwrap_used)]

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::MetadataExt,
};

use altgrad_plugin_api::ConfigValue;
use tempfile::TempDir;

use super::*;

altgrad_conformance::sink_suite!(CsvSink);

fn new_sink(options: &[(&str, &str)]) -> Result<CsvSink, PluginError> {
    let given = options.iter().map(|&(name, value)| (name.to_string(), ConfigValue::Text(value.into())));
    CsvSink::new(&Config::resolve(&CsvSink::DESCRIPTOR.options, given).unwrap())
}

/// `t/` marks a timing metric.
fn name(name: &str) -> MetricName<'_> {
    MetricName { name: name.into(), timing: name.starts_with("t/") }
}

fn open(folder: &TempDir, metrics: &[&str], resume_step: Option<u64>) -> Result<CsvSink, PluginError> {
    open_from(folder, metrics, resume_step, &[])
}

fn open_from(
    folder: &TempDir,
    metrics: &[&str],
    resume_step: Option<u64>,
    state: &[u8],
) -> Result<CsvSink, PluginError> {
    let mut sink = new_sink(&[])?;
    let metrics: Vec<MetricName> = metrics.iter().map(|&metric| name(metric)).collect();
    sink.open(&RunInfo {
        name: "run".into(),
        folder: folder.path().to_str().unwrap().into(),
        config_toml: "".into(),
        metrics: metrics.as_slice().into(),
        resume_step: resume_step.into(),
        state: state.into(),
    })?;
    Ok(sink)
}

fn log(sink: &mut CsvSink, step: u64, row: &[(&str, f64)]) -> Result<(), PluginError> {
    let row: Vec<Metric> = row.iter().map(|&(metric, value)| Metric { name: name(metric), value }).collect();
    sink.log(step, &row)
}

fn text(folder: &TempDir, file: &str) -> String {
    fs::read_to_string(folder.path().join(file)).unwrap()
}

fn metrics_after(before: &str, resume_step: Option<u64>) -> Result<String, PluginError> {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("metrics.csv"), before).unwrap();
    let mut sink = open(&folder, &["a", "b"], resume_step)?;
    log(&mut sink, 7, &[("b", 9.0)])?;
    Ok(text(&folder, "metrics.csv"))
}

#[test]
fn a_row_is_in_the_file_when_log_returns() {
    let folder = TempDir::new().unwrap();
    let mut sink = open(&folder, &["train/loss", "t/step_ms", "train/lr"], None).unwrap();
    assert_eq!(text(&folder, "metrics.csv"), "step,train/loss,train/lr\n");
    log(&mut sink, 0, &[("train/loss", 10.5), ("t/step_ms", 3.0), ("train/lr", 1e-7)]).unwrap();
    assert_eq!(text(&folder, "metrics.csv"), "step,train/loss,train/lr\n0,10.5,1e-7\n");
    assert_eq!(text(&folder, "timings.csv"), "step,t/step_ms\n0,3.0\n");
    log(&mut sink, 1, &[("train/lr", 0.1 + 0.2)]).unwrap();
    sink.finish(RunOutcome::COMPLETED).unwrap();
    let rows = "0,10.5,1e-7\n1,,0.30000000000000004\n";
    assert_eq!(text(&folder, "metrics.csv"), format!("step,train/loss,train/lr\n{rows}"));
    assert_eq!(text(&folder, "timings.csv"), "step,t/step_ms\n0,3.0\n1,\n");
    assert!(log(&mut sink, 2, &[]).is_err(), "the sink is closed");
}

#[test]
fn values_read_back_bit_for_bit() {
    let folder = TempDir::new().unwrap();
    let values = [f64::MIN_POSITIVE, 5e-324, f64::MAX, -0.0, 1.0 / 3.0, f64::INFINITY, f64::NEG_INFINITY];
    let mut sink = open(&folder, &["x"], None).unwrap();
    for (step, &value) in values.iter().enumerate() {
        log(&mut sink, step as u64, &[("x", value)]).unwrap();
    }
    log(&mut sink, 99, &[("x", f64::NAN)]).unwrap();
    let text = text(&folder, "metrics.csv");
    let cells: Vec<&str> = text.lines().skip(1).map(|line| line.split_once(',').unwrap().1).collect();
    for (cell, value) in cells.iter().zip(values) {
        assert_eq!(cell.parse::<f64>().unwrap().to_bits(), value.to_bits(), "{cell}");
    }
    assert_eq!(cells[5..], ["inf", "-inf", "NaN"]);
}

#[test]
fn a_new_metric_adds_a_column_and_loses_no_row() {
    let folder = TempDir::new().unwrap();
    let mut sink = open(&folder, &["a"], None).unwrap();
    log(&mut sink, 0, &[("a", 1.0)]).unwrap();
    log(&mut sink, 1, &[("with, comma", 2.0), ("a", 3.0)]).unwrap();
    log(&mut sink, 2, &[("a", 4.0), ("t/late", 5.0)]).unwrap();
    assert_eq!(text(&folder, "metrics.csv"), "step,a,\"with, comma\"\n0,1.0,\n1,3.0,2.0\n2,4.0,\n");
    assert_eq!(text(&folder, "timings.csv"), "step,t/late\n0,\n1,\n2,5.0\n");
    let files = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(files, 4, "nothing is left beside the four files");
}

#[test]
fn resuming_keeps_earlier_rows_and_drops_later_and_torn_ones() {
    let rows = [
        ("step,a,b\n5,1.0,2.0\n6,1.5,\n7,0.0,0.0\n8,0.0,0.0\n", "step,a,b\n5,1.0,2.0\n6,1.5,\n7,,9.0\n"),
        ("step,a,b\n6,1.5,2.25\n7,0.0,0.", "step,a,b\n6,1.5,2.25\n7,,9.0\n"),
        // Torn within a kept step: values that were not accepted are not kept either.
        ("step,a,b\n5,1.0,2.0\n6,1.5,2.2", "step,a,b\n5,1.0,2.0\n7,,9.0\n"),
        ("step,old,a\n6,1.0,2.0\n", "step,old,a,b\n6,1.0,2.0,\n7,,,9.0\n"),
        ("step,a", "step,a,b\n7,,9.0\n"),
        ("", "step,a,b\n7,,9.0\n"),
        // Torn within a name that contains a line break.
        ("step,\"x\n", "step,a,b\n7,,9.0\n"),
    ];
    for (before, expected) in rows {
        assert_eq!(metrics_after(before, Some(7)).unwrap(), expected, "{before:?}");
    }
    assert_eq!(metrics_after("step,a,b\n5,1.0,2.0\n", None).unwrap(), "step,a,b\n7,,9.0\n");
    let folder = TempDir::new().unwrap();
    log(&mut open(&folder, &["a"], Some(7)).unwrap(), 7, &[("a", 1.0)]).unwrap();
    assert_eq!(text(&folder, "metrics.csv"), "step,a\n7,1.0\n", "no file to resume from");
}

#[test]
fn faults_name_the_file() {
    let rows = [
        ("time,a\n1,2\n", "not a file of this sink: its first column is not `step`"),
        ("step,a\n1,2,3\n", "line 2 has 3 cells where the header has 2"),
        ("step,a\n1,2\nx,3\n", "line 3: `x` is not a step"),
    ];
    for (before, expected) in rows {
        let error = metrics_after(before, Some(7)).unwrap_err();
        assert!(error.message.contains("metrics.csv`: ") && error.message.contains(expected), "{error}");
        assert_eq!(error.kind, ErrorKind::IO);
    }
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("timings.csv")).unwrap();
    assert!(open(&folder, &[], None).unwrap_err().message.contains("timings.csv`: "));
}

#[test]
fn a_metric_called_step_is_refused() {
    let folder = TempDir::new().unwrap();
    assert_eq!(open(&folder, &["step"], None).unwrap_err().kind, ErrorKind::CONFIG);
    let folder = TempDir::new().unwrap();
    let mut sink = open(&folder, &["a"], None).unwrap();
    assert_eq!(log(&mut sink, 1, &[("step", 1.0)]).unwrap_err().kind, ErrorKind::CONFIG);
}

#[test]
fn paths_stay_inside_the_run_folder() {
    for path in ["/x.csv", "../x.csv", "a/../../x.csv", "", ".", "./"] {
        let error = new_sink(&[("path", path)]).unwrap_err();
        assert!(error.message.starts_with("`path` must "), "{path}: {error}");
        assert!(error.message.ends_with(&format!(", found `{path}`")), "{path}: {error}");
    }
    let same = new_sink(&[("path", "a/m.csv"), ("timings_path", "./a/./m.csv")]).unwrap_err();
    assert_eq!(same.message, "`path` and `timings_path` are the same file, `a/m.csv`");
    assert_eq!(new_sink(&[("path", "./a/m.csv")]).unwrap().paths[0], Path::new("a/m.csv"));
}

const LAYERS: [&str; 4] = ["loss", "n/h.0.weight", "q/sqnr/wte.weight", "n/wte.weight"];

#[test]
fn values_of_layers_are_rows_of_a_table_of_their_own() {
    let folder = TempDir::new().unwrap();
    let mut sink = open(&folder, &LAYERS, None).unwrap();
    let header = "step,layer,metric,value\n";
    assert_eq!(text(&folder, "layers.csv"), header);
    log(&mut sink, 0, &[("n/wte.weight", 1.0), ("q/sqnr/h.0.weight", 3.0)]).unwrap();
    log(&mut sink, 1, &[("loss", 0.5)]).unwrap();
    log(&mut sink, 2, &[("n/h.0.weight", f64::NAN), ("new/a, \"b.c\"", 4.0)]).unwrap();
    let first = "0,wte.weight,n,1.0\n0,h.0.weight,q/sqnr,3.0\n";
    let rest = "2,h.0.weight,n,NaN\n2,\"a, \"\"b.c\"\"\",new,4.0\n";
    assert_eq!(text(&folder, "layers.csv"), format!("{header}{first}{rest}"));
    assert_eq!(text(&folder, "metrics.csv"), "step,loss\n0,\n1,0.5\n2,\n");
    drop(sink);
    let mut sink = open(&folder, &LAYERS, Some(2)).unwrap();
    log(&mut sink, 2, &[("n/h.0.weight", 5.0)]).unwrap();
    assert_eq!(text(&folder, "layers.csv"), format!("{header}{first}2,h.0.weight,n,5.0\n"));
}

#[test]
fn a_file_of_another_version_is_not_continued() {
    for (file, header) in [("layers.csv", "step,layer,n"), ("histograms.csv", "step,name,edges,counts")] {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join(file), format!("{header}\n")).unwrap();
        let error = open(&folder, &[], Some(4)).unwrap_err();
        assert!(error.message.contains(&format!("{file}`: its columns are not `step,layer,")), "{error}");
        assert_eq!(text(&folder, file), format!("{header}\n"), "nothing was touched");
    }
}

fn log_histogram(sink: &mut CsvSink, step: u64, name: &str, edges: &[f64]) {
    let counts: Vec<u64> = (1..edges.len() as u64).collect();
    let (edges, counts) = (edges.into(), counts.as_slice().into());
    sink.histogram(step, &Histogram { name: name.into(), edges, counts }).unwrap();
}

#[test]
fn a_distribution_is_a_row_unless_they_are_switched_off() {
    let folder = TempDir::new().unwrap();
    let mut sink = open(&folder, &[], None).unwrap();
    let (edges, counts) = ([f64::NEG_INFINITY, -0.5, 1e-7], [3, u64::MAX]);
    let (edges, counts) = (edges.as_slice().into(), counts.as_slice().into());
    sink.histogram(4, &Histogram { name: "w/a,b".into(), edges, counts }).unwrap();
    let header = "step,layer,name,edges,counts\n";
    let row = "4,,\"w/a,b\",-inf -0.5 1e-7,3 18446744073709551615\n";
    assert_eq!(text(&folder, "histograms.csv"), format!("{header}{row}"));
    drop(sink);
    open(&folder, &[], Some(4)).unwrap().state().unwrap();
    assert_eq!(text(&folder, "histograms.csv"), header);
}

/// The host finishes the sinks that are open if the next one cannot be opened.
#[test]
fn a_refused_run_leaves_all_rows() {
    let (folder, state) = ten_steps();
    let files = ["metrics.csv", "layers.csv", "timings.csv", "histograms.csv"];
    let before = files.map(|file| text(&folder, file));
    let columns = ["a", "late", "n/h.0.weight", "new"];
    let mut sink = open_from(&folder, &columns, Some(8), &state).unwrap();
    sink.finish(RunOutcome::FAILED).unwrap();
    assert_eq!(files.map(|file| text(&folder, file)), before);
    let mut sink = open_from(&folder, &columns, Some(8), &state).unwrap();
    // Open, so that no other file gets its inode.
    let first = fs::File::open(folder.path().join("metrics.csv")).unwrap();
    log(&mut sink, 8, &[("a", 0.5)]).unwrap();
    let identity = |file: fs::Metadata| (file.dev(), file.ino());
    let now = fs::metadata(folder.path().join("metrics.csv")).unwrap();
    assert_ne!(identity(now), identity(first.metadata().unwrap()), "readers that follow the file");
    let metrics = text(&folder, "metrics.csv");
    assert!(
        metrics.starts_with("step,a,late,new\n") && metrics.ends_with("\n7,7.0,,\n8,0.5,,\n"),
        "{metrics}"
    );
}

/// A resumed run writes the bytes of one without a break, wherever the break is.
#[test]
fn edges_are_written_where_they_change() {
    let fixed: &[f64] = &[0.0, 1.0, 2.0];
    let rows = [
        (0, "h/a.w", fixed),
        (0, "h/b.w", fixed),
        (0, "g/a.w", &[0.5, 1.0]),
        (1, "h/a.w", fixed),
        (1, "g/a.w", &[0.5, 1.5]),
        (2, "h/b.w", &[0.0, 3.0]),
        (2, "g/a.w", &[0.5, 1.5]),
        (3, "h/a.w", fixed),
    ];
    let expected = "step,layer,name,edges,counts\n0,a.w,h,0.0 1.0 2.0,1 2\n0,b.w,h,,1 2\n0,a.w,g,0.5 1.0,1\n1,a.w,h,,1 2\n\
                    1,a.w,g,0.5 1.5,1\n2,b.w,h,0.0 3.0,1\n2,a.w,g,,1\n3,a.w,h,0.0 1.0 2.0,1 2\n";
    for resumed in 0..=4 {
        let folder = TempDir::new().unwrap();
        let mut sink = open(&folder, &[], None).unwrap();
        rows.iter().for_each(|(step, name, edges)| log_histogram(&mut sink, *step, name, edges));
        drop(sink);
        let mut sink = open(&folder, &[], Some(resumed)).unwrap();
        let again = rows.iter().filter(|(step, ..)| *step >= resumed);
        again.for_each(|(step, name, edges)| log_histogram(&mut sink, *step, name, edges));
        assert_eq!(text(&folder, "histograms.csv"), expected, "resumed at {resumed}");
    }
}

/// Killed within any byte of the last step's rows, or of the header.
#[test]
fn a_file_torn_at_any_byte_resumes() {
    let folder = TempDir::new().unwrap();
    let mut sink = open(&folder, &LAYERS, None).unwrap();
    let rows = [("loss", 1.5), ("n/h.0.weight", 2.0), ("n/a\"\n\".b", 3.0), ("q/sqnr/wte.weight", 4.0)];
    for step in 0..3 {
        log(&mut sink, step, &rows).unwrap();
    }
    drop(sink);
    for file in ["metrics.csv", "layers.csv"] {
        let whole = fs::read(folder.path().join(file)).unwrap();
        let kept = |step: &str| text(&folder, file).find(&format!("\n{step},")).unwrap() + 1;
        let (two, text) = (kept("2"), text(&folder, file));
        for end in 0..=whole.len() {
            let torn = TempDir::new().unwrap();
            fs::write(torn.path().join(file), &whole[..end]).unwrap();
            let mut sink = open(&torn, &LAYERS, Some(2)).unwrap();
            log(&mut sink, 2, &rows).unwrap();
            let found = self::text(&torn, file);
            if end >= two {
                assert_eq!(found, text, "{file} cut to {end} bytes");
            } else {
                let mut lines = found.lines();
                assert!(lines.next().unwrap().starts_with("step,"), "{file} cut to {end} bytes");
                assert!(found.ends_with(&text[two..]), "{file} cut to {end} bytes: {found:?}");
            }
        }
    }
}

#[test]
fn two_sinks_do_not_share_a_file() {
    let folder = TempDir::new().unwrap();
    let first = open(&folder, &["a"], None).unwrap();
    for resume_step in [None, Some(0)] {
        let error = open(&folder, &["a"], resume_step).unwrap_err();
        assert!(error.message.ends_with("metrics.csv`: in use by another sink or run"), "{error}");
    }
    drop(first);
    let mut again = open(&folder, &["a"], None).unwrap();
    // The lock belongs to the file that replaces the other.
    log(&mut again, 0, &[("b", 1.0)]).unwrap();
    assert!(open(&folder, &["a"], None).is_err());
}

#[test]
fn a_disk_that_takes_nothing_is_an_error_that_names_the_file() {
    if !Path::new("/dev/full").exists() {
        let test = "a_disk_that_takes_nothing_is_an_error_that_names_the_file";
        let _ = writeln!(io::stderr(), "SKIPPED {test}: there is no /dev/full");
        return;
    }
    let folder = TempDir::new().unwrap();
    std::os::unix::fs::symlink("/dev/full", folder.path().join("metrics.csv")).unwrap();
    let error = open(&folder, &["a"], None).unwrap_err();
    assert!(error.message.contains("metrics.csv`: "), "{error}");
}

/// A run of ten steps with a checkpoint before step 8, and a metric that comes after it.
fn ten_steps() -> (TempDir, Vec<u8>) {
    let folder = TempDir::new().unwrap();
    let mut sink = open(&folder, &["a", "n/h.0.weight"], None).unwrap();
    let mut state = Vec::new();
    for step in 0..10 {
        if step == 8 {
            state = sink.state().unwrap();
        }
        let late: &[_] = if step == 9 { &[("late", 2.0)] } else { &[] };
        let row = [("a", step as f64), ("n/h.0.weight", 1.0), ("t/ms", 3.0)];
        log(&mut sink, step, &[&row, late].concat()).unwrap();
    }
    (folder, state)
}

#[test]
fn what_a_checkpoint_counts_on_is_found_again_or_reported() {
    let whole = |_: &str| None;
    let cut = |text: &str| Some(text[..text.find("\n4,").unwrap() + 1].to_string());
    let torn = |text: &str| Some(text[..text.find("\n4,").unwrap() + 3].to_string());
    let empty = |_: &str| Some(String::new());
    let edited = |text: &str| Some(text.replace("\n4,4.0", "\n4,4.5"));
    let renamed = |text: &str| Some(text.replacen(",a", ",b", 1));
    let removed = |text: &str| Some(text.replace("\n4,4.0,\n", "\n"));
    let later = |text: &str| Some(text.replace("\n9,", "\n9,1"));
    type Damage<'a> = &'a dyn Fn(&str) -> Option<String>;
    let cases: [(Damage<'_>, Option<&str>); 8] = [
        (&whole, None),
        (&later, None),
        (&cut, Some("4 of 8 rows are missing, those of steps 4 to 7")),
        (&torn, Some("4 of 8 rows are missing, those of steps 4 to 7")),
        (&empty, Some("all 8 rows are missing, those up to step 7")),
        (&edited, Some("its 8 rows are not those of the checkpoint")),
        (&renamed, Some("its 8 rows are not those of the checkpoint")),
        (&removed, Some("1 of 8 rows are missing before its end")),
    ];
    for (damage, expected) in cases {
        let (folder, state) = ten_steps();
        if let Some(damaged) = damage(&text(&folder, "metrics.csv")) {
            assert_ne!(damaged, text(&folder, "metrics.csv"), "{expected:?}");
            fs::write(folder.path().join("metrics.csv"), damaged).unwrap();
        }
        let opened = open_from(&folder, &["a"], Some(8), &state).map(drop);
        let said = expected.map(|gap| {
            let path = folder.path().join("metrics.csv");
            PluginError::new(ErrorKind::GAP, format!("`{}`: {gap}", path.display()))
        });
        assert_eq!(opened.err(), said);
        // As the host does then; the next checkpoint relies on the existing rows.
        let state = open_from(&folder, &["a"], Some(8), &[]).unwrap().state().unwrap();
        open_from(&folder, &["a"], Some(8), &state).unwrap();
    }
}

#[test]
fn every_file_is_verified_and_a_deleted_one_missed() {
    for (file, rows) in [("metrics.csv", 8), ("layers.csv", 8), ("timings.csv", 8)] {
        let (folder, state) = ten_steps();
        fs::remove_file(folder.path().join(file)).unwrap();
        let error = open_from(&folder, &["a"], Some(8), &state).unwrap_err();
        let said = format!("{file}`: all {rows} rows are missing, those up to step 7");
        assert!(error.kind == ErrorKind::GAP && error.message.ends_with(&said), "{error}");
    }
    // Rows that come again cannot be compared, and a state of another version has no record.
    let (folder, state) = ten_steps();
    open_from(&folder, &["a"], Some(3), &state).unwrap();
    open_from(&folder, &["a"], Some(3), b"\xff or\tanother").unwrap();
}
