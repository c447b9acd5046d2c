//! The casts of a run file: fields that are given, and the cast that results from all tables that apply.

use std::{collections::BTreeMap, fmt};

use altgrad_metrics::Role;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, MapAccess, Unexpected, Visitor, value::MapAccessDeserializer},
};
use toml::Value;

use super::{BlockChoice, CastRoundingChoice, TransformSection, UseSourceChoice};
use crate::{
    LayerRule, QuantSection, SteChoice,
    choices::{GranularityChoice, RoundingChoice},
    scaling::ScalingFields,
};

/// The keys of a cast. A missing key has the value of the first use of the same tensor, then of `[quant]`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CastFields {
    /// The format, or `none`.
    pub format: Option<String>,
    /// Rounding of scaled elements.
    pub rounding: Option<CastRoundingChoice>,
    /// Elements that share a scale: `none`, `tensor`, `row`, a number of elements along the contraction of the product, or a tile
    /// `[lines, elements along the contraction]`.
    pub block: Option<BlockChoice>,
    /// The source of a second use.
    pub source: Option<UseSourceChoice>,
    /// A Hadamard transform before the rounding, or `none`; a table as in `[quant]`.
    pub transform: Option<TransformChoice>,
    /// Straight-through estimator.
    pub ste: Option<SteChoice>,
    /// Rule for the scales of blocks.
    pub scaling: Option<ScalingFields>,
}

