//! Kernels for several weights at once: in one buffer, each at a place that is a multiple of [`BLOCK`].

use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::{block_scale_kernel::key_of, derivation::Derivation, scale_kernel::write_scale, tally::Tally};
use crate::{
    cube_parts::{INFINITY, MAGNITUDE, UNITS, cube_max},
    tensor::batch_kernel::Work,
};

/// Elements of a block, which shares a scale: weights begin at multiples of it.
pub(super) const BLOCK: usize = 128;

/// The weights in a buffer: place and length of each.
pub(super) type Places = [[usize; 2]];

fn lens(places: &Places) -> impl Iterator<Item = usize> {
    places.iter().map(|[_, len]| *len)
}

fn firsts(places: &Places, unit: usize) -> SequenceArg<u32> {
    places.iter().map(|[place, _]| (place / unit) as u32).collect()
}

/// The keys of the weights (`scale_kernel`), to a word for each, which is zero before.
pub(super) fn keys(x: &CubeTensor, places: &Places, to: &CubeTensor, poisons: bool) {
    let work = Work::of_lens(lens(places));
    let (elements, starts) = work.arguments();
    keys_of_weights::launch(
        &x.client,
        work.cubes(),
        CubeDim::new_1d(UNITS),
        x.clone().into_buffer_arg(),
        to.clone().into_buffer_arg(),
        elements,
        starts,
        firsts(places, 1),
        poisons,
        places.len(),
    );
}

/// Scale and inverse of each block, and once for each weight to the places of `scales`, from the keys.
pub(super) fn pairs(
    keys: &CubeTensor,
    places: &Places,
    derivation: Derivation,
    [pairs, scales]: [&CubeTensor; 2],
) {
    let work = Work::of_lens(lens(places).map(|len| len.div_ceil(BLOCK)));
    let (elements, starts) = work.arguments();
    pairs_of_weights::launch(
        &keys.client,
        work.cubes(),
        CubeDim::new_1d(UNITS),
        keys.clone().into_buffer_arg(),
        pairs.clone().into_buffer_arg(),
        scales.clone().into_buffer_arg(),
        elements,
        starts,
        firsts(places, BLOCK),
        derivation,
        places.len(),
    );
}

/// The buffers of [`finish`].
pub(super) struct Finished<'a> {
    /// Before and after rounding.
    pub(super) values: [&'a CubeTensor; 2],
    /// [`BLOCK`] numbers for each weight, of which the first is its scale.
    pub(super) scales: &'a CubeTensor,
    /// The destination of codes as bf16; any if there is none.
    pub(super) codes: &'a CubeTensor,
    /// [`BLOCK`] zeros for each weight.
    pub(super) words: &'a CubeTensor,
    /// A slot for each cube.
    pub(super) sums: &'a CubeTensor,
}

/// The statistics of rounding the weights, and their codes as bf16 if `has_codes`. Scaled elements beyond `most`, f32
/// bits, overflow.
pub(super) fn finish(buffers: Finished<'_>, places: &Places, most: u32, has_codes: bool) {
    let Finished { values: [x, y], scales, codes, words, sums } = buffers;
    let work = Work::of_lens(lens(places));
    let (elements, starts) = work.arguments();
    let element = if has_codes { half::bf16::elem_type_native() } else { f32::elem_type_native() };
    statistics_of_weights::launch(
        &x.client,
        work.cubes(),
        CubeDim::new_1d(UNITS),
        x.clone().into_buffer_arg(),
        y.clone().into_buffer_arg(),
        scales.clone().into_buffer_arg(),
        codes.clone().into_buffer_arg(),
        words.clone().into_buffer_arg(),
        sums.clone().into_buffer_arg(),
        elements,
        starts,
        firsts(places, 1),
        most,
        has_codes,
        places.len(),
        element,
    );
}

/// The weights as bf16, in the places of `to`.
pub(super) fn to_bf16(x: &CubeTensor, places: &Places, to: &CubeTensor) {
    let work = Work::of_lens(lens(places));
    let (elements, starts) = work.arguments();
    weights_to_bf16::launch(
        &x.client,
        work.cubes(),
        CubeDim::new_1d(UNITS),
        x.clone().into_buffer_arg(),
        to.clone().into_buffer_arg(),
        elements,
        starts,
        firsts(places, 1),
        places.len(),
        half::bf16::elem_type_native(),
    );
}

