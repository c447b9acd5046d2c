//! The charts of the report, as plotly's JSON.
//!
//! A chart is one figure over all runs, or one for each run that is shown in detail. Colours are not in the figures: a
//! trace says its format, and the page gives it that format's colour in light or dark. A chart without data says which
//! key of the run file would record it.

mod codes;
mod curves;
mod layers;
mod profile;
mod switches;
mod timeline;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Value, json};

use super::{compare::Comparison, group::Group, run::Run};

/// Runs that are shown in detail.
const MOST_DETAILED: usize = 40;
/// Points of all curves of a chart together.
const MOST_POINTS: usize = 80_000;

/// Everything charts are made from.
pub(super) struct Context<'a> {
    pub runs: &'a [Run],
    pub groups: &'a [Group],
    pub comparison: &'a Comparison,
    /// Group of each run.
    pub group_of: Vec<usize>,
    /// Label of each run.
    pub labels: Vec<String>,
    /// Runs that have pictures of their own.
    pub detailed: Vec<usize>,
}

/// One chart.
#[derive(Debug, Serialize)]
pub(super) struct Chart {
    pub id: &'static str,
    pub title: &'static str,
    /// What it shows and how to read it, a sentence or two.
    pub caption: &'static str,
    /// What would record it, if it is missing.
    pub needs: &'static str,
    /// Names of a point's numbers, for tables and CSV: x, y, and z of pictures.
    pub names: [&'static str; 3],
    /// Pixels.
    pub height: usize,
    /// Whether it is as wide as the page.
    pub wide: bool,
    /// By run, `all` for all of them; empty if nothing was recorded.
    pub figures: BTreeMap<String, Value>,
}

impl<'a> Context<'a> {
    pub fn new(runs: &'a [Run], groups: &'a [Group], comparison: &'a Comparison) -> Self {
        let mut group_of = vec![0; runs.len()];
        for (index, group) in groups.iter().enumerate() {
            group.runs.iter().chain(&group.repeated).for_each(|run| group_of[*run] = index);
        }
        let labels = (0..runs.len()).map(|run| groups[group_of[run]].run_label(run, runs)).collect();
        // The first seed of every configuration, then the second.
        let longest = groups.iter().map(|group| group.runs.len()).max().unwrap_or(0);
        let by_seed =
            (0..longest).flat_map(|seed| groups.iter().filter_map(move |group| group.runs.get(seed)));
        let mut detailed: Vec<usize> = by_seed.copied().take(MOST_DETAILED).collect();
        detailed.sort_by_key(|run| (group_of[*run], *run));
        Self { runs, groups, comparison, group_of, labels, detailed }
    }

    /// What the page needs to colour a trace and to find it.
    fn meta(&self, group: usize, label: &str) -> Value {
        json!({ "format": self.groups[group].format, "label": label })
    }

    /// Lines differ by optimizer.
    fn dash(&self, group: usize) -> &'static str {
        let optimizers = optimizers(self.groups);
        let own = self.groups[group].optimizer.as_deref().unwrap_or_default();
        dash(optimizers.iter().position(|optimizer| *optimizer == own).unwrap_or(0))
    }

    /// A figure for each run in detail that has one.
    fn by_run(&self, figure: impl Fn(usize) -> Option<Value>) -> BTreeMap<String, Value> {
        self.detailed.iter().filter_map(|run| Some((run.to_string(), figure(*run)?))).collect()
    }
}

/// Names of the optimizers, in order.
pub(super) fn optimizers(groups: &[Group]) -> Vec<&str> {
    let names: BTreeSet<&str> = groups.iter().filter_map(|group| group.optimizer.as_deref()).collect();
    let mut names: Vec<&str> = names.into_iter().collect();
    // The usual one has the plain line.
    names.sort_by_key(|name| *name != "adamw");
    names
}

/// The line of an optimizer.
pub(super) fn dash(index: usize) -> &'static str {
    ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"][index % 6]
}

/// Every chart, by the section of the page it belongs to.
pub(super) fn all(context: &Context<'_>) -> Vec<(&'static str, Chart)> {
    let mut charts = curves::all(context);
    charts.push(("profile", profile::chart(context)));
    charts.extend(layers::all(context));
    charts.extend(codes::all(context));
    charts.push(("stiffness", layers::regret(context)));
    charts.push(("alerts", timeline::chart(context)));
    charts
}

/// Text that plotly shows as it is: it reads tags in names.
fn plain(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A number with five significant digits: what a chart can show.
fn short(value: f64) -> Value {
    let rounded = format!("{value:.4e}").parse().unwrap_or(value);
    if f64::abs(rounded) >= 1e15 || f64::fract(rounded) != 0.0 {
        json!(rounded)
    } else {
        json!(rounded as i64)
    }
}

fn shorts(values: impl IntoIterator<Item = f64>) -> Vec<Value> {
    values.into_iter().map(|value| if value.is_finite() { short(value) } else { Value::Null }).collect()
}

/// A parameter's name without what all have.
fn layer_name(layer: &str) -> String {
    plain(layer.strip_suffix(".weight").unwrap_or(layer))
}

/// Layers in the order of the model: numbers in names count as numbers.
fn in_model_order(layers: &mut [&String]) {
    let key = |layer: &str| -> Vec<(u64, String)> {
        layer
            .split('.')
            .map(|part| part.parse().map_or((u64::MAX, part.to_string()), |n| (n, String::new())))
            .collect()
    };
    let ends = |layer: &str| layer.starts_with("h.") || layer.contains(".h.");
    layers.sort_by_cached_key(|layer| (ends(layer), key(layer)));
}
