//! The cases of a benchmark: run files like any other, on random tokens.

use std::{fs, path::Path};

use super::BenchArgs;
use crate::{
    config,
    diagnostic::Diagnostic,
    plan::Plan,
    random::{self, Stream},
};

/// Random token ids as bins, a few batches of them.
pub(super) fn write_tokens(folder: &Path, [.., block, batch, vocab]: [usize; 6]) -> Result<(), Diagnostic> {
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

/// The plan of a case: a run file like any other.
pub(super) fn plan(folder: &Path, args: &BenchArgs, case: &str) -> Result<Plan, Diagnostic> {
    let mut parts = case.split('+');
    let mode = parts.next().unwrap_or_default();
    let (mut metrics, mut shadow) = (0, 0);
    for part in parts {
        match part {
            "metrics" => metrics = 1,
            "shadow" => shadow = 1,
            _ => {
                return Err(Diagnostic::config(format!("unknown part `{part}` of case `{case}`"))
                    .hint("parts are +metrics and +shadow, as in E5M2+metrics+shadow"));
            }
        }
    }
    let quant = match mode {
        "fp32" | "bf16" => String::new(),
        "hybrid" => "weight = \"E4M3\"\nactivation = \"E4M3\"\ngrad = \"E5M2\"".into(),
        format => format!("weight = {format:?}\nactivation = {format:?}\ngrad = {format:?}"),
    };
    let precision = if mode == "bf16" { "bf16" } else { "fp32" };
    let [n_layer, n_head, n_embd, block, batch, _] = args.numbers();
    let steps = args.turns * (args.warmup + args.steps);
    let text = format!(
        "[run]\nname = \"bench\"\ndevice = \"{}\"\n[data]\ndataset = {:?}\ntokenizer = \"gpt2\"\n\
         block_size = {block}\nbatch_size = {batch}\n[model]\nn_layer = {n_layer}\nn_head = {n_head}\n\
         n_embd = {n_embd}\n[train]\nmax_steps = {steps}\nwarmup_steps = 0\nprecision = \"{precision}\"\n\
         [quant]\n{quant}\n[shadow]\nevery = {shadow}\n[metrics]\nevery = {metrics}\n",
        args.device,
        format!("bins:{}", folder.display()),
    );
    let file = folder.join("bench.toml");
    fs::write(&file, text)
        .map_err(|error| Diagnostic::run(format!("cannot write ({error})")).at(file.display()))?;
    let (config, source) = config::load(&file, &[])?;
    Plan::new(config, &source)
}
