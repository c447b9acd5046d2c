//! The run file's sections and keys, each with meaning, unit and default.
//!
//! Unknown keys are refused, except in `[optimizer]` and `[[sink]]`, where all
//! but `name`, `group` and `states` belongs to the plugin and is checked by it. The types alone do
//! not make a run file valid: only [`super::load`] checks ranges and fills in
//! the defaults that depend on other keys, marked "after load" here.

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
    /// Name, seed, folder and device of the run.
    #[serde(deserialize_with = "table")]
    pub run: RunSection,
    /// Libraries of plugins, and their checks.
    #[serde(deserialize_with = "table")]
    pub plugins: PluginsSection,
    /// Corpus, tokenizer and batch shape.
    #[serde(deserialize_with = "table")]
    pub data: DataSection,
    /// Shape and initial weights of the transformer.
    #[serde(deserialize_with = "table")]
    pub model: ModelSection,
    /// Length, learning rate and evaluations of the training.
    #[serde(deserialize_with = "table")]
    pub train: TrainSection,
    /// The optimizer plugin and its own table. The options belong to one optimizer: the base of a matrix over
    /// optimizers sets none, and each entry sets a name with its options.
    #[serde(deserialize_with = "table")]
    pub optimizer: OptimizerSection,
    /// Formats, rounding and scales of the linear layers and other tensors.
    #[serde(deserialize_with = "table")]
    pub quant: QuantSection,
    /// Comparison of quantized with unquantized gradients.
    #[serde(deserialize_with = "table")]
    pub shadow: ShadowSection,
    /// Curvature of the loss at the weights.
    #[serde(deserialize_with = "table")]
    pub curvature: CurvatureSection,
    /// Errors that formats would make, measured without rounding.
    #[serde(deserialize_with = "table")]
    pub observe: ObserveSection,
    /// Measurement intervals.
    #[serde(deserialize_with = "table")]
    pub metrics: MetricsSection,
    /// Conditions that need attention.
    #[serde(deserialize_with = "table")]
    pub alerts: AlertsSection,
    /// Checkpoint intervals and the number of checkpoints that are kept.
    #[serde(deserialize_with = "table")]
    pub checkpoint: CheckpointSection,
    /// Time limits of plugin calls.
    #[serde(deserialize_with = "table")]
    pub limits: LimitsSection,
    /// A destination of metrics. Each destination has a `[[sink]]`. Default: the terminal only. The same sink may
    /// appear twice with different settings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sink: Vec<SinkSection>,
}

/// `[run]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RunSection {
    /// Name of the run in every sink, and of its folder below `out`. It must be a plain folder name. Resolved value:
    /// the run file's name without `.toml` if not given.
    pub name: String,
    /// Root of the training's random streams (initial weights, data order, dropout, stochastic rounding); evaluation
    /// windows are the same for all seeds. nanoGPT uses 1337. Must be below 2^63, the limit of TOML integers.
    pub seed: u64,
    /// Folder of run folders, relative to the run file's folder. Default: `runs` in the working directory.
    #[serde(skip_serializing_if = "is_default_out")]
    pub out: String,
    /// `auto`, `cpu`, `cuda:N` or `wgpu`. Results are bit-identical on one device only, so name the device of a
    /// comparison.
    pub device: DeviceChoice,
}

impl Default for RunSection {
    fn default() -> Self {
        Self { name: String::new(), seed: 1337, out: "runs".to_owned(), device: DeviceChoice::Auto }
    }
}

fn is_default_out(out: &str) -> bool {
    out == RunSection::default().out
}

/// `[plugins]`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PluginsSection {
    /// Folder of plugin libraries, relative to the run file's folder. Resolved value: absolute, so that the resolved
    /// file can be moved. Default: `plugins` beside the executable.
    pub dir: Option<String>,
    /// The libraries to load, in this order. Default: every library in `dir`. A list pins the set of plugins: new files
    /// in the folder are ignored.
    pub load: Option<Vec<PluginRef>>,
    /// Files of formats, TOML or JSON, beside those of `dir` or `load`; relative to the run file's folder. Resolved
    /// value: absolute.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub formats: Vec<String>,
    /// Checks that a plugin must pass before the run uses it. A plugin that fails is refused. `run.json` records which
    /// plugins were checked.
    pub check: PluginCheckChoice,
}

