//! Shared parts of the tests of preparations: an input, and a folder for bins.

use std::{fs, path::Path};

use super::super::*;
use crate::Tokens;

/// Progress without output.
pub(super) struct Silent;

impl PrepareProgress for Silent {
    fn at(&self, _: &str, _: u64, _: Option<u64>) {}
    fn say(&self, _: &str) {}
}

/// A folder with an input and, apart from it, one for the bins.
pub(super) struct Bench(pub(super) tempfile::TempDir);

impl Bench {
    pub(super) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(super) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join("in").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    pub(super) fn request(&self, dataset: Dataset, input: &Path) -> Request {
        Request {
            dataset,
            input: Some(input.into()),
            out: self.0.path().join("out"),
            language: (dataset == Dataset::MultiEurlex).then(|| "en".into()),
            title: false,
            tokenizer: TokenizerChoice::Byte,
            own_split: true,
            val_fraction: 0.1,
            strict: false,
            force: false,
            mirror: None,
        }
    }

    /// The text of a bin of bytes.
    pub(super) fn text(&self, split: &str) -> String {
        let tokens = Tokens::open(&self.0.path().join(format!("out/{split}.bin")), None).unwrap();
        Tokenizer::Byte.decode(&tokens.read(0..tokens.len()).unwrap()).unwrap()
    }

    /// Names in the folder for bins, without the lock.
    pub(super) fn left(&self) -> Vec<String> {
        let Ok(found) = fs::read_dir(self.0.path().join("out")) else { return Vec::new() };
        let mut names: Vec<String> =
            found.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.retain(|name| name != ".lock");
        names.sort();
        names
    }
}
