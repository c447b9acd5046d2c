//! The label of a configuration: its label in a sweep's matrix file, else its format, and the keys that distinguish it
//! from others. Configurations that share a label of the matrix file have their formats after it, if those differ.
//!
//! A label has the optimizer, the learning rate and the master weights wherever configurations differ in them. Beyond
//! that it has the fewest keys that make it unique: a key that follows from another, as the final rate of a schedule
//! does from the first, adds no information.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    run::Run,
    run_file::{OF_RECIPE, RunFile, STATES, differs},
    text::shortened,
};

/// Keys in the format's part of a label.
const SAID: [&str; 6] =
    ["quant.weight", "quant.activation", "quant.grad", "quant.recipe", "train.precision", "data.alphabet"];
/// Keys that are always part of the label where configurations differ in them, in this order.
const ALWAYS: [&str; 3] = ["optimizer.name", "train.lr", "quant.master_weights"];
/// Between the parts of a label.
const SEPARATOR: &str = " · ";
/// All keys of the states' storage, as one.
const ALL_STATES: &str = "optimizer.states";
/// Characters of the longest label, and of the longest value in one.
const LONGEST: usize = 72;
const LONGEST_VALUE: usize = 28;

/// The keys of a configuration, and their short forms for labels.
type Says = BTreeMap<String, String>;

/// A label for each group of runs.
pub(super) fn labels(runs: &[Run], members: &[Vec<usize>]) -> Vec<String> {
    let configs: Vec<&RunFile> = members.iter().map(|members| &runs[members[0]].config).collect();
    let says: Vec<Says> = configs.iter().map(|config| says(config)).collect();
    let with_config = || says.iter().filter(|says| !says.is_empty());
    // Configurations that round nothing have no relevant master weights.
    let values = |key: &str| with_config().filter_map(|says| says.get(key)).collect::<BTreeSet<_>>().len();
    let differs = |key: &&&str| values(key) > 1;
    let always: Vec<&str> = ALWAYS.iter().filter(differs).copied().collect();
    let of_sweep: Vec<Option<String>> = members.iter().map(|members| of_sweep(runs, members)).collect();
    let formats: Vec<String> = configs.iter().map(|config| among(config, &configs)).collect();
    let mut labels: Vec<Vec<String>> = Vec::new();
    for (index, (config, says)) in configs.iter().zip(&says).enumerate() {
        let always = always.iter().filter_map(|key| says.get(*key).cloned());
        let format = formats[index].clone();
        let sharing = |other: &usize| of_sweep[*other] == of_sweep[index];
        let sharing: Vec<usize> = (0..members.len()).filter(sharing).collect();
        labels.push(match &of_sweep[index] {
            Some(label) if sharing.len() == 1 => vec![label.clone()],
            Some(label) => {
                let differ = sharing.iter().any(|other| formats[*other] != format);
                extended(label, differ.then_some(format).into_iter().chain(always))
            }
            None if config.is_empty() => vec![shortened(&runs[members[index][0]].name, LONGEST)],
            None => std::iter::once(format).chain(always).collect(),
        });
    }
    let mut same: BTreeMap<Vec<String>, Vec<usize>> = BTreeMap::new();
    labels.iter().enumerate().for_each(|(index, label)| same.entry(label.clone()).or_default().push(index));
    for alike in same.into_values().filter(|alike| alike.len() > 1) {
        let keys = telling(&alike.iter().map(|index| &says[*index]).collect::<Vec<_>>());
        for index in alike {
            let said = keys.iter().filter_map(|key| says[index].get(key).cloned());
            labels[index].extend(said);
        }
    }
    unique(labels.into_iter().map(|label| label.join(SEPARATOR)))
}

/// A label of a matrix file with further parts, but those that it has already: it is often the name of the optimizer.
fn extended(label: &str, parts: impl Iterator<Item = String>) -> Vec<String> {
    let parts = parts.filter(|part| label.split(SEPARATOR).all(|own| own != part));
    std::iter::once(label.to_string()).chain(parts).collect()
}

/// The label of these runs in the matrix files of their sweeps, if it is the same for all.
pub(super) fn of_sweep(runs: &[Run], members: &[usize]) -> Option<String> {
    let label = runs[members[0]].label.as_ref()?;
    let is_same = |run: &usize| runs[*run].label.as_ref() == Some(label);
    members.iter().all(is_same).then(|| shortened(label, LONGEST))
}

