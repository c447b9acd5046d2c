//! GPT's forward pass and loss: pre-LayerNorm, learned positions, causal attention, GELU, exact unless GPT-2's is asked for.
//!
//! Follows nanoGPT's `model.py` (and GPT-2) operation by operation; the parity test holds it to recorded
//! losses and gradients. The same code trains (parameters tracked) and evaluates (not tracked).

use burn::tensor::{Device, Int, Tensor, TensorData, activation, module};

use super::{
    dropout::Dropout,
    layout::{Affine, BlockLayout, GptShape, Layout, ParamId},
};
use crate::{
    config::GeluChoice,
    data::Batch,
    fused::{self, attention},
    quant::Quant,
    trace::{At, Trace},
};

/// nanoGPT's and GPT-2's LayerNorm epsilon.
const LAYER_NORM_EPS: f64 = 1e-5;

/// A GPT of a given shape, without values.
#[derive(Debug)]
pub struct Gpt {
    /// The shape.
    pub shape: GptShape,
    /// The MLP's activation function.
    pub gelu: GeluChoice,
}

/// What one forward pass works with.
#[derive(Debug)]
pub struct Forward<'a> {
    /// The parameter table.
    pub layout: &'a Layout,
    /// Values in its order, `[n]` each; tracked by autodiff in training.
    pub weights: &'a [Tensor<1>],
    /// What linear layers round.
    pub quant: &'a Quant,
    /// Number of this micro-batch within its step.
    pub micro_batch: u64,
    /// This pass's dropout.
    pub dropout: Dropout,
    /// What is shown the tensors of this pass.
    pub trace: Option<&'a Trace>,
}

impl Gpt {
    /// Mean next-token cross-entropy of a batch, nats: `[1]`.
    #[must_use]
    pub fn loss(&self, pass: &Forward<'_>, batch: &Batch) -> Tensor<1> {
        let x = self.hidden(pass, batch);
        let [batch_size, block, width] = x.dims();
        let (head, rows) = (pass.head(), batch_size * block);
        // A trace is shown the logits; rounding their gradient needs them all, for its scale.
        let in_parts = pass.trace.is_none() && pass.quant.passes_gradient(head.weight);
        if in_parts && fused::on(&x.device()) {
            let (x, weight) = (x.reshape([rows, width]), pass.matrix(head.weight));
            let (x, weight) = pass.quant.operands(head.weight, x, weight, pass.micro_batch, At::NOWHERE);
            return fused::head::cross_entropy(x.values, weight.values, &batch.targets);
        }
        let logits = pass.linear(head, x).reshape([rows, self.shape.vocab]);
        let at = At::new(pass.trace, "loss");
        let loss = fused::loss::cross_entropy(logits, &batch.targets, at);
        at.value("cross-entropy", &loss);
        loss
    }

    /// Logits of every position: `[batch, block, vocab]`.
    #[must_use]
    pub fn logits(&self, pass: &Forward<'_>, batch: &Batch) -> Tensor<3> {
        pass.linear(pass.head(), self.hidden(pass, batch))
    }

    /// What the output layer reads: `[batch, block, n_embd]`.
    fn hidden(&self, pass: &Forward<'_>, batch: &Batch) -> Tensor<3> {
        let [_, block] = batch.shape;
        let width = self.shape.n_embd;
        let table = |id: ParamId, rows: usize| {
            let table: Tensor<2> = pass.weights[id].clone().reshape([rows, width]);
            pass.at(id, ".weight").value("weight", &table);
            table
        };
        let device = pass.weights[pass.layout.wte].device();
        let tokens = module::embedding(
            table(pass.layout.wte, self.shape.vocab),
            ids(&batch.inputs, batch.shape, &device),
        );
        let tokens = pass.at(pass.layout.wte, ".weight").point("lookup", tokens);
        let positions = table(pass.layout.wpe, self.shape.block_size).narrow(0, 0, block);
        let x = pass.dropout.apply(tokens + positions.unsqueeze_dim(0));
        let mut x = At::new(pass.trace, "embeddings").point("sum", x);
        for layout in &pass.layout.blocks {
            x = self.block(pass, layout, x);
        }
        norm(pass, pass.layout.ln_f, x)
    }

