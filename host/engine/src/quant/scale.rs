//! Scales: factors that bring the values of a tensor into the range of a format.
//!
//! [`altgrad_casts`] defines the scale of a block. This module has the blocks of a tensor's consecutive elements, and
//! the source of the scales of a call. Definitions: docs/numerics.md, sections 4.1 and 4.5.

use altgrad_casts::{BlockStatistics, Range, Scaling, TensorScale};
#[cfg(feature = "gpu")]
use altgrad_casts::{Limit, Storage};

/// The derivation of scales from the elements of a tensor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScaleRule {
    /// The properties of the format that scales need.
    pub range: Range,
    /// The derivation of a block's scale from its elements.
    pub scaling: Scaling,
    /// Consecutive elements that share a scale; divides the tensor's length. `None`: the whole tensor.
    pub group: Option<usize>,
}

impl ScaleRule {
    /// `scale = target / (amax * 2^margin)`, one f32 division, kept between 2^-126 and 2^126 so that scale and inverse
    /// are normal numbers; 1 where there is no finite value but zero. With `pow2` rounded down to a power of two.
    /// `target` is the format's largest value, unless [`Self::of_largest`] says otherwise.
    #[must_use]
    pub fn max(target: f32, margin: i32, pow2: bool, group: Option<usize>) -> Self {
        let scaling = Scaling { margin, pow2, ..Scaling::default() };
        Self { range: Range::of(target, target), scaling, group }
    }

    /// The same for a format whose largest finite magnitude is `largest`.
    #[must_use]
    pub fn of_largest(self, largest: f32) -> Self {
        Self { range: Range::of(self.range.target, largest), ..self }
    }

    /// The scale of a tensor of one block with this largest finite magnitude, and the factor of codes: its inverse, or
    /// the stored scale.
    #[must_use]
    pub fn scale(&self, amax: f32) -> [f32; 2] {
        let block = BlockStatistics::of_amax(amax);
        self.pair(&block, &[block])
    }

    /// The scale of a block, and the factor of codes. `all` are the blocks of the tensor, if it has a scale of its own.
    fn pair(&self, block: &BlockStatistics, all: &[BlockStatistics]) -> [f32; 2] {
        let tensor = self.scaling.tensor_scale(&self.range, all);
        self.scaling.pair(&self.range, block, tensor.as_ref())
    }

    /// True if the scale is the one of [`Self::max`].
    #[must_use]
    pub fn is_plain(&self) -> bool {
        let plain = Scaling { margin: self.scaling.margin, pow2: self.scaling.pow2, ..Scaling::default() };
        self.scaling == plain
    }

    /// The scale and inverse of each group of `group` consecutive elements, one pair of `scales` each; the last may
    /// be shorter.
    pub(crate) fn group_scales(&self, values: &[f32], group: usize, scales: &mut [[f32; 2]]) {
        /// Groups whose magnitudes are computed at once.
        const GROUPS: usize = 64;
        if self.scaling.needs_amax_only() && !self.scaling.tensor {
            let mut amax = [0.0; GROUPS];
            for (scales, values) in scales.chunks_mut(GROUPS).zip(values.chunks(GROUPS * group)) {
                let amax = &mut amax[..scales.len()];
                group_amax(values, group, amax);
                self.scaling.pairs(&self.range, amax, None, scales);
            }
            return;
        }
        let blocks = self.statistics(values, group, scales.len());
        let tensor = self.scaling.tensor_scale(&self.range, &blocks);
        self.choose(values, group, &blocks, tensor.as_ref(), scales);
    }

    /// The scales of groups of elements with these statistics, chosen by their errors if the scaling has a choice.
    pub(super) fn choose(
        &self,
        values: &[f32],
        group: usize,
        blocks: &[BlockStatistics],
        tensor: Option<&TensorScale>,
        scales: &mut [[f32; 2]],
    ) {
        for ((pair, block), values) in scales.iter_mut().zip(blocks).zip(values.chunks(group)) {
            *pair = self.scaling.choose(&self.range, block, tensor, values);
        }
    }

    /// The statistics of `count` groups of `group` consecutive elements, on which their scales depend.
    pub(super) fn statistics(&self, values: &[f32], group: usize, count: usize) -> Vec<BlockStatistics> {
        if self.scaling.needs_amax_only() {
            let mut amax = vec![0.0; count];
            group_amax(values, group, &mut amax);
            return amax.into_iter().map(BlockStatistics::of_amax).collect();
        }
        values.chunks(group).map(|values| BlockStatistics::of(values, self.scaling.rule)).collect()
    }

    /// `target * 2^-margin`, at most the largest f32.
    #[cfg(feature = "gpu")]
    pub(super) fn numerator(&self) -> f32 {
        ((f64::from(self.range.target) * 2f64.powi(-self.scaling.margin)) as f32).min(f32::MAX)
    }

