//! Random Hadamard transforms: rotations that spread outliers over the elements of a tile.
//!
//! `y = x diag(v) H / sqrt(n)`, with Sylvester's matrix H and signs v, for each `n` consecutive elements `x` along the
//! axis. Both operands of a product are rotated alike, along the contraction; the rotations cancel in the product.
//! Sources: arXiv:2509.25149 (NVFP4: n = 16 on both operands of the weight gradient), arXiv:2505.14669 (Quartet: n =
//! 32).

use altgrad_plugin_api::{RandomKey, random::Words};

use crate::{Axis, CastError, Shape, nearest_bf16};

/// Transformer Engine's signs for tiles of 16, the same for all layers and steps.
const TE_SIGNS: [i8; 16] = [1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1];

/// Element at which the signs' random words begin; no tensor has as many elements.
pub const SIGNS_OFFSET: u64 = 1 << 63;

/// The signs v.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Signs {
    /// All 1.
    #[default]
    None,
    /// Those of Transformer Engine and torchao; for tiles of 16 only.
    Te,
    /// Drawn once for all tiles of the tensor: the sign of element `i` is the lowest bit of the random word with index
    /// `2^63 + i` of the key's tensor, a set bit being -1.
    Seed,
}

/// A Hadamard transform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hadamard {
    /// Elements of a tile: a power of two, 2 to 256.
    pub size: usize,
    /// Signs.
    pub signs: Signs,
    /// True if results are rounded to bf16, ties to even, as in Transformer Engine's kernels, before amax is taken.
    pub to_bf16: bool,
}

impl Hadamard {
    pub(crate) fn check(self) -> Result<(), CastError> {
        if !self.size.is_power_of_two() || !(2..=256).contains(&self.size) {
            let message =
                format!("`transform.hadamard` must be a power of two from 2 to 256, found {}", self.size);
            return Err(CastError::fields(message, "NVFP4 has 16, Quartet 32"));
        }
        if self.signs == Signs::Te && self.size != TE_SIGNS.len() {
            let message = format!("`transform.signs` is te, but a transform has {} elements", self.size);
            return Err(CastError::fields(message, "these signs are 16; use seed or none for other sizes"));
        }
        Ok(())
    }

    /// The transformed matrix.
    ///
    /// Sums are f32, in the order of the fast transform: elements at distance 1 first, then 2, 4 and so on; the factor
    /// `1/sqrt(size)`, rounded to f32, comes last.
    ///
    /// # Errors
    /// [`CastError::Transform`]: the axis is no whole number of tiles.
    pub fn apply(
        self,
        values: &[f32],
        shape: Shape,
        axis: Axis,
        key: &RandomKey,
    ) -> Result<Vec<f32>, CastError> {
        self.check()?;
        shape.check(values.len())?;
        let (length, stride) = match axis {
            Axis::Rows => (shape.columns, 1),
            Axis::Columns => (shape.rows, shape.columns),
        };
        if !length.is_multiple_of(self.size) {
            return Err(CastError::Transform { length, size: self.size });
        }
        let mut result = values.to_vec();
        if axis == Axis::Rows {
            self.rotate(&mut result, key);
            return Ok(result);
        }
        let signs = self.signs(key);
        let mut tile = vec![0.0; self.size];
        for first in self.firsts(shape) {
            for (i, x) in tile.iter_mut().enumerate() {
                *x = values[first + i * stride];
            }
            self.rotate_tile(&mut tile, &signs);
            for (i, y) in tile.iter().enumerate() {
                result[first + i * stride] = *y;
            }
        }
        Ok(result)
    }

    /// Transforms consecutive tiles in place, such as the rows of a matrix whose width is a whole number of them. What
    /// is left of a last tile stays as it is.
    pub fn rotate(self, elements: &mut [f32], key: &RandomKey) {
        let signs = self.signs(key);
        match self.size {
            16 => self.rotate_tiles::<16>(elements, &signs),
            32 => self.rotate_tiles::<32>(elements, &signs),
            _ => elements.chunks_exact_mut(self.size).for_each(|tile| self.rotate_tile(tile, &signs)),
        }
    }

    /// [`Self::rotate_tile`] of consecutive tiles of a size known at compile time, so that they stay in registers.
    fn rotate_tiles<const N: usize>(self, elements: &mut [f32], signs: &[f32]) {
        for tile in elements.as_chunks_mut::<N>().0 {
            self.rotate_tile(tile, signs);
        }
    }

    /// The inverse of [`Self::rotate`], which is its transpose: the transform of gradients of transformed elements. Not
    /// rounded to bf16.
    pub fn rotate_back(self, elements: &mut [f32], key: &RandomKey) {
        let (signs, factor) = (self.signs(key), self.factor());
        for tile in elements.chunks_exact_mut(self.size) {
            transform(tile);
            tile.iter_mut().zip(&signs).for_each(|(x, sign)| *x *= factor * sign);
        }
    }

    #[inline(always)]
    fn rotate_tile(self, tile: &mut [f32], signs: &[f32]) {
        tile.iter_mut().zip(signs).for_each(|(x, sign)| *x *= sign);
        transform(tile);
        let factor = self.factor();
        for y in tile {
            *y = if self.to_bf16 { nearest_bf16(*y * factor) } else { *y * factor };
        }
    }

