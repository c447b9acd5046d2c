//! An estimate of a run's memory, compared with the machine's before anything large is allocated.
//!
//! Without this an impossible size ends the process with "memory allocation failed", which names no key.

use altgrad_base::{diagnostic::Diagnostic, memory};
use altgrad_config::{
    LayerRule, MasterWeightsChoice, MlpChoice, PositionsChoice, RunConfig, StateFloat, StateStorage,
    cast::UseSourceChoice,
};

use crate::{
    device::ComputeDevice,
    fused_ops,
    model::{GptShape, widths},
    quant::Role,
};

/// Memory of a process before its first parameter, and memory of a step at any size.
const BASE: f64 = 128e6;
/// Value and gradient, and their temporary copies.
const BYTES_A_PARAMETER: f64 = 9.0;
/// Memory that a block keeps for its backward pass, in units of the residual stream, apart from the MLP's hidden
/// channels.
const STREAMS_A_BLOCK: f64 = 8.0;
/// Memory that the norm of queries and keys keeps in addition, in the same units: its input; attention keeps the
/// result.
const STREAMS_OF_QK_NORM: f64 = 3.0;
/// Rows of the logits that exist at once where their gradient is not rounded by a cast, and copies of those rows. Else
/// all exist, once.
const ROWS_OF_LOGITS: f64 = 1024.0;
const COPIES_OF_LOGITS: f64 = 2.0;
/// Copies of the logits in the plain operations of observed passes.
const PLAIN_COPIES_OF_LOGITS: f64 = 4.0;
/// Copies of attention scores in plain operations, of observed passes and of casts in attention: unmasked, masked and
/// normalised.
const PLAIN_SCORES: f64 = 3.0;
/// Roles whose casts in the head need all logits at once.
const HEAD_ROLES: [Role; 5] =
    [Role::Grad, Role::GradWgrad, Role::ActivationWgrad, Role::WeightDgrad, Role::Logits];

/// Bytes of an optimizer's states.
#[derive(Debug, Clone, Copy, Default)]
pub struct StateBytes {
    /// Of all parameters, as they are stored between updates.
    pub stored: f64,
    /// In f32 during the update of the parameter that has most, besides the stored ones.
    pub converted: f64,
}

/// Bytes that training on the CPU needs, to within a third or so, and available bytes; `None` if these are unknown, or
/// for the memory of a GPU.
fn needed_and_available(
    config: &RunConfig,
    shape: &GptShape,
    device: &ComputeDevice,
    states: Option<StateBytes>,
) -> Option<[f64; 2]> {
    let available =
        memory::available().map(|bytes| bytes as f64).filter(|_| fused_ops::is_available(&device.tensors))?;
    Some([estimate(config, shape, states), available])
}

/// Refuses a run on the CPU that needs more memory than the machine has. Accepts any run if the available memory is
/// unknown or a GPU's. Returns both, where they are known. Before the optimizer is known, it counts as one with two
/// states per parameter.
///
/// # Errors
/// The run needs too much memory: the error has the required and the available memory, and the keys to reduce.
pub fn check(
    config: &RunConfig,
    shape: &GptShape,
    device: &ComputeDevice,
    states: Option<StateBytes>,
) -> Result<Option<[f64; 2]>, Diagnostic> {
    let known = needed_and_available(config, shape, device, states);
    let Some([needed, available]) = known.filter(|[needed, available]| needed > available) else {
        return Ok(known);
    };
    let gib = |bytes: f64| bytes / f64::from(1 << 30);
    let message =
        format!("the run needs about {:.1} GiB of memory, {:.1} are available", gib(needed), gib(available));
    let hint = match states {
        None => "make n_layer, n_embd, block_size or batch_size smaller; grad_accum gives large batches in less memory".to_string(),
        Some(states) => format!(
            "{:.1} GiB of it are the optimizer's states: choose other options or another optimizer, store states in fewer bits (optimizer.states), or make the model smaller",
            gib(states.stored)
        ),
    };
    Err(Diagnostic::config(message).hint(hint))
}

