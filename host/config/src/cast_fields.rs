//! The casts that a run file gives: fields, each of which may be missing, by use.

use std::{collections::BTreeMap, fmt};

use altgrad_metrics::Role;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, MapAccess, Visitor},
};
use toml::Value;

use super::choices::SteChoice;
use super::scaling::ScalingFields;
use super::single_cast::{
    BlockChoice, CastRoundingChoice, CenterChoice, OverflowChoice, RandomModeChoice, TransformSection,
    UseSourceChoice,
};
use super::tables::text_or_table;

/// The keys of a cast. A missing key has the value of the cast of the tensor's first product, then of `[quant]`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CastFields {
    /// The format, or `none`.
    pub format: Option<String>,
    /// Rounding of scaled elements.
    pub rounding: Option<CastRoundingChoice>,
    /// Random bits of stochastic rounding, 1 to 32, as instructions of hardware have them. Default: 32, drawn by the
    /// format.
    pub random_bits: Option<u32>,
    /// The rounding of distances to these bits: `a` down, `b` to nearest with ties up, `c` to even, `odd` to odd.
    /// Default: `a`.
    pub random_mode: Option<RandomModeChoice>,
    /// The result of elements beyond the format's largest value: `saturate`, or `nonfinite`: infinity, or NaN in
    /// formats without infinities. Default: `saturate`.
    pub overflow: Option<OverflowChoice>,
    /// Elements that share a scale: `none`, `tensor`, `row`, a number of elements along the contraction of the product,
    /// or a tile `[lines, elements along the contraction]`.
    pub block: Option<BlockChoice>,
    /// What an operand of dgrad or wgrad is made from, as `quant.source`.
    pub source: Option<UseSourceChoice>,
    /// A Hadamard transform before the rounding, or `none`; a table as in `[quant]`.
    pub transform: Option<TransformChoice>,
    /// The mean that is subtracted before the rounding, and rounded by itself: `none`, or `tokens`, that over the
    /// tokens of an activation or a gradient (Averis). Default: `none`.
    pub center: Option<CenterChoice>,
    /// Straight-through estimator.
    pub ste: Option<SteChoice>,
    /// Rule for the scales of blocks.
    pub scaling: Option<ScalingFields>,
}

impl CastFields {
    /// These fields, completed from `parent`.
    pub(super) fn or(self, parent: Self) -> Self {
        Self {
            format: self.format.or(parent.format),
            rounding: self.rounding.or(parent.rounding),
            random_bits: self.random_bits.or(parent.random_bits),
            random_mode: self.random_mode.or(parent.random_mode),
            overflow: self.overflow.or(parent.overflow),
            block: self.block.or(parent.block),
            source: self.source.or(parent.source),
            transform: self.transform.or(parent.transform),
            center: self.center.or(parent.center),
            ste: self.ste.or(parent.ste),
            scaling: match (self.scaling, parent.scaling) {
                (Some(own), Some(parent)) => Some(own.or(parent)),
                (own, parent) => own.or(parent),
            },
        }
    }
}

/// A transform, or none where one would be inherited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(into = "Value")]
pub enum TransformChoice {
    /// No transform.
    None,
    /// This one.
    Hadamard(TransformSection),
}

impl<'de> Deserialize<'de> for TransformChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let none = |text: &str| (text == "none").then_some(Self::None);
        text_or_table(deserializer, "\"none\" or a table such as { hadamard = 16 }", none, Self::Hadamard)
    }
}

impl From<TransformChoice> for Value {
    fn from(choice: TransformChoice) -> Self {
        match choice {
            TransformChoice::None => "none".into(),
            TransformChoice::Hadamard(section) => Value::try_from(section).unwrap_or("none".into()),
        }
    }
}

impl JsonSchema for TransformChoice {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TransformChoice".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "object"] })
    }
}

impl JsonSchema for BlockChoice {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "BlockChoice".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "integer", "array"], "items": { "type": "integer" } })
    }
}

/// Casts by use. A linear layer has three products: the output (fprop), the gradient of the input (dgrad) and the
/// gradient of the weight (wgrad). Tensors outside of linear layers are rounded only if a format is given here.
// A map rather than twenty fields: derived code for those takes minutes to compile.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CastTables(BTreeMap<Role, CastFields>);

impl CastTables {
    /// The table of a use.
    #[must_use]
    pub fn of(&self, role: Role) -> Option<&CastFields> {
        self.0.get(&role)
    }
}

impl Serialize for CastTables {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(role, fields)| (role.name(), fields)))
    }
}

impl<'de> Deserialize<'de> for CastTables {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Tables;

        impl<'de> Visitor<'de> for Tables {
            type Value = CastTables;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<CastTables, A::Error> {
                let mut tables = BTreeMap::new();
                while let Some(Use(role)) = map.next_key()? {
                    tables.insert(role, map.next_value()?);
                }
                Ok(CastTables(tables))
            }
        }

        deserializer.deserialize_map(Tables)
    }
}

/// A role by its name.
struct Use(Role);

impl<'de> Deserialize<'de> for Use {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let role = Role::ALL.into_iter().find(|role| role.name() == name);
        role.map(Self).ok_or_else(|| de::Error::unknown_field(&name, &Role::NAMES))
    }
}

impl JsonSchema for CastTables {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CastTables".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let table = generator.subschema_for::<CastFields>().to_value();
        let properties: serde_json::Map<String, serde_json::Value> = Role::ALL
            .into_iter()
            .map(|role| {
                let mut table = table.clone();
                table["description"] = role.meaning().into();
                (role.name().to_owned(), table)
            })
            .collect();
        let required = Role::NAMES;
        if generator.contract().is_serialize() {
            return json_schema!({ "type": "object", "properties": properties, "required": required });
        }
        json_schema!({ "type": "object", "properties": properties, "additionalProperties": false })
    }
}
