//! Histograms on a device: two kernels of the engine's own, for all formats.
//!
//! `codes` counts codes, which it finds by searching each rounded value, times its scale, among the values of the
//! format. `powers` sums powers of the values before rounding. Fourth powers leave the range of f32, and raw moments
//! lose their digits where the mean is large: values are therefore taken in units of a power of two near the largest
//! magnitude, and as differences from the mean of a cube's values. The host combines the cubes in f64.

use altgrad_base::diagnostic::Diagnostic;
use burn::backend::TensorMetadata;
use burn::tensor::{DType, Shape};
use burn_cubecl::{CubeBackend, ops::numeric::empty_device_contiguous_dtype, tensor::CubeTensor};
use cubecl::prelude::*;

use super::{
    code_table::{CODES, CodeTable},
    power_sums::PowerSums,
};
use crate::{
    cube_parts::{INFINITY, MAGNITUDE, SIGN, UNITS, cube_sum, elements, is_nan},
    device_faults,
    kernel_text::{cubes, upload},
};

/// Largest number of cubes of [`powers`]: each has a slot.
const MOST_SLOTS: usize = 256;
/// Numbers of a slot: inverse of the unit, finite values, their mean, and sums of four powers of differences from it.
const SLOT: usize = 7;
/// Exponent fields of a unit: those whose inverse is a normal number too.
const LEAST_FIELD: u32 = 1;
const MOST_FIELD: u32 = 253;
const _: () = assert!(CODES == UNITS as usize, "a code a unit");

/// The counts of a call, on the device.
#[derive(Debug)]
pub struct DeviceCounts {
    /// Elements of each code, u32, `[CODES]`.
    codes: Option<CubeTensor>,
    /// `[cubes, SLOT]`.
    powers: CubeTensor,
    /// The number of zeros that pad the tensor, and their code.
    zeros: (usize, usize),
}

/// Launches both over contiguous values before and after rounding, and scales. `words` are those that fake quantization
/// counted, with the place of the largest magnitude. Without a table codes are not counted.
#[must_use]
pub fn count(
    [x, rounded, scales]: [CubeTensor; 3],
    (words, amax): (&CubeTensor, usize),
    table: Option<&CodeTable>,
    zeros: (usize, usize),
) -> DeviceCounts {
    let (client, device, elements) = (x.client.clone(), x.device(), elements(&x));
    let group = elements / scales.shape()[0] as u32;
    let codes = table.map(|table| {
        let flat = |words: &[u32]| {
            let bits = words.iter().map(|&word| f32::from_bits(word)).collect();
            upload::<CubeBackend>(&device, Shape::from([words.len()]), bits)
        };
        let counts = flat(&[0; CODES]);
        codes::launch(
            &client,
            CubeCount::new_1d(cubes(elements as usize) as u32),
            CubeDim::new_1d(UNITS),
            rounded.into_buffer_arg(),
            scales.into_buffer_arg(),
            flat(&table.words()).into_buffer_arg(),
            counts.clone().into_buffer_arg(),
            elements,
            group,
        );
        counts
    });
    let slots = cubes(elements as usize).min(MOST_SLOTS);
    let shape = Shape::from([slots, SLOT]);
    let powers = empty_device_contiguous_dtype(client.clone(), device, shape, DType::F32);
    powers::launch(
        &client,
        CubeCount::new_1d(slots as u32),
        CubeDim::new_1d(UNITS),
        x.into_buffer_arg(),
        words.clone().into_buffer_arg(),
        powers.clone().into_buffer_arg(),
        elements,
        amax as u32,
    );
    DeviceCounts { codes, powers, zeros }
}

/// The counts of a call, on the host.
pub(super) struct ReadCounts {
    /// Elements of each code; empty if codes were not counted.
    pub(super) codes: Vec<u64>,
    /// Sums by cube.
    pub(super) powers: Vec<PowerSums>,
    /// The number of zeros that pad the tensor, and their code.
    pub(super) zeros: (usize, usize),
}

