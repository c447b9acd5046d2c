//! The casts of a run file: fields that are given, and the cast that results from all tables that apply.

use altgrad_metrics::Role;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use toml::Value;

use super::{BlockChoice, CastRoundingChoice, TransformSection, UseSourceChoice};
use crate::{
    LayerRule, QuantSection, SteChoice,
    choices::{GranularityChoice, RoundingChoice},
    scaling::ScalingFields,
};

/// A cast: what is given. What is left out comes from the first use of the same tensor, then from `[quant]`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CastFields {
    /// The format, or `none`.
    pub format: Option<String>,
    /// How scaled elements are rounded.
    pub rounding: Option<CastRoundingChoice>,
    /// What shares a scale: `none`, `tensor`, `row`, a number of elements along the contraction of the product, or a tile
    /// `[lines, elements along the contraction]`.
    pub block: Option<BlockChoice>,
    /// What a second use rounds.
    pub source: Option<UseSourceChoice>,
    /// A Hadamard transform before all else, or `none`.
    pub transform: Option<TransformChoice>,
    /// The gradient past the rounding.
    pub ste: Option<SteChoice>,
    /// How scales follow from blocks.
    pub scaling: Option<ScalingFields>,
}

impl CastFields {
    /// These, and what they leave out from `parent`.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub enum TransformChoice {
    /// No transform.
    None,
    /// This one.
    Hadamard(TransformSection),
}

impl TryFrom<Value> for TransformChoice {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, Self::Error> {
        match &value {
            Value::String(text) if text == "none" => Ok(Self::None),
            Value::Table(_) => TransformSection::deserialize(value)
                .map(Self::Hadamard)
                .map_err(|error| error.message().to_owned()),
            _ => Err("must be \"none\" or a table such as { hadamard = 16 }".to_owned()),
        }
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

/// The casts by use. The three products of a linear layer are those of the output (fprop), of the input's gradient (dgrad) and of the
/// weight's gradient (wgrad). What is not in a linear layer is rounded only if a format is given here.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CastTables {
    /// The weight in fprop.
    pub weight: Option<CastFields>,
    /// The input in fprop.
    pub activation: Option<CastFields>,
    /// The output's gradient in dgrad.
    pub grad: Option<CastFields>,
    /// The weight in dgrad. Inherits from `weight`.
    pub weight_dgrad: Option<CastFields>,
    /// The input in wgrad. Inherits from `activation`.
    pub activation_wgrad: Option<CastFields>,
    /// The output's gradient in wgrad. Inherits from `grad`.
    pub grad_wgrad: Option<CastFields>,
    /// The weight's gradient, where wgrad ends.
    pub weight_grad: Option<CastFields>,
    /// Queries, keys and values under common scales, as attention's linear layer gives them, `[tokens, 3 n_embd]`.
    pub qkv: Option<CastFields>,
    /// Queries of attention, `[.., block, head width]`.
    pub query: Option<CastFields>,
    /// Keys of attention, likewise.
    pub key: Option<CastFields>,
    /// Values of attention, `[.., head width, block]`: the product with the probabilities contracts over positions.
    pub value: Option<CastFields>,
    /// Attention's softmax, `[.., block, block]`.
    pub probabilities: Option<CastFields>,
    /// The gradient of attention's scores, likewise.
    pub scores_grad: Option<CastFields>,
    /// The gradient of the product of probabilities and values, `[.., block, head width]`.
    pub attention_grad: Option<CastFields>,
    /// The gradient of queries, keys and values together, `[tokens, 3 n_embd]`.
    pub qkv_grad: Option<CastFields>,
    /// The residual stream after an addition, `[tokens, n_embd]`.
    pub residual: Option<CastFields>,
    /// The output of a norm, `[tokens, n_embd]`.
    pub norm: Option<CastFields>,
    /// The gain of a norm, `[n_embd]`.
    pub norm_gain: Option<CastFields>,
    /// What the lookup of tokens gives, `[tokens, n_embd]`.
    pub embedding: Option<CastFields>,
    /// The head's output, `[tokens, vocabulary]`.
    pub logits: Option<CastFields>,
}

impl CastTables {
    /// The table of a use.
    #[must_use]
    pub fn of(&self, role: Role) -> Option<&CastFields> {
        match role {
            Role::Weight => &self.weight,
            Role::Activation => &self.activation,
            Role::Grad => &self.grad,
            Role::WeightDgrad => &self.weight_dgrad,
            Role::ActivationWgrad => &self.activation_wgrad,
            Role::GradWgrad => &self.grad_wgrad,
            Role::WeightGrad => &self.weight_grad,
            Role::Qkv => &self.qkv,
            Role::Query => &self.query,
            Role::Key => &self.key,
            Role::Value => &self.value,
            Role::Probabilities => &self.probabilities,
            Role::ScoresGrad => &self.scores_grad,
            Role::AttentionGrad => &self.attention_grad,
            Role::QkvGrad => &self.qkv_grad,
            Role::Residual => &self.residual,
            Role::Norm => &self.norm,
            Role::NormGain => &self.norm_gain,
            Role::Embedding => &self.embedding,
            Role::Logits => &self.logits,
        }
        .as_ref()
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

    /// The key of a field where it was given last: `quant.scaling.type` for `scaling.type`.
    #[must_use]
    pub fn key_of(&self, field: &str) -> String {
        let has = |fields: &CastFields| {
            let table = Value::try_from(fields).ok();
            field.split('.').try_fold(table?, |value, name| value.get(name).cloned())
        };
        let given = self.levels.iter().rev().find(|(_, fields)| has(fields).is_some());
        given.map_or_else(|| self.key.clone(), |(key, _)| format!("{key}.{field}"))
    }

    /// What it rounds, for a second use.
    #[must_use]
    pub fn source(&self) -> UseSourceChoice {
        self.fields.source.unwrap_or(UseSourceChoice::Reuse)
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
    /// What the table says of one use, and the key of its format.
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
    /// The cast of a use, of a layer that `applies` says which rules match. The more specific table wins: that of the use, then that of
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
