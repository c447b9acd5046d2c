//! GPT-2's split of text into pieces before it merges bytes: contractions, and runs of letters, of numbers, of other
//! signs, of white space.
//!
//! The published pattern is `'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`. It is followed
//! by hand because the look-ahead needs a backtracking engine, which is slow and gives up on long runs of white space.

use std::sync::LazyLock;

use regex_syntax::hir::{Class as HirClass, HirKind};

/// The character classes of the pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Other,
    Letter,
    Number,
    Space,
}

/// The class of every code point, from the tables of the engine that other implementations run the pattern with.
static CLASSES: LazyLock<Box<[Class]>> = LazyLock::new(|| {
    let mut classes = vec![Class::Other; char::MAX as usize + 1].into_boxed_slice();
    for (name, class) in [(r"\p{L}", Class::Letter), (r"\p{N}", Class::Number), (r"\s", Class::Space)] {
        let parsed = regex_syntax::parse(name);
        debug_assert!(parsed.is_ok(), "{name} is a class");
        if let Ok(HirKind::Class(HirClass::Unicode(ranges))) = parsed.map(|parsed| parsed.into_kind()) {
            for range in ranges.iter() {
                classes[range.start() as usize..=range.end() as usize].fill(class);
            }
        }
    }
    classes
});

/// The pieces of a text, in order; their concatenation is the text.
pub(super) fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let cutter = Cutter { classes: &CLASSES };
    let mut rest = text;
    std::iter::from_fn(move || {
        let len = cutter.first(rest)?;
        let (piece, after) = rest.split_at(len);
        rest = after;
        Some(piece)
    })
}

struct Cutter {
    classes: &'static [Class],
}

impl Cutter {
    /// Bytes of the first piece; `None` if there is no text.
    fn first(&self, text: &str) -> Option<usize> {
        let (first, len) = self.at(text)?;
        if first == Class::Other
            && let Some(len) = contraction(text)
        {
            return Some(len);
        }
        if first != Class::Space {
            return Some(self.run(text, len, first));
        }
        // One space belongs to the following piece.
        if text.starts_with(' ')
            && let Some((next, next_len)) = self.at(&text[1..])
            && next != Class::Space
        {
            return Some(self.run(text, 1 + next_len, next));
        }
        let end = self.run(text, len, Class::Space);
        if end == text.len() {
            return Some(end);
        }
        // White space before a word: all but its last character, unless that is all there is.
        let last = text[..end].chars().next_back().map_or(0, char::len_utf8);
        Some(if end > last { end - last } else { end })
    }

    /// The end of the run of one class that reaches `from` at least.
    fn run(&self, text: &str, from: usize, class: Class) -> usize {
        let mut end = from;
        while let Some((next, len)) = self.at(&text[end..])
            && next == class
        {
            end += len;
        }
        end
    }

    /// Class and length of the first character.
    fn at(&self, text: &str) -> Option<(Class, usize)> {
        let first = *text.as_bytes().first()?;
        if first.is_ascii() {
            return Some((self.classes[usize::from(first)], 1));
        }
        let c = text.chars().next()?;
        Some((self.classes[c as usize], c.len_utf8()))
    }
}

/// Bytes of the contraction that the text begins with, if it does.
fn contraction(text: &str) -> Option<usize> {
    match text.as_bytes() {
        [b'\'', b's' | b'd' | b'm' | b't', ..] => Some(2),
        [b'\'', b'l', b'l', ..] | [b'\'', b'v' | b'r', b'e', ..] => Some(3),
        _ => None,
    }
}