/// `[data]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DataSection {
    /// Data set: `lawgen`, `bins:DIR` or `text:FILE`, relative to the run file's folder. `lawgen` needs no download.
    /// Resolved value: absolute, as those of all paths.
    pub dataset: DatasetChoice,
    /// Tokenizer of the text; it sets the vocabulary's size. `byte` accepts every text.
    pub tokenizer: TokenizerChoice,
    /// The characters of the tokenizer `char`, each once; a character's place is its id, from 0. Set it to use the
    /// vocabulary of an earlier run. Default: the characters of the corpus, which a run writes into its resolved file.
    pub alphabet: Option<String>,
    /// Context length in tokens. nanoGPT uses 64 for runs on a CPU. The memory of attention grows with its square.
    pub block_size: usize,
    /// Sequences in a micro-batch. A step uses `batch_size * train.grad_accum` sequences.
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
    /// `gpt-tiny`, `seed-10m` or `gpt2-124m`: sets the shape keys that the file does not set. Default: the shape of
    /// `gpt-tiny`, which trains on a CPU.
    pub preset: Option<Preset>,
    /// Transformer blocks. Resolved value: the preset's if not given.
    pub n_layer: usize,
    /// Attention heads per block; divides `n_embd`. Resolved value: the preset's if not given.
    pub n_head: usize,
    /// Heads of keys and values per block, which groups of query heads share (grouped-query attention,
    /// arXiv:2305.13245); divides `n_head`. Default: `n_head`, one for each query head.
    pub n_kv_head: Option<usize>,
    /// Width of the residual stream. Resolved value: the preset's if not given.
    pub n_embd: usize,
    /// Probability of zeroing an activation in training, from 0 to below 1. The default is 0, as in pre-training: the
    /// noise of dropout hides small differences between formats.
    pub dropout: f32,
    /// Whether linear layers and norms have a bias. nanoGPT reports slightly better and faster training without biases.
    pub bias: bool,
    /// Whether output layer and token embedding share one matrix, as in GPT-2. The format of this matrix applies to
    /// its use in the output layer. Without master weights the embedding uses the rounded values too.
    pub tie_weights: bool,
    /// Variant of GELU: `erf` or `tanh`. Published GPT-2 weights were trained with `tanh`.
    pub gelu: GeluChoice,
    /// Type of the norms: `layernorm` or `rmsnorm`. Both have a gain and add 1e-5 under the root.
    pub norm: NormChoice,
    /// The function between the two linear layers of an MLP: `gelu`, `swiglu` or `smooth_swiglu`. The key `gelu`
    /// applies to `gelu` only.
    pub mlp: MlpChoice,
    /// The encoding of positions: `learned` or `rotary`. `rotary` needs heads of even width.
    pub positions: PositionsChoice,
    /// Whether attention divides each head's queries and keys by their root mean square, with 1e-5 under the root, and
    /// multiplies them by learned gains before they are rotated (arXiv:2302.05442, with RMSNorm in place of LayerNorm).
    /// A block has one gain for queries and one for keys. A gain is as wide as a head, and all heads share it.
    pub qk_norm: bool,
    /// Safetensors file in nanoGPT's or GPT-2's layout to start from, relative to the run file's
    /// folder; must fit the shape. Default: random weights from `run.seed`.
    pub init: Option<String>,
}

