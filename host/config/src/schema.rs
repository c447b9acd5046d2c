//! The run file's sections and keys, each with meaning, unit and default.
//!
//! Unknown keys are refused, except in `[optimizer]` and `[[sink]]`, where all
//! but `name`, `group` and `states` belongs to the plugin and is checked by it. The types alone do
//! not make a run file sound: only [`super::load`] checks ranges and fills in
//! the defaults that depend on other keys, marked "after load" here.

use altgrad_base::diagnostic::Diagnostic;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::alerts::AlertsSection;
use super::choices::{
    DatasetChoice, DeviceChoice, FullEvalChoice, GeluChoice, MlpChoice, NormChoice, PluginCheckChoice,
    PositionsChoice, PrecisionChoice, Preset, ScheduleChoice, TokenizerChoice,
};
use super::loss_scale::LossScaleChoice;
use super::observe::ObserveSection;
use super::optimizer::OptimizerSection;
use super::plugin_ref::PluginRef;
use super::quant::QuantSection;
use super::tables::table;
/// A whole run file, resolved and range-checked when it comes from [`super::load`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RunConfig {
    /// Name, seed, place and device of the run.
    #[serde(deserialize_with = "table")]
    pub run: RunSection,
    /// Where plugins come from.
    #[serde(deserialize_with = "table")]
    pub plugins: PluginsSection,
    /// Corpus, tokenizer and batch shape.
    #[serde(deserialize_with = "table")]
    pub data: DataSection,
    /// The transformer's shape and start.
    #[serde(deserialize_with = "table")]
    pub model: ModelSection,
    /// Length, learning rate and evaluation of the training.
    #[serde(deserialize_with = "table")]
    pub train: TrainSection,
    /// The optimizer plugin and its own table.
    #[serde(deserialize_with = "table")]
    pub optimizer: OptimizerSection,
    /// What the linear layers round.
    #[serde(deserialize_with = "table")]
    pub quant: QuantSection,
    /// Unquantized gradients beside the quantized ones.
    #[serde(deserialize_with = "table")]
    pub shadow: ShadowSection,
    /// What formats would do to tensors that they do not round.
    #[serde(deserialize_with = "table")]
    pub observe: ObserveSection,
    /// How often what is measured.
    #[serde(deserialize_with = "table")]
    pub metrics: MetricsSection,
    /// When a person should look.
    #[serde(deserialize_with = "table")]
    pub alerts: AlertsSection,
    /// When the run's state is kept.
    #[serde(deserialize_with = "table")]
    pub checkpoint: CheckpointSection,
    /// How long plugin calls may take.
    #[serde(deserialize_with = "table")]
    pub limits: LimitsSection,
    /// Where metrics go, one `[[sink]]` each, in file order. Default: nowhere but the
    /// terminal. The same sink may stand twice with different settings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sink: Vec<SinkSection>,
}

impl RunConfig {
    /// The resolved run file: every default written out. Loading it gives the same
    /// `RunConfig`, from whatever folder and under whatever file name.
    pub fn to_toml(&self) -> Result<String, Diagnostic> {
        // Loaded values always fit TOML; only hand-made ones, such as a seed above 2^63, do not.
        toml::to_string_pretty(self)
            .map_err(|error| Diagnostic::config(format!("cannot write the resolved run file: {error}")))
    }
}

/// `[run]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RunSection {
    /// Names the run's folder below `out` and the run in every sink, so it is one plain
    /// folder name. After load: the run file's name without `.toml` if not given.
    pub name: String,
    /// Root of the training's random streams (initial weights, data order, dropout, stochastic
    /// rounding); evaluation windows are the same for all seeds. 1337 is nanoGPT's; below 2^63, as
    /// TOML has no larger integers.
    pub seed: u64,
    /// Folder of run folders, relative to the working directory.
    pub out: String,
    /// `auto`, `cpu`, `cuda:N` or `wgpu`. Results are bit-reproducible on one device
    /// only, so comparisons should name it.
    pub device: DeviceChoice,
}

impl Default for RunSection {
    fn default() -> Self {
        Self { name: String::new(), seed: 1337, out: "runs".to_owned(), device: DeviceChoice::Auto }
    }
}

