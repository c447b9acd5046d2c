//! The sums of [`MetricOps`] on a device: each cube adds in f32, in one fixed order, and the host adds the cubes' slots in f64.
//!
//! A unit adds few elements, so that sums keep their digits and equal launches give equal bits.

use burn::backend::{TensorMetadata, tensor::FloatTensor};
use burn::tensor::{DType, Shape};
use burn_cubecl::{
    CubeBackend, kernel::into_contiguous, ops::numeric::empty_device_contiguous_dtype, tensor::CubeTensor,
};
use cubecl::prelude::*;

use super::ops::{DEAD_BELOW, MetricOps, SLOT};
use crate::{
    cube_parts::{INFINITY, MAGNITUDE, UNITS, cube_max, cube_sum, elements},
    kernel_text::cubes,
};

impl MetricOps for CubeBackend {
    fn moments(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let x = into_contiguous(x);
        let (count, slots) = slots_for(&x);
        let (client, elements) = (x.client.clone(), elements(&x));
        let (x, out) = (x.into_buffer_arg(), slots.clone().into_buffer_arg());
        moments::launch(&client, count, CubeDim::new_1d(UNITS), x, out, elements);
        slots
    }

    fn agreement(a: FloatTensor<Self>, b: FloatTensor<Self>) -> FloatTensor<Self> {
        let (a, b) = (into_contiguous(a), into_contiguous(b));
        let (count, slots) = slots_for(&a);
        let (client, elements) = (a.client.clone(), elements(&a));
        let (a, b, out) = (a.into_buffer_arg(), b.into_buffer_arg(), slots.clone().into_buffer_arg());
        agreement::launch(&client, count, CubeDim::new_1d(UNITS), a, b, out, elements);
        slots
    }
}

/// The cubes of a launch over a tensor, and room for their slots.
fn slots_for(x: &CubeTensor) -> (CubeCount, CubeTensor) {
    let cubes = cubes(x.shape().num_elements());
    let shape = Shape::from([cubes * SLOT]);
    let slots = empty_device_contiguous_dtype(x.client.clone(), x.device(), shape, DType::F32);
    (CubeCount::new_1d(cubes as u32), slots)
}

#[cube(launch)]
fn moments(x: &[f32], slots: &mut [f32], elements: u32) {
    let mut sum = 0.0f32;
    let mut squares = 0.0f32;
    let mut dead = 0.0f32;
    let mut largest = 0u32;
    let mut count = 0.0f32;
    let mut position = ABSOLUTE_POS;
    while position < elements as usize {
        let value = x[position];
        // Magnitudes are compared as bits: NaN is the largest, and no device takes a small one for zero.
        let magnitude = u32::reinterpret(value) & MAGNITUDE;
        sum += value;
        squares += value * value;
        dead += select(magnitude < comptime!(DEAD_BELOW.to_bits()), 1.0f32, 0.0f32);
        largest = max(largest, magnitude);
        count += 1.0f32;
        position += CUBE_COUNT * (CUBE_DIM as usize);
    }
    let sum = cube_sum(sum);
    let squares = cube_sum(squares);
    let dead = cube_sum(dead);
    let largest = cube_max(largest);
    let count = cube_sum(count);
    if UNIT_POS == 0u32 {
        let slot = CUBE_POS * SLOT;
        slots[slot] = sum;
        slots[slot + 1] = squares;
        slots[slot + 2] = dead;
        slots[slot + 3] = f32::reinterpret(largest);
        slots[slot + 4] = count;
    }
}

#[cube(launch)]
fn agreement(a: &[f32], b: &[f32], slots: &mut [f32], elements: u32) {
    let mut product = 0.0f32;
    let mut first = 0.0f32;
    let mut second = 0.0f32;
    let mut equal = 0.0f32;
    let mut count = 0.0f32;
    let mut position = ABSOLUTE_POS;
    while position < elements as usize {
        let (x, y) = (a[position], b[position]);
        product += x * y;
        first += x * x;
        second += y * y;
        equal += select(sign(x) == sign(y), 1.0f32, 0.0f32);
        count += 1.0f32;
        position += CUBE_COUNT * (CUBE_DIM as usize);
    }
    let product = cube_sum(product);
    let first = cube_sum(first);
    let second = cube_sum(second);
    let equal = cube_sum(equal);
    let count = cube_sum(count);
    if UNIT_POS == 0u32 {
        let slot = CUBE_POS * SLOT;
        slots[slot] = product;
        slots[slot + 1] = first;
        slots[slot + 2] = second;
        slots[slot + 3] = equal;
        slots[slot + 4] = count;
    }
}

/// 1 for positive numbers, 2 for negative ones, 0 for zeros of both signs and NaN.
#[cube]
fn sign(x: f32) -> u32 {
    let bits = u32::reinterpret(x);
    let magnitude = bits & MAGNITUDE;
    let number = select(magnitude > INFINITY, 0u32, magnitude);
    select(number == 0u32, 0u32, 1u32 + (bits >> 31u32))
}