/// Bytes that training on the CPU needs, within about a third of measurements. A float cannot overflow.
fn estimate(config: &RunConfig, shape: &GptShape, states: Option<StateBytes>) -> f64 {
    let [vocab, block, layers, heads, width, batch] =
        [shape.vocab, shape.block_size, shape.n_layer, shape.n_head, shape.n_embd, config.data.batch_size]
            .map(|n| n as f64);
    let positions = if shape.parts.positions == PositionsChoice::Learned { block } else { 0.0 };
    let tables = (vocab * if shape.tie_weights { 1.0 } else { 2.0 } + positions) * width;
    let (up, hidden) = mlp_widths(shape);
    let parameters = tables + layers * (4.0 * width + up + hidden) * width;
    let tokens = batch * block;
    // Observation reads tensors that the passes of training never store as a whole.
    let is_plain = !config.observe.formats.is_empty();
    let keeps_logits = casts_any(config, &HEAD_ROLES) || config.train.z_loss > 0.0;
    let logits = if is_plain {
        PLAIN_COPIES_OF_LOGITS * tokens * vocab
    } else if keeps_logits {
        tokens * vocab
    } else {
        COPIES_OF_LOGITS * tokens.min(ROWS_OF_LOGITS) * vocab
    };
    let keeps_scores = is_plain || casts_any(config, &fused_ops::attention::CAST_ROLES);
    let scores = if keeps_scores { PLAIN_SCORES * tokens * heads * block } else { 0.0 };
    let activations = logits + layers * (STREAMS_A_BLOCK * tokens * width + tokens * (up + hidden) + scores);
    let qk_norm = if shape.parts.qk_norm { layers * STREAMS_OF_QK_NORM * tokens * width } else { 0.0 };
    let activations = activations + qk_norm;
    let states = states.unwrap_or_else(|| two_states(config, parameters, (vocab * width).max(up * width)));
    // A checkpoint being written still holds values and states after they have changed.
    let checkpoint = if config.checkpoint.every > 0 { 4.0 * parameters + states.stored } else { 0.0 };
    let parameters = parameters * (BYTES_A_PARAMETER + remembered(config));
    BASE + parameters + states.stored + states.converted + checkpoint + activations * 4.0
}

/// Whether some layer has casts of its own for one of the roles. A second use that reuses the first one's values has
/// none.
fn casts_any(config: &RunConfig, roles: &[Role]) -> bool {
    let casts = |role: Role, chosen: Option<&LayerRule>| {
        let applies = |rule: &LayerRule| chosen.is_some_and(|chosen| std::ptr::eq(rule, chosen));
        let cast = config.quant.cast(role, applies);
        match role.first_use() {
            Some(_) if cast.source() == UseSourceChoice::Reuse => false,
            Some(first) => cast.format().or(config.quant.cast(first, applies).format()).is_some(),
            None => cast.format().is_some(),
        }
    };
    let rules = || config.quant.layer.iter().map(Some).chain([None]);
    roles.iter().any(|role| rules().any(|rule| casts(*role, rule)))
}

/// Outputs of the MLP's first linear layer and inputs of its second: both are kept for the backward pass.
fn mlp_widths(shape: &GptShape) -> (f64, f64) {
    let n_embd = shape.n_embd as f64;
    match shape.parts.mlp {
        MlpChoice::Gelu => (4.0 * n_embd, 4.0 * n_embd),
        choice => {
            (widths::up_width(choice, shape.n_embd) as f64, widths::hidden_width(choice, shape.n_embd) as f64)
        }
    }
}

/// The bytes of two states per parameter; `largest` are the elements of the largest one. Codes count as a byte each:
/// the format is not known yet.
fn two_states(config: &RunConfig, parameters: f64, largest: f64) -> StateBytes {
    let saved = |storage: &StateStorage| match storage {
        StateStorage::Float(StateFloat::F32) => None,
        StateStorage::Float(StateFloat::Bf16) => Some(2.0),
        StateStorage::Codes(codes) => Some(3.0 - 4.0 / codes.block.max(1) as f64),
    };
    let saved: Vec<f64> = config.optimizer.states.values().filter_map(saved).take(2).collect();
    StateBytes {
        stored: (8.0 - saved.iter().sum::<f64>()) * parameters,
        converted: 4.0 * saved.len() as f64 * largest,
    }
}

