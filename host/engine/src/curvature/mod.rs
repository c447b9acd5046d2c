//! The curvature of the loss at a model's weights, and statistics of its gradients.
//!
//! The Hessian is that of the unrounded loss, because rounding to nearest makes the loss a step function. Gradients of
//! sequences are rounded as in training.

pub mod estimate;
pub mod hessian;
pub mod sequences;

use std::ops::Range;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_data::Batch;

use self::{
    estimate::Estimate,
    hessian::{Eigenvalue, Hessian},
    sequences::{NoiseScale, SequenceGradients},
};
use crate::{
    model::{Gpt, Params},
    passes::TrainModel,
    quant::Quantizer,
    tensor::{flat, read_f32},
};

/// The settings of the measurement.
#[derive(Debug, Clone, Copy)]
pub struct CurvatureSpec {
    /// Random vectors of the trace.
    pub draws: u32,
    /// Largest number of products of the power iteration.
    pub iterations: u32,
    /// Displacement of the weights over 1 + their L2 norm.
    pub relative_step: f64,
    /// Seed of directions.
    pub seed: u64,
}

/// Values at the weights of a model.
#[derive(Debug)]
pub struct Curvature {
    /// Sequences of the sample.
    pub sequences: u64,
    /// Tokens of each.
    pub tokens_per_sequence: usize,
    /// The Hessian's eigenvalue of largest magnitude; unknown if gradients are not finite or do not change.
    pub largest_eigenvalue: Option<Eigenvalue>,
    /// Its trace.
    pub trace: Estimate,
    /// The trace of the empirical Fisher matrix.
    pub fisher_trace: f64,
    /// The gradient noise scale; unknown for one sequence.
    pub noise_scale: Option<NoiseScale>,
    /// Norm of the unrounded gradient over the norm of the rounding error of the gradient; unknown without rounding.
    pub signal_to_noise: Option<f64>,
    /// The parameters.
    pub layers: Vec<LayerCurvature>,
}

/// Values of one parameter.
#[derive(Debug)]
pub struct LayerCurvature {
    /// Its name.
    pub name: String,
    /// Its elements.
    pub elements: usize,
    /// The trace of its diagonal block of the Hessian.
    pub trace: Estimate,
    /// The trace of its diagonal block of the empirical Fisher matrix.
    pub fisher_trace: f64,
}

/// Measures at `params`, on `batches`. Does not change the training state.
///
/// # Errors
/// A plugin or the device failed.
pub fn measure(
    gpt: &Gpt,
    (params, quant): (&Params, &Quantizer),
    batches: &[Batch],
    spec: &CurvatureSpec,
) -> Result<Curvature, Diagnostic> {
    let model = TrainModel::new(gpt.clone());
    let ranges = ranges(params);
    let weights = params.read()?.concat();

    let mut sequences = SequenceGradients::new(weights.len(), ranges.clone());
    for sequence in batches.iter().flat_map(sequences_of) {
        sequences.add(&gradient(&model, params, quant, &[sequence])?);
    }
    let exact = gradient(&model, params, &Quantizer::off(), batches)?;
    let rounded = gradient(&model, params, quant, batches)?;

    let at = |weights: &[f32]| {
        gradient(&model, &with_values(params, weights, &ranges), &Quantizer::off(), batches)
    };
    let mut hessian = Hessian::new(at, &weights, spec.relative_step);
    let largest_eigenvalue = hessian.largest_eigenvalue(spec.seed, spec.iterations)?;
    let (traces, trace) = hessian.traces(spec.seed, spec.draws, &ranges)?;

    let fisher_traces = sequences.fisher_traces();
    let layers =
        params.layout.specs.iter().zip(traces).zip(&fisher_traces).map(|((spec, trace), &fisher_trace)| {
            LayerCurvature { name: spec.name.clone(), elements: spec.len(), trace, fisher_trace }
        });
    Ok(Curvature {
        sequences: sequences.count(),
        tokens_per_sequence: batches.first().map_or(0, |batch| batch.shape[1]),
        largest_eigenvalue,
        trace,
        fisher_trace: fisher_traces.iter().sum(),
        noise_scale: sequences.noise_scale(),
        signal_to_noise: signal_to_noise(&exact, &rounded),
        layers: layers.collect(),
    })
}

/// The gradient of the mean loss of `batches`, all parameters concatenated: `[n]`.
fn gradient(
    model: &TrainModel,
    params: &Params,
    quant: &Quantizer,
    batches: &[Batch],
) -> Result<Vec<f32>, Diagnostic> {
    let gradients = model.gradients_at(params, quant, batches.iter().cloned().map(Ok))?;
    let parts = gradients.grads.into_iter().map(read_f32).collect::<Result<Vec<_>, _>>()?;
    quant.plan.check()?;
    Ok(parts.concat())
}

/// The places of parameters among all elements.
fn ranges(params: &Params) -> Vec<Range<usize>> {
    let mut end = 0;
    let range = |len: usize| {
        let start = end;
        end += len;
        start..end
    };
    params.layout.specs.iter().map(|spec| spec.len()).map(range).collect()
}

/// The same parameters with other values, `[n]`.
fn with_values(params: &Params, weights: &[f32], ranges: &[Range<usize>]) -> Params {
    let device = params.values[0].device();
    let values = ranges.iter().map(|range| flat(weights[range.clone()].to_vec(), &device)).collect();
    Params { layout: params.layout.clone(), values }
}

/// Splits a batch into one batch per sequence.
fn sequences_of(batch: &Batch) -> Vec<Batch> {
    let [_, length] = batch.shape;
    let pairs = batch.inputs.chunks(length).zip(batch.targets.chunks(length));
    pairs
        .map(|(inputs, targets)| Batch {
            inputs: inputs.to_vec(),
            targets: targets.to_vec(),
            shape: [1, length],
        })
        .collect()
}

/// |exact| / |rounded - exact|; `None` if they are equal.
fn signal_to_noise(exact: &[f32], rounded: &[f32]) -> Option<f64> {
    let squares = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>();
    let signal = squares(&mut exact.iter().copied().map(f64::from));
    let noise = squares(&mut exact.iter().zip(rounded).map(|(a, b)| f64::from(*b) - f64::from(*a)));
    (noise != 0.0).then(|| (signal / noise).sqrt())
}

#[cfg(test)]
mod tests;
