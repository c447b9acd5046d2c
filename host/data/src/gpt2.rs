//! GPT-2's byte-pair encoding, fast: text is cut into pieces here, and the ids of a piece are looked up.
//!
//! tiktoken-rs carries the ranks and merges the bytes of a piece; a piece depends on nothing around it, so each
//! distinct one is merged once and remembered. Text that names a special token is text (`encode_ordinary`). `pieces`
//! cuts as the pattern of the published encoder does; a test holds both to tiktoken-rs on whole texts.

mod pieces;

use std::{collections::HashMap, sync::LazyLock};

use altgrad_base::diagnostic::Diagnostic;
use tiktoken_rs::CoreBPE;

/// Number of ids: 256 bytes, 50,000 merges, and the end of a text.
pub const VOCAB: usize = 50257;
/// The id that ends a text, `<|endoftext|>`.
pub const END_OF_TEXT: u16 = 50256;

/// Longer pieces are rare and not remembered.
const LONGEST_REMEMBERED: usize = 64;
/// Pieces remembered before all are forgotten: bounds an encoder at some 10 MB.
const MOST_REMEMBERED: usize = 1 << 17;

/// The ranks, read once. `Err` only if the crate's own table were broken.
static RANKS: LazyLock<Result<CoreBPE, String>> =
    LazyLock::new(|| tiktoken_rs::r50k_base().map_err(|error| error.to_string()));

fn ranks() -> Result<&'static CoreBPE, Diagnostic> {
    RANKS.as_ref().map_err(|error| Diagnostic::run(format!("GPT-2's tokenizer cannot be set up ({error})")))
}

/// The range of a piece's ids in [`Gpt2Encoder::ids`].
#[derive(Debug, Clone, Copy)]
struct Span {
    start: u32,
    len: u32,
}

/// Encodes; remembers pieces from call to call, so each thread should keep one.
pub struct Gpt2Encoder {
    ranks: &'static CoreBPE,
    known: HashMap<Box<str>, Span, foldhash::fast::RandomState>,
    ids: Vec<u16>,
}

impl Gpt2Encoder {
    /// An encoder that remembers nothing yet.
    ///
    /// # Errors
    /// The table of ranks cannot be read.
    pub fn new() -> Result<Self, Diagnostic> {
        Ok(Self { ranks: ranks()?, known: HashMap::default(), ids: Vec::new() })
    }

    /// Appends the ids of a text.
    pub fn encode(&mut self, text: &str, ids: &mut Vec<u16>) {
        for piece in pieces::pieces(text) {
            if let Some(span) = self.known.get(piece) {
                ids.extend_from_slice(&self.ids[span.start as usize..][..span.len as usize]);
                continue;
            }
            let start = ids.len();
            // 50,256 ordinary ids.
            ids.extend(self.ranks.encode_ordinary(piece).into_iter().map(|id| id as u16));
            self.remember(piece, &ids[start..]);
        }
    }

    fn remember(&mut self, piece: &str, ids: &[u16]) {
        if piece.len() > LONGEST_REMEMBERED {
            return;
        }
        if self.known.len() >= MOST_REMEMBERED {
            self.known.clear();
            self.ids.clear();
        }
        let span = Span { start: self.ids.len() as u32, len: ids.len() as u32 };
        self.ids.extend_from_slice(ids);
        self.known.insert(piece.into(), span);
    }
}

/// The bytes of ids. A cut through a character leaves part of its bytes.
///
/// # Errors
/// An id beyond the vocabulary.
pub fn decode(ids: &[u16]) -> Result<Vec<u8>, Diagnostic> {
    let wide: Vec<u32> = ids.iter().copied().map(u32::from).collect();
    ranks()?.decode_bytes(&wide).map_err(|error| {
        Diagnostic::config(format!("{} is no id of GPT-2's tokenizer, which has {VOCAB}", error.token))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
