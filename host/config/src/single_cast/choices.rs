//! Values of a cast that are picked from a few.

use std::fmt;
use std::str::FromStr;

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

named_choice! {
    /// The type of stored scales.
    ScaleTypeChoice {
        /// f32.
        F32 = "f32",
        /// A byte for a power of two (OCP MX).
        E8m0 = "e8m0",
        /// A byte, E4M3 (NVFP4).
        E4m3 = "e4m3",
    }
}

named_choice! {
    /// Which scale is divided first; the other is its reciprocal.
    ScaleOrderChoice {
        /// The encode scale (multiplies elements).
        Encode = "encode",
        /// The decode scale (multiplies stored values).
        Decode = "decode",
    }
}

named_choice! {
    /// The scale of the tensor, in addition to those of blocks.
    TensorScaleChoice {
        /// Nothing.
        None = "none",
        /// An f32 scale of the whole tensor.
        F32 = "f32",
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
        /// The last scale, under delayed scaling.
        Keep = "keep",
    }
}

named_choice! {
    /// The source of a second use of an operand.
    UseSourceChoice {
        /// The values of the first use, not rounded again.
        Reuse = "reuse",
        /// The tensor in high precision.
        HighPrecision = "hp",
        /// The values of the first use, rounded again by this use's cast.
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
