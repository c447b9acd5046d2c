//! Two runs in lockstep on the same batches, each with its own formats and optimizer: their first difference.
//!
//! Both take a step under a trace. Then the traces are compared, tensor by tensor in time order, and the new parameters
//! after them. [`differing_key`] checks the conditions of the comparison.

use std::collections::{BTreeMap, HashSet};

use altgrad_base::{diagnostic::Diagnostic, ulp::ulp_distance};
use altgrad_config::{CurvatureSection, RunConfig, ShadowSection};

use crate::{
    setup::ReadyRun,
    step::{apply_update, cast_switches, compute_gradients},
    tensor,
    trace::{Phase, TensorPlace, Trace, TracedTensor},
};

/// A tensor in which two runs differ.
#[derive(Debug, Clone, PartialEq)]
pub struct Parting {
    /// The step, from 0.
    pub step: u64,
    /// The tensor.
    pub place: TensorPlace,
    /// The largest distance of two elements, ULP.
    pub ulp: u64,
    /// The first element with this distance, row-major.
    pub index: usize,
    /// The values of that element in both runs.
    pub values: [f32; 2],
    /// The number of elements whose distance exceeds the tolerance.
    pub apart: usize,
    /// The number of elements.
    pub elements: usize,
}

/// The result of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct LockstepComparison {
    /// Steps compared; the last one is the first with a difference, if there is one.
    pub steps: u64,
    /// The first tensor of each phase and operation that differs in that step, in time order. Empty if the runs do not
    /// differ.
    pub partings: Vec<Parting>,
}

/// The first key, by name, whose values differ although a comparison requires equal ones: one of `[data]` and
/// `[model]`, the seed, or the number of micro-batches.
///
/// # Errors
/// A value has no representation in TOML.
pub fn differing_key(a: &RunConfig, b: &RunConfig) -> Result<Option<String>, Diagnostic> {
    let (a, b) = (shared_keys(a)?, shared_keys(b)?);
    // An alphabet that is not given is the corpus's, which a resolved run file contains.
    let differ = |key: &&String| {
        let (a, b) = (a.get(*key), b.get(*key));
        a != b && (*key != "data.alphabet" || (a.is_some() && b.is_some()))
    };
    Ok(a.keys().chain(b.keys()).filter(differ).min().cloned())
}

/// The values that determine the batches and the model.
fn shared_keys(config: &RunConfig) -> Result<BTreeMap<String, toml::Value>, Diagnostic> {
    let table = toml::Table::try_from(config)
        .map_err(|error| Diagnostic::config(format!("cannot compare the run files: {error}")))?;
    let mut shared = BTreeMap::new();
    for (section, keys) in &table {
        for (key, value) in keys.as_table().into_iter().flatten() {
            let key = format!("{section}.{key}");
            let counts = match section.as_str() {
                // A preset is a name of a shape; the comparison uses the shape itself.
                "data" | "model" => key != "model.preset",
                _ => ["run.seed", "train.grad_accum"].contains(&key.as_str()),
            };
            if counts {
                shared.insert(key, value.clone());
            }
        }
    }
    Ok(shared)
}

/// A run file without measurements, which do not change the training and are not part of a comparison.
#[must_use]
pub fn unmeasured(mut config: RunConfig) -> RunConfig {
    config.metrics = config.metrics.off();
    config.shadow = ShadowSection::default();
    config.curvature = CurvatureSection::default();
    config
}

/// Takes up to `steps` steps with both runs and stops at the first in which a tensor differs by more than `tolerance`
/// ULP. `on_step` is called for every step without a difference. The runs must have no [`differing_key`].
///
/// # Errors
/// A plugin or the device failed.
pub fn compare(
    [a, b]: [&mut ReadyRun; 2],
    steps: u64,
    tolerance: u64,
    mut on_step: impl FnMut(u64),
) -> Result<LockstepComparison, Diagnostic> {
    for number in 0..steps {
        let traces = [traced_step(a, number)?, traced_step(b, number)?];
        let partings = first_partings(traces, number, tolerance)?;
        if !partings.is_empty() {
            return Ok(LockstepComparison { steps: number + 1, partings });
        }
        on_step(number);
    }
    Ok(LockstepComparison { steps, partings: Vec::new() })
}

/// A step's tensors, the new parameters last.
fn traced_step(run: &mut ReadyRun, number: u64) -> Result<Vec<TracedTensor>, Diagnostic> {
    let ReadyRun { setup, state, update_metrics, .. } = run;
    let trace = Trace::default();
    cast_switches::switch_at(setup, (state, update_metrics), number);
    state.quant.state.step = number;
    let (grads, outputs) = compute_gradients(setup, state, number, Some(&trace))?;
    apply_update(setup, (state, update_metrics), number, grads, &outputs)?;
    let params = &state.params;
    for (spec, value) in params.layout.specs.iter().zip(&params.values) {
        trace.add(TensorPlace::of_parameter(Phase::Update, &spec.name, "parameter"), value.clone());
    }
    Ok(trace.into_tensors())
}

/// The first tensor of each phase and operation that differs by more than `tolerance` ULP.
fn first_partings(
    [a, b]: [Vec<TracedTensor>; 2],
    step: u64,
    tolerance: u64,
) -> Result<Vec<Parting>, Diagnostic> {
    let mut seen = HashSet::new();
    let mut partings = Vec::new();
    for (a, b) in a.into_iter().zip(b) {
        // Equal models have equal traces, independent of rounding.
        if a.place != b.place {
            let message = format!("the runs compute different tensors: `{}` and `{}`", a.place, b.place);
            return Err(Diagnostic::run(message).at(format!("step {step}")));
        }
        let place = a.place;
        if seen.contains(&(place.phase, place.operation.clone())) {
            continue;
        }
        let (a, b) = (tensor::read_f32(a.values)?, tensor::read_f32(b.values)?);
        let distances = || a.iter().zip(&b).map(|(&a, &b)| ulp_distance(a, b));
        let ulp = distances().max().unwrap_or_default();
        let Some(index) = distances().position(|distance| distance == ulp && ulp > tolerance) else {
            continue;
        };
        let apart = distances().filter(|distance| *distance > tolerance).count();
        seen.insert((place.phase, place.operation.clone()));
        let (values, elements) = ([a[index], b[index]], a.len());
        partings.push(Parting { step, place, ulp, index, values, apart, elements });
    }
    Ok(partings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_must_be_equal_is_named() {
        let mut a = RunConfig::default();
        a.run.name = "a".into();
        let mut b = a.clone();
        let key = |a: &RunConfig, b: &RunConfig| differing_key(a, b).ok().flatten();
        // These may differ: they are the subject of the comparison.
        b.run.name = "b".into();
        b.train.lr = 3e-4;
        b.quant.weight = Some("E5M2".into());
        b.optimizer.name = "other".into();
        assert_eq!(key(&a, &b), None);
        b.run.seed += 1;
        assert_eq!(key(&a, &b).as_deref(), Some("run.seed"));
        b.run.seed = a.run.seed;
        b.train.grad_accum = 2;
        assert_eq!(key(&a, &b).as_deref(), Some("train.grad_accum"));
        // A key that only one of them has.
        b.model.init = Some("weights.safetensors".into());
        assert_eq!(key(&a, &b).as_deref(), Some("model.init"));
        assert_eq!(key(&b, &a).as_deref(), Some("model.init"));
        b.data.batch_size += 1;
        assert_eq!(key(&a, &b).as_deref(), Some("data.batch_size"));
    }
}
