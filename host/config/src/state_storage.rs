//! How the host stores a state of the optimizer between updates.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::RoundingChoice;

/// The type of a state: `"f32"`, `"bf16"`, or a table that names a format of up to 8 bits.
///
/// The optimizer always computes in f32: the host converts before and after each update.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "`f32`, `bf16` or a table { format, block, rounding }")]
pub enum StateStorage {
    /// Floats.
    Float(StateFloat),
    /// Codes.
    Codes(StateCodes),
}

/// A type of floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StateFloat {
    /// 4 bytes per element.
    F32,
    /// 2 bytes per element, rounded to nearest, ties to even.
    Bf16,
}

/// Codes of a format, with a scale for each block of consecutive elements: one byte per element and four per block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StateCodes {
    /// The format, written like `E4M3` or `E5M2:fin`; of up to 8 bits.
    pub format: String,
    /// Consecutive elements that share a scale, 1 or more. The largest of them becomes the format's largest value.
    #[serde(default = "block")]
    pub block: usize,
    /// How values are rounded after each update.
    #[serde(default = "rounding")]
    pub rounding: RoundingChoice,
}

fn block() -> usize {
    128
}

fn rounding() -> RoundingChoice {
    RoundingChoice::NearestEven
}
