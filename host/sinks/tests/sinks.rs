//! Sinks in a run: a log call never waits for a sink, and every loss is counted and reported.
//!
//! `cargo xtask test -p altgrad-sinks --test sinks -- --nocapture` prints how long the calls took. Needs the staged
//! plugins and fixtures: `cargo xtask test` says where they are.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use altgrad_config::PluginsSection;
use altgrad_end_to_end::{built, plugin};
use altgrad_loader::{Registry, SinkPlugin, instance::OptionTable};
use altgrad_metrics::{MetricId, MetricRecord};
use altgrad_plugin_api::RunOutcome;
use altgrad_sinks::{FilterChoice, RunFacts, SinkFault, SinkSetup, Sinks};
use tempfile::TempDir;

/// A sink by name with an option, and its limits.
fn setup(registry: &Registry, name: &str, option: (&str, &str), queue: usize, deadline: f64) -> SinkSetup {
    let (option, value) = option;
    let values = toml::Table::from_iter([(option.to_string(), toml::Value::from(value))]);
    let values = if option.is_empty() { toml::Table::new() } else { values };
    let made = SinkPlugin::make(registry, name, OptionTable { key: "sink.0", values: &values });
    let plugin = made.map_err(|(_, diagnostic)| diagnostic).unwrap();
    SinkSetup { plugin, queue, filter: FilterChoice::default(), deadline: Duration::from_secs_f64(deadline) }
}

/// The sinks of the project, the example and the fixture.
fn registry(folder: &Path) -> Registry {
    let libraries = ["libaltgrad_fixture_panicker.so", "libaltgrad_example_jsonl.so"].map(built);
    for library in libraries.into_iter().chain([plugin("csv.so"), plugin("tensorboard.so")]) {
        fs::copy(&library, folder.join(library.file_name().unwrap())).unwrap();
    }
    Registry::open(&PluginsSection { dir: Some(folder.display().to_string()), ..PluginsSection::default() })
        .unwrap()
}

fn bad(registry: &Registry, misbehave: &str, queue: usize, deadline: f64) -> SinkSetup {
    setup(registry, "bad", ("misbehave", misbehave), queue, deadline)
}

fn facts(folder: &Path) -> RunFacts {
    RunFacts {
        name: "test".into(),
        folder: folder.display().to_string(),
        config_toml: String::new(),
        resume: None,
        metrics: Vec::new(),
    }
}

/// A row as a model with this many metrics by layer makes it.
fn record(step: u64, metrics: usize) -> MetricRecord {
    let mut record = MetricRecord::new(step);
    for index in 0..metrics {
        let name = format!("quant/weight/sqnr_db/h.{index}.mlp.c_fc.weight");
        record.push(name.parse::<MetricId>().unwrap(), step as f64 + index as f64);
    }
    record
}

#[test]
fn a_hung_sink_is_left_behind_counted_and_said() {
    let folder = TempDir::new().unwrap();
    let registry = registry(folder.path());
    let setups =
        vec![bad(&registry, "sink.log:hang", 3, 2.0), setup(&registry, "jsonl", ("", ""), 100, 60.0)];
    let mut sinks = Sinks::open(setups, facts(folder.path())).unwrap();
    for step in 0..20 {
        sinks.write(record(step, 3));
    }
    let faults = sinks.new_faults();
    assert!(matches!(&faults[..], [SinkFault::Full(said)] if said.message.contains("its queue of 3 rows")));
    assert!(sinks.new_faults().is_empty(), "it is said once");
    let (counts, faults) = sinks.finish(&[], RunOutcome::COMPLETED);
    assert_eq!((counts[0].rows, counts[0].missing_rows), (0, 20));
    assert_eq!(counts[0].missing_from_step, Some(0), "lost in the queue, before the first that was dropped");
    assert_eq!((counts[1].rows, counts[1].missing_rows, counts[1].missing_from_step), (20, 0, None));
    let said: Vec<&str> = faults.iter().map(|fault| fault.message.as_str()).collect();
    assert_eq!(said[0], "sink `bad` did not finish within 2s");
    assert!(said[1].starts_with("sink `bad` is missing 20 rows, from step 0 on"), "{said:?}");
    assert_eq!(said.len(), 2);
    assert_eq!(fs::read_to_string(folder.path().join("metrics.jsonl")).unwrap().lines().count(), 20);
}

#[test]
fn a_failed_sink_is_closed_and_what_waited_counts_as_missing() {
    let folder = TempDir::new().unwrap();
    let registry = registry(folder.path());
    let mut sinks =
        Sinks::open(vec![bad(&registry, "sink.log:error", 100, 60.0)], facts(folder.path())).unwrap();
    for step in 0..20 {
        sinks.write(record(step, 3));
    }
    let (counts, faults) = sinks.finish(&[], RunOutcome::COMPLETED);
    assert_eq!((counts[0].rows, counts[0].missing_rows), (0, 20));
    assert!(faults[0].message.contains("asked to fail in sink.log"), "{faults:?}");
    assert!(faults[1].message.starts_with("sink `bad` is missing 20 rows"), "{faults:?}");
}

