//! A phase of a run: the casts of an entry of `[[quant.schedule]]`, and its trigger.

use altgrad_metrics::AlertKind;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Serialize,
    de::{Deserializer, Error as _},
    ser::{Error as _, Serializer},
};
use toml::{Table, Value};

use super::QuantSection;
use crate::choices::PrecisionChoice;

/// The trigger of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CastTrigger {
    /// The beginning of this step.
    At(u64),
    /// The end of the first step at which the condition of this alert has held for as long as its patience requires;
    /// the cooldown is ignored.
    On(AlertKind),
}

impl std::fmt::Display for CastTrigger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::At(step) => write!(f, "at step {step}"),
            Self::On(kind) => write!(f, "on the alert {}", kind.name()),
        }
    }
}

/// An entry, resolved: all that is rounded from its trigger on.
#[derive(Debug, Clone, PartialEq)]
pub struct CastPhase {
    /// Its trigger.
    pub trigger: CastTrigger,
    /// The precision of products.
    pub precision: PrecisionChoice,
    /// The casts. It has no schedule of its own.
    pub quant: QuantSection,
}

// A resolved entry is complete: it is written with `none = true`, so that it inherits nothing from `[quant]` when it is
// read again.
impl Serialize for CastPhase {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut table = Table::try_from(&self.quant).map_err(S::Error::custom)?;
        match self.trigger {
            CastTrigger::At(step) => {
                table.insert("at".into(), Value::try_from(step).map_err(S::Error::custom)?)
            }
            CastTrigger::On(kind) => table.insert("on".into(), kind.name().into()),
        };
        table.insert("none".into(), true.into());
        table.insert("precision".into(), self.precision.name().into());
        table.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for CastPhase {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut table = Table::deserialize(deserializer)?;
        let mut take = |key: &str| table.remove(key);
        let (at, on, precision) = (take("at"), take("on"), take("precision"));
        take("none");
        let at = at.and_then(|at| u64::try_from(at.as_integer()?).ok()).map(CastTrigger::At);
        let on = on.and_then(|on| alert(on.as_str()?)).map(CastTrigger::On);
        let trigger = at.or(on).ok_or_else(|| D::Error::custom("an entry has a step or an alert"))?;
        let precision = precision.map_or(Ok(PrecisionChoice::Fp32), PrecisionChoice::deserialize);
        let precision = precision.map_err(D::Error::custom)?;
        let quant = QuantSection::deserialize(table).map_err(D::Error::custom)?;
        Ok(Self { trigger, precision, quant })
    }
}

/// The alert of a name.
pub(crate) fn alert(name: &str) -> Option<AlertKind> {
    AlertKind::ALL.into_iter().find(|kind| kind.name() == name)
}

impl JsonSchema for CastPhase {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CastPhase".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object" })
    }
}
