//! Casts in kernels that differ from that of a format, and those of formats without kernels: elements are scaled,
//! rounded by the format's kernel or the host's at scale 1, rounded otherwise if the cast has a rounding of its own,
//! and scaled back. Quotients are rounded once ([`super::exact`]), as on the CPU.

#![allow(missing_docs, reason = "the macro adds a module to each function")]

use altgrad_casts::Operation;
use altgrad_plugin_api::{PluginError, Rounding};
use burn::backend::TensorMetadata as _;
use burn::tensor::{DType, Shape};
use burn_cubecl::{ops::numeric::empty_device_contiguous_dtype, tensor::CubeTensor};
use cubecl::prelude::*;

use super::{
    FakeQuantParams,
    choice_kernel::divided,
    format_kernels::FormatKernels,
    histogram_kernel,
    own_rounding_kernel::{OwnRounding, key_words, own_rounded},
    tally::{COUNTS, SUMS, Tally},
};
use crate::{
    cube_parts::{INFINITY, MAGNITUDE, QUIET, UNITS, ascending, elements, ordered},
    host_words::{scale_pair, step_word},
    kernel_text::cubes,
    zero_words::zero_words,
};

/// Rounds contiguous values: results, words and sums, as the host counts them.
pub(super) fn fake_quant(
    kernels: &FormatKernels,
    x: &CubeTensor,
    scales: &CubeTensor,
    params: &FakeQuantParams,
) -> Result<[CubeTensor; 3], PluginError> {
    let (client, device) = (x.client.clone(), x.device());
    let count = elements(x);
    let group = count / scales.shape()[0] as u32;
    let empty = |shape| empty_device_contiguous_dtype(client.clone(), device.clone(), shape, DType::F32);
    let launch_cubes = || CubeCount::new_1d(cubes(count as usize) as u32);
    let arithmetic = params.arithmetic;
    let scaled = empty(x.shape());
    scale_elements::launch(
        &client,
        launch_cubes(),
        CubeDim::new_1d(UNITS),
        x.clone().into_buffer_arg(),
        scales.clone().into_buffer_arg(),
        scaled.clone().into_buffer_arg(),
        count,
        group,
        arithmetic.quantize == Operation::Divide,
    );
    let one = scale_pair(&device, [1.0; 2], None);
    let plugin = params.format.plugin();
    let values = params.format.values();
    let own = OwnRounding::of(arithmetic.own, values).unwrap_or(OwnRounding::NONE);
    let round = |mode| kernels.rounded(plugin, [&scaled, &one], mode, &params.key);
    let rounded = round(params.rounding)?;
    let inner = if own.decides_ties() { round(Rounding::TOWARD_ZERO)? } else { rounded.clone() };
    let rounded = if own == OwnRounding::NONE {
        rounded
    } else {
        let result = empty(x.shape());
        round_otherwise::launch(
            &client,
            launch_cubes(),
            CubeDim::new_1d(UNITS),
            scaled.clone().into_buffer_arg(),
            rounded.into_buffer_arg(),
            inner.into_buffer_arg(),
            step_word(&device, params.key.step).into_buffer_arg(),
            result.clone().into_buffer_arg(),
            count,
            key_words(&params.key),
            own,
        );
        result
    };
    let words = zero_words(&device, COUNTS);
    let sums = empty(Shape::from([SUMS * cubes(count as usize)]));
    let y = empty(x.shape());
    scale_back::launch(
        &client,
        launch_cubes(),
        CubeDim::new_1d(UNITS),
        x.clone().into_buffer_arg(),
        scaled.into_buffer_arg(),
        rounded.clone().into_buffer_arg(),
        scales.clone().into_buffer_arg(),
        y.clone().into_buffer_arg(),
        words.clone().into_buffer_arg(),
        sums.clone().into_buffer_arg(),
        count,
        group,
        ascending(values.min_finite().next_down().next_down()),
        ascending(values.max_finite().next_up().next_up()),
        arithmetic.dequantize == Operation::Divide,
        kernels.texts().is_none(),
    );
    if let Some(histogram) = &params.histogram {
        let zeros = (params.padding_elements, params.format.zero_code());
        let table = kernels.code_table();
        let counts = histogram_kernel::count([x.clone(), rounded, one], (&words, 0), table, zeros);
        histogram.add_on_device(counts);
    }
    Ok([y, words, sums])
}

