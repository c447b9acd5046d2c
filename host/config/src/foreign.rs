//! Names of other tools: keys that a run file takes for its own, keys whose refusal names ours, and names of formats.
//!
//! A key with the same meaning is renamed before anything else reads the file, with one line that names ours.
//! docs/coming-from.md has the table.

use altgrad_base::diagnostic::Diagnostic;
use toml::{Table, Value};

use super::source::{Place, Source, join};

/// A key of another tool.
struct ForeignKey {
    tool: &'static str,
    name: &'static str,
    /// The dotted key of a run file.
    native: &'static str,
    /// The difference between the values; empty if there is none: such a key is accepted in the table of the native
    /// key.
    differs: &'static str,
}

const fn same(tool: &'static str, name: &'static str, native: &'static str) -> ForeignKey {
    ForeignKey { tool, name, native, differs: "" }
}

const fn other(
    tool: &'static str,
    name: &'static str,
    native: &'static str,
    differs: &'static str,
) -> ForeignKey {
    ForeignKey { tool, name, native, differs }
}

/// Transformer Engine counts micro-batches and altgrad steps.
const HISTORY: &str = "amax_history_len";
const STEPS: &str = "in steps";

#[rustfmt::skip]
const KEYS: &[ForeignKey] = &[
    same("nanoGPT, HF Trainer", "gradient_accumulation_steps", "train.grad_accum"),
    same("nanoGPT, HF Trainer", "learning_rate", "train.lr"),
    same("nanoGPT, HF Trainer", "weight_decay", "optimizer.weight_decay"),
    same("nanoGPT", "beta1", "optimizer.beta1"),
    same("nanoGPT", "beta2", "optimizer.beta2"),
    same("nanoGPT", "max_iters", "train.max_steps"),
    same("nanoGPT", "warmup_iters", "train.warmup_steps"),
    same("nanoGPT", "lr_decay_iters", "train.decay_steps"),
    same("nanoGPT", "eval_iters", "train.eval_batches"),
    other("nanoGPT", "decay_lr", "train.schedule", "`False` is `constant`"),
    other("nanoGPT", "dtype", "train.precision", "`bfloat16` is `bf16`"),
    other("nanoGPT", "init_from", "model.init", "a safetensors file"),
    other("nanoGPT", "out_dir", "run.out", "the parent of the folder `run.name`"),
    other("nanoGPT", "log_interval", "sink.every", "of a table [[sink]]"),
    other("nanoGPT", "wandb_log", "sink.name", "a table [[sink]] with name = \"wandb\""),
    same("HF Trainer", "per_device_train_batch_size", "data.batch_size"),
    same("HF Trainer", "max_grad_norm", "train.grad_clip"),
    same("HF Trainer", "eval_steps", "train.eval_interval"),
    same("HF Trainer", "save_steps", "checkpoint.every"),
    same("HF Trainer", "save_total_limit", "checkpoint.keep_last"),
    same("HF Trainer", "adam_beta1", "optimizer.beta1"),
    same("HF Trainer", "adam_beta2", "optimizer.beta2"),
    same("HF Trainer", "adam_epsilon", "optimizer.eps"),
    same("HF models", "num_hidden_layers", "model.n_layer"),
    same("HF models", "num_attention_heads", "model.n_head"),
    same("HF models", "hidden_size", "model.n_embd"),
    same("HF models", "n_positions", "data.block_size"),
    same("HF models", "max_position_embeddings", "data.block_size"),
    other("HF models", "vocab_size", "data.tokenizer", "which sets the vocabulary"),
    other("HF Trainer", "bf16", "train.precision", "with the value `bf16`"),
    other("HF Trainer", "fp16", "quant.weight", "with the format `fp16`; `activation` and `grad` likewise"),
    other("HF Trainer", "lr_scheduler_type", "train.schedule", "`constant_with_warmup` is `constant`"),
    other("HF Trainer", "num_train_epochs", "train.max_steps", STEPS),
    other("HF Trainer", "warmup_ratio", "train.warmup_steps", STEPS),
    other("HF Trainer", "optim", "optimizer.name", "`adamw_torch` is `adamw`"),
    other("HF Trainer", "output_dir", "run.out", "the parent of the folder `run.name`"),
    other("HF Trainer", "logging_steps", "sink.every", "of a table [[sink]]"),
    other("HF Trainer", "report_to", "sink.name", "of a table [[sink]]"),
    same("Transformer Engine", HISTORY, "quant.scaling.window"),
    same("Transformer Engine", "force_pow_2_scales", "quant.scaling.pow2"),
    other("Transformer Engine", "amax_compute_algo", "quant.scaling.amax", "`delayed` takes the largest of the window"),
    other("Transformer Engine", "fp8_dpa", "quant.recipe", "with the value `te_fp8_attention`"),
    other("Transformer Engine", "fp8_format", "quant.recipe", "`te_delayed` and `te_current` are `HYBRID`"),
    other("Transformer Engine", "fp8_recipe", "quant.recipe", "`altgrad-host casts recipes` lists them"),
    same("torchao", "round_scales_to_power_of_2", "quant.scaling.pow2"),
    other("torchao", "elem_dtype", "quant.weight", "`torch.float8_e4m3fn` is `E4M3`; `activation` and `grad` likewise"),
    other("torchao", "module_filter_fn", "quant.exclude", "patterns on names of weights"),
    other("torchao", "recipe_name", "quant.recipe", "`tensorwise` is `torchao_tensorwise`"),
    other("torchao", "scaling_granularity", "quant.block", "`TENSORWISE` is `tensor`, `AXISWISE` is `row`"),
    other("torchao", "scaling_type", "quant.scaling.amax", "`DYNAMIC` is `dynamic`"),
];

