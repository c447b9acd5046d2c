//! Tokenizers that need no vocabulary file: bytes and characters.

use std::collections::BTreeSet;

use crate::diagnostic::Diagnostic;

/// How text becomes ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tokenizer {
    /// One id a byte, 256 of them.
    Byte,
    /// One id a character: its rank among the corpus's characters in code-point order, as in nanoGPT.
    Char(Vec<char>),
    /// Ids made elsewhere; this many.
    External(usize),
}

impl Tokenizer {
    /// The character tokenizer of a text.
    #[must_use]
    pub fn chars_of(text: &str) -> Self {
        Self::Char(text.chars().collect::<BTreeSet<char>>().into_iter().collect())
    }

    /// Number of ids.
    #[must_use]
    pub fn vocab(&self) -> usize {
        match self {
            Self::Byte => 256,
            Self::Char(chars) => chars.len(),
            Self::External(vocab) => *vocab,
        }
    }

    /// Ids of a text.
    ///
    /// # Errors
    /// A character the tokenizer does not know, or more than 65,536 characters in the vocabulary.
    pub fn encode(&self, text: &str) -> Result<Vec<u16>, Diagnostic> {
        match self {
            Self::Byte => Ok(text.bytes().map(u16::from).collect()),
            Self::Char(chars) => text
                .chars()
                .map(|c| chars.binary_search(&c).ok().and_then(|rank| u16::try_from(rank).ok()))
                .collect::<Option<Vec<u16>>>()
                .ok_or_else(|| {
                    Diagnostic::config("a character has no 16-bit id in this vocabulary")
                        .hint("use tokenizer = \"byte\", which fits every text")
                }),
            Self::External(_) => Err(Diagnostic::config("this corpus was tokenized elsewhere")),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_ranked_by_code_point() {
        let tokenizer = Tokenizer::chars_of("hello world\n");
        assert_eq!(tokenizer.vocab(), 9);
        assert_eq!(tokenizer.encode("\n d").unwrap(), [0, 1, 2]);
        assert!(tokenizer.encode("z").is_err());
    }

    #[test]
    fn bytes_are_themselves() {
        assert_eq!(Tokenizer::Byte.encode("aé").unwrap(), [97, 195, 169]);
    }
}
