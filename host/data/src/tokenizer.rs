//! Tokenizers: bytes, characters, and GPT-2's byte pairs.

use std::collections::{BTreeSet, HashMap};

use altgrad_base::diagnostic::Diagnostic;
use altgrad_config::{DataSection, TokenizerChoice};

use super::gpt2;
/// The tokenizer of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tokenizer {
    /// One id a byte, 256 of them.
    Byte,
    /// One id a character: its position here. Those of a corpus are in code-point order, as in nanoGPT.
    Char(Vec<char>),
    /// GPT-2's byte-pair encoding, 50257 ids.
    Gpt2,
    /// Ids made elsewhere; this many.
    External(usize),
}

impl Tokenizer {
    /// The character tokenizer of a text.
    #[must_use]
    pub fn chars_of(text: &str) -> Self {
        Self::Char(text.chars().collect::<BTreeSet<char>>().into_iter().collect())
    }

    /// The tokenizer that a run file names, for a text.
    ///
    /// # Errors
    /// It names none of a text.
    pub fn named(section: &DataSection, text: impl Fn() -> String) -> Result<Self, Diagnostic> {
        Ok(match section.tokenizer {
            TokenizerChoice::Byte => Self::Byte,
            TokenizerChoice::Char => match &section.alphabet {
                Some(alphabet) => Self::Char(alphabet.chars().collect()),
                None => Self::chars_of(&text()),
            },
            TokenizerChoice::Gpt2 => Self::Gpt2,
            TokenizerChoice::Ids => {
                return Err(Diagnostic::config(
                    "`data.tokenizer` = \"ids\" is for token bins, and the data are text",
                )
                .hint("set data.tokenizer = \"byte\", which fits every text"));
            }
        })
    }

    /// Number of ids.
    #[must_use]
    pub fn vocab(&self) -> usize {
        match self {
            Self::Byte => 256,
            Self::Char(chars) => chars.len(),
            Self::Gpt2 => gpt2::VOCAB,
            Self::External(vocab) => *vocab,
        }
    }

    /// Ids of a text.
    ///
    /// # Errors
    /// A character that is not in the vocabulary, or more than 65,536 characters in the vocabulary.
    pub fn encode(&self, text: &str) -> Result<Vec<u16>, Diagnostic> {
        let mut ids = Vec::new();
        self.encoder()?.encode(text, &mut ids)?;
        Ok(ids)
    }

    /// Encodes many texts; each thread needs its own.
    ///
    /// # Errors
    /// The ids were made elsewhere.
    pub fn encoder(&self) -> Result<Encoder, Diagnostic> {
        Ok(match self {
            Self::Byte => Encoder::Byte,
            Self::Char(chars) => Encoder::Char(ids_of(chars)),
            Self::Gpt2 => Encoder::Gpt2(Box::new(gpt2::Gpt2Encoder::new()?)),
            Self::External(_) => return Err(elsewhere()),
        })
    }

    /// The text of ids. Bytes that are no UTF-8, as where ids cut a character in two, become U+FFFD.
    ///
    /// # Errors
    /// An id beyond the vocabulary, or ids made elsewhere.
    pub fn decode(&self, ids: &[u16]) -> Result<String, Diagnostic> {
        let bytes = self.bytes(ids)?;
        Ok(String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }

    /// The bytes of ids: whole characters, or parts of them.
    ///
    /// # Errors
    /// As [`Self::decode`].
    pub fn bytes(&self, ids: &[u16]) -> Result<Vec<u8>, Diagnostic> {
        let beyond = || Diagnostic::config(format!("an id is beyond the vocabulary of {}", self.vocab()));
        match self {
            Self::Byte => ids.iter().map(|id| u8::try_from(*id).map_err(|_| beyond())).collect(),
            Self::Char(chars) => {
                let text: Option<String> = ids.iter().map(|id| chars.get(usize::from(*id))).collect();
                text.map(String::into_bytes).ok_or_else(beyond)
            }
            Self::Gpt2 => gpt2::decode(ids),
            Self::External(_) => Err(elsewhere()),
        }
    }

    /// The name in a run file.
    #[must_use]
    pub fn choice(&self) -> TokenizerChoice {
        match self {
            Self::Byte => TokenizerChoice::Byte,
            Self::Char(_) => TokenizerChoice::Char,
            Self::Gpt2 => TokenizerChoice::Gpt2,
            Self::External(_) => TokenizerChoice::Ids,
        }
    }
}

/// The id of each character.
fn ids_of(chars: &[char]) -> HashMap<char, u16> {
    chars.iter().enumerate().filter_map(|(id, c)| Some((*c, u16::try_from(id).ok()?))).collect()
}

fn elsewhere() -> Diagnostic {
    Diagnostic::config("the text of these token ids is unknown: no description of the bins names their tokenizer")
        .hint("add \"tokenizer\": \"gpt2\" to the folder's meta.json, or \"tokenizer\": \"char\" and \"characters\": \"...\", all characters in the order of their ids")
}

/// A tokenizer at work.
pub enum Encoder {
    /// [`Tokenizer::Byte`].
    Byte,
    /// [`Tokenizer::Char`], the id of each character.
    Char(HashMap<char, u16>),
    /// [`Tokenizer::Gpt2`].
    Gpt2(Box<gpt2::Gpt2Encoder>),
}

impl Encoder {
    /// Appends the ids of a text.
    ///
    /// # Errors
    /// A character without a 16-bit id.
    pub fn encode(&mut self, text: &str, ids: &mut Vec<u16>) -> Result<(), Diagnostic> {
        match self {
            Self::Byte => ids.extend(text.bytes().map(u16::from)),
            Self::Char(chars) => {
                for c in text.chars() {
                    ids.push(*chars.get(&c).ok_or_else(|| unknown(c, chars.len()))?);
                }
            }
            Self::Gpt2(encoder) => encoder.encode(text, ids),
        }
        Ok(())
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
        assert_eq!(tokenizer.decode(&[0, 1, 2]).unwrap(), "\n d");
        assert!(tokenizer.decode(&[9]).is_err());
    }

    #[test]
    fn characters_of_others_are_in_any_order() {
        let tokenizer = Tokenizer::Char(vec!['b', 'a', '\u{1f642}']);
        assert_eq!(tokenizer.encode("ab\u{1f642}").unwrap(), [1, 0, 2]);
        assert_eq!(tokenizer.decode(&[1, 0, 2]).unwrap(), "ab\u{1f642}");
    }

    #[test]
    fn bytes_are_themselves() {
        assert_eq!(Tokenizer::Byte.encode("aé").unwrap(), [97, 195, 169]);
        assert_eq!(Tokenizer::Byte.decode(&[97, 195, 169]).unwrap(), "aé");
        assert_eq!(Tokenizer::Byte.decode(&[97, 195]).unwrap(), "a\u{fffd}");
        assert_eq!(Tokenizer::Byte.bytes(&[195]).unwrap(), [195]);
        assert!(Tokenizer::Byte.decode(&[256]).is_err());
    }

    #[test]
    fn ids_made_elsewhere_have_no_text() {
        assert!(Tokenizer::External(9).encode("a").is_err());
        assert!(Tokenizer::External(9).decode(&[1]).is_err());
    }
}
