//! Token bins in nanoGPT's layout: `train.bin`, `val.bin`, and a `meta.json` that describes them.

use std::path::Path;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_config::{DataSection, TokenizerChoice};

use super::{
    corpus::Corpus,
    meta::{self, Meta},
    tokenizer::Tokenizer,
    tokens::Tokens,
};

/// Maps the bins of a folder.
///
/// # Errors
/// A file is missing or broken, differs from `meta.json` or the run file, or holds ids beyond the vocabulary.
pub(super) fn open(folder: &Path, section: &DataSection) -> Result<Corpus, Diagnostic> {
    let map = |split: &str| Tokens::map(&folder.join(format!("{split}.bin")));
    let (train, val) = (map("train")?, map("val")?);
    let meta = Meta::read(folder)?;
    let alphabet = section.alphabet.as_deref().map(Tokenizer::chars_of);
    let tokenizer = match &meta {
        Some(meta) => asked(meta.tokenizer()?, section.tokenizer)
            .map_err(|error| error.at(folder.join(meta::FILE).display()))?,
        None => match section.tokenizer {
            TokenizerChoice::Byte => Tokenizer::Byte,
            TokenizerChoice::Gpt2 => Tokenizer::Gpt2,
            TokenizerChoice::Char if alphabet.is_some() => {
                Tokenizer::External(alphabet.as_ref().map_or(0, Tokenizer::vocab))
            }
            TokenizerChoice::Char => {
                return Err(Diagnostic::config("bins of characters need a meta.json that says vocab_size")
                    .at(folder.join(meta::FILE).display())
                    .hint("write {\"vocab_size\": N} into it, N the number of characters"));
            }
        },
    };
    let tokenizer =
        agreed(tokenizer, alphabet).map_err(|error| error.at(folder.join(meta::FILE).display()))?;
    let vocab = tokenizer.vocab();
    for (split, tokens) in [("train", &train), ("val", &val)] {
        let place = folder.join(format!("{split}.bin"));
        if let Some(meta) = &meta {
            meta.check(split, tokens.len() as u64).map_err(|error| error.at(place.display()))?;
        }
        if let Some(max) = tokens.max().filter(|max| usize::from(*max) >= vocab) {
            return Err(Diagnostic::config(format!("token id {max} is beyond the vocabulary of {vocab}"))
                .at(place.display())
                .hint("set vocab_size in the folder's meta.json, or data.tokenizer to the one the bins were made with"));
        }
    }
    let description = format!("token bins in {}", folder.display());
    Ok(Corpus { train, val, tokenizer, description })
}

/// The bins' tokenizer, unless the run file selects another; the default selects none.
fn asked(bins: Tokenizer, choice: TokenizerChoice) -> Result<Tokenizer, Diagnostic> {
    let other = bins.choice().filter(|found| *found != choice);
    if let Some(found) = other.filter(|_| choice != DataSection::default().tokenizer) {
        let message =
            format!("the bins were made with tokenizer \"{found}\", `data.tokenizer` says \"{choice}\"");
        return Err(Diagnostic::config(message).hint("remove `data.tokenizer`, or prepare the data again"));
    }
    Ok(bins)
}

/// The bins' tokenizer, given the alphabet of the run file, if it has one.
fn agreed(bins: Tokenizer, alphabet: Option<Tokenizer>) -> Result<Tokenizer, Diagnostic> {
    let Some(alphabet) = alphabet else { return Ok(bins) };
    let same = match &bins {
        Tokenizer::External(vocab) => *vocab == alphabet.vocab(),
        bins => *bins == alphabet,
    };
    if same {
        return Ok(alphabet);
    }
    let (vocab, characters) = (bins.vocab(), alphabet.vocab());
    let message =
        format!("the bins have {vocab} ids, data.alphabet has {characters} characters, and they differ");
    Err(Diagnostic::config(message).hint("give the alphabet that the bins were made with, or none"))
}
