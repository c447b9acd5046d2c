//! GPT's forward pass and loss: norms before each half of a block, causal attention, an MLP. The run file chooses norm,
//! positions and MLP; the defaults are nanoGPT's: LayerNorm, learned positions, exact GELU.
//!
//! Follows nanoGPT's `model.py` (and GPT-2) operation by operation; the parity test compares it with recorded losses
//! and gradients. The same code trains (parameters tracked) and evaluates (not tracked).

use altgrad_config::{GeluChoice, MlpChoice, PrecisionChoice};
use burn::tensor::{Tensor, activation, module};

use super::{
    forward::Forward,
    layout::{Affine, BlockLayout, GptShape, ParamId},
    mlp,
    model_batch::ModelBatch,
    norms, positions,
};
use crate::{
    fused_ops::{
        self, attention,
        z_loss::{self, Objective},
    },
    quant::Role,
    tensor::untracked,
    trace::TraceScope,
};

/// A GPT of a given shape, without values.
#[derive(Debug, Clone)]
pub struct Gpt {
    /// The shape.
    pub shape: GptShape,
    /// The MLP's activation function.
    pub gelu: GeluChoice,
}

impl Gpt {
    /// Mean next-token cross-entropy of a batch, nats: `[1]`. `gradient` is its gradient, if there is a backward pass.
    #[must_use]
    pub fn loss(&self, pass: &Forward<'_>, batch: &ModelBatch, gradient: f32) -> Tensor<1> {
        let x = self.hidden(pass, batch);
        let [batch_size, block, width] = x.dims();
        let (head, rows) = (pass.head(), batch_size * block);
        let casts = pass.quant.values(head.weight, pass.micro_batch);
        let logits = if pass.trace.is_some() || casts.any(&[Role::Logits]) {
            pass.linear(head, x).reshape([rows, self.shape.vocab])
        } else {
            let (x, weight, off) = (x.reshape([rows, width]), pass.matrix(head.weight), TraceScope::OFF);
            // Casts of the gradient or of the operands need all logits.
            if !pass.quant.casts_backward(head.weight) && fused_ops::is_available(&x.device()) {
                let (x, weight) = pass.quant.operands(head.weight, x, weight, pass.micro_batch, off);
                let bf16 = (pass.quant.precision() == PrecisionChoice::Bf16).then_some(gradient);
                return fused_ops::lm_head::cross_entropy(x.values, weight.values, batch.targets().ids, bf16);
            }
            // Without a reshape, which copies rows that a device has padded.
            pass.quant.linear(head.weight, x, weight, pass.micro_batch, off)
        };
        let scope = TraceScope::new(pass.trace, "loss");
        let loss = fused_ops::loss::cross_entropy(logits, batch.targets(), scope);
        scope.record("cross-entropy", &loss);
        loss
    }

    /// The objective of training: the loss plus z-loss times its coefficient. `gradient` is its gradient.
    #[must_use]
    pub fn objective(&self, pass: &Forward<'_>, batch: &ModelBatch, z_loss: f64, gradient: f32) -> Objective {
        if z_loss == 0.0 {
            let loss = self.loss(pass, batch, gradient);
            return Objective { loss: untracked(loss.clone()), value: loss };
        }
        let targets = batch.targets();
        let logits = self.logits(pass, batch).reshape([targets.ids.len(), self.shape.vocab]);
        z_loss::objective(logits, targets, z_loss, TraceScope::new(pass.trace, "loss"))
    }

    /// Logits of every position: `[batch, block, vocab]`.
    #[must_use]
    pub fn logits(&self, pass: &Forward<'_>, batch: &ModelBatch) -> Tensor<3> {
        pass.linear(pass.head(), self.hidden(pass, batch))
    }

