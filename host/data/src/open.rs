//! Opening the data of `[data]`: the generated default, token bins, or a text file.

use std::path::Path;

use altgrad_base::{diagnostic::Diagnostic, files};
use altgrad_config::{DataSection, DatasetChoice};

use super::{bins, corpus::Corpus, tokenizer::Tokenizer, tokens::Tokens};

/// The corpus `lawgen` is the same for every run: the run's seed must not change the data.
const LAWGEN_SEED: u64 = 2024;
/// Every tenth generated act is held out.
const LAWGEN_HELD_OUT: usize = 10;

impl Corpus {
    /// Opens the corpus and checks that every split holds at least one window of `block_size + 1` tokens.
    ///
    /// # Errors
    /// [`Fault::Config`](altgrad_base::diagnostic::Fault::Config): a file is missing, empty, broken, or too short.
    pub fn open(section: &DataSection) -> Result<Self, Diagnostic> {
        let corpus = match &section.dataset {
            DatasetChoice::Lawgen => generated(section)?,
            DatasetChoice::Bins(folder) => bins::open(folder, section)?,
            DatasetChoice::Text(file) => text(file, section)?,
        };
        corpus.check(section)?;
        Ok(corpus)
    }
}

fn generated(section: &DataSection) -> Result<Corpus, Diagnostic> {
    let acts = altgrad_synthetic_corpus::corpus(LAWGEN_SEED, altgrad_synthetic_corpus::MIN_BYTES);
    let (mut train, mut val) = (String::new(), String::new());
    for (index, act) in acts.iter().enumerate() {
        let split = if index % LAWGEN_HELD_OUT == LAWGEN_HELD_OUT - 1 { &mut val } else { &mut train };
        split.push_str(&act.text);
        split.push('\n');
    }
    let tokenizer = Tokenizer::named(section, || format!("{train}{val}"))?;
    let description = format!("lawgen: {} generated legal acts", acts.len());
    Ok(Corpus {
        train: Tokens::Memory(tokenizer.encode(&train)?),
        val: Tokens::Memory(tokenizer.encode(&val)?),
        tokenizer,
        description,
    })
}

/// A text file, cut as `data prepare text` cuts it, and tokenized in two parts.
fn text(path: &Path, section: &DataSection) -> Result<Corpus, Diagnostic> {
    let bytes = files::read(path).map_err(|error| {
        Diagnostic::config(format!("cannot read the text file ({error})"))
            .at(path.display())
            .hint("a relative path starts at the run file's folder, with `--set` at the working directory")
    })?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid_up_to = error.utf8_error().valid_up_to();
        Diagnostic::config(format!("the text file is not UTF-8 (byte {valid_up_to})"))
            .at(path.display())
            .hint("convert it to UTF-8, or make token bins of it and use `bins:DIR`")
    })?;
    let (train, val) = text.split_at(text.ceil_char_boundary(nine_tenths(text.len() as u64) as usize));
    // A mark of the encoding, not of the text.
    let train = train.strip_prefix('\u{feff}').unwrap_or(train);
    let tokenizer = Tokenizer::named(section, || format!("{train}{val}"))?;
    let encode = |text| tokenizer.encode(text).map_err(|error| error.at(path.display()));
    let (train, val) = (Tokens::Memory(encode(train)?), Tokens::Memory(encode(val)?));
    let description = path.display().to_string();
    Ok(Corpus { train, val, tokenizer, description })
}

/// The byte at which a text of so many bytes is split: nine tenths, or the end of the character that lies across that
/// byte. The part before it is the training split. If all characters have one byte, nanoGPT splits at the same byte.
pub(crate) fn nine_tenths(bytes: u64) -> u64 {
    // bytes * 9 / 10 without overflow.
    bytes / 10 * 9 + bytes % 10 * 9 / 10
}
