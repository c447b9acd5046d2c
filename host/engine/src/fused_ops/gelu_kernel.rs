//! GELU on GPUs, forward and backward: a kernel each, element by element.

use burn_cubecl::tensor::CubeTensor;
use std::f32::consts::FRAC_1_SQRT_2;

use cubecl::prelude::*;

use super::math::DENSITY_AT_ZERO;
use crate::{
    cube_parts::{UNITS, elements},
    kernel_text::cubes,
};

/// Writes `x Phi(x)`.
pub(super) fn forward(x: CubeTensor, y: CubeTensor) {
    let (client, elements) = (x.client.clone(), elements(&x));
    let (count, dim) = (CubeCount::new_1d(cubes(elements as usize) as u32), CubeDim::new_1d(UNITS));
    gelu::launch(&client, count, dim, x.into_buffer_arg(), y.into_buffer_arg(), elements);
}

/// Writes `grad` times the derivative at `x`.
pub(super) fn backward(x: CubeTensor, grad: CubeTensor, to: CubeTensor) {
    let (client, elements) = (x.client.clone(), elements(&x));
    let (count, dim) = (CubeCount::new_1d(cubes(elements as usize) as u32), CubeDim::new_1d(UNITS));
    let (x, grad, to) = (x.into_buffer_arg(), grad.into_buffer_arg(), to.into_buffer_arg());
    gelu_backward::launch(&client, count, dim, x, grad, to, elements);
}

/// The normal distribution's integral up to `x`.
#[cube]
fn normal(x: f32) -> f32 {
    0.5f32 + 0.5f32 * Erf::erf(x * FRAC_1_SQRT_2)
}

#[cube(launch)]
fn gelu(x: &[f32], y: &mut [f32], elements: u32) {
    let mut place = ABSOLUTE_POS;
    while place < elements as usize {
        y[place] = x[place] * normal(x[place]);
        place += CUBE_COUNT * (CUBE_DIM as usize);
    }
}

#[cube(launch)]
fn gelu_backward(x: &[f32], grad: &[f32], y: &mut [f32], elements: u32) {
    let mut place = ABSOLUTE_POS;
    while place < elements as usize {
        let value = x[place];
        let density = f32::exp(value * value * -0.5f32) * DENSITY_AT_ZERO;
        y[place] = grad[place] * (normal(value) + value * density);
        place += CUBE_COUNT * (CUBE_DIM as usize);
    }
}
