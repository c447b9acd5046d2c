//! The kernels of optimizers: one pass over a parameter, its gradient and Adam's two moments.
//!
//! [`plain_step()`] is AdamW's update, [`step()`] that by another [`UpdateRule`]. [`UpdateRule::Power`] has to know the
//! mean spacing of the whole parameter first: [`prepare()`] leaves it in scratch memory for [`power_step()`]. Buffers
//! and scalars come in the order that [`recipe`] lists; the contract is `plugin-api`'s `kernel` module. A minifloat is
//! described by scalars, so that a rule has one text for all formats; each block's scale is in a buffer.
//!
//! Unlike rounding, an update is f32 arithmetic: compilers contract it to fma, and WGSL's division and root may be a
//! few units off in the last place. Devices therefore agree with the CPU within a millionth; they are not
//! bit-identical. What is decided (clamping, signs, NaN) is decided on bits.

use altgrad_plugin_api::kernel::rules::UpdateRule;
use cubecl_core as cubecl;
use cubecl_core::prelude::*;

mod blocks;
mod geometry;
pub mod recipe;
mod rule;

use crate::rounder::{INFINITY, MAGNITUDE, QUIET};
use blocks::Blocks;
use geometry::{Description, field};
use rule::{Mean, Moments, Scale, apply, plain};

/// The scratch words of a parameter's mean spacing: low and high parts of exponent fields.
const LOW_BITS: u32 = 4;
const LOW: u32 = (1 << LOW_BITS) - 1;

/// True if an f32 is a NaN: by its bits, because shader compilers may assume that there is none.
#[cube]
pub(crate) fn is_nan(x: f32) -> bool {
    (u32::reinterpret(x) & MAGNITUDE) > INFINITY
}

/// A NaN from any number: WGSL has no constant one.
#[cube]
pub(crate) fn nan(x: f32) -> f32 {
    f32::reinterpret(u32::reinterpret(x) | comptime!(INFINITY | QUIET))
}

/// One update of `param` and the moments by AdamW, in place.
#[cube(launch)]
pub fn plain_step<N: Size>(
    param: &mut [Vector<f32, N>],
    grad: &[Vector<f32, N>],
    exp_avg: &mut [Vector<f32, N>],
    exp_avg_sq: &mut [Vector<f32, N>],
    keep: u32,
    mix1: u32,
    beta2: u32,
    mix2: u32,
    correction2_sqrt: u32,
    eps: u32,
    step_size: u32,
    elements: u32,
) {
    let moments = Moments { keep, mix1, beta2, mix2, correction2_sqrt, eps, step_size };
    let mut position = ABSOLUTE_POS;
    while position * N::value() < elements as usize {
        let (before, given) = (param[position], grad[position]);
        let (m, v) = (exp_avg[position], exp_avg_sq[position]);
        let mut after = Vector::<f32, N>::empty();
        let mut new_m = Vector::<f32, N>::empty();
        let mut new_v = Vector::<f32, N>::empty();
        #[unroll]
        for i in 0..N::value() {
            let element = plain(before.extract(i), given.extract(i), m.extract(i), v.extract(i), &moments);
            after.insert(i, element.w);
            new_m.insert(i, element.m);
            new_v.insert(i, element.v);
        }
        param[position] = after;
        exp_avg[position] = new_m;
        exp_avg_sq[position] = new_v;
        position += CUBE_COUNT * (CUBE_DIM as usize);
    }
}

/// [`plain_step()`] by a rule that uses the spacing at each weight.
#[cube(launch)]
pub fn step<N: Size>(
    param: &mut [Vector<f32, N>],
    grad: &[Vector<f32, N>],
    exp_avg: &mut [Vector<f32, N>],
    exp_avg_sq: &mut [Vector<f32, N>],
    scales: &[f32],
    keep: u32,
    mix1: u32,
    beta2: u32,
    mix2: u32,
    correction2_sqrt: u32,
    eps: u32,
    step_size: u32,
    amount: u32,
    r2: u32,
    r3: u32,
    r4: u32,
    r5: u32,
    r6: u32,
    columns: u32,
    block_rows: u32,
    block_columns: u32,
    blocks_per_row: u32,
    elements: u32,
    scale_words: u32,
    #[comptime] rule: UpdateRule,
) {
    let moments = Moments { keep, mix1, beta2, mix2, correction2_sqrt, eps, step_size };
    let grid = Description { amount, r2, r3, r4, r5, r6 };
    let blocks = Blocks { columns, block_rows, block_columns, per_row: blocks_per_row, words: scale_words };
    let mean = Mean { whole: 0i32, rest: 0.0f32, scale: 1.0f32 };
    update::<N>(param, grad, exp_avg, exp_avg_sq, scales, &moments, &grid, &blocks, &mean, elements, rule);
}