    /// `1/sqrt(size)`, rounded.
    #[must_use]
    pub fn factor(self) -> f32 {
        (1.0 / (self.size as f64).sqrt()) as f32
    }

    /// Index of the first element of each tile of columns.
    fn firsts(self, Shape { rows, columns }: Shape) -> Vec<usize> {
        let rows = (0..rows).step_by(self.size);
        rows.flat_map(|row| (0..columns).map(move |column| row * columns + column)).collect()
    }

    /// The signs of a tile, 1 and -1; `key` gives random ones.
    #[must_use]
    pub fn signs(self, key: &RandomKey) -> Vec<f32> {
        match self.signs {
            Signs::None => vec![1.0; self.size],
            Signs::Te => TE_SIGNS.iter().map(|sign| f32::from(*sign)).collect(),
            Signs::Seed => {
                let words = Words::new(&RandomKey { offset: SIGNS_OFFSET, ..*key });
                words.take(self.size).map(|word| if word & 1 == 0 { 1.0 } else { -1.0 }).collect()
            }
        }
    }
}

/// The fast Walsh-Hadamard transform, in place: sums and differences at distances 1, 2, 4 and so on.
#[inline(always)]
fn transform(tile: &mut [f32]) {
    let mut distance = 1;
    while distance < tile.len() {
        for pair in tile.chunks_exact_mut(2 * distance) {
            let (left, right) = pair.split_at_mut(distance);
            for (a, b) in left.iter_mut().zip(right) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        distance *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entry of Sylvester's matrix: (-1)^(number of common bits).
    fn entry(i: usize, j: usize) -> f64 {
        if (i & j).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 }
    }

    #[test]
    fn it_is_the_product_with_sylvesters_matrix() {
        // Whole numbers up to 100: sums are exact in f32.
        let shape = Shape { rows: 2, columns: 32 };
        let x: Vec<f32> = (0..64).map(|i| ((i * 37) % 201) as f32 - 100.0).collect();
        let transform = Hadamard { size: 16, signs: Signs::Te, to_bf16: false };
        let y = transform.apply(&x, shape, Axis::Rows, &RandomKey::default()).unwrap();
        for (tile, got) in y.chunks(16).enumerate() {
            for (j, got) in got.iter().enumerate() {
                let sum: f64 =
                    (0..16).map(|i| f64::from(x[16 * tile + i]) * f64::from(TE_SIGNS[i]) * entry(i, j)).sum();
                assert_eq!(f64::from(*got), sum / 4.0, "{tile} {j}");
            }
        }
    }

    #[test]
    fn columns_are_rotated_as_rows_of_the_transposed() {
        let x: Vec<f32> = (0..64).map(|i| (i as f32).sin()).collect();
        let transposed: Vec<f32> = (0..64).map(|i| x[i % 16 * 4 + i / 16]).collect();
        let transform = Hadamard { size: 8, signs: Signs::Seed, to_bf16: true };
        let key = RandomKey { seed: 5, ..RandomKey::default() };
        let down = transform.apply(&x, Shape { rows: 16, columns: 4 }, Axis::Columns, &key).unwrap();
        let along = transform.apply(&transposed, Shape { rows: 4, columns: 16 }, Axis::Rows, &key).unwrap();
        assert!((0..64).all(|i| down[i % 16 * 4 + i / 16] == along[i]));
        let other = transform.apply(&x, Shape { rows: 16, columns: 4 }, Axis::Columns, &RandomKey::default());
        assert_ne!(down, other.unwrap());
    }

    #[test]
    fn without_signs_twice_is_the_identity() {
        let x: Vec<f32> = (0..16).map(|i| i as f32).collect();
        let (shape, key) = (Shape { rows: 1, columns: 16 }, RandomKey::default());
        let transform = Hadamard { size: 16, signs: Signs::None, to_bf16: false };
        let once = transform.apply(&x, shape, Axis::Rows, &key).unwrap();
        assert_eq!(once[0], 30.0);
        assert_eq!(transform.apply(&once, shape, Axis::Rows, &key).unwrap(), x);
    }

    #[test]
    fn rotating_back_is_the_inverse() {
        let x: Vec<f32> = (0..64).map(|i| (i as f32).cos()).collect();
        let key = RandomKey { seed: 3, ..RandomKey::default() };
        for signs in [Signs::None, Signs::Te, Signs::Seed] {
            let transform = Hadamard { size: 16, signs, to_bf16: false };
            let mut y = x.clone();
            transform.rotate(&mut y, &key);
            assert!(x.iter().zip(&y).any(|(x, y)| (x - y).abs() > 0.1));
            transform.rotate_back(&mut y, &key);
            assert!(x.iter().zip(&y).all(|(x, y)| (x - y).abs() < 1e-6), "{signs:?}");
        }
    }

    #[test]
    fn impossible_transforms_are_refused() {
        let refused = |size, signs, columns| {
            let transform = Hadamard { size, signs, to_bf16: false };
            let shape = Shape { rows: 1, columns };
            transform.apply(&vec![0.0; columns], shape, Axis::Rows, &RandomKey::default()).is_err()
        };
        assert!(refused(12, Signs::None, 12) && refused(1, Signs::None, 4) && refused(512, Signs::None, 512));
        assert!(refused(32, Signs::Te, 32) && refused(16, Signs::Te, 24));
        assert!(!refused(32, Signs::Seed, 64));
    }
}
