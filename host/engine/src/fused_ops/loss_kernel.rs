//! The mean cross-entropy of logits on GPUs: a cube per row, which reads the row three times, then the mean of the
//! rows.

use burn::tensor::Shape;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::device::empty;
use crate::cube_parts::{UNITS, cube_max, cube_sum, elements, ordered, unordered};

/// Most cubes of a launch: devices promise 65,535.
const MAX_CUBES: usize = 1 << 15;

/// Writes the mean cross-entropy of rows, nats, `[1]`, and, if it is `tracked`, its gradient. The rows of logits may be
/// padded, those of the gradient are not. `targets` are the bits of an id per row.
pub(super) fn cross_entropy(
    logits: CubeTensor,
    targets: CubeTensor,
    [mean, gradient]: [CubeTensor; 2],
    tracked: bool,
) {
    let (client, elements, rows) = (logits.client.clone(), elements(&logits), elements(&targets));
    let pitch = logits.meta.strides()[0] as u32;
    let losses = empty(&logits, Shape::from([rows as usize]));
    cross_entropy_of_rows::launch(
        &client,
        CubeCount::new_1d((rows as usize).min(MAX_CUBES) as u32),
        CubeDim::new_1d(UNITS),
        logits.into_buffer_arg(),
        targets.into_buffer_arg(),
        losses.clone().into_buffer_arg(),
        gradient.into_buffer_arg(),
        elements,
        elements / rows,
        pitch,
        1.0 / rows as f32,
        tracked,
    );
    let (count, dim) = (CubeCount::new_1d(1), CubeDim::new_1d(UNITS));
    mean_of_rows::launch(&client, count, dim, losses.into_buffer_arg(), mean.into_buffer_arg(), rows);
}

/// Multiplies `x` by `factor`, `[1]`, in place. A factor of 1 costs the launch only: without a loss scale and with one
/// micro-batch it is 1, and logits are the largest tensor of a step.
pub(super) fn multiply(x: CubeTensor, factor: CubeTensor) {
    let (client, elements) = (x.client.clone(), elements(&x));
    let cubes = crate::kernel_text::cubes(elements as usize) as u32;
    let (x, factor) = (x.into_buffer_arg(), factor.into_buffer_arg());
    times::launch(&client, CubeCount::new_1d(cubes), CubeDim::new_1d(UNITS), x, factor, elements);
}

#[cube(launch)]
fn cross_entropy_of_rows(
    logits: &[f32],
    targets: &[f32],
    losses: &mut [f32],
    gradient: &mut [f32],
    elements: u32,
    vocab: u32,
    pitch: u32,
    share: f32,
    #[comptime] tracked: bool,
) {
    let columns = vocab as usize;
    let mut row = CUBE_POS;
    while row * columns < elements as usize {
        let (first, to) = (row * pitch as usize, row * columns);
        let mut largest = 0u32;
        let mut column = UNIT_POS as usize;
        while column < columns {
            largest = max(largest, ordered(logits[first + column]));
            column += comptime!(UNITS as usize);
        }
        let top = unordered(cube_max(largest));
        let mut sum = 0.0f32;
        let mut column = UNIT_POS as usize;
        while column < columns {
            sum += f32::exp(logits[first + column] - top);
            column += comptime!(UNITS as usize);
        }
        let sum = cube_sum(sum);
        let target = u32::reinterpret(targets[row]) as usize;
        if UNIT_POS == 0u32 {
            losses[row] = f32::ln(sum) - (logits[first + target] - top);
        }
        if comptime!(tracked) {
            let factor = share / sum;
            let mut column = UNIT_POS as usize;
            while column < columns {
                let off = select(column == target, share, 0.0f32);
                gradient[to + column] = f32::exp(logits[first + column] - top) * factor - off;
                column += comptime!(UNITS as usize);
            }
        }
        row += CUBE_COUNT;
    }
}

#[cube(launch)]
fn mean_of_rows(x: &[f32], mean: &mut [f32], elements: u32) {
    let mut sum = 0.0f32;
    let mut place = UNIT_POS;
    while place < elements {
        sum += x[place as usize];
        place += UNITS;
    }
    let sum = cube_sum(sum);
    if UNIT_POS == 0u32 {
        mean[0usize] = sum / f32::cast_from(elements);
    }
}

#[cube(launch)]
fn times(x: &mut [f32], factor: &[f32], elements: u32) {
    let mut place = ABSOLUTE_POS;
    if factor[0usize] == 1.0f32 {
        place = elements as usize;
    }
    while place < elements as usize {
        let scaled = x[place] * factor[0usize];
        x[place] = scaled;
        place += CUBE_COUNT * (CUBE_DIM as usize);
    }
}
