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
                .map(|c| {
                    let rank = chars.binary_search(&c).ok().and_then(|rank| u16::try_from(rank).ok());
                    rank.ok_or_else(|| unknown(c, chars.len()))
                })
                .collect(),
            Self::External(_) => Err(Diagnostic::config(
                "this corpus was tokenized elsewhere, so no text can be turned into its ids",
            )
            .hint("use a model of bytes or characters")),
        }
    }

    /// What an id stands for, in bytes: a whole character, or a part of one. `None` for an id beyond the vocabulary, or
    /// where only the program that made the ids knows.
    #[must_use]
    pub fn decode(&self, id: u16) -> Option<Vec<u8>> {
        match self {
            Self::Byte => u8::try_from(id).ok().map(|byte| vec![byte]),
            Self::Char(chars) => chars.get(usize::from(id)).map(|c| c.to_string().into_bytes()),
            Self::External(_) => None,
        }
    }
}

fn unknown(c: char, known: usize) -> Diagnostic {
    Diagnostic::config(format!(
        "the character {c:?} has no 16-bit id in this vocabulary of {known} characters"
    ))
    .hint("leave it out, or train with tokenizer = \"byte\", which fits every text")
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
        let refusal = tokenizer.encode("wz").unwrap_err().message;
        assert_eq!(refusal, "the character 'z' has no 16-bit id in this vocabulary of 9 characters");
        assert_eq!(tokenizer.decode(2).unwrap(), b"d");
        assert_eq!(tokenizer.decode(9), None);
    }

    #[test]
    fn bytes_are_themselves() {
        assert_eq!(Tokenizer::Byte.encode("aé").unwrap(), [97, 195, 169]);
        assert_eq!(Tokenizer::Byte.decode(195).unwrap(), [195]);
        assert_eq!(Tokenizer::Byte.decode(256), None);
    }
}
