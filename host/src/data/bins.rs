//! Token bins in nanoGPT's layout: `train.bin`, `val.bin`, and a `meta.json` that may say the vocabulary.

use std::{fs, path::Path};

use serde::Deserialize;

use super::{Corpus, Tokens, tokenizer::Tokenizer};
use crate::{config::TokenizerChoice, diagnostic::Diagnostic};

/// GPT-2's vocabulary: what bins without `meta.json` are taken to use.
const GPT2_VOCAB: usize = 50257;

/// The bins' description.
const META: &str = "meta.json";

/// What is read of `meta.json`; other keys are for people.
#[derive(Deserialize)]
struct Meta {
    vocab_size: u64,
}

/// Maps the bins of a folder.
///
/// # Errors
/// A file is missing or broken, or holds ids beyond the vocabulary.
pub(super) fn open(folder: &Path, tokenizer: TokenizerChoice) -> Result<Corpus, Diagnostic> {
    let (train, val) = (Tokens::map(&folder.join("train.bin"))?, Tokens::map(&folder.join("val.bin"))?);
    let vocab = match meta(folder)? {
        Some(meta) if (1..=1 << 16).contains(&meta.vocab_size) => meta.vocab_size as usize,
        Some(meta) => {
            let message = format!("vocab_size must be from 1 to 65536, is {}", meta.vocab_size);
            return Err(Diagnostic::config(message)
                .at(folder.join(META).display())
                .hint("token ids are 16-bit; write the number of ids the tokenizer has"));
        }
        None => match tokenizer {
            TokenizerChoice::Byte => 256,
            TokenizerChoice::Gpt2 => GPT2_VOCAB,
            TokenizerChoice::Char => {
                return Err(Diagnostic::config("bins of characters need a meta.json that says vocab_size")
                    .at(folder.join(META).display())
                    .hint("write {\"vocab_size\": N} into it, N the number of characters"));
            }
        },
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
    let path = folder.join(META);
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
