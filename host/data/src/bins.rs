//! Token bins: `train.bin`, `val.bin`, and a `meta.json` or nanoGPT's `meta.pkl` that describes them.

use std::path::Path;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_config::{DataSection, TokenizerChoice};

use super::{
    corpus::Corpus,
    gpt2,
    meta::{self, Meta},
    tokenizer::Tokenizer,
    tokens::Tokens,
};

/// Opens the bins of a folder.
///
/// # Errors
/// A file is missing or broken, differs from its description or the run file, or holds ids beyond the vocabulary.
pub(super) fn open(folder: &Path, section: &DataSection) -> Result<Corpus, Diagnostic> {
    let described = |error: Diagnostic| error.at(folder.join(meta::FILE).display());
    let meta = Meta::read(folder)?;
    let open = |split: &str| {
        Tokens::open(&folder.join(format!("{split}.bin")), meta.as_ref().and_then(|meta| meta.dtype))
    };
    let (train, val) = (open("train")?, open("val")?);
    let alphabet = section.alphabet.as_deref().map(|alphabet| Tokenizer::Char(alphabet.chars().collect()));
    let tokenizer = match &meta {
        Some(meta) => asked(meta.tokenizer()?, section.tokenizer),
        None => undescribed(section.tokenizer, alphabet.as_ref()),
    };
    let tokenizer = tokenizer.and_then(|tokenizer| agreed(tokenizer, alphabet)).map_err(described)?;
    let vocab = tokenizer.vocab();
    for (split, tokens) in [("train", &train), ("val", &val)] {
        let place = folder.join(format!("{split}.bin"));
        if let Some(meta) = &meta {
            meta.check(split, tokens.len() as u64).map_err(|error| error.at(place.display()))?;
        }
        if let Some(max) = tokens.max()?.filter(|max| usize::from(*max) >= vocab) {
            return Err(Diagnostic::config(format!("token id {max} is beyond the vocabulary of {vocab}"))
                .at(place.display())
                .hint(beyond(meta.as_ref(), section.tokenizer, max)));
        }
    }
    let description = format!("token bins in {}", folder.display());
    Ok(Corpus { train, val, tokenizer, description })
}

/// What to do about an id beyond the vocabulary.
fn beyond(meta: Option<&Meta>, choice: TokenizerChoice, id: u16) -> String {
    match meta {
        Some(meta) if meta.tokenizer.is_none() => {
            format!("set \"vocab_size\" in the folder's meta.json to the tokenizer's number of ids, above {id}")
        }
        Some(_) => "the bins were not made with the tokenizer of their description: make them again".into(),
        None if choice == TokenizerChoice::Byte && usize::from(id) < gpt2::VOCAB => {
            "set data.tokenizer = \"gpt2\" if the ids are GPT-2's, else write {\"vocab_size\": N} into the folder's meta.json".into()
        }
        None => "write {\"vocab_size\": N} into the folder's meta.json, N the tokenizer's number of ids".into(),
    }
}

/// The tokenizer of bins without a description.
fn undescribed(choice: TokenizerChoice, alphabet: Option<&Tokenizer>) -> Result<Tokenizer, Diagnostic> {
    match choice {
        TokenizerChoice::Byte => Ok(Tokenizer::Byte),
        TokenizerChoice::Gpt2 => Ok(Tokenizer::Gpt2),
        TokenizerChoice::Char if alphabet.is_some() => {
            Ok(Tokenizer::External(alphabet.map_or(0, Tokenizer::vocab)))
        }
        TokenizerChoice::Char | TokenizerChoice::Ids => {
            Err(Diagnostic::config("the bins need a meta.json that says how many ids there are")
                .hint("write {\"vocab_size\": N} into it, N the tokenizer's number of ids"))
        }
    }
}

/// The bins' tokenizer, unless the run file selects another; the default selects none, nor does `ids`.
fn asked(bins: Tokenizer, choice: TokenizerChoice) -> Result<Tokenizer, Diagnostic> {
    let (found, free) = (bins.choice(), [DataSection::default().tokenizer, TokenizerChoice::Ids]);
    if found == choice || found == TokenizerChoice::Ids || free.contains(&choice) {
        return Ok(bins);
    }
    let message =
        format!("the bins were made with tokenizer \"{found}\", `data.tokenizer` says \"{choice}\"");
    Err(Diagnostic::config(message).hint("remove `data.tokenizer`, or prepare the data again"))
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
    Err(Diagnostic::config(message).hint("remove `data.alphabet`, or give the characters that the bins were made with, in the order of their ids"))
}
