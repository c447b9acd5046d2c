//! Scales: factors that bring the values of a tensor into the range of a format.
//!
//! `scale = target / (amax * 2^margin)`, one f32 division, kept between 2^-126 and 2^126 so that scale and inverse
//! are normal numbers; 1 where there is no finite value but zero. Definitions: docs/numerics.md, section 4.1.

/// Largest scale; its inverse is the smallest.
const LARGEST: f32 = f32::from_bits((127 + 126) << 23);

/// How a scale follows from the largest magnitude.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScaleRule {
    /// The magnitude that amax is scaled to: what the format declares, or its largest finite value.
    pub target: f32,
    /// Binades left free above amax.
    pub margin: i32,
    /// Whether scales are rounded down to powers of two.
    pub pow2: bool,
    /// Consecutive elements that share a scale; divides the tensor's length. `None`: the whole tensor.
    pub group: Option<usize>,
}

impl ScaleRule {
    /// The scale for a largest finite magnitude, and its inverse rounded once.
    #[must_use]
    pub fn scale(&self, amax: f32) -> [f32; 2] {
        if amax == 0.0 {
            return [1.0, 1.0];
        }
        // A power of two changes no significand: the division below is the only rounding.
        let scale = (self.numerator() / amax).clamp(1.0 / LARGEST, LARGEST);
        let scale = if self.pow2 { f32::from_bits(scale.to_bits() & 0x7f80_0000) } else { scale };
        [scale, 1.0 / scale]
    }

    /// The scale and inverse of each group of `group` consecutive elements, one pair of `scales` each; the last may
    /// be shorter.
    pub(crate) fn group_scales(&self, values: &[f32], group: usize, scales: &mut [[f32; 2]]) {
        let mut amax = vec![0.0; scales.len()];
        group_amax(values, group, &mut amax);
        scales.iter_mut().zip(amax).for_each(|(pair, amax)| *pair = self.scale(amax));
    }

    /// `target * 2^-margin`.
    pub(super) fn numerator(&self) -> f32 {
        (f64::from(self.target) * 2f64.powi(-self.margin)) as f32
    }

    /// Elements a group, for a tensor of `elements`.
    #[must_use]
    pub fn group_len(&self, elements: usize) -> usize {
        self.group.unwrap_or(elements).max(1)
    }
}

/// Where the scales of a fake quantization come from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ScaleSource {
    /// One for the whole tensor: scale and inverse.
    Fixed([f32; 2]),
    /// Computed from the values of the tensor.
    Dynamic(ScaleRule),
}

impl ScaleSource {
    /// Scale 1.
    pub const ONE: Self = Self::Fixed([1.0, 1.0]);

    /// Whether the whole tensor shares one scale.
    #[must_use]
    pub fn is_per_tensor(&self) -> bool {
        match self {
            Self::Fixed(_) => true,
            Self::Dynamic(rule) => rule.group.is_none(),
        }
    }
}

/// Scales with their inverses, from the elements of a tensor `[groups, 2]`.
pub(super) fn scale_pairs(scales: &[f32]) -> &[[f32; 2]] {
    scales.as_chunks().0
}

/// Largest finite magnitude; 0 if there is none.
#[multiversion::multiversion(targets("x86_64+avx2+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
#[must_use]
pub fn amax(values: &[f32]) -> f32 {
    amax_inline(values)
}

/// The largest finite magnitudes of groups of `group` consecutive elements, one per entry of `amax`.
#[multiversion::multiversion(targets("x86_64+avx2+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
fn group_amax(values: &[f32], group: usize, amax: &mut [f32]) {
    for (values, amax) in values.chunks(group).zip(amax) {
        *amax = amax_inline(values);
    }
}

#[inline(always)]
fn amax_inline(values: &[f32]) -> f32 {
    const INFINITY: u32 = 0x7f80_0000;
    const LANES: usize = 16;
    // Magnitudes of f32 compare like their bits. A lane each, so that the loop vectorises.
    let finite = |x: f32| {
        let bits = x.to_bits() & 0x7fff_ffff;
        if bits < INFINITY { bits } else { 0 }
    };
    let (groups, rest) = values.as_chunks::<LANES>();
    let mut most = [0; LANES];
    for group in groups {
        for i in 0..LANES {
            most[i] = most[i].max(finite(group[i]));
        }
    }
    let rest = rest.iter().map(|&x| finite(x)).max().unwrap_or(0);
    f32::from_bits(most.into_iter().max().unwrap_or(0).max(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const E4M3: ScaleRule = ScaleRule { target: 448.0, margin: 0, pow2: false, group: None };

    #[test]
    fn amax_is_scaled_to_the_largest_value_of_the_format() {
        assert_eq!(E4M3.scale(2.0), [224.0, 1.0 / 224.0]);
        assert_eq!(ScaleRule { margin: 1, ..E4M3 }.scale(2.0)[0], 112.0);
        assert_eq!(ScaleRule { margin: -1, ..E4M3 }.scale(2.0)[0], 448.0);
        assert_eq!(ScaleRule { pow2: true, ..E4M3 }.scale(2.0), [128.0, 1.0 / 128.0]);
    }

    #[test]
    fn empty_and_extreme_tensors_have_a_finite_scale() {
        assert_eq!(E4M3.scale(0.0), [1.0, 1.0]);
        assert_eq!(amax(&[0.0, f32::NAN, f32::NEG_INFINITY]), 0.0);
        assert_eq!(amax(&[-3.0, f32::NAN, f32::INFINITY, 2.0]), 3.0);
        let long: Vec<f32> = (0..100).map(|i| [i as f32, f32::NAN, -1e9][i % 3]).collect();
        assert_eq!(amax(&long[..2]), 0.0);
        assert_eq!((amax(&long), amax(&long[..90]), amax(&long[99..])), (1e9, 1e9, 99.0));
        // E7M0's largest value over f32's smallest: beyond f32.
        let e7m0 = ScaleRule { target: 2f32.powi(64), ..E4M3 };
        assert_eq!(e7m0.scale(f32::from_bits(1)), [2f32.powi(126), 2f32.powi(-126)]);
        assert_eq!(E4M3.scale(f32::MAX)[0], 448.0 / f32::MAX);
    }
}
