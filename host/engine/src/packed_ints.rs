//! Whole numbers below 65,536, one per element of a parameter, in one byte each if all fit, else in two.

use std::{ops::Range, sync::Arc};

use rayon::prelude::*;

/// Elements per task.
const PART: usize = 1 << 16;

/// The numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PackedInts {
    /// All are below 256.
    Bytes(Arc<Vec<u8>>),
    /// Some may be larger.
    Words(Arc<Vec<u16>>),
}

impl Default for PackedInts {
    fn default() -> Self {
        Self::Bytes(Arc::default())
    }
}

impl PackedInts {
    /// `len` zeros that count up to at least `largest`.
    #[must_use]
    pub fn zeros(len: usize, largest: u16) -> Self {
        match u8::try_from(largest) {
            Ok(_) => Self::Bytes(Arc::new(vec![0; len])),
            Err(_) => Self::Words(Arc::new(vec![0; len])),
        }
    }

    /// These numbers.
    #[must_use]
    pub fn new(numbers: Vec<u16>) -> Self {
        if numbers.par_chunks(PART).any(|part| part.iter().any(|number| *number > u16::from(u8::MAX))) {
            return Self::Words(Arc::new(numbers));
        }
        let mut bytes = vec![0; numbers.len()];
        bytes.par_chunks_mut(PART).zip(numbers.par_chunks(PART)).for_each(|(bytes, numbers)| {
            bytes.iter_mut().zip(numbers).for_each(|(byte, number)| *byte = *number as u8);
        });
        Self::Bytes(Arc::new(bytes))
    }

    /// The same numbers, in a type that holds at least `largest`; a byte that cannot hold a number saturates at 255.
    #[must_use]
    pub fn up_to(self, largest: u16) -> Self {
        match (self, u8::try_from(largest)) {
            (Self::Bytes(numbers), Err(_)) => {
                Self::Words(Arc::new(numbers.iter().copied().map(u16::from).collect()))
            }
            (Self::Words(numbers), Ok(_)) => {
                let byte = |number: &u16| (*number).min(u8::MAX.into()) as u8;
                Self::Bytes(Arc::new(numbers.iter().map(byte).collect()))
            }
            (same, _) => same,
        }
    }

    /// The number of numbers.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(numbers) => numbers.len(),
            Self::Words(numbers) => numbers.len(),
        }
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A part of them.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Vec<u16> {
        match self {
            Self::Bytes(numbers) => numbers[range].iter().copied().map(u16::from).collect(),
            Self::Words(numbers) => numbers[range].to_vec(),
        }
    }

    /// Replaces each number by `next` of it and the element of `with` at its place. A byte saturates at 255.
    pub fn update(&mut self, with: &[f32], next: impl Fn(u16, f32) -> u16 + Sync) {
        match self {
            Self::Bytes(numbers) => {
                let next = |old: u8, x| next(old.into(), x).min(u8::MAX.into()) as u8;
                update(Arc::make_mut(numbers).as_mut_slice(), with, next);
            }
            Self::Words(numbers) => update(Arc::make_mut(numbers).as_mut_slice(), with, next),
        }
    }

    /// The number of rows of `width` numbers without one below `bound`.
    #[must_use]
    pub fn rows_from(&self, bound: u16, width: usize) -> usize {
        match self {
            Self::Bytes(numbers) => rows_from(numbers, bound, width),
            Self::Words(numbers) => rows_from(numbers, bound, width),
        }
    }
}

fn update<T: Copy + Send>(numbers: &mut [T], with: &[f32], next: impl Fn(T, f32) -> T + Sync) {
    numbers.par_chunks_mut(PART).zip(with.par_chunks(PART)).for_each(|(numbers, with)| {
        numbers.iter_mut().zip(with).for_each(|(number, x)| *number = next(*number, *x));
    });
}

fn rows_from<T: Copy + Into<u16> + Sync>(numbers: &[T], bound: u16, width: usize) -> usize {
    let all = |row: &&[T]| row.iter().all(|number| (*number).into() >= bound);
    // Short rows share a thread.
    numbers.par_chunks_exact(width).with_min_len(PART.div_ceil(width)).filter(all).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_what_they_were_in_one_byte_or_two() {
        for numbers in [vec![], vec![0, 255, 7], vec![0, 256, 65_535]] {
            let small = PackedInts::new(numbers.clone());
            assert_eq!(matches!(small, PackedInts::Bytes(_)), !numbers.contains(&256));
            assert_eq!(small.part(0..small.len()), numbers);
        }
        assert_eq!(PackedInts::new(vec![1, 2, 3, 4]).part(1..3), [2, 3]);
    }

    #[test]
    fn bytes_end_at_their_largest_and_rows_need_all() {
        let next = |old: u16, x: f32| if x < 1.0 { old.saturating_add(1) } else { 0 };
        let mut small = PackedInts::zeros(4, 255);
        for _ in 0..300 {
            small.update(&[0.0, 0.0, 0.0, 2.0], next);
        }
        assert_eq!(small, PackedInts::Bytes(Arc::new(vec![255, 255, 255, 0])));
        assert_eq!([1, 2, 4].map(|width| small.rows_from(255, width)), [3, 1, 0]);
        let mut large = PackedInts::zeros(1, 256);
        (0..300).for_each(|_| large.update(&[0.0], next));
        assert_eq!((large.rows_from(300, 1), large.rows_from(301, 1)), (1, 0));
        assert_eq!(large.up_to(255).part(0..1), [255]);
        assert!(matches!(PackedInts::new(vec![3]).up_to(256), PackedInts::Words(numbers) if *numbers == [3]));
    }
}
