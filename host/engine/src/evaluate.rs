//! Evaluation of a saved model on its run's data, as during the run.

use altgrad_base::diagnostic::Diagnostic;
use altgrad_data::{Batch, Batches, Split};

use crate::{
    curvature::{self, Curvature, CurvatureSpec},
    device::ComputeDevice,
    load_model::SavedModel,
    model::{Gpt, Params},
    passes::{MeanLoss, mean_loss},
    quant::Quantizer,
    tensor,
};

/// A saved model and the data it is evaluated on.
#[derive(Debug)]
pub struct Evaluator {
    pub(crate) gpt: Gpt,
    pub(crate) params: Params,
    pub(crate) quant: Quantizer,
    pub(crate) batches: Batches,
    /// Number of updates of the weights, if known.
    pub step: Option<u64>,
}

impl Evaluator {
    /// Opens the data of `model`. Rounding follows `quant`, which [`SavedModel::restore`] has prepared.
    ///
    /// # Errors
    /// The data cannot be read or differ from those that the model was trained on, or the state of the weights is
    /// damaged.
    pub fn new(model: SavedModel, quant: Quantizer, device: &ComputeDevice) -> Result<Self, Diagnostic> {
        let data = &model.config.data;
        let corpus = model.corpus()?;
        model.check_vocab(&corpus.tokenizer)?;
        let state = model.state()?;
        let fingerprint = corpus.fingerprint()?;
        if state.as_ref().is_some_and(|state| state.data_fingerprint != fingerprint) {
            return Err(Diagnostic::config(
                "the data differ from those that the model was trained on (fingerprint of the tokens)",
            )
            .at(&corpus.description)
            .hint("restore the corpus of the run; its weights, checkpoints and run.json have the fingerprint of all tokens"));
        }
        let batches = Batches::new(corpus, model.config.run.seed, data.batch_size, data.block_size);
        let gpt = Gpt { shape: model.shape, gelu: model.config.model.gelu };
        let values = model.values.into_iter().map(|values| tensor::flat(values, &device.tensors)).collect();
        let params = Params { layout: model.layout, values };
        Ok(Self { gpt, params, quant, batches, step: state.map(|state| state.step) })
    }

    /// The loss of the first `count` batches that evaluations sample.
    ///
    /// # Errors
    /// A plugin or the device failed.
    pub fn sampled(&self, split: Split, count: u64) -> Result<MeanLoss, Diagnostic> {
        mean_loss(&self.gpt, &self.params, &self.quant, self.batches.sample(split, count))
    }

    /// The curvature of the loss of the first `count` batches that evaluations sample.
    ///
    /// # Errors
    /// A plugin or the device failed.
    pub fn curvature(&self, split: Split, count: u64, spec: &CurvatureSpec) -> Result<Curvature, Diagnostic> {
        let batches: Vec<Batch> = self.batches.sample(split, count).collect::<Result<_, _>>()?;
        curvature::measure(&self.gpt, (&self.params, &self.quant), &batches, spec)
    }

    /// The loss of every token of a split but the first.
    ///
    /// # Errors
    /// As [`Self::sampled`].
    pub fn full(&self, split: Split) -> Result<MeanLoss, Diagnostic> {
        mean_loss(&self.gpt, &self.params, &self.quant, self.batches.whole(split))
    }
}
