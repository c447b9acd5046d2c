//! The inputs of a forward pass, and the operations that all parts of the model share.

use burn::tensor::Tensor;

use super::{
    dropout::Dropout,
    layout::{Affine, Layout, ParamId},
};
use crate::{
    fused_ops::attention::AttentionMonitor,
    quant::{QuantPass, Role},
    trace::{Trace, TraceScope},
};

/// The inputs of a forward pass, apart from the batch.
#[derive(Debug)]
pub struct Forward<'a> {
    /// The parameter table.
    pub layout: &'a Layout,
    /// Values in its order, `[n]` each; tracked by autodiff in training.
    pub weights: &'a [Tensor<1>],
    /// The quantization of linear layers.
    pub quant: &'a QuantPass<'a>,
    /// Number of this micro-batch within its step.
    pub micro_batch: u64,
    /// This pass's dropout.
    pub dropout: Dropout,
    /// The trace that records the tensors of this pass.
    pub trace: Option<&'a Trace>,
    /// The monitor that receives the attention of this pass.
    pub attention: Option<&'a AttentionMonitor>,
}

impl Forward<'_> {
    /// `y = x W^T + b`, rounded by the layer's formats.
    /// Shapes: `x` `[batch, block, in]`, weight `[out, in]`, result `[batch, block, out]`.
    pub(super) fn linear(&self, layer: Affine, x: Tensor<3>) -> Tensor<3> {
        let [batch, block, inputs] = x.dims();
        let (x, weight) = (x.reshape([batch * block, inputs]), self.matrix(layer.weight));
        let outputs = weight.dims()[0];
        // The tied head shares its weight with the embedding, not its name.
        let head = layer.weight == self.layout.head;
        let scope =
            if head { TraceScope::new(self.trace, "lm_head") } else { self.scope(layer.weight, ".weight") };
        let y = self.quant.linear(layer.weight, x, weight, self.micro_batch, scope);
        let y = y.reshape([batch, block, outputs]);
        let y = match layer.bias {
            Some(bias) => y + self.weights[bias].clone().reshape([1, 1, outputs]),
            None => y,
        };
        let y = if head { self.cast(layer, Role::Logits, y) } else { y };
        scope.observe("output", y)
    }

    /// A tensor rounded at the layer's site, if there is one.
    pub(super) fn cast(&self, layer: Affine, role: Role, x: Tensor<3>) -> Tensor<3> {
        self.quant.values(layer.weight, self.micro_batch).cast(role, x)
    }

    /// The language-model head.
    pub(super) fn head(&self) -> Affine {
        Affine { weight: self.layout.head, bias: None }
    }

    /// A weight: `[out, in]`.
    pub(super) fn matrix(&self, weight: ParamId) -> Tensor<2> {
        let shape = &self.layout.specs[weight].shape;
        self.weights[weight].clone().reshape([shape[0], shape[1]])
    }

    /// The trace scope of a parameter's layer: the name of the parameter without `suffix`.
    pub(super) fn scope(&self, id: ParamId, suffix: &str) -> TraceScope<'_> {
        let name = &self.layout.specs[id].name;
        TraceScope::new(self.trace, name.strip_suffix(suffix).unwrap_or(name))
    }
}
