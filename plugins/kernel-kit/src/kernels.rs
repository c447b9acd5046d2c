//! The kernel of a format: fake quantization.
//!
//! Units stride over the data, so any number of cubes is right. Buffers and scalars come in the order that
//! [`crate::recipe`] lists. Outputs are two f32 multiplications around an integer rounding, in no expression that
//! a compiler could contract, so every device gives the same bits.

use cubecl_core as cubecl;
use cubecl_core::prelude::*;

use crate::{
    random::{self, Key},
    rounder::{Grid, INFINITY, MAGNITUDE, Mode, QUIET, Rounder, SIGN},
    tally::Tally,
};

/// `destination = round(source * scale) * inv_scale`, and statistics. `group` consecutive elements share a scale.
/// Random bits are not used.
#[cube(launch)]
pub fn fake_quant<R: Rounder, N: Size>(
    source: &[Vector<f32, N>],
    destination: &mut [Vector<f32, N>],
    parameters: &[f32],
    statistics: &mut [Atomic<u32>],
    sums: &mut [f32],
    seed_low: u32,
    seed_high: u32,
    step: u32,
    tensor: u32,
    offset_low: u32,
    offset_high: u32,
    group: u32,
    largest: u32,
    smallest: u32,
    edge: u32,
    significand_bits: u32,
    elements: u32,
    #[comptime] mode: Mode,
) {
    let key = Key { seed_low, seed_high, step, tensor, offset_low, offset_high };
    let grid = Grid { largest, smallest, edge, significand_bits };
    round_all::<R, N>(source, destination, parameters, statistics, sums, &key, &grid, group, elements, mode);
}

/// The same by random bits, of the step in a buffer: a replayed launch gets that of its own step.
#[cube(launch)]
pub fn fake_quant_random<R: Rounder, N: Size>(
    source: &[Vector<f32, N>],
    destination: &mut [Vector<f32, N>],
    parameters: &[f32],
    statistics: &mut [Atomic<u32>],
    sums: &mut [f32],
    step: &[u32],
    seed_low: u32,
    seed_high: u32,
    tensor: u32,
    offset_low: u32,
    offset_high: u32,
    group: u32,
    largest: u32,
    smallest: u32,
    edge: u32,
    significand_bits: u32,
    elements: u32,
) {
    let key = Key { seed_low, seed_high, step: step[0usize], tensor, offset_low, offset_high };
    let grid = Grid { largest, smallest, edge, significand_bits };
    round_all::<R, N>(
        source,
        destination,
        parameters,
        statistics,
        sums,
        &key,
        &grid,
        group,
        elements,
        comptime!(Mode::Stochastic),
    );
}

#[cube]
fn round_all<R: Rounder, N: Size>(
    source: &[Vector<f32, N>],
    destination: &mut [Vector<f32, N>],
    parameters: &[f32],
    statistics: &mut [Atomic<u32>],
    sums: &mut [f32],
    key: &Key,
    grid: &Grid,
    group: u32,
    elements: u32,
    #[comptime] mode: Mode,
) {
    let tally = Tally::new();
    let mut position = ABSOLUTE_POS;
    while position * N::value() < elements as usize {
        let x = source[position];
        let first = scale_of::<N>(position, group);
        let (scale, inv_scale) = (parameters[first], parameters[first + 1]);
        let words = random_words::<N>(position as u32, key, mode);
        let mut scaled = Vector::<f32, N>::empty();
        let mut y = Vector::<f32, N>::empty();
        #[unroll]
        for i in 0..N::value() {
            let product = x.extract(i) * scale;
            let bits = u32::reinterpret(product);
            let magnitude = R::value(bits & MAGNITUDE, words.extract(i), grid, mode);
            let rounded = f32::reinterpret(min(magnitude, grid.largest) | (bits & SIGN));
            scaled.insert(i, product);
            y.insert(i, keep_nan(x.extract(i), rounded * inv_scale));
        }
        destination[position] = y;
        tally.add::<N>(x, y, scaled, grid.largest);
        position += CUBE_COUNT * (CUBE_DIM as usize);
    }
    tally.finish(statistics, sums);
}

/// Place of the scale of a vector, whose group is `group` elements long.
#[cube]
fn scale_of<N: Size>(position: usize, group: u32) -> usize {
    (2u32 * ((position * N::value()) as u32 / group)) as usize
}

/// `y`, or `x` made quiet if it is NaN: devices differ in the payload of NaN after arithmetic.
#[cube]
fn keep_nan(x: f32, y: f32) -> f32 {
    let bits = u32::reinterpret(x);
    f32::reinterpret(select((bits & MAGNITUDE) > INFINITY, bits | QUIET, u32::reinterpret(y)))
}

/// Random words in the mode that uses them.
#[cube]
fn random_words<N: Size>(position: u32, key: &Key, #[comptime] mode: Mode) -> Vector<u32, N> {
    if comptime!(mode == Mode::Stochastic) {
        random::words::<N>(position, key)
    } else {
        Vector::<u32, N>::zeroed()
    }
}
