//! `train.loss_scale`: the factor of the loss before the backward pass.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use toml::Value;

/// The word for a scale that follows the gradients.
const DYNAMIC: &str = "dynamic";

/// The factor of the loss before the backward pass; gradients are divided by it afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub enum LossScaleChoice {
    /// This number, as f32.
    Fixed(f64),
    /// As large as gradients allow.
    Dynamic,
}

impl LossScaleChoice {
    /// The smallest and the largest scale: 2^-126 and 2^126, so that a scale and its reciprocal are normal f32.
    pub const RANGE: [f64; 2] = [1.0 / (1u128 << 126) as f64, (1u128 << 126) as f64];

    /// The fault of a fixed scale, which continues the key's name.
    #[must_use]
    pub(super) fn fault(self) -> Option<String> {
        let Self::Fixed(scale) = self else { return None };
        let [least, most] = Self::RANGE;
        let must_be = if !scale.is_finite() {
            "finite"
        } else if scale <= 0.0 {
            "positive"
        } else if !(least..=most).contains(&scale) {
            "from 2^-126 to 2^126"
        } else {
            return None;
        };
        Some(format!("must be {must_be}, found {scale:?}"))
    }
}

impl Default for LossScaleChoice {
    fn default() -> Self {
        Self::Fixed(1.0)
    }
}

impl TryFrom<Value> for LossScaleChoice {
    type Error = &'static str;

    fn try_from(value: Value) -> Result<Self, Self::Error> {
        match &value {
            Value::Float(scale) => Ok(Self::Fixed(*scale)),
            Value::Integer(scale) => Ok(Self::Fixed(*scale as f64)),
            Value::String(word) if word == DYNAMIC => Ok(Self::Dynamic),
            _ => Err("must be a number or \"dynamic\""),
        }
    }
}

impl From<LossScaleChoice> for Value {
    fn from(choice: LossScaleChoice) -> Self {
        match choice {
            LossScaleChoice::Fixed(scale) => scale.into(),
            LossScaleChoice::Dynamic => DYNAMIC.into(),
        }
    }
}

impl JsonSchema for LossScaleChoice {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "LossScaleChoice".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["number", "string"] })
    }
}
