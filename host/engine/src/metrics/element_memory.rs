//! The memory of counting from update to update: in parts, as checkpoints hold it, and in words, as a device holds it.
//!
//! A word is a u32 per element. Its low byte is the code before the last update, the second byte the code before the
//! one before, and the high half the number of updates in a row that the element has been dead.

use rayon::prelude::*;

use crate::packed_ints::PackedInts;

/// What is remembered of a parameter's elements: in each part one number per element, or none where it is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ElementMemory {
    /// Codes before the last update.
    pub last: PackedInts,
    /// Codes before the one before.
    pub earlier: PackedInts,
    /// Updates in a row that elements have been dead.
    pub dead: PackedInts,
}

/// A part of a word: its lowest bit, and its largest number.
type Part = (u32, u32);

const LAST: Part = (0, 0xff);
const EARLIER: Part = (8, 0xff);
const DEAD: Part = (16, 0xffff);

impl ElementMemory {
    /// The parts of a device's words.
    #[must_use]
    pub fn of_words(words: &[u32]) -> Self {
        let part = |(shift, largest): Part| {
            PackedInts::new(words.par_iter().map(|word| ((word >> shift) & largest) as u16).collect())
        };
        Self { last: part(LAST), earlier: part(EARLIER), dead: part(DEAD) }
    }

    /// The words of a device, with zeros for unknown parts; `None` if all are unknown.
    #[must_use]
    pub fn words(&self) -> Option<Vec<u32>> {
        let parts = [(&self.last, LAST), (&self.earlier, EARLIER), (&self.dead, DEAD)];
        let len = parts.iter().map(|(numbers, _)| numbers.len()).max().filter(|len| *len > 0)?;
        let mut words = vec![0u32; len];
        for (numbers, (shift, largest)) in parts {
            for (word, number) in words.iter_mut().zip(numbers.part(0..numbers.len())) {
                *word |= (u32::from(number) & largest) << shift;
            }
        }
        Some(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_the_layout_of_the_counting_kernel() {
        let words = vec![0x0003_0201, 0xffff_00ff, 0x0100_ff00];
        let memory = ElementMemory {
            last: PackedInts::new(vec![1, 255, 0]),
            earlier: PackedInts::new(vec![2, 0, 255]),
            dead: PackedInts::new(vec![3, 65_535, 256]),
        };
        assert_eq!((ElementMemory::of_words(&words), memory.words()), (memory.clone(), Some(words)));
    }

    #[test]
    fn unknown_parts_are_zeros_and_codes_that_are_too_wide_stay_in_their_byte() {
        assert_eq!(ElementMemory::default().words(), None);
        let dead = ElementMemory { dead: PackedInts::new(vec![7, 0]), ..ElementMemory::default() };
        assert_eq!(dead.words(), Some(vec![7 << 16, 0]));
        let wide = ElementMemory { last: PackedInts::new(vec![0x1234]), ..ElementMemory::default() };
        assert_eq!(wide.words(), Some(vec![0x34]));
    }
}
