//! The cast that results from all tables of a run file that apply to a use.

use altgrad_casts::Cast;
use altgrad_metrics::Role;
use toml::Value;

use super::cast_fields::{CastFields, CastTables, TransformChoice};
use super::choices::RoundingChoice;
use super::quant::{LayerRule, QuantSection};
use super::single_cast::{
    BlockChoice, CastRoundingChoice, CastSection, CenterChoice, OverflowChoice, RandomModeChoice,
    UseSourceChoice,
};

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

    /// The key of a field where it was given last: `quant.scaling.type` for `scaling.type`. That of the format if it
    /// was not given.
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

    /// The cast, without its format.
    #[must_use]
    pub fn cast(&self) -> Cast {
        self.section().cast()
    }

    /// The cast as text has it.
    #[must_use]
    pub fn section(&self) -> CastSection {
        let fields = &self.fields;
        CastSection {
            format: self.format().unwrap_or_default().to_owned(),
            rounding: fields.rounding.unwrap_or(CastRoundingChoice::NearestEven),
            random_bits: fields.random_bits,
            random_mode: fields.random_mode.unwrap_or(RandomModeChoice::A),
            overflow: fields.overflow.unwrap_or(OverflowChoice::Saturate),
            block: fields.block.unwrap_or_default(),
            transform: match fields.transform {
                Some(TransformChoice::Hadamard(section)) => Some(section),
                Some(TransformChoice::None) | None => None,
            },
            center: fields.center.unwrap_or(CenterChoice::None),
            scaling: fields.scaling.unwrap_or_default().cast_scaling(),
        }
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
    /// The cast of a use in the layers for which `applies` selects rules. The more specific table wins: that of the
    /// use, then that of the first use it inherits from, then general keys; of two alike, the later rule.
    #[must_use]
    pub fn cast(&self, role: Role, applies: impl Fn(&LayerRule) -> bool) -> ResolvedCast {
        let rules = self.layer.iter().enumerate().filter(|(_, rule)| applies(rule));
        let plain = Self::default();
        let mut levels = vec![self.level()];
        for (index, rule) in rules {
            if rule.recipe.is_some() {
                levels = vec![plain.level()];
            }
            levels.push(rule.level(index));
        }
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
        Level {
            key: "quant".to_owned(),
            general: CastFields {
                format: None,
                rounding: Some(rounding_of(self.rounding)),
                random_bits: self.random_bits,
                random_mode: self.random_mode,
                overflow: self.overflow,
                block: self.block.or(Some(BlockChoice::Tensor)),
                source: self.source,
                transform: self.transform,
                center: None,
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
                random_bits: self.random_bits,
                random_mode: self.random_mode,
                overflow: self.overflow,
                block: self.block,
                source: self.source,
                transform: self.transform,
                center: None,
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
