//! Inputs: everything where rounding is decided, and random bit patterns.

use altgrad_conformance::Random;
use altgrad_format_kit::MinifloatGrid;
use altgrad_plugin_api::{QuantParams, RandomKey, Rounding, Scales};

/// All rounding modes.
pub const MODES: [Rounding; 4] =
    [Rounding::NEAREST_EVEN, Rounding::NEAREST_AWAY, Rounding::TOWARD_ZERO, Rounding::STOCHASTIC];

/// A power of two, one that is none, and a large one.
pub const SCALES: [f32; 3] = [1.0, 0.75, 1024.0];

/// Special values, all grid points and midpoints with their f32 neighbours, every binade, then random bit patterns:
/// `random` of them, and up to three more so that the length is a multiple of 4.
#[must_use]
pub fn patterns(grid: &MinifloatGrid, scale: f32, random: usize) -> Vec<f32> {
    let mut bits: Vec<u32> = vec![
        0,
        1,
        2,
        0x007f_ffff,
        0x0080_0000,
        0x0080_0001,
        0x7f7f_ffff,
        0x7f80_0000,
        0x7f80_0001,
        0x7fa5_5aa5,
        0x7fc0_0000,
        0x7fc1_2345,
        0x7fff_ffff,
    ];
    let mut around = |x: f64| {
        // The input whose scaled value meets the point: neighbours cover the rounding of the division.
        let near = ((x / f64::from(scale)) as f32).to_bits() & 0x7fff_ffff;
        bits.extend((near.saturating_sub(2)..=near + 2).filter(|&bits| bits <= 0x7f80_0000));
    };
    for code in 0..=grid.max_code() {
        let (a, b) = (f64::from(grid.decode(code)), grid.phi_inverse(f64::from(code) + 1.0));
        around(a);
        around(f64::midpoint(a, b));
    }
    for exponent in 0..255 {
        for significand in 0..16 {
            bits.push(exponent << 23 | significand << 19);
        }
    }
    let negative: Vec<u32> = bits.iter().map(|bits| bits | 1 << 31).collect();
    bits.extend(negative);
    let mut random_bits = Random(42);
    let len = (bits.len() + random).next_multiple_of(4);
    bits.extend((bits.len()..len).map(|_| random_bits.next_u32()));
    bits.into_iter().map(f32::from_bits).collect()
}

/// Normally distributed data times `unit`.
#[must_use]
pub fn gaussian(len: usize, unit: f32) -> Vec<f32> {
    let mut random = Random(7);
    (0..len).map(|_| random.gaussian() as f32 * unit).collect()
}

/// Parameters of a launch with one scale and its inverse; the key's offset carries into its high word within the data.
#[must_use]
pub fn params(pair: &[f32; 2], rounding: Rounding, vector: u32) -> QuantParams<'_> {
    let offset = (5 << 32) - if vector == 4 { 4096 } else { 4095 };
    let key = RandomKey { seed: 0x0123_4567_89ab_cdef, step: 7, tensor: 3, offset };
    QuantParams { scales: Scales::whole(pair), rounding, key }
}
