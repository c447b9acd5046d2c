//! The norms of a GPT: which function of `cpu_ops` a run file's choice is.

use altgrad_config::NormChoice;
use burn::tensor::Tensor;

use crate::cpu_ops::{norm::layer_norm, rms_norm::rms_norm};

/// What is added under the root: nanoGPT's and GPT-2's value for LayerNorm, Llama 2's for RMSNorm.
const EPSILON: f64 = 1e-5;

/// The norm over the last axis. Shapes: `x` `[batch, block, n]`, weight and bias `[n]`. RMSNorm has no bias.
pub(super) fn norm(
    choice: NormChoice,
    x: Tensor<3>,
    weight: Tensor<1>,
    bias: Option<Tensor<1>>,
) -> Tensor<3> {
    match choice {
        NormChoice::LayerNorm => layer_norm(x, weight, bias, EPSILON),
        NormChoice::RmsNorm => rms_norm(x, weight, EPSILON),
    }
}
