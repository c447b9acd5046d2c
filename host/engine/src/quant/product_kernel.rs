//! Kernels around bf16 products of scaled operands: one launch before the product for each operand, one after it.

use burn::backend::TensorMetadata;
use burn::tensor::DType;
use burn_cubecl::{kernel::into_contiguous, ops::numeric::empty_device_contiguous_dtype, tensor::CubeTensor};
use cubecl::prelude::*;

use crate::{
    cube_parts::{UNITS, elements},
    kernel_text::cubes,
};

/// `x` times a scale, the first number of `scale`, rounded to a type of floating-point numbers.
#[must_use]
pub fn scaled(x: CubeTensor, scale: CubeTensor, to: DType) -> CubeTensor {
    let (x, scale) = (into_contiguous(x), into_contiguous(scale));
    let y = empty_device_contiguous_dtype(x.client.clone(), x.device(), x.shape(), to);
    let element = if to == DType::BF16 { half::bf16::elem_type_native() } else { f32::elem_type_native() };
    let (client, elements) = (x.client.clone(), elements(&x));
    multiply_to::launch(
        &client,
        CubeCount::new_1d(cubes(elements as usize) as u32),
        CubeDim::new_1d(UNITS),
        if vectors(&x) { 4 } else { 1 },
        x.into_buffer_arg(),
        scale.into_buffer_arg(),
        y.clone().into_buffer_arg(),
        elements,
        element,
    );
    y
}

/// `x` times two inverses of scales, the second numbers of `first` and `second`, one after the other; in place, unless
/// `x` is shared.
#[must_use]
pub fn unscaled(x: CubeTensor, first: CubeTensor, second: CubeTensor) -> CubeTensor {
    let (x, first, second) = (into_contiguous(x), into_contiguous(first), into_contiguous(second));
    let x = if x.can_mut() { x } else { x.copy() };
    let (client, elements) = (x.client.clone(), elements(&x));
    multiply_twice::launch(
        &client,
        CubeCount::new_1d(cubes(elements as usize) as u32),
        CubeDim::new_1d(UNITS),
        if vectors(&x) { 4 } else { 1 },
        x.clone().into_buffer_arg(),
        first.into_buffer_arg(),
        second.into_buffer_arg(),
        elements,
    );
    x
}

/// True if a tensor can be read in vectors of four.
fn vectors(x: &CubeTensor) -> bool {
    elements(x).is_multiple_of(4) && x.handle.offset_start.unwrap_or(0).is_multiple_of(16)
}

#[cube(launch)]
fn multiply_to<F: Numeric, N: Size>(
    x: &[Vector<f32, N>],
    scale: &[f32],
    to: &mut [Vector<F, N>],
    elements: u32,
    #[define(F)] _element: ElemType,
) {
    let factor = Vector::<f32, N>::new(scale[0usize]);
    let mut position = ABSOLUTE_POS;
    while position * N::value() < elements as usize {
        to[position] = Vector::cast_from(x[position] * factor);
        position += CUBE_COUNT * (CUBE_DIM as usize);
    }
}

#[cube(launch)]
fn multiply_twice<N: Size>(x: &mut [Vector<f32, N>], first: &[f32], second: &[f32], elements: u32) {
    let (first, second) = (Vector::<f32, N>::new(first[1usize]), Vector::<f32, N>::new(second[1usize]));
    let mut position = ABSOLUTE_POS;
    while position * N::value() < elements as usize {
        x[position] = x[position] * first * second;
        position += CUBE_COUNT * (CUBE_DIM as usize);
    }
}
