//! Scales chosen by error in kernels: of several candidates, a block takes the one whose rounding is nearest to its
//! elements. The function is that of [`altgrad_casts::Scaling::choose`], bit for bit.

#![allow(missing_docs, reason = "the macro adds a module to each function")]

use altgrad_casts::{ErrorNorm, Operation};
use cubecl::prelude::*;

use super::{
    ScaleRule,
    block_scale_kernel::{Pair, TensorPair, pair_of},
    derivation::Derivation,
    exact::{LARGEST, ONE, exp2, floor_log2, product, product_shifted, quotient, quotient_shifted, steps},
};
use crate::cube_parts::{INFINITY, MAGNITUDE, SIGN};

/// Elements whose errors are added one after the other; sums of more are added as a tree.
const RUN: usize = 16;
/// The longest block whose scale a unit chooses.
pub(super) const LONGEST: usize = 64 * RUN;

/// The choice among candidates of a scale; numbers are f32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ScaleCandidates {
    norm: ErrorNorm,
    /// Factors of decode scales; 0 is none.
    factors: [u32; 4],
    ties_away: bool,
    /// The format's significand bits, the exponent of its smallest normal number, and its largest number.
    significand_bits: u32,
    emin: i32,
    largest: u32,
    /// True if elements are divided by the decode scale.
    divides: bool,
    /// True if values are restored by the stored scale first.
    is_nested: bool,
    /// True if values are divided by the encode scale.
    divides_back: bool,
}

impl ScaleCandidates {
    /// No candidates.
    pub(super) const NONE: Self = Self {
        norm: ErrorNorm::Squares,
        factors: [0; 4],
        ties_away: false,
        significand_bits: 0,
        emin: 0,
        largest: 0,
        divides: false,
        is_nested: false,
        divides_back: false,
    };

    /// The choice of a rule; `None` if it has none.
    pub(super) fn of(rule: &ScaleRule) -> Option<Self> {
        let (choice, range) = (rule.scaling.choice?, &rule.range);
        Some(Self {
            norm: choice.norm,
            factors: choice.factors.map(f32::to_bits),
            ties_away: choice.ties_away,
            significand_bits: range.significand_bits?,
            emin: range.emin,
            largest: range.largest.to_bits(),
            divides: rule.scaling.quantize == Operation::Divide,
            is_nested: rule.scaling.order.divides_amax() && rule.scaling.tensor,
            divides_back: rule.scaling.dequantize == Operation::Divide,
        })
    }
}

/// The scale of the `len` elements from `first` on, by the candidate with the smallest error.
#[cube]
pub(super) fn chosen_pair(
    x: &[f32],
    first: usize,
    block: u32,
    tensor: &TensorPair,
    #[comptime] len: usize,
    #[comptime] choice: ScaleCandidates,
    #[comptime] derivation: Derivation,
) -> Pair {
    let pair = pair_of(block, tensor, comptime!(choice.factors[0]).runtime(), derivation);
    let mut encode = pair.encode;
    let mut decode = pair.decode;
    let mut stored = pair.stored;
    let mut least = error_of(x, first, &pair, tensor, len, choice, derivation);
    #[unroll]
    for candidate in 1..4usize {
        if comptime!(choice.factors[candidate] != 0) {
            let pair = pair_of(block, tensor, comptime!(choice.factors[candidate]).runtime(), derivation);
            let found = error_of(x, first, &pair, tensor, len, choice, derivation);
            if found < least {
                encode = pair.encode;
                decode = pair.decode;
                stored = pair.stored;
                least = found;
            }
        }
    }
    Pair { encode, decode, stored }
}

/// The error of a block at a scale.
#[cube]
fn error_of(
    x: &[f32],
    first: usize,
    pair: &Pair,
    tensor: &TensorPair,
    #[comptime] len: usize,
    #[comptime] choice: ScaleCandidates,
    #[comptime] derivation: Derivation,
) -> f32 {
    let runs = comptime!(len.div_ceil(RUN));
    let mut sums = Array::<f32>::new(runs);
    for run in 0..runs {
        let mut sum = 0.0f32;
        for i in 0..comptime!(RUN) {
            let at = run * comptime!(RUN) + i;
            if at < len {
                let element = x[first + at];
                let value = restored(
                    nearest(scaled(element, pair, choice), choice),
                    pair,
                    tensor,
                    choice,
                    derivation,
                );
                sum = added(sum, value - element, choice);
            }
        }
        sums[run] = sum;
    }
    let mut count = comptime!(runs).runtime();
    while count > 1usize {
        let half = count - count / 2usize;
        for index in half..count {
            let (own, other) = (sums[index - half], sums[index]);
            sums[index - half] = if comptime!(choice.norm == ErrorNorm::Largest) {
                select(other <= own, own, other)
            } else {
                own + other
            };
        }
        count = half;
    }
    sums[0usize]
}

