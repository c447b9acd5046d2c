//! Dynamic range expansion: a block of a state is raised to a power before it is rounded, so that its values fill the
//! range of the format.
//!
//! Xi et al., "COAT: Compressing Optimizer states and Activation for Memory-Efficient FP8 Training" (arXiv:2410.19313,
//! section 4), as released. Definition: docs/numerics.md, section 9.8.

/// The smallest magnitude, which keeps the ratio of a block with zeros finite.
const LEAST: f32 = 1e-30;

/// The expansion of a format's range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RangeExpansion {
    /// Exponents are multiples of one over this, 1 or more.
    pub fraction: u32,
    /// The ratio of magnitudes that a block gets at most.
    pub target_ratio: f32,
}

impl RangeExpansion {
    /// Expands a block in place and returns its exponent and its center, both above 0. The identity for a block of
    /// equal magnitudes, and for one with a value that is not finite.
    pub fn apply(self, block: &mut [f32]) -> [f32; 2] {
        let magnitudes = || block.iter().map(|x| x.abs());
        let max = magnitudes().fold(0.0, f32::max) + LEAST;
        let min = magnitudes().fold(f32::INFINITY, f32::min) + LEAST;
        let ratio = (max / min).log2();
        if !(ratio.is_finite() && ratio > 0.0 && block.iter().all(|x| x.is_finite())) {
            return [1.0, 1.0];
        }
        let fraction = self.fraction as f32;
        let exponent = ((fraction * self.target_ratio.log2() / ratio).floor() / fraction).max(1.0 / fraction);
        let center = max.sqrt() * min.sqrt();
        block.iter_mut().for_each(|x| *x = (x.abs() / center).powf(exponent).copysign(*x));
        [exponent, center]
    }

    /// Undoes the expansion of a block.
    pub fn undo(block: &mut [f32], exponent: f32, center: f32) {
        let inverse = exponent.recip();
        block.iter_mut().for_each(|x| *x = (x.abs().powf(inverse) * center).copysign(*x));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// log2(448^2 / 2) = 16.61: magnitudes over 2 binades get 8.25 times as many.
    #[test]
    fn a_narrow_block_fills_the_range() {
        let expansion = RangeExpansion { fraction: 16, target_ratio: 448.0 * 448.0 / 2.0 };
        let mut block = [1.0, -2.0, 4.0];
        let [exponent, center] = expansion.apply(&mut block);
        assert_eq!((exponent, center), (8.25, 2.0));
        assert_eq!(block[1], -1.0);
        assert_eq!((block[0].log2(), block[2].log2()), (-8.25, 8.25));
        RangeExpansion::undo(&mut block, exponent, center);
        for (got, expected) in block.into_iter().zip([1.0f32, -2.0, 4.0]) {
            assert!((got - expected).abs() <= 1e-6 * expected.abs(), "{got} {expected}");
        }
    }

    #[test]
    fn blocks_without_a_ratio_stay_as_they_are() {
        let expansion = RangeExpansion { fraction: 16, target_ratio: 100_352.0 };
        for block in [[0.0; 3], [0.5, -0.5, 0.5], [f32::INFINITY, 1.0, 2.0]] {
            let mut expanded = block;
            assert_eq!((expansion.apply(&mut expanded), expanded), ([1.0, 1.0], block));
        }
    }

    #[test]
    fn zeros_stay_zeros_beside_other_values() {
        let expansion = RangeExpansion { fraction: 16, target_ratio: 100_352.0 };
        let mut block = [0.0, 1e-3, -4e-3];
        let [exponent, center] = expansion.apply(&mut block);
        assert!(exponent > 0.0 && center > 0.0 && block.iter().all(|x| x.is_finite()));
        RangeExpansion::undo(&mut block, exponent, center);
        assert_eq!(block[0], 0.0);
        assert!((block[1] - 1e-3).abs() < 1e-7 && (block[2] + 4e-3).abs() < 4e-7);
    }
}
