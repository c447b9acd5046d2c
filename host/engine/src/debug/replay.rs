//! Replay of a recorded trajectory, with the same start and batches: deviations of losses, gradients and weights.
//!
//! The recording is the log of nanoGPT's (or any PyTorch) loop, with an entry per step: learning rate, loss, gradient
//! norm before clipping, and the batch's start positions. Passes and updates are those of training runs.

use std::path::Path;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_config::{DataSection, DatasetChoice, DeviceChoice, GeluChoice, PluginsSection, TokenizerChoice};
use altgrad_data::{Batches, Corpus};
use altgrad_loader::{OptimizerPlugin, Registry, instance::OptionTable};

use super::recording::{RecordedConfig, RecordedStep, Recording};
use crate::{
    device::ComputeDevice,
    metrics::update_metrics::UpdateMetrics,
    model::{Gpt, GptShape, Layout, Params, Parts, weights},
    optimizer::{OptimizerGroups, OptimizerState},
    passes::{Observers, TrainModel},
    quant::Quantizer,
    setup::Schedule,
    state::TrainState,
    step::{
        clip::{self, ClipLimits},
        read_outputs,
    },
    tensor,
};

/// One replayed step compared with its recording.
#[derive(Debug, Clone, Copy)]
pub struct ReplayedStep {
    /// Loss of the replay.
    pub loss: f64,
    /// |loss - recorded|.
    pub loss_error: f64,
    /// Gradient norm of the replay.
    pub grad_norm: f64,
    /// |norm - recorded|.
    pub grad_norm_error: f64,
    /// |lr - recorded| / recorded.
    pub lr_error: f64,
}

/// The result of a replay.
pub struct Replayed {
    /// Its steps, one per recorded step.
    pub steps: Vec<ReplayedStep>,
    /// The state after the last update.
    pub state: TrainState,
}

/// The error of a tensor, compared with its recording.
#[derive(Debug, Clone)]
pub struct TensorError {
    /// The parameter's name.
    pub name: String,
    /// `|a - b| / |b|`, L2 norms over the tensor; 0 for equal tensors.
    pub relative: f64,
    /// The largest `|a - b|` of an element.
    pub absolute: f64,
}

/// The inputs of a replay.
#[derive(Debug)]
pub struct ReplayInputs<'a> {
    /// Initial weights of the recording: safetensors, nanoGPT's layout.
    pub init: &'a Path,
    /// The text of the recorded training; characters are its tokens.
    pub text: &'a Path,
    /// Folder of plugin libraries; by default `plugins` beside the executable.
    pub plugins: Option<&'a Path>,
    /// The device.
    pub device: DeviceChoice,
}

/// A recording that can be replayed.
pub struct Replay<'a> {
    recording: &'a Recording,
    model: TrainModel,
    state: TrainState,
    batches: Batches,
}

impl<'a> Replay<'a> {
    /// Opens the inputs and makes the state before the first step.
    ///
    /// # Errors
    /// An input does not match the recording, or the plugin `adamw` cannot be used.
    pub fn prepare(recording: &'a Recording, inputs: &ReplayInputs<'_>) -> Result<Self, Diagnostic> {
        let device = ComputeDevice::open(inputs.device)?;
        let config = &recording.config;
        let section = PluginsSection {
            dir: inputs.plugins.map(|dir| dir.display().to_string()),
            ..PluginsSection::default()
        };
        let registry = Registry::open(&section)?;
        let corpus = Corpus::open(&DataSection {
            dataset: DatasetChoice::Text(inputs.text.to_path_buf()),
            tokenizer: TokenizerChoice::Char,
            block_size: config.block_size,
            batch_size: config.batch_size,
            ..DataSection::default()
        })?;
        if corpus.tokenizer.vocab() != config.vocab_size {
            let message = format!(
                "the text has {} characters, the recording {}",
                corpus.tokenizer.vocab(),
                config.vocab_size
            );
            return Err(Diagnostic::config(message)
                .at(inputs.text.display())
                .hint("replay with the text the recording was made on"));
        }
        let shape = GptShape {
            vocab: config.vocab_size,
            block_size: config.block_size,
            n_layer: config.n_layer,
            n_head: config.n_head,
            n_embd: config.n_embd,
            bias: config.bias,
            tie_weights: true,
            parts: Parts::NANOGPT,
        };
        let layout = Layout::new(&shape);
        let values = weights::read(inputs.init, &layout)?;
        let groups = OptimizerGroups::one(adamw(&registry, config)?, &layout);
        let quant = Quantizer::off();
        let optimizer = OptimizerState::new(groups, &layout, &quant.plan)?;
        let values = values.into_iter().map(|values| tensor::flat(values, &device.tensors)).collect();
        let params = Params { layout, values };
        let model = TrainModel::new(Gpt { shape, gelu: GeluChoice::Erf });
        let state = TrainState::new(params, quant, optimizer);
        let batches = Batches::new(corpus, 0, config.batch_size, config.block_size);
        Ok(Self { recording, model, state, batches })
    }

