//! Weights of other programs, compared with Hugging Face's logits: `fixtures/gpt2` describes how they
//! were recorded.

use std::{fs, path::PathBuf};

use altgrad_config::GeluChoice;
use altgrad_data::Batch;

use altgrad_engine::{
    device::ComputeDevice,
    model::{Dropout, Forward, Gpt, GptShape, Layout, Parts, weights},
    quant::{QuantPass, Quantizer},
    tensor,
};
use serde::Deserialize;

const VOCAB: usize = 50;
const BLOCK: usize = 16;

#[derive(Deserialize)]
struct Recorded {
    ids: Vec<i32>,
    gpt2: Vec<Vec<f64>>,
    nanogpt: Vec<Vec<f64>>,
    half: Vec<Vec<f64>>,
}

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/gpt2").join(name)
}

fn recorded() -> Recorded {
    serde_json::from_slice(&fs::read(fixture("logits.json")).unwrap()).unwrap()
}

/// Largest distance to the recorded logits, of a model of this shape with the weights of `file`.
fn distance(file: &str, (bias, tie_weights): (bool, bool), gelu: GeluChoice, expected: &[Vec<f64>]) -> f64 {
    let shape = GptShape {
        vocab: VOCAB,
        block_size: BLOCK,
        n_layer: 2,
        n_head: 4,
        n_embd: 16,
        bias,
        tie_weights,
        parts: Parts::NANOGPT,
    };
    let layout = Layout::new(&shape);
    let device = ComputeDevice::cpu().tensors;
    let values = weights::read(&fixture(file), &layout).unwrap();
    let weights: Vec<_> = values.into_iter().map(|values| tensor::flat(values, &device)).collect();
    let quant = Quantizer::off();
    let dropout = Dropout::off();
    let pass = Forward {
        layout: &layout,
        weights: &weights,
        quant: &QuantPass::new(&quant),
        micro_batch: 0,
        dropout,
        trace: None,
        attention: None,
    };
    let batch = Batch { inputs: recorded().ids, targets: Vec::new(), shape: [1, BLOCK] };
    let logits = Gpt { shape, gelu }.logits(&pass, &batch.into()).reshape([BLOCK * VOCAB]);
    let logits = tensor::read_f32(logits).unwrap();
    let expected: Vec<f64> = expected.iter().flatten().copied().collect();
    assert_eq!(logits.len(), expected.len());
    logits.iter().zip(expected).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max)
}

#[test]
fn logits_are_hugging_faces() {
    let recorded = recorded();
    let gpt2 = distance("gpt2.safetensors", (true, true), GeluChoice::Tanh, &recorded.gpt2);
    let nanogpt = distance("nanogpt.safetensors", (false, true), GeluChoice::Erf, &recorded.nanogpt);
    let half = distance("half.safetensors", (true, false), GeluChoice::Tanh, &recorded.half);
    println!("largest distance: gpt2 {gpt2:.1e}, nanogpt {nanogpt:.1e}, half {half:.1e}");
    assert!(gpt2 < 1e-5 && nanogpt < 1e-5 && half < 1e-5, "{gpt2:e} {nanogpt:e} {half:e}");
    // The test can fail: the other GELU is seen.
    let other = distance("gpt2.safetensors", (true, true), GeluChoice::Erf, &recorded.gpt2);
    assert!(other > 1e-4, "{other:e}");
}