/// The name here of a format that others call differently, or the name as it is.
#[must_use]
pub fn native_format(name: &str) -> &str {
    match name {
        "bf16" | "bfloat16" => "E8M7",
        "fp16" | "float16" => "E5M10",
        _ => name,
    }
}

/// Puts `block` in the place of `scaling.granularity` and `scaling.block`, which earlier versions had, in a table of
/// casts; true if it now has a block. The default `tensor` is dropped unless it `overrides` something: resolved files
/// had it beside `block`. What is no granularity stays, and so does one beside a block: both are refused as unknown.
pub fn block_for_granularity(casts: &mut Table, overrides: bool) -> bool {
    let has_block = casts.contains_key("block");
    let Some(Value::Table(scaling)) = casts.get_mut("scaling") else { return false };
    let number = scaling.get("block").map_or(Some(32), Value::as_integer);
    let block = match (scaling.get("granularity").and_then(Value::as_str), number) {
        (Some("tensor"), _) if !overrides => None,
        _ if has_block => return false,
        (Some("channel"), _) => Some("row".into()),
        (Some("block"), Some(number @ 1..)) => Some(number.into()),
        (Some(same @ ("none" | "tensor")), _) => Some(same.into()),
        _ => return false,
    };
    scaling.remove("granularity");
    if number == Some(32) || block.as_ref().is_some_and(Value::is_integer) {
        scaling.remove("block");
    }
    block.is_some_and(|block| casts.insert("block".to_owned(), block).is_none())
}

/// The keys of a run file that name formats.
const OF_FORMATS: [&str; 5] = ["weight", "activation", "grad", "format", "formats"];

/// The advice for an unknown key with a name of another tool.
pub(super) fn advice(name: &str) -> Option<String> {
    let key = KEYS.iter().find(|key| key.name == name)?;
    let separator = if key.differs.is_empty() { "" } else { ", " };
    Some(format!("`{name}` of {} is `{}`{separator}{}; ", key.tool, key.native, key.differs))
}

impl ForeignKey {
    /// The table of the native key, and its name there.
    fn place(&self) -> (&'static str, &'static str) {
        self.native.rsplit_once('.').unwrap_or(("", self.native))
    }

