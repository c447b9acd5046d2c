//! Dynamic scales on a device: from the magnitude of each group to its scale and inverse.
//!
//! All is done in integers, so that every device has the scales of [`super::scale::ScaleRule`], bit for bit. Groups are
//! compared by their keys (`block_scale_kernel`).

use burn::backend::TensorMetadata;
use burn::tensor::{DType, Shape};
use burn_cubecl::{kernel::into_contiguous, ops::numeric::empty_device_contiguous_dtype, tensor::CubeTensor};
use cubecl::{calculate_cube_count_elemwise, prelude::*};

use super::{
    block_scale_kernel::{TensorPair, block_of, key_of, pair_of, tensor_pair, write_pair},
    choice_kernel::{LONGEST, ScaleCandidates, chosen_pair},
    derivation::{Derivation, RuleKind},
    deviation_kernel,
    exact::ONE,
    scale::ScaleRule,
};
use crate::{
    cube_parts::{INFINITY, UNITS, cube_max},
    zero_words::zero_words,
};

/// The longest group that one unit compares. A cube compares longer ones.
const MOST_OF_UNIT: usize = 64;
/// The longest group that one cube compares, if there are few. Otherwise a cube compares a part of this length at
/// least.
const MOST_OF_CUBE: usize = 1 << 12;
/// Groups that occupy a GPU with a cube each.
const MANY: usize = 128;
/// Parts of a group, which one cube compares.
const MAX_PARTS: usize = 256;
/// Most cubes of a launch: devices promise 65,535.
const MAX_CUBES: usize = 1 << 15;

/// `[groups, 2]`: scale and inverse of each group of `x`. One launch, and one more for the parts of few long groups
/// where cubes cannot pass results to each other; three launches under a scale of the tensor. `None` if kernels do not
/// compute these scales.
pub(super) fn scales(x: CubeTensor, rule: &ScaleRule) -> Option<CubeTensor> {
    let passes_results = x.client.features().device_memory_scope;
    scales_by(x, rule, passes_results)
}

/// The scales of the groups of `x`, with the parts of a group in one launch or more.
#[must_use]
pub fn scales_by(x: CubeTensor, rule: &ScaleRule, in_one_launch: bool) -> Option<CubeTensor> {
    let elements = x.shape().num_elements();
    let len = rule.group_len(elements);
    let derivation = derivation(rule, elements)?;
    let values = into_contiguous(x);
    let groups = Groups { count: elements / len, len, derivation };
    let scales = empty(&values, &[groups.count, 2]);
    if derivation.rule == RuleKind::Deviation {
        deviation_kernel::scales(&values, &scales, rule, [groups.count, len], derivation);
        return Some(scales);
    }
    if derivation.tensor.is_some() || rule.scaling.choice.is_some() {
        let magnitudes = empty(&values, &[groups.count]);
        groups.magnitudes(values.clone(), &magnitudes);
        groups.under_tensor(&values, &magnitudes, &scales, rule);
        return Some(scales);
    }
    let parts = groups.parts();
    if parts > 1 && in_one_launch {
        scales_by_parts::launch(
            &values.client,
            CubeCount::new_1d((groups.count * parts) as u32),
            CubeDim::new_1d(UNITS),
            values.clone().into_buffer_arg(),
            scales.clone().into_buffer_arg(),
            zero_words(&values.device(), 2 * groups.count).into_buffer_arg(),
            groups.count as u32,
            groups.len as u32,
            parts as u32,
            derivation,
        );
    } else {
        let (values, groups) = groups.joined(values);
        groups.launch(&values, &scales, true);
    }
    Some(scales)
}

/// The derivation of scales in kernels, of a tensor of `elements`; `None` if they are computed in main memory.
#[must_use]
pub(super) fn derivation(rule: &ScaleRule, elements: usize) -> Option<Derivation> {
    let (derivation, len) = (Derivation::of(rule)?, rule.group_len(elements));
    let fits = match derivation.rule {
        RuleKind::Deviation => len <= deviation_kernel::LONGEST,
        _ => rule.scaling.choice.is_none() || ScaleCandidates::of(rule).is_some() && len <= LONGEST,
    };
    fits.then_some(derivation)
}

fn empty(beside: &CubeTensor, shape: &[usize]) -> CubeTensor {
    let shape = Shape::from(shape.to_vec());
    empty_device_contiguous_dtype(beside.client.clone(), beside.device(), shape, DType::F32)
}

