//! Values of a cast that are picked from a few.

use std::fmt;
use std::str::FromStr;

use altgrad_casts::{Microexponents, ScaleType};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::choices::{InvalidChoice, named_choice, string_schema, through_string};

named_choice! {
    /// Rounding of scaled elements.
    CastRoundingChoice {
        /// To the nearer code; ties go to the even code.
        NearestEven = "nearest-even",
        /// To the nearer code; ties go away from zero.
        NearestAway = "nearest-away",
        /// To the nearer code; ties go toward zero.
        NearestZero = "nearest-zero",
        /// To the nearer code; ties go to the greater value.
        NearestUp = "nearest-up",
        /// To the code nearer zero.
        TowardZero = "toward-zero",
        /// Up or down at random, so that the expected result is the value.
        Stochastic = "stochastic",
    }
}

named_choice! {
    /// How the scale of a block follows from its elements.
    ScaleRuleChoice {
        /// The largest magnitude becomes the format's largest value.
        Max = "max",
        /// The power of two at or below the largest magnitude becomes the format's largest power of two (OCP MX).
        Floor = "floor",
        /// The power of two at or above the largest magnitude becomes the format's largest power of two.
        Ceil = "ceil",
        /// As `floor`, after rounding the largest magnitude to the format's significand bits.
        Even = "even",
        /// As `max`, with the decode scale rounded up to a power of two.
        Rceil = "rceil",
        /// From the standard deviation.
        Rms = "rms",
    }
}

/// The type of stored scales.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ScaleTypeChoice {
    /// f32.
    F32,
    /// A byte for a power of two (OCP MX).
    E8m0,
    /// A byte, E4M3 (NVFP4).
    E4m3,
    /// A byte of another floating-point type without sign: `ue5m3`, `e6m2`.
    Minifloat(ScaleType),
}

impl ScaleTypeChoice {
    /// True if scales are floating-point bytes.
    #[must_use]
    pub fn is_minifloat(self) -> bool {
        matches!(self, Self::E4m3 | Self::Minifloat(_))
    }
}

impl FromStr for ScaleTypeChoice {
    type Err = InvalidChoice;

    fn from_str(text: &str) -> Result<Self, InvalidChoice> {
        let other = || text.parse().map(Self::Minifloat);
        match text {
            "f32" => Ok(Self::F32),
            "e8m0" => Ok(Self::E8m0),
            "e4m3" => Ok(Self::E4m3),
            _ => other().map_err(|()| {
                InvalidChoice::new(text, &["f32", "e8m0", "e4m3", "ue5m3", "ue5m3:ieee", "e6m2"])
            }),
        }
    }
}

impl fmt::Display for ScaleTypeChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::F32 => f.write_str("f32"),
            Self::E8m0 => f.write_str("e8m0"),
            Self::E4m3 => f.write_str("e4m3"),
            Self::Minifloat(own) => own.fmt(f),
        }
    }
}

through_string!(ScaleTypeChoice);

string_schema!(ScaleTypeChoice, {
    "type": "string",
    "oneOf": [
        { "const": "f32", "description": "f32." },
        { "const": "e8m0", "description": "A byte for a power of two (OCP MX)." },
        { "const": "e4m3", "description": "A byte, E4M3 (NVFP4)." },
        { "const": "ue5m3", "description": "A byte without sign of 5 exponent and 3 significand bits, up to 114688 (CUDA); `ueEmM` for others, the code of ones is NaN." },
        { "const": "ue5m3:ieee", "description": "The same without the largest exponent, up to 61440 (arXiv:2609.02846)." },
        { "const": "e6m2", "description": "A byte without sign, zero and subnormals, from 2^-48 to 49152 (HiFloat4, arXiv:2602.11287)." }
    ]
});

