//! The ranges of `[quant.scaling]`, and of the scales of casts and layers.

use altgrad_metrics::Role;

use super::{Rule, positive, rule, size};
use crate::cast_fields::CastTables;
use crate::choices::AmaxChoice;
use crate::quant::QuantSection;
use crate::scaling::{ScalingFields, ScalingSection};

pub(super) fn rules(quant: &QuantSection) -> Vec<Rule> {
    let mut rules = general(&quant.scaling);
    rules.extend(of_casts_and_layers(quant));
    rules
}

fn general(scaling: &ScalingSection) -> Vec<Rule> {
    vec![
        size("quant.scaling.window", scaling.window),
        rule(
            &["quant.scaling.static_amax"],
            scaling.static_amax.is_none() || scaling.amax == AmaxChoice::Static,
            "`quant.scaling.static_amax` has no effect without amax = \"static\"",
        )
        .hint("set amax = \"static\", or remove the key"),
        static_amax("quant.scaling.static_amax", scaling.static_amax.unwrap_or(1.0)),
        rule(
            &["quant.scaling.margin"],
            (-32..=32).contains(&scaling.margin),
            format!("`quant.scaling.margin` must be from -32 to 32, found {}", scaling.margin),
        ),
    ]
}

fn static_amax(key: &str, amax: f32) -> Rule {
    positive(key, f64::from(amax))
        .hint("give the magnitude as f32, such as 3.5; without the key it is that of the first step")
}

/// The rules of numbers that casts and layers give in place of those of `[quant.scaling]`.
fn of_casts_and_layers(quant: &QuantSection) -> Vec<Rule> {
    let of_casts = |table: String, casts: &CastTables| -> Vec<(String, ScalingFields)> {
        let scaling =
            |role: Role| Some((format!("{table}.{}.scaling", role.name()), casts.of(role)?.scaling?));
        Role::ALL.into_iter().filter_map(scaling).collect()
    };
    let of_layers = quant.layer.iter().enumerate().flat_map(|(index, layer)| {
        let own = layer.scaling.map(|scaling| (format!("quant.layer.{index}.scaling"), scaling));
        own.into_iter().chain(of_casts(format!("quant.layer.{index}.cast"), &layer.cast))
    });
    let all = of_casts("quant.cast".to_owned(), &quant.cast).into_iter().chain(of_layers);
    all.flat_map(|(table, scaling)| {
        let window = scaling.window.map(|window| size(&format!("{table}.window"), window));
        let amax = scaling.static_amax.map(|amax| static_amax(&format!("{table}.static_amax"), amax));
        window.into_iter().chain(amax)
    })
    .collect()
}
