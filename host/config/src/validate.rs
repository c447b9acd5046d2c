//! The ranges of the run file's values: a list of rules, checked in order.
//!
//! Checks of the run file alone. Names of formats, optimizers, sinks and parameters are checked by the setup,
//! the plugins' own tables by the plugins.

mod scaling;

use std::collections::BTreeSet;

use altgrad_base::diagnostic::Diagnostic;

use super::accumulate::AccumulateChoice;
use super::choices::{GeluChoice, MlpChoice, PositionsChoice, ScheduleChoice, TokenizerChoice};
use super::loss_scale::LossScaleChoice;
use super::optimizer::StateStorage;
use super::plugin_ref::PluginRef;
use super::quant::{QuantSection, StoredScaleSection, unrounded_entry};
use super::scaling::ScalingSection;
use super::schema::{CurvatureSection, RunConfig, TrainSection};
use super::source::Source;

/// The hint for a threshold that is out of range.
const SWITCHES_OFF: &str = "\"off\" switches the alert off";

/// Refuses `config` at the first rule that does not hold.
pub(super) fn validate(config: &RunConfig, source: &Source) -> Result<(), Diagnostic> {
    validate_keys(config, source, |_| true)
}

/// The same by the rules about keys for which `is_meant` holds.
pub(super) fn validate_keys(
    config: &RunConfig,
    source: &Source,
    is_meant: impl Fn(&str) -> bool,
) -> Result<(), Diagnostic> {
    let sections = [
        run,
        plugins,
        data,
        model,
        train,
        schedule,
        plugin_tables,
        states,
        quant,
        curvature,
        metrics,
        alerts,
        checkpoint,
        limits,
    ];
    let mut broken = sections.iter().flat_map(|rules| rules(config)).filter(|rule| !rule.holds);
    let broken = broken.find(|rule| rule.keys.iter().any(|key| is_meant(key)));
    let Some(rule) = broken else { return Ok(()) };
    let keys: Vec<&str> = rule.keys.iter().map(String::as_str).collect();
    let error = Diagnostic::config(rule.message).at(source.locate_first(&keys));
    Err(if rule.hint.is_empty() { error } else { error.hint(rule.hint) })
}

/// A condition, and the message if it does not hold.
struct Rule {
    /// The keys at fault; the message has the position of the first that is written.
    keys: Vec<String>,
    holds: bool,
    message: String,
    hint: &'static str,
}

fn rule(keys: &[&str], holds: bool, message: impl Into<String>) -> Rule {
    let keys = keys.iter().map(|key| (*key).to_owned()).collect();
    Rule { keys, holds, message: message.into(), hint: "" }
}

impl Rule {
    fn hint(self, hint: &'static str) -> Self {
        Self { hint, ..self }
    }
}

/// Sizes index tensors and are multiplied with each other, so the top is the device's
/// 32-bit index and not TOML's 63 bits.
fn size(key: &str, value: usize) -> Rule {
    const MOST: usize = i32::MAX as usize;
    rule(&[key], (1..=MOST).contains(&value), format!("`{key}` must be from 1 to {MOST}, found {value}"))
}

fn positive(key: &str, value: f64) -> Rule {
    finite(key, value, value > 0.0, "positive")
}

fn not_negative(key: &str, value: f64) -> Rule {
    finite(key, value, value >= 0.0, "0 or more")
}

fn finite(key: &str, value: f64, in_range: bool, range: &str) -> Rule {
    let must_be = if value.is_finite() { range } else { "finite" };
    rule(&[key], in_range && value.is_finite(), format!("`{key}` must be {must_be}, found {value:?}"))
}

fn not_empty(key: &str, value: &str) -> Rule {
    rule(&[key], !value.is_empty(), format!("`{key}` must not be empty"))
}

fn run(config: &RunConfig) -> Vec<Rule> {
    let name = &config.run.name;
    let folder = !name.contains(['/', '\\']) && !name.contains("..") && name != ".";
    let why = "the name becomes a folder in run.out: no `/`, `\\`, `..` or control characters";
    vec![
        not_empty("run.name", name).hint("give one: [run] name = \"...\""),
        rule(&["run.name"], folder, format!("`run.name` must be one plain folder name, found {name:?}"))
            .hint(why),
        rule(
            &["run.name"],
            !name.contains(char::is_control),
            format!("`run.name` must not contain control characters, found {name:?}"),
        )
        .hint(why),
        not_empty("run.out", &config.run.out)
            .hint("remove `run.out`: its default is `runs` in the working directory"),
    ]
}

