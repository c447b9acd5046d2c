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
    /// Rounding of that addition. Default: to nearest.
    #[serde(default = "nearest")]
    pub promote_round: SumRoundingChoice,
    /// Products of a scaled block that are added exactly, at least 2; `group` is a multiple. Default: none, each
    /// product is a term.
    #[serde(default)]
    pub exact: Option<usize>,
}

fn nearest() -> SumRoundingChoice {
    SumRoundingChoice::Nearest
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

/// Measured units by name.
const PRESETS: [(&str, AccumulateSection); 7] = [
    ("hopper_fp8", unit(13, 32)),
    ("hopper_fp8_promoted", AccumulateSection { promote: Some(128), ..unit(13, 32) }),
    ("ada_fp8", unit(13, 16)),
    ("blackwell_fp8", unit(25, 32)),
    ("blackwell_fp4", AccumulateSection { exact: Some(16), ..unit(35, 64) }),
    ("hopper_bf16", unit(25, 16)),
    ("ampere_bf16", unit(24, 8)),
];

/// A unit that truncates, with its bits and group.
const fn unit(bits: u32, group: usize) -> AccumulateSection {
    let (round, promote_round) = (SumRoundingChoice::Truncate, SumRoundingChoice::Nearest);
    AccumulateSection { bits, round, group, promote: None, promote_round, exact: None }
}

impl AccumulateSection {
    /// True if the numbers are in their ranges.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let promotes = self.promote.is_none_or(|terms| terms > 0 && terms.is_multiple_of(self.group));
        let blocks = self.exact.is_none_or(|terms| terms > 1 && self.group.is_multiple_of(terms));
        (4..=36).contains(&self.bits) && (1..=4096).contains(&self.group) && promotes && blocks
    }

    /// The sum.
    #[must_use]
    pub fn sum(&self) -> LimitedSum {
        let Self { bits, round, group, promote, promote_round, exact } = *self;
        let promote_truncates = promote_round == SumRoundingChoice::Truncate;
        LimitedSum {
            bits,
            nearest: round == SumRoundingChoice::Nearest,
            group,
            promote,
            promote_truncates,
            exact,
        }
    }
}

impl<'de> Deserialize<'de> for AccumulateChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let named = |text: &str| {
            let found = PRESETS.into_iter().find(|(name, _)| *name == text);
            found.map(|(_, unit)| Self::Limited(unit)).or((text == "f32").then_some(Self::F32))
        };
        const EXPECTED: &str = "\"f32\", \"hopper_fp8\", \"hopper_fp8_promoted\", \"ada_fp8\", \"blackwell_fp8\", \"blackwell_fp4\", \"hopper_bf16\", \
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
