//! Token bins in nanoGPT's layout: `train.bin`, `val.bin`, and a `meta.json` that may say the vocabulary.

use std::path::Path;

use serde::Deserialize;

use super::{Corpus, Tokens, tokenizer::Tokenizer};
use crate::{
    config::{DataSection, TokenizerChoice},
    diagnostic::Diagnostic,
    files,
};

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
pub(super) fn open(folder: &Path, section: &DataSection) -> Result<Corpus, Diagnostic> {
    let (train, val) = (Tokens::map(&folder.join("train.bin"))?, Tokens::map(&folder.join("val.bin"))?);
    let alphabet = section.alphabet.as_deref().map(Tokenizer::chars_of);
    let vocab = match meta(folder)? {
        Some(meta) if (1..=1 << 16).contains(&meta.vocab_size) => meta.vocab_size as usize,
        Some(meta) => {
            let message = format!("vocab_size must be from 1 to 65536, is {}", meta.vocab_size);
            return Err(Diagnostic::config(message)
                .at(folder.join(META).display())
                .hint("token ids are 16-bit; write the number of ids the tokenizer has"));
        }
        None => match section.tokenizer {
            TokenizerChoice::Byte => 256,
            TokenizerChoice::Gpt2 => GPT2_VOCAB,
            TokenizerChoice::Char if alphabet.is_some() => alphabet.as_ref().map_or(0, Tokenizer::vocab),
            TokenizerChoice::Char => {
                return Err(Diagnostic::config("bins of characters need a meta.json that says vocab_size")
                    .at(folder.join(META).display())
                    .hint("write {\"vocab_size\": N} into it, N the number of characters"));
            }
        },
    };
    if let Some(characters) =
        alphabet.as_ref().map(Tokenizer::vocab).filter(|characters| *characters != vocab)
    {
        let message = format!("vocab_size is {vocab}, but data.alphabet has {characters} characters");
        return Err(Diagnostic::config(message)
            .at(folder.join(META).display())
            .hint("give the alphabet that the bins were made with, or none"));
    }
    for (name, tokens) in [("train.bin", &train), ("val.bin", &val)] {
        if let Some(max) = tokens.max().filter(|max| usize::from(*max) >= vocab) {
            return Err(Diagnostic::config(format!("token id {max} is beyond the vocabulary of {vocab}"))
                .at(folder.join(name).display())
                .hint("set vocab_size in the folder's meta.json, or data.tokenizer to the one the bins were made with"));
        }
    }
    let description = format!("token bins in {}", folder.display());
    let tokenizer = alphabet.unwrap_or(Tokenizer::External(vocab));
    Ok(Corpus { train, val, tokenizer, description })
}

fn meta(folder: &Path) -> Result<Option<Meta>, Diagnostic> {
    let path = folder.join(META);
    let text = match files::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Diagnostic::config(format!("cannot be read ({error})")).at(path.display())),
    };
    serde_json::from_slice(&text).map(Some).map_err(|error| {
        Diagnostic::config(format!("not a description of token bins ({error})"))
            .at(path.display())
            .hint("it needs a whole number \"vocab_size\"")
    })
}