fn plugins(config: &RunConfig) -> Vec<Rule> {
    let mut rules = Vec::new();
    rules.extend(config.plugins.dir.as_deref().map(|dir| not_empty("plugins.dir", dir)));
    let files = config.plugins.formats.iter().enumerate();
    rules.extend(files.map(|(index, file)| not_empty(&format!("plugins.formats.{index}"), file)));
    for (index, plugin) in config.plugins.load.iter().flatten().enumerate() {
        let key = format!("plugins.load.{index}");
        match plugin {
            PluginRef::Name(target) => rules.push(not_empty(&key, target)),
            PluginRef::Pinned(pinned) => rules.push(not_empty(&format!("{key}.path"), &pinned.path)),
        }
        if let Some(hash) = plugin.sha256() {
            let key = format!("{key}.sha256");
            let holds = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
            let message = format!("`{key}` must be 64 hex digits, found {hash:?}");
            rules.push(rule(&[&key], holds, message).hint("`altgrad-host plugins inspect PATH` prints it"));
        }
    }
    rules
}

fn data(config: &RunConfig) -> Vec<Rule> {
    let data = &config.data;
    let mut rules = vec![size("data.block_size", data.block_size), size("data.batch_size", data.batch_size)];
    if let Some(alphabet) = &data.alphabet {
        let key = "data.alphabet";
        rules.push(not_empty(key, alphabet));
        rules.push(
            rule(
                &[key],
                data.tokenizer == TokenizerChoice::Char,
                format!("`{key}` has no effect without tokenizer = \"char\""),
            )
            .hint("set tokenizer = \"char\", or remove the key"),
        );
        let ids = alphabet.chars().count();
        let distinct = alphabet.chars().collect::<BTreeSet<char>>().len() == ids;
        let message = format!("`{key}` must hold each character once");
        rules.push(rule(&[key], distinct, message).hint("copy it from the config.toml of a run"));
        let message = format!("`{key}` must hold at most 65536 characters, found {ids}");
        rules.push(
            rule(&[key], ids <= 1 << 16, message).hint("token ids are 16-bit; use tokenizer = \"byte\""),
        );
    }
    rules
}

fn model(config: &RunConfig) -> Vec<Rule> {
    let model = &config.model;
    let (n_head, n_embd) = (model.n_head, model.n_embd);
    let mut rules = vec![
        size("model.n_layer", model.n_layer),
        size("model.n_head", n_head),
        size("model.n_embd", n_embd),
        rule(
            &["model.n_head", "model.n_embd"],
            // 0 heads are refused above.
            n_embd.checked_rem(n_head) == Some(0),
            format!("`model.n_embd` ({n_embd}) must be a multiple of `model.n_head` ({n_head})"),
        )
        .hint("choose n_embd as a multiple of n_head"),
        rule(
            &["model.n_kv_head", "model.n_head"],
            model.n_kv_head.is_none_or(|shared| n_head.checked_rem(shared) == Some(0)),
            format!(
                "`model.n_head` ({n_head}) must be a multiple of `model.n_kv_head` ({})",
                model.n_kv_head.unwrap_or_default()
            ),
        )
        .hint("groups of equal size share a head of keys and values; n_kv_head = 1 shares one among all"),
        rule(
            &["model.gelu"],
            model.gelu == GeluChoice::Erf || model.mlp == MlpChoice::Gelu,
            format!("`model.gelu` has no effect with model.mlp = \"{}\"", model.mlp),
        )
        .hint("remove the key, or set model.mlp = \"gelu\""),
        rule(
            &["model.positions"],
            model.positions == PositionsChoice::Learned
                || n_embd.checked_div(n_head).is_none_or(|width| width % 2 == 0),
            format!("`model.positions` = \"rotary\" needs heads of even width, `model.n_embd` ({n_embd}) and `model.n_head` ({n_head}) make odd ones"),
        )
        .hint("rotary positions rotate pairs of elements; make n_embd a multiple of 2 * n_head"),
        rule(
            &["model.dropout"],
            (0.0..1.0).contains(&model.dropout),
            format!("`model.dropout` must be at least 0 and below 1, found {:?}", model.dropout),
        ),
    ];
    rules.extend(model.init.as_deref().map(|path| not_empty("model.init", path)));
    rules
}

