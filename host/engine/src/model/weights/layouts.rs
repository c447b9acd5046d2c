//! Layouts of a GPT's weights in other programs: names, orientation, and additional entries besides weights.
//!
//! nanoGPT (PyTorch) keeps a linear weight `[out, in]`, GPT-2 (Conv1D, as Hugging Face publishes it) `[in, out]`. A
//! projection can be square, so the layout of the file is detected from the one weight that never is,
//! `attn.c_attn.weight`.

use std::collections::BTreeMap;

use altgrad_base::diagnostic::Diagnostic;
use safetensors::{SafeTensors, tensor::TensorView};

/// The layout of a weights file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Convention {
    /// nanoGPT's, and this program's own: linear weights `[out, in]`.
    NanoGpt,
    /// GPT-2's at Hugging Face: linear weights `[in, out]`, always with biases.
    Gpt2,
}

/// The name of the token embedding, which every file has: what precedes it there precedes all names.
const EMBEDDING: &str = "wte.weight";
/// The last part of the prefix in nanoGPT and GPT-2. An untied head lacks it.
const MODEL: &str = "transformer.";
/// Prefixes of single names: torch.compile, data-parallel training, the model.
const PREFIXES: [&str; 3] = ["_orig_mod.", "module.", MODEL];

/// A tensor of a file: its key there, and its content.
pub(super) type Entry<'a> = (&'a str, TensorView<'a>);

/// The tensors of a file by the parameters' own names.
pub(super) struct Entries<'a>(BTreeMap<&'a str, Entry<'a>>);

impl<'a> Entries<'a> {
    /// Scans a file.
    ///
    /// # Errors
    /// Two keys denote the same parameter, or the file has two models.
    pub(super) fn new(file: &'a SafeTensors<'_>) -> Result<Self, Diagnostic> {
        let mut entries = BTreeMap::new();
        let prefix = prefix(file)?;
        for (key, view) in file.iter() {
            let name = bare(key, &prefix);
            if let Some((other, _)) = entries.insert(name, (key, view)) {
                let (first, second) = (key.min(other), key.max(other));
                let message = format!("`{first}` and `{second}` both denote `{name}`");
                return Err(Diagnostic::config(message).hint("keep one of them"));
            }
        }
        Ok(Self(entries))
    }

    /// The tensor of that name.
    pub(super) fn get(&self, name: &str) -> Option<&Entry<'a>> {
        self.0.get(name)
    }

    /// Removes and returns the same tensor.
    pub(super) fn take(&mut self, name: &str) -> Option<Entry<'a>> {
        self.0.remove(name)
    }

    /// The remaining entries, by name.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'a str, &Entry<'a>)> {
        self.0.iter().map(|(name, entry)| (*name, entry))
    }

    /// The layout of the file; nanoGPT's by default.
    pub(super) fn convention(&self) -> Convention {
        let shape = self
            .iter()
            .find_map(|(name, (_, view))| name.ends_with(".attn.c_attn.weight").then(|| view.shape()));
        match shape {
            Some(&[inputs, outputs]) if inputs.checked_mul(3) == Some(outputs) => Convention::Gpt2,
            _ => Convention::NanoGpt,
        }
    }

    /// Number of blocks in the names: one more than the largest in `h.N.`, if the file has that many tensors.
    pub(super) fn blocks(&self) -> usize {
        let number = |name: &str| name.strip_prefix("h.")?.split('.').next()?.parse::<usize>().ok();
        let last = self.iter().filter_map(|(name, _)| number(name)).max();
        last.map_or(0, |last| last.saturating_add(1).min(self.0.len()))
    }
}

/// What precedes the names of the parameters of a file, such as `model.transformer.` or
/// `module._orig_mod.transformer.`: what precedes its token embedding.
fn prefix(file: &SafeTensors<'_>) -> Result<String, Diagnostic> {
    let of = |key: &str| {
        let prefix = key.strip_suffix(EMBEDDING)?;
        (prefix.is_empty() || prefix.ends_with('.')).then(|| prefix.to_owned())
    };
    let mut found: Vec<String> = file.iter().filter_map(|(key, _)| of(key)).collect();
    found.sort();
    match found.as_slice() {
        [] => Ok(MODEL.to_owned()),
        [only] => Ok(only.clone()),
        // Known prefixes of the same name are told apart by the caller.
        [first, second, ..]
            if PREFIXES.iter().fold(second.as_str(), strip)
                == PREFIXES.iter().fold(first.as_str(), strip) =>
        {
            Ok(first.clone())
        }
        [first, second, ..] => {
            let message = format!("the file has two models: `{first}{EMBEDDING}` and `{second}{EMBEDDING}`");
            Err(Diagnostic::config(message).hint("save the tensors of one of them in a file of their own"))
        }
    }
}

fn strip<'k>(key: &'k str, prefix: &&str) -> &'k str {
    key.strip_prefix(prefix).unwrap_or(key)
}

/// A key without the prefix of its file; the head has it without the last part.
fn bare<'k>(key: &'k str, prefix: &str) -> &'k str {
    let own = key.strip_prefix(prefix).or_else(|| key.strip_prefix(prefix.strip_suffix(MODEL)?));
    PREFIXES.iter().fold(own.unwrap_or(key), strip)
}

/// True if GPT-2 stores this parameter transposed.
pub(super) fn is_transposed(name: &str) -> bool {
    [".c_attn.weight", ".c_proj.weight", ".c_fc.weight"].iter().any(|end| name.ends_with(end))
}

/// True for the causal masks that GPT-2's attention stores beside its weights.
pub(super) fn is_mask(name: &str) -> bool {
    name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias")
}

/// The transpose of a row-major `[rows, columns]`.
pub(super) fn transposed(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    let mut turned = Vec::with_capacity(values.len());
    for column in 0..columns {
        turned.extend((0..rows).map(|row| values[row * columns + column]));
    }
    turned
}
