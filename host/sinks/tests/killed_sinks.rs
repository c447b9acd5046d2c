//! A process that logs is killed at random moments and resumed from random earlier steps: every sink has steps 0..N
//! exactly once, each as the last process that wrote it did.
//!
//! The process is this test again, with a folder in its environment. Needs the staged plugins: `cargo xtask test`.

#![allow(clippy::unwrap_used)]

use std::{
    collections::BTreeMap,
    env, fs,
    fs::OpenOptions,
    io::Write,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use altgrad_end_to_end::{built, plugin, skipped, tensorboard};
use altgrad_loader::LoadedLibrary;
use altgrad_plugin_api::{
    Alert, AlertLevel, Config, Histogram, Metric, MetricName, RunInfo, RunOutcome,
    abi::{SinkObject, stable::std_types::RSlice},
};
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use serde_json::Value;
use tempfile::TempDir;

const FOLDER: &str = "ALTGRAD_KILLED_FOLDER";
const RESUME: &str = "ALTGRAD_KILLED_RESUME";
const END: &str = "ALTGRAD_KILLED_END";
const PART: &str = "ALTGRAD_KILLED_PART";
/// Steps the sinks have accepted, in the folder above the run folder.
const ACCEPTED: &str = "accepted.txt";
const LAYERS: [&str; 2] = ["wte.weight", "h.0.mlp.c_fc.weight"];

/// The value that part `part` of the run logs at a step: exact in f32 too.
fn value(step: u64, part: u64) -> f64 {
    (step * 64 + part) as f64
}

fn sinks() -> Vec<SinkObject> {
    let libraries = [
        ("csv", plugin("csv.so")),
        ("jsonl", built("libaltgrad_example_jsonl.so")),
        ("tensorboard", plugin("tensorboard.so")),
    ];
    let made = libraries.into_iter().map(|(id, path)| {
        let library = LoadedLibrary::load(&path, None).unwrap();
        let descriptor = *library.info.find(altgrad_plugin_api::PluginKind::SINK, id).unwrap();
        library.sink_object(id, &Config::resolve(&descriptor.options, []).unwrap()).unwrap()
    });
    made.collect()
}

/// The process that is killed. Without a folder, it has nothing to do.
#[test]
fn process() {
    let Some(folder) = env::var_os(FOLDER) else { return };
    let number = |name: &str| env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let (resume_step, end, part) = (number(RESUME), number(END).unwrap(), number(PART).unwrap());
    let run_folder = Path::new(&folder).join("run").display().to_string();
    let mut accepted =
        OpenOptions::new().create(true).append(true).open(Path::new(&folder).join(ACCEPTED)).unwrap();
    let mut sinks = sinks();
    let names: Vec<String> =
        ["train/loss".into()].into_iter().chain(LAYERS.map(|layer| format!("norm/{layer}"))).collect();
    let names: Vec<MetricName<'_>> =
        names.iter().map(|name| MetricName { name: name.as_str().into(), timing: false }).collect();
    for sink in &mut sinks {
        let run = RunInfo {
            name: "killed".into(),
            folder: run_folder.as_str().into(),
            config_toml: "".into(),
            metrics: names.as_slice().into(),
            resume_step: resume_step.into(),
            state: [].as_slice().into(),
        };
        sink.open(&run).into_result().unwrap();
    }
    for step in resume_step.unwrap_or(0)..end {
        let row: Vec<Metric<'_>> =
            names.iter().map(|&name| Metric { name, value: value(step, part) }).collect();
        let (edges, counts) = ([0.0, 1.0], [value(step, part) as u64]);
        for sink in &mut sinks {
            sink.log(step, RSlice::from_slice(&row)).into_result().unwrap();
            let (edges, counts) = (edges.as_slice().into(), counts.as_slice().into());
            sink.histogram(step, &Histogram { name: "hist".into(), edges, counts }).into_result().unwrap();
            let text = value(step, part).to_string();
            let (level, kind, text) = (AlertLevel::INFO, "best".into(), text.as_str().into());
            sink.alert(&Alert { step, level, kind, text }).into_result().unwrap();
        }
        writeln!(accepted, "{step}").unwrap();
    }
    for sink in &mut sinks {
        sink.finish(RunOutcome::COMPLETED).into_result().unwrap();
    }
}

/// Runs a part; unless it is to end, kills it a moment after so many accepted steps. The number of steps accepted in
/// all.
fn run(folder: &Path, resume_step: Option<u64>, part: u64, end: u64, kill: Option<(usize, Duration)>) -> u64 {
    let _ = fs::remove_file(folder.join(ACCEPTED));
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "process", "--nocapture"]).stdout(Stdio::null()).stderr(Stdio::null());
    command.env(FOLDER, folder).env(PART, part.to_string()).env(END, end.to_string());
    command.envs(resume_step.map(|step| (RESUME, step.to_string())));
    let mut child = command.spawn().unwrap();
    let accepted = || fs::read_to_string(folder.join(ACCEPTED)).unwrap_or_default();
    if let Some((steps, moment)) = kill {
        while accepted().matches('\n').count() < steps && child.try_wait().unwrap().is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(moment);
        child.kill().unwrap();
        child.wait().unwrap();
    } else {
        assert!(child.wait().unwrap().success());
    }
    let accepted = accepted();
    let last = accepted.split_inclusive('\n').rfind(|line| line.ends_with('\n'));
    last.map_or(resume_step.unwrap_or(0), |line| line.trim().parse::<u64>().unwrap() + 1)
}

