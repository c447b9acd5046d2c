//! Opening what `[data]` names: the generated default, token bins, or a text file.

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
    let acts = altgrad_lawgen::corpus(LAWGEN_SEED, altgrad_lawgen::MIN_BYTES);
    let (mut train, mut val) = (String::new(), String::new());
    for (index, act) in acts.iter().enumerate() {
        let split = if index % LAWGEN_HELD_OUT == LAWGEN_HELD_OUT - 1 { &mut val } else { &mut train };
        split.push_str(&act.text);
        split.push('\n');
    }
    let tokenizer = Tokenizer::named(section, || format!("{train}{val}"));
    let description = format!("lawgen: {} generated legal acts", acts.len());
    Ok(Corpus {
        train: Tokens::Memory(tokenizer.encode(&train)?),
        val: Tokens::Memory(tokenizer.encode(&val)?),
        tokenizer,
        description,
    })
}

/// A text file, its first nine tenths to train on: by characters or bytes, as nanoGPT cuts.
fn text(path: &Path, section: &DataSection) -> Result<Corpus, Diagnostic> {
    let bytes = files::read(path).map_err(|error| {
        Diagnostic::config(format!("cannot read the text file ({error})"))
            .at(path.display())
            .hint("`text:FILE` is relative to the working directory")
    })?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid_up_to = error.utf8_error().valid_up_to();
        Diagnostic::config(format!("the text file is not UTF-8 (byte {valid_up_to})"))
            .at(path.display())
            .hint("convert it to UTF-8, or make token bins of it and use `bins:DIR`")
    })?;
    let tokenizer = Tokenizer::named(section, || text.clone());
    let mut ids = tokenizer.encode(&text).map_err(|error| error.at(path.display()))?;
    // nanoGPT's int(n * 0.9), in whole numbers.
    let val = ids.split_off(ids.len() * 9 / 10);
    let description = path.display().to_string();
    Ok(Corpus { train: Tokens::Memory(ids), val: Tokens::Memory(val), tokenizer, description })
}