    /// True if a table takes the key for its own. All tables `scaling` have the same keys.
    fn is_accepted_in(&self, path: &str) -> bool {
        let (table, name) = self.place();
        let is_scaling = table.ends_with(".scaling") && path.ends_with(".scaling");
        self.differs.is_empty() && name != self.name && (path == table || is_scaling)
    }
}

/// Renames the keys and formats of other tools; returns a line for each.
///
/// # Errors
/// A file has both names of a key.
pub(super) fn translate(table: &mut Table, source: &mut Source) -> Result<Vec<String>, Diagnostic> {
    let train = table.get("train");
    let accumulated = ["grad_accum", "gradient_accumulation_steps"].iter().find_map(|key| train?.get(*key));
    let micro_batches = accumulated.and_then(Value::as_integer).unwrap_or(1).max(1);
    let mut renaming = Renaming { source, micro_batches, said: Vec::new() };
    renaming.keys(table, "")?;
    for section in ["quant", "observe"] {
        if let Some(value) = table.get_mut(section) {
            renaming.formats(section, section, value);
        }
    }
    Ok(renaming.said)
}

struct Renaming<'a> {
    source: &'a mut Source,
    /// Of a step.
    micro_batches: i64,
    said: Vec<String>,
}

impl Renaming<'_> {
    fn keys(&mut self, table: &mut Table, path: &str) -> Result<(), Diagnostic> {
        if path == "quant" || path.starts_with("quant.schedule.") {
            self.granularity(table, path);
        }
        for key in KEYS.iter().filter(|key| key.is_accepted_in(path)) {
            let Some(value) = table.remove(key.name) else { continue };
            let (from, name) = (join(path, key.name), key.place().1);
            let to = join(path, name);
            let is_set = |key: &str| matches!(self.source.places.get(key), Some(Place::Override(_)));
            // One `--set` replaces the other name's value in the file.
            match (table.contains_key(name), is_set(&from), is_set(&to)) {
                (true, false, true) => continue,
                (true, false, false) | (true, true, true) => {
                    return Err(Diagnostic::config(format!("`{from}` and `{to}` are two names of one key"))
                        .at(self.source.locate_key(&from))
                        .hint(format!("remove `{from}`")));
                }
                _ => {}
            }
            self.said.push(format!("`{from}` is `{to}` in altgrad ({})", self.source.locate_key(&from)));
            table.insert(name.to_owned(), if key.name == HISTORY { self.steps(value) } else { value });
            if let Some(place) = self.source.places.remove(&from) {
                self.source.places.insert(to, place);
            }
        }
        for (name, value) in table {
            let path = join(path, name);
            match value {
                Value::Table(table) => self.keys(table, &path)?,
                Value::Array(elements) => {
                    for (index, element) in elements.iter_mut().enumerate() {
                        if let Value::Table(table) = element {
                            self.keys(table, &join(&path, &index.to_string()))?;
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Puts `block` in the place of the granularity, and says so.
    fn granularity(&mut self, casts: &mut Table, path: &str) {
        let [from, number, to] =
            ["scaling.granularity", "scaling.block", "block"].map(|key| format!("{path}.{key}"));
        let is_set = matches!(self.source.places.get(&from), Some(Place::Override(_)));
        // Resolved entries have `none` and every default.
        let is_entry = path != "quant" && !casts.contains_key("none");
        if block_for_granularity(casts, is_set || is_entry) {
            self.said.push(format!("`{from}` is `{to}` in altgrad ({})", self.source.locate_key(&from)));
        }
        // The new key has no place: it is not refused where it has no effect, as the granularity was not.
        for (key, name) in [(from, "granularity"), (number, "block")] {
            if casts.get("scaling").is_none_or(|scaling| scaling.get(name).is_none()) {
                self.source.places.remove(&key);
            }
        }
    }

    /// Micro-batches in steps, rounded up.
    fn steps(&self, micro_batches: Value) -> Value {
        match micro_batches {
            Value::Integer(count) if count > 0 => Value::Integer((count - 1) / self.micro_batches + 1),
            other => other,
        }
    }

    fn formats(&mut self, key: &str, dotted: &str, value: &mut Value) {
        match value {
            Value::String(name) if OF_FORMATS.contains(&key) && native_format(name) != name => {
                let (native, place) = (native_format(name).to_owned(), self.source.locate(dotted));
                self.said
                    .push(format!("the format `{name}` of `{dotted}` is `{native}` in altgrad ({place})"));
                *name = native;
            }
            Value::Array(elements) => {
                for (index, element) in elements.iter_mut().enumerate() {
                    self.formats(key, &join(dotted, &index.to_string()), element);
                }
            }
            Value::Table(table) => {
                for (name, value) in table {
                    self.formats(name, &join(dotted, name), value);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fmt::Write as _;
    use std::path::Path;

    use super::*;
    use crate::cast::BlockChoice;
    use crate::load::load_text;

    /// The lines of a run file, and its error: message and the part of the hint about the key.
    fn said(text: &str) -> String {
        let (mut table, mut source) = Source::parse(Path::new("x.toml"), text.into()).unwrap();
        let mut said = translate(&mut table, &mut source).unwrap_or_else(|error| vec![error.message]);
        if let Err(error) = load_text(Path::new("x.toml"), text.into(), &[]) {
            let hint = error.hint.unwrap_or_default();
            said.push(format!("{}: {}", error.message, hint.split("; ").next().unwrap_or_default()));
        }
        said.join("; ")
    }

    /// What is written, and what is said.
    #[rustfmt::skip]
    const MESSAGES: &[(&str, &str)] = &[
        ("train.gradient_accumulation_steps = 4", "`train.gradient_accumulation_steps` is `train.grad_accum` in altgrad (x.toml:1:7)"),
        ("train.learning_rate = 1e-3", "`train.learning_rate` is `train.lr` in altgrad (x.toml:1:7)"),
        ("train.max_iters = 500", "`train.max_iters` is `train.max_steps` in altgrad (x.toml:1:7)"),
        ("train.warmup_iters = 50", "`train.warmup_iters` is `train.warmup_steps` in altgrad (x.toml:1:7)"),
        ("train.lr_decay_iters = 500", "`train.lr_decay_iters` is `train.decay_steps` in altgrad (x.toml:1:7)"),
        ("train.eval_iters = 20", "`train.eval_iters` is `train.eval_batches` in altgrad (x.toml:1:7)"),
        ("train.max_grad_norm = 1.0", "`train.max_grad_norm` is `train.grad_clip` in altgrad (x.toml:1:7)"),
        ("train.eval_steps = 100", "`train.eval_steps` is `train.eval_interval` in altgrad (x.toml:1:7)"),
        ("data.per_device_train_batch_size = 12", "`data.per_device_train_batch_size` is `data.batch_size` in altgrad (x.toml:1:6)"),
        ("optimizer.adam_beta2 = 0.95", "`optimizer.adam_beta2` is `optimizer.beta2` in altgrad (x.toml:1:11)"),
        ("model.num_hidden_layers = 4", "`model.num_hidden_layers` is `model.n_layer` in altgrad (x.toml:1:7)"),
        ("data.n_positions = 64", "`data.n_positions` is `data.block_size` in altgrad (x.toml:1:6)"),
        ("checkpoint.save_steps = 100", "`checkpoint.save_steps` is `checkpoint.every` in altgrad (x.toml:1:12)"),
        ("quant = { recipe = 'te_delayed', scaling.amax_history_len = 1024 }", "`quant.scaling.amax_history_len` is `quant.scaling.window` in altgrad (x.toml:1:42)"),
        ("quant = { recipe = 'te_block', scaling.force_pow_2_scales = true }", "`quant.scaling.force_pow_2_scales` is `quant.scaling.pow2` in altgrad (x.toml:1:40)"),
        ("quant.weight = 'bf16'", "the format `bf16` of `quant.weight` is `E8M7` in altgrad (x.toml:1:16)"),
        ("observe.formats = ['E4M3', 'fp16']", "the format `fp16` of `observe.formats.1` is `E5M10` in altgrad (x.toml:1:28)"),
        ("learning_rate = 6e-4", "unknown key `learning_rate`: `learning_rate` of nanoGPT, HF Trainer is `train.lr`"),
        ("train.weight_decay = 0.1", "unknown key `train.weight_decay`: `weight_decay` of nanoGPT, HF Trainer is `optimizer.weight_decay`"),
        ("train.per_device_train_batch_size = 12", "unknown key `train.per_device_train_batch_size`: `per_device_train_batch_size` of HF Trainer is `data.batch_size`"),
        ("dtype = 'bfloat16'", "unknown key `dtype`: `dtype` of nanoGPT is `train.precision`, `bfloat16` is `bf16`"),
        ("train.bf16 = true", "unknown key `train.bf16`: `bf16` of HF Trainer is `train.precision`, with the value `bf16`"),
        ("train.lr_scheduler_type = 'cosine'", "unknown key `train.lr_scheduler_type`: `lr_scheduler_type` of HF Trainer is `train.schedule`, `constant_with_warmup` is `constant`"),
        ("train.warmup_ratio = 0.1", "unknown key `train.warmup_ratio`: `warmup_ratio` of HF Trainer is `train.warmup_steps`, in steps"),
        ("train.save_steps = 100", "unknown key `train.save_steps`: `save_steps` of HF Trainer is `checkpoint.every`"),
        ("run.output_dir = 'out'", "unknown key `run.output_dir`: `output_dir` of HF Trainer is `run.out`, the parent of the folder `run.name`"),
        ("wandb_log = true", "unknown key `wandb_log`: `wandb_log` of nanoGPT is `sink.name`, a table [[sink]] with name = \"wandb\""),
        ("model.vocab_size = 256", "unknown key `model.vocab_size`: `vocab_size` of HF models is `data.tokenizer`, which sets the vocabulary"),
        ("quant.fp8_format = 'HYBRID'", "unknown key `quant.fp8_format`: `fp8_format` of Transformer Engine is `quant.recipe`, `te_delayed` and `te_current` are `HYBRID`"),
        ("quant.amax_history_len = 16", "unknown key `quant.amax_history_len`: `amax_history_len` of Transformer Engine is `quant.scaling.window`"),
        ("quant.scaling.amax_compute_algo = 'max'", "unknown key `quant.scaling.amax_compute_algo`: `amax_compute_algo` of Transformer Engine is `quant.scaling.amax`, `delayed` takes the largest of the window"),
        ("quant.recipe_name = 'rowwise'", "unknown key `quant.recipe_name`: `recipe_name` of torchao is `quant.recipe`, `tensorwise` is `torchao_tensorwise`"),
        ("quant = { weight = 'E4M3', scaling.granularity = 'channel' }", "`quant.scaling.granularity` is `quant.block` in altgrad (x.toml:1:36)"),
        ("quant = { weight = 'E4M3', scaling.granularity = 'chanel' }", "unknown key `quant.scaling.granularity`: its name is `quant.block` now"),
        ("quant.scaling_granularity = 'axiswise'", "unknown key `quant.scaling_granularity`: `scaling_granularity` of torchao is `quant.block`, `TENSORWISE` is `tensor`, `AXISWISE` is `row`"),
        ("quant.elem_dtype = 'float8_e4m3fn'", "unknown key `quant.elem_dtype`: `elem_dtype` of torchao is `quant.weight`, `torch.float8_e4m3fn` is `E4M3`"),
    ];

    #[test]
    fn each_key_of_another_tool_is_accepted_or_names_ours() {
        for (text, message) in MESSAGES {
            assert_eq!(said(text), *message, "{text}");
        }
    }

    #[test]
    fn the_block_of_a_granularity_is_what_it_was() {
        let block = |text: &str, set: &[&str]| {
            let set: Vec<String> = set.iter().map(|set| (*set).to_owned()).collect();
            let (config, _) = load_text(Path::new("x.toml"), format!("[quant]\n{text}"), &set).unwrap();
            (config.quant.block, config.quant.schedule.first().map(|phase| phase.quant.block))
        };
        let (row, tensor) = (Some(BlockChoice::Row), Some(BlockChoice::Tensor));
        let along = |count| Some(BlockChoice::Along(count));
        // A resolved file has both keys, also beside a block and where nothing is rounded.
        let defaults = "scaling = { granularity = 'tensor', block = 32 }";
        assert_eq!(block(defaults, &[]), (None, None));
        assert_eq!(block(&format!("weight = 'E4M3'\nblock = 16\n{defaults}"), &[]), (along(16), None));
        assert_eq!(block("scaling = { granularity = 'channel', block = 32 }", &[]), (row, None));
        let blocks = "weight = 'E4M3'\nscaling.granularity = 'block'";
        assert_eq!(block(blocks, &[]), (along(32), None));
        assert_eq!(block(&format!("{blocks}\nscaling.block = 8"), &[]), (along(8), None));
        assert_eq!(block(blocks, &["quant.scaling.granularity=tensor"]), (tensor, None));
        for (own, expected) in [("", tensor), ("none = true\n", None)] {
            let entry =
                format!("[[quant.schedule]]\nat = 4\nweight = 'E5M2'\n{own}scaling.granularity = 'tensor'");
            assert_eq!(block(&format!("{blocks}\n{entry}"), &[]), (along(32), Some(expected)), "{own}");
        }
    }

    #[test]
    fn the_value_of_an_alias_is_that_of_the_key() {
        let read = |text: &str, set: &[&str]| {
            let set: Vec<String> = set.iter().map(|set| (*set).to_owned()).collect();
            load_text(Path::new("x.toml"), text.into(), &set)
        };
        let (config, source) = read("[train]\nlearning_rate = 2e-3", &[]).unwrap();
        assert_eq!((config.train.lr, source.locate("train.lr").as_str()), (2e-3, "x.toml:2:17"));
        // `--set` replaces the file's value, whichever name either has.
        for (text, set) in [("lr = 1e-4", "learning_rate"), ("learning_rate = 1e-4", "lr")] {
            let (config, _) = read(&format!("[train]\n{text}"), &[&format!("train.{set}=3e-3")]).unwrap();
            assert_eq!(config.train.lr, 3e-3, "{text}");
        }
        let error = read("[train]\nlr = 1\nlearning_rate = 1", &[]).unwrap_err();
        assert_eq!(error.message, "`train.learning_rate` and `train.lr` are two names of one key");
        // Micro-batches of other tools are steps here.
        let text = "train.grad_accum = 5\n[quant]\nrecipe = 'te_delayed'\nscaling.amax_history_len = 1024";
        assert_eq!(read(text, &[]).unwrap().0.quant.scaling.window, 205);
        let text = "[[quant.layer]]\nmatch = '*'\ngrad = 'fp16'\ncast.weight.format = 'bfloat16'";
        let (config, _) = read(text, &["quant.weight=bf16"]).unwrap();
        assert_eq!(config.quant.weight.as_deref(), Some("E8M7"));
        assert_eq!(config.quant.layer[0].grad.as_deref(), Some("E5M10"));
        let weight = config.quant.layer[0].cast.of(altgrad_metrics::Role::Weight).unwrap();
        assert_eq!(weight.format.as_deref(), Some("E8M7"));
    }

    #[test]
    fn the_page_for_users_of_other_tools_lists_the_keys() {
        let page = include_str!("../../../docs/coming-from.md");
        let mut rows = String::new();
        for key in KEYS {
            let accepted = if key.differs.is_empty() { "accepted in that table" } else { key.differs };
            let _ = writeln!(rows, "| {} | `{}` | `{}` | {accepted} |", key.tool, key.name, key.native);
        }
        assert!(page.contains(&rows), "docs/coming-from.md must have these rows:\n{rows}");
    }
}
