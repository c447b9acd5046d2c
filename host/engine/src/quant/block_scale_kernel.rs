//! The scale of a block in kernels: a [`Derivation`] applied to the block's magnitude. The function is that of
//! [`altgrad_casts::Scaling::pair`], bit for bit.
//!
//! A block is the f32 bits of its largest finite magnitude. Infinity stands for a block with infinities whose finite
//! elements are zeros, NaN for one that poisons its scale. The key of some elements is a u32 whose maximum over groups
//! is that of the joined groups: their largest finite magnitude, or less than all magnitudes if there are infinities
//! only, or more than all if they poison the scale.

#![allow(missing_docs, reason = "the macro adds a module to each function")]

use altgrad_casts::Order;
use cubecl::prelude::*;

use super::{
    derivation::{ByteType, Derivation, RuleKind, TensorDerivation},
    exact::{
        LARGEST, MIN_NORMAL, ONE, ceil_log2, exp2, floor_log2, nearest_bf16, product, product_shifted,
        quotient, steps,
    },
};
use crate::cube_parts::{INFINITY, MAGNITUDE, QUIET};

/// Bits of a NaN, of `2^-128`, and of `2^126` and `2^-126`.
const NAN: u32 = 0x7fc0_0000;
const LEAST_DECODE: u32 = 1 << 21;
const LIMITS: [u32; 2] = [1 << 23, (127 + 126) << 23];

/// The key of elements that poison the scale.
const POISON: u32 = u32::MAX;

/// Encode and decode scale, as f32 bits, and the number that is stored.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Pair {
    pub(super) encode: u32,
    pub(super) decode: u32,
    pub(super) stored: u32,
}

/// The scale of a tensor over those of its blocks, as f32 bits.
#[derive(CubeType, Clone, Copy)]
pub(super) struct TensorPair {
    /// The magnitude that it follows from; NaN if the tensor is poisoned.
    pub(super) amax: u32,
    pub(super) encode: u32,
    pub(super) decode: u32,
    /// The least stored scale of a block that is not zero.
    pub(super) least_stored: u32,
}

#[cube]
fn chosen(first: bool, a: Pair, b: Pair) -> Pair {
    Pair {
        encode: select(first, a.encode, b.encode),
        decode: select(first, a.decode, b.decode),
        stored: select(first, a.stored, b.stored),
    }
}

#[cube]
fn nan_if(is: bool, pair: Pair) -> Pair {
    Pair {
        encode: select(is, NAN, pair.encode),
        decode: select(is, NAN, pair.decode),
        stored: select(is, NAN, pair.stored),
    }
}

/// The bits of an element's magnitude as a block of one has them.
#[cube]
pub(super) fn magnitude(x: f32, #[comptime] poisons: bool) -> u32 {
    let bits = u32::reinterpret(x) & MAGNITUDE;
    if comptime!(poisons) { select(bits >= INFINITY, NAN, bits) } else { bits }
}

/// The scale of a block whose decode scale is larger by `candidate`, f32 bits, before it is rounded to its type.
#[cube]
pub(super) fn pair_of(
    block: u32,
    tensor: &TensorPair,
    candidate: u32,
    #[comptime] derivation: Derivation,
) -> Pair {
    let pair = if comptime!(derivation.bytes.is_some()) {
        byte_scale(block, tensor, candidate, comptime!(derivation.bytes.unwrap_or_default()), derivation)
    } else {
        let amax = select(block >= INFINITY, 0u32, block);
        float_scale(block, product(amax, candidate), derivation)
    };
    usable(pair)
}

/// The scale of a block whose decode scale is `2^e` as its deviation has it.
#[cube]
pub(super) fn pair_of_exponent(block: u32, e: i32, #[comptime] derivation: Derivation) -> Pair {
    let is_none = comptime!(derivation.floor_at == 0) && block == INFINITY;
    let pair = power(select(is_none, 0i32, e), derivation);
    usable(nan_if(comptime!(derivation.poisons) && block > INFINITY, pair))
}

/// Where the decode scale is 0, all elements become 0.
#[cube]
fn usable(pair: Pair) -> Pair {
    Pair {
        encode: select(pair.decode == 0u32, MIN_NORMAL, pair.encode),
        decode: pair.decode,
        stored: pair.stored,
    }
}

