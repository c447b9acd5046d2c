//! The kernels of a format: fake quantization, encoding, decoding, histogram.
//!
//! Units stride over the data, so any number of cubes is right. Buffers and scalars come in the order that
//! [`crate::recipe`] lists. Outputs are two f32 multiplications around an integer rounding, in no expression that
//! a compiler could contract, so every device gives the same bits.

use cubecl_core as cubecl;
use cubecl_core::prelude::*;

use crate::{
    random::{self, Key},
    rounder::{INFINITY, MAGNITUDE, Mode, QUIET, Rounder, SIGN},
    tally::Tally,
};

/// What `encode` writes for a NaN if the format has none.
pub const NO_CODE: u32 = u32::MAX;

/// Codes of more bits are counted in global memory.
const SHARED_BITS: u32 = 8;

/// `destination = round(source * scale) * inv_scale`, and statistics. `group` consecutive elements share a scale.
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
    max_bits: u32,
    #[comptime] mode: Mode,
) {
    let key = Key { seed_low, seed_high, step, tensor, offset_low, offset_high };
    let tally = Tally::new();
    let mut position = ABSOLUTE_POS;
    while position < source.len() {
        let x = source[position];
        let first = scale_of::<N>(position, group);
        let (scale, inv_scale) = (parameters[first], parameters[first + 1]);
        let words = random_words::<N>(position as u32, &key, mode);
        let mut scaled = Vector::<f32, N>::empty();
        let mut y = Vector::<f32, N>::empty();
        #[unroll]
        for i in 0..N::value() {
            let product = x.extract(i) * scale;
            let bits = u32::reinterpret(product);
            let magnitude = R::value(bits & MAGNITUDE, words.extract(i), mode);
            let rounded = f32::reinterpret(min(magnitude, max_bits) | (bits & SIGN));
            scaled.insert(i, product);
            y.insert(i, keep_nan(x.extract(i), rounded * inv_scale));
        }
        destination[position] = y;
        tally.add::<N>(x, y, scaled, max_bits);
        position += CUBE_COUNT * (CUBE_DIM as usize);
    }
    tally.finish(statistics, sums);
}

/// Place of the scale of a vector, whose group is `group` elements long.
#[cube]
fn scale_of<N: Size>(position: usize, group: u32) -> usize {
    (2u32 * ((position * N::value()) as u32 / group)) as usize
}

/// `y`, or `x` made quiet if it is NaN: devices differ in what arithmetic does to a NaN's payload.
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

/// The code of `x * scale` with its sign; a NaN gives `nan_code`, [`NO_CODE`] if there is none.
#[cube]
fn code_of<R: Rounder>(scaled: f32, word: u32, max_code: u32, nan_code: u32, #[comptime] mode: Mode) -> u32 {
    let bits = u32::reinterpret(scaled);
    let magnitude = bits & MAGNITUDE;
    let finite = min(R::code(magnitude, word, mode), max_code);
    select(magnitude > INFINITY, nan_code, finite) | ((bits >> 31u32) << comptime!(R::BITS - 1))
}

/// `codes = code(round(source * scale))`. The statistics word counts NaN, which a format without one has no code for.
#[cube(launch)]
pub fn encode<R: Rounder, N: Size>(
    source: &[Vector<f32, N>],
    codes: &mut [Vector<u32, N>],
    parameters: &[f32],
    statistics: &mut [Atomic<u32>],
    seed_low: u32,
    seed_high: u32,
    step: u32,
    tensor: u32,
    offset_low: u32,
    offset_high: u32,
    group: u32,
    max_code: u32,
    nan_code: u32,
    #[comptime] mode: Mode,
) {
    let key = Key { seed_low, seed_high, step, tensor, offset_low, offset_high };
    let mut nan = 0u32;
    let mut position = ABSOLUTE_POS;
    while position < source.len() {
        let x = source[position];
        let scale = parameters[scale_of::<N>(position, group)];
        let words = random_words::<N>(position as u32, &key, mode);
        let mut out = Vector::<u32, N>::empty();
        #[unroll]
        for i in 0..N::value() {
            nan += u32::cast_from((u32::reinterpret(x.extract(i)) & MAGNITUDE) > INFINITY);
            out.insert(i, code_of::<R>(x.extract(i) * scale, words.extract(i), max_code, nan_code, mode));
        }
        codes[position] = out;
        position += CUBE_COUNT * (CUBE_DIM as usize);
    }
    if nan > 0u32 {
        statistics[0usize].fetch_add(nan);
    }
}

/// `histogram[code] += 1` for each code there is; what `encode` writes for a NaN without a code is none.
///
/// Up to 8 bits a cube counts in shared memory first, for data crowd on few codes.
#[cube(launch)]
pub fn histogram<R: Rounder, N: Size>(codes: &[Vector<u32, N>], histogram: &mut [Atomic<u32>]) {
    let shared = Shared::<[Atomic<u32>]>::new_slice(comptime!(1usize << R::BITS.min(SHARED_BITS)));
    if comptime!(R::BITS <= SHARED_BITS) {
        if UNIT_POS < comptime!(1u32 << R::BITS) {
            shared[UNIT_POS as usize].store(0u32);
        }
        sync_cube();
    }
    let mut position = ABSOLUTE_POS;
    while position < codes.len() {
        let given = codes[position];
        #[unroll]
        for i in 0..N::value() {
            let code = given.extract(i);
            if code < comptime!(1u32 << R::BITS) {
                if comptime!(R::BITS <= SHARED_BITS) {
                    shared[code as usize].fetch_add(1u32);
                } else {
                    histogram[code as usize].fetch_add(1u32);
                }
            }
        }
        position += CUBE_COUNT * (CUBE_DIM as usize);
    }
    if comptime!(R::BITS <= SHARED_BITS) {
        sync_cube();
        if UNIT_POS < comptime!(1u32 << R::BITS) {
            histogram[UNIT_POS as usize].fetch_add(shared[UNIT_POS as usize].load());
        }
    }
}

/// `destination = value(codes)`. Codes beyond `max_code` are NaN, but `inf_code` is infinity; bits above a code's are
/// ignored.
#[cube(launch)]
pub fn decode<R: Rounder, N: Size>(
    codes: &[Vector<u32, N>],
    destination: &mut [Vector<f32, N>],
    max_code: u32,
    inf_code: u32,
) {
    let mut position = ABSOLUTE_POS;
    while position < codes.len() {
        let given = codes[position];
        let mut out = Vector::<f32, N>::empty();
        #[unroll]
        for i in 0..N::value() {
            let code = given.extract(i);
            let unsigned = code & comptime!((1u32 << (R::BITS - 1)) - 1);
            let special = select(unsigned == inf_code, INFINITY, comptime!(INFINITY | QUIET));
            let magnitude = select(unsigned <= max_code, R::decode(unsigned), special);
            let sign = (code << comptime!(32 - R::BITS)) & SIGN;
            out.insert(i, f32::reinterpret(magnitude | sign));
        }
        destination[position] = out;
        position += CUBE_COUNT * (CUBE_DIM as usize);
    }
}