impl Default for ModelSection {
    fn default() -> Self {
        let (n_layer, n_head, n_embd) = Preset::GptTiny.shape();
        Self {
            preset: None,
            n_layer,
            n_head,
            n_kv_head: None,
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
    /// Optimizer steps. 500 suffice to show differences between formats on `gpt-tiny`.
    pub max_steps: u64,
    /// Highest learning rate, reached after the warm-up. 1e-3 suits models of a few million parameters; larger ones
    /// need a smaller rate.
    pub lr: f64,
    /// Learning rate at the schedule's end, at most `lr`, usually a tenth of it. With the schedule `constant` it must
    /// not be set.
    pub min_lr: f64,
    /// Steps of the linear rise from 0 to `lr`; 0 = none. The default is a tenth of the default `max_steps`.
    pub warmup_steps: u64,
    /// Step at which the schedule `cosine` reaches `min_lr`; other schedules refuse it. Resolved value: `max_steps` if
    /// not given.
    pub decay_steps: Option<u64>,
    /// Operands of matrix products (linear layers and attention, forward and backward): `fp32`, or rounded to `bf16`,
    /// ties to even. Sums and all other values are f32 in both cases. Operands that a format rounds are not rounded
    /// again: up to their scales they are exact in bf16.
    pub precision: PrecisionChoice,
    /// `cosine`, `trapezoidal` or `constant`.
    pub schedule: ScheduleChoice,
    /// Number of last steps in which `trapezoidal` decreases to `min_lr`; other schedules refuse the key. Resolved
    /// value: 20 % of `max_steps` if not given.
    pub cooldown_steps: Option<u64>,
    /// Largest global gradient norm: gradients with a larger norm are scaled down to it; 0 = off. GPT-3 uses 1.
    pub grad_clip: f64,
    /// Largest magnitude of an element of a gradient: larger ones are set to it, before `grad_clip`; 0 = off.
    pub grad_clip_value: f64,
    /// Coefficient of z-loss (arXiv:2204.02311), the mean over tokens of `log(Z)^2` with `Z` the sum of the
    /// exponentials of the logits; 0 or more, 0 = off. PaLM uses 1e-4. Gradients are those of the sum; `train/loss` and
    /// evaluations are the cross-entropy alone. If not 0, all logits of a micro-batch are in memory at once.
    pub z_loss: f64,
    /// Micro-batches per step. Their gradients are averaged. A step sees the same windows for each `data.batch_size`
    /// with the same product; sampled evaluations have `eval_batches` times `batch_size` windows.
    pub grad_accum: usize,
    /// Factor by which the loss is multiplied before the backward pass, from 2^-126 to 2^126; gradients are divided by
    /// it afterwards. 1 = off. `"dynamic"` starts with 65536, doubles after 2000 steps in a row without an overflow,
    /// and halves after a step whose gradients overflow; such a step is skipped. Rounding in the backward pass applies
    /// to scaled gradients.
    pub loss_scale: LossScaleChoice,
    /// Steps between evaluations; 0 = only at the end. An evaluation takes `eval_batches` forward passes over held-out
    /// data.
    pub eval_interval: u64,
    /// Held-out batches of an evaluation by sample. More batches give less noise. All runs on a corpus use the same
    /// windows.
    pub eval_batches: usize,
    /// Evaluations that predict every token of the validation split instead of a sample.
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
            grad_clip_value: 0.0,
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
    /// Interval in steps at which the same batch also runs unquantized in fp32 and the gradients are compared; 0 =
    /// never. Such a step takes about as long as two. The training stays bit-identical.
    pub every: u64,
}

/// `[curvature]`: measures eigenvalue and trace of the Hessian, the empirical Fisher trace and the gradient noise scale
/// during the run, as `altgrad-host curvature` does afterwards. The training stays bit-identical.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CurvatureSection {
    /// Interval of these measurements in steps; 0 = never. One takes up to `2 (iterations + draws + 2)` forward and
    /// backward passes of `batches` batches, plus one forward and backward pass per sequence.
    pub every: u64,
    /// Number of batches in the sample of the training split from which all values are computed, at least 1; the same
    /// in all steps.
    pub batches: u64,
    /// Random vectors for the trace of the Hessian, at least 1. The standard error of the trace needs 2.
    pub draws: u32,
    /// Largest number of Hessian-vector products in the power iteration, at least 1. The largest eigenvalue is missing
    /// if it has not converged by then.
    pub iterations: u32,
}

impl Default for CurvatureSection {
    fn default() -> Self {
        Self { every: 0, batches: 1, draws: 4, iterations: 50 }
    }
}

/// `[metrics]`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MetricsSection {
    /// Interval in steps at which gradients and updates are measured for each parameter; 0 = never. With 1, the host
    /// keeps the last codes of rounded weights, 2 bytes per parameter (4 for formats of more than 8 bits). With 0, the
    /// rounding metrics of layers are not recorded either, and alerts use those of roles.
    pub every: u64,
    /// Interval in steps at which distributions are measured: codes and kurtosis of rounded tensors, and the distances
    /// of weights from their grids; 0 = never. Such a step takes about as long as two; on a GPU it reads weights and
    /// their gradients back. If not 0, the host keeps initial weights that `run.seed` does not draw, 4 bytes per
    /// parameter.
    pub histograms_every: u64,
    /// Interval in steps at which the kurtosis of rounded tensors is measured, besides the steps of `histograms_every`;
    /// 0 = on those only.
    pub kurtosis_every: u64,
    /// True if the entropy and the largest score of attention are measured, on the steps of `every`.
    pub attention: bool,
    /// Interval in steps at which the singular values of weights are computed; 0 = never. A matrix takes min(m, n)^2
    /// max(m, n) operations: seconds for a small model, many minutes for a large one.
    pub rank_every: u64,
    /// Steps in a row with a gradient below `dead_gradient_threshold` after which an element counts as dead, up to
    /// 65535; 0 = not counted. If not 0, the host keeps a byte per parameter, and two for windows above 255.
    pub dead_neuron_window: u64,
    /// Magnitude of a gradient before clipping below which an element counts as dead, above 0.
    pub dead_gradient_threshold: f64,
}