/// A scale in f32 or E8M0.
#[cube]
fn float_scale(block: u32, amax: u32, #[comptime] derivation: Derivation) -> Pair {
    let has_floor = comptime!(derivation.floor_at != 0);
    let is_ratio = comptime!(matches!(derivation.rule, RuleKind::Encode | RuleKind::Decode));
    let raised = if comptime!(has_floor && !is_ratio) {
        select(amax < derivation.floor_at, derivation.floor, amax)
    } else if comptime!(!has_floor && derivation.zero_exponent.is_none()) {
        select(amax == 0u32, MIN_NORMAL, amax)
    } else {
        amax
    };
    let pair = derived(raised, derivation);
    let pair = if comptime!(has_floor) {
        pair
    } else {
        let of_zero = comptime!(derivation.zero_exponent.unwrap_or(0));
        let power_of_none = power(select(block == INFINITY, 0i32, of_zero), derivation);
        let is_none = block == INFINITY || (amax == 0u32 && comptime!(derivation.zero_exponent.is_some()));
        chosen(is_none, power_of_none, pair)
    };
    nan_if(comptime!(derivation.poisons) && block > INFINITY, pair)
}

/// The scale of a magnitude, by the rule.
#[cube]
fn derived(amax: u32, #[comptime] derivation: Derivation) -> Pair {
    if comptime!(derivation.rule == RuleKind::Encode) {
        let encode = encode_of(amax, derivation);
        if comptime!(derivation.is_power) {
            power(-floor_log2(encode), derivation)
        } else {
            let encode = product(encode, derivation.factor);
            within(encode, quotient(ONE, min(encode, LARGEST)), derivation)
        }
    } else if comptime!(derivation.rule == RuleKind::Decode) {
        let decode = decode_of(amax, derivation);
        if comptime!(derivation.is_power) {
            let least = comptime!(derivation.least_exponent).runtime();
            power(select(decode == 0u32, least, max(ceil_log2(max(decode, 1u32)), least)), derivation)
        } else {
            let decode = min(quotient(decode, derivation.factor), LARGEST);
            within(quotient(ONE, decode), decode, derivation)
        }
    } else {
        let amax = max(amax, 1u32);
        if comptime!(derivation.rule == RuleKind::Floor) {
            power(floor_log2(amax) - derivation.emax, derivation)
        } else if comptime!(derivation.rule == RuleKind::Ceil) {
            power(ceil_log2(amax) - derivation.emax, derivation)
        } else if comptime!(derivation.rule == RuleKind::Even) {
            let rounded = amax + derivation.half;
            let beyond = rounded >= INFINITY;
            let e = select(beyond, 128i32, floor_log2(min(rounded, LARGEST))) - derivation.emax;
            nan_if(comptime!(derivation.poisons) && beyond, power(e, derivation))
        } else {
            let ratio = product(amax, derivation.inverse_numerator);
            power(select(ratio == 0u32, -127i32, ceil_log2(max(ratio, 1u32))), derivation)
        }
    }
}

/// `target / amax`, within limits.
#[cube]
fn encode_of(amax: u32, #[comptime] derivation: Derivation) -> u32 {
    let encode = limited(min(quotient(derivation.numerator, max(amax, 1u32)), LARGEST), derivation);
    if comptime!(derivation.floor_at == 0) {
        encode
    } else {
        select(amax < derivation.floor_at, derivation.encode_at_floor, encode)
    }
}

/// `amax / target`, within limits.
#[cube]
fn decode_of(amax: u32, #[comptime] derivation: Derivation) -> u32 {
    limited(quotient(max(amax, derivation.floor), derivation.numerator), derivation)
}

#[cube]
fn limited(scale: u32, #[comptime] derivation: Derivation) -> u32 {
    if comptime!(derivation.is_limited) {
        clamp(scale, comptime!(LIMITS[0]), comptime!(LIMITS[1]))
    } else {
        scale
    }
}

/// The decode scale `2^e`, as near as it can be stored.
#[cube]
fn power(e: i32, #[comptime] derivation: Derivation) -> Pair {
    let e = clamp(min(e, derivation.most_exponent), -127i32, 127i32);
    let (encode, decode) = (exp2(-e), exp2(e));
    let pair = if comptime!(derivation.factor == ONE) {
        within(encode, decode, derivation)
    } else {
        within(product(encode, derivation.factor), quotient(decode, derivation.factor), derivation)
    };
    Pair { encode: pair.encode, decode: pair.decode, stored: decode }
}