named_choice! {
    /// How scales of floating-point bytes are rounded.
    ScaleRoundingChoice {
        /// To nearest, ties to even.
        Nearest = "nearest",
        /// Up.
        Up = "up",
        /// Up or down at random, so that the expected scale is the exact one.
        Stochastic = "stochastic",
    }
}

named_choice! {
    /// The error by which a block chooses among candidate scales.
    ErrorChoice {
        /// None: there is one candidate.
        None = "none",
        /// The sum of squared errors.
        Mse = "mse",
        /// The sum of absolute errors.
        Mae = "mae",
        /// The largest absolute error.
        Max = "max",
    }
}

named_choice! {
    /// How the distance between neighbours is rounded to the random bits of stochastic rounding.
    RandomModeChoice {
        /// Down (P3109's StochasticA).
        A = "a",
        /// To nearest, ties up (StochasticB).
        B = "b",
        /// To nearest, ties to even (StochasticC).
        C = "c",
        /// To nearest, ties to odd (gfloat).
        Odd = "odd",
    }
}

named_choice! {
    /// The result of elements beyond the format's largest value.
    OverflowChoice {
        /// The largest value.
        Saturate = "saturate",
        /// Infinity, or NaN in formats without infinities.
        NonFinite = "nonfinite",
    }
}

/// Factors of the decode scale among which a block chooses: two to four.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<f32>", into = "Vec<f32>")]
pub struct CandidatesChoice(pub(super) [f32; 4]);

impl TryFrom<Vec<f32>> for CandidatesChoice {
    type Error = &'static str;

    fn try_from(factors: Vec<f32>) -> Result<Self, Self::Error> {
        let mut all = [0.0; 4];
        let fits = (2..=all.len()).contains(&factors.len())
            && factors.iter().all(|factor| (0.0625..=16.0).contains(factor));
        if !fits {
            return Err("must be two to four factors from 0.0625 to 16, such as [1, 1.5]");
        }
        all[..factors.len()].copy_from_slice(&factors);
        Ok(Self(all))
    }
}

impl From<CandidatesChoice> for Vec<f32> {
    fn from(CandidatesChoice(factors): CandidatesChoice) -> Self {
        factors.into_iter().filter(|factor| *factor > 0.0).collect()
    }
}

impl JsonSchema for CandidatesChoice {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CandidatesChoice".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "items": { "type": "number" } })
    }
}

/// Sizes of nested sub-blocks of a block, at most four.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<u16>", into = "Vec<u16>")]
pub struct MicroexponentsChoice(pub(super) Microexponents);

impl TryFrom<Vec<u16>> for MicroexponentsChoice {
    type Error = &'static str;

    fn try_from(sizes: Vec<u16>) -> Result<Self, Self::Error> {
        let nested = Microexponents::new(&sizes);
        nested.map(Self).ok_or("must be up to four sizes, each dividing the one before, such as [8, 4]")
    }
}

impl From<MicroexponentsChoice> for Vec<u16> {
    fn from(MicroexponentsChoice(sizes): MicroexponentsChoice) -> Self {
        sizes.sizes().map(|size| size as u16).collect()
    }
}

impl JsonSchema for MicroexponentsChoice {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "MicroexponentsChoice".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "items": { "type": "integer" } })
    }
}

named_choice! {
    /// The type to which each operation that computes a scale is rounded.
    ScaleArithmeticChoice {
        /// f32.
        F32 = "f32",
        /// bf16, ties to even; for floating-point bytes without a scale of the tensor.
        Bf16 = "bf16",
    }
}