/// `[plugins]`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PluginsSection {
    /// Folder of plugin libraries; written relative to the run file's folder, absolute
    /// after load so that the resolved file can be moved. Default: `plugins` beside the executable.
    pub dir: Option<String>,
    /// The libraries to load, in this order. Default: every library in `dir`; a list
    /// keeps a run from changing when a file is dropped there.
    pub load: Option<Vec<PluginRef>>,
    /// Which checks a plugin must pass before the run uses it. A plugin that fails is refused; run.json says which plugins were checked.
    pub check: PluginCheckChoice,
}

/// `[data]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DataSection {
    /// `lawgen`, `bins:DIR` or `text:FILE`; `lawgen` needs no download.
    pub dataset: DatasetChoice,
    /// How text becomes ids; sets the vocabulary's size. `byte` fits every text.
    pub tokenizer: TokenizerChoice,
    /// The characters of the tokenizer `char` in code-point order, each once; a character's rank is its id. For
    /// training on, or sampling with, the vocabulary of an earlier run. Default: the characters of the corpus, which a
    /// run writes into its resolved file.
    pub alphabet: Option<String>,
    /// Context length in tokens. 64 is nanoGPT's for CPU-sized runs; memory of the
    /// attention grows with its square.
    pub block_size: usize,
    /// Sequences in a micro-batch; a step sees `batch_size * train.grad_accum` of them.
    pub batch_size: usize,
}

impl Default for DataSection {
    fn default() -> Self {
        Self {
            dataset: DatasetChoice::Lawgen,
            tokenizer: TokenizerChoice::Byte,
            alphabet: None,
            block_size: 64,
            batch_size: 12,
        }
    }
}

/// `[model]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ModelSection {
    /// `gpt-tiny`, `seed-10m` or `gpt2-124m`: where a shape key that is not written comes
    /// from. Default: the shape of `gpt-tiny`, the one that trains on a CPU.
    pub preset: Option<Preset>,
    /// Transformer blocks. After load: the preset's if not given.
    pub n_layer: usize,
    /// Attention heads per block; divides `n_embd`. After load: the preset's if not given.
    pub n_head: usize,
    /// Width of the residual stream. After load: the preset's if not given.
    pub n_embd: usize,
    /// Probability of zeroing an activation in training, 0 up to but not 1. 0 as in
    /// pre-training, and because its noise hides small differences between formats.
    pub dropout: f32,
    /// Whether linear layers and norms have a bias. Off: slightly better and faster in nanoGPT.
    pub bias: bool,
    /// Whether the output layer is the token embedding. On, as in GPT-2; a format on
    /// that matrix then acts in both places.
    pub tie_weights: bool,
    /// `erf` or `tanh`: which GELU. Published GPT-2 weights were trained with `tanh`.
    pub gelu: GeluChoice,
    /// `layernorm` or `rmsnorm`: which norm. Both have a gain and add 1e-5 under the root.
    pub norm: NormChoice,
    /// `gelu`, `swiglu` or `smooth_swiglu`: what stands between an MLP's two linear layers. `gelu` is read for the first only.
    pub mlp: MlpChoice,
    /// `learned` or `rotary`: how a token's position enters the model. `rotary` needs heads of even width.
    pub positions: PositionsChoice,
    /// Whether attention divides each head's queries and keys by their root mean square, with 1e-5 under the root, and multiplies
    /// them by learned gains before they are rotated (arXiv:2302.05442, with RMSNorm in place of LayerNorm). A block has a gain for
    /// queries and one for keys, each of a head's width and shared by all heads.
    pub qk_norm: bool,
    /// Safetensors file in nanoGPT's or GPT-2's layout to start from, relative to the working
    /// directory; must fit the shape. Default: random weights from `run.seed`.
    pub init: Option<String>,
}

impl Default for ModelSection {
    fn default() -> Self {
        let (n_layer, n_head, n_embd) = Preset::GptTiny.shape();
        Self {
            preset: None,
            n_layer,
            n_head,
            n_embd,
            dropout: 0.0,
            bias: false,
            tie_weights: true,
            gelu: GeluChoice::Erf,
            norm: NormChoice::LayerNorm,
            mlp: MlpChoice::Gelu,
            positions: PositionsChoice::Learned,
            qk_norm: false,
            init: None,
        }
    }
}

