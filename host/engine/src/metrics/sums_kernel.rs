//! The sums of [`MetricOps`] on a device: each cube adds in f32, in one fixed order, and the host adds the cubes' slots
//! in f64.
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
    tensor::{
        batch::TensorBatch,
        batch_kernel::{self, Work},
    },
};

impl MetricOps for CubeBackend {
    fn moments(tensors: TensorBatch<Self>) -> FloatTensor<Self> {
        let tensors: Vec<_> = tensors.into_tensors().into_iter().map(into_contiguous).collect();
        let lens = tensors.iter().map(|x| cubes(x.shape().num_elements()));
        let (client, slots) = (tensors[0].client.clone(), slots_of(&tensors[0], lens.sum()));
        let mut first = 0;
        for tensors in tensors.chunks(batch_kernel::most(&client)) {
            let work = Work::of(tensors);
            let count = work.cubes();
            let buffers = tensors.iter().map(|x| x.clone().into_buffer_arg()).collect();
            let (elements, starts) = work.arguments();
            let out = slots.clone().into_buffer_arg();
            let dim = CubeDim::new_1d(UNITS);
            moments::launch(&client, count, dim, buffers, out, elements, starts, first, tensors.len());
            first += work.len();
        }
        slots
    }

    fn agreement(a: FloatTensor<Self>, b: FloatTensor<Self>) -> FloatTensor<Self> {
        let (a, b) = (into_contiguous(a), into_contiguous(b));
        let cubes = cubes(a.shape().num_elements());
        let (count, slots) = (CubeCount::new_1d(cubes as u32), slots_of(&a, cubes));
        let (client, elements) = (a.client.clone(), elements(&a));
        let (a, b, out) = (a.into_buffer_arg(), b.into_buffer_arg(), slots.clone().into_buffer_arg());
        agreement::launch(&client, count, CubeDim::new_1d(UNITS), a, b, out, elements);
        slots
    }
}

/// Room for the slots of some cubes.
fn slots_of(x: &CubeTensor, cubes: usize) -> CubeTensor {
    let shape = Shape::from([cubes * SLOT]);
    empty_device_contiguous_dtype(x.client.clone(), x.device(), shape, DType::F32)
}

/// The sums of a unit over its elements.
#[derive(CubeType)]
struct Sums {
    sum: RuntimeCell<f32>,
    squares: RuntimeCell<f32>,
    dead: RuntimeCell<f32>,
    largest: RuntimeCell<u32>,
    count: RuntimeCell<f32>,
}

#[cube]
impl Sums {
    /// Adds elements `first, first + step ..`.
    fn add(&self, x: &[f32], first: usize, step: usize, elements: u32) {
        let mut sum = 0.0f32;
        let mut squares = 0.0f32;
        let mut dead = 0.0f32;
        let mut largest = 0u32;
        let mut count = 0.0f32;
        let mut position = first;
        while position < elements as usize {
            let value = x[position];
            // Magnitudes are compared as bits: NaN is the largest, and no device takes a small one for zero.
            let magnitude = u32::reinterpret(value) & MAGNITUDE;
            sum += value;
            squares += value * value;
            dead += select(magnitude < comptime!(DEAD_BELOW.to_bits()), 1.0f32, 0.0f32);
            largest = max(largest, magnitude);
            count += 1.0f32;
            position += step;
        }
        self.sum.store(sum);
        self.squares.store(squares);
        self.dead.store(dead);
        self.largest.store(largest);
        self.count.store(count);
    }
}

/// Each cube adds up a part of one tensor: those from `starts[i]` on are tensor `i`'s. Its slot is number `first` and
/// its own.
#[cube(launch)]
fn moments(
    tensors: Sequence<Box<[f32]>>,
    slots: &mut [f32],
    elements: Sequence<u32>,
    starts: Sequence<u32>,
    first: u32,
    #[comptime] count_of_tensors: usize,
) {
    let sums = Sums {
        sum: RuntimeCell::<f32>::new(0.0f32),
        squares: RuntimeCell::<f32>::new(0.0f32),
        dead: RuntimeCell::<f32>::new(0.0f32),
        largest: RuntimeCell::<u32>::new(0u32),
        count: RuntimeCell::<f32>::new(0.0f32),
    };
    let cube = CUBE_POS as u32;
    #[unroll]
    for i in 0..count_of_tensors {
        let (start, end) = (starts[i], starts[i + 1]);
        if cube >= start && cube < end {
            let (own, step) = ((cube - start) * UNITS + UNIT_POS, (end - start) * UNITS);
            sums.add(&tensors[i], own as usize, step as usize, elements[i]);
        }
    }
    let sum = cube_sum(sums.sum.read());
    let squares = cube_sum(sums.squares.read());
    let dead = cube_sum(sums.dead.read());
    let largest = cube_max(sums.largest.read());
    let count = cube_sum(sums.count.read());
    if UNIT_POS == 0u32 {
        let slot = (first as usize + CUBE_POS) * SLOT;
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
