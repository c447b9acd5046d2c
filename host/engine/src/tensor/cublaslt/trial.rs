//! A product of whole numbers, by which an algorithm shows that it computes right: of the same shape and layout as the
//! product that it is for.

use std::sync::Arc;

use burn::tensor::{DType, Shape};
use burn_cubecl::{CubeBackend, ops::numeric::empty_device_contiguous_dtype, tensor::CubeTensor};
use cubecl::prelude::*;

use super::{Call, ffi};
use crate::{
    cube_parts::UNITS,
    kernel_text::{cubes, download},
};

/// Cubes that compare the result.
const CUBES: u32 = 64;

/// What rows of the first factor are multiplied by, and terms of it that are not zero. The second trial has numbers of
/// 12 and more bits, which TF32 would round.
const TRIALS: [(u32, u32); 2] = [(1, u32::MAX), (2049, 64)];

/// Element `[i, t]` of the first factor is `row(i) first(t)`, element `[t, j]` of the second `column(j) second(t)`.
/// All sums are whole numbers below `2^24` up to 400,000 terms.
fn first(term: u32) -> i64 {
    i64::from(term * 7 % 5) - 1
}

fn second(term: u32) -> i64 {
    i64::from(term * 3 % 7) - 2
}

/// Computes the trials.
///
/// # Errors
/// The device's error, or how many elements are wrong.
pub(super) fn check(call: &Call, plan: &Arc<ffi::Plan>, x: &CubeTensor) -> Result<(), String> {
    let [m, n, k] = call.problem.sides.map(|side| side as u32);
    let trials = if call.is_bf16 { &TRIALS[..1] } else { &TRIALS };
    for &(scale, terms) in trials {
        let a = factor(call, x, 0, scale, terms);
        let b = factor(call, x, 1, 1, terms);
        let y = stored(x, [m, n].map(|side| side as usize), call.leading[2], false, DType::F32);
        ffi::launch(plan, [&a, &b, &y]);
        let sum: i64 = (0..k.min(terms)).map(|term| first(term) * second(term)).sum();
        let units = CUBES * UNITS;
        let wrong = stored(x, [1, units as usize], units as usize, false, DType::F32);
        trial_errors::launch(
            &x.client,
            CubeCount::new_1d(CUBES),
            CubeDim::new_1d(UNITS),
            y.into_buffer_arg(),
            wrong.clone().into_buffer_arg(),
            m * n,
            n,
            call.leading[2] as u32,
            sum as f32 * scale as f32,
        );
        let wrong: f32 = download::<CubeBackend>(wrong)?.iter().sum();
        if wrong != 0.0 {
            return Err(format!("{wrong} of {} elements of a trial are wrong", u64::from(m) * u64::from(n)));
        }
    }
    Ok(())
}

/// A matrix that is not written.
fn stored(
    x: &CubeTensor,
    sides: [usize; 2],
    leading: usize,
    is_transposed: bool,
    element: DType,
) -> CubeTensor {
    let outer = if is_transposed { sides[1] } else { sides[0] };
    let shape = Shape::from([outer * leading]);
    let mut matrix = empty_device_contiguous_dtype(x.client.clone(), x.device.clone(), shape, element);
    matrix.meta.shape = Shape::from(sides);
    matrix.meta.strides = if is_transposed { [1, leading] } else { [leading, 1] }.into();
    matrix
}

/// The first or second factor of a trial.
fn factor(call: &Call, x: &CubeTensor, which: usize, scale: u32, terms: u32) -> CubeTensor {
    let ([m, n, k], is_transposed) = (call.problem.sides, call.problem.transposed[which]);
    let sides = if which == 0 { [m, k] } else { [k, n] };
    let element = if call.is_bf16 { DType::BF16 } else { DType::F32 };
    let matrix = stored(x, sides, call.leading[which], is_transposed, element);
    let outer = if is_transposed { sides[1] } else { sides[0] };
    let elements = outer * call.leading[which];
    trial_factor::launch(
        &x.client,
        CubeCount::new_1d(cubes(elements) as u32),
        CubeDim::new_1d(UNITS),
        matrix.clone().into_buffer_arg(),
        elements as u32,
        call.leading[which] as u32,
        scale as f32,
        terms,
        // Terms are the stored rows of a transposed first factor, and of a second one that is not.
        u32::from(is_transposed == (which == 0)),
        u32::from(which == 0),
        if call.is_bf16 { half::bf16::elem_type_native() } else { f32::elem_type_native() },
    );
    matrix
}

/// A number that varies with the row of the first factor.
#[cube]
fn row(i: u32) -> f32 {
    f32::cast_from(i % 5u32) + 1.0f32
}

/// A number that varies with the column of the second factor.
#[cube]
fn column(j: u32) -> f32 {
    f32::cast_from(j % 3u32) + 1.0f32
}

#[cube(launch)]
#[allow(clippy::too_many_arguments, reason = "a kernel's scalars")]
fn trial_factor<F: Numeric>(
    to: &mut [F],
    elements: u32,
    leading: u32,
    scale: f32,
    terms: u32,
    terms_are_rows: u32,
    is_first: u32,
    #[define(F)] _element: ElemType,
) {
    let mut position = ABSOLUTE_POS as u32;
    while position < elements {
        let (outer, inner) = (position / leading, position % leading);
        let term = if terms_are_rows == 1u32 { outer } else { inner };
        let own = outer + inner - term;
        let mut value = column(own) * (f32::cast_from(term * 3u32 % 7u32) - 2.0f32);
        if is_first == 1u32 {
            value = row(own) * (f32::cast_from(term * 7u32 % 5u32) - 1.0f32);
        }
        if term >= terms {
            value = 0.0f32;
        }
        to[position as usize] = F::cast_from(value * scale);
        position += (CUBE_COUNT as u32) * CUBE_DIM;
    }
}

/// How many elements of a unit are not `row(i) column(j) sum`.
#[cube(launch)]
fn trial_errors(y: &[f32], wrong: &mut [f32], elements: u32, columns: u32, leading: u32, sum: f32) {
    let mut count = 0.0f32;
    let mut position = ABSOLUTE_POS as u32;
    while position < elements {
        let (i, j) = (position / columns, position % columns);
        let right = y[(i * leading + j) as usize] == row(i) * column(j) * sum;
        if !right {
            count += 1.0f32;
        }
        position += (CUBE_COUNT as u32) * CUBE_DIM;
    }
    wrong[ABSOLUTE_POS] = count;
}