/// Scales by which no value becomes infinite, unless poison is wanted.
#[cube]
fn within(encode: u32, decode: u32, #[comptime] derivation: Derivation) -> Pair {
    let (encode, decode) = (min(encode, LARGEST), clamp(decode, LEAST_DECODE, LARGEST));
    let small = comptime!(!derivation.poisons) && encode < derivation.least_encode;
    let decode = select(small, clamp(derivation.least_inverse, LEAST_DECODE, LARGEST), decode);
    Pair { encode: select(small, derivation.least_encode, encode), decode, stored: decode }
}

/// A scale that is a floating-point byte.
#[cube]
fn byte_scale(
    block: u32,
    tensor: &TensorPair,
    candidate: u32,
    #[comptime] bytes: ByteType,
    #[comptime] derivation: Derivation,
) -> Pair {
    let has_tensor = comptime!(derivation.tensor.is_some());
    let amax = select(block >= INFINITY, 0u32, block);
    let target = derivation.target;
    let order = comptime!(derivation.order);
    let ratio = if comptime!(matches!(order, Order::Encode | Order::Product)) {
        let factor = derivation.inverse_target;
        product(amax, if comptime!(has_tensor) { product(tensor.encode, factor) } else { factor.runtime() })
    } else if comptime!(!has_tensor) {
        quotient(amax, target)
    } else if comptime!(order == Order::Amax) {
        product(quotient(amax, target), tensor.encode)
    } else if comptime!(order == Order::DecodeTensor) {
        quotient(quotient(amax, tensor.decode), target)
    } else {
        quotient(quotient(amax, target), tensor.decode)
    };
    let least =
        if comptime!(has_tensor) { select(amax == 0u32, 0u32, tensor.least_stored) } else { 0u32.runtime() };
    let ratio = max(product(ratio, candidate), least);
    let ratio = select(block == INFINITY, ONE, ratio);
    let stored = stored_number(max(ratio, derivation.floor), bytes);
    let pair = of_stored(stored, tensor, derivation);
    let poisoned = comptime!(derivation.poisons) && block > INFINITY;
    nan_if(poisoned || (has_tensor && tensor.amax > INFINITY), pair)
}

/// The number of a type of bytes to which another is rounded.
#[cube]
fn stored_number(x: u32, #[comptime] bytes: ByteType) -> u32 {
    let x = clamp(x, bytes.least, bytes.largest);
    let step = max(floor_log2(max(x, 1u32)), bytes.emin) - comptime!(bytes.significand_bits as i32);
    let nearest = steps(x, step, false);
    let count = if comptime!(bytes.up) {
        // One more where the nearest is below.
        let value = product(f32_of(nearest), exp2(step));
        nearest + u32::cast_from(value < x)
    } else {
        nearest
    };
    let stored = product(f32_of(count), exp2(step));
    select(x == 0u32 || stored == 0u32, bytes.zero, stored)
}

/// Bits of a whole number below `2^24`.
#[cube]
fn f32_of(count: u32) -> u32 {
    u32::reinterpret(f32::cast_from(count))
}

/// The scale of a stored number.
#[cube]
fn of_stored(stored: u32, tensor: &TensorPair, #[comptime] derivation: Derivation) -> Pair {
    let pair = if comptime!(derivation.tensor.is_none()) {
        scaled_by(quotient(ONE, stored), stored, derivation)
    } else {
        under_tensor(stored, tensor, comptime!(derivation.tensor.unwrap_or_default()), derivation)
    };
    let is_zero = stored == 0u32;
    Pair { encode: select(is_zero, LARGEST, pair.encode), decode: select(is_zero, 0u32, pair.decode), stored }
}

#[cube]
fn under_tensor(
    stored: u32,
    tensor: &TensorPair,
    #[comptime] of_tensor: TensorDerivation,
    #[comptime] derivation: Derivation,
) -> Pair {
    let order = comptime!(derivation.order);
    if comptime!(of_tensor.to_bf16) {
        let decode = nearest_bf16(product(nearest_bf16(tensor.decode), stored));
        scaled_by(quotient(ONE, decode), decode, derivation)
    } else if comptime!(order.is_encode()) {
        let encode = quotient(ONE, product(stored, tensor.decode));
        let decode = if comptime!(order == Order::Product) {
            product(stored, tensor.decode)
        } else {
            let shift = select(tensor.amax > ONE, -64i32, 64i32);
            let scaled = product_shifted(stored, tensor.amax, shift);
            product_shifted(scaled, of_tensor.inverse_most, -shift)
        };
        // A tensor of zeros has scale 1.
        let none = tensor.amax == 0u32;
        let one = quotient(ONE, stored);
        scaled_by(select(none, one, encode), select(none, stored, decode), derivation)
    } else {
        scaled_by(quotient(tensor.encode, stored), product(tensor.decode, stored), derivation)
    }
}