impl CastFields {
    /// These fields, completed from `parent`.
    fn or(self, parent: Self) -> Self {
        Self {
            format: self.format.or(parent.format),
            rounding: self.rounding.or(parent.rounding),
            block: self.block.or(parent.block),
            source: self.source.or(parent.source),
            transform: self.transform.or(parent.transform),
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

// By the type of the value, not by way of a `Value`, which would lose the key of an error in the table.
impl<'de> Deserialize<'de> for TransformChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NoneOrTable;

        impl<'de> Visitor<'de> for NoneOrTable {
            type Value = TransformChoice;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"none\" or a table such as { hadamard = 16 }")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<TransformChoice, E> {
                match text {
                    "none" => Ok(TransformChoice::None),
                    _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<TransformChoice, A::Error> {
                TransformSection::deserialize(MapAccessDeserializer::new(map)).map(TransformChoice::Hadamard)
            }
        }

        deserializer.deserialize_any(NoneOrTable)
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

/// Casts by use. A linear layer has three products: the output (fprop), the gradient of the input (dgrad) and the gradient of the
/// weight (wgrad). Tensors outside of linear layers are rounded only if a format is given here.
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

/// The cast of one use of a layer's tensor, with all that it inherits.
#[derive(Debug, Clone, PartialEq)]
pub struct ResolvedCast {
    /// The fields; none is missing but the format, the source of a first use, and keys of scaling with a default.
    pub fields: CastFields,
    /// The key that names the format: `quant.cast.grad.format`.
    pub key: String,
    /// The tables that it is made of, with their keys, the most specific last.
    levels: Vec<(String, CastFields)>,
}

impl ResolvedCast {
    /// The format, unless nothing is rounded.
    #[must_use]
    pub fn format(&self) -> Option<&str> {
        self.fields.format.as_deref().filter(|format| *format != LayerRule::OFF)
    }

    /// The key of a field where it was given last: `quant.scaling.type` for `scaling.type`. That of the format if it was not given.
    #[must_use]
    pub fn key_of(&self, field: &str) -> String {
        self.given_key(field).unwrap_or_else(|| self.key.clone())
    }

    /// The key of a field where it was given last; `None` if it was not given.
    pub(crate) fn given_key(&self, field: &str) -> Option<String> {
        let has = |fields: &CastFields| {
            let table = Value::try_from(fields).ok();
            field.split('.').try_fold(table?, |value, name| value.get(name).cloned())
        };
        let (key, _) = self.levels.iter().rev().find(|(_, fields)| has(fields).is_some())?;
        Some(format!("{key}.{field}"))
    }

    /// The source, for a second use. Values of the first use that no format rounds anew are reused.
    #[must_use]
    pub fn source(&self) -> UseSourceChoice {
        match self.fields.source {
            Some(UseSourceChoice::Dequantized) if self.format().is_none() => UseSourceChoice::Reuse,
            source => source.unwrap_or(UseSourceChoice::Reuse),
        }
    }
}

/// A table that casts inherit from: `[quant]`, or a rule of layers.
struct Level<'a> {
    /// The key of the table.
    key: String,
    general: CastFields,
    named: [(Role, &'a Option<String>, Option<RoundingChoice>); 3],
    tables: &'a CastTables,
}

impl Level<'_> {
    /// The table's fields for one use, and the key of its format.
    fn of(&self, role: Role) -> (CastFields, Option<String>) {
        let named = self.named.iter().find(|(of, ..)| *of == role);
        let mut fields = CastFields::default();
        let mut key = None;
        if let Some((_, format, rounding)) = named {
            fields.format.clone_from(format);
            fields.rounding = rounding.map(rounding_of);
            key = format.as_ref().map(|_| format!("{}.{}", self.key, role.name()));
        }
        if let Some(table) = self.tables.of(role) {
            if table.format.is_some() {
                key = Some(format!("{}.cast.{}.format", self.key, role.name()));
            }
            fields = table.clone().or(fields);
        }
        (fields, key)
    }
}

impl QuantSection {
    /// The cast of a use in the layers for which `applies` selects rules. The more specific table wins: that of the use, then that of
    /// the first use it inherits from, then general keys; of two alike, the later rule.
    #[must_use]
    pub fn cast(&self, role: Role, applies: impl Fn(&LayerRule) -> bool) -> ResolvedCast {
        let rules = self.layer.iter().enumerate().filter(|(_, rule)| applies(rule));
        let levels: Vec<Level<'_>> =
            std::iter::once(self.level()).chain(rules.map(|(index, rule)| rule.level(index))).collect();
        let (mut fields, mut key) = (CastFields::default(), String::new());
        let mut given = Vec::new();
        for level in &levels {
            fields = level.general.clone().or(fields);
            given.push((level.key.clone(), level.general.clone()));
        }
        for of in role.first_use().into_iter().chain([role]) {
            for level in &levels {
                let (own, own_key) = level.of(of);
                given.push((format!("{}.cast.{}", level.key, of.name()), own.clone()));
                fields = own.or(fields);
                key = own_key.unwrap_or(key);
            }
        }
        ResolvedCast { fields, key, levels: given }
    }

    fn level(&self) -> Level<'_> {
        let granularity = match self.scaling.granularity {
            GranularityChoice::None => BlockChoice::None,
            GranularityChoice::Tensor => BlockChoice::Tensor,
            GranularityChoice::Channel => BlockChoice::Row,
            GranularityChoice::Block => {
                BlockChoice::Along(u32::try_from(self.scaling.block).unwrap_or(u32::MAX))
            }
        };
        Level {
            key: "quant".to_owned(),
            general: CastFields {
                format: None,
                rounding: Some(rounding_of(self.rounding)),
                block: self.block.or(Some(granularity)),
                source: self.source,
                transform: self.transform,
                ste: Some(self.ste),
                scaling: Some(self.scaling.fields()),
            },
            named: [
                (Role::Weight, &self.weight, self.weight_rounding),
                (Role::Activation, &self.activation, self.activation_rounding),
                (Role::Grad, &self.grad, self.grad_rounding),
            ],
            tables: &self.cast,
        }
    }
}

impl LayerRule {
    fn level(&self, index: usize) -> Level<'_> {
        Level {
            key: format!("quant.layer.{index}"),
            general: CastFields {
                format: None,
                rounding: self.rounding,
                block: self.block,
                source: self.source,
                transform: self.transform,
                ste: self.ste,
                scaling: self.scaling,
            },
            named: [
                (Role::Weight, &self.weight, None),
                (Role::Activation, &self.activation, None),
                (Role::Grad, &self.grad, None),
            ],
            tables: &self.cast,
        }
    }
}

fn rounding_of(choice: RoundingChoice) -> CastRoundingChoice {
    match choice {
        RoundingChoice::NearestEven => CastRoundingChoice::NearestEven,
        RoundingChoice::NearestAway => CastRoundingChoice::NearestAway,
        RoundingChoice::TowardZero => CastRoundingChoice::TowardZero,
        RoundingChoice::Stochastic => CastRoundingChoice::Stochastic,
    }
}