/// Reads the counts of calls, with one synchronisation.
pub(super) fn read(calls: Vec<DeviceCounts>) -> Result<Vec<ReadCounts>, Diagnostic> {
    let Some(client) = calls.first().map(|call| call.powers.client.clone()) else { return Ok(Vec::new()) };
    let tensors = calls.iter().flat_map(|call| call.codes.iter().chain([&call.powers]));
    let found = client.read(tensors.map(|tensor| tensor.handle.clone()).collect());
    let found = found.map_err(|error| device_faults::failed("a histogram was not read", error))?;
    let mut found = found.iter().map(|bytes| bytes.as_chunks::<4>().0);
    let read = calls.iter().map(|call| {
        let counts = call.codes.as_ref().and_then(|_| found.next()).unwrap_or_default();
        let codes = counts.iter().map(|&count| u32::from_ne_bytes(count).into()).collect();
        let slots = found.next().unwrap_or_default().as_chunks::<SLOT>().0.iter();
        let powers = slots.map(|slot| {
            let [shrink, count, mean, sums @ ..] = slot.map(|number| f64::from(f32::from_ne_bytes(number)));
            PowerSums::around(mean, count, sums, 1.0 / shrink)
        });
        ReadCounts { codes, powers: powers.collect(), zeros: call.zeros }
    });
    Ok(read.collect())
}

/// `counts[code] += 1` for each value that has a code. `group` consecutive values share a scale; `table` is
/// [`CodeTable::words`].
#[cube(launch)]
fn codes(
    rounded: &[f32],
    scales: &[f32],
    table: &[u32],
    counts: &mut [Atomic<u32>],
    elements: u32,
    group: u32,
) {
    let mut boundaries = Shared::<[u32]>::new_slice(CODES);
    let cube_counts = Shared::<[Atomic<u32>]>::new_slice(CODES);
    boundaries[UNIT_POS as usize] = table[UNIT_POS as usize];
    cube_counts[UNIT_POS as usize].store(0u32);
    sync_cube();
    let mut position = ABSOLUTE_POS;
    while position < elements as usize {
        let value = rounded[position];
        let scale = scales[(2u32 * (position as u32 / group)) as usize];
        // The sign is copied separately: a product may lose the sign of zero.
        let sign = u32::reinterpret(value) & SIGN;
        let bits = (u32::reinterpret(value * scale) & MAGNITUDE) | sign;
        let wanted = select(sign == 0u32, bits | SIGN, !bits);
        let mut place = 0u32;
        #[unroll]
        for round in 0..8u32 {
            let half = 128u32 >> round;
            let fits = boundaries[(place + half - 1u32) as usize] <= wanted;
            place += select(fits, half, 0u32);
        }
        let of_nan = comptime!(2 * CODES as u32) + (sign >> 31u32);
        let code = table[select(is_nan(value), of_nan, comptime!(CODES as u32) + place) as usize];
        if code < comptime!(CODES as u32) {
            cube_counts[code as usize].fetch_add(1u32);
        }
        position += CUBE_COUNT * (CUBE_DIM as usize);
    }
    sync_cube();
    counts[UNIT_POS as usize].fetch_add(cube_counts[UNIT_POS as usize].load());
}

/// One slot per cube with the moments of its finite values. `words[amax]` is the largest magnitude of all, f32 bits.
#[cube(launch)]
fn powers(x: &[f32], words: &[u32], slots: &mut [f32], elements: u32, amax: u32) {
    let field = clamp(words[amax as usize] >> 23u32, LEAST_FIELD, MOST_FIELD);
    let shrink = f32::reinterpret((254u32 - field) << 23u32);
    let mut count = 0.0f32;
    let mut sum = 0.0f32;
    let mut position = ABSOLUTE_POS;
    while position < elements as usize {
        let finite = is_finite(x[position]);
        count += select(finite, 1.0f32, 0.0f32);
        sum += select(finite, x[position] * shrink, 0.0f32);
        position += CUBE_COUNT * (CUBE_DIM as usize);
    }
    let cube_count = cube_sum(count);
    let mean = cube_sum(sum) / max(cube_count, 1.0f32);
    let mut first = 0.0f32;
    let mut second = 0.0f32;
    let mut third = 0.0f32;
    let mut fourth = 0.0f32;
    position = ABSOLUTE_POS;
    while position < elements as usize {
        let difference = select(is_finite(x[position]), x[position] * shrink - mean, 0.0f32);
        let square = difference * difference;
        first += difference;
        second += square;
        third += square * difference;
        fourth += square * square;
        position += CUBE_COUNT * (CUBE_DIM as usize);
    }
    let first = cube_sum(first);
    let second = cube_sum(second);
    let third = cube_sum(third);
    let fourth = cube_sum(fourth);
    if UNIT_POS == 0u32 {
        let slot = CUBE_POS * SLOT;
        slots[slot] = shrink;
        slots[slot + 1] = cube_count;
        slots[slot + 2] = mean;
        slots[slot + 3] = first;
        slots[slot + 4] = second;
        slots[slot + 5] = third;
        slots[slot + 6] = fourth;
    }
}

#[cube]
fn is_finite(x: f32) -> bool {
    (u32::reinterpret(x) & MAGNITUDE) < INFINITY
}
