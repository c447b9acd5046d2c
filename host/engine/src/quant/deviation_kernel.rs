//! Scales from standard deviations in kernels ([`altgrad_casts::Rule::Rms`]), with the bits of the CPU's.
//!
//! The exponent of a scale grows with the variance, so that a table has the least variance of each exponent: kernels
//! need neither a square root nor a product with the factor.

#![allow(missing_docs, reason = "the macro adds a module to each function")]

use std::cell::RefCell;

use altgrad_casts::Rule;
use burn::tensor::Shape;
use burn_cubecl::{CubeBackend, CubeDevice, tensor::CubeTensor};
use cubecl::{calculate_cube_count_elemwise, prelude::*};

use super::{
    block_scale_kernel::{block_of, key_of, pair_of_exponent, write_pair},
    derivation::Derivation,
    scale::ScaleRule,
    wide::{f64_words, wide, wide_negated, wide_share, wide_square, wide_sum, wide_zero},
};
use crate::{
    cube_parts::{INFINITY, MAGNITUDE, UNITS},
    kernel_text::upload,
};

/// The longest group: quotients by larger numbers need more bits.
pub(super) const LONGEST: usize = 256;
/// Exponents of f32, of which the largest stands for infinity.
const LEAST: i32 = -149;
const MOST: i32 = 128;

/// The least variance whose scale has an exponent above each of `LEAST, LEAST + 1 ..`.
fn variances(rule: Rule, target: f32) -> Vec<f64> {
    let exponent = |variance: f64| rule.exponent_of_deviation(target, variance.sqrt() as f32);
    let least = |e: i32| {
        let (mut below, mut from) = (0u64, f64::INFINITY.to_bits());
        if exponent(0.0) >= e {
            return 0.0;
        }
        while below + 1 < from {
            let middle = u64::midpoint(below, from);
            if exponent(f64::from_bits(middle)) >= e { from = middle } else { below = middle }
        }
        f64::from_bits(from)
    };
    (LEAST + 1..=MOST).map(least).collect()
}

thread_local! {
    /// The tables that a device has, by rule and target. Operations of a device run on one thread.
    static TABLES: RefCell<Vec<(CubeDevice, Rule, f32, CubeTensor)>> = const { RefCell::new(Vec::new()) };
}

/// The words of [`variances`] on a device, high word first.
fn table(device: &CubeDevice, rule: Rule, target: f32) -> CubeTensor {
    TABLES.with_borrow_mut(|all| {
        let found = all.iter().find(|(on, of, to, _)| (on, *of, *to) == (device, rule, target));
        if let Some((.., table)) = found {
            return table.clone();
        }
        let bits = variances(rule, target).into_iter().map(f64::to_bits);
        let words: Vec<f32> = bits.flat_map(|x| [(x >> 32) as u32, x as u32]).map(f32::from_bits).collect();
        let table = upload::<CubeBackend>(device, Shape::from([words.len()]), words);
        all.push((device.clone(), rule, target, table.clone()));
        table
    })
}

/// Writes scale and inverse of each of `groups` groups of `len` values.
pub(super) fn scales(
    values: &CubeTensor,
    to: &CubeTensor,
    rule: &ScaleRule,
    [groups, len]: [usize; 2],
    derivation: Derivation,
) {
    let table = table(&values.device, rule.scaling.rule, rule.range.target);
    let dim = CubeDim::new_1d(UNITS);
    scales_of_deviations::launch(
        &values.client,
        calculate_cube_count_elemwise(&values.client, groups, dim),
        dim,
        values.clone().into_buffer_arg(),
        table.into_buffer_arg(),
        to.clone().into_buffer_arg(),
        groups as u32,
        len as u32,
        (MOST - LEAST) as u32,
        derivation,
    );
}

/// A unit for each of `elements` groups of `len` values. `table` has two words of each of `entries` variances, in
/// order.
#[cube(launch)]
fn scales_of_deviations(
    x: &[f32],
    table: &[f32],
    scales: &mut [f32],
    elements: u32,
    len: u32,
    entries: u32,
    #[comptime] derivation: Derivation,
) {
    let group = ABSOLUTE_POS;
    if group < elements as usize {
        let (first, end) = (group * len as usize, (group + 1) * len as usize);
        let mut sum = wide_zero();
        let mut squares = wide_zero();
        let mut count = 0u32;
        let mut place = first;
        while place < end {
            let element = x[place];
            if (u32::reinterpret(element) & MAGNITUDE) < INFINITY {
                let own = wide(element);
                sum = wide_sum(&sum, &own);
                squares = wide_sum(&squares, &wide_square(&own));
                count += 1u32;
            }
            place += 1;
        }
        let count = max(count, 1u32);
        let of_mean = wide_square(&wide_share(&sum, count));
        let variance = wide_sum(&wide_share(&squares, count), &wide_negated(&of_mean));
        let (high, low) = f64_words(&variance);
        // The number of entries up to the variance.
        let mut from = 0u32;
        let mut to = entries;
        while from < to {
            let middle = (from + to) >> 1u32;
            let top = u32::reinterpret(table[2usize * middle as usize]);
            let rest = u32::reinterpret(table[2usize * middle as usize + 1]);
            let reaches = top < high || (top == high && rest <= low);
            from = select(reaches, middle + 1u32, from);
            to = select(reaches, to, middle);
        }
        let block = block_of(key_of(x, first, end, 1usize, derivation.poisons));
        write_pair(scales, group, pair_of_exponent(block, i32::cast_from(from) + LEAST, derivation));
    }
}