#[cube(launch)]
fn scale_elements(
    x: &[f32],
    scales: &[f32],
    scaled: &mut [f32],
    elements: u32,
    group: u32,
    #[comptime] divides: bool,
) {
    let mut position = ABSOLUTE_POS;
    while position < elements as usize {
        let pair = (2u32 * (position as u32 / group)) as usize;
        let value = x[position];
        scaled[position] = if comptime!(divides) {
            f32::reinterpret(divided(u32::reinterpret(value), u32::reinterpret(scales[pair + 1])))
        } else {
            value * scales[pair]
        };
        position += CUBE_COUNT * (CUBE_DIM as usize);
    }
}

/// Elements rounded by a cast's own rounding, `rounded` and `inner` being those of the format.
#[cube(launch)]
fn round_otherwise(
    scaled: &[f32],
    rounded: &[f32],
    inner: &[f32],
    step: &[u32],
    y: &mut [f32],
    elements: u32,
    key: Sequence<u32>,
    #[comptime] own: OwnRounding,
) {
    let mut place = ABSOLUTE_POS;
    while place < elements as usize {
        let (x, near, toward) = (scaled[place], rounded[place], inner[place]);
        y[place] = own_rounded(x, near, toward, place as u32, &key, step[0usize], own);
        place += CUBE_COUNT * (CUBE_DIM as usize);
    }
}

#[cube(launch)]
fn scale_back(
    x: &[f32],
    scaled: &[f32],
    rounded: &[f32],
    scales: &[f32],
    y: &mut [f32],
    words: &mut [Atomic<u32>],
    sums: &mut [f32],
    elements: u32,
    group: u32,
    least: u32,
    most: u32,
    #[comptime] divides: bool,
    #[comptime] one_nan: bool,
) {
    let tally = Tally::new();
    let mut position = ABSOLUTE_POS;
    while position < elements as usize {
        let pair = (2u32 * (position as u32 / group)) as usize;
        let point = rounded[position];
        let (encode, decode) = (scales[pair], scales[pair + 1]);
        let value = if comptime!(divides) {
            let quotient = divided(u32::reinterpret(point), u32::reinterpret(encode));
            let sign = u32::reinterpret(point) & !comptime!(MAGNITUDE);
            let is_nan = (u32::reinterpret(point) & MAGNITUDE) > INFINITY;
            let to_zero = u32::reinterpret(decode) == 0u32 && !is_nan;
            f32::reinterpret(select(to_zero, sign, quotient))
        } else {
            point * decode
        };
        let element = x[position];
        let bits = u32::reinterpret(element);
        // Devices differ in the payload of a NaN after arithmetic. A search among values has one NaN.
        let nan = if comptime!(one_nan) { comptime!(INFINITY | QUIET).runtime() } else { bits | QUIET };
        let value = select((bits & MAGNITUDE) > INFINITY, nan, u32::reinterpret(value));
        let value = f32::reinterpret(value);
        y[position] = value;
        let of_scaled = u32::reinterpret(scaled[position]);
        let size = of_scaled & MAGNITUDE;
        let place = ordered(f32::reinterpret(select(size == 0u32, 0u32, of_scaled)));
        let outside = place < least || place > most || size == INFINITY;
        tally.add(element, value, outside && size <= INFINITY);
        position += CUBE_COUNT * (CUBE_DIM as usize);
    }
    tally.finish(words, 0usize, sums, CUBE_POS);
}
