//! Configurations: runs that differ only in their seed, and the configurations' names.

use std::collections::{BTreeMap, BTreeSet};

pub use super::label::format_label;
use super::{
    label::labels,
    run::Run,
    run_file::{RunFile, differs},
};

/// Runs that repeat each other.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Unique among the groups: format, and other distinguishing keys.
    pub label: String,
    /// The formats of its linear layers, with the same colour everywhere.
    pub format: String,
    /// True if nothing is rounded to a format: a baseline.
    pub is_unquantized: bool,
    /// The optimizer's name, if the run file is there.
    pub optimizer: Option<String>,
    /// Numbers of its runs, one a seed.
    pub runs: Vec<usize>,
    /// Numbers of runs that repeat a seed of `runs`: no further evidence.
    pub repeated: Vec<usize>,
}

impl Group {
    /// A run's label: the group's, and the seed if there are several runs.
    #[must_use]
    pub fn run_label(&self, index: usize, runs: &[Run]) -> String {
        let seed = runs[index].seed().filter(|_| self.runs.len() + self.repeated.len() > 1);
        seed.map_or(self.label.clone(), |seed| format!("{} · seed {seed}", self.label))
    }
}

/// The groups of some runs, by label.
#[must_use]
pub fn groups(runs: &[Run]) -> Vec<Group> {
    let mut by_key: BTreeMap<Vec<(&str, &str)>, Vec<usize>> = BTreeMap::new();
    for (index, run) in runs.iter().enumerate() {
        let path = run.path.to_str().unwrap_or(&run.name);
        let key = if run.config.is_empty() { vec![("", path)] } else { run.config.differences().collect() };
        by_key.entry(key).or_default().push(index);
    }
    let members: Vec<Vec<usize>> = by_key.into_values().collect();
    let labels = labels(runs, &members);
    let mut groups: Vec<Group> =
        members.into_iter().zip(labels).map(|(members, label)| group(runs, members, label)).collect();
    groups.sort_by(|a, b| (!a.is_unquantized, &a.label).cmp(&(!b.is_unquantized, &b.label)));
    groups
}

/// Of runs with the same seed one is evidence: the one that came furthest, and of those the first.
fn group(runs: &[Run], members: Vec<usize>, label: String) -> Group {
    let mut kept: Vec<usize> = Vec::new();
    let mut repeated = Vec::new();
    for index in members {
        match kept.iter().position(|kept| runs[*kept].seed() == runs[index].seed()) {
            Some(at) if runs[kept[at]].reached() < runs[index].reached() => {
                repeated.push(std::mem::replace(&mut kept[at], index));
            }
            Some(_) => repeated.push(index),
            None => kept.push(index),
        }
    }
    let config = &runs[kept[0]].config;
    let optimizer = config.get("optimizer.name").map(str::to_string);
    let is_unquantized = !config.is_empty() && !config.is_quantized();
    Group { label, format: format_label(config), is_unquantized, optimizer, runs: kept, repeated }
}

/// Keys that make a difference and are not the same everywhere.
#[must_use]
pub fn differing<'a>(configs: impl Iterator<Item = &'a RunFile>) -> Vec<String> {
    let configs: Vec<BTreeMap<&str, &str>> = configs.map(|config| config.differences().collect()).collect();
    let keys: BTreeSet<&str> = configs.iter().flat_map(|config| config.keys().copied()).collect();
    let differs = |key: &&str| differs(key, configs.iter().map(|config| config.get(key)));
    keys.into_iter().filter(differs).map(str::to_string).collect()
}