/// A sum and one more error.
#[cube]
fn added(sum: f32, error: f32, #[comptime] choice: ScaleCandidates) -> f32 {
    let bits = u32::reinterpret(error) & MAGNITUDE;
    let magnitude = f32::reinterpret(bits);
    if comptime!(choice.norm == ErrorNorm::Squares) {
        // In integers, because a compiler may fuse the product into the sum.
        let square = select(bits >= INFINITY, bits, product(min(bits, LARGEST), min(bits, LARGEST)));
        sum + f32::reinterpret(square)
    } else if comptime!(choice.norm == ErrorNorm::Magnitudes) {
        sum + magnitude
    } else {
        select(magnitude <= sum, sum, magnitude)
    }
}

/// Bits of an element scaled for rounding.
#[cube]
fn scaled(x: f32, pair: &Pair, #[comptime] choice: ScaleCandidates) -> u32 {
    if comptime!(choice.divides) {
        divided(u32::reinterpret(x), pair.decode)
    } else {
        u32::reinterpret(x * f32::reinterpret(pair.encode))
    }
}

/// Bits of a number of any kind over a positive one; 0 over 0.
#[cube]
pub(super) fn divided(x: u32, by: u32) -> u32 {
    let magnitude = x & MAGNITUDE;
    let result = quotient(min(magnitude, LARGEST), min(by, LARGEST));
    let result = select(by == 0u32, 0u32, select(magnitude == INFINITY, INFINITY, result));
    let result = select(magnitude > INFINITY, magnitude, result);
    select(by > INFINITY, by, result) | (x & SIGN)
}

/// Bits of the nearest value of the format.
#[cube]
fn nearest(x: u32, #[comptime] choice: ScaleCandidates) -> u32 {
    let magnitude = min(x & MAGNITUDE, choice.largest);
    let step = max(floor_log2(max(magnitude, 1u32)), choice.emin) - comptime!(choice.significand_bits as i32);
    let count = steps(magnitude, step, choice.ties_away);
    let whole = u32::reinterpret(f32::cast_from(count));
    let value = min(product(whole, exp2(step)), choice.largest) | (x & SIGN);
    select((x & MAGNITUDE) > INFINITY, x, value)
}

/// A rounded element scaled back.
#[cube]
fn restored(
    point: u32,
    pair: &Pair,
    tensor: &TensorPair,
    #[comptime] choice: ScaleCandidates,
    #[comptime] derivation: Derivation,
) -> f32 {
    let magnitude = min(point & MAGNITUDE, LARGEST);
    let value = if comptime!(choice.is_nested) {
        let stored = product(magnitude, min(pair.stored, LARGEST));
        let none = tensor.amax == 0u32;
        let shift = select(tensor.amax > ONE, -64i32, 64i32);
        let first = select(none, ONE, product_shifted(min(tensor.amax, LARGEST), ONE, shift));
        let most = comptime!(derivation.tensor.map_or(ONE, |of_tensor| of_tensor.most));
        let product = product(min(stored, LARGEST), first);
        let value = select(none, product, quotient_shifted(min(product, LARGEST), most.runtime(), -shift));
        let value = min(quotient(min(value, LARGEST), derivation.factor), LARGEST);
        select(pair.stored > INFINITY, pair.stored, value)
    } else if comptime!(choice.divides_back) {
        divided(magnitude, pair.encode)
    } else {
        // In integers, because a compiler may fuse the product into the difference.
        select(pair.decode > INFINITY, pair.decode, product(magnitude, min(pair.decode, LARGEST)))
    };
    let is_nan = (point & MAGNITUDE) > INFINITY;
    f32::reinterpret(select(is_nan, point, value | (point & SIGN)))
}