named_choice! {
    /// Which scale is divided first; the other is its reciprocal.
    ScaleOrderChoice {
        /// The encode scale (multiplies elements).
        Encode = "encode",
        /// The decode scale (multiplies stored values).
        Decode = "decode",
        /// As `encode`, with the ratio `fl(fl(amax / target) S)` (four over six).
        Amax = "amax",
        /// As `encode`, with values scaled back by `fl(stored D)` (arXiv:2609.02846).
        Product = "product",
        /// As `decode`, with the tensor's scale `fl(fl(amax / tensor_target) / target)` (Quartet II).
        DecodeMost = "decode-most",
        /// As `decode-most`, with the ratio `fl(fl(amax / D) / target)` (TetraJet-v2).
        DecodeTensor = "decode-tensor",
        /// As `decode`, with the tensor's scale `fl(fl(amax / target) / tensor_target)` (arXiv:2510.25602).
        DecodeTarget = "decode-target",
    }
}

named_choice! {
    /// The scale of the tensor, in addition to those of blocks.
    TensorScaleChoice {
        /// Nothing.
        None = "none",
        /// An f32 scale of the whole tensor.
        F32 = "f32",
        /// The same, rounded to bf16 as are its products with the scales of blocks.
        Bf16 = "bf16",
    }
}

named_choice! {
    /// The limit of scales that are not normal f32 numbers.
    ScaleLimitChoice {
        /// Clamped to 2^-126 to 2^126.
        Normal = "normal",
        /// Kept finite.
        F32 = "f32",
    }
}

named_choice! {
    /// The scale of a block of zeros.
    ZeroBlockChoice {
        /// 1.
        One = "one",
        /// 2^-127.
        Smallest = "smallest",
        /// The scale of a block whose largest magnitude is 2^-126.
        Normal = "normal",
        /// 1, stored in place of a floating-point byte 0.
        StoredOne = "stored-one",
        /// The smallest number above 0, stored in place of a floating-point byte 0.
        StoredSmallest = "stored-smallest",
        /// The last scale, under delayed scaling.
        Keep = "keep",
    }
}

impl ZeroBlockChoice {
    /// True if it is a number stored in place of a floating-point byte 0.
    pub(crate) fn is_stored(self) -> bool {
        matches!(self, Self::StoredOne | Self::StoredSmallest)
    }
}

named_choice! {
    /// What dgrad or wgrad reads of a tensor that an earlier product has read.
    UseSourceChoice {
        /// The rounded values of the tensor's first product, not rounded again.
        Reuse = "reuse",
        /// The tensor in high precision.
        HighPrecision = "hp",
        /// The rounded values of the tensor's first product, rounded again by this operand's cast.
        Dequantized = "dequantized",
    }
}

named_choice! {
    /// The scale of the first step under delayed scaling.
    FirstScaleChoice {
        /// From the values of that step.
        Dynamic = "dynamic",
        /// 1.
        One = "one",
    }
}

named_choice! {
    /// The effect of NaN and infinities in a block.
    NonFiniteChoice {
        /// They do not affect its scale.
        Skip = "skip",
        /// They make the block NaN.
        Poison = "poison",
    }
}

named_choice! {
    /// How a scale is applied.
    OperationChoice {
        /// By a multiplication.
        Multiply = "multiply",
        /// By a division by the other scale.
        Divide = "divide",
    }
}

named_choice! {
    /// How values are scaled back.
    ScaledBackChoice {
        /// By a multiplication.
        Multiply = "multiply",
        /// By a division by the other scale.
        Divide = "divide",
        /// By the stored scale, then by the scale of the tensor.
        Nested = "nested",
    }
}

named_choice! {
    /// The mean that is subtracted before the rounding, and rounded by itself.
    CenterChoice {
        /// None.
        None = "none",
        /// The mean over the tokens, which are the rows of a single matrix.
        Tokens = "tokens",
    }
}

named_choice! {
    /// The signs of a Hadamard transform.
    SignsChoice {
        /// All positive.
        None = "none",
        /// Transformer Engine's 16.
        Te = "te",
        /// From the seed.
        Seed = "seed",
    }
}

named_choice! {
    /// The type to which a transform's results are rounded.
    TransformTypeChoice {
        /// f32: not rounded.
        F32 = "f32",
        /// bf16, ties to even.
        Bf16 = "bf16",
    }
}
