//! Recorded trajectories: the log of nanoGPT's (or any PyTorch) loop, one entry per step.

use std::path::Path;

use altgrad_base::{diagnostic::Diagnostic, files};
use altgrad_config::{ScheduleChoice, TrainSection};
use serde::Deserialize;

/// A recorded trajectory.
#[derive(Debug, Clone, Deserialize)]
pub struct Recording {
    /// The run's settings.
    pub config: RecordedConfig,
    /// Its steps, from 0.
    pub steps: Vec<RecordedStep>,
}

/// The settings of a recorded run, by nanoGPT's names.
#[derive(Debug, Clone, Deserialize)]
pub struct RecordedConfig {
    /// Blocks.
    pub n_layer: usize,
    /// Attention heads a block.
    pub n_head: usize,
    /// Width of the residual stream.
    pub n_embd: usize,
    /// Context length, tokens.
    pub block_size: usize,
    /// Sequences per micro-batch.
    pub batch_size: usize,
    /// Micro-batches per step; 1 if missing.
    #[serde(default = "one")]
    pub grad_accum: usize,
    /// Number of token ids.
    pub vocab_size: usize,
    /// True if linear layers and norms have a bias.
    pub bias: bool,
    /// Highest learning rate.
    pub lr: f64,
    /// Learning rate at the schedule's end.
    pub min_lr: f64,
    /// Steps of linear warmup.
    pub warmup: u64,
    /// Step at which the cosine ends.
    pub decay: u64,
    /// AdamW's decay of matrices.
    pub weight_decay: f64,
    /// Decay rate of the first moment per step.
    pub beta1: f64,
    /// Decay rate of the second moment per step.
    pub beta2: f64,
    /// Added to the square root of the second moment.
    pub eps: f64,
    /// Largest global gradient norm; 0 = off.
    pub grad_clip: f64,
}

fn one() -> usize {
    1
}

/// One recorded step.
#[derive(Debug, Clone, Deserialize)]
pub struct RecordedStep {
    /// Learning rate.
    pub lr: f64,
    /// Loss before the update, nats per token.
    pub loss: f64,
    /// Global L2 norm before clipping.
    pub grad_norm: f64,
    /// Start positions in the training split, micro-batch after micro-batch.
    pub ix: Vec<usize>,
}

impl Recording {
    /// Reads a log file.
    ///
    /// # Errors
    /// The file is missing or not a trajectory log.
    pub fn read(path: &Path) -> Result<Self, Diagnostic> {
        let text = files::read(path).map_err(|error| {
            Diagnostic::config(format!("cannot read the log ({error})")).at(path.display())
        })?;
        let recording: Self = serde_json::from_slice(&text).map_err(|error| {
            Diagnostic::config(format!("not a trajectory log ({error})")).at(path.display())
        })?;
        recording.check().map_err(|error| error.at(path.display()))?;
        Ok(recording)
    }

    /// Refuses settings that no run can have.
    fn check(&self) -> Result<(), Diagnostic> {
        let config = &self.config;
        let sizes = [
            ("n_layer", config.n_layer),
            ("n_head", config.n_head),
            ("n_embd", config.n_embd),
            ("block_size", config.block_size),
            ("batch_size", config.batch_size),
            ("grad_accum", config.grad_accum),
            ("vocab_size", config.vocab_size),
        ];
        let too_large = sizes.iter().find(|(_, size)| !(1..=1 << 20).contains(size));
        let fault = if let Some((name, size)) = too_large {
            format!("{name} = {size} is no possible size")
        } else if !config.n_embd.is_multiple_of(config.n_head) {
            "n_embd must be a multiple of n_head".into()
        } else if config.decay <= config.warmup {
            "decay must come after the warm-up".into()
        } else if self.steps.is_empty() {
            "it records no step".into()
        } else {
            return Ok(());
        };
        Err(Diagnostic::config(format!("not a trajectory log: {fault}"))
            .hint("a log has config and steps, as in tests/end-to-end/fixtures/trajectory"))
    }

    /// The training section that corresponds to the recording.
    #[must_use]
    pub fn train_section(&self) -> TrainSection {
        TrainSection {
            max_steps: self.steps.len() as u64,
            lr: self.config.lr,
            min_lr: self.config.min_lr,
            warmup_steps: self.config.warmup,
            decay_steps: Some(self.config.decay),
            schedule: ScheduleChoice::Cosine,
            grad_clip: self.config.grad_clip,
            grad_accum: self.config.grad_accum,
            ..TrainSection::default()
        }
    }
}
