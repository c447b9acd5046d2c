//! `[alerts]`: thresholds that can be switched off, patience, cooldowns.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

/// `[alerts]`: what is worth a person's look. No alert changes the training; only `nan_patience` ends a run. A threshold
/// is written as a number, or `"off"`; of all layers' values the worst counts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AlertsSection {
    /// Share of a weight's elements whose code an update leaves as it is, 0..1.
    pub bit_stall_threshold: Threshold,
    /// Share of elements beyond the format's largest value, 0..1.
    pub overflow_threshold: Threshold,
    /// Share of non-zero elements that become zero, 0..1.
    pub underflow_threshold: Threshold,
    /// Share of a tensor's elements that lie beyond the format's largest value and so share one code, 0..1: the overflow
    /// rate again, where it means that most of a tensor is lost.
    pub code_saturation_threshold: Threshold,
    /// Fourth moment over squared variance of what is rounded; 3 for a Gaussian.
    pub kurtosis_threshold: Threshold,
    /// Measurements in a row above a threshold before there is an alert, so that one odd batch makes none.
    pub patience: u64,
    /// Evaluations in a row, each with a higher loss than the one before, after which a run counts as diverged; 0 = off.
    pub divergence_patience: u64,
    /// Steps in a row with a NaN or infinite loss or gradient after which a run is given up; 0 = never.
    pub nan_patience: u64,
    /// Seconds between two alerts of one kind, but for NaN.
    pub cooldown_s: f64,
    /// Seconds between two alerts about a NaN loss, and about NaN gradients.
    pub nan_cooldown_s: f64,
}

impl Default for AlertsSection {
    fn default() -> Self {
        Self {
            bit_stall_threshold: Threshold::Above(0.5),
            overflow_threshold: Threshold::Above(0.01),
            underflow_threshold: Threshold::Above(0.01),
            code_saturation_threshold: Threshold::Above(0.5),
            kurtosis_threshold: Threshold::Above(10.0),
            patience: 3,
            divergence_patience: 5,
            nan_patience: 10,
            cooldown_s: 300.0,
            nan_cooldown_s: 60.0,
        }
    }
}

/// What switches a threshold off. 0 does not: it is a threshold like any other.
const OFF: &str = "off";

/// Where something begins to be too much, if anywhere.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Threshold {
    /// Nothing is too much.
    Off,
    /// What is above this number.
    Above(f64),
}

impl Threshold {
    /// The number, unless it is off.
    #[must_use]
    pub fn limit(self) -> Option<f64> {
        match self {
            Self::Off => None,
            Self::Above(limit) => Some(limit),
        }
    }
}

impl JsonSchema for Threshold {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Threshold".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "number" }, { "const": OFF }] })
    }
}

impl Serialize for Threshold {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Off => serializer.serialize_str(OFF),
            Self::Above(limit) => serializer.serialize_f64(*limit),
        }
    }
}

impl<'de> Deserialize<'de> for Threshold {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrOff;

        impl Visitor<'_> for NumberOrOff {
            type Value = Threshold;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a number or {OFF:?}")
            }

            fn visit_f64<E: Error>(self, limit: f64) -> Result<Threshold, E> {
                Ok(Threshold::Above(limit))
            }

            fn visit_i64<E: Error>(self, limit: i64) -> Result<Threshold, E> {
                Ok(Threshold::Above(limit as f64))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Threshold, E> {
                if text == OFF {
                    return Ok(Threshold::Off);
                }
                // The wording that `explain` knows.
                Err(E::custom(format!("must be a number or `{OFF}`, is {text:?}")))
            }
        }

        deserializer.deserialize_any(NumberOrOff)
    }
}