/// The same by [`UpdateRule::Power`], after [`prepare()`].
#[cube(launch)]
pub fn power_step<N: Size>(
    param: &mut [Vector<f32, N>],
    grad: &[Vector<f32, N>],
    exp_avg: &mut [Vector<f32, N>],
    exp_avg_sq: &mut [Vector<f32, N>],
    scales: &[f32],
    scratch: &[u32],
    keep: u32,
    mix1: u32,
    beta2: u32,
    mix2: u32,
    correction2_sqrt: u32,
    eps: u32,
    step_size: u32,
    amount: u32,
    r2: u32,
    r3: u32,
    r4: u32,
    r5: u32,
    r6: u32,
    columns: u32,
    block_rows: u32,
    block_columns: u32,
    blocks_per_row: u32,
    elements: u32,
    scale_words: u32,
) {
    let moments = Moments { keep, mix1, beta2, mix2, correction2_sqrt, eps, step_size };
    let grid = Description { amount, r2, r3, r4, r5, r6 };
    let blocks = Blocks { columns, block_rows, block_columns, per_row: blocks_per_row, words: scale_words };
    let mean = mean_of(scales, scratch, elements, &grid);
    update::<N>(
        param,
        grad,
        exp_avg,
        exp_avg_sq,
        scales,
        &moments,
        &grid,
        &blocks,
        &mean,
        elements,
        UpdateRule::Power,
    );
}

/// All elements' updates, each at its own scale.
#[cube]
fn update<N: Size>(
    param: &mut [Vector<f32, N>],
    grad: &[Vector<f32, N>],
    exp_avg: &mut [Vector<f32, N>],
    exp_avg_sq: &mut [Vector<f32, N>],
    scales: &[f32],
    moments: &Moments,
    grid: &Description,
    blocks: &Blocks,
    mean: &Mean,
    elements: u32,
    #[comptime] rule: UpdateRule,
) {
    let mut position = ABSOLUTE_POS;
    while position * N::value() < elements as usize {
        let places = blocks::places::<N>(position, blocks);
        let scale = blocks::at::<N>(scales, places, 0u32);
        let inverse = blocks::at::<N>(scales, places, 1u32);
        let (before, given) = (param[position], grad[position]);
        let (m, v) = (exp_avg[position], exp_avg_sq[position]);
        let mut after = Vector::<f32, N>::empty();
        let mut new_m = Vector::<f32, N>::empty();
        let mut new_v = Vector::<f32, N>::empty();
        #[unroll]
        for i in 0..N::value() {
            let element = apply(
                before.extract(i),
                given.extract(i),
                m.extract(i),
                v.extract(i),
                Scale { scale: scale.extract(i), inverse: inverse.extract(i) },
                moments,
                grid,
                mean,
                rule,
            );
            after.insert(i, element.w);
            new_m.insert(i, element.m);
            new_v.insert(i, element.v);
        }
        param[position] = after;
        exp_avg[position] = new_m;
        exp_avg_sq[position] = new_v;
        position += CUBE_COUNT * (CUBE_DIM as usize);
    }
}

/// Adds up the exponents of all spacings in stored units, exactly: `scratch[0] + 2^4 scratch[1]`, for 2^27 elements at
/// most.
#[cube(launch)]
pub fn prepare<N: Size>(
    param: &[Vector<f32, N>],
    scales: &[f32],
    scratch: &mut [Atomic<u32>],
    emin_bits: u32,
    columns: u32,
    block_rows: u32,
    block_columns: u32,
    blocks_per_row: u32,
    elements: u32,
    scale_words: u32,
) {
    let blocks = Blocks { columns, block_rows, block_columns, per_row: blocks_per_row, words: scale_words };
    let shared = Shared::<[Atomic<u32>]>::new_slice(2usize);
    if UNIT_POS < 2u32 {
        shared[UNIT_POS as usize].store(0u32);
    }
    sync_cube();
    let mut low = 0u32;
    let mut high = 0u32;
    let mut position = ABSOLUTE_POS;
    while position * N::value() < elements as usize {
        let values = param[position];
        let scale = blocks::at::<N>(scales, blocks::places::<N>(position, &blocks), 0u32);
        #[unroll]
        for i in 0..N::value() {
            let field = field(values.extract(i) * scale.extract(i), emin_bits);
            low += field & LOW;
            high += field >> LOW_BITS;
        }
        position += CUBE_COUNT * (CUBE_DIM as usize);
    }
    shared[0usize].fetch_add(low);
    shared[1usize].fetch_add(high);
    sync_cube();
    if UNIT_POS < 2u32 {
        scratch[UNIT_POS as usize].fetch_add(shared[UNIT_POS as usize].load());
    }
}

/// The mean of a parameter's exponent fields, as [`prepare()`] has left it, less that of its scales' logarithms: the
/// words behind `2^emin` and p.
#[cube]
fn mean_of(scales: &[f32], scratch: &[u32], elements: u32, grid: &Description) -> Mean {
    let (low, high) = (scratch[0usize], scratch[1usize]);
    // (16 high + low) / elements, in numbers below 2^32.
    let rest = ((high % elements) << LOW_BITS) + low;
    let whole = ((high / elements) << LOW_BITS) + rest / elements;
    let share = f32::cast_from(rest % elements) / f32::cast_from(elements);
    Mean {
        whole: i32::cast_from(whole) - i32::reinterpret(grid.r3),
        rest: share - f32::reinterpret(grid.r6),
        scale: scales[0usize],
    }
}