#[test]
#[ignore = "--all: kills processes"]
fn killed_at_random_points_and_resumed_every_sink_has_each_step_once() {
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("run")).unwrap();
    let mut random = ChaCha8Rng::seed_from_u64(8);
    let mut below = |bound: u64| random.next_u64() % bound;
    let (mut resume_step, mut owners) = (None, BTreeMap::new());
    for part in 0..12 {
        let kill = (20 + below(181) as usize, Duration::from_micros(below(1000)));
        let done = run(folder.path(), resume_step, part, 1_000_000, Some(kill));
        let first = resume_step.unwrap_or(0);
        owners.extend((first..done).map(|step| (step, part)));
        // From a checkpoint that is some steps old.
        let step = done - below(done.min(20) + 1);
        owners.split_off(&step);
        resume_step = Some(step);
    }
    let end = resume_step.unwrap() + 25;
    assert_eq!(run(folder.path(), resume_step, 12, end, None), end);
    owners.extend((resume_step.unwrap()..end).map(|step| (step, 12)));
    let expected: Vec<(u64, f64)> =
        owners.into_iter().map(|(step, part)| (step, value(step, part))).collect();
    assert!(expected.len() > 100 && expected.iter().map(|(step, _)| *step).eq(0..end), "{}", expected.len());
    let run = folder.path().join("run");

    for (file, cell, times) in [("metrics.csv", 1, 1), ("layers.csv", 3, 2), ("histograms.csv", 4, 1)] {
        let text = fs::read_to_string(run.join(file)).unwrap();
        let rows: Vec<(u64, f64)> = text
            .lines()
            .skip(1)
            .map(|line| {
                let cells: Vec<&str> = line.split(',').collect();
                (cells[0].parse().unwrap(), cells[cell].parse().unwrap())
            })
            .collect();
        let due: Vec<_> = expected.iter().flat_map(|&row| std::iter::repeat_n(row, times)).collect();
        assert_eq!(rows, due, "{file}");
    }
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| value.as_str().unwrap().parse().unwrap());
    for (file, pointer) in
        [("metrics.jsonl", "/train~1loss"), ("histograms.jsonl", "/counts/0"), ("alerts.jsonl", "/text")]
    {
        let text = fs::read_to_string(run.join(file)).unwrap();
        let rows: Vec<(u64, f64)> = text
            .lines()
            .map(|line| {
                let line: Value = serde_json::from_str(line).unwrap();
                (line["step"].as_u64().unwrap(), number(line.pointer(pointer).unwrap()))
            })
            .collect();
        assert_eq!(rows, expected, "{file}");
    }
    println!("{} steps in 13 parts", expected.len());
    let found = match tensorboard(&run) {
        Ok(found) => serde_json::from_str::<Value>(&found).unwrap(),
        Err(why) => return skipped("killed_at_random_points...: tensorboard", &why),
    };
    let steps = |pointer: &str, number_at: &dyn Fn(&Value) -> f64| -> Vec<(u64, f64)> {
        let events = found.pointer(pointer).unwrap().as_array().unwrap();
        events.iter().map(|event| (event[0].as_u64().unwrap(), number_at(event))).collect()
    };
    assert_eq!(steps("/scalars/train~1loss", &|event| number(&event[1])), expected);
    assert_eq!(steps("/histograms/hist", &|event| number(&event[5][0])), expected);
    let text = |event: &Value| event[1].as_str().unwrap().trim_start_matches("info: ").parse().unwrap();
    assert_eq!(steps("/texts/alerts~1best", &text), expected);
    let shown = found.pointer("/shown/train~1loss").unwrap().as_array().unwrap();
    assert!(shown.iter().map(|step| step.as_u64().unwrap()).eq(0..end));
}
