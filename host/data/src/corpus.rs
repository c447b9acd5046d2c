//! A corpus: two token sequences and the tokenizer that made them.

use altgrad_base::{diagnostic::Diagnostic, files};
use altgrad_config::DataSection;
use sha2::{Digest, Sha256};

use super::{tokenizer::Tokenizer, tokens::Tokens};

/// Two token sequences and the tokenizer that made them.
#[derive(Debug)]
pub struct Corpus {
    /// Tokens to train on.
    pub train: Tokens,
    /// Tokens held out.
    pub val: Tokens,
    /// How the ids were made.
    pub tokenizer: Tokenizer,
    /// One line for people.
    pub description: String,
}

impl Corpus {
    /// Of all token ids, 64 hex digits: another corpus has another.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let splits = [self.train.digest(), self.val.digest()];
        files::hex(&Sha256::digest(splits.concat()))
    }

    /// Entropy of the distribution of single tokens in nats per token, from up to 2^22 training tokens: what a model reaches that knows only
    /// how often each token occurs.
    #[must_use]
    pub fn unigram_entropy(&self) -> f64 {
        const MOST: usize = 1 << 22;
        let mut counts = vec![0u32; self.tokenizer.vocab()];
        for id in self.train.ids().take(MOST) {
            if let Some(count) = counts.get_mut(usize::from(id)) {
                *count += 1;
            }
        }
        let total: f64 = counts.iter().map(|&count| f64::from(count)).sum();
        let shares = counts.iter().filter(|count| **count > 0).map(|&count| f64::from(count) / total);
        -shares.map(|share| share * share.ln()).sum::<f64>()
    }

    /// Refuses splits that hold no window of `block_size + 1` tokens.
    pub(super) fn check(&self, section: &DataSection) -> Result<(), Diagnostic> {
        if self.train.is_empty() {
            return Err(Diagnostic::config("the corpus is empty")
                .at(&self.description)
                .hint("name a file or folder with text in it at `data.dataset`"));
        }
        for (split, tokens) in [("training", &self.train), ("validation", &self.val)] {
            if tokens.len() <= section.block_size {
                let message = format!(
                    "the {split} split has {} tokens, `data.block_size` = {} needs at least {}",
                    tokens.len(),
                    section.block_size,
                    section.block_size + 1
                );
                return Err(Diagnostic::config(message)
                    .at(&self.description)
                    .hint("use a larger corpus or a smaller block_size"));
            }
        }
        Ok(())
    }
}
