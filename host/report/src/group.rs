//! Configurations: runs that differ in nothing but their seed, and what a configuration is called.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    facts::{Config, STATES},
    run::Run,
};

/// Keys whose difference a label says in another way.
const SAID: [&str; 6] =
    ["quant.weight", "quant.activation", "quant.grad", "optimizer.name", "train.precision", "data.alphabet"];
/// Characters of the longest label.
const LONGEST: usize = 60;

/// Runs that repeat each other.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Unique among the groups: format, and what else tells it from the others.
    pub label: String,
    /// What its linear layers round to; the same in the same colour everywhere.
    pub format: String,
    /// The optimizer's name, if the run file is there.
    pub optimizer: Option<String>,
    /// Numbers of its runs, one a seed.
    pub runs: Vec<usize>,
    /// Numbers of runs that repeat a seed of `runs`: no further evidence.
    pub repeated: Vec<usize>,
}

impl Group {
    /// Whether nothing is rounded: what formats are held against.
    #[must_use]
    pub fn is_unquantized(&self) -> bool {
        matches!(self.format.as_str(), "fp32" | "bf16")
    }

    /// A run's label: the group's, and the seed if there are several runs.
    #[must_use]
    pub fn run_label(&self, index: usize, runs: &[Run]) -> String {
        let seed = runs[index].seed().filter(|_| self.runs.len() + self.repeated.len() > 1);
        seed.map_or(self.label.clone(), |seed| format!("{} · seed {seed}", self.label))
    }
}

/// What a configuration rounds: `E4M3`, `E4M3 w+a · E5M2 g`, `fp32`.
#[must_use]
pub fn format_label(config: &Config) -> String {
    if config.is_empty() {
        return "unknown".into();
    }
    let roles = [("weight", "w"), ("activation", "a"), ("grad", "g")];
    let mut formats: Vec<(&str, Vec<&str>)> = Vec::new();
    for (role, short) in roles {
        let Some(format) = config.get(&format!("quant.{role}")).filter(|format| *format != "none") else {
            continue;
        };
        match formats.iter_mut().find(|(known, _)| *known == format) {
            Some((_, roles)) => roles.push(short),
            None => formats.push((format, vec![short])),
        }
    }
    let rules = config.get("quant.layer.0.match").map(|_| "by layer");
    let said = match &formats[..] {
        [] => config.get("train.precision").unwrap_or("fp32").to_string(),
        [(format, roles)] if roles.len() == 3 => (*format).to_string(),
        formats => {
            let each = formats.iter().map(|(format, roles)| format!("{format} {}", roles.join("+")));
            each.collect::<Vec<_>>().join(" · ")
        }
    };
    [Some(said.as_str()), rules].into_iter().flatten().collect::<Vec<_>>().join(" · ")
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
    groups.sort_by(|a, b| (!a.is_unquantized(), &a.label).cmp(&(!b.is_unquantized(), &b.label)));
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
    Group { label, format: format_label(config), optimizer, runs: kept, repeated }
}

/// A label for each group: format, then the optimizer if there are several, then the keys that still tell it from others.
fn labels(runs: &[Run], members: &[Vec<usize>]) -> Vec<String> {
    let configs: Vec<&Config> = members.iter().map(|members| &runs[members[0]].config).collect();
    let optimizers: BTreeSet<_> = configs.iter().filter_map(|config| config.get("optimizer.name")).collect();
    let mut labels: Vec<String> = Vec::new();
    for (config, members) in configs.iter().zip(members) {
        labels.push(match config.get("optimizer.name") {
            _ if config.is_empty() => runs[members[0]].name.clone(),
            Some(optimizer) if optimizers.len() > 1 => format!("{} · {optimizer}", format_label(config)),
            _ => format_label(config),
        });
    }
    let mut same: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    labels.iter().enumerate().for_each(|(index, label)| same.entry(label.clone()).or_default().push(index));
    for (label, indices) in same.into_iter().filter(|(_, indices)| indices.len() > 1) {
        let differing = differing(indices.iter().map(|index| configs[*index]));
        for &index in &indices {
            labels[index] = [vec![label.clone()], said(&differing, configs[index])].concat().join(" · ");
        }
    }
    unique(labels)
}

/// Shortens what is too long, if it then still differs from the others, and numbers what is the same.
fn unique(labels: Vec<String>) -> Vec<String> {
    let start = |label: &str| label.char_indices().nth(LONGEST).map(|(end, _)| label[..end].to_string());
    let mut starts: BTreeMap<String, usize> = BTreeMap::new();
    labels.iter().filter_map(|label| start(label)).for_each(|start| *starts.entry(start).or_default() += 1);
    let shorten = |label: String| match start(&label) {
        Some(start) if starts[&start] == 1 => format!("{start}…"),
        _ => label,
    };
    let mut known = BTreeSet::new();
    let number = |label: String| {
        let mut numbered = label.clone();
        let mut number = 2;
        while !known.insert(numbered.clone()) {
            numbered = format!("{label} ({number})");
            number += 1;
        }
        numbered
    };
    labels.into_iter().map(shorten).map(number).collect()
}

/// What keys a label has yet to say, with a configuration's values. States that are all stored alike are one: `states bf16`.
fn said(keys: &[String], config: &Config) -> Vec<String> {
    let keys = keys.iter().filter(|key| !SAID.contains(&key.as_str()));
    let (states, others): (Vec<&String>, Vec<&String>) = keys.partition(|key| key.starts_with(STATES));
    let stored: BTreeSet<Option<&str>> = states.iter().map(|key| config.get(key)).collect();
    let each = |keys: Vec<&String>| -> Vec<String> {
        keys.into_iter().map(|key| say(key, config.get(key))).collect()
    };
    let states = match (states.len(), stored.first()) {
        (2.., Some(storage)) if stored.len() == 1 => vec![say("states", *storage)],
        _ => each(states),
    };
    [each(others), states].concat()
}

/// A key and its value, shortly.
fn say(key: &str, value: Option<&str>) -> String {
    match (key, value) {
        ("quant.master_weights", Some("none")) => "no master weights".into(),
        ("quant.master_weights", _) => "master weights".into(),
        ("quant.stored_scale.rule", Some(rule)) => format!("scales {}", rule.replace('_', " ")),
        (_, value) => format!("{} {}", key.rsplit('.').next().unwrap_or(key), value.unwrap_or("not set")),
    }
}

/// Keys that make a difference and are not the same everywhere.
#[must_use]
pub fn differing<'a>(configs: impl Iterator<Item = &'a Config>) -> Vec<String> {
    let configs: Vec<BTreeMap<&str, &str>> = configs.map(|config| config.differences().collect()).collect();
    let keys: BTreeSet<&str> = configs.iter().flat_map(|config| config.keys().copied()).collect();
    let differs = |key: &&str| configs.windows(2).any(|pair| pair[0].get(key) != pair[1].get(key));
    keys.into_iter().filter(differs).map(str::to_string).collect()
}
