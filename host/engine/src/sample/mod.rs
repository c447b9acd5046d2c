//! Text from a trained model: one token at a time, each drawn from the model's distribution of the next token.
//!
//! [`Sampler`] computes, [`pick`] draws, [`text`] converts ids to text. Weights and activations are rounded as in the
//! run's evaluations. The model is not changed. Every token has a place of its own in the random stream, so a seed
//! determines the text.

pub mod pick;
pub mod text;

use altgrad_base::{
    diagnostic::Diagnostic,
    random::{self, Stream},
};
use altgrad_config::{DataSection, TokenizerChoice};
use altgrad_data::{Batch, Corpus, tokenizer::Tokenizer};
use burn::tensor::Tensor;

use crate::{
    device::ComputeDevice,
    load_model::SavedModel,
    model::{Dropout, Forward, Gpt, Layout},
    quant::{QuantPass, Quantizer},
    tensor,
};
use pick::Picking;

/// A model that generates text.
#[derive(Debug)]
pub struct Sampler {
    gpt: Gpt,
    layout: Layout,
    weights: Vec<Tensor<1>>,
    quant: Quantizer,
    /// Ids that may be drawn: those of the tokenizer; the model's table may be padded beyond them.
    known: usize,
}

impl Sampler {
    /// A sampler of `model` that rounds by `quant` and draws ids below `known`, at least 1.
    #[must_use]
    pub fn new(model: SavedModel, quant: Quantizer, device: &ComputeDevice, known: usize) -> Self {
        let weights = model.values.into_iter().map(|values| tensor::flat(values, &device.tensors)).collect();
        let known = known.clamp(1, model.shape.vocab.max(1));
        let gpt = Gpt { shape: model.shape, gelu: model.config.model.gelu };
        Self { gpt, layout: model.layout, weights, quant, known }
    }

    /// Logits of the token that follows `ids`, of which only the last block is used; one per id that may be drawn.
    ///
    /// # Errors
    /// There are no ids, or the device or a format failed.
    pub fn next_logits(&self, ids: &[u16]) -> Result<Vec<f32>, Diagnostic> {
        let window = &ids[ids.len().saturating_sub(self.gpt.shape.block_size)..];
        if window.is_empty() {
            return Err(Diagnostic::config("the prompt is empty")
                .hint("give at least one character; --prompt $'\\n' begins a line"));
        }
        let pass = Forward {
            layout: &self.layout,
            weights: &self.weights,
            quant: &QuantPass::new(&self.quant),
            micro_batch: 0,
            dropout: Dropout::off(),
            trace: None,
            attention: None,
        };
        let inputs = window.iter().map(|id| i32::from(*id)).collect();
        let batch = Batch { inputs, targets: Vec::new(), shape: [1, window.len()] };
        let logits = self.gpt.logits(&pass, &batch.into()).narrow(1, window.len() - 1, 1);
        let logits = tensor::read_f32(logits.narrow(2, 0, self.known).reshape([self.known]))?;
        self.quant.plan.check()?;
        Ok(logits)
    }

    /// Continues `prompt` by `count` tokens and passes each to `on_token`, which may stop it with `false`.
    ///
    /// # Errors
    /// As [`Self::next_logits`], or the logits are NaN or infinite.
    pub fn generate(
        &self,
        prompt: &[u16],
        count: u64,
        picking: &Picking,
        seed: u64,
        mut on_token: impl FnMut(u16) -> bool,
    ) -> Result<(), Diagnostic> {
        let mut ids = prompt.to_vec();
        for index in 0..count {
            let logits = self.next_logits(&ids)?;
            let id = pick::pick(&logits, picking, &mut random::at(seed, Stream::Sampling, index))?;
            if !on_token(id) {
                break;
            }
            ids.push(id);
        }
        Ok(())
    }
}

/// The tokenizer of a resolved run file. Opens the corpus only if the file has no vocabulary.
///
/// # Errors
/// The corpus is needed and cannot be read.
pub fn tokenizer(data: &DataSection) -> Result<Tokenizer, Diagnostic> {
    match (data.tokenizer, &data.alphabet) {
        (TokenizerChoice::Byte, _) => Ok(Tokenizer::Byte),
        (TokenizerChoice::Char, Some(alphabet)) => Ok(Tokenizer::Char(alphabet.chars().collect())),
        (TokenizerChoice::Gpt2, _) => Ok(Tokenizer::Gpt2),
        _ => Ok(Corpus::open(data)?.tokenizer),
    }
}