/// `[train]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TrainSection {
    /// Optimizer steps. 500 is enough for `gpt-tiny` to tell formats apart.
    pub max_steps: u64,
    /// Highest learning rate, reached after the warm-up. 1e-3 suits models of a few
    /// million parameters; larger ones want less.
    pub lr: f64,
    /// Learning rate at the schedule's end, at most `lr`; a tenth of it by custom. The
    /// schedule `constant` does not read it.
    pub min_lr: f64,
    /// Steps of linear rise from 0 to `lr`: a tenth of the default run; 0 = none.
    pub warmup_steps: u64,
    /// Step at which `cosine` reaches `min_lr`; only for that schedule. After load:
    /// `max_steps` if not given.
    pub decay_steps: Option<u64>,
    /// What matrix products (linear layers and attention, forward and backward) multiply: `fp32`, or operands rounded
    /// to `bf16`, ties to even. Products are added in f32 and everything else is f32 either way. Operands that a format
    /// rounds are not rounded again: up to their scales they are exact in bf16.
    pub precision: PrecisionChoice,
    /// `cosine`, `trapezoidal` or `constant`.
    pub schedule: ScheduleChoice,
    /// Last steps over which `trapezoidal` falls to `min_lr`; only for that schedule.
    /// After load: 20 % of `max_steps` if not given.
    pub cooldown_steps: Option<u64>,
    /// Largest global gradient norm, above which gradients are scaled down; 0 = off. 1 as in GPT-3.
    pub grad_clip: f64,
    /// Coefficient of z-loss (arXiv:2204.02311), the mean over tokens of `log(Z)^2` with `Z` the sum of the exponentials of the logits; 0 or
    /// more, 0 = off. PaLM's is 1e-4. Gradients are those of the sum; `train/loss` and evaluations are the cross-entropy alone. Unless 0,
    /// all logits of a micro-batch are in memory at once.
    pub z_loss: f64,
    /// Micro-batches whose gradients are averaged into one step.
    pub grad_accum: usize,
    /// What the loss is multiplied by before the backward pass, from 2^-126 to 2^126; gradients are divided by it afterwards. 1 = off.
    /// `"dynamic"` starts with 65536, doubles after 2000 good steps in a row, and halves when the gradients overflow, whose step is
    /// skipped. Rounding in the backward pass sees scaled gradients.
    pub loss_scale: LossScaleChoice,
    /// Steps between evaluations; 0 = only at the end. Each costs `eval_batches` forward passes over held-out data.
    pub eval_interval: u64,
    /// Held-out batches averaged into an evaluation by sample; more of them, less noise. All runs on a corpus sample the
    /// same windows.
    pub eval_batches: usize,
    /// Which evaluations predict every token of the validation split instead of a sample.
    pub full_eval: FullEvalChoice,
}

impl Default for TrainSection {
    fn default() -> Self {
        Self {
            max_steps: 500,
            lr: 1e-3,
            min_lr: 1e-4,
            warmup_steps: 50,
            decay_steps: None,
            precision: PrecisionChoice::Fp32,
            schedule: ScheduleChoice::Cosine,
            cooldown_steps: None,
            grad_clip: 1.0,
            z_loss: 0.0,
            grad_accum: 1,
            loss_scale: LossScaleChoice::default(),
            eval_interval: 100,
            eval_batches: 20,
            full_eval: FullEvalChoice::Auto,
        }
    }
}

/// `[shadow]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ShadowSection {
    /// Steps between two that also run unquantized in fp32 and compare the gradients; 0 = never. Such a step costs
    /// about two; training itself is untouched.
    pub every: u64,
}