fn train(config: &RunConfig) -> Vec<Rule> {
    let train = &config.train;
    let TrainSection { lr, min_lr, max_steps, warmup_steps, .. } = *train;
    vec![
        rule(&["train.max_steps"], max_steps > 0, "`train.max_steps` must be at least 1, found 0"),
        positive("train.lr", lr),
        not_negative("train.min_lr", min_lr),
        rule(
            &["train.min_lr", "train.lr"],
            min_lr <= lr || train.schedule == ScheduleChoice::Constant,
            format!("`train.min_lr` ({min_lr:?}) must not be above `train.lr` ({lr:?})"),
        )
        .hint("set both; `min_lr` is often a tenth of `lr`"),
        rule(
            &["train.warmup_steps", "train.max_steps"],
            warmup_steps <= max_steps,
            format!(
                "`train.warmup_steps` ({warmup_steps}) must not be above `train.max_steps` ({max_steps})"
            ),
        )
        .hint("a short run needs a shorter warm-up, such as a tenth of its steps; set warmup_steps = 0 for none"),
        not_negative("train.grad_clip", train.grad_clip),
        not_negative("train.grad_clip_value", train.grad_clip_value),
        clip_value(config),
        not_negative("train.z_loss", train.z_loss),
        size("train.grad_accum", train.grad_accum),
        loss_scale(train.loss_scale),
        size("train.eval_batches", train.eval_batches),
    ]
}

/// Elements are dead by their gradient before clipping, and the count reads clipped ones.
fn clip_value(config: &RunConfig) -> Rule {
    const KEYS: [&str; 2] = ["train.grad_clip_value", "metrics.dead_gradient_threshold"];
    let (limit, dead) = (config.train.grad_clip_value, config.metrics.dead_gradient_threshold);
    let message = format!("`{}` ({limit:?}) must not be below `{}` ({dead:?})", KEYS[0], KEYS[1]);
    rule(&KEYS, limit == 0.0 || limit >= dead, message)
        .hint("set grad_clip_value = 0 for none; below the threshold every element would count as dead")
}

fn loss_scale(choice: LossScaleChoice) -> Rule {
    const KEY: &str = "train.loss_scale";
    let fault = choice.fault();
    let message = format!("`{KEY}` {}", fault.as_deref().unwrap_or_default());
    rule(&[KEY], fault.is_none(), message)
        .hint("set loss_scale = 1 for none, or loss_scale = \"dynamic\" to find one")
}

/// The keys of one schedule: in range with that schedule, refused with any other, where they have no effect.
fn schedule(config: &RunConfig) -> Vec<Rule> {
    let train = &config.train;
    let TrainSection { schedule, max_steps, warmup_steps, .. } = *train;
    let mut rules = Vec::new();
    if let Some(decay) = train.decay_steps {
        let key = "train.decay_steps";
        rules.push(only_with(key, schedule, ScheduleChoice::Cosine));
        rules.push(
            rule(
                &[key, "train.warmup_steps", "train.max_steps"],
                decay > warmup_steps,
                format!("`{key}` ({decay}) must be above `train.warmup_steps` ({warmup_steps})"),
            )
            .hint("the cosine falls from the end of the warm-up to decay_steps, by default max_steps"),
        );
    }
    if let Some(cooldown) = train.cooldown_steps {
        let key = "train.cooldown_steps";
        rules.push(only_with(key, schedule, ScheduleChoice::Trapezoidal));
        rules.push(rule(
            &[key, "train.warmup_steps", "train.max_steps"],
            cooldown <= max_steps.saturating_sub(warmup_steps),
            format!(
                "`{key}` ({cooldown}) and `train.warmup_steps` ({warmup_steps}) together must not be above \
                 `train.max_steps` ({max_steps})"
            ),
        ));
    }
    rules
}

fn only_with(key: &str, schedule: ScheduleChoice, owner: ScheduleChoice) -> Rule {
    rule(&[key], schedule == owner, format!("`{key}` has no effect with train.schedule = \"{schedule}\""))
        .hint("remove the key or change the schedule")
}