/// Bytes per parameter besides the optimizer's and a checkpoint's: the metrics' state, a shadow step's gradients and
/// those of curvature.
fn remembered(config: &RunConfig) -> f64 {
    // Initial weights that cannot be drawn again from a seed.
    let keeps_initial =
        config.model.init.is_some() || config.quant.master_weights == MasterWeightsChoice::None;
    let rows = [
        (config.metrics.every == 1, 2.0),
        (config.metrics.histograms_every > 0 && keeps_initial, 4.0),
        (config.metrics.dead_neuron_window > 0, 1.0),
        (config.shadow.every > 0, 4.0),
        // Weights, displaced weights and two gradients in f32; two vectors and a sum of gradients in f64.
        (config.curvature.every > 0, 40.0),
    ];
    rows.into_iter().filter_map(|(needed, bytes)| needed.then_some(bytes)).sum()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use super::*;
    use altgrad_config::PrecisionChoice;

    use crate::{model::Parts, setup::ReadyRun};

    fn shape(n_layer: usize, n_head: usize, n_embd: usize, block_size: usize) -> GptShape {
        GptShape {
            vocab: 50257,
            block_size,
            n_layer,
            n_head,
            n_embd,
            bias: false,
            tie_weights: true,
            parts: Parts::NANOGPT,
        }
    }

    fn config(batch_size: usize, precision: PrecisionChoice, grad: Option<&str>, metrics: bool) -> RunConfig {
        let mut config = RunConfig::default();
        (config.data.batch_size, config.train.precision) = (batch_size, precision);
        config.quant.grad = grad.map(str::to_string);
        if !metrics {
            config.metrics.every = 0;
            config.metrics.histograms_every = 0;
            config.metrics.dead_neuron_window = 0;
        }
        // The benchmark writes none.
        config.checkpoint.every = 0;
        config
    }

    /// Peaks of `altgrad-host bench --steps 1 --warmup 1`, MB, 2026-11-22; of `seed` with batches of 12 2026-11-24.
    #[test]
    fn the_estimate_is_near_what_was_measured() {
        use PrecisionChoice::{Bf16, Fp32};
        let [tiny, seed, gpt2] = [shape(4, 4, 128, 64), shape(6, 6, 384, 256), shape(12, 12, 768, 1024)];
        let rows = [
            (&tiny, config(12, Fp32, None, false), 550.0),
            (&seed, config(12, Fp32, None, false), 1468.0),
            (&seed, config(24, Fp32, None, false), 2236.0),
            (&seed, config(12, Fp32, None, true), 1585.0),
            (&seed, config(12, Fp32, Some("E5M2"), false), 1780.0),
            (&seed, config(12, Fp32, Some("E5M2"), true), 1851.0),
            (&seed, config(12, Bf16, None, false), 1486.0),
            (&gpt2, config(1, Fp32, None, false), 3398.0),
            (&gpt2, config(2, Fp32, None, false), 4032.0),
            (&gpt2, config(2, Fp32, Some("E5M2"), true), 4620.0),
            (&gpt2, config(2, Bf16, None, false), 4317.0),
        ];
        for (shape, config, measured) in rows {
            let estimate = estimate(&config, shape, None) / 1024e3;
            assert!((0.75..1.33).contains(&(estimate / measured)), "{shape:?}: {estimate} of {measured} MB");
        }
    }

    #[test]
    fn logits_are_kept_for_casts_of_their_gradient_only() {
        let rest = |quant: &str| RunConfig { quant: toml::from_str(quant).unwrap(), ..RunConfig::default() };
        let seed = shape(6, 6, 384, 256);
        let [plain, weights, hp, grad] = [
            "",
            "weight = \"E4M3\"\nactivation = \"E4M3\"",
            "activation = \"E4M3\"\n[cast.activation_wgrad]\nformat = \"none\"\nsource = \"hp\"",
            "grad = \"E5M2\"",
        ]
        .map(|quant| estimate(&rest(quant), &seed, None));
        assert!(plain == weights && plain < hp && hp == grad, "{plain} {weights} {hp} {grad}");
    }

    /// Attention whose products are rounded keeps its scores. Peak of the recipe `te_fp8_attention` as above, MB,
    /// 2026-11-25.
    #[test]
    fn casts_in_attention_keep_scores() {
        let gpt2 = shape(12, 12, 768, 1024);
        let mut config = config(1, PrecisionChoice::Fp32, Some("E5M2"), false);
        config.quant.cast = toml::from_str("probabilities = { format = \"E4M3\" }").unwrap();
        let estimate = estimate(&config, &gpt2, None) / 1024e3;
        assert!((0.75..1.33).contains(&(estimate / 4945.0)), "{estimate} MB");
    }

    /// The measured difference in memory between AdamW's states in bf16 and in f32, in runs of two steps, MB,
    /// 2026-11-23.
    #[test]
    fn states_that_are_stored_in_less_are_known() {
        let wide = GptShape { vocab: 30, ..shape(6, 8, 1024, 32) };
        let mut config = config(2, PrecisionChoice::Fp32, None, false);
        let plain = estimate(&config, &wide, None);
        let bf16 = StateStorage::Float(StateFloat::Bf16);
        config.optimizer.states =
            ["exp_avg", "exp_avg_sq"].map(|name| (name.to_string(), bf16.clone())).into();
        let saved = (plain - estimate(&config, &wide, None)) / 1e6;
        assert!((saved / 266.0 - 1.0).abs() < 0.1, "{saved} MB");
    }

    /// Bytes of a run of a small model with this optimizer, where the machine says what is available.
    fn needed(optimizer: &str) -> Option<f64> {
        let (folder, plugins) = (tempfile::tempdir().unwrap(), altgrad_end_to_end::stage().join("plugins"));
        let [corpus, path] = ["corpus.txt", "run.toml"].map(|name| folder.path().join(name));
        fs::write(&corpus, "the quick brown fox jumps over the lazy dog\n".repeat(20)).unwrap();
        let text = format!(
            "[run]\nname = \"small\"\ndevice = \"cpu\"\n\
             [data]\ndataset = \"text:{}\"\ntokenizer = \"char\"\nblock_size = 8\nbatch_size = 2\n\
             [model]\nn_layer = 1\nn_head = 2\nn_embd = 8\n\
             [optimizer]\nname = \"{optimizer}\"\n[plugins]\ndir = {plugins:?}\n",
            corpus.display()
        );
        fs::write(&path, text).unwrap();
        let (config, source) = altgrad_config::load(&path, &[]).unwrap();
        ReadyRun::build(config, &source).unwrap().setup.memory.map(|[needed, _]| needed)
    }

    /// SOAP's states as docs/numerics.md counts them, section 9.14.
    #[test]
    fn all_states_of_an_optimizer_count() {
        let (Some(soap), Some(adamw)) = (needed("soap"), needed("adamw")) else {
            let test = "all_states_of_an_optimizer_count";
            return altgrad_end_to_end::skipped(test, "the available memory is unknown");
        };
        // Beyond AdamW's two: factors and bases of c_attn [24, 8], c_proj [8, 8], c_fc [32, 8] and c_proj [8, 32].
        let shapes = [[24, 8], [8, 8], [32, 8], [8, 32]];
        let elements: u32 = shapes.as_flattened().iter().map(|extent: &u32| 2 * extent * extent).sum();
        // f32, and again in a checkpoint being written.
        let expected = 2.0 * 4.0 * f64::from(elements);
        assert!((soap - adamw - expected).abs() < 1.0, "{soap} and {adamw} bytes, {expected} more");
    }

    #[test]
    fn the_estimate_never_overflows() {
        let most = i32::MAX as usize;
        let config = config(most, PrecisionChoice::Bf16, Some("E5M2"), true);
        let shape = GptShape { vocab: most, ..shape(most, most, most, most) };
        assert!((1e30..f64::INFINITY).contains(&estimate(&config, &shape, None)));
    }
}
