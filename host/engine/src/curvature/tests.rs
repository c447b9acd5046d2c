//! Curvature of a small network, against its dense Hessian and its definition.

#![allow(clippy::unwrap_used)]

use altgrad_config::GeluChoice;
use altgrad_data::{Batches, Corpus, Split, Tokens, tokenizer::Tokenizer};

use super::*;
use crate::{
    device::ComputeDevice,
    evaluate::Evaluator,
    model::{Gpt, GptShape, Layout, Parts, layout::ParamSpec},
    passes::mean_loss,
};

const SHAPE: GptShape = GptShape {
    vocab: 7,
    block_size: 4,
    n_layer: 1,
    n_head: 2,
    n_embd: 4,
    bias: false,
    tie_weights: true,
    parts: Parts::NANOGPT,
};

fn evaluator() -> Evaluator {
    let ids: Vec<u16> = (0..60u16).map(|at| at * at % 7).collect();
    let corpus = Corpus {
        train: Tokens::Memory(ids.clone()),
        val: Tokens::Memory(ids),
        tokenizer: Tokenizer::Byte,
        description: String::new(),
    };
    let device = ComputeDevice::cpu();
    let layout = Layout::new(&SHAPE);
    let initial = Params::init(layout, 5, &device.tensors);
    let (values, specs) = (initial.read().unwrap(), &initial.layout.specs);
    // Matrices are larger than at initialization: norms of small inputs have derivatives that differences do not
    // resolve.
    let larger = |(values, spec): (Vec<f32>, &ParamSpec)| {
        let factor = if spec.shape.len() == 2 { 25.0 } else { 1.0 };
        flat(values.into_iter().map(|x| factor * x).collect(), &device.tensors)
    };
    Evaluator {
        gpt: Gpt { shape: SHAPE, gelu: GeluChoice::Erf },
        params: Params {
            layout: Layout::new(&SHAPE),
            values: values.into_iter().zip(specs).map(larger).collect(),
        },
        quant: Quantizer::off(),
        batches: Batches::new(corpus, 1, 3, SHAPE.block_size),
        step: None,
    }
}

const SPEC: CurvatureSpec =
    CurvatureSpec { draws: 300, iterations: 200, relative_step: hessian::RELATIVE_STEP, seed: 1 };

/// The part of the corpus, and batches of the sample.
const SAMPLE: (Split, u64) = (Split::Train, 2);

/// The loss of the sample, by f64 sums of f32 passes.
fn loss(evaluator: &Evaluator, weights: &[f32], batches: &[Batch]) -> f64 {
    let params = with_values(&evaluator.params, weights, &ranges(&evaluator.params));
    mean_loss(&evaluator.gpt, &params, &evaluator.quant, batches.iter().cloned().map(Ok)).unwrap().loss
}

/// The whole Hessian, column by column, from differences of gradients along single weights.
fn dense(evaluator: &Evaluator) -> Vec<Vec<f64>> {
    let batches: Vec<Batch> = evaluator.batches.sample(SAMPLE.0, SAMPLE.1).collect::<Result<_, _>>().unwrap();
    let model = TrainModel::new(evaluator.gpt.clone());
    let weights = evaluator.params.read().unwrap().concat();
    let h = 1.0 / 1024.0f32;
    let column = |index: usize| -> Vec<f64> {
        let at = |h: f32| {
            let mut moved = weights.clone();
            moved[index] += h;
            let params = with_values(&evaluator.params, &moved, &ranges(&evaluator.params));
            gradient(&model, &params, &evaluator.quant, &batches).unwrap()
        };
        let (up, down) = (at(h), at(-h));
        up.iter().zip(down).map(|(up, down)| f64::from(up - down) / f64::from(2.0 * h)).collect()
    };
    (0..weights.len()).map(column).collect()
}

/// The eigenvalue of largest magnitude of a symmetric matrix, by power iteration in f64 until nothing changes.
fn largest(matrix: &[Vec<f64>]) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut v: Vec<f64> = (0..matrix.len()).map(|i| (i as f64 + 0.5).sin()).collect();
    let mut value = 0.0;
    for _ in 0..5000 {
        let product: Vec<f64> = matrix.iter().map(|row| dot(row, &v)).collect();
        let length = dot(&product, &product).sqrt();
        value = dot(&v, &product) / dot(&v, &v);
        v = product.into_iter().map(|x| x / length).collect();
    }
    value
}

#[test]
fn eigenvalue_and_traces_of_a_network_are_those_of_its_dense_hessian() {
    let matrix = dense(&evaluator());
    let found = evaluator().curvature(SAMPLE.0, SAMPLE.1, &SPEC).unwrap();
    let (eigenvalue, expected) = (found.largest_eigenvalue.unwrap(), largest(&matrix));
    assert!((eigenvalue.value / expected - 1.0).abs() < 0.01, "{eigenvalue:?}, {expected}");
    assert!(eigenvalue.sensitivity.abs() < 0.01, "{eigenvalue:?}");
    let trace = |range: Range<usize>| range.map(|i| matrix[i][i]).sum::<f64>();
    let near = |estimate: Estimate, expected: f64| {
        (estimate.mean - expected).abs() < 4.5 * estimate.standard_error.unwrap() + 1e-3
    };
    assert!(near(found.trace, trace(0..matrix.len())), "{:?}, {}", found.trace, trace(0..matrix.len()));
    for (layer, range) in found.layers.iter().zip(ranges(&evaluator().params)) {
        assert!(near(layer.trace, trace(range.clone())), "{layer:?}, {}", trace(range));
    }
}

#[test]
fn the_fisher_trace_is_the_mean_squared_gradient_of_sequences() {
    let evaluator = evaluator();
    let weights = evaluator.params.read().unwrap().concat();
    let batches: Vec<Batch> = evaluator.batches.sample(SAMPLE.0, SAMPLE.1).collect::<Result<_, _>>().unwrap();
    let sequences: Vec<Batch> = batches.iter().flat_map(sequences_of).collect();
    assert_eq!(sequences.len(), 6);
    let h = 1.0 / 256.0f32;
    let square = |index: usize| -> f64 {
        let derivative = |sequence: &Batch| {
            let at = |h: f32| {
                let mut moved = weights.clone();
                moved[index] += h;
                loss(&evaluator, &moved, std::slice::from_ref(sequence))
            };
            (at(h) - at(-h)) / f64::from(2.0 * h)
        };
        sequences.iter().map(|sequence| derivative(sequence).powi(2)).sum::<f64>() / 6.0
    };
    let ranges = ranges(&evaluator.params);
    let expected: Vec<f64> = ranges.into_iter().map(|range| range.map(square).sum()).collect();
    let spec = CurvatureSpec { draws: 1, iterations: 1, ..SPEC };
    let found = evaluator.curvature(SAMPLE.0, SAMPLE.1, &spec).unwrap();
    for (layer, expected) in found.layers.iter().zip(&expected) {
        assert!((layer.fisher_trace / expected - 1.0).abs() < 0.02, "{layer:?}, {expected}");
    }
    assert!((found.fisher_trace / expected.iter().sum::<f64>() - 1.0).abs() < 0.01);
    assert_eq!((found.sequences, found.tokens_per_sequence, found.signal_to_noise), (6, 4, None));
}
