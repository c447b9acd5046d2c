//! `[optimizer]`: which optimizer, its groups of parameters, and how the host stores its states.

use std::{collections::BTreeMap, fmt};

use schemars::JsonSchema;
use serde::{
    Deserialize, Serialize,
    de::{
        self, Deserializer, MapAccess, Unexpected, Visitor,
        value::{MapAccessDeserializer, StrDeserializer},
    },
};

use super::single_cast::CastRoundingChoice;

/// `[optimizer]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OptimizerSection {
    /// Name of an optimizer plugin. `adamw` is the baseline of every comparison.
    pub name: String,
    /// Rules that give parameters a learning rate or options of their own. The last rule that matches a parameter
    /// applies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub group: Vec<OptimizerGroup>,
    /// Types in which states are stored between updates, by the optimizer's names of the states: `exp_avg = "bf16"`,
    /// `exp_avg_sq = { format = "E5M2", block = 128 }`. Default: the types that the optimizer declares, usually f32.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub states: BTreeMap<String, StateStorage>,
    /// The rest of the table, for the plugin to check.
    #[serde(flatten)]
    #[schemars(skip)]
    pub settings: toml::Table,
}

impl Default for OptimizerSection {
    fn default() -> Self {
        Self {
            name: "adamw".to_owned(),
            group: Vec::new(),
            states: BTreeMap::new(),
            settings: toml::Table::new(),
        }
    }
}

/// One `[[optimizer.group]]`: parameters whose name it matches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OptimizerGroup {
    /// Glob pattern on parameters' names, such as `*.ln_*` or `wte.weight`.
    #[serde(rename = "match")]
    pub pattern: String,
    /// Factor applied to the schedule's learning rate, 0 or more. 0 freezes these parameters, unless the optimizer has
    /// steps that do not depend on the learning rate.
    #[serde(default = "one")]
    pub lr_scale: f64,
    /// The rest of the table: options of the optimizer, over those of `[optimizer]`.
    #[serde(flatten)]
    #[schemars(skip)]
    pub settings: toml::Table,
}

fn one() -> f64 {
    1.0
}

/// The type of a state: `"f32"`, `"bf16"`, or a table that names a format of up to 8 bits.
///
/// The optimizer always computes in f32: the host converts before and after each update.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum StateStorage {
    /// Floats.
    Float(StateFloat),
    /// Codes.
    Codes(StateCodes),
}

// By the type of the value: trying one variant after the other would lose the key of an error in the table.
impl<'de> Deserialize<'de> for StateStorage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FloatOrCodes;

        impl<'de> Visitor<'de> for FloatOrCodes {
            type Value = StateStorage;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`f32`, `bf16` or a table { format, block, rounding, min_size, expand }")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<StateStorage, E> {
                let float = StateFloat::deserialize(StrDeserializer::<de::value::Error>::new(text));
                float.map(StateStorage::Float).map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<StateStorage, A::Error> {
                StateCodes::deserialize(MapAccessDeserializer::new(map)).map(StateStorage::Codes)
            }
        }

        deserializer.deserialize_any(FloatOrCodes)
    }
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

/// Codes of a format, with a scale for each block of consecutive elements: one byte per element, half of one for a
/// format of at most 4 bits, and four per block.
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
    pub rounding: CastRoundingChoice,
    /// States of fewer elements than this stay in f32.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub min_size: usize,
    /// COAT's dynamic range expansion: a block is raised to a power, a multiple of 1/`expand`, that makes its
    /// magnitudes fill the format's range. 1 or more; the source has 16. Eight more bytes per block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expand: Option<u32>,
}

fn is_zero(size: &usize) -> bool {
    *size == 0
}

fn block() -> usize {
    128
}

fn rounding() -> CastRoundingChoice {
    CastRoundingChoice::NearestEven
}
