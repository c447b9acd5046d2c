//! LayerNorm and RMSNorm on GPUs: one kernel forward, two backward.
//!
//! A cube takes rows. The gradients of weight and bias are first added up by each cube over its rows, then over the
//! cubes. The number of cubes depends on the number of rows only, so that sums have one order.

use burn::tensor::Shape;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::device::empty;
use crate::cube_parts::{UNITS, cube_sum, elements};

/// Most cubes of a launch.
const MAX_CUBES: usize = 512;
/// Columns that a cube of the last sum adds up, each in as many parts as fit.
const COLUMNS: u32 = 16;

/// A norm over rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowNorm {
    /// The term under the root.
    pub epsilon: f32,
    /// LayerNorm subtracts the mean.
    pub is_centered: bool,
    /// LayerNorm may add a bias.
    pub has_bias: bool,
}

/// Numbers of a row that the backward pass needs: mean and inverse deviation.
pub(super) const STATS: usize = 2;

impl RowNorm {
    /// Shapes of the result and of each row's mean and inverse deviation.
    pub(super) fn shapes(x: &Shape, weight: &Shape) -> [Shape; 2] {
        [x.clone(), Shape::from([x.num_elements() / weight.num_elements() * STATS])]
    }

    /// Writes `y` and `stats`.
    pub(super) fn forward(self, [x, weight, bias]: [CubeTensor; 3], [y, stats]: [CubeTensor; 2]) {
        let (client, elements, width) = (x.client.clone(), elements(&x), elements(&weight));
        norm::launch(
            &client,
            CubeCount::new_1d(rows(elements, width).min(MAX_CUBES) as u32),
            CubeDim::new_1d(UNITS),
            x.into_buffer_arg(),
            weight.into_buffer_arg(),
            bias.into_buffer_arg(),
            y.into_buffer_arg(),
            stats.into_buffer_arg(),
            elements,
            width,
            self.epsilon,
            self.is_centered,
            self.has_bias,
        );
    }

    /// Writes the gradients of `x`, weight and bias.
    pub(super) fn backward(
        self,
        [x, weight, _]: [CubeTensor; 3],
        [stats, grad]: [CubeTensor; 2],
        [x_grad, weight_grad, bias_grad]: [CubeTensor; 3],
    ) {
        let (client, elements, width) = (x.client.clone(), elements(&x), elements(&weight));
        let cubes = rows(elements, width).min(MAX_CUBES);
        let columns = if self.has_bias { 2 * width } else { width };
        let parts = empty(&x, Shape::from([cubes * columns as usize]));
        norm_backward::launch(
            &client,
            CubeCount::new_1d(cubes as u32),
            CubeDim::new_1d(UNITS),
            x.into_buffer_arg(),
            weight.into_buffer_arg(),
            stats.into_buffer_arg(),
            grad.into_buffer_arg(),
            x_grad.into_buffer_arg(),
            parts.clone().into_buffer_arg(),
            elements,
            width,
            self.is_centered,
            self.has_bias,
        );
        column_sums::launch(
            &client,
            CubeCount::new_1d(columns.div_ceil(COLUMNS)),
            CubeDim::new_1d(UNITS),
            parts.into_buffer_arg(),
            weight_grad.into_buffer_arg(),
            bias_grad.into_buffer_arg(),
            columns,
            width,
            cubes as u32,
        );
    }
}

fn rows(elements: u32, width: u32) -> usize {
    (elements / width) as usize
}

