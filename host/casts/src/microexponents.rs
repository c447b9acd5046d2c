//! Shared microexponents: nested sub-blocks of a block, whose elements share one more factor of 1 or 2 each.
//!
//! Of the binades that the factors of a block cover together, a sub-block takes as many as its largest magnitude needs.
//! One level of 2 elements is that of Microsoft's MX formats (arXiv:2302.08007), levels of 8 and 4 are those of
//! HiFloat4 (arXiv:2602.11287). A size that is repeated gives a factor of more bits.

use crate::{
    Axis, Block, BlockGrid, Shape,
    powers::{exp2, floor_log2},
};

/// The sizes of nested sub-blocks, in elements along the axis; the largest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Microexponents([u16; Self::MOST]);

impl Microexponents {
    /// Levels at most.
    pub const MOST: usize = 4;

    /// Sub-blocks of these sizes. `None` for more than [`Self::MOST`], for a size of 0, and where one does not divide
    /// the size before it.
    #[must_use]
    pub fn new(sizes: &[u16]) -> Option<Self> {
        let mut all = [0; Self::MOST];
        all.get_mut(..sizes.len())?.copy_from_slice(sizes);
        let nested = sizes.windows(2).all(|pair| pair[1] > 0 && pair[0].is_multiple_of(pair[1]));
        (nested && sizes.first() != Some(&0)).then_some(Self(all))
    }

    /// The sizes.
    pub fn sizes(&self) -> impl DoubleEndedIterator<Item = usize> + use<> {
        self.0.into_iter().filter(|size| *size > 0).map(usize::from)
    }

    /// Number of levels: binades that the factors cover.
    #[must_use]
    pub fn levels(&self) -> usize {
        self.sizes().count()
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.levels() == 0
    }

    /// The largest factor of an element: `2^levels`.
    pub(crate) fn largest(&self) -> f32 {
        exp2(self.levels() as i32)
    }

    /// Bits of factors for each element.
    #[must_use]
    pub fn bits_per_element(&self) -> f64 {
        self.sizes().map(|size| 1.0 / size as f64).sum()
    }

    /// Divides scaled elements by the factors of their sub-blocks, and returns the factors. `emax` is the exponent of
    /// the largest power of two of the format.
    pub(crate) fn divide(
        &self,
        scaled: &mut [f32],
        shape: Shape,
        axis: Axis,
        emax: i32,
    ) -> Option<MicroFactors> {
        let finest = self.sizes().next_back()?;
        let layout = BlockGrid::new(Block::Along(finest), shape, axis);
        let mut exponents = vec![0; layout.count()];
        // The levels below have as many binades as there are of them.
        for (size, below) in self.sizes().zip((0..self.levels()).rev()) {
            let level = BlockGrid::new(Block::Along(size), shape, axis);
            let mut largest = vec![0f32; level.count()];
            for (index, range) in level.runs() {
                let finite = scaled[range].iter().filter(|x| x.is_finite());
                largest[index] = finite.fold(largest[index], |largest, x| largest.max(x.abs()));
            }
            let has_factor =
                |index: usize| largest[index] > 0.0 && floor_log2(largest[index]) > emax + below as i32;
            for (_, range) in level.runs().filter(|(index, _)| has_factor(*index)) {
                scaled[range].iter_mut().for_each(|x| *x *= 0.5);
            }
            for (index, exponent) in exponents.iter_mut().enumerate() {
                *exponent += u8::from(has_factor(layout.within(index, &level)));
            }
        }
        Some(MicroFactors { layout, exponents })
    }
}

/// The factors of the smallest sub-blocks of a matrix.
#[derive(Debug, Clone)]
pub(crate) struct MicroFactors {
    /// The smallest sub-blocks.
    pub(crate) layout: BlockGrid,
    /// The exponent of the product of all factors of each.
    pub(crate) exponents: Vec<u8>,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn sizes_divide_each_other() {
        for sizes in [&[8, 4][..], &[2], &[4, 4], &[16, 8, 4, 2], &[]] {
            let micro = Microexponents::new(sizes).unwrap();
            assert!(micro.sizes().eq(sizes.iter().map(|size| usize::from(*size))), "{sizes:?}");
        }
        for sizes in [&[4, 8][..], &[0], &[6, 4], &[4, 0], &[16, 8, 4, 2, 1]] {
            assert_eq!(Microexponents::new(sizes), None, "{sizes:?}");
        }
    }

    /// Sub-blocks of 2 within 4 in a format whose largest power of two is 1.
    #[test]
    fn a_sub_block_has_the_binades_that_its_largest_magnitude_needs() {
        let micro = Microexponents::new(&[4, 2]).unwrap();
        let shape = Shape { rows: 1, columns: 10 };
        // The last sub-blocks are cut off.
        let mut x = [7.0, 1.0, 1.9, -3.9, 3.9, -2.0, 1.9, f32::INFINITY, f32::NAN, -4.0];
        let factors = micro.divide(&mut x, shape, Axis::Rows, 0).unwrap();
        assert_eq!(factors.exponents, [2, 1, 1, 0, 2]);
        assert_eq!(x[..7], [1.75, 0.25, 0.95, -1.95, 1.95, -1.0, 1.9]);
        assert_eq!((x[7], x[9]), (f32::INFINITY, -1.0));
        // The same down a column.
        let mut x = [7.0, 1.0, 1.9, -3.9];
        let factors = micro.divide(&mut x, Shape { rows: 4, columns: 1 }, Axis::Columns, 0).unwrap();
        assert_eq!((factors.exponents, x), (vec![2, 1], [1.75, 0.25, 0.95, -1.95]));
        // A factor of two bits: a size that is repeated.
        let micro = Microexponents::new(&[1, 1, 1]).unwrap();
        let mut x = [0.0, 1.9, 2.0, 4.0, 8.0, 100.0];
        let factors = micro.divide(&mut x, Shape { rows: 1, columns: 6 }, Axis::Rows, 0).unwrap();
        assert_eq!(factors.exponents, [0, 0, 1, 2, 3, 3]);
    }
}
