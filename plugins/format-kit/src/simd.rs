//! The loops of this crate, compiled for each width of SIMD registers; the CPU decides when they are called.
//!
//! Plugins are built for any x86-64 (or another CPU) and need not be built again. Results are bit-identical on every
//! CPU: the loops fix the order of additions, and nothing is fused.

use multiversion::multiversion;

use crate::{
    histogram::Histogram,
    piece::{self, Group, LaneScales, Seen},
    round::{Mode, Rounder},
};

/// [`piece::quantize`].
#[multiversion(targets(
    "x86_64+avx2+avx512f+avx512bw+avx512cd+avx512dq+avx512vl+bmi1+bmi2+fma",
    "x86_64+avx2+bmi1+bmi2+fma"
))]
pub(crate) fn quantize<R: Mode, const CODES: bool, const E: u32, const M: u32, S: LaneScales>(
    rounder: &Rounder<E, M>,
    src: &[Group<f32>],
    dst: &mut [Group<f32>],
    scales: S,
    words: &[Group<u32>],
    histogram: &mut Histogram<'_>,
) -> Seen {
    piece::quantize::<R, CODES, E, M, S>(rounder, src, dst, scales, words, histogram)
}

/// [`piece::encode`].
#[multiversion(targets(
    "x86_64+avx2+avx512f+avx512bw+avx512cd+avx512dq+avx512vl+bmi1+bmi2+fma",
    "x86_64+avx2+bmi1+bmi2+fma"
))]
pub(crate) fn encode<R: Mode, const E: u32, const M: u32, S: LaneScales>(
    rounder: &Rounder<E, M>,
    src: &[Group<f32>],
    codes: &mut [Group<u16>],
    scales: S,
    words: &[Group<u32>],
) {
    piece::encode::<R, E, M, S>(rounder, src, codes, scales, words);
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_plugin_api::{Domain, RandomKey};

    use super::*;
    use crate::{
        piece::LANES,
        random::{self, fill},
        round::{NearestAway, NearestEven, Stochastic, TowardZero},
    };

    /// As [`quantize`], on AVX2 at most.
    #[multiversion(targets("x86_64+avx2+bmi1+bmi2+fma"))]
    fn quantize_narrow<R: Mode, const E: u32, const M: u32>(
        rounder: &Rounder<E, M>,
        src: &[Group<f32>],
        dst: &mut [Group<f32>],
        words: &[Group<u32>],
        histogram: &mut Histogram<'_>,
    ) -> Seen {
        piece::quantize::<R, true, E, M, _>(rounder, src, dst, SCALES, words, histogram)
    }

    /// As [`fill`], on AVX2 at most.
    #[multiversion(targets("x86_64+avx2+bmi1+bmi2+fma"))]
    fn fill_narrow(key: &RandomKey, first: u64, words: &mut [u32]) {
        random::fill_inline(key, first, words);
    }

    const GROUPS: usize = 130;
    const SCALES: &[[f32; 2]] = &[[3.7, 1.0 / 3.7]; GROUPS];

    fn words(fill: impl Fn(&RandomKey, u64, &mut [u32])) -> [Group<u32>; GROUPS] {
        let mut words = [[0; LANES]; GROUPS];
        fill(
            &RandomKey { seed: 7, step: 8, tensor: 9, offset: (1 << 34) - 1000 },
            3,
            words.as_flattened_mut(),
        );
        words
    }

    /// Magnitudes from far below to far above the grid's; the last group has NaN and infinities.
    fn inputs() -> [Group<f32>; GROUPS] {
        let mut inputs =
            words(fill).map(|group| group.map(|word| f32::from_bits((word & 0x8fff_ffff) + (0x38 << 23))));
        inputs[GROUPS - 1][..4].copy_from_slice(&[f32::NAN, f32::INFINITY, -f32::NAN, 0.0]);
        inputs
    }

    /// Bits of the values, statistics, and the count of each code.
    fn made<const E: u32, const M: u32>(
        rounder: &Rounder<E, M>,
        quantize: impl Fn(&[Group<f32>], &mut [Group<f32>], &mut Histogram<'_>) -> Seen,
    ) -> (Vec<u32>, String, Vec<u64>) {
        let (mut dst, mut total) = ([[0.0; LANES]; GROUPS], vec![0; rounder.grid().codes()]);
        let seen = quantize(&inputs(), &mut dst, &mut Histogram::new(&mut total));
        (dst.as_flattened().iter().map(|y| y.to_bits()).collect(), format!("{seen:?}"), total)
    }

    fn check<R: Mode, const E: u32, const M: u32>() {
        let (rounder, words) = (Rounder::<E, M>::new(Domain::IEEE).unwrap(), words(fill));
        let here = made(&rounder, |src, dst, histogram| {
            quantize::<R, true, E, M, _>(&rounder, src, dst, SCALES, &words, histogram)
        });
        let narrow = made(&rounder, |src, dst, histogram| {
            quantize_narrow::<R, E, M>(&rounder, src, dst, &words, histogram)
        });
        let narrowest = made(&rounder, |src, dst, histogram| {
            piece::quantize::<R, true, E, M, _>(&rounder, src, dst, SCALES, &words, histogram)
        });
        assert!(here == narrow && narrow == narrowest, "E{E}M{M}");
    }

    /// Widths that this CPU lacks are not tried.
    #[test]
    fn every_width_gives_the_same() {
        assert!(words(fill) == words(fill_narrow) && words(fill) == words(random::fill_inline));
        check::<NearestEven, 5, 2>();
        check::<NearestEven, 4, 3>();
        check::<NearestEven, 1, 6>();
        check::<NearestEven, 7, 0>();
        check::<NearestEven, 8, 7>();
        check::<NearestAway, 4, 3>();
        check::<TowardZero, 4, 3>();
        check::<Stochastic, 4, 3>();
        check::<Stochastic, 7, 0>();
        check::<Stochastic, 8, 7>();
    }
}
