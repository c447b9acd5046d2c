//! Matrix products whose terms are split into parts, each of which is a product of its own: more blocks for a device
//! that one product would not fill. The parts are added in their order, so that equal products have equal bits.

use burn::tensor::DType;
use burn_cubecl::{ops::numeric::empty_device_contiguous_dtype, tensor::CubeTensor};
use cubecl::{prelude::*, zspace::metadata::Metadata};

use crate::{
    cube_parts::{UNITS, elements},
    kernel_text::cubes,
};

/// The factors `[m, k]` and `[k, n]` as views `[parts, m, k / parts]` and `[parts, k / parts, n]`. `parts` divides `k`.
#[must_use]
pub fn split(a: CubeTensor, b: CubeTensor, parts: usize) -> [CubeTensor; 2] {
    let view = |x: CubeTensor, terms: usize| {
        let (mut shape, strides) = ([x.meta.shape()[0], x.meta.shape()[1]], x.meta.strides());
        shape[terms] /= parts;
        let strides = [shape[terms] * strides[terms], strides[0], strides[1]];
        CubeTensor { meta: Box::new(Metadata::new([parts, shape[0], shape[1]], strides)), ..x }
    };
    [view(a, 1), view(b, 0)]
}

/// The contiguous f32 tensor `[parts, m, n]` for the products of the parts.
#[must_use]
pub fn products([a, b]: [&CubeTensor; 2]) -> CubeTensor {
    let shape = [a.meta.shape()[0], a.meta.shape()[1], b.meta.shape()[2]];
    empty_device_contiguous_dtype(a.client.clone(), a.device.clone(), shape.into(), DType::F32)
}

/// The sum over the first dimension of a contiguous f32 tensor `[parts, m, n]`, in its order.
#[must_use]
pub fn sum(parts: CubeTensor) -> CubeTensor {
    let [count, m, n] = [0, 1, 2].map(|axis| parts.meta.shape()[axis]);
    let client = parts.client.clone();
    let y = empty_device_contiguous_dtype(client.clone(), parts.device.clone(), [m, n].into(), DType::F32);
    let elements = elements(&y);
    sum_of_parts::launch(
        &client,
        CubeCount::new_1d(cubes(elements as usize) as u32),
        CubeDim::new_1d(UNITS),
        if elements.is_multiple_of(4) { 4 } else { 1 },
        parts.into_buffer_arg(),
        y.clone().into_buffer_arg(),
        elements,
        count,
    );
    y
}

#[cube(launch)]
fn sum_of_parts<N: Size>(
    parts: &[Vector<f32, N>],
    y: &mut [Vector<f32, N>],
    elements: u32,
    #[comptime] count: usize,
) {
    let of_part = elements as usize / N::value();
    let mut position = ABSOLUTE_POS;
    while position < of_part {
        let mut total = parts[position];
        #[unroll]
        for part in 1..count {
            total += parts[part * of_part + position];
        }
        y[position] = total;
        position += CUBE_COUNT * (CUBE_DIM as usize);
    }
}
