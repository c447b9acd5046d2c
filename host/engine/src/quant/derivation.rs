//! The derivation of scales as kernels take it: a [`ScaleRule`] in numbers that are computed once.
//!
//! [`altgrad_casts::Scaling`] defines it. Not all scalings have one: what depends on more than a block and the tensor
//! is computed in main memory.

use altgrad_casts::{NonFinite, Operation, Order, Rule, ScaleRounding, Storage, ZeroBlock};

use super::ScaleRule;

/// A rule, as [`altgrad_casts::Rule`] without its number of deviations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RuleKind {
    /// The encode scale is divided first.
    Encode,
    /// The decode scale is.
    Decode,
    /// `Floor`, `Ceil`, `Even` and `Rceil`.
    Floor,
    Ceil,
    Even,
    Rceil,
    /// `Rms`: exponents follow from deviations, not from magnitudes.
    Deviation,
}

/// A type of floating-point bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ByteType {
    /// Stored significand bits, and the exponent of the smallest normal number.
    pub significand_bits: u32,
    pub emin: i32,
    /// f32 bits of the least and the largest number.
    pub least: u32,
    pub largest: u32,
    /// What is stored in place of 0.
    pub zero: u32,
    /// True if scales are rounded up.
    pub up: bool,
}

/// The kind of a scale over the scales of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct TensorDerivation {
    /// f32 bits of the stored scale of the largest block, of its product with the target, of that product over the
    /// largest f32, and of its inverse.
    pub most_stored: u32,
    pub most: u32,
    pub least_amax: u32,
    pub inverse_most: u32,
    /// True if the scale of the tensor and its products are rounded to bf16.
    pub to_bf16: bool,
}

/// The derivation of the scales of blocks. Numbers are f32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Derivation {
    pub rule: RuleKind,
    /// The order of operations of scales that are floating-point bytes.
    pub order: Order,
    /// True if scales are powers of two.
    pub is_power: bool,
    /// True if NaN and infinities of a block make its scale NaN.
    pub poisons: bool,
    /// True if scales are kept from `2^-126` to `2^126`.
    pub is_limited: bool,
    /// The exponent of the scale of zeros; `None`: as if their magnitude were `2^-126`.
    pub zero_exponent: Option<i32>,
    /// The least magnitude, and the first f32 that is not below it; 0 if there is none.
    pub floor: u32,
    pub floor_at: u32,
    /// The encode scale of smaller magnitudes.
    pub encode_at_floor: u32,
    /// `target 2^-margin`, and the inverse of it.
    pub numerator: u32,
    pub inverse_numerator: u32,
    /// The format's target, and its inverse.
    pub target: u32,
    pub inverse_target: u32,
    /// The exponent of the target less the margin.
    pub emax: i32,
    /// Half of a step of a magnitude that is rounded to the format's significand.
    pub half: u32,
    /// The largest and the least exponent of a decode scale.
    pub most_exponent: i32,
    pub least_exponent: i32,
    /// The least encode scale, and its inverse.
    pub least_encode: u32,
    pub least_inverse: u32,
    /// A factor of encode scales.
    pub factor: u32,
    /// The type of scales that are floating-point bytes.
    pub bytes: Option<ByteType>,
    /// The scale of the tensor, if there is one.
    pub tensor: Option<TensorDerivation>,
}

impl Derivation {
    /// The derivation of a rule; `None` if kernels do not compute its scales.
    #[must_use]
    pub fn of(rule: &ScaleRule) -> Option<Self> {
        let ScaleRule { range, scaling, .. } = rule;
        let kind = match scaling.rule {
            Rule::Max if scaling.order.is_encode() => RuleKind::Encode,
            Rule::Max => RuleKind::Decode,
            Rule::Floor => RuleKind::Floor,
            Rule::Ceil => RuleKind::Ceil,
            Rule::Even => RuleKind::Even,
            Rule::Rceil => RuleKind::Rceil,
            Rule::Rms { .. } => RuleKind::Deviation,
        };
        let is_random = scaling.round == ScaleRounding::Stochastic;
        if scaling.needs_matrix() || scaling.in_bf16 || is_random || scaling.dequantize == Operation::Nested {
            return None;
        }
        let has_magnitude = scaling.tensor || scaling.amax.is_some() || scaling.byte_type().is_some();
        if kind == RuleKind::Deviation && has_magnitude {
            return None;
        }
        let bits = f32::to_bits;
        let numerator = rule.numerator();
        let floor = scaling.floor as f32;
        // The first f32 that is not below the floor, which is f64.
        let floor_at = if f64::from(floor) < scaling.floor { floor.next_up() } else { floor };
        let encode_at_floor = (f64::from(numerator) / scaling.floor) as f32;
        let is_e8m0 = scaling.storage == Storage::E8m0;
        let is_limited = rule.is_limited();
        let limited = |scale: f32| {
            if is_limited { scale.clamp(2f32.powi(-126), 2f32.powi(126)) } else { scale }
        };
        let most = scaling.most_stored() * range.target;
        let zero = |own: altgrad_casts::ScaleType| match scaling.zero {
            ZeroBlock::StoredOne => 1.0,
            ZeroBlock::StoredSmallest => own.smallest(),
            _ => 0.0,
        };
        Some(Self {
            rule: kind,
            order: scaling.order,
            is_power: kind != RuleKind::Encode && kind != RuleKind::Decode || scaling.pow2 || is_e8m0,
            poisons: scaling.nonfinite == NonFinite::Poison,
            is_limited,
            zero_exponent: match scaling.zero {
                ZeroBlock::Smallest => Some(-127),
                ZeroBlock::MinNormal => None,
                _ => Some(0),
            },
            floor: bits(floor),
            floor_at: bits(floor_at),
            encode_at_floor: bits(limited(encode_at_floor.min(f32::MAX))),
            numerator: bits(numerator),
            inverse_numerator: bits(1.0 / rule.scaled_target().min(f32::MAX)),
            target: bits(range.target),
            inverse_target: bits(1.0 / range.target),
            emax: range.emax() - scaling.margin,
            half: 1 << 22 >> range.significand_bits.unwrap_or(0),
            most_exponent: if scaling.nonfinite == NonFinite::Skip { range.most_exponent } else { 127 },
            least_exponent: if is_e8m0 { -127 } else { -126 },
            least_encode: bits(range.least_encode),
            least_inverse: bits(1.0 / range.least_encode),
            factor: bits(scaling.factor),
            bytes: scaling.byte_type().map(|own| ByteType {
                significand_bits: own.significand_bits(),
                emin: own.emin(),
                least: bits(own.least()),
                largest: bits(own.largest()),
                zero: bits(zero(own)),
                up: scaling.round == ScaleRounding::Up,
            }),
            tensor: scaling.tensor.then(|| TensorDerivation {
                most_stored: bits(scaling.most_stored()),
                most: bits(most),
                least_amax: bits(most / f32::MAX),
                inverse_most: bits(1.0 / most),
                to_bf16: scaling.to_bf16,
            }),
        })
    }
}