/// The part of a weight that a unit works on.
#[derive(CubeType)]
struct Part {
    weight: RuntimeCell<u32>,
    /// The first place of the weight, and its elements.
    place: RuntimeCell<u32>,
    elements: RuntimeCell<u32>,
    /// The unit's first element, and the distance to the next.
    first: RuntimeCell<u32>,
    step: RuntimeCell<u32>,
}

#[cube]
fn part_of(
    elements: &Sequence<u32>,
    starts: &Sequence<u32>,
    places: &Sequence<u32>,
    #[comptime] count_of_weights: usize,
) -> Part {
    let part = Part {
        weight: RuntimeCell::<u32>::new(0u32),
        place: RuntimeCell::<u32>::new(0u32),
        elements: RuntimeCell::<u32>::new(0u32),
        first: RuntimeCell::<u32>::new(0u32),
        step: RuntimeCell::<u32>::new(1u32),
    };
    let cube = CUBE_POS as u32;
    #[unroll]
    for i in 0..count_of_weights {
        let (start, end) = (starts[i], starts[i + 1]);
        if cube >= start && cube < end {
            part.weight.store(comptime!(i as u32).runtime());
            part.place.store(places[i]);
            part.elements.store(elements[i]);
            part.first.store((cube - start) * UNITS + UNIT_POS);
            part.step.store((end - start) * UNITS);
        }
    }
    part
}

#[cube(launch)]
fn keys_of_weights(
    x: &[f32],
    keys: &mut [Atomic<u32>],
    elements: Sequence<u32>,
    starts: Sequence<u32>,
    places: Sequence<u32>,
    #[comptime] poisons: bool,
    #[comptime] count_of_weights: usize,
) {
    let part = part_of(&elements, &starts, &places, count_of_weights);
    let place = part.place.read();
    let (first, end) = (place + part.first.read(), place + part.elements.read());
    let own = key_of(x, first as usize, end as usize, part.step.read() as usize, poisons);
    let key = cube_max(own);
    if UNIT_POS == 0u32 {
        keys[part.weight.read() as usize].fetch_max(key);
    }
}

/// Here elements are blocks.
#[cube(launch)]
fn pairs_of_weights(
    keys: &[u32],
    pairs: &mut [f32],
    scales: &mut [f32],
    elements: Sequence<u32>,
    starts: Sequence<u32>,
    places: Sequence<u32>,
    #[comptime] derivation: Derivation,
    #[comptime] count_of_weights: usize,
) {
    let part = part_of(&elements, &starts, &places, count_of_weights);
    let weight = part.weight.read() as usize;
    let own = weight * comptime!(BLOCK / 2);
    let key = keys[weight];
    let mut block = part.first.read();
    if block == 0u32 {
        write_scale(scales, own, key, derivation);
    }
    while block < part.elements.read() {
        write_scale(pairs, (part.place.read() + block) as usize, key, derivation);
        block += part.step.read();
    }
}

#[cube(launch)]
fn statistics_of_weights<F: Numeric>(
    x: &[f32],
    y: &[f32],
    scales: &[f32],
    codes: &mut [F],
    words: &mut [Atomic<u32>],
    sums: &mut [f32],
    elements: Sequence<u32>,
    starts: Sequence<u32>,
    places: Sequence<u32>,
    most: u32,
    #[comptime] has_codes: bool,
    #[comptime] count_of_weights: usize,
    #[define(F)] _element: ElemType,
) {
    let part = part_of(&elements, &starts, &places, count_of_weights);
    let own = part.weight.read() as usize * comptime!(BLOCK);
    let scale = scales[own];
    let tally = Tally::new();
    let mut position = part.first.read();
    while position < part.elements.read() {
        let place = (part.place.read() + position) as usize;
        let scaled = u32::reinterpret(x[place] * scale) & MAGNITUDE;
        tally.add(x[place], y[place], scaled > most && scaled <= INFINITY);
        if comptime!(has_codes) {
            codes[place] = F::cast_from(y[place] * scale);
        }
        position += part.step.read();
    }
    tally.finish(words, own, sums, CUBE_POS);
}

#[cube(launch)]
fn weights_to_bf16<F: Numeric>(
    x: &[f32],
    to: &mut [F],
    elements: Sequence<u32>,
    starts: Sequence<u32>,
    places: Sequence<u32>,
    #[comptime] count_of_weights: usize,
    #[define(F)] _element: ElemType,
) {
    let part = part_of(&elements, &starts, &places, count_of_weights);
    let mut position = part.first.read();
    while position < part.elements.read() {
        let place = (part.place.read() + position) as usize;
        to[place] = F::cast_from(x[place]);
        position += part.step.read();
    }
}
