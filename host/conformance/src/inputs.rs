//! The inputs of format checks: edges of the grid, random bit patterns and random values.

use crate::{oracle::Oracle, random::Random};

/// Scales to try: one, powers of two, others, and one that puts ordinary data at the top of the range.
pub(crate) fn scales(oracle: &Oracle) -> [f32; 6] {
    let top = (oracle.range().1 / 4.0).clamp(1e-30, 1e30) as f32;
    [1.0, 3.7, 0.3, 2f32.powi(-9), 140.8, top]
}

/// Everything about the grid where rounding goes wrong, in stored units: every value, every midpoint and declared
/// threshold, one f32 step on both sides of each, half a step and more beyond the last, the ends of f32. No NaN.
pub(crate) fn edges(oracle: &Oracle) -> Vec<f32> {
    let values: Vec<f64> = oracle.values().collect();
    let mut edges = Vec::with_capacity(values.len() * 6 + 40);
    for pair in values.windows(2) {
        with_neighbours(pair[0] as f32, &mut edges);
        with_neighbours(f64::midpoint(pair[0], pair[1]) as f32, &mut edges);
    }
    for &threshold in oracle.thresholds() {
        with_neighbours(threshold as f32, &mut edges);
    }
    let last = values.len() - 1;
    let steps = [(values[last], values[last] - values[last - 1]), (values[0], values[0] - values[1])];
    for (end, step) in steps {
        for share in [0.0, 0.5, 1.0, 1.5, 100.0] {
            with_neighbours((end + share * step) as f32, &mut edges);
        }
    }
    let ends =
        [0.0, f32::from_bits(1), f32::MIN_POSITIVE.next_down(), f32::MIN_POSITIVE, f32::MAX, f32::INFINITY];
    edges.extend(ends);
    edges.extend(ends.map(|end| -end));
    edges
}

fn with_neighbours(x: f32, edges: &mut Vec<f32>) {
    edges.extend([x, x.next_up(), x.next_down()]);
}

/// Inputs that `scale` takes to the given stored values or next to them.
pub(crate) fn unscaled(stored: &[f32], scale: f32) -> Vec<f32> {
    if scale == 1.0 {
        return stored.to_vec();
    }
    let divided = stored.iter().map(|x| x / scale).filter(|x| !x.is_nan());
    divided.flat_map(|x| [x, x.next_up(), x.next_down()]).collect()
}

/// Random f32 bit patterns that are not NaN.
pub(crate) fn bit_patterns(count: usize, seed: u64) -> Vec<f32> {
    let mut random = Random(seed);
    let patterns = std::iter::repeat_with(|| f32::from_bits(random.next_u32()));
    patterns.filter(|x| !x.is_nan()).take(count).collect()
}

/// Random inputs of both signs, log-uniform from below the smallest value to beyond the largest.
pub(crate) fn in_range(oracle: &Oracle, scale: f32, count: usize, seed: u64) -> Vec<f32> {
    let mut random = Random(seed);
    let (low, high) = (oracle.min_positive() / 8.0, oracle.range().1 * 2.0);
    let (low, span) = (low.ln(), (high / low).ln());
    let value = |random: &mut Random| {
        let magnitude = (low + span * random.unit()).exp() / f64::from(scale);
        (if random.next_u64() & 1 == 0 { magnitude } else { -magnitude }) as f32
    };
    std::iter::repeat_with(|| value(&mut random)).take(count).collect()
}

/// A mixture of values, NaN and infinities included, for checks of the results beside rounding.
pub(crate) fn mixture(oracle: &Oracle, scale: f32, seed: u64) -> Vec<f32> {
    let mut mixed = in_range(oracle, scale, 20_000, seed);
    let stored = edges(oracle);
    let step = (stored.len() / 4000).max(1);
    mixed.extend(unscaled(&stored.into_iter().step_by(step).collect::<Vec<f32>>(), scale));
    mixed.extend(bit_patterns(5000, seed ^ 1));
    mixed.extend(NANS);
    mixed
}

/// Quiet, signalling, of both signs, with payloads.
pub(crate) const NANS: [f32; 5] = [
    f32::from_bits(0x7fc0_0000),
    f32::from_bits(0xffc0_0000),
    f32::from_bits(0x7f80_0001),
    f32::from_bits(0xff81_2345),
    f32::from_bits(0x7fff_ffff),
];
