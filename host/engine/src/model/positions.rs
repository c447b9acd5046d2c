//! Positions in attention: rotary ones rotate queries and keys, learned ones were added to the embeddings.

use altgrad_config::PositionsChoice;
use burn::tensor::Tensor;

use crate::{
    fused_ops::{attention::AttentionShape, rotary::rotary},
    trace::TraceScope,
};

/// The stacked queries, keys and values, `[batch, block, 3 width]`, as attention requires them. Records the rotated
/// tensors.
pub(super) fn rotated(
    choice: PositionsChoice,
    qkv: Tensor<3>,
    shape: AttentionShape,
    scope: TraceScope<'_>,
) -> Tensor<3> {
    match choice {
        PositionsChoice::Learned => qkv,
        PositionsChoice::Rotary => scope.observe("rotated", rotary(qkv, shape)),
    }
}
