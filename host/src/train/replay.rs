//! Replaying a recorded trajectory: same start, same batches, and how far losses and gradients part.
//!
//! The recording is what nanoGPT's (or any PyTorch) loop writes a step: learning rate, loss, gradient norm before
//! clipping, and the batch's start positions. The trainer is the one that runs train with.

use std::path::Path;

use serde::Deserialize;

use super::{Trainer, clip, reading::Reading, schedule::Schedule};
use crate::{
    config::{ScheduleChoice, TrainSection},
    data::Batches,
    diagnostic::Diagnostic,
    files,
    metrics::update_metrics::UpdateMetrics,
    model::{params, weights},
};

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
    /// Sequences a micro-batch.
    pub batch_size: usize,
    /// Micro-batches a step; 1 where it is not written.
    #[serde(default = "one")]
    pub grad_accum: usize,
    /// Number of token ids.
    pub vocab_size: usize,
    /// Whether linear layers and norms have a bias.
    pub bias: bool,
    /// Highest learning rate.
    pub lr: f64,
    /// Learning rate at the schedule's end.
    pub min_lr: f64,
    /// Steps of linear rise.
    pub warmup: u64,
    /// Step at which the cosine ends.
    pub decay: u64,
    /// AdamW's decay of matrices.
    pub weight_decay: f64,
    /// Memory of the first moment, a step.
    pub beta1: f64,
    /// Memory of the second moment, a step.
    pub beta2: f64,
    /// Added to the second moment's root.
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
    /// Loss, nats a token, before the update.
    pub loss: f64,
    /// Global L2 norm before clipping.
    pub grad_norm: f64,
    /// Start positions in the training split, micro-batch after micro-batch.
    pub ix: Vec<usize>,
}

/// One replayed step beside its recording.
#[derive(Debug, Clone, Copy)]
pub struct ReplayedStep {
    /// Loss here.
    pub loss: f64,
    /// |loss - recorded|.
    pub loss_error: f64,
    /// Gradient norm here.
    pub grad_norm: f64,
    /// |norm - recorded|.
    pub grad_norm_error: f64,
    /// |lr - recorded| / recorded.
    pub lr_error: f64,
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

    /// Refuses settings no run could have had.
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

    /// The training section the recording amounts to.
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

    /// Trains along the recording. `on_gradients` sees the first step's gradients, before clipping.
    ///
    /// # Errors
    /// A batch does not fit the data, or a plugin or the device failed.
    pub fn replay(
        &self,
        trainer: &mut Trainer,
        batches: &Batches,
        mut on_gradients: impl FnMut(&Trainer, &[Vec<f32>]) -> Result<(), Diagnostic>,
    ) -> Result<Vec<ReplayedStep>, Diagnostic> {
        let schedule = Schedule::new(&self.train_section());
        let mut replayed = Vec::with_capacity(self.steps.len());
        for (step, recorded) in self.steps.iter().enumerate() {
            self.check_batch(step, recorded, batches)?;
            let micro = recorded.ix.chunks(self.config.batch_size).map(|starts| batches.train_at(starts));
            let mut step_gradients =
                trainer.gradients(micro, (step * self.config.grad_accum) as u64, None)?;
            if step == 0 {
                let values: Result<Vec<_>, _> =
                    step_gradients.grads.iter().map(|grad| params::read_f32(grad.clone())).collect();
                on_gradients(trainer, &values?)?;
            }
            let reading = Reading::of(&trainer.quant, &step_gradients, None)?;
            let norm =
                clip::by_global_norm(&mut step_gradients.grads, &reading.moments, self.config.grad_clip);
            let lr = schedule.lr(step as u64);
            let loss = reading.loss;
            trainer.update(step_gradients.grads, &reading.seen, lr, &mut UpdateMetrics::off())?;
            replayed.push(ReplayedStep {
                loss,
                loss_error: (loss - recorded.loss).abs(),
                grad_norm: norm.before,
                grad_norm_error: (norm.before - recorded.grad_norm).abs(),
                lr_error: (lr - recorded.lr).abs() / recorded.lr,
            });
        }
        Ok(replayed)
    }

    fn check_batch(&self, step: usize, recorded: &RecordedStep, batches: &Batches) -> Result<(), Diagnostic> {
        let tokens = batches.corpus().train.len();
        let fits = |start: &usize| start.checked_add(self.config.block_size).is_some_and(|end| end < tokens);
        if recorded.ix.len() == self.config.batch_size * self.config.grad_accum
            && recorded.ix.iter().all(fits)
        {
            return Ok(());
        }
        Err(Diagnostic::config(format!(
            "the batch of recorded step {step} does not fit {tokens} training tokens"
        ))
        .hint("replay with the text the recording was made on"))
    }
}

/// The largest of some errors, none of them negative; NaN if one is, so that no NaN passes for a match.
pub fn worst(errors: impl Iterator<Item = f64>) -> f64 {
    errors.fold(0.0, |worst: f64, error| if worst.is_nan() || error <= worst { worst } else { error })
}

/// Largest relative difference of a tensor to its recording: |a - b| / |b|, L2 norms over the tensor.
/// One entry a parameter, in the layout's order.
///
/// # Errors
/// The file does not hold the model's tensors.
pub fn relative_errors(
    trainer: &Trainer,
    values: &[Vec<f32>],
    recorded: &Path,
) -> Result<Vec<(String, f64)>, Diagnostic> {
    let layout = &trainer.params.layout;
    let expected = weights::read(recorded, layout)?;
    let norm = |terms: &mut dyn Iterator<Item = f64>| terms.map(|term| term * term).sum::<f64>().sqrt();
    let error = |a: &[f32], b: &[f32]| {
        let apart = norm(&mut a.iter().zip(b).map(|(a, b)| f64::from(*a) - f64::from(*b)));
        apart / norm(&mut b.iter().map(|b| f64::from(*b)))
    };
    Ok(layout
        .specs
        .iter()
        .zip(values.iter().zip(&expected))
        .map(|(spec, (a, b))| (spec.name.clone(), error(a, b)))
        .collect())
}
