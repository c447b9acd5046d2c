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
    /// Opens the data of `model`. Rounding follows `quant`: with the scales and random bits of the model's step, if its
    /// checkpoint exists, else with scales of the current values and the bits of step 0.
    ///
    /// # Errors
    /// The data cannot be read or differ from those that the model was trained on, or the checkpoint is damaged.
    pub fn new(model: SavedModel, mut quant: Quantizer, device: &ComputeDevice) -> Result<Self, Diagnostic> {
        let data = &model.config.data;
        let corpus = model.corpus()?;
        model.check_vocab(&corpus.tokenizer)?;
        let state = model.state()?;
        let trained_on = match &state {
            Some(state) => Some(state.data.fingerprint.clone()),
            None => model.data_fingerprint()?,
        };
        let fingerprint = corpus.fingerprint()?;
        if trained_on.is_some_and(|trained_on| trained_on != fingerprint) {
            return Err(Diagnostic::config(
                "the data differ from those that the model was trained on (fingerprint of the tokens)",
            )
            .at(&corpus.description)
            .hint("restore the corpus of the run; its checkpoints and run.json have the fingerprint of all tokens"));
        }
        if let Some(state) = &state {
            quant.restore_history(&state.quant)?;
            quant.state.step = state.step;
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
