//! The part of a run that is fixed before its first step.

use altgrad_alerts::AlertFacts;
use altgrad_base::diagnostic::Diagnostic;
use altgrad_config::{FullEvalChoice, RunConfig};
use altgrad_data::{Batch, Batches, Split};
use altgrad_loader::{LibraryInfo, Registry, instance::Identity};
use altgrad_run_folder::record::EvaluationKind;
use serde_json::Value;

use crate::{device::ComputeDevice, metrics::MetricId, passes::TrainModel, quant::observe::ObservedSites};

use super::schedule::Schedule;

/// The final evaluation uses a whole validation split by default if training had more than this times its tokens.
const LITTLE: u64 = 20;

/// A run's setup, which does not change after it is built.
pub struct RunSetup {
    /// The resolved run file.
    pub config: RunConfig,
    /// The loaded libraries.
    pub registry: Registry,
    /// The plugins this run uses: formats, the optimizer, sinks.
    pub plugins: Vec<Identity>,
    /// The device of tensors.
    pub device: ComputeDevice,
    /// Batches of the corpus.
    pub batches: Batches,
    /// The sites that `[observe]` measures, if it is given.
    pub observed: Option<ObservedSites>,
    /// The trained model.
    pub model: TrainModel,
    /// Learning rates.
    pub schedule: Schedule,
    /// Metrics that a row may contain.
    pub metrics: Vec<MetricId>,
    /// The number formats of all computations: the table of `run.json`.
    pub computed: Value,
    /// The warning before the first step about the scales of initial weights, if they lose much signal to
    /// noise.
    pub scale_warning: Option<String>,
    /// Bytes that the run needs, and available bytes before the model was made, where both are known.
    pub memory: Option<[f64; 2]>,
}

/// Held-out batches, or the fault of the data.
type HeldOut<'a> = Box<dyn Iterator<Item = Result<Batch, Diagnostic>> + Send + 'a>;

impl RunSetup {
    /// Training tokens of one step.
    #[must_use]
    pub fn tokens_per_step(&self) -> u64 {
        (self.config.train.grad_accum * self.config.data.batch_size * self.config.data.block_size) as u64
    }

    /// The run-wide index of a step's first micro-batch.
    #[must_use]
    pub fn first_micro_batch(&self, step: u64) -> u64 {
        step * self.config.train.grad_accum as u64
    }

    /// The facts of the run for alerts, in addition to its records.
    #[must_use]
    pub fn facts(&self) -> AlertFacts {
        // A fault of the data is reported where they are next read.
        let unigram_entropy = self.batches.corpus().unigram_entropy().ok();
        AlertFacts { warmup_steps: self.config.train.warmup_steps, unigram_entropy }
    }

    /// The micro-batches of a step.
    pub fn micro_batches(&self, step: u64) -> impl ExactSizeIterator<Item = Result<Batch, Diagnostic>> {
        (0..self.config.train.grad_accum).map(move |index| self.batches.train(step, index))
    }

    /// The kind of the evaluations during training.
    #[must_use]
    pub fn evaluation(&self) -> EvaluationKind {
        match self.config.train.full_eval {
            FullEvalChoice::Always => EvaluationKind::Full,
            FullEvalChoice::Auto | FullEvalChoice::Never | FullEvalChoice::End => EvaluationKind::Sampled,
        }
    }

    /// Tokens that an evaluation predicts.
    #[must_use]
    pub fn evaluation_tokens(&self, kind: EvaluationKind) -> u64 {
        match kind {
            EvaluationKind::Full => self.batches.tokens(Split::Validation).len() as u64,
            EvaluationKind::Sampled => {
                let data = &self.config.data;
                (self.config.train.eval_batches * data.batch_size * data.block_size) as u64
            }
        }
    }

    /// The kind of the final evaluation after `trained` tokens.
    #[must_use]
    pub fn final_evaluation(&self, trained: u64) -> EvaluationKind {
        let held_out = self.batches.tokens(Split::Validation).len() as u64;
        match self.config.train.full_eval {
            FullEvalChoice::Always | FullEvalChoice::End => EvaluationKind::Full,
            FullEvalChoice::Auto if held_out.saturating_mul(LITTLE) < trained => EvaluationKind::Full,
            FullEvalChoice::Auto | FullEvalChoice::Never => EvaluationKind::Sampled,
        }
    }

    /// The held-out batches of an evaluation.
    #[must_use]
    pub fn held_out(&self, kind: EvaluationKind) -> HeldOut<'_> {
        match kind {
            EvaluationKind::Sampled => {
                Box::new(self.batches.sample(Split::Validation, self.config.train.eval_batches as u64))
            }
            EvaluationKind::Full => Box::new(self.batches.whole(Split::Validation)),
        }
    }

    /// The plugins of a library that this run uses.
    pub fn plugins_of(&self, library: &LibraryInfo) -> impl Iterator<Item = &Identity> {
        let path = library.path.display().to_string();
        self.plugins.iter().filter(move |plugin| plugin.library == path)
    }
}
