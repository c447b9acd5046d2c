//! Formats, matrices and one call for a whole cast.

use altgrad_casts::{Applied, Axis, Cast, CastError, Grid, Shape};
use altgrad_plugin_api::{
    Conventions, Domain, FormatSpec, PluginError, QuantParams, RandomKey, Rounding, grid::minifloat,
};

/// The formats of MX and NVFP4 by name.
pub(crate) fn grid(name: &str) -> Grid {
    let mini = |e, m, domain| FormatSpec::Minifloat(minifloat(e, m, domain).unwrap());
    let spec = match name {
        "E4M3" => mini(4, 3, Domain::FN),
        "E5M2" => mini(5, 2, Domain::IEEE),
        "E2M1" => mini(2, 1, Domain::FIN),
        "E2M3" => mini(2, 3, Domain::FIN),
        "E3M2" => mini(3, 2, Domain::FIN),
        "E8M7" => mini(8, 7, Domain::IEEE),
        // MX's INT8 without -2: whole multiples of 1/64, two's complement; the code of -2 means -127/64 again.
        "INT8" => FormatSpec::Table((0..=255u8).map(|k| f32::from((k as i8).max(-127)) / 64.0).collect()),
        // Sign, a whole bit and two bits of the fraction.
        "INT4" => mini(0, 3, Domain::FIN),
        _ => panic!("{name}"),
    };
    Grid::new(&spec, &Conventions::default()).unwrap()
}

pub(crate) const FORMATS: [&str; 6] = ["E4M3", "E5M2", "E2M1", "E2M3", "E3M2", "INT8"];

/// A cast of a matrix by rows, rounded by the grid itself.
pub(crate) fn apply(cast: &Cast, grid: &Grid, values: &[f32], shape: [usize; 2]) -> Applied {
    apply_along(cast, grid, values, shape, Axis::Rows).unwrap()
}

pub(crate) fn apply_along(
    cast: &Cast,
    grid: &Grid,
    values: &[f32],
    [rows, columns]: [usize; 2],
    axis: Axis,
) -> Result<Applied, CastError> {
    let key = RandomKey { seed: 3, ..RandomKey::default() };
    let prepared = cast.prepare(grid, values, Shape { rows, columns }, axis, &key)?;
    let rounder = grid.rounder().unwrap();
    let encode = |scaled: &[f32], rounding: Rounding| -> Result<Vec<u16>, PluginError> {
        let mut codes = vec![0; scaled.len()];
        let params = QuantParams { rounding, key, ..QuantParams::IDENTITY };
        rounder.encode(scaled, &mut codes, &params).map(|()| codes)
    };
    let codes = cast.codes(grid, prepared.scaled(), &RandomKey::default(), encode).unwrap();
    prepared.finish(grid, codes)
}

/// Numbers of all sizes: random significands, signs, and exponents from a range that moves.
pub(crate) fn numbers(count: usize, seed: u32, exponents: std::ops::Range<u32>) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    let mut word = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    };
    let span = exponents.end - exponents.start;
    (0..count)
        .map(|_| {
            let exponent = exponents.start + word() % span;
            f32::from_bits((word() & 0x807f_ffff) | exponent << 23)
        })
        .collect()
}

/// Bits, so that signs of zeros and NaN are compared.
pub(crate) fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}
