//! The description beside token bins, `meta.json`: their kind, origin and required content.
//!
//! `data prepare` writes all of it. Bins made elsewhere may have a file with `vocab_size` only, or nanoGPT's
//! `meta.pkl`.

use std::{collections::BTreeMap, path::Path};

use altgrad_base::{diagnostic::Diagnostic, files};
use altgrad_config::TokenizerChoice;
use serde::{Deserialize, Serialize};

use super::{bin_layout::IdType, pickle, tokenizer::Tokenizer};
/// Its name.
pub const FILE: &str = "meta.json";
/// The name of nanoGPT's description, which is read if there is no other.
const PICKLED: &str = "meta.pkl";

/// The description; keys that are not known are for people.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// Number of ids.
    pub vocab_size: u64,
    /// The program that made the bins: `altgrad-host 0.1.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_by: Option<String>,
    /// The source text, its split and its tokenizer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipe: Option<Recipe>,
    /// The tokenizer's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<TokenizerChoice>,
    /// Of the `char` tokenizer: its characters, in the order of their ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub characters: Option<String>,
    /// The type of the ids of bins made elsewhere. Default: 16 bits, unless a header of the bins names another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtype: Option<IdType>,
    /// The ids that follow every document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub separator: Vec<u16>,
    /// The rule that assigned documents to splits, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split_rule: Option<String>,
    /// The owner of the text, and the terms of its licence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub licence: Option<String>,
    /// The bins by split.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub splits: BTreeMap<String, SplitBin>,
    /// Records that were left out, by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub skipped: BTreeMap<String, u64>,
}

/// Input and options: equal recipes give equal bins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recipe {
    /// Version of the preparation; raised when the same input results in other bins.
    pub version: u32,
    /// The data set's name.
    pub dataset: String,
    /// The selected language, if there are several.
    pub language: Option<String>,
    /// True if documents begin with their titles.
    pub title: bool,
    /// The tokenizer.
    pub tokenizer: TokenizerChoice,
    /// `own` or `hash`.
    pub split: String,
    /// The share held out if documents are assigned by hash.
    pub val_fraction: f64,
    /// The input.
    pub source: DataSource,
}

/// The input of a preparation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DataSource {
    /// File or folder name, without the folders above it.
    pub name: String,
    /// Number of files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// SHA-256 of the file; of a folder, of the lines `sha256  name` of its files in order.
    pub sha256: String,
}

/// One bin.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SplitBin {
    /// Documents.
    pub documents: u64,
    /// Token ids in the bin, separators included.
    pub tokens: u64,
    /// UTF-8 bytes of the documents' text, without separators.
    pub text_bytes: u64,
    /// SHA-256 of the bin.
    pub sha256: String,
    /// Documents by length in tokens, separator not counted: element `i` counts lengths from `2^i` to below `2^(i+1)`;
    /// element 0 counts 0 and 1.
    pub lengths: Vec<u64>,
}

impl SplitBin {
    /// Counts a document of so many tokens.
    pub fn count(&mut self, tokens: u64) {
        let bucket = tokens.max(1).ilog2() as usize;
        if self.lengths.len() <= bucket {
            self.lengths.resize(bucket + 1, 0);
        }
        self.lengths[bucket] += 1;
        self.documents += 1;
    }
}

impl Meta {
    /// Reads a folder's; `None` if it has none.
    ///
    /// # Errors
    /// The file cannot be read or parsed, or contradicts itself.
    pub fn read(folder: &Path) -> Result<Option<Self>, Diagnostic> {
        type Parser = fn(&[u8]) -> Result<Meta, Diagnostic>;
        let readers: [(&str, Parser); 2] = [(FILE, Self::of_json), (PICKLED, Self::of_pickle)];
        for (name, parse) in readers {
            let path = folder.join(name);
            let meta = match files::read_if_exists(&path) {
                Ok(Some(bytes)) => parse(&bytes).and_then(|meta| meta.tokenizer().map(|_| meta)),
                Ok(None) => continue,
                Err(error) => Err(Diagnostic::config(format!("cannot be read ({error})"))
                    .hint("make it a readable file, or remove it")),
            };
            return meta.map(Some).map_err(|error| error.at(path.display()));
        }
        Ok(None)
    }

    fn of_json(text: &[u8]) -> Result<Self, Diagnostic> {
        serde_json::from_slice(text).map_err(|error| {
            Diagnostic::config(format!("not a description of token bins ({error})"))
                .hint("it needs an integer \"vocab_size\", as in {\"vocab_size\": 65}")
        })
    }

    fn of_pickle(bytes: &[u8]) -> Result<Self, Diagnostic> {
        let vocabulary = pickle::vocabulary(bytes)?;
        let tokenizer = vocabulary.characters.as_ref().map(|_| TokenizerChoice::Char);
        Ok(Self {
            vocab_size: vocabulary.size,
            tokenizer,
            characters: vocabulary.characters,
            ..Self::default()
        })
    }

    /// The tokenizer it names, else one that is only counted.
    ///
    /// # Errors
    /// `vocab_size` is out of range or not the named tokenizer's.
    pub fn tokenizer(&self) -> Result<Tokenizer, Diagnostic> {
        if !(1..=1 << 16).contains(&self.vocab_size) {
            let message = format!("vocab_size must be from 1 to 65536, found {}", self.vocab_size);
            return Err(Diagnostic::config(message)
                .hint("token ids are 16-bit; write the number of ids the tokenizer has"));
        }
        let tokenizer = match (self.tokenizer, &self.characters) {
            (Some(TokenizerChoice::Byte), _) => Tokenizer::Byte,
            (Some(TokenizerChoice::Gpt2), _) => Tokenizer::Gpt2,
            (Some(TokenizerChoice::Char), Some(characters)) => Tokenizer::Char(characters.chars().collect()),
            (Some(TokenizerChoice::Char), None) => {
                return Err(Diagnostic::config("the tokenizer `char` has no `characters`")
                    .hint("add \"characters\": \"...\", all characters in the order of their ids"));
            }
            _ => Tokenizer::External(self.vocab_size as usize),
        };
        if let (vocab, Some(name)) = (tokenizer.vocab() as u64, self.tokenizer)
            && vocab != self.vocab_size
        {
            let message = format!("vocab_size is {}, the tokenizer `{name}` has {vocab}", self.vocab_size);
            return Err(Diagnostic::config(message)
                .hint(format!("set \"vocab_size\": {vocab}, or correct the tokenizer")));
        }
        Ok(tokenizer)
    }

    /// Refuses a bin whose content differs from the description.
    ///
    /// # Errors
    /// The number of tokens differs.
    pub fn check(&self, split: &str, tokens: u64) -> Result<(), Diagnostic> {
        match self.splits.get(split) {
            Some(expected) if expected.tokens != tokens => {
                let message = format!("the bin holds {tokens} tokens, {FILE} says {}", expected.tokens);
                Err(Diagnostic::config(message).hint(
                    "the file was changed or its preparation was cut off: run `altgrad-host data prepare` again",
                ))
            }
            _ => Ok(()),
        }
    }
}
