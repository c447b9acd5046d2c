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
    /// The tokenizer that made the ids.
    pub tokenizer: Tokenizer,
    /// One line for people.
    pub description: String,
}

impl Corpus {
    /// Of all token ids, 64 hex digits: another corpus has another.
    ///
    /// # Errors
    /// The data cannot be read.
    pub fn fingerprint(&self) -> Result<String, Diagnostic> {
        let splits = [self.train.digest()?, self.val.digest()?];
        Ok(files::hex(&Sha256::digest(splits.concat())))
    }

    /// Entropy of the distribution of single tokens in nats per token, from up to 2^22 training tokens: the loss of a
    /// model that knows only the frequency of each token.
    ///
    /// # Errors
    /// The data cannot be read.
    pub fn unigram_entropy(&self) -> Result<f64, Diagnostic> {
        const MOST: usize = 1 << 22;
        let ids = self.train.read(0..self.train.len().min(MOST))?;
        Ok(entropy(ids.iter().copied()))
    }

    /// Refuses splits that hold no window of `block_size + 1` tokens.
    pub(super) fn check(&self, section: &DataSection) -> Result<(), Diagnostic> {
        if self.train.is_empty() && self.val.is_empty() {
            return Err(Diagnostic::config("the corpus is empty")
                .at(&self.description)
                .hint("name a file with text, `text:FILE`, or a folder of token bins, `bins:DIR`, at `data.dataset`"));
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

/// Entropy of the ids' distribution in nats; 0 of none.
fn entropy(ids: impl Iterator<Item = u16>) -> f64 {
    let mut counts = vec![0u32; usize::from(u16::MAX) + 1];
    ids.for_each(|id| counts[usize::from(id)] += 1);
    let total: f64 = counts.iter().map(|&count| f64::from(count)).sum();
    let shares = counts.iter().filter(|count| **count > 0).map(|&count| f64::from(count) / total);
    shares.map(|share| -share * share.ln()).sum()
}

#[cfg(test)]
mod tests {
    use super::entropy;

    /// By hand: four equal tokens have ln 4; shares of 1/2, 1/4 and 1/4 have 3/2 ln 2.
    #[test]
    fn the_entropy_of_single_tokens() {
        let close = |ids: &[u16], expected: f64| (entropy(ids.iter().copied()) - expected).abs() < 1e-15;
        assert!(close(&[7, 65_535, 0, 3], 4f64.ln()));
        assert!(close(&[1, 1, 2, 9], 1.5 * 2f64.ln()));
        assert!(close(&[5, 5, 5], 0.0) && close(&[], 0.0));
    }
}