fn plugin_tables(config: &RunConfig) -> Vec<Rule> {
    let mut rules = vec![not_empty("optimizer.name", &config.optimizer.name)];
    for (index, group) in config.optimizer.group.iter().enumerate() {
        rules.push(not_empty(&format!("optimizer.group.{index}.match"), &group.pattern));
        let key = format!("optimizer.group.{index}.lr_scale");
        rules.push(not_negative(&key, group.lr_scale));
        let rate = group.lr_scale * config.train.lr;
        let message = format!("`{key}` times `train.lr` must be at most 3.4e38, found {rate:?}");
        rules.push(rule(&[&key, "train.lr"], rate <= f64::from(f32::MAX), message));
    }
    for (index, sink) in config.sink.iter().enumerate() {
        let key = |name: &str| format!("sink.{index}.{name}");
        rules.push(not_empty(&key("name"), &sink.name));
        let queue = (1..=1_000_000).contains(&sink.queue);
        let message = format!("`{}` must be between 1 and 1000000, found {}", key("queue"), sink.queue);
        rules.push(rule(&[&key("queue")], queue, message));
        for (name, every) in [("every", sink.every), ("layers_every", sink.layers_every)] {
            rules.push(rule(&[&key(name)], every > 0, format!("`{}` must be 1 or more, found 0", key(name))));
        }
        // A year: longer than any wait, and short enough for the clock.
        let seconds = sink.deadline_s > 0.0 && sink.deadline_s < 3.2e7;
        rules.push(finite(&key("deadline_s"), sink.deadline_s, seconds, "above 0 and below 3.2e7"));
        let twice = config.sink[..index].iter().any(|other| other == sink);
        rules.push(
            rule(&[&format!("sink.{index}")], !twice, "the same sink is listed twice with the same settings")
                .hint("give each its own file, folder or project, or remove one"),
        );
    }
    rules
}

fn states(config: &RunConfig) -> Vec<Rule> {
    let sizes = |(name, storage): (&String, &StateStorage)| match storage {
        StateStorage::Codes(codes) => {
            let key = |key| format!("optimizer.states.{name}.{key}");
            let expand = codes.expand.map(|expand| size(&key("expand"), expand as usize));
            std::iter::once(size(&key("block"), codes.block)).chain(expand).collect()
        }
        StateStorage::Float(_) => Vec::new(),
    };
    config.optimizer.states.iter().flat_map(sizes).collect()
}

fn quant(config: &RunConfig) -> Vec<Rule> {
    let (quant, plain) = (&config.quant, QuantSection::default());
    let some_format = quant.names_a_format();
    let unused = |key: &str, holds: bool| {
        rule(&[key], holds || some_format, format!("`{key}` has no effect without a format"))
            .hint("name one, such as weight = \"E5M2\", or remove the key")
    };
    let mut rules = vec![
        unused("quant.rounding", quant.rounding == plain.rounding),
        unused("quant.weight_rounding", quant.weight_rounding.is_none()),
        unused("quant.activation_rounding", quant.activation_rounding.is_none()),
        unused("quant.grad_rounding", quant.grad_rounding.is_none()),
        rule(
            &["quant.master_weights"],
            quant.master_weights == plain.master_weights || quant.rounds_weights(),
            "`quant.master_weights` has no effect without a format of weights",
        )
        .hint("name one, such as weight = \"E5M2\", or remove the key"),
        unused("quant.ste", quant.ste == plain.ste),
        unused("quant.exclude", quant.exclude.is_empty()),
        unused("quant.unrounded", quant.unrounded.is_empty()),
        unused("quant.skip_first", quant.skip_first == plain.skip_first),
        unused("quant.skip_last", quant.skip_last == plain.skip_last),
        unused("quant.scaling", quant.scaling == plain.scaling),
        unused("quant.accumulate", quant.limited_sum().is_none()),
    ];
    if let Some(AccumulateChoice::Limited(section)) = quant.accumulate {
        let message = "`quant.accumulate` must have bits from 4 to 36, a group from 1 to 4096, promote a multiple of group, and group one of exact";
        rules.push(rule(&["quant.accumulate"], section.is_valid(), message));
    }
    rules.extend(stored_scale(quant));
    rules.extend(quant.unrounded.iter().enumerate().map(|(index, entry)| {
        let key = format!("quant.unrounded.{index}");
        let message = format!("`{key}` must be a role, or a role and a pattern, found {entry:?}");
        rule(&[&key], unrounded_entry(entry).is_some_and(|(_, pattern)| !pattern.is_empty()), message)
            .hint("write \"grad\" or \"grad:lm_head.weight\"; a role is a key of [quant.cast]")
    }));
    let mut named: Vec<(String, &str)> = Vec::new();
    let formats = [("weight", &quant.weight), ("activation", &quant.activation), ("grad", &quant.grad)];
    named.extend(formats.iter().filter_map(|(key, name)| Some((format!("quant.{key}"), name.as_deref()?))));
    let patterns = quant.exclude.iter().enumerate();
    named.extend(patterns.map(|(index, pattern)| (format!("quant.exclude.{index}"), pattern.as_str())));
    for (index, layer) in quant.layer.iter().enumerate() {
        named.push((format!("quant.layer.{index}.match"), &layer.pattern));
        let formats = [("weight", &layer.weight), ("activation", &layer.activation), ("grad", &layer.grad)];
        let key = |name| format!("quant.layer.{index}.{name}");
        named.extend(formats.iter().filter_map(|(name, format)| Some((key(name), format.as_deref()?))));
    }
    rules.extend(named.iter().map(|(key, text)| not_empty(key, text)));
    rules.extend(scaling::rules(quant));
    rules
}

