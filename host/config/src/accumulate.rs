//! `quant.accumulate`: the width of sums in matrix products.

use std::{fmt, str::FromStr};

use altgrad_casts::LimitedSum;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::choices::{InvalidChoice, named_choice, string_schema, through_string};
use super::tables::text_or_table;

/// The sums of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccumulateChoice {
    /// f32.
    F32,
    /// Of limited width.
    Limited(AccumulateSection),
}

/// Sums of limited width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccumulateSection {
    /// Bits kept below the largest exponent, 4 to 36.
    pub bits: u32,
    /// What becomes of the bits below. Default: they are cut off.
    #[serde(default = "truncate")]
    pub round: SumRoundingChoice,
    /// Products that are added at once, 1 to 4096.
    pub group: usize,
    /// Products after which a sum is added to an f32 sum and begins again: a multiple of `group`. Default: none.
    #[serde(default)]
    pub promote: Option<usize>,
}

fn truncate() -> SumRoundingChoice {
    SumRoundingChoice::Truncate
}

named_choice! {
    /// What becomes of the bits that a sum does not keep.
    SumRoundingChoice {
        /// They are cut off.
        Truncate = "truncate",
        /// The sum is rounded to nearest, ties to even.
        Nearest = "nearest",
    }
}

/// Measured units by name: bits, group and promotion.
const PRESETS: [(&str, u32, usize, Option<usize>); 6] = [
    ("hopper_fp8", 13, 32, None),
    ("hopper_fp8_promoted", 13, 32, Some(128)),
    ("ada_fp8", 13, 16, None),
    ("blackwell_fp8", 25, 32, None),
    ("hopper_bf16", 25, 16, None),
    ("ampere_bf16", 24, 8, None),
];

impl AccumulateSection {
    /// True if the numbers are in their ranges.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let promotes = self.promote.is_none_or(|terms| terms > 0 && terms.is_multiple_of(self.group));
        (4..=36).contains(&self.bits) && (1..=4096).contains(&self.group) && promotes
    }

    /// The sum.
    #[must_use]
    pub fn sum(&self) -> LimitedSum {
        let Self { bits, round, group, promote } = *self;
        LimitedSum { bits, nearest: round == SumRoundingChoice::Nearest, group, promote }
    }
}

impl<'de> Deserialize<'de> for AccumulateChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let named = |text: &str| {
            let preset =
                PRESETS.into_iter().find(|(name, ..)| *name == text).map(|(_, bits, group, promote)| {
                    Self::Limited(AccumulateSection {
                        bits,
                        round: SumRoundingChoice::Truncate,
                        group,
                        promote,
                    })
                });
            preset.or((text == "f32").then_some(Self::F32))
        };
        const EXPECTED: &str = "\"f32\", \"hopper_fp8\", \"hopper_fp8_promoted\", \"ada_fp8\", \"blackwell_fp8\", \"hopper_bf16\", \
             \"ampere_bf16\", or a table such as { bits = 13, group = 32, promote = 128 }";
        text_or_table(deserializer, EXPECTED, named, Self::Limited)
    }
}

impl Serialize for AccumulateChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::F32 => "f32".serialize(serializer),
            Self::Limited(section) => section.serialize(serializer),
        }
    }
}

impl JsonSchema for AccumulateChoice {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "AccumulateChoice".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "object"] })
    }
}