    /// The input of the language-model head: `[batch, block, n_embd]`.
    fn hidden(&self, pass: &Forward<'_>, batch: &ModelBatch) -> Tensor<3> {
        let [_, block] = batch.batch.shape;
        let width = self.shape.n_embd;
        let table = |id: ParamId, rows: usize| {
            let table: Tensor<2> = pass.weights[id].clone().reshape([rows, width]);
            pass.scope(id, ".weight").record("weight", &table);
            table
        };
        let device = pass.weights[pass.layout.wte].device();
        let tokens = module::embedding(table(pass.layout.wte, self.shape.vocab), batch.inputs(&device));
        let tokens = pass.quant.values(pass.layout.wte, pass.micro_batch).cast(Role::Embedding, tokens);
        let tokens = pass.scope(pass.layout.wte, ".weight").observe("lookup", tokens);
        let x = match pass.layout.wpe {
            Some(wpe) => {
                let positions = table(wpe, self.shape.block_size).narrow(0, 0, block);
                tokens + positions.unsqueeze_dim(0)
            }
            None => tokens,
        };
        let x = pass.dropout.apply(x);
        let mut x = TraceScope::new(pass.trace, "embeddings").observe("sum", x);
        for layout in &pass.layout.blocks {
            x = self.block(pass, layout, x);
        }
        norm(pass, pass.layout.ln_f, x)
    }

    /// One block. Shapes: `x` and the result `[batch, block, n_embd]`.
    fn block(&self, pass: &Forward<'_>, layout: &BlockLayout, x: Tensor<3>) -> Tensor<3> {
        let attended = self.attention(pass, layout, norm(pass, layout.ln_1, x.clone()));
        let x = pass.cast(layout.attn_proj, Role::Residual, x + attended);
        let x = pass.scope(layout.c_attn.weight, ".c_attn.weight").observe("residual", x);
        let hidden = pass.linear(layout.c_fc, norm(pass, layout.ln_2, x.clone()));
        let hidden = match pass.layout.parts.mlp {
            MlpChoice::Gelu => self.ungated(pass, layout, hidden),
            MlpChoice::Swiglu | MlpChoice::SmoothSwiglu => mlp::gated(pass, layout, hidden),
        };
        let x = pass.cast(layout.mlp_proj, Role::Residual, x + pass.dropout.apply(hidden));
        pass.scope(layout.c_fc.weight, ".c_fc.weight").observe("residual", x)
    }

    /// GELU and the second linear layer. Shapes: `hidden` `[batch, block, 4 n_embd]`, result `[batch, block, n_embd]`.
    fn ungated(&self, pass: &Forward<'_>, layout: &BlockLayout, hidden: Tensor<3>) -> Tensor<3> {
        let scope = pass.scope(layout.c_fc.weight, ".c_fc.weight");
        let hidden = match self.gelu {
            GeluChoice::Erf => fused_ops::gelu::gelu(hidden),
            GeluChoice::Tanh => activation::gelu_approximate(hidden),
        };
        pass.linear(layout.mlp_proj, scope.observe("gelu", hidden))
    }

    /// Queries, keys and values of every query head, `[batch, block, 3 n_embd]`: where groups share keys and values,
    /// each member gets them. The gradient of a shared head is the sum over its group.
    fn ungrouped(&self, qkv: Tensor<3>) -> Tensor<3> {
        let Some(kv_heads) = self.shape.parts.kv_heads else { return qkv };
        let ([batch, block, stacked], width, heads) = (qkv.dims(), self.shape.n_embd, self.shape.n_head);
        let shared = qkv.clone().narrow(2, width, stacked - width);
        let shared = shared.reshape([batch, block, 2 * kv_heads, 1, width / heads]);
        let members = shared.expand([batch, block, 2 * kv_heads, heads / kv_heads, width / heads]);
        Tensor::cat(vec![qkv.narrow(2, 0, width), members.reshape([batch, block, 2 * width])], 2)
    }

    /// Causal self-attention; heads are contiguous slices of q, k and v. Shapes as in [`Self::block`].
    fn attention(&self, pass: &Forward<'_>, layout: &BlockLayout, x: Tensor<3>) -> Tensor<3> {
        let [batch, block, width] = x.dims();
        let shape = attention::AttentionShape { batch, block, heads: self.shape.n_head, width };
        let scope = pass.scope(layout.c_attn.weight, ".c_attn.weight");
        let qkv = norms::qk(pass, layout, self.ungrouped(pass.linear(layout.c_attn, x)), shape);
        let qkv = positions::rotated(pass.layout.parts.positions, qkv, shape, scope);
        let mask = pass.dropout.mask([batch, shape.heads, block, block].into(), &qkv);
        let casts = pass.quant.values(layout.c_attn.weight, pass.micro_batch);
        let qkv = casts.cast_gradient(Role::QkvGrad, casts.cast(Role::Qkv, qkv));
        let monitor = pass.attention.map(|monitor| (monitor, layout.c_attn.weight));
        let y = attention::causal(qkv, mask, shape, (pass.quant.precision(), casts), scope, monitor);
        let y = scope.observe("output", y);
        pass.dropout.apply(pass.linear(layout.attn_proj, y))
    }
}

