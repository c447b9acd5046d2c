//! Token bins in nanoGPT's layout: `train.bin`, `val.bin`, and a `meta.json` that may say the vocabulary.

use std::{fs, path::Path};

use serde::Deserialize;

use super::{Corpus, Tokens, tokenizer::Tokenizer};
use crate::{config::TokenizerChoice, diagnostic::Diagnostic};

/// GPT-2's vocabulary: what bins without `meta.json` are taken to use.
const GPT2_VOCAB: usize = 50257;

/// What is read of `meta.json`; other keys are for people.
#[derive(Deserialize)]
struct Meta {
    vocab_size: usize,
}

/// Maps the bins of a folder.
///
/// # Errors
/// A file is missing or broken, or holds ids beyond the vocabulary.
pub(super) fn open(folder: &Path, tokenizer: TokenizerChoice) -> Result<Corpus, Diagnostic> {
    let (train, val) = (Tokens::map(&folder.join("train.bin"))?, Tokens::map(&folder.join("val.bin"))?);
    let vocab = match meta(folder)? {
        Some(meta) => meta.vocab_size,
        None if tokenizer == TokenizerChoice::Byte => 256,
        None => GPT2_VOCAB,
    };
    for (name, tokens) in [("train.bin", &train), ("val.bin", &val)] {
        if let Some(max) = tokens.max().filter(|max| usize::from(*max) >= vocab) {
            return Err(Diagnostic::config(format!("token id {max} is beyond the vocabulary of {vocab}"))
                .at(folder.join(name).display())
                .hint("set vocab_size in the folder's meta.json, or data.tokenizer to the one the bins were made with"));
        }
    }
    let description = format!("token bins in {}", folder.display());
    Ok(Corpus { train, val, tokenizer: Tokenizer::External(vocab), description })
}

fn meta(folder: &Path) -> Result<Option<Meta>, Diagnostic> {
    let path = folder.join("meta.json");
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Diagnostic::config(format!("cannot be read ({error})")).at(path.display())),
    };
    serde_json::from_str(&text).map(Some).map_err(|error| {
        Diagnostic::config(format!("not a description of token bins ({error})"))
            .at(path.display())
            .hint("it needs a whole number \"vocab_size\"")
    })
}
