//! Copies of several tensors into one buffer on GPUs: one launch for several tensors.

use burn_cubecl::{kernel::into_contiguous, tensor::CubeTensor};
use cubecl::prelude::*;

use super::batch_kernel::{self, Work};
use crate::cube_parts::UNITS;

/// Copies each tensor to the elements of `to` from its place on.
pub(crate) fn gather(tensors: Vec<(usize, CubeTensor)>, to: &CubeTensor) {
    let client = to.client.clone();
    let (places, tensors): (Vec<u32>, Vec<CubeTensor>) =
        tensors.into_iter().map(|(place, x)| (place as u32, into_contiguous(x))).unzip();
    let most = batch_kernel::most(&client);
    for (tensors, places) in tensors.chunks(most).zip(places.chunks(most)) {
        let work = Work::of(tensors);
        let buffers = tensors.iter().map(|x| x.clone().into_buffer_arg()).collect();
        let (elements, starts) = work.arguments();
        gather_to::launch(
            &client,
            work.cubes(),
            CubeDim::new_1d(UNITS),
            buffers,
            to.clone().into_buffer_arg(),
            elements,
            starts,
            places.iter().copied().collect(),
            tensors.len(),
        );
    }
}

/// Cubes from `starts[i]` on copy tensor `i` to the elements from `places[i]` on.
#[cube(launch)]
fn gather_to(
    tensors: Sequence<Box<[f32]>>,
    to: &mut [f32],
    elements: Sequence<u32>,
    starts: Sequence<u32>,
    places: Sequence<u32>,
    #[comptime] count_of_tensors: usize,
) {
    let cube = CUBE_POS as u32;
    #[unroll]
    for i in 0..count_of_tensors {
        let (start, end) = (starts[i], starts[i + 1]);
        if cube >= start && cube < end {
            let (own, step) = ((cube - start) * UNITS + UNIT_POS, (end - start) * UNITS);
            copy(&tensors[i], to, own as usize, step as usize, elements[i], places[i]);
        }
    }
}

/// Copies elements `first, first + step ..`.
#[cube]
fn copy(from: &[f32], to: &mut [f32], first: usize, step: usize, elements: u32, place: u32) {
    let mut position = first;
    while position < elements as usize {
        to[place as usize + position] = from[position];
        position += step;
    }
}
