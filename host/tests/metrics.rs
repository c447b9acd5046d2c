//! The metrics of a run with everything on: announced, recorded, defined and in the reference.
//!
//! Needs the staged plugins: `cargo xtask test` says where they are.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{collections::BTreeSet, fs, path::PathBuf};

use altgrad_host::{config, metrics::MetricRecord, plan::Plan, train::step};
use altgrad_metrics::{Due, MetricId, Shape, families, reference};
use tempfile::TempDir;

const EVERYTHING: &str = r#"
[run]
name = "everything"
device = "cpu"
[data]
dataset = "text:CORPUS"
tokenizer = "char"
block_size = 8
batch_size = 2
[model]
n_layer = 1
n_head = 2
n_embd = 8
[train]
max_steps = 4
warmup_steps = 1
[quant]
weight = "E5M2"
activation = "E5M2"
grad = "E5M2"
[shadow]
every = 1
[metrics]
every = 1
histograms_every = 1
rank_every = 1
dead_neuron_window = 2
"#;

fn plan() -> Plan {
    let stage = std::env::var_os("ALTGRAD_STAGE").expect("ALTGRAD_STAGE is not set: run `cargo xtask test`");
    let plugins = PathBuf::from(stage).join("plugins");
    let folder = TempDir::new().unwrap();
    let corpus = folder.path().join("corpus.txt");
    fs::write(&corpus, "the quick brown fox jumps over the lazy dog\n".repeat(20)).unwrap();
    let path = folder.path().join("run.toml");
    let text = EVERYTHING.replace("CORPUS", corpus.to_str().unwrap());
    fs::write(&path, format!("{text}\n[plugins]\ndir = {plugins:?}\n")).unwrap();
    let (config, source) = config::load(&path, &[]).unwrap();
    Plan::new(config, &source).unwrap()
}

/// The records of the first steps.
fn records(plan: &mut Plan) -> Vec<MetricRecord> {
    let record = |number| {
        let (mut record, mut origin) = (MetricRecord::new(number), None);
        plan.trainer.quant.begin_step(number);
        step::step(plan, number, &mut record, &mut origin, None).unwrap();
        record
    };
    (0..4).map(record).collect()
}

#[test]
fn announced_names_are_parsed_to_the_identifiers_they_were_made_from() {
    for id in plan().metrics {
        assert_eq!(id.to_string().parse::<MetricId>(), Ok(id));
    }
}

#[test]
fn what_is_announced_is_recorded_and_nothing_else() {
    let mut plan = plan();
    let announced: BTreeSet<MetricId> = plan.metrics.iter().cloned().collect();
    assert_eq!(announced.len(), plan.metrics.len(), "a metric is announced twice");
    let recorded: BTreeSet<MetricId> =
        records(&mut plan).into_iter().flat_map(|record| record.values).map(|(id, _)| id).collect();
    let unannounced: Vec<String> = recorded.difference(&announced).map(ToString::to_string).collect();
    assert!(unannounced.is_empty(), "{unannounced:?}");
    // The step alone makes no evaluation.
    let evaluations = |id: &&MetricId| id.definition().due != Due::Evaluations;
    let names = |ids: &BTreeSet<MetricId>| -> BTreeSet<&str> {
        ids.iter().filter(evaluations).map(|id| id.definition().name).collect()
    };
    let silent: Vec<&str> = names(&announced).difference(&names(&recorded)).copied().collect();
    assert!(silent.is_empty(), "{silent:?}");
}

#[test]
fn every_definition_is_used_and_in_the_reference() {
    let mut plan = plan();
    let mut used: BTreeSet<&str> = plan.metrics.iter().map(|id| id.definition().name).collect();
    for record in records(&mut plan) {
        used.extend(record.histograms.iter().map(|histogram| histogram.id.definition().name));
        assert!(
            record.histograms.iter().all(|histogram| histogram.id.definition().shape == Shape::Distribution)
        );
    }
    let page = reference::markdown();
    for definition in families::definitions() {
        let of_the_end = definition.due == Due::End;
        assert!(of_the_end || used.contains(definition.name), "{} is not computed", definition.name);
        let (prefix, own) = definition.parts();
        let names = [definition.name.to_string(), format!("{}/ROLE/{own}", prefix.unwrap_or_default())];
        assert!(names.iter().any(|name| page.contains(&format!("| `{name}"))), "{}", definition.name);
    }
}