/// `[metrics]`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MetricsSection {
    /// Steps between two whose gradients and updates are measured by parameter; 0 = never. With 1, the last codes of
    /// rounded weights are kept, 4 bytes per parameter.
    pub every: u64,
    /// Steps between two whose distributions are measured: codes and kurtosis of what is rounded, weights beside their
    /// grids; 0 = never. Such a step costs about two; on a GPU it reads weights and their gradients back. Unless 0, the
    /// initial weights are kept, 4 bytes per parameter.
    pub histograms_every: u64,
    /// Steps between two whose weights' singular values are found; 0 = never. Costs min(m, n)^2 max(m, n) operations
    /// per matrix: seconds for a small model, many minutes for a large one.
    pub rank_every: u64,
    /// Steps in a row with a gradient below `dead_gradient_threshold` after which an element counts as dead, up to 65535; 0 = not
    /// counted. Unless 0, 2 bytes per parameter are kept.
    pub dead_neuron_window: u64,
    /// Magnitude of a gradient before clipping below which an element counts as dead, above 0.
    pub dead_gradient_threshold: f64,
}

impl Default for MetricsSection {
    fn default() -> Self {
        Self {
            every: 1,
            histograms_every: 100,
            rank_every: 0,
            dead_neuron_window: 100,
            dead_gradient_threshold: 1e-8,
        }
    }
}

impl MetricsSection {
    /// The same with nothing measured but what every step gives.
    #[must_use]
    pub fn off(self) -> Self {
        Self { every: 0, histograms_every: 0, rank_every: 0, dead_neuron_window: 0, ..self }
    }
}

/// `[checkpoint]`: when the run's whole state is kept, so that it can go on from there. Always at the end, when the run is
/// stopped, and when it fails; the keys are about the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CheckpointSection {
    /// Steps between two checkpoints; 0 = only at the end. A crash loses at most that many steps: training computes the next
    /// gradients while one is written, and waits with the update until it is complete. One takes up to 22 bytes per parameter on
    /// the disk.
    pub every: u64,
    /// Newest checkpoints that stay, at least 1; with 2, a damaged one costs at most `every` further steps.
    pub keep_last: usize,
    /// Whether an evaluation that is the best so far makes a checkpoint, and the best one stays beside the newest.
    pub keep_best: bool,
    /// Whether the state before a loss or gradient that is not finite, and after a divergence, is kept apart: the first
    /// three times.
    pub on_anomaly: bool,
}

impl Default for CheckpointSection {
    fn default() -> Self {
        Self { every: 100, keep_last: 2, keep_best: true, on_anomaly: true }
    }
}

/// `[limits]`: how long a call into a format or optimizer plugin, or loading a library, may take. Calls into sinks have a deadline of
/// their own, and nothing waits for them. Time in which the run was suspended does not count.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsSection {
    /// Seconds after which `run` warns, once a call, that a call has not returned; 0 = never.
    pub plugin_call_warning_s: f64,
    /// Seconds after which `run` ends with exit code 3, because a call has not returned; 0 = never. What was done after
    /// the last checkpoint is lost.
    pub plugin_call_timeout_s: f64,
}

impl Default for LimitsSection {
    fn default() -> Self {
        Self { plugin_call_warning_s: 60.0, plugin_call_timeout_s: 600.0 }
    }
}

/// One `[[sink]]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SinkSection {
    /// Name of a sink plugin.
    pub name: String,
    /// Rows and events the sink may lag behind, 1 to 1,000,000; what comes while so many wait is dropped, counted and
    /// reported. Training never waits for a sink.
    #[serde(default = "default_sink_queue")]
    pub queue: usize,
    /// Patterns of the metrics that the sink gets, such as `train/*`; all by default. `*` is any text, `?` a character.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    /// Patterns of metrics that it does not get, of those.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// The sink gets every so many steps, 1 or more, and all steps with an evaluation.
    #[serde(default = "every_step")]
    pub every: u64,
    /// It gets metrics of layers and histograms every so many steps, 1 or more, of those.
    #[serde(default = "every_step")]
    pub layers_every: u64,
    /// Seconds the sink may take to open, to take what waits in its queue before a checkpoint is complete, and to finish
    /// with what is left. One that takes longer is closed: it gets nothing more, what it misses is counted and reported,
    /// and nothing waits for it again.
    #[serde(default = "default_sink_deadline_s")]
    pub deadline_s: f64,
    /// The rest of the table, for the plugin to check.
    #[serde(flatten)]
    #[schemars(skip)]
    pub settings: toml::Table,
}

fn every_step() -> u64 {
    1
}

fn default_sink_queue() -> usize {
    4096
}

fn default_sink_deadline_s() -> f64 {
    30.0
}
