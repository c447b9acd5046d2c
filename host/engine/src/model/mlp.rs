//! The gated forms of the MLP: SwiGLU and its smoothed form. The GELU form is in `gpt`.

use altgrad_config::MlpChoice;
use burn::tensor::Tensor;

use super::{
    forward::Forward,
    layout::{Affine, BlockLayout},
};
use crate::fused_ops::swiglu;

/// The MLP from the output of its first linear layer on. The smoothed form divides the linear half of each token by its
/// largest magnitude before the second layer rounds its input, and multiplies the product by it. A bias is added after
/// that. Shapes: `x` `[batch, block, 2 hidden]`, result `[batch, block, n_embd]`.
pub(super) fn gated(pass: &Forward<'_>, layout: &BlockLayout, x: Tensor<3>) -> Tensor<3> {
    let scope = pass.scope(layout.c_fc.weight, ".c_fc.weight");
    if pass.layout.parts.mlp != MlpChoice::SmoothSwiglu {
        return pass.linear(layout.mlp_proj, scope.observe("swiglu", swiglu::swiglu(x, None)));
    }
    let [batch, block, _] = x.dims();
    let scales = swiglu::scales(&x);
    let hidden = scope.observe("swiglu", swiglu::swiglu(x, Some(scales.clone())));
    let product = pass.linear(Affine { bias: None, ..layout.mlp_proj }, hidden);
    let y = scope.observe("rescaled", product * scales.reshape([batch, block, 1]));
    match layout.mlp_proj.bias {
        Some(bias) => y + pass.weights[bias].clone().unsqueeze(),
        None => y,
    }
}
