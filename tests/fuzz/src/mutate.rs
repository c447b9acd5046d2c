//! Damage, from a flipped bit to a length that claims the world.
//!
//! Damage is a value that is independent of the input, so that proptest can shrink it: places are shares of the input's
//! length.

use proptest::{collection::vec, prelude::*, sample::Index};

use crate::Input;

/// Numbers that readers get wrong, as text.
const NUMBERS: [&str; 14] = [
    "0",
    "-1",
    "1",
    "2",
    "255",
    "65536",
    "2147483647",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "1e999",
    "-0.0",
    "nan",
    "0.0000000001",
];
/// The same as integers, cut to the current width.
const INTEGERS: [u64; 10] =
    [0, 1, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, u64::MAX >> 1, u64::MAX];
/// A file grows to at most this many bytes.
const LARGEST: usize = 1 << 17;

/// One change of one file.
#[derive(Debug, Clone)]
pub enum Change {
    /// A bit is flipped.
    Flip(Index, u8),
    /// A byte is another.
    Set(Index, u8),
    /// The file ends early.
    Cut(Index),
    /// Bytes are missing.
    Remove(Index, Index),
    /// Bytes are repeated.
    Repeat(Index, Index, u16),
    /// Bytes of another input are inserted.
    Splice(Index, Index, Index, Index),
    /// An integer of 1, 2, 4 or 8 bytes, little-endian, is an extreme one; lengths and counts are such.
    Integer(Index, u8, Index),
    /// A number in text is an extreme one.
    Digits(Index, Index),
    /// A word of the target's, repeated.
    Word(Index, Index, u16),
    /// Bytes are others altogether.
    Bytes(Index, Vec<u8>),
    /// The file is not there.
    Missing,
}

/// Changes of one input of a corpus.
#[derive(Debug, Clone)]
pub struct Damage {
    base: Index,
    changes: Vec<(Index, Change)>,
}

/// Every damage there is.
pub fn damages() -> impl Strategy<Value = Damage> {
    let index = any::<Index>;
    let often_once = || prop_oneof![4 => Just(1u16), 1 => any::<u16>()];
    let change = prop_oneof![
        4 => (index(), 0..8u8).prop_map(|(at, bit)| Change::Flip(at, bit)),
        2 => (index(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        1 => index().prop_map(Change::Cut),
        1 => (index(), index()).prop_map(|(at, len)| Change::Remove(at, len)),
        1 => (index(), index(), any::<u16>()).prop_map(|(at, len, times)| Change::Repeat(at, len, times)),
        2 => (index(), index(), index(), index()).prop_map(|(a, b, c, d)| Change::Splice(a, b, c, d)),
        3 => (index(), 0..4u8, index()).prop_map(|(at, width, which)| Change::Integer(at, width, which)),
        3 => (index(), index()).prop_map(|(which, number)| Change::Digits(which, number)),
        3 => (index(), index(), often_once()).prop_map(|(at, word, times)| Change::Word(at, word, times)),
        1 => (index(), vec(any::<u8>(), 0..64)).prop_map(|(at, bytes)| Change::Bytes(at, bytes)),
        1 => Just(Change::Missing),
    ];
    (index(), vec((index(), change), 1..6)).prop_map(|(base, changes)| Damage { base, changes })
}

impl Damage {
    /// The damaged input.
    #[must_use]
    pub fn apply(&self, corpus: &[Input], words: &[&[u8]]) -> Input {
        let mut input = self.base.get(corpus).clone();
        for (which, change) in &self.changes {
            if input.files.is_empty() {
                break;
            }
            let file = which.index(input.files.len());
            if matches!(change, Change::Missing) {
                input.files.remove(file);
                continue;
            }
            let bytes = &mut input.files[file].1;
            change.apply(bytes, corpus, words);
            bytes.truncate(LARGEST);
        }
        input
    }
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>, corpus: &[Input], words: &[&[u8]]) {
        let places = bytes.len() + 1;
        let place = |index: &Index| index.index(places);
        match self {
            Self::Flip(at, bit) => {
                if let Some(byte) = bytes.get_mut(place(at)) {
                    *byte ^= 1 << bit;
                }
            }
            Self::Set(at, value) => {
                if let Some(byte) = bytes.get_mut(place(at)) {
                    *byte = *value;
                }
            }
            Self::Cut(at) => bytes.truncate(place(at)),
            Self::Remove(at, len) => drop(bytes.drain(part(bytes.len(), at, len))),
            Self::Repeat(at, len, times) => {
                let part = part(bytes.len(), at, len);
                let copy = bytes[part.clone()].to_vec();
                insert(bytes, part.end, &copy, *times);
            }
            Self::Splice(at, from, file, len) => {
                let at = place(at);
                let other = &from.get(corpus).files;
                if !other.is_empty() {
                    let (_, other) = file.get(other);
                    insert(bytes, at, &other[part(other.len(), file, len)], 1);
                }
            }
            Self::Integer(at, width, which) => {
                let start = place(at);
                let value = which.get(&INTEGERS).to_le_bytes();
                for (byte, value) in bytes.iter_mut().skip(start).zip(value).take(1 << width) {
                    *byte = value;
                }
            }
            Self::Digits(which, number) => {
                let runs = digits(bytes);
                if !runs.is_empty() {
                    bytes.splice(which.get(&runs).clone(), number.get(&NUMBERS).bytes());
                }
            }
            Self::Word(at, word, times) => {
                let at = place(at);
                if !words.is_empty() {
                    insert(bytes, at, words[word.index(words.len())], *times);
                }
            }
            Self::Bytes(at, others) => {
                let at = place(at);
                insert(bytes, at, others, 1);
            }
            Self::Missing => {}
        }
    }
}

/// From a place on, mostly few bytes: a quarter of the rest at most.
fn part(len: usize, at: &Index, share: &Index) -> std::ops::Range<usize> {
    let start = at.index(len + 1);
    start..start + share.index((len - start) / 4 + 1)
}

fn insert(bytes: &mut Vec<u8>, at: usize, part: &[u8], times: u16) {
    let fits = LARGEST.saturating_sub(bytes.len()) / part.len().max(1);
    let many = part.repeat(usize::from(times).min(fits));
    bytes.splice(at..at, many);
}

/// The positions of numbers in a text.
fn digits(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut runs: Vec<std::ops::Range<usize>> = Vec::new();
    for at in (0..bytes.len()).filter(|at| bytes[*at].is_ascii_digit()) {
        match runs.last_mut() {
            Some(run) if run.end == at => run.end = at + 1,
            _ => runs.push(at..at + 1),
        }
    }
    runs
}