    /// True if scales are kept from `2^-126` to `2^126`.
    #[cfg(feature = "gpu")]
    pub(super) fn is_limited(&self) -> bool {
        self.scaling.limit == Limit::Normal && self.scaling.storage == Storage::F32
    }

    /// `target * 2^-margin` in f32.
    #[cfg(feature = "gpu")]
    pub(super) fn scaled_target(&self) -> f32 {
        self.range.target * 2f32.powi(-self.scaling.margin)
    }

    /// Elements per group, for a tensor of `elements`.
    #[must_use]
    pub fn group_len(&self, elements: usize) -> usize {
        self.group.unwrap_or(elements).max(1)
    }
}

/// The source of the scales of a fake quantization.
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

    /// True if the whole tensor shares one scale.
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

/// The largest finite magnitudes of groups of `group` consecutive elements, one per entry of `amax`. Infinity for a
/// group with infinities whose finite elements are zeros ([`BlockStatistics::of_amax`]).
#[multiversion::multiversion(targets("x86_64+avx2+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
pub(super) fn group_amax(values: &[f32], group: usize, amax: &mut [f32]) {
    for (values, amax) in values.chunks(group).zip(amax) {
        *amax = magnitude(amax_inline(values), values);
    }
}

/// `amax`, the largest finite magnitude of these values; infinity if it is 0, and one of them is infinite.
pub(super) fn magnitude(amax: f32, values: &[f32]) -> f32 {
    if amax == 0.0 && values.iter().any(|x| x.is_infinite()) { f32::INFINITY } else { amax }
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

    fn e4m3(margin: i32, pow2: bool) -> ScaleRule {
        ScaleRule::max(448.0, margin, pow2, None)
    }

    #[test]
    fn amax_is_scaled_to_the_largest_value_of_the_format() {
        assert_eq!(e4m3(0, false).scale(2.0), [224.0, 1.0 / 224.0]);
        assert_eq!(e4m3(1, false).scale(2.0)[0], 112.0);
        assert_eq!(e4m3(-1, false).scale(2.0)[0], 448.0);
        assert_eq!(e4m3(0, true).scale(2.0), [128.0, 1.0 / 128.0]);
    }

    #[test]
    fn empty_and_extreme_tensors_have_a_finite_scale() {
        assert_eq!(e4m3(0, false).scale(0.0), [1.0, 1.0]);
        assert_eq!(amax(&[0.0, f32::NAN, f32::NEG_INFINITY]), 0.0);
        assert_eq!(amax(&[-3.0, f32::NAN, f32::INFINITY, 2.0]), 3.0);
        let long: Vec<f32> = (0..100).map(|i| [i as f32, f32::NAN, -1e9][i % 3]).collect();
        assert_eq!(amax(&long[..2]), 0.0);
        assert_eq!((amax(&long), amax(&long[..90]), amax(&long[99..])), (1e9, 1e9, 99.0));
        // E7M0's largest value over f32's smallest: beyond f32.
        let e7m0 = ScaleRule::max(2f32.powi(64), 0, false, None);
        assert_eq!(e7m0.scale(f32::from_bits(1)), [2f32.powi(126), 2f32.powi(-126)]);
        assert_eq!(e4m3(0, false).scale(f32::MAX)[0], 448.0 / f32::MAX);
        // E3M4's and E2M1's largest values stay finite.
        for (largest, pow2) in [(31.0, false), (31.0, true), (6.0, false), (6.0, true), (448.0, true)] {
            let [_, inverse] = ScaleRule::max(largest, 0, pow2, None).scale(f32::MAX);
            assert!((largest * inverse).is_finite(), "{largest} {pow2}");
        }
    }

    /// A block whose magnitudes are all infinite has scale 1, as `altgrad_casts` defines it.
    #[test]
    fn an_infinity_among_zeros_has_scale_1() {
        let scaling = Scaling {
            rule: altgrad_casts::Rule::Floor,
            storage: altgrad_casts::Storage::E8m0,
            zero: altgrad_casts::ZeroBlock::Smallest,
            ..Scaling::default()
        };
        let rule = ScaleRule { range: Range::of(448.0, 448.0), scaling, group: Some(2) };
        let values = [0.0, f32::INFINITY, 0.0, f32::NAN, 256.0, f32::NEG_INFINITY];
        let mut scales = [[0.0; 2]; 3];
        rule.group_scales(&values, 2, &mut scales);
        assert_eq!(scales, [[1.0, 1.0], [2f32.powi(127), 2f32.powi(-127)], [1.0, 1.0]]);
        assert_eq!(super::super::cpu::dynamic_scales(&values, &rule), scales);
    }
}
