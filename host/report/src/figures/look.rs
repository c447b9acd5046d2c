//! The appearance of configurations: a colour for each value of one key, a line style for each value of another.

use std::collections::{BTreeMap, BTreeSet};

use super::super::{
    compare::Comparison,
    group::{Group, differing},
    label::of_sweep,
    run::Run,
};
use crate::colours;

/// The key that represents the quantization.
pub(crate) const FORMAT: &str = "format";
/// The key that represents the labels of a sweep's matrix file.
const LABEL: &str = "label";
/// The number of labels whose colours differ clearly.
const MOST_LABELS: usize = 12;
/// The number of values that line styles can distinguish.
const MOST_LINES: usize = 6;
/// Numbers that are shown in the order of their size, as a ramp.
const RAMP: usize = 4;

/// The user's options of the charts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct View {
    /// Key whose values have a colour each; `format` for the rounded tensors, `label` for the labels of a sweep.
    pub colour: Option<String>,
    /// Key whose values have a kind of line each.
    pub line: Option<String>,
    /// True if curves are over training tokens instead of steps.
    pub tokens: bool,
    /// True if losses have a logarithmic axis.
    pub log: bool,
    /// Weight of the past in smoothed curves, from 0 to below 1.
    pub smooth: f64,
}

impl View {
    /// The keys that can set colours and lines: those in which the configurations differ.
    #[must_use]
    pub fn keys(runs: &[Run], groups: &[Group]) -> Vec<String> {
        let configs = groups.iter().map(|group| &runs[group.runs[0]].config);
        let label = groups.iter().all(|group| of_sweep(runs, &group.runs).is_some()).then_some(LABEL);
        let own = std::iter::once(FORMAT).chain(label).map(str::to_string);
        own.chain(differing(configs.filter(|config| !config.is_empty()))).collect()
    }
}

/// A value of a key and its appearance.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    pub value: String,
    pub ink: [String; 2],
    pub dash: usize,
    /// Numbers of the configurations that have it.
    pub groups: Vec<usize>,
}

/// The appearance of every configuration.
#[derive(Debug, Clone)]
pub(crate) struct Look {
    /// The keys that can be chosen.
    pub choices: Vec<String>,
    pub colour: String,
    pub line: Option<String>,
    pub colours: Vec<Key>,
    pub lines: Vec<Key>,
}

impl Look {
    pub(crate) fn new(runs: &[Run], groups: &[Group], comparison: &Comparison, view: &View) -> Self {
        let choices = View::keys(runs, groups);
        let settings: Vec<&String> = comparison.sets.iter().flat_map(|set| &set.settings).collect();
        let values = |key: &str| values(runs, groups, key);
        let known = |key: &Option<String>| key.clone().filter(|key| choices.contains(key));
        let formats = values(FORMAT).len();
        let first = settings.first().filter(|_| formats < 2).map(|key| (*key).clone());
        // Labels, where they distinguish configurations that formats do not.
        let label = choices.iter().find(|key| *key == LABEL).cloned();
        let label = label.filter(|_| (formats + 1..=MOST_LABELS).contains(&values(LABEL).len()));
        let colour = known(&view.colour).or(label).or(first);
        let colour = colour.unwrap_or_else(|| FORMAT.to_string());
        let can_be_lines = |key: &&str| **key != colour && (2..=MOST_LINES).contains(&values(key).len());
        let candidates =
            settings.iter().map(|key| key.as_str()).chain(["optimizer.name", "quant.master_weights"]);
        let candidates = candidates.filter(|key| choices.iter().any(|own| own == key)).filter(can_be_lines);
        // The key that distinguishes the most configurations of a colour; among equals the first.
        let number_of = |key: &str| -> Vec<usize> {
            let values = values(key);
            let of = |group| values.iter().position(|(_, groups)| groups.contains(&group)).unwrap_or(0);
            (0..groups.len()).map(of).collect()
        };
        let own = number_of(&colour);
        let apart = |key: &str| own.iter().copied().zip(number_of(key)).collect::<BTreeSet<_>>().len();
        let mut best: Option<(&str, usize)> = None;
        for key in candidates {
            let apart = apart(key);
            best = best.filter(|(_, most)| *most >= apart).or(Some((key, apart)));
        }
        let line = known(&view.line).or(best.map(|(key, _)| key.to_string()));
        let colours = colours_of(&colour, values(&colour));
        let lines = line.as_ref().map(|key| lines_of(values(key))).unwrap_or_default();
        Self { choices, colour, line, colours, lines }
    }

    /// The colours and lines for every selectable key, for a page without a server.
    pub(crate) fn by_key(&self, runs: &[Run], groups: &[Group]) -> Vec<(String, [Vec<Key>; 2])> {
        let of_key = |key: &String| {
            let values = values(runs, groups, key);
            (key.clone(), [colours_of(key, values.clone()), lines_of(values)])
        };
        self.choices.iter().map(of_key).collect()
    }

    pub(super) fn ink(&self, group: usize) -> [String; 2] {
        let key = self.colours.iter().find(|key| key.groups.contains(&group));
        key.map_or_else(|| ["#555e68".into(), "#a3adb8".into()], |key| key.ink.clone())
    }

    pub(super) fn dash(&self, group: usize) -> usize {
        self.lines.iter().find(|key| key.groups.contains(&group)).map_or(0, |key| key.dash)
    }
}

/// The values of a key, numbers by size and others in the order of configurations, with the configurations that have
/// each.
fn values(runs: &[Run], groups: &[Group], key: &str) -> Vec<(String, Vec<usize>)> {
    let mut found: Vec<(String, Vec<usize>)> = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        let value = match key {
            FORMAT => group.format.clone(),
            LABEL => of_sweep(runs, &group.runs).unwrap_or_else(|| "not set".into()),
            _ => runs[group.runs[0]].config.get(key).unwrap_or("not set").to_string(),
        };
        let value = crate::text::shortened(&value, 40);
        match found.iter_mut().find(|(known, _)| *known == value) {
            Some((_, groups)) => groups.push(index),
            None => found.push((value, vec![index])),
        }
    }
    let number = |value: &str| value.parse::<f64>().ok();
    if found.iter().all(|(value, _)| number(value).is_some()) {
        found.sort_by(|a, b| number(&a.0).unwrap_or(0.0).total_cmp(&number(&b.0).unwrap_or(0.0)));
    }
    // The usual optimizer has the plain line.
    found.sort_by_key(|(value, _)| key == "optimizer.name" && value != "adamw");
    found
}

fn lines_of(values: Vec<(String, Vec<usize>)>) -> Vec<Key> {
    let key = |(dash, (value, groups))| Key { value, ink: Default::default(), dash, groups };
    values.into_iter().enumerate().map(key).collect()
}

fn colours_of(key: &str, values: Vec<(String, Vec<usize>)>) -> Vec<Key> {
    let are_numbers = values.iter().all(|(value, _)| value.parse::<f64>().is_ok());
    let count = values.len();
    let of_formats: BTreeMap<String, [String; 2]> = match key {
        FORMAT => {
            colours::of_formats(&values.iter().map(|(value, _)| value.as_str()).collect::<BTreeSet<_>>())
        }
        _ => BTreeMap::new(),
    };
    let ink = |index: usize, value: &str| match of_formats.get(value) {
        Some(ink) => ink.clone(),
        None if are_numbers && count >= RAMP => colours::ramp(index, count),
        None => colours::plain(index),
    };
    let keys = values.into_iter().enumerate();
    keys.map(|(index, (value, groups))| Key { ink: ink(index, &value), value, dash: 0, groups }).collect()
}
