//! A number of transformer blocks: as such, or as a share of a model's depth, so that it fits models of any depth.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use toml::Value;

/// A number of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub enum BlockCount {
    /// This many.
    Blocks(usize),
    /// This share of all, percent, rounded up.
    Percent(u8),
}

impl Default for BlockCount {
    fn default() -> Self {
        Self::Blocks(0)
    }
}

impl BlockCount {
    /// The number, for a model of `blocks` blocks.
    #[must_use]
    pub fn of(self, blocks: usize) -> usize {
        match self {
            Self::Blocks(count) => count,
            Self::Percent(percent) => (blocks * usize::from(percent)).div_ceil(100),
        }
    }
}

impl TryFrom<Value> for BlockCount {
    type Error = &'static str;

    fn try_from(value: Value) -> Result<Self, Self::Error> {
        let percent = |text: &str| text.strip_suffix('%')?.parse().ok().filter(|percent| *percent <= 100);
        let count = match &value {
            Value::Integer(count) => usize::try_from(*count).ok().map(Self::Blocks),
            Value::String(text) => percent(text).map(Self::Percent),
            _ => None,
        };
        count.ok_or("must be a number of blocks, or a share of all such as \"15%\"")
    }
}

impl From<BlockCount> for Value {
    fn from(count: BlockCount) -> Self {
        match count {
            BlockCount::Blocks(count) => Value::Integer(i64::try_from(count).unwrap_or(i64::MAX)),
            BlockCount::Percent(percent) => format!("{percent}%").into(),
        }
    }
}

impl JsonSchema for BlockCount {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "BlockCount".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["integer", "string"] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_up() {
        for (text, blocks, count) in [("15%", 4, 1), ("15%", 12, 2), ("0%", 4, 0), ("100%", 3, 3)] {
            let read = BlockCount::try_from(Value::from(text)).unwrap_or_default();
            assert_eq!((read.of(blocks), Value::from(read)), (count, text.into()));
        }
        assert!(
            BlockCount::try_from(Value::from("101%")).is_err()
                && BlockCount::try_from(Value::from("15")).is_err()
        );
        assert!(BlockCount::try_from(Value::from(-1)).is_err());
    }
}
