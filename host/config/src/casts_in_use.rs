//! Refuses keys of casts that are written and change nothing.

use altgrad_base::diagnostic::Diagnostic;
use altgrad_metrics::Role;

use super::{
    AmaxChoice, LayerRule, QuantSection,
    resolved_cast::ResolvedCast,
    single_cast::{
        BlockChoice, CastRoundingChoice, ScaleRuleChoice, ScaleTypeChoice, UseSourceChoice, ZeroBlockChoice,
    },
    source::{Place, Source},
};

/// A field of a cast, and its requirement to have an effect.
type Field = (&'static str, &'static str);

/// All fields.
const FIELDS: &[Field] = &[
    (
        "format",
        "the cast of the tensor's first product sets it, unless source is \"hp\", or \"dequantized\" with a format",
    ),
    (
        "rounding",
        "it needs a format, and in weight_dgrad, activation_wgrad and grad_wgrad a source other than \"reuse\"",
    ),
    (
        "block",
        "it needs a format, and in weight_dgrad, activation_wgrad and grad_wgrad a source other than \"reuse\"",
    ),
    ("source", "it is for the operands weight_dgrad, activation_wgrad and grad_wgrad"),
    (
        "transform",
        "it needs a format, and in weight_dgrad, activation_wgrad and grad_wgrad a source other than \"reuse\"",
    ),
    (
        "center",
        "it needs a format, and in weight_dgrad, activation_wgrad and grad_wgrad a source other than \"reuse\"",
    ),
    ("ste", "it is for weights and activations in the forward pass"),
    ("scaling.type", "it needs a format with scales"),
    ("scaling.rule", "it needs a format with scales"),
    ("scaling.pow2", "only rule = \"max\" with type = \"f32\" uses it"),
    ("scaling.order", "it needs rule max"),
    ("scaling.tensor", "it needs a format with scales"),
    ("scaling.margin", "rule rms and scales of type e4m3 have no margin"),
    ("scaling.floor", "rule rms does not use the largest magnitude"),
    ("scaling.limit", "it needs rule max with type f32"),
    (
        "scaling.zero",
        "scales of type e4m3, those of rule rms, and those with a floor have no other; keep needs amax delayed",
    ),
    ("scaling.nonfinite", "it needs a format with scales"),
    ("scaling.factor", "it needs a format with scales"),
    ("scaling.quantize", "it needs a format with scales"),
    ("scaling.dequantize", "it needs a format with scales"),
    ("scaling.amax", "it needs a format with scales that follow from a largest magnitude"),
    ("scaling.window", "it needs amax = \"delayed\""),
    ("scaling.static_amax", "it needs amax = \"static\""),
    ("scaling.deviations", "it needs rule rms"),
    ("scaling.first", "it needs amax = \"delayed\""),
];

/// The hint for scales of weights without master weights.
const STORED: &str = "quant.stored_scale has the scales of weights without master weights";

/// Keys that other rules are about.
const OTHERS: &[&str] = &[
    "quant.rounding",
    "quant.ste",
    "quant.scaling.amax",
    "quant.scaling.window",
    "quant.scaling.static_amax",
    "quant.scaling.margin",
    "quant.scaling.pow2",
];

/// Refuses the first key of a cast without an effect.
pub(super) fn check(quant: &QuantSection, source: &Source) -> Result<(), Diagnostic> {
    // A recipe's key may belong to another that the run file replaces.
    let is_recipes = |place: &Place| matches!(place, Place::Recipe { .. });
    let is_changed = source.places.iter().any(|(key, place)| key.starts_with("quant.") && !is_recipes(place));
    let own = source.places.iter().filter(|(_, place)| !(is_changed && is_recipes(place)));
    let written = own.filter_map(|(key, _)| Some((key, field_of(key)?)));
    let mut idle: Vec<(&String, Field)> = written.collect();
    for rules in sets_of_rules(quant.layer.len()) {
        if idle.is_empty() {
            break;
        }
        remove_used(&mut idle, quant, &rules);
    }
    idle.first().map_or(Ok(()), |(key, (_, hint))| {
        let is_stored = quant.stores_weights() && key.contains(".cast.weight.scaling.");
        let hint = if is_stored { STORED } else { *hint };
        Err(Diagnostic::config(format!("`{key}` has no effect here"))
            .at(source.locate_key(key))
            .hint(format!("{hint}; else remove the key")))
    })
}