/// The fewest keys, one after the other, that distinguish the most of these.
fn telling(says: &[&Says]) -> Vec<String> {
    let keys: BTreeSet<&String> = says.iter().flat_map(|says| says.keys()).collect();
    let differs = |key: &&&String| differs(key, says.iter().map(|says| says.get(**key)));
    let keys: Vec<&String> = keys.iter().filter(differs).copied().collect();
    let classes = |chosen: &[&String]| {
        let of = |says: &&Says| chosen.iter().map(|key| says.get(*key).cloned()).collect::<Vec<_>>();
        says.iter().map(of).collect::<BTreeSet<_>>().len()
    };
    let mut chosen: Vec<&String> = Vec::new();
    let mut apart = 1;
    while apart < says.len() {
        let with = |key: &String| classes(&[&chosen[..], &[key]].concat());
        // Of keys that distinguish as many configurations, the one with the shortest name is preferred.
        let best = keys.iter().copied().max_by_key(|key| (with(key), std::cmp::Reverse(key.len())));
        let Some(best) = best.filter(|key| with(key) > apart) else { break };
        apart = with(best);
        chosen.push(best);
    }
    chosen.into_iter().cloned().collect()
}

/// The distinguishing properties of a configuration. States that are all stored alike are one: `states bf16`.
fn says(config: &RunFile) -> Says {
    let mut says = Says::new();
    let mut states: Vec<(&str, &str)> = Vec::new();
    for (key, value) in config.differences().filter(|(key, _)| !SAID.contains(key)) {
        match key.strip_prefix(STATES) {
            Some(name) => states.push((name, value)),
            None => drop(says.insert(key.to_string(), say(key, value))),
        }
    }
    let alike = states.len() > 1 && states.iter().all(|(_, storage)| *storage == states[0].1);
    let each = states.iter().map(|(name, storage)| say(name, storage)).collect::<Vec<_>>();
    match states.first() {
        Some((_, storage)) if alike => drop(says.insert(ALL_STATES.into(), say("states", storage))),
        Some(_) => drop(says.insert(ALL_STATES.into(), each.join(" · "))),
        None => {}
    }
    if !config.is_quantized() {
        says.retain(|key, _| !key.starts_with("quant."));
    }
    says
}

/// A configuration's value of a key, in short form; none if formats and optimizer already say it, or if the key has no
/// effect.
pub(super) fn distinction(config: &RunFile, key: &str) -> Option<String> {
    let is_said = SAID.contains(&key) || key == "optimizer.name";
    let has_effect = config.is_quantized() || !key.starts_with("quant.");
    let value = config.get(key).filter(|_| has_effect && !is_said)?;
    Some(say(key, value))
}

/// A key and its value, in short form.
fn say(key: &str, value: &str) -> String {
    match (key, value) {
        ("optimizer.name", name) => shortened(name, LONGEST_VALUE),
        ("quant.master_weights", "none") => "no master weights".into(),
        ("quant.master_weights", _) => "master weights".into(),
        ("quant.stored_scale.rule", rule) => format!("scales {}", rule.replace('_', " ")),
        _ => format!("{} {}", key.rsplit('.').next().unwrap_or(key), shortened(value, LONGEST_VALUE)),
    }
}

/// The recipe of a configuration, or its formats: `nvfp4`, `E4M3`, `E4M3 w+a · E5M2 g`, `fp32`.
#[must_use]
pub fn format_label(config: &RunFile) -> String {
    config.get(OF_RECIPE).map_or_else(|| formats_of(config), |recipe| shortened(recipe, LONGEST_VALUE))
}

/// The same, with the formats after a recipe of which others have other formats.
fn among(config: &RunFile, all: &[&RunFile]) -> String {
    let (label, formats) = (format_label(config), formats_of(config));
    let other =
        |other: &&RunFile| other.get(OF_RECIPE) == config.get(OF_RECIPE) && formats_of(other) != formats;
    if config.get(OF_RECIPE).is_some() && all.iter().any(other) {
        return format!("{label}{SEPARATOR}{formats}");
    }
    label
}

/// The formats of a configuration.
fn formats_of(config: &RunFile) -> String {
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
        [] => match config.get("quant.recipe") {
            Some(recipe) => recipe.to_string(),
            None if rules.is_none() && config.rounds_operands() => "casts".to_string(),
            None => config.get("train.precision").unwrap_or("fp32").to_string(),
        },
        [(format, roles)] if roles.len() == 3 => (*format).to_string(),
        formats => {
            let each = formats.iter().map(|(format, roles)| format!("{format} {}", roles.join("+")));
            each.collect::<Vec<_>>().join(" · ")
        }
    };
    [Some(said.as_str()), rules].into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// Shortens long labels and numbers equal ones.
fn unique(labels: impl Iterator<Item = String>) -> Vec<String> {
    let mut known = BTreeSet::new();
    let number = |label: String| {
        let label = shortened(&label, LONGEST);
        let mut numbered = label.clone();
        let mut number = 2;
        while !known.insert(numbered.clone()) {
            numbered = format!("{label} ({number})");
            number += 1;
        }
        numbered
    };
    labels.map(number).collect()
}
