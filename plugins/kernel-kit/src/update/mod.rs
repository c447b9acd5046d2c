//! The kernels of optimizers: one pass over a parameter, its gradient and Adam's two moments.
//!
//! [`step()`] is the update by one [`Rule`]. [`Rule::Power`] has to know the mean spacing of the whole parameter first: [`prepare()`]
//! leaves it in scratch memory for [`power_step()`]. Buffers and scalars come in the order that [`recipe`] lists; the contract is
//! `plugin-api`'s `kernel` module. A minifloat is described by scalars, so that a rule has one text for all formats.
//!
//! Unlike rounding, an update is f32 arithmetic: compilers contract it to fma, and WGSL's division and root may be a few units off in
//! the last place. Devices therefore agree with the CPU to a millionth, not to the bit. What is decided (clamping, signs, NaN) is
//! decided on bits.

use altgrad_plugin_api::kernel::rules::Rule;
use cubecl_core as cubecl;
use cubecl_core::prelude::*;

mod geometry;
pub mod recipe;
mod rule;

use crate::rounder::{INFINITY, MAGNITUDE, QUIET};
use geometry::{Description, field};
use rule::{Mean, Moments, apply};

/// The scratch words that a parameter's mean spacing is made of: low and high parts of exponent fields.
const LOW_BITS: u32 = 4;
const LOW: u32 = (1 << LOW_BITS) - 1;

/// Whether an f32 is a NaN: by its bits, because shader compilers may take it that there is none.
#[cube]
pub(crate) fn is_nan(x: f32) -> bool {
    (u32::reinterpret(x) & MAGNITUDE) > INFINITY
}

/// A NaN, of whatever number: WGSL has no constant one.
#[cube]
pub(crate) fn nan(x: f32) -> f32 {
    f32::reinterpret(u32::reinterpret(x) | comptime!(INFINITY | QUIET))
}

/// One update of `param` and the moments, in place.
#[cube(launch)]
pub fn step<N: Size>(
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
    scale: u32,
    unit: u32,
    r2: u32,
    r3: u32,
    r4: u32,
    r5: u32,
    r6: u32,
    #[comptime] rule: Rule,
) {
    let moments = Moments { keep, mix1, beta2, mix2, correction2_sqrt, eps, step_size };
    let grid = Description { scale, unit, r2, r3, r4, r5, r6 };
    let mean = Mean { whole: 0i32, rest: 0.0f32 };
    update::<N>(param, grad, exp_avg, exp_avg_sq, &moments, &grid, &mean, rule);
}

/// The same by [`Rule::Power`], after [`prepare()`].
#[cube(launch)]
pub fn power_step<N: Size>(
    param: &mut [Vector<f32, N>],
    grad: &[Vector<f32, N>],
    exp_avg: &mut [Vector<f32, N>],
    exp_avg_sq: &mut [Vector<f32, N>],
    scratch: &[u32],
    keep: u32,
    mix1: u32,
    beta2: u32,
    mix2: u32,
    correction2_sqrt: u32,
    eps: u32,
    step_size: u32,
    scale: u32,
    unit: u32,
    r2: u32,
    r3: u32,
    r4: u32,
    r5: u32,
    r6: u32,
) {
    let moments = Moments { keep, mix1, beta2, mix2, correction2_sqrt, eps, step_size };
    let grid = Description { scale, unit, r2, r3, r4, r5, r6 };
    let mean = mean_of(scratch, (param.len() * N::value()) as u32);
    update::<N>(param, grad, exp_avg, exp_avg_sq, &moments, &grid, &mean, Rule::Power);
}

/// All elements' updates.
#[cube]
fn update<N: Size>(
    param: &mut [Vector<f32, N>],
    grad: &[Vector<f32, N>],
    exp_avg: &mut [Vector<f32, N>],
    exp_avg_sq: &mut [Vector<f32, N>],
    moments: &Moments,
    grid: &Description,
    mean: &Mean,
    #[comptime] rule: Rule,
) {
    let mut position = ABSOLUTE_POS;
    while position < param.len() {
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

/// Adds up the exponents of `scale * param`'s spacings, exactly: `scratch[0] + 2^4 scratch[1]`, for 2^27 elements at most.
#[cube(launch)]
pub fn prepare<N: Size>(param: &[Vector<f32, N>], scratch: &mut [Atomic<u32>], scale: u32, emin_bits: u32) {
    let shared = Shared::<[Atomic<u32>]>::new_slice(2usize);
    if UNIT_POS < 2u32 {
        shared[UNIT_POS as usize].store(0u32);
    }
    sync_cube();
    let mut low = 0u32;
    let mut high = 0u32;
    let mut position = ABSOLUTE_POS;
    while position < param.len() {
        let values = param[position];
        #[unroll]
        for i in 0..N::value() {
            let field = field(values.extract(i) * f32::reinterpret(scale), emin_bits);
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

/// The mean of a parameter's exponent fields, as [`prepare()`] has left it.
#[cube]
fn mean_of(scratch: &[u32], elements: u32) -> Mean {
    let (low, high) = (scratch[0usize], scratch[1usize]);
    // (16 high + low) / elements, in numbers below 2^32.
    let rest = ((high % elements) << LOW_BITS) + low;
    let whole = ((high / elements) << LOW_BITS) + rest / elements;
    Mean { whole: i32::cast_from(whole), rest: f32::cast_from(rest % elements) / f32::cast_from(elements) }
}
