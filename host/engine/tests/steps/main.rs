//! Whole steps of small runs, and their parts on the CPU: one binary, because each links the whole engine.
//!
//! Needs the staged plugins: `cargo xtask test` says where they are.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod import;
mod loss_scale;
mod metrics;
mod sites;
mod stored_scales;
mod trace;

use std::{fs, time::Duration};

use altgrad_base::diagnostic::Diagnostic;
use altgrad_config::PluginsSection;
use altgrad_end_to_end::stage;
use altgrad_engine::{
    metrics::{MetricRecord, StepOutputs, speed::StepTime},
    setup::ReadyRun,
    step::{self, AppliedUpdate},
};
use altgrad_loader::{FormatPlugin, Registry};
use burn::tensor::Tensor;
use tempfile::TempDir;

/// The first tables of a run file, for a tiny model on a small text. Further keys of `[model]` follow.
const TINY: &str = r#"
[run]
name = "tiny"
device = "cpu"
[data]
dataset = "text:corpus.txt"
tokenizer = "char"
block_size = 8
batch_size = 2
[model]
n_head = 2
n_embd = 8
"#;

/// The run of [`TINY`] and further text, or the reason of its refusal.
fn built(text: &str) -> Result<ReadyRun, Diagnostic> {
    let plugins = stage().join("plugins");
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("corpus.txt"), "the quick brown fox jumps over the lazy dog\n".repeat(20))
        .unwrap();
    let path = folder.path().join("run.toml");
    fs::write(&path, format!("{TINY}{text}\n[plugins]\ndir = {plugins:?}\n")).unwrap();
    let (config, source) = altgrad_config::load(&path, &[]).unwrap();
    ReadyRun::build(config, &source)
}

/// Takes a step.
fn take(run: &mut ReadyRun, number: u64) -> (MetricRecord, AppliedUpdate) {
    run.state.quant.state.step = number;
    let computed = step::compute_gradients(&run.setup, &mut run.state, number, None).unwrap();
    finish(run, number, computed)
}

/// The second half of a step, from its gradients.
fn finish(
    run: &mut ReadyRun,
    number: u64,
    (grads, outputs): (Vec<Tensor<1>>, StepOutputs),
) -> (MetricRecord, AppliedUpdate) {
    let ReadyRun { setup, state, update_metrics, .. } = run;
    let mut record = MetricRecord::new(number);
    let update = step::apply_update(setup, (state, update_metrics), number, grads, &outputs).unwrap();
    let time = StepTime { elapsed: Duration::from_secs(1), utilization: Some(0.5), sheet_utilization: None };
    step::record_metrics(&mut record, setup, (state, update_metrics), (&outputs, &update), time);
    (record, update)
}

/// A staged format.
fn plugin(format: &str) -> FormatPlugin {
    let dir = Some(stage().join("plugins").display().to_string());
    let registry = Registry::open(&PluginsSection { dir, ..PluginsSection::default() }).unwrap();
    FormatPlugin::make(&registry, "test", format).unwrap_or_else(|(_, error)| panic!("{error}"))
}