    /// Trains along the recording. `on_gradients` receives the layout and the first step's gradients, before clipping.
    ///
    /// # Errors
    /// A batch does not match the data, or a plugin or the device failed.
    pub fn run(
        mut self,
        mut on_gradients: impl FnMut(&Layout, &[Vec<f32>]) -> Result<(), Diagnostic>,
    ) -> Result<Replayed, Diagnostic> {
        let config = &self.recording.config;
        let schedule = Schedule::new(&self.recording.train_section());
        let mut steps = Vec::with_capacity(self.recording.steps.len());
        for (step, recorded) in self.recording.steps.iter().enumerate() {
            self.check_batch(step, recorded)?;
            let micro = recorded.ix.chunks(config.batch_size).map(|starts| self.batches.train_at(starts));
            let first = (step * config.grad_accum) as u64;
            let gradients = self.state.gradients(&self.model, micro, first, Observers::default())?;
            if step == 0 {
                let values: Result<Vec<_>, _> =
                    gradients.grads.iter().map(|grad| tensor::read_f32(grad.clone())).collect();
                on_gradients(&self.state.params.layout, &values?)?;
            }
            let (mut grads, outputs) = read_outputs(&mut self.state.quant, gradients, &[], None)?;
            let limits = ClipLimits { value: 0.0, norm: config.grad_clip };
            let norm = clip::clip(&mut grads, &outputs.moments, limits)?;
            let lr = schedule.lr(step as u64);
            let loss = outputs.loss;
            self.state.update(grads, &outputs.rounding, lr, &mut UpdateMetrics::off())?;
            steps.push(ReplayedStep {
                loss,
                loss_error: (loss - recorded.loss).abs(),
                grad_norm: norm.before,
                grad_norm_error: (norm.before - recorded.grad_norm).abs(),
                lr_error: (lr - recorded.lr).abs() / recorded.lr,
            });
        }
        Ok(Replayed { steps, state: self.state })
    }

    fn check_batch(&self, step: usize, recorded: &RecordedStep) -> Result<(), Diagnostic> {
        let config = &self.recording.config;
        let tokens = self.batches.corpus().train.len();
        let fits = |start: &usize| start.checked_add(config.block_size).is_some_and(|end| end < tokens);
        if recorded.ix.len() == config.batch_size * config.grad_accum && recorded.ix.iter().all(fits) {
            return Ok(());
        }
        Err(Diagnostic::config(format!(
            "the batch of recorded step {step} does not fit {tokens} training tokens"
        ))
        .hint("replay with the text the recording was made on"))
    }
}

fn adamw(registry: &Registry, config: &RecordedConfig) -> Result<OptimizerPlugin, Diagnostic> {
    let options = [
        ("beta1", config.beta1),
        ("beta2", config.beta2),
        ("eps", config.eps),
        ("weight_decay", config.weight_decay),
    ];
    let values: toml::Table =
        options.into_iter().map(|(name, value)| (name.to_string(), toml::Value::Float(value))).collect();
    let table = OptionTable { key: "optimizer", values: &values };
    OptimizerPlugin::make(registry, "adamw", table).map_err(|(_, error)| error)
}

/// The largest of some errors, none of them negative; NaN if any is NaN, so that NaN never counts as a match.
pub fn worst(errors: impl Iterator<Item = f64>) -> f64 {
    errors.fold(0.0, |worst: f64, error| if worst.is_nan() || error <= worst { worst } else { error })
}

/// Errors of tensors, compared with those of a file in nanoGPT's layout, one entry per parameter, in the layout's
/// order.
///
/// # Errors
/// The file does not contain the model's tensors.
pub fn tensor_errors(
    layout: &Layout,
    values: &[Vec<f32>],
    recorded: &Path,
) -> Result<Vec<TensorError>, Diagnostic> {
    let expected = weights::read(recorded, layout)?;
    let tensors = layout.specs.iter().zip(values.iter().zip(&expected));
    Ok(tensors.map(|(spec, (a, b))| tensor_error(&spec.name, a, b)).collect())
}

fn tensor_error(name: &str, a: &[f32], b: &[f32]) -> TensorError {
    let apart = || a.iter().zip(b).map(|(a, b)| (f64::from(*a) - f64::from(*b)).abs());
    let norm = |terms: &mut dyn Iterator<Item = f64>| terms.map(|term| term * term).sum::<f64>().sqrt();
    let distance = norm(&mut apart());
    // A tensor of zeros may equal zeros.
    let relative = if distance == 0.0 { 0.0 } else { distance / norm(&mut b.iter().map(|b| f64::from(*b))) };
    TensorError { name: name.to_string(), relative, absolute: worst(apart()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_part_by_norm_and_by_element() {
        let error = tensor_error("w", &[3.0, 4.5, 0.0], &[3.0, 4.0, 0.0]);
        assert_eq!((error.relative, error.absolute), (0.1, 0.5));
        let equal = tensor_error("b", &[0.0; 3], &[0.0; 3]);
        assert_eq!((equal.relative, equal.absolute), (0.0, 0.0));
        let lost = tensor_error("w", &[f32::NAN, 1.0], &[1.0, 1.0]);
        assert!(lost.relative.is_nan() && lost.absolute.is_nan());
    }
}