/// Groups of consecutive elements.
#[derive(Clone, Copy)]
struct Groups {
    count: usize,
    len: usize,
    derivation: Derivation,
}

impl Groups {
    /// The number of parts into which few long groups are divided; 1 for others.
    fn parts(&self) -> usize {
        if self.count < MANY { self.len.div_ceil(MOST_OF_CUBE).clamp(1, MAX_PARTS) } else { 1 }
    }

    /// The magnitudes of the parts of groups, and these as groups.
    fn joined(self, values: CubeTensor) -> (CubeTensor, Self) {
        let parts = self.parts();
        if parts == 1 {
            return (values, self);
        }
        let magnitudes = empty(&values, &[self.count * parts]);
        magnitudes_of_parts::launch(
            &values.client,
            CubeCount::new_1d((self.count * parts) as u32),
            CubeDim::new_1d(UNITS),
            values.clone().into_buffer_arg(),
            magnitudes.clone().into_buffer_arg(),
            (self.count * parts) as u32,
            self.len as u32,
            parts as u32,
            self.derivation.poisons,
        );
        (magnitudes, Self { len: parts, ..self })
    }

    /// Writes the scale of each group, or its magnitude.
    fn launch(&self, values: &CubeTensor, to: &CubeTensor, to_scales: bool) {
        let dim = CubeDim::new_1d(UNITS);
        let by_cube = self.len > MOST_OF_UNIT;
        let cubes = if by_cube {
            CubeCount::new_1d(self.count.min(MAX_CUBES) as u32)
        } else {
            calculate_cube_count_elemwise(&values.client, self.count, dim)
        };
        scales_of_groups::launch(
            &values.client,
            cubes,
            dim,
            values.clone().into_buffer_arg(),
            to.clone().into_buffer_arg(),
            self.count as u32,
            self.len as u32,
            self.derivation,
            by_cube,
            to_scales,
        );
    }

    /// Writes the magnitude of each group.
    fn magnitudes(self, values: CubeTensor, to: &CubeTensor) {
        let (values, groups) = self.joined(values);
        groups.launch(&values, to, false);
    }

    /// Writes the scale of each group under that of the tensor, from the magnitudes of groups.
    fn under_tensor(
        &self,
        values: &CubeTensor,
        magnitudes: &CubeTensor,
        scales: &CubeTensor,
        rule: &ScaleRule,
    ) {
        let whole = Self { count: 1, len: self.count, ..*self };
        let (tensor, parts) = match rule.scaling.amax {
            // The magnitude of the tensor is not that of its elements.
            Some(_) => (magnitudes.clone(), 0),
            None => {
                let (magnitudes, parts) = whole.joined(magnitudes.clone());
                (magnitudes, parts.len)
            }
        };
        let dim = CubeDim::new_1d(UNITS);
        scales_under_tensor::launch(
            &values.client,
            calculate_cube_count_elemwise(&values.client, self.count, dim),
            dim,
            values.clone().into_buffer_arg(),
            magnitudes.clone().into_buffer_arg(),
            tensor.into_buffer_arg(),
            scales.clone().into_buffer_arg(),
            self.count as u32,
            parts as u32,
            rule.scaling.amax.unwrap_or(0.0).to_bits(),
            ScaleCandidates::of(rule).map(|choice| (choice, self.len)),
            self.derivation,
        );
    }
}

/// The key of the cube's part of a group. A part has every `parts`-th stretch of elements as long as a cube has units,
/// so that neighbouring units read neighbouring elements.
#[cube]
fn key_of_part(x: &[f32], group: usize, len: usize, parts: usize, #[comptime] poisons: bool) -> u32 {
    let first = group * len;
    let own = CUBE_POS % parts * comptime!(UNITS as usize) + UNIT_POS as usize;
    cube_max(key_of(x, first + own, first + len, parts * comptime!(UNITS as usize), poisons))
}

/// The magnitude of each part of each group of `len` values; `elements` of them, a cube each.
#[cube(launch)]
fn magnitudes_of_parts(
    x: &[f32],
    magnitudes: &mut [f32],
    elements: u32,
    len: u32,
    parts: u32,
    #[comptime] poisons: bool,
) {
    if CUBE_POS < elements as usize {
        let all = key_of_part(x, CUBE_POS / parts as usize, len as usize, parts as usize, poisons);
        if UNIT_POS == 0u32 {
            magnitudes[CUBE_POS] = f32::reinterpret(block_of(all));
        }
    }
}

