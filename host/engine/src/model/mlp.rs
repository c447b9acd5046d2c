//! The gated forms of the MLP: SwiGLU and its smoothed form. The GELU form is in `gpt`.

use altgrad_config::MlpChoice;
use burn::tensor::Tensor;

use super::{
    gpt::Forward,
    layout::{Affine, BlockLayout},
};
use crate::cpu_ops::swiglu;

/// Widths are rounded up to a multiple of this, which blocks of 16 elements divide.
const MULTIPLE: usize = 16;

/// Channels between the two halves of an MLP: `4 n_embd` with GELU; with a gate `8/3 n_embd`, rounded up to a multiple of 16, so
/// that it has about as many weights.
#[must_use]
pub fn hidden_width(choice: MlpChoice, n_embd: usize) -> usize {
    match choice {
        MlpChoice::Gelu => 4 * n_embd,
        MlpChoice::Swiglu | MlpChoice::SmoothSwiglu => (8 * n_embd).div_ceil(3).next_multiple_of(MULTIPLE),
    }
}

/// Outputs of the first linear layer: the hidden channels, and as many gates.
#[must_use]
pub fn up_width(choice: MlpChoice, n_embd: usize) -> usize {
    let hidden = hidden_width(choice, n_embd);
    if choice == MlpChoice::Gelu { hidden } else { 2 * hidden }
}

/// The MLP from the output of its first linear layer on. The smoothed form divides the linear half of each token by its largest
/// magnitude before the second layer rounds its input, and multiplies the product by it. A bias is added after that.
/// Shapes: `x` `[batch, block, 2 hidden]`, result `[batch, block, n_embd]`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_widths_are_eight_thirds_in_multiples_of_sixteen() {
        for (n_embd, hidden) in
            [(1, 16), (6, 16), (8, 32), (128, 352), (384, 1024), (768, 2048), (4096, 10_928)]
        {
            assert_eq!(hidden_width(MlpChoice::Swiglu, n_embd), hidden);
            assert_eq!(up_width(MlpChoice::SmoothSwiglu, n_embd), 2 * hidden);
        }
        assert_eq!((hidden_width(MlpChoice::Gelu, 128), up_width(MlpChoice::Gelu, 128)), (512, 512));
    }
}