#[cube(launch)]
fn norm(
    x: &[f32],
    weight: &[f32],
    bias: &[f32],
    y: &mut [f32],
    stats: &mut [f32],
    elements: u32,
    width: u32,
    epsilon: f32,
    #[comptime] is_centered: bool,
    #[comptime] has_bias: bool,
) {
    let (columns, count) = (width as usize, f32::cast_from(width));
    let mut first = CUBE_POS * columns;
    while first < elements as usize {
        let mut mean = 0.0f32;
        if comptime!(is_centered) {
            let mut sum = 0.0f32;
            let mut column = UNIT_POS as usize;
            while column < columns {
                sum += x[first + column];
                column += comptime!(UNITS as usize);
            }
            mean = cube_sum(sum) / count;
        }
        let mut squares = 0.0f32;
        let mut column = UNIT_POS as usize;
        while column < columns {
            let off = x[first + column] - mean;
            squares += off * off;
            column += comptime!(UNITS as usize);
        }
        let inverse = 1.0f32 / f32::sqrt(cube_sum(squares) / count + epsilon);
        let mut column = UNIT_POS as usize;
        while column < columns {
            let mut value = (x[first + column] - mean) * inverse * weight[column];
            if comptime!(has_bias) {
                value += bias[column];
            }
            y[first + column] = value;
            column += comptime!(UNITS as usize);
        }
        if UNIT_POS == 0u32 {
            let row = first / columns * comptime!(STATS);
            stats[row] = mean;
            stats[row + 1] = inverse;
        }
        first += CUBE_COUNT * columns;
    }
}

/// The gradient of `x`, and each cube's sums of the gradients of weight and bias: `parts` `[cubes, weight then bias]`.
/// The columns of a unit are its own, so that it adds to them without a barrier.
#[cube(launch)]
fn norm_backward(
    x: &[f32],
    weight: &[f32],
    stats: &[f32],
    grad: &[f32],
    x_grad: &mut [f32],
    parts: &mut [f32],
    elements: u32,
    width: u32,
    #[comptime] is_centered: bool,
    #[comptime] has_bias: bool,
) {
    let (columns, count) = (width as usize, f32::cast_from(width));
    let own = CUBE_POS * columns * comptime!(if has_bias { 2usize } else { 1usize });
    let mut column = UNIT_POS as usize;
    while column < columns {
        parts[own + column] = 0.0f32;
        if comptime!(has_bias) {
            parts[own + columns + column] = 0.0f32;
        }
        column += comptime!(UNITS as usize);
    }
    let mut first = CUBE_POS * columns;
    while first < elements as usize {
        let row = first / columns * comptime!(STATS);
        let (mean, inverse) = (stats[row], stats[row + 1]);
        let mut along = 0.0f32;
        let mut across = 0.0f32;
        let mut column = UNIT_POS as usize;
        while column < columns {
            let g = grad[first + column];
            let normal = (x[first + column] - mean) * inverse;
            parts[own + column] += g * normal;
            if comptime!(has_bias) {
                parts[own + columns + column] += g;
            }
            let weighted = g * weight[column];
            along += weighted;
            across += weighted * normal;
            column += comptime!(UNITS as usize);
        }
        if comptime!(is_centered) {
            along = cube_sum(along) / count;
        } else {
            along = 0.0f32;
        }
        let across = cube_sum(across) / count;
        let mut column = UNIT_POS as usize;
        while column < columns {
            let normal = (x[first + column] - mean) * inverse;
            x_grad[first + column] =
                inverse * (grad[first + column] * weight[column] - along - normal * across);
            column += comptime!(UNITS as usize);
        }
        first += CUBE_COUNT * columns;
    }
}

/// Sums of the columns of `parts` `[rows, elements]`: the first `width` are the weight's, the others the bias's.
#[cube(launch)]
fn column_sums(
    parts: &[f32],
    weight_grad: &mut [f32],
    bias_grad: &mut [f32],
    elements: u32,
    width: u32,
    rows: u32,
) {
    let column = CUBE_POS as u32 * COLUMNS + UNIT_POS % COLUMNS;
    let mut sum = 0.0f32;
    if column < elements {
        let mut row = UNIT_POS / COLUMNS;
        while row < rows {
            sum += parts[(row * elements + column) as usize];
            row += comptime!(UNITS / COLUMNS);
        }
    }
    let mut sums = Shared::<[f32]>::new_slice(comptime!(UNITS as usize));
    sums[UNIT_POS as usize] = sum;
    sync_cube();
    if UNIT_POS < COLUMNS && column < elements {
        let mut total = 0.0f32;
        for part in 0..comptime!(UNITS / COLUMNS) {
            total += sums[(part * COLUMNS + UNIT_POS) as usize];
        }
        if column < width {
            weight_grad[column as usize] = total;
        } else {
            bias_grad[(column - width) as usize] = total;
        }
    }
}