/// The field at this key, if it is one of a cast.
fn field_of(key: &str) -> Option<Field> {
    let below = key.strip_prefix("quant.").filter(|_| !OTHERS.contains(&key))?;
    let below = match below.strip_prefix("layer.") {
        Some(rule) => rule.split_once('.')?.1,
        None => below,
    };
    let below = match below.strip_prefix("cast.") {
        Some(cast) => cast.split_once('.')?.1,
        None => below,
    };
    FIELDS.iter().find(|(field, _)| *field == below).copied()
}

/// Sets of rules that may hold for a layer, by index: none, each alone, each after all before it, and each after one
/// before it.
fn sets_of_rules(count: usize) -> impl Iterator<Item = Vec<usize>> {
    let alone = (0..count).map(|rule| vec![rule]);
    let after_all = (1..count).map(|rule| Vec::from_iter(0..=rule));
    let after_one = (0..count).flat_map(|rule| (0..rule).map(move |before| vec![before, rule]));
    std::iter::once(Vec::new()).chain(alone).chain(after_all).chain(after_one)
}

/// Removes the keys that some cast of a layer with these rules takes its fields from.
fn remove_used(idle: &mut Vec<(&String, Field)>, quant: &QuantSection, rules: &[usize]) {
    // By address: rules may be equal.
    let rules: Vec<&LayerRule> = rules.iter().filter_map(|index| quant.layer.get(*index)).collect();
    let applies = |other: &LayerRule| rules.iter().any(|rule| std::ptr::eq(*rule, other));
    for role in Role::ALL {
        let cast = quant.cast(role, applies);
        let first = role.first_use().map(|first| quant.cast(first, applies));
        let is_stored = role == Role::Weight && quant.stores_weights();
        idle.retain(|(key, (field, _))| {
            let is_used =
                has_effect(field, role, &cast, first.as_ref()) && !(is_stored && is_of_stored_scale(field));
            !(is_used && cast.given_key(field).as_ref() == Some(*key))
        });
    }
}

/// True if a key of scales has no effect on a weight without master weights. `type` has one: types other than f32 are
/// refused.
fn is_of_stored_scale(field: &str) -> bool {
    let key = field.strip_prefix("scaling.");
    key.is_some_and(|key| !["type", "quantize", "dequantize"].contains(&key))
}

fn has_effect(field: &str, role: Role, cast: &ResolvedCast, first: Option<&ResolvedCast>) -> bool {
    let reuses = first.is_some() && cast.source() == UseSourceChoice::Reuse;
    let rounds = cast.format().is_some() && !reuses;
    let Some(key) = field.strip_prefix("scaling.") else {
        return match field {
            "format" => !reuses,
            "source" => first.is_some_and(|first| first.format().is_some() || rounds),
            "random_bits" => rounds && cast.fields.rounding == Some(CastRoundingChoice::Stochastic),
            "random_mode" => {
                rounds
                    && cast.fields.rounding == Some(CastRoundingChoice::Stochastic)
                    && cast.fields.random_bits.is_some()
            }
            "ste" => rounds && matches!(role, Role::Weight | Role::Activation),
            _ => rounds,
        };
    };
    let fields = cast.fields.scaling.unwrap_or_default();
    let scaling = fields.cast_scaling();
    let max = scaling.rule == ScaleRuleChoice::Max;
    let rms = scaling.rule == ScaleRuleChoice::Rms;
    let (f32, e4m3) = (scaling.storage == ScaleTypeChoice::F32, scaling.storage.is_minifloat());
    let stored = scaling.zero.is_some_and(ZeroBlockChoice::is_stored);
    let delayed = scaling.amax == AmaxChoice::Delayed;
    let keeps = fields.zero.is_some() && scaling.zero.is_none();
    rounds
        && cast.fields.block != Some(BlockChoice::None)
        && match key {
            "pow2" | "limit" => max && f32,
            "order" => max,
            "margin" => !rms && !e4m3,
            "floor" => !rms,
            // Dynamic overrides an inherited one, which rule rms cannot have.
            "amax" => !rms || scaling.amax == AmaxChoice::Dynamic,
            "zero" => {
                if keeps {
                    delayed
                } else {
                    stored || !e4m3 && !rms && scaling.floor == 0.0
                }
            }
            "window" | "first" => delayed,
            "static_amax" => scaling.amax == AmaxChoice::Static,
            "deviations" => rms,
            "candidates" => scaling.has_choice(),
            _ => true,
        }
}