#[test]
fn opening_and_finishing_have_a_deadline() {
    let folder = TempDir::new().unwrap();
    let registry = registry(folder.path());
    let opened = Sinks::open(vec![bad(&registry, "sink.open:hang", 10, 0.2)], facts(folder.path()));
    assert_eq!(opened.err().unwrap().message, "sink `bad` did not open within 200ms");
    for place in ["sink.summary:hang", "sink.finish:hang"] {
        let mut sinks = Sinks::open(vec![bad(&registry, place, 10, 2.0)], facts(folder.path())).unwrap();
        sinks.write(record(0, 3));
        let (counts, faults) = sinks.finish(&[], RunOutcome::COMPLETED);
        assert_eq!((counts[0].rows, counts[0].missing_rows), (1, 0), "{place}");
        let said: Vec<&str> = faults.iter().map(|fault| fault.message.as_str()).collect();
        assert_eq!(said, ["sink `bad` did not finish within 2s"], "{place}");
    }
}

/// However many checkpoints ask: the first one waits, and the sink is closed from then on.
#[test]
fn a_hanging_sink_costs_one_deadline() {
    let folder = TempDir::new().unwrap();
    let registry = registry(folder.path());
    let deadline = Duration::from_secs(2);
    for place in ["sink.log:hang", "sink.state:hang"] {
        let setups = vec![bad(&registry, place, 100, deadline.as_secs_f64())];
        let mut sinks = Sinks::open(setups, facts(folder.path())).unwrap();
        let mut ask = |step| {
            sinks.write(record(step, 3));
            assert_eq!(sinks.request_states().wait()[0].state, Err("it is closed".to_string()), "{place}");
        };
        ask(0);
        let begun = Instant::now();
        (1..20).for_each(ask);
        sinks.finish(&[], RunOutcome::COMPLETED);
        assert!(begun.elapsed() < deadline, "{place}: {:?}", begun.elapsed());
    }
}

#[test]
fn a_hanging_sink_is_closed_and_the_others_go_on() {
    let folder = TempDir::new().unwrap();
    let registry = registry(folder.path());
    for (place, taken) in [("sink.log:hang", 0), ("sink.state:hang", 1)] {
        let setups = vec![bad(&registry, place, 100, 2.0), setup(&registry, "jsonl", ("", ""), 100, 60.0)];
        let mut sinks = Sinks::open(setups, facts(folder.path())).unwrap();
        for step in 0..20 {
            sinks.write(record(step, 3));
            let states = sinks.request_states().wait();
            assert_eq!(states[0].state, Err("it is closed".to_string()), "{place}");
            assert!(states[1].state.is_ok(), "{place}");
        }
        let [SinkFault::Closed(said)] = &sinks.new_faults()[..] else { panic!("{place}: it is said once") };
        assert_eq!(said.message, "sink `bad` did not return its state for a checkpoint within 2s", "{place}");
        let counts = sinks.counts();
        assert_eq!((counts[0].rows, counts[0].missing_rows), (taken, 20 - taken), "{place}");
        let (counts, faults) = sinks.finish(&[], RunOutcome::COMPLETED);
        assert_eq!((counts[0].rows, counts[0].missing_rows), (taken, 20 - taken), "{place}");
        assert_eq!(counts[0].missing_from_step, Some(taken), "{place}");
        assert_eq!((counts[1].rows, counts[1].missing_rows), (20, 0), "{place}");
        assert_eq!(faults[0].message, said.message, "{place}");
        assert!(faults[1].message.starts_with("sink `bad` is missing "), "{place}: {faults:?}");
        assert_eq!(faults.len(), 2, "{place}: {faults:?}");
    }
}

/// Makes no assertion about time; it prints times for people. It checks that all sinks end and that counts are right.
#[test]
fn how_long_the_log_call_takes() {
    println!("log call, in microseconds   calls      p50      p99  largest");
    let scenarios: [(&str, &[&str]); 5] = [
        ("no trouble", &["csv", "jsonl", "tensorboard"]),
        ("slow", &["sink.log:slow", "jsonl"]),
        ("hung", &["sink.log:hang", "jsonl"]),
        ("failed", &["sink.log:error", "jsonl"]),
        ("all", &["sink.log:slow", "sink.log:hang", "sink.log:error", "csv", "jsonl", "tensorboard"]),
    ];
    for (metrics, calls) in [(30, 3_000), (3_000, 500)] {
        for (what, wanted) in scenarios {
            let folder = TempDir::new().unwrap();
            let registry = registry(folder.path());
            let setups = wanted.iter().map(|name| match name.contains(':') {
                true => bad(&registry, name, 256, 2.0),
                false => setup(&registry, name, ("", ""), 256, 60.0),
            });
            let mut sinks = Sinks::open(setups.collect(), facts(folder.path())).unwrap();
            let mut took: Vec<Duration> = (0..calls)
                .map(|step| {
                    let record = record(step as u64, metrics);
                    // A step of training, if a short one.
                    thread::sleep(Duration::from_micros(300));
                    let begun = Instant::now();
                    sinks.write(record);
                    begun.elapsed()
                })
                .collect();
            let (counts, _) = sinks.finish(&[], RunOutcome::COMPLETED);
            assert!(counts.iter().all(|count| count.rows + count.missing_rows == calls as u64), "{counts:?}");
            took.sort();
            let us = |share: f64| took[((calls - 1) as f64 * share) as usize].as_nanos() as f64 / 1e3;
            let (p50, p99, max) = (us(0.5), us(0.99), us(1.0));
            println!("{what:<12} {metrics:>5} metrics {calls:>6} {p50:>8.1} {p99:>8.1} {max:>8.1}");
        }
    }
}
