//! Kernels around bf16 products of scaled operands: one launch before the product for each operand, one after it.

use burn::backend::TensorMetadata;
use burn::tensor::DType;
use burn_cubecl::{kernel::into_contiguous, ops::numeric::empty_device_dtype, tensor::CubeTensor};
use cubecl::{prelude::*, zspace::metadata::Metadata};

use crate::{
    cube_parts::{UNITS, elements, has_rows},
    kernel_text::cubes,
    tensor::batch_kernel::Work,
};

/// A matrix `x` times a scale, the first number of `scale`, rounded to a type of floating-point numbers. Its rows begin
/// where the device aligns them, for the product that reads them.
#[must_use]
pub fn scaled(x: CubeTensor, scale: CubeTensor, to: DType) -> CubeTensor {
    let y = empty_device_dtype(x.client.clone(), x.device(), x.shape(), to);
    scaled_to(x, scale, &y);
    y
}

/// Writes [`scaled`] to `y`, whose rows may be padded.
pub fn scaled_to(x: CubeTensor, scale: CubeTensor, y: &CubeTensor) {
    let (x, scale) = (into_contiguous(x), into_contiguous(scale));
    let to = y.dtype;
    let element = if to == DType::BF16 { half::bf16::elem_type_native() } else { f32::elem_type_native() };
    let (client, elements) = (x.client.clone(), elements(&x));
    let (columns, pitch) = match y.is_contiguous() {
        true => (elements as usize, elements as usize),
        false => (y.meta.shape()[1], y.meta.strides()[0]),
    };
    let is_padded = pitch != columns;
    multiply_to::launch(
        &client,
        CubeCount::new_1d(cubes(elements as usize) as u32),
        CubeDim::new_1d(UNITS),
        if vectors(&x) && columns.is_multiple_of(4) && pitch.is_multiple_of(4) { 4 } else { 1 },
        x.into_buffer_arg(),
        scale.into_buffer_arg(),
        y.clone().into_buffer_arg(),
        elements,
        columns as u32,
        pitch as u32,
        is_padded,
        element,
    );
}

/// Each tensor times two inverses of scales, the second numbers of the tensors beside it, one after the other; in
/// place, unless it is shared. One launch.
#[must_use]
pub fn unscaled<const K: usize>(products: [(CubeTensor, [CubeTensor; 2]); K]) -> [CubeTensor; K] {
    let own = |x: CubeTensor| {
        let x = if x.can_mut() && buffer_of_rows(&x).is_some() { x } else { into_contiguous(x) };
        if x.can_mut() { x } else { x.copy() }
    };
    let products = products.map(|(x, scales)| (own(x), scales.map(into_contiguous)));
    let results = products.each_ref().map(|(x, _)| x.clone());
    // Padding of rows is multiplied too: nothing reads it.
    let tensors = results.each_ref().map(|x| buffer_of_rows(x).unwrap_or_else(|| x.clone()));
    let work = Work::of(&tensors);
    let (elements, starts) = work.arguments();
    let scales =
        |index: usize| products.iter().map(|(_, scales)| scales[index].clone().into_buffer_arg()).collect();
    multiply_twice::launch(
        &tensors[0].client,
        work.cubes(),
        CubeDim::new_1d(UNITS),
        if tensors.iter().all(vectors) { 4 } else { 1 },
        tensors.iter().map(|x| x.clone().into_buffer_arg()).collect(),
        scales(0),
        scales(1),
        elements,
        starts,
        K,
    );
    results
}

/// The whole buffer of a matrix with padded rows, as a vector.
fn buffer_of_rows(x: &CubeTensor) -> Option<CubeTensor> {
    if x.is_contiguous() || !has_rows(x) {
        return None;
    }
    let len = x.meta.shape()[0] * x.meta.strides()[0];
    // Not a part of another buffer.
    let is_whole = x.handle.size_in_used() == (len * size_of::<f32>()) as u64;
    is_whole.then(|| CubeTensor { meta: Box::new(Metadata::new([len], [1])), ..x.clone() })
}

/// True if a tensor can be read in vectors of four.
fn vectors(x: &CubeTensor) -> bool {
    elements(x).is_multiple_of(4) && x.handle.offset_start.unwrap_or(0).is_multiple_of(16)
}

/// `to` has rows of `columns` elements that begin `pitch` elements apart.
#[cube(launch)]
fn multiply_to<F: Numeric, N: Size>(
    x: &[Vector<f32, N>],
    scale: &[f32],
    to: &mut [Vector<F, N>],
    elements: u32,
    columns: u32,
    pitch: u32,
    #[comptime] is_padded: bool,
    #[define(F)] _element: ElemType,
) {
    let factor = Vector::<f32, N>::new(scale[0usize]);
    let mut position = ABSOLUTE_POS;
    while position * N::value() < elements as usize {
        let value = Vector::<F, N>::cast_from(x[position] * factor);
        if comptime!(is_padded) {
            let first = position * N::value();
            let (row, column) = (first / columns as usize, first % columns as usize);
            to[(row * pitch as usize + column) / N::value()] = value;
        } else {
            to[position] = value;
        }
        position += CUBE_COUNT * (CUBE_DIM as usize);
    }
}

/// Cubes from `starts[i]` on multiply tensor `i`.
#[cube(launch)]
fn multiply_twice<N: Size>(
    mut tensors: Sequence<Box<[Vector<f32, N>]>>,
    first: Sequence<Box<[f32]>>,
    second: Sequence<Box<[f32]>>,
    elements: Sequence<u32>,
    starts: Sequence<u32>,
    #[comptime] count_of_tensors: usize,
) {
    let cube = CUBE_POS as u32;
    #[unroll]
    for i in 0..count_of_tensors {
        let (start, end) = (starts[i], starts[i + 1]);
        if cube >= start && cube < end {
            let (own, step) = ((cube - start) * UNITS + UNIT_POS, (end - start) * UNITS);
            let factors = Factors { first: first[i][1usize], second: second[i][1usize] };
            multiply::<N>(&mut tensors[i], own as usize, step as usize, elements[i], factors);
        }
    }
}

#[derive(CubeType, Clone, Copy)]
struct Factors {
    first: f32,
    second: f32,
}

/// Multiplies elements `first, first + step ..`.
#[cube]
fn multiply<N: Size>(x: &mut [Vector<f32, N>], first: usize, step: usize, elements: u32, factors: Factors) {
    let (one, other) = (Vector::<f32, N>::new(factors.first), Vector::<f32, N>::new(factors.second));
    let mut position = first;
    while position * N::value() < elements as usize {
        x[position] = x[position] * one * other;
        position += step;
    }
}
