//! The mean loss over batches, without gradients.

use altgrad_base::diagnostic::Diagnostic;
use altgrad_data::Batch;

use crate::{
    fused_ops::in_pool,
    model::{Dropout, Forward, Gpt, Params},
    quant::{QuantPass, Quantizer},
    tensor,
};

/// A loss, and the kind of its mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeanLoss {
    /// Nats per token.
    pub loss: f64,
    /// Predicted tokens.
    pub tokens: u64,
}

/// Mean loss over the tokens of some batches, at least one, with the weights as training sees them. Changes no scale
/// that training remembers.
///
/// # Errors
/// The data cannot be read, or a plugin or the device failed.
pub fn mean_loss(
    gpt: &Gpt,
    params: &Params,
    quant: &Quantizer,
    batches: impl Iterator<Item = Result<Batch, Diagnostic>> + Send,
) -> Result<MeanLoss, Diagnostic> {
    in_pool(&params.values[0].device(), || mean_loss_of(gpt, params, quant, batches))
}

/// As [`mean_loss`], on this thread.
fn mean_loss_of(
    gpt: &Gpt,
    params: &Params,
    quant: &Quantizer,
    batches: impl Iterator<Item = Result<Batch, Diagnostic>>,
) -> Result<MeanLoss, Diagnostic> {
    let (mut sum, mut tokens) = (0.0, 0);
    let casts = QuantPass::new(quant);
    for batch in batches {
        let batch = batch?;
        let pass = Forward {
            layout: &params.layout,
            weights: &params.values,
            quant: &casts,
            micro_batch: 0,
            dropout: Dropout::off(),
            trace: None,
            attention: None,
        };
        let predicted = batch.targets.len() as u64;
        sum += f64::from(tensor::read_f32(gpt.loss(&pass, &batch.into(), 1.0))?[0]) * predicted as f64;
        tokens += predicted;
    }
    // Statistics have no use here, but the fault of a format is reported.
    quant.plan.check()?;
    Ok(MeanLoss { loss: sum / tokens as f64, tokens })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_config::{DeviceChoice, GeluChoice};
    use altgrad_data::{Batches, Corpus, Split, Tokens, tokenizer::Tokenizer};

    use super::*;
    use crate::{
        device::ComputeDevice,
        model::{GptShape, Layout, Parts},
    };

    const SHAPE: GptShape = GptShape {
        vocab: 11,
        block_size: 8,
        n_layer: 1,
        n_head: 2,
        n_embd: 8,
        bias: true,
        tie_weights: false,
        parts: Parts::NANOGPT,
    };

    fn held_out() -> Vec<u16> {
        (0..22u16).map(|at| at * at % 11).collect()
    }

    fn batches(batch_size: usize) -> Batches {
        let corpus = Corpus {
            train: Tokens::Memory(vec![0; 9]),
            val: Tokens::Memory(held_out()),
            tokenizer: Tokenizer::Byte,
            description: String::new(),
        };
        Batches::new(corpus, 1, batch_size, SHAPE.block_size)
    }

    /// Minus the log-probability of `target` among logits, in f64.
    fn surprise(logits: &[f32], target: u16) -> f64 {
        let sum: f64 = logits.iter().map(|logit| f64::from(*logit).exp()).sum();
        sum.ln() - f64::from(logits[usize::from(target)])
    }

    #[test]
    fn the_whole_split_is_the_mean_over_its_tokens_whatever_the_batch_size() {
        let device = ComputeDevice::open(DeviceChoice::Cpu).unwrap();
        let params = Params::init(Layout::new(&SHAPE), 5, &device.tensors);
        let (gpt, quant) = (Gpt { shape: SHAPE, gelu: GeluChoice::Erf }, Quantizer::off());
        // By hand: 21 targets in windows of 8, 8 and 5 tokens.
        let ids = held_out();
        let mut sum = 0.0;
        for (start, length) in [(0, 8), (8, 8), (16, 5)] {
            let inputs = ids[start..start + length].iter().map(|id| i32::from(*id)).collect();
            let batch = Batch { inputs, targets: Vec::new(), shape: [1, length] };
            let pass = Forward {
                layout: &params.layout,
                weights: &params.values,
                quant: &QuantPass::new(&quant),
                micro_batch: 0,
                dropout: Dropout::off(),
                trace: None,
                attention: None,
            };
            let logits = gpt.logits(&pass, &batch.into()).reshape([length * SHAPE.vocab]);
            let logits = tensor::read_f32(logits).unwrap();
            let targets = &ids[start + 1..=start + length];
            sum += logits.chunks(SHAPE.vocab).zip(targets).map(|(row, id)| surprise(row, *id)).sum::<f64>();
        }
        let expected = sum / 21.0;
        for batch_size in [1, 2, 5] {
            let found =
                mean_loss(&gpt, &params, &quant, batches(batch_size).whole(Split::Validation)).unwrap();
            assert_eq!(found.tokens, 21);
            assert!((found.loss - expected).abs() < 1e-6, "{batch_size}: {}, {expected}", found.loss);
        }
    }
}
