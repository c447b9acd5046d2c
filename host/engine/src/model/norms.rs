//! The norms of a GPT: the function of `fused_ops` for each choice of a run file.

use altgrad_config::NormChoice;
use burn::tensor::Tensor;

use super::{forward::Forward, layout::BlockLayout};
use crate::{
    fused_ops::{attention::AttentionShape, norm::layer_norm, qk_norm::qk_norm, rms_norm::rms_norm},
    quant::Role,
};

/// The stacked queries, keys and values, `[batch, block, 3 width]`, with queries and keys normalised if the block has
/// gains for them. Records gains and result.
pub(super) fn qk(
    pass: &Forward<'_>,
    layout: &BlockLayout,
    qkv: Tensor<3>,
    shape: AttentionShape,
) -> Tensor<3> {
    let Some(gains) = layout.qk_norm else { return qkv };
    let gains = gains.map(|id| {
        let gain = pass.weights[id].clone();
        pass.scope(id, ".weight").record("weight", &gain);
        pass.quant.values(id, 0).cast(Role::NormGain, gain)
    });
    let scope = pass.scope(layout.c_attn.weight, ".c_attn.weight");
    scope.observe("normed queries and keys", qk_norm(qkv, gains, shape, EPSILON))
}

/// The term added under the root: nanoGPT's and GPT-2's value for LayerNorm, Llama 2's for RMSNorm.
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
