//! The cases of a benchmark: run files like any other, on random tokens.

use std::{fs, path::Path};

use altgrad_base::{
    diagnostic::Diagnostic,
    random::{self, Stream},
    scratch::Scratch,
};
use altgrad_config::DeviceChoice;

use crate::setup::ReadyRun;

/// The model and batch of a benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BenchModel {
    /// Blocks.
    pub n_layer: usize,
    /// Attention heads per block.
    pub n_head: usize,
    /// Width of the residual stream.
    pub n_embd: usize,
    /// Tokens of a sequence.
    pub block_size: usize,
    /// Sequences of a batch.
    pub batch_size: usize,
    /// Number of token ids.
    pub vocab: usize,
}

impl BenchModel {
    /// Layers, heads, width, block, batch, ids.
    #[must_use]
    pub fn numbers(self) -> [usize; 6] {
        [self.n_layer, self.n_head, self.n_embd, self.block_size, self.batch_size, self.vocab]
    }
}

/// A benchmark's configuration.
#[derive(Debug, Clone)]
pub struct BenchSpec {
    /// The model and batch.
    pub model: BenchModel,
    /// Cases: fp32, bf16, hybrid, a format or recipe:NAME, with +metrics, +shadow, +block32 or +optimizer:NAME.
    pub cases: Vec<String>,
    /// Counted steps per case.
    pub steps: u64,
    /// Uncounted steps before each case and each turn.
    pub warmup: u64,
    /// Turns between this trainer and the other one.
    pub turns: u64,
    /// The device.
    pub device: DeviceChoice,
}

/// A folder with random token ids, which is deleted when it is dropped.
pub(super) fn tokens_folder(spec: &BenchSpec) -> Result<Scratch, Diagnostic> {
    let folder = Scratch::new(None)
        .map_err(|error| Diagnostic::run(format!("cannot make a temporary folder ({error})")))?;
    write_tokens(folder.path(), spec.model)?;
    Ok(folder)
}

/// Writes random token ids as bins, a few batches of them.
fn write_tokens(folder: &Path, model: BenchModel) -> Result<(), Diagnostic> {
    let BenchModel { block_size: block, batch_size: batch, vocab, .. } = model;
    let mut generator = random::at(0, Stream::Init, 0);
    let mut write = |name: &str, len: usize| {
        let ids = (0..len).flat_map(|_| {
            let id: u16 = rand::RngExt::random_range(&mut generator, 0..vocab as u16);
            id.to_le_bytes()
        });
        fs::write(folder.join(name), ids.collect::<Vec<u8>>())
    };
    write("train.bin", 8 * batch * (block + 1))
        .and_then(|()| write("val.bin", 2 * (block + 1)))
        .and_then(|()| fs::write(folder.join("meta.json"), format!("{{\"vocab_size\": {vocab}}}")))
        .map_err(|error| Diagnostic::run(format!("cannot write tokens ({error})")).at(folder.display()))
}

/// The run of a case.
pub(super) fn build(folder: &Path, spec: &BenchSpec, case: &str) -> Result<ReadyRun, Diagnostic> {
    let mut parts = case.split('+');
    let mode = parts.next().unwrap_or_default();
    let (mut metrics, mut shadow, mut shared, mut optimizer) = (0, 0, String::new(), "adamw");
    let mut more = Vec::new();
    for part in parts {
        if let Some(name) = part.strip_prefix("optimizer:") {
            optimizer = name;
            continue;
        }
        match (part, part.strip_prefix("block").map(str::parse::<usize>)) {
            ("metrics", _) => metrics = 1,
            ("shadow", _) => shadow = 1,
            ("kurtosis", _) => more.push("kurtosis_every = 1"),
            ("no-attention", _) => more.push("attention = false"),
            ("no-dead", _) => more.push("dead_neuron_window = 0"),
            (_, Some(Ok(block))) => shared = format!("block = {block}"),
            _ => {
                return Err(Diagnostic::config(format!("unknown part `{part}` of case `{case}`")).hint(
                    "parts are +metrics, +no-attention, +no-dead, +kurtosis, +shadow, +blockN and +optimizer:NAME, as in E5M2+block32+metrics",
                ));
            }
        }
    }
    let quant = match mode {
        _ if let Some(recipe) = mode.strip_prefix("recipe:") => format!("recipe = {recipe:?}"),
        "fp32" | "bf16" => String::new(),
        "hybrid" => "weight = \"E4M3\"\nactivation = \"E4M3\"\ngrad = \"E5M2\"".into(),
        format => format!("weight = {format:?}\nactivation = {format:?}\ngrad = {format:?}"),
    };
    let precision = if mode == "bf16" { "bf16" } else { "fp32" };
    let [n_layer, n_head, n_embd, block, batch, _] = spec.model.numbers();
    // And one whose kernels are counted.
    let steps = spec.turns * (spec.warmup + spec.steps) + 1;
    let text = format!(
        "[run]\nname = \"bench\"\ndevice = \"{}\"\n[data]\ndataset = {:?}\ntokenizer = \"gpt2\"\n\
         block_size = {block}\nbatch_size = {batch}\n[model]\nn_layer = {n_layer}\nn_head = {n_head}\n\
         n_embd = {n_embd}\n[train]\nmax_steps = {steps}\nwarmup_steps = 0\nprecision = \"{precision}\"\n\
         [optimizer]\nname = {optimizer:?}\n[quant]\n{quant}\n{shared}\n[shadow]\nevery = {shadow}\n[metrics]\nevery = {metrics}\n{}\n",
        spec.device,
        format!("bins:{}", folder.display()),
        more.join("\n"),
    );
    let file = folder.join("bench.toml");
    fs::write(&file, text)
        .map_err(|error| Diagnostic::run(format!("cannot write ({error})")).at(file.display()))?;
    let built =
        altgrad_config::load(&file, &[]).and_then(|(config, source)| ReadyRun::build(config, &source));
    built.map_err(|error| of_case(error, case))
}

/// An error about the run file of a case in terms of the case: the user has not written the file.
fn of_case(error: Diagnostic, case: &str) -> Diagnostic {
    const CASES: &str = "a case is fp32, bf16, hybrid, recipe:NAME or a format, with parts such as +metrics";
    let message = error.message.replace(" at `quant.weight`", "");
    let is_unknown = ["unknown format", "there is no recipe"].iter().any(|start| message.starts_with(start));
    let hint = match error.hint {
        Some(hint) if is_unknown => Some(format!("{CASES}; {hint}")),
        hint => hint,
    };
    Diagnostic { message, place: Some(format!("--case {case}")), excerpt: None, hint, fault: error.fault }
}
