//! The charts of the report, as drawings.
//!
//! A chart is one drawing over all configurations, one for each run that is shown in detail, or one for each
//! configuration and metric; drawings of a chart share their scale. A chart without data names the key of the run file
//! that would record it. [`look`] defines the colour and the line style of a configuration.

mod causes;
mod codes;
mod curves;
mod forest;
mod layers;
mod look;
mod maps;
mod profile;
mod rates;
mod sensitivity;
mod switches;
mod timeline;

use std::collections::BTreeMap;

use super::{
    compare::Comparison,
    draw::{Part, Plot, Series},
    group::Group,
    run::Run,
};
pub use look::View;
pub(super) use look::{Key, Look};
pub(super) use maps::Maps;

/// Runs that are shown in detail.
const MOST_DETAILED: usize = 24;

/// Everything charts are made from.
pub(super) struct Context<'a> {
    pub runs: &'a [Run],
    pub groups: &'a [Group],
    pub comparison: &'a Comparison,
    pub view: &'a View,
    pub look: Look,
    /// Group of each run.
    pub group_of: Vec<usize>,
    /// Label of each run.
    pub labels: Vec<String>,
    /// Runs that have drawings of their own.
    pub detailed: Vec<usize>,
}

/// One chart.
#[derive(Debug)]
pub(super) struct Chart {
    pub id: &'static str,
    pub title: &'static str,
    /// The content of the figure and its reading, in one or two sentences.
    pub caption: &'static str,
    /// The key that would record it, if it is missing.
    pub needs: &'static str,
    /// True if it is as wide as the page.
    pub wide: bool,
    pub drawings: Drawings,
}

/// The data of a chart.
#[derive(Debug)]
pub(super) enum Drawings {
    /// Not recorded.
    None,
    /// One over all.
    All(Box<Plot>),
    /// One a run, by its number.
    ByRun(BTreeMap<usize, Plot>),
    /// One a configuration, for each of several metrics.
    Maps(Vec<Maps>),
}

impl From<Option<Plot>> for Drawings {
    fn from(plot: Option<Plot>) -> Self {
        plot.map_or(Self::None, |plot| Self::All(Box::new(plot)))
    }
}

impl From<BTreeMap<usize, Plot>> for Drawings {
    fn from(by_run: BTreeMap<usize, Plot>) -> Self {
        if by_run.is_empty() { Self::None } else { Self::ByRun(by_run) }
    }
}

impl<'a> Context<'a> {
    pub fn new(runs: &'a [Run], groups: &'a [Group], comparison: &'a Comparison, view: &'a View) -> Self {
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
        let look = Look::new(runs, groups, comparison, view);
        Self { runs, groups, comparison, view, look, group_of, labels, detailed }
    }

    /// Marks of a configuration.
    fn series(&self, group: usize, parts: Vec<Part>) -> Series {
        Series {
            name: self.groups[group].label.clone(),
            group: Some(group),
            is_single: false,
            ink: self.look.ink(group),
            dash: self.look.dash(group),
            parts,
        }
    }

    /// A drawing for each run in detail that has one.
    fn by_run(&self, drawing: impl Fn(usize) -> Option<Plot>) -> BTreeMap<usize, Plot> {
        self.detailed.iter().filter_map(|run| Some((*run, drawing(*run)?))).collect()
    }
}

/// Every chart, by the section of the page it belongs to.
pub(super) fn all(context: &Context<'_>) -> Vec<(&'static str, Chart)> {
    let mut charts = vec![("comparison", forest::chart(context))];
    charts.extend(sensitivity::chart(context).map(|chart| ("comparison", chart)));
    charts.extend(curves::all(context));
    charts.push(("loss", rates::chart(context)));
    charts.push(("profile", profile::chart(context)));
    charts.extend(layers::all(context));
    charts.push(("layers", maps::chart(context)));
    charts.extend(codes::all(context));
    charts.push(("stiffness", layers::regret(context)));
    charts.push(("alerts", timeline::chart(context)));
    charts.push(("causes", causes::chart(context)));
    charts
}

/// A parameter's name without the common part.
fn layer_name(layer: &str) -> String {
    super::text::shortened(layer.strip_suffix(".weight").unwrap_or(layer), 40)
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

/// Places from above to below on an axis whose numbers rise from below.
fn downwards(names: &[String]) -> Vec<String> {
    names.iter().rev().cloned().collect()
}
