//! Statistics of any input, extraordinary ones included: NaN, infinities, squares that no f32 holds.
//!
//! The slow way that [`crate::piece`] falls back to: from input and output, sums in f64.

use std::array;

use altgrad_plugin_api::QuantStats;

use crate::round::{INFINITY, MAGNITUDE};

/// Partial sums: element i goes to sum `i % LANES`, and they are added in order at the end.
const LANES: usize = 8;

/// The statistics of quantizing `src` to `dst`; `scale` is each element's, `overflow_bits` are those of
/// the largest magnitude that does not count as overflow. Less than 2^32 elements.
pub(crate) fn statistics(
    src: &[f32],
    dst: &[f32],
    scale: impl Fn(usize) -> f32,
    overflow_bits: u32,
) -> QuantStats {
    let (mut amax, mut overflow, mut underflow, mut nan, mut nonzero) = (0u32, 0u32, 0u32, 0u32, 0u32);
    for (i, (&x, &y)) in src.iter().zip(dst).enumerate() {
        let magnitude = x.to_bits() & MAGNITUDE;
        let scaled = (x * scale(i)).to_bits() & MAGNITUDE;
        amax = amax.max(if magnitude < INFINITY { magnitude } else { 0 });
        overflow += u32::from((scaled > overflow_bits) & (scaled <= INFINITY));
        underflow += u32::from((magnitude != 0) & (y.to_bits() & MAGNITUDE == 0));
        nan += u32::from(magnitude > INFINITY);
        nonzero += u32::from(magnitude != 0);
    }
    let [sum_x2, sum_err2, sum_x_xhat] = sums(src, dst);
    QuantStats {
        amax: f32::from_bits(amax),
        overflow: overflow.into(),
        underflow: underflow.into(),
        nan: nan.into(),
        nonzero: nonzero.into(),
        sum_x2,
        sum_err2,
        sum_x_xhat,
    }
}

/// The sums of `x^2`, `(y - x)^2` and `x * y` over finite x. Products of two f32 are exact in f64.
fn sums(src: &[f32], dst: &[f32]) -> [f64; 3] {
    let mut sums = [[0.0; LANES]; 3];
    for (src, dst) in src.chunks(LANES).zip(dst.chunks(LANES)) {
        // Elements that are not finite, or missing from the last group, are zero, which adds nothing.
        let pair = |i: usize| match (src.get(i), dst.get(i)) {
            (Some(&x), Some(&y)) if x.is_finite() => (f64::from(x), f64::from(y)),
            _ => (0.0, 0.0),
        };
        let pairs: [(f64, f64); LANES] = array::from_fn(pair);
        for (i, (x, y)) in pairs.into_iter().enumerate() {
            sums[0][i] += x * x;
            sums[1][i] += (y - x) * (y - x);
            sums[2][i] += x * y;
        }
    }
    sums.map(|lanes| lanes.iter().sum())
}