fn norm(pass: &Forward<'_>, layer: Affine, x: Tensor<3>) -> Tensor<3> {
    let scope = pass.scope(layer.weight, ".weight");
    let (weight, bias) = (&pass.weights[layer.weight], layer.bias.map(|bias| pass.weights[bias].clone()));
    scope.record("weight", weight);
    let weight = pass.quant.values(layer.weight, 0).cast(Role::NormGain, weight.clone());
    let y = norms::norm(pass.layout.parts.norm, x, weight, bias);
    scope.observe("output", pass.cast(layer, Role::Norm, y))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_config::{MasterWeightsChoice, PositionsChoice};
    use altgrad_data::Batch;

    use super::*;
    use crate::{
        device::ComputeDevice,
        fused_ops::{lm_head, loss},
        model::{Dropout, Layout, Parts},
        quant::{QuantPass, QuantPlan, Quantizer},
        tensor::{flat, read_f32, testing::numbers},
    };

    /// x * Phi(x) with Phi from tables of the normal distribution; the tanh form is off by up to 5e-4.
    /// The recorded trajectories start too near zero to distinguish the two.
    #[test]
    fn gelu_is_exact_and_not_the_tanh_approximation() {
        let rows = [(1.0, 0.841_344_8), (2.0, 1.954_499_7), (-1.0, -0.158_655_25), (-2.0, -0.045_500_264)];
        let x = flat(rows.iter().map(|(x, _)| *x).collect(), &ComputeDevice::cpu().tensors);
        let y = read_f32(fused_ops::gelu::gelu(x)).unwrap();
        for ((x, expected), y) in rows.iter().zip(&y) {
            assert!((y - expected).abs() < 2e-6, "gelu({x}) = {y}, expected {expected}");
        }
    }

    /// The loss at `values`, and the gradients of all parameters.
    fn loss_and_gradients(shape: GptShape, values: &[Vec<f32>], batch: &Batch) -> (f32, Vec<Vec<f32>>) {
        let (layout, device) = (Layout::new(&shape), ComputeDevice::cpu().tensors);
        let leaf = |values: &Vec<f32>| Tensor::from_inner(flat(values.clone(), &device)).require_grad();
        let weights: Vec<Tensor<1>> = values.iter().map(leaf).collect();
        let quant = Quantizer::off();
        let pass = Forward {
            layout: &layout,
            weights: &weights,
            quant: &QuantPass::new(&quant),
            micro_batch: 0,
            dropout: Dropout::off(),
            trace: None,
            attention: None,
        };
        let loss = Gpt { shape, gelu: GeluChoice::Erf }.loss(&pass, &batch.clone().into(), 1.0);
        let tape = loss.clone().backward();
        let gradient = |weight: &Tensor<1>| read_f32(weight.grad(&tape).unwrap()).unwrap();
        (read_f32(loss.inner()).unwrap()[0], weights.iter().map(gradient).collect())
    }

    /// The definition of grouped queries: a model without groups that repeats the rows of each shared head for its
    /// group has the same loss, and the gradients of its repeated rows sum to those of the shared ones.
    #[test]
    fn a_group_shares_the_repeated_rows_of_its_keys_and_values() {
        let batch = Batch {
            inputs: (0..12).map(|at| at * at % 11).collect(),
            targets: (0..12).map(|at| (at * 7 + 3) % 11).collect(),
            shape: [2, 6],
        };
        let rotary = Parts { positions: PositionsChoice::Rotary, qk_norm: true, ..Parts::NANOGPT };
        for (parts, kv_heads) in [(Parts::NANOGPT, 1), (Parts::NANOGPT, 2), (rotary, 2)] {
            let shape = |parts: Parts| GptShape {
                vocab: 11,
                block_size: 8,
                n_layer: 2,
                n_head: 4,
                n_embd: 16,
                bias: true,
                tie_weights: true,
                parts,
            };
            let grouped = Layout::new(&shape(Parts { kv_heads: Some(kv_heads), ..parts }));
            let whole = Layout::new(&shape(parts));
            assert_eq!(whole.elements() - grouped.elements(), 2 * 2 * (4 - kv_heads) * 4 * (16 + 1));
            // The row of the grouped model that a row of the whole one repeats: after 16 rows of queries come heads of
            // 4 rows.
            let source = |name: &str, row: usize| match row.checked_sub(16) {
                Some(row) if name.contains("c_attn") => 16 + row / 4 / (4 / kv_heads) * 4 + row % 4,
                _ => row,
            };
            let shared: Vec<Vec<f32>> = (0..)
                .zip(&grouped.specs)
                .map(|(seed, spec)| numbers(seed, spec.len()).iter().map(|x| 0.3 * x).collect())
                .collect();
            let rows = |id: usize| (whole.specs[id].shape[0], whole.specs[id].shape[1..].iter().product());
            let repeated: Vec<Vec<f32>> = (0..whole.specs.len())
                .map(|id| {
                    let (rows, width): (usize, usize) = rows(id);
                    let of = |row| source(&whole.specs[id].name, row) * width;
                    (0..rows).flat_map(|row| shared[id][of(row)..of(row) + width].to_vec()).collect()
                })
                .collect();
            let (loss, gradients) =
                loss_and_gradients(shape(Parts { kv_heads: Some(kv_heads), ..parts }), &shared, &batch);
            let (expected, of_rows) = loss_and_gradients(shape(parts), &repeated, &batch);
            assert!((loss - expected).abs() < 1e-6 * expected, "{loss}, {expected}");
            for (id, gradient) in gradients.iter().enumerate() {
                let name = &whole.specs[id].name;
                let (rows, width): (usize, usize) = rows(id);
                let mut sums = vec![0f32; gradient.len()];
                for at in 0..rows * width {
                    sums[source(name, at / width) * width + at % width] += of_rows[id][at];
                }
                let largest = sums.iter().fold(0f32, |largest, x| largest.max(x.abs()));
                for (found, sum) in gradient.iter().zip(&sums) {
                    assert!((found - sum).abs() <= 1e-5 * largest, "{name}: {found}, {sum}");
                }
            }
        }
    }

    #[test]
    fn the_loss_in_parts_has_the_bits_of_the_whole_product_and_its_loss() {
        let sizes = [[1, 1, 1], [3, 2, 5], [70, 16, 300], [lm_head::ROWS, 40, 7], [2500, 33, 2100]];
        let cases = sizes.into_iter().flat_map(|sizes| [false, true].map(|in_bf16| (sizes, in_bf16)));
        for ([rows, inner, vocab], in_bf16) in cases {
            // The gradient of the loss. In fp32 the parts multiply by it last, which changes no bit if it is a power of
            // two. In bf16 it is no power of two, so that the order of the factor and of the rounding shows.
            let (precision, gradient) =
                if in_bf16 { (PrecisionChoice::Bf16, 0.3) } else { (PrecisionChoice::Fp32, 0.5) };
            let plan = QuantPlan::new(Vec::new(), MasterWeightsChoice::Fp32, precision, 0);
            let quant = Quantizer::from(plan);
            let quant = QuantPass::new(&quant);
            let device = ComputeDevice::cpu().tensors;
            let targets: Vec<i32> = (0..rows).map(|row| (row * 7919 % vocab) as i32).collect();
            let run = |whole: bool| {
                let leaf = |seed, rows| {
                    Tensor::from_inner(flat(numbers(seed, rows * inner), &device)).require_grad()
                };
                let (x, w) = (leaf(1, rows), leaf(2, vocab));
                let matrices = (x.clone().reshape([rows, inner]), w.clone().reshape([vocab, inner]));
                let loss = if whole {
                    let logits = quant.linear(0, matrices.0, matrices.1, 0, TraceScope::OFF);
                    loss::cross_entropy(logits, targets[..].into(), TraceScope::OFF)
                } else {
                    let (x, w) = quant.operands(0, matrices.0, matrices.1, 0, TraceScope::OFF);
                    lm_head::cross_entropy(x.values, w.values, &targets, in_bf16.then_some(gradient))
                };
                let tape = loss.clone().mul_scalar(gradient).backward();
                [loss.inner(), x.grad(&tape).unwrap(), w.grad(&tape).unwrap()]
                    .map(|tensor| read_f32(tensor).unwrap())
            };
            assert!(run(false) == run(true), "[{rows}, {inner}, {vocab}], bf16: {in_bf16}");
        }
    }
}
