//! Tensors times a number on GPUs: one launch for several tensors.

use burn::backend::{Backend, Dispatch, backend_extension};
use burn::tensor::Tensor;
use burn_cubecl::{CubeBackend, kernel::into_contiguous};
use cubecl::prelude::*;

use crate::{
    cube_parts::UNITS,
    tensor::{
        batch::{MOST, TensorBatch, TensorBatchMetadata, batch, unbatched},
        batch_kernel::{self, Work},
    },
};

/// The operation, for burn's backends.
#[backend_extension(Cube, Fusion)]
pub trait ScaleOps: Backend {
    /// Each tensor times `factor`; in place, unless it is shared.
    #[fusion(meta = same)]
    fn scale(#[extension_type] tensors: TensorBatch<Self>, factor: f32) -> TensorBatch<Self>;
}

fn same(tensors: &TensorBatchMetadata, _: &f32) -> TensorBatchMetadata {
    tensors.clone()
}

impl ScaleOps for CubeBackend {
    fn scale(tensors: TensorBatch<Self>, factor: f32) -> TensorBatch<Self> {
        let own = |x| {
            let x = into_contiguous(x);
            if x.can_mut() { x } else { x.copy() }
        };
        let tensors: Vec<_> = tensors.into_tensors().into_iter().map(own).collect();
        let client = tensors[0].client.clone();
        for tensors in tensors.chunks(batch_kernel::most(&client)) {
            let work = Work::of(tensors);
            let buffers = tensors.iter().map(|x| x.clone().into_buffer_arg()).collect();
            let (elements, starts) = work.arguments();
            let (cubes, dim) = (work.cubes(), CubeDim::new_1d(UNITS));
            scale::launch(&client, cubes, dim, buffers, elements, starts, factor, tensors.len());
        }
        tensors.into_iter().collect()
    }
}

/// Cubes from `starts[i]` on multiply tensor `i`.
#[cube(launch)]
fn scale(
    mut tensors: Sequence<Box<[f32]>>,
    elements: Sequence<u32>,
    starts: Sequence<u32>,
    factor: f32,
    #[comptime] count_of_tensors: usize,
) {
    let cube = CUBE_POS as u32;
    #[unroll]
    for i in 0..count_of_tensors {
        let (start, end) = (starts[i], starts[i + 1]);
        if cube >= start && cube < end {
            let (own, step) = ((cube - start) * UNITS + UNIT_POS, (end - start) * UNITS);
            multiply(&mut tensors[i], own as usize, step as usize, elements[i], factor);
        }
    }
}

/// Multiplies elements `first, first + step ..`.
#[cube]
fn multiply(x: &mut [f32], first: usize, step: usize, elements: u32, factor: f32) {
    let mut position = first;
    while position < elements as usize {
        let scaled = x[position] * factor;
        x[position] = scaled;
        position += step;
    }
}

/// `x * factor` for each of these tensors.
pub(super) fn scaled(mut tensors: Vec<Tensor<1>>, factor: f32) -> Vec<Tensor<1>> {
    let mut all = Vec::with_capacity(tensors.len());
    while !tensors.is_empty() {
        let some = tensors.drain(..tensors.len().min(MOST));
        all.extend(unbatched(<Dispatch as ScaleOps>::scale(batch(some), factor)));
    }
    all
}