    /// One block. Shapes: `x` and the result `[batch, block, n_embd]`.
    fn block(&self, pass: &Forward<'_>, layout: &BlockLayout, x: Tensor<3>) -> Tensor<3> {
        let attended = self.attention(pass, layout, norm(pass, layout.ln_1, x.clone()));
        let x = pass.at(layout.c_attn.weight, ".c_attn.weight").point("residual", x + attended);
        let at = pass.at(layout.c_fc.weight, ".c_fc.weight");
        let hidden = pass.linear(layout.c_fc, norm(pass, layout.ln_2, x.clone()));
        let hidden = match self.gelu {
            GeluChoice::Erf => fused::gelu::gelu(hidden),
            GeluChoice::Tanh => activation::gelu_approximate(hidden),
        };
        let hidden = pass.linear(layout.mlp_proj, at.point("gelu", hidden));
        at.point("residual", x + pass.dropout.apply(hidden))
    }

    /// Causal self-attention; heads are contiguous slices of q, k and v. Shapes as in [`Self::block`].
    fn attention(&self, pass: &Forward<'_>, layout: &BlockLayout, x: Tensor<3>) -> Tensor<3> {
        let [batch, block, width] = x.dims();
        let shape = attention::Shape { batch, block, heads: self.shape.n_head, width };
        let at = pass.at(layout.c_attn.weight, ".c_attn.weight");
        let qkv = pass.linear(layout.c_attn, x);
        let mask = pass.dropout.mask([batch, shape.heads, block, block].into(), &qkv.device());
        let y = at.point("output", attention::causal(qkv, mask, shape, pass.quant, at));
        pass.dropout.apply(pass.linear(layout.attn_proj, y))
    }
}

impl Forward<'_> {
    /// `y = x W^T + b`, rounded as the layer's formats say.
    /// Shapes: `x` `[batch, block, in]`, weight `[out, in]`, result `[batch, block, out]`.
    fn linear(&self, layer: Affine, x: Tensor<3>) -> Tensor<3> {
        let [batch, block, inputs] = x.dims();
        let (x, weight) = (x.reshape([batch * block, inputs]), self.matrix(layer.weight));
        let outputs = weight.dims()[0];
        // The tied head shares its weight with the embedding, not its name.
        let head = layer.weight == self.layout.head;
        let at = if head { At::new(self.trace, "lm_head") } else { self.at(layer.weight, ".weight") };
        let y = self.quant.linear(layer.weight, x, weight, self.micro_batch, at);
        let y = y.reshape([batch, block, outputs]);
        let y = match layer.bias {
            Some(bias) => y + self.weights[bias].clone().reshape([1, 1, outputs]),
            None => y,
        };
        at.point("output", y)
    }

    /// The output layer.
    fn head(&self) -> Affine {
        Affine { weight: self.layout.head, bias: None }
    }

    /// A weight: `[out, in]`.
    fn matrix(&self, weight: ParamId) -> Tensor<2> {
        let shape = &self.layout.specs[weight].shape;
        self.weights[weight].clone().reshape([shape[0], shape[1]])
    }

    /// The layer that a parameter's name says, less its end.
    fn at(&self, id: ParamId, end: &str) -> At<'_> {
        let name = &self.layout.specs[id].name;
        At::new(self.trace, name.strip_suffix(end).unwrap_or(name))
    }
}

fn norm(pass: &Forward<'_>, layer: Affine, x: Tensor<3>) -> Tensor<3> {
    let at = pass.at(layer.weight, ".weight");
    let (weight, bias) = (&pass.weights[layer.weight], layer.bias.map(|bias| pass.weights[bias].clone()));
    at.value("weight", weight);
    at.point("output", fused::norm::layer_norm(x, weight.clone(), bias, LAYER_NORM_EPS))
}

fn ids(values: &[i32], shape: [usize; 2], device: &Device) -> Tensor<2, Int> {
    Tensor::from_data(TensorData::new(values.to_vec(), shape), device)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{device::ComputeDevice, model::params};

    /// x * Phi(x) with Phi from tables of the normal distribution; the tanh form is off by up to 5e-4.
    /// The recorded trajectories start too near zero to tell the two apart.
    #[test]
    fn gelu_is_the_exact_one() {
        let rows = [(1.0, 0.841_344_8), (2.0, 1.954_499_7), (-1.0, -0.158_655_25), (-2.0, -0.045_500_264)];
        let x = params::flat(rows.iter().map(|(x, _)| *x).collect(), &ComputeDevice::cpu().tensors);
        let y = params::read_f32(fused::gelu::gelu(x)).unwrap();
        for ((x, expected), y) in rows.iter().zip(&y) {
            assert!((y - expected).abs() < 2e-6, "gelu({x}) = {y}, expected {expected}");
        }
    }
}