fn curvature(config: &RunConfig) -> Vec<Rule> {
    let CurvatureSection { batches, draws, iterations, .. } = config.curvature;
    let sizes = [("batches", batches), ("draws", draws.into()), ("iterations", iterations.into())];
    let rule_of = |(key, value): (&str, u64)| {
        let key = format!("curvature.{key}");
        rule(&[&key], value > 0, format!("`{key}` must be 1 or more, found 0"))
    };
    sizes.map(rule_of).into()
}

fn metrics(config: &RunConfig) -> Vec<Rule> {
    const MOST: u64 = u16::MAX as u64;
    let (key, window) = ("metrics.dead_neuron_window", config.metrics.dead_neuron_window);
    let threshold = config.metrics.dead_gradient_threshold;
    let sane = threshold > 0.0 && threshold < f64::from(f32::MAX);
    vec![
        rule(&[key], window <= MOST, format!("`{key}` must be from 0 to {MOST}, found {window}")),
        finite("metrics.dead_gradient_threshold", threshold, sane, "above 0"),
    ]
}

fn checkpoint(config: &RunConfig) -> Vec<Rule> {
    vec![size("checkpoint.keep_last", config.checkpoint.keep_last)]
}

fn limits(config: &RunConfig) -> Vec<Rule> {
    let limits = config.limits;
    let keys = [
        ("limits.plugin_call_warning_s", limits.plugin_call_warning_s),
        ("limits.plugin_call_timeout_s", limits.plugin_call_timeout_s),
    ];
    // A year, as of sinks.
    keys.map(|(key, value)| finite(key, value, (0.0..3.2e7).contains(&value), "at least 0 and below 3.2e7"))
        .into()
}

/// The rules of scales that are state, and of keys that have no effect with them.
fn stored_scale(quant: &QuantSection) -> Vec<Rule> {
    let (plain, stored, scaling) = (StoredScaleSection::default(), quant.stored_scale, &quant.scaling);
    let margin = stored.margin.unwrap_or(0);
    vec![
        rule(
            &["quant.stored_scale"],
            quant.has_stored_scales() || stored == plain,
            "`quant.stored_scale` has no effect without scaled weights that have no master weights",
        )
        .hint("set quant.master_weights = \"none\" and a format of weights, or remove the key"),
        rule(
            &["quant.stored_scale.margin"],
            (-32..=32).contains(&margin),
            format!("`quant.stored_scale.margin` must be from -32 to 32, found {margin}"),
        ),
        rule(
            &["quant.scaling"],
            !quant.stores_weights() || quant.rounds_values() || *scaling == ScalingSection::default(),
            "`quant.scaling` does not apply to weights without master weights",
        )
        .hint("remove its keys: `quant.stored_scale` says how their scales change"),
    ]
}

fn alerts(config: &RunConfig) -> Vec<Rule> {
    let alerts = &config.alerts;
    let shares = [
        ("alerts.bit_stall_threshold", alerts.bit_stall_threshold),
        ("alerts.overflow_threshold", alerts.overflow_threshold),
        ("alerts.underflow_threshold", alerts.underflow_threshold),
        ("alerts.code_saturation_threshold", alerts.code_saturation_threshold),
    ];
    let mut rules: Vec<Rule> = shares
        .into_iter()
        .filter_map(|(key, threshold)| {
            let limit = threshold.limit()?;
            let message = format!("`{key}` must be at least 0 and below 1, found {limit:?}");
            Some(rule(&[key], (0.0..1.0).contains(&limit), message).hint(SWITCHES_OFF))
        })
        .collect();
    let kurtosis = alerts.kurtosis_threshold.limit();
    rules.extend(kurtosis.map(|limit| positive("alerts.kurtosis_threshold", limit).hint(SWITCHES_OFF)));
    let patience = alerts.patience;
    rules.push(rule(&["alerts.patience"], patience > 0, "`alerts.patience` must be at least 1, found 0"));
    rules.push(not_negative("alerts.cooldown_s", alerts.cooldown_s));
    rules.push(not_negative("alerts.nan_cooldown_s", alerts.nan_cooldown_s));
    rules
}