/// Scale and inverse of each of `elements` groups of `len` values, `parts` cubes for each: the last cube that is done
/// writes. `done` has two zeros for each group: the key, and the number of cubes that are done.
#[cube(launch)]
fn scales_by_parts(
    x: &[f32],
    scales: &mut [f32],
    done: &mut [Atomic<u32>],
    elements: u32,
    len: u32,
    parts: u32,
    #[comptime] derivation: Derivation,
) {
    let group = CUBE_POS / parts as usize;
    if group < elements as usize {
        let own = key_of_part(x, group, len as usize, parts as usize, derivation.poisons);
        if UNIT_POS == 0u32 {
            done[2 * group].fetch_max(own);
        }
        // The maximum is there before the cube counts as done.
        sync_storage();
        if UNIT_POS == 0u32 {
            let before = done[2 * group + 1].fetch_add(1u32);
            if before + 1u32 == parts {
                let all = done[2 * group].fetch_max(0u32);
                write_scale(scales, group, all, derivation);
            }
        }
    }
}

/// Scale and inverse of each of `elements` groups of `len` values, or its magnitude: a cube or a unit for each.
#[cube(launch)]
fn scales_of_groups(
    x: &[f32],
    to: &mut [f32],
    elements: u32,
    len: u32,
    #[comptime] derivation: Derivation,
    #[comptime] by_cube: bool,
    #[comptime] to_scales: bool,
) {
    let len = len as usize;
    if comptime!(by_cube) {
        let mut group = CUBE_POS;
        while group < elements as usize {
            let (first, step) = (group * len, comptime!(UNITS as usize));
            let own = key_of(x, first + UNIT_POS as usize, first + len, step, derivation.poisons);
            let all = cube_max(own);
            if UNIT_POS == 0u32 {
                write(to, group, all, derivation, to_scales);
            }
            group += CUBE_COUNT;
        }
    } else if ABSOLUTE_POS < elements as usize {
        let first = ABSOLUTE_POS * len;
        let all = key_of(x, first, first + len, 1usize, derivation.poisons);
        write(to, ABSOLUTE_POS, all, derivation, to_scales);
    }
}

#[cube]
fn write(
    to: &mut [f32],
    group: usize,
    key: u32,
    #[comptime] derivation: Derivation,
    #[comptime] to_scales: bool,
) {
    if comptime!(to_scales) {
        write_scale(to, group, key, derivation);
    } else {
        to[group] = f32::reinterpret(block_of(key));
    }
}

/// Writes scale and inverse of a group with this key, without a scale of the tensor.
#[cube]
pub(super) fn write_scale(scales: &mut [f32], group: usize, key: u32, #[comptime] derivation: Derivation) {
    let none = TensorPair { amax: 0u32, encode: ONE.runtime(), decode: ONE.runtime(), least_stored: 0u32 };
    write_pair(scales, group, pair_of(block_of(key), &none, ONE.runtime(), derivation));
}

/// Scale and inverse of each of `elements` groups from their magnitudes, under the scale of the tensor: from `parts`
/// magnitudes of its parts, or from `amax` if there are none. With a choice, groups have its number of elements.
#[cube(launch)]
fn scales_under_tensor(
    x: &[f32],
    magnitudes: &[f32],
    of_parts: &[f32],
    scales: &mut [f32],
    elements: u32,
    parts: u32,
    amax: u32,
    #[comptime] choice: Option<(ScaleCandidates, usize)>,
    #[comptime] derivation: Derivation,
) {
    let own =
        key_of(of_parts, UNIT_POS as usize, parts as usize, comptime!(UNITS as usize), derivation.poisons);
    let measured = block_of(cube_max(own));
    let measured = select(measured == INFINITY, 0u32, measured);
    let tensor = tensor_pair(select(parts == 0u32, amax, measured), derivation);
    let group = ABSOLUTE_POS;
    if group < elements as usize {
        let block = u32::reinterpret(magnitudes[group]);
        let pair = if comptime!(choice.is_some()) {
            let (choice, len) = comptime!(choice.unwrap_or((ScaleCandidates::NONE, 0)));
            chosen_pair(x, group * len, block, &tensor, len, choice, derivation)
        } else {
            pair_of(block, &tensor, ONE.runtime(), derivation)
        };
        write_pair(scales, group, pair);
    }
}
