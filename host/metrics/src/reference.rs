//! The page `docs/metrics.md`, made from the definitions.

use std::fmt::Write as _;

use crate::{
    definition::{Due, MetricDefinition, MetricKind, Scope, ValueShape},
    families::Family,
};

/// The page: a section per family, a row per name pattern.
#[must_use]
pub fn markdown() -> String {
    let mut page = String::from(
        "# Metrics\n\n\
         <!-- Made from the metrics' definitions by `cargo xtask docs`: do not edit. -->\n\n\
         A run records one row of metrics per step. A metric that could not be computed is missing: its cell is empty, not zero. \
         NaN means that the computation gave NaN.\n\n\
         The column *where*: *run*, a column of `metrics.csv`; *layer*, a `metric` of `layers.csv` (other \
         sinks append the layer's name: `grad_norm_l2/h.0.attn.c_attn.weight`); *time*, a column of `timings.csv`; \
         *histogram*, a row of `histograms.csv`; *end*, the closing values of a run.\n\n\
         The column *when*: the key of the run file that gives the interval in steps, 0 for never.\n\n\
         In names, `ROLE` is the tensor that is rounded: `weight`, `activation`, `grad` or another role of a cast; `FORMAT` is a format of `observe.formats`; `BIT` is 0 to 7, from the lowest; `OFFSET` is a number of \
         binades, -3 to 3. The unit 1 marks dimensionless numbers.\n",
    );
    for family in Family::ALL {
        let family = family.definition();
        let _ = write!(
            page,
            "\n## {}\n\n{}\n\n| metric | where | when | unit | range | definition |\n|---|---|---|---|---|---|\n",
            family.title, family.text
        );
        for definition in family.metrics {
            for row in rows(definition) {
                let _ = writeln!(page, "{row}");
            }
        }
    }
    page
}

/// The rows of a definition: one for each way its name is built.
fn rows(definition: &MetricDefinition) -> Vec<String> {
    let mut patterns: Vec<(String, Vec<&str>, &str)> = Vec::new();
    for scope in definition.scopes {
        let pattern = pattern(definition, *scope);
        let place = place(definition, *scope);
        match patterns.iter_mut().find(|(known, ..)| *known == pattern) {
            Some((_, places, _)) => places.push(place),
            None => patterns.push((pattern, vec![place], suffix(*scope))),
        }
    }
    let first = patterns.first().map(|(_, _, suffix)| *suffix);
    let row = |(pattern, places, suffix): (String, Vec<&str>, &'static str)| {
        let MetricDefinition { due, unit, range, .. } = definition;
        let meaning = match Some(suffix) == first {
            true => definition.meaning().replace('|', "\\|") + &alerts(definition),
            false => format!("The same, {suffix}."),
        };
        format!("| `{pattern}` | {} | {due} | {unit} | {range} | {meaning} |", places.join(", "))
    };
    patterns.into_iter().map(row).collect()
}

/// The keys of its alerts' thresholds, as a sentence.
fn alerts(definition: &MetricDefinition) -> String {
    let keys = definition.alerts.iter().filter_map(|alert| alert.kind.threshold_key());
    let keys: Vec<String> = keys.map(|key| format!("`alerts.{key}`")).collect();
    if keys.is_empty() { String::new() } else { format!(" Alerts: {}.", keys.join(", ")) }
}

/// The name of a metric of a scope, without its layer and with placeholders.
fn pattern(definition: &MetricDefinition, scope: Scope) -> String {
    let mut pattern = match (scope, definition.parts()) {
        (Scope::Role | Scope::RoleAndLayer, (Some(prefix), own)) => format!("{prefix}/ROLE/{own}"),
        _ => definition.name.to_string(),
    };
    if let Some(index) = definition.index {
        let _ = write!(pattern, "/{}", index.placeholder());
    }
    if definition.by_format {
        pattern.push_str(if definition.name == "optimizer" { "/NAME" } else { "/FORMAT" });
    }
    match scope {
        Scope::MeanOfLayers => pattern.push_str("/mean"),
        Scope::LeastOfLayers => pattern.push_str("/min"),
        _ => {}
    }
    pattern
}

/// The name pattern of metrics of a scope.
fn place(definition: &MetricDefinition, scope: Scope) -> &'static str {
    match (definition.shape, definition.due, definition.kind, scope) {
        (ValueShape::Distribution, ..) => "histogram",
        (_, Due::End, ..) => "end",
        (_, _, MetricKind::Timing, _) => "time",
        (.., Scope::Layer | Scope::RoleAndLayer) => "layer",
        _ => "run",
    }
}

/// The addition of a scope to the meaning.
fn suffix(scope: Scope) -> &'static str {
    match scope {
        Scope::Run | Scope::Layer => "over the run",
        Scope::MeanOfLayers => "mean over parameters",
        Scope::LeastOfLayers => "minimum over parameters",
        Scope::Role | Scope::RoleAndLayer => "by role",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families;

    #[test]
    fn the_page_has_every_definition() {
        let page = markdown();
        for definition in families::definitions() {
            for scope in definition.scopes {
                let pattern = pattern(definition, *scope);
                assert!(page.contains(&format!("| `{pattern}` |")), "{pattern}");
            }
        }
    }
}