/// Scales with their factor, within f32.
#[cube]
fn scaled_by(encode: u32, decode: u32, #[comptime] derivation: Derivation) -> Pair {
    let encode = min(encode, LARGEST);
    if comptime!(derivation.factor == ONE) {
        within(encode, decode, derivation)
    } else {
        within(product(encode, derivation.factor), quotient(decode, derivation.factor), derivation)
    }
}

/// The scale of a tensor with this largest magnitude; NaN if it is poisoned.
#[cube]
pub(super) fn tensor_pair(amax: u32, #[comptime] derivation: Derivation) -> TensorPair {
    if comptime!(derivation.tensor.is_none()) {
        TensorPair { amax: 0u32, encode: ONE.runtime(), decode: ONE.runtime(), least_stored: 0u32 }
    } else {
        tensor_scale(amax, comptime!(derivation.tensor.unwrap_or_default()), derivation)
    }
}

#[cube]
fn tensor_scale(
    amax: u32,
    #[comptime] of_tensor: TensorDerivation,
    #[comptime] derivation: Derivation,
) -> TensorPair {
    let order = comptime!(derivation.order);
    let raised = max(min(amax, LARGEST), of_tensor.least_amax);
    let decode = if comptime!(order.is_encode()) {
        inner(quotient(ONE, inner(quotient(of_tensor.most, raised))))
    } else if comptime!(matches!(order, Order::DecodeMost | Order::DecodeTensor)) {
        inner(quotient(quotient(raised, of_tensor.most_stored), derivation.target))
    } else if comptime!(order == Order::DecodeTarget) {
        inner(quotient(quotient(raised, derivation.target), of_tensor.most_stored))
    } else {
        inner(quotient(raised, of_tensor.most))
    };
    let encode = if comptime!(order.is_encode()) {
        inner(quotient(of_tensor.most, raised))
    } else {
        inner(quotient(ONE, decode))
    };
    let least = quotient(LEAST_DECODE.runtime(), decode);
    let exponent = select(least == 0u32, -149i32, max(ceil_log2(max(least, 1u32)), -149i32));
    let none = amax == 0u32;
    TensorPair {
        amax: select(none, 0u32, select(amax > INFINITY, NAN, raised)),
        encode: select(none, ONE, encode),
        decode: select(none, ONE, decode),
        least_stored: select(none, 0u32, exp2(exponent)),
    }
}

/// Within f32, so that the inverse is too.
#[cube]
fn inner(scale: u32) -> u32 {
    clamp(scale, LEAST_DECODE, LARGEST)
}

/// The key of an element.
#[cube]
fn key(x: f32, #[comptime] poisons: bool) -> u32 {
    let bits = u32::reinterpret(x) & MAGNITUDE;
    let finite = select(bits == 0u32, 0u32, bits + 1u32);
    let other = if comptime!(poisons) { POISON.runtime() } else { u32::cast_from(bits == INFINITY) };
    select(bits >= INFINITY, other, finite)
}

/// The block of a key, as [`pair_of`] takes it.
#[cube]
pub(super) fn block_of(key: u32) -> u32 {
    let finite = select(key == 0u32, 0u32, key - 1u32);
    select(key == 1u32, INFINITY, select(key == POISON, comptime!(INFINITY | QUIET), finite))
}

/// The key of `x[start], x[start + step] ..`, before `end`.
#[cube]
pub(super) fn key_of(x: &[f32], start: usize, end: usize, step: usize, #[comptime] poisons: bool) -> u32 {
    let mut all = 0u32;
    let mut place = start;
    while place < end {
        all = max(all, key(x[place], poisons));
        place += step;
    }
    all
}

/// Writes scale and inverse of a group.
#[cube]
pub(super) fn write_pair(scales: &mut [f32], group: usize, pair: Pair) {
    scales[2 * group] = f32::reinterpret(pair.encode);
    scales[2 * group + 1] = f32::reinterpret(pair.decode);
}