impl Default for MetricsSection {
    fn default() -> Self {
        Self {
            every: 1,
            histograms_every: 100,
            kurtosis_every: 0,
            attention: true,
            rank_every: 0,
            dead_neuron_window: 100,
            dead_gradient_threshold: 1e-8,
        }
    }
}

impl MetricsSection {
    /// The same without measurements that take time of their own.
    #[must_use]
    pub fn off(self) -> Self {
        Self {
            every: 0,
            histograms_every: 0,
            kurtosis_every: 0,
            rank_every: 0,
            dead_neuron_window: 0,
            ..self
        }
    }

    /// True if attention is measured in the run.
    #[must_use]
    pub fn measures_attention(self) -> bool {
        self.every > 0 && self.attention
    }

    /// True if the kurtosis of rounded tensors is measured in the run.
    #[must_use]
    pub fn measures_kurtosis(self) -> bool {
        self.kurtosis_every > 0 || self.histograms_every > 0
    }
}

/// `[checkpoint]`: when the run's whole state is saved, so that the run can resume. It is always saved at the end, when
/// the run is stopped, and when it fails; the keys set all other times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CheckpointSection {
    /// Steps between checkpoints; 0 = only at the end. A crash loses at most that many steps. Training computes the
    /// next gradients while a checkpoint is written, and updates when it is complete. A checkpoint takes up to 22 bytes
    /// per parameter on disk.
    pub every: u64,
    /// Number of newest checkpoints to keep, at least 1. With 2, a damaged checkpoint loses at most `every` further
    /// steps.
    pub keep_last: usize,
    /// Whether each best evaluation writes a checkpoint, which is kept in addition to the newest.
    pub keep_best: bool,
    /// Whether the state is saved separately before a loss or gradient that is not finite, after a divergence, and
    /// after the alert `loss_rise`. Only the first three such events are saved.
    pub on_anomaly: bool,
}

impl Default for CheckpointSection {
    fn default() -> Self {
        Self { every: 100, keep_last: 2, keep_best: true, on_anomaly: true }
    }
}

/// `[limits]`: time limits of calls into format and optimizer plugins, and of loading a library. Calls into sinks have
/// a deadline of their own, and training does not wait for them. Time in which the run was suspended does not count.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsSection {
    /// Seconds after which `run` warns, once per call, that a call has not returned; 0 = never.
    pub plugin_call_warning_s: f64,
    /// Seconds after which `run` ends with exit code 3 because a call has not returned; 0 = never. Steps after the last
    /// checkpoint are lost.
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
    /// Largest number of rows and events that may wait for the sink, 1 to 1,000,000. Further rows are dropped, counted
    /// and reported. Training waits for a sink only at its start, at checkpoints and at the end, and at most
    /// `deadline_s`.
    #[serde(default = "default_sink_queue")]
    pub queue: usize,
    /// Patterns of the metrics that the sink gets, such as `train/*`. Default: all metrics. `*` is any text, `?` a
    /// character.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    /// Patterns of metrics that the sink does not get, among those that `include` selects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// Interval in steps between the rows that the sink gets, 1 or more. Steps with an evaluation are always included.
    #[serde(default = "every_step")]
    pub every: u64,
    /// Interval in steps at which these rows have metrics of layers and histograms, 1 or more.
    #[serde(default = "every_step")]
    pub layers_every: u64,
    /// Seconds that the sink may take to open, to write its queue before a checkpoint is complete, and to finish;
    /// limits in its own options, such as `finish_timeout_s` of `wandb`, must be smaller. A sink that takes longer is
    /// closed: it gets no more rows, the host counts and reports the missing rows, and training does not wait for it
    /// again.
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
