//! Sets of comparable configurations: those of the same data, model and length, and a baseline for each.
//!
//! In a set, configurations are sorted into treatments, which differ in rounding or in the optimizer, and settings,
//! which differ in any other key, such as the learning rate. A treatment is compared with the unquantized one of the
//! same optimizer: at the same setting if they share one, the best with the best if they share several, and each at its
//! own best if they share none. The best has the lowest mean final loss.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{
    group::Group,
    run::Run,
    run_file::{OF_ALERTS, RunFile, STATES, is_of},
    status::Status,
};

/// Keys that must be equal for losses to be compared.
const SAME: [&str; 5] = ["data.", "model.", "train.max_steps", "train.grad_accum", "train.eval_batches"];
/// Keys that make a treatment. A configuration has keys of alerts only if they switch its casts.
const TREATMENT: [&str; 10] = [
    "quant.",
    STATES,
    "optimizer.name",
    "optimizer.error_feedback",
    "train.precision",
    "train.loss_scale",
    OF_ALERTS[0],
    OF_ALERTS[1],
    OF_ALERTS[2],
    OF_ALERTS[3],
];

/// Configurations of the same data, model and length.
#[derive(Debug, Clone, Serialize)]
pub struct Set {
    /// Keys with values that distinguish it from other sets; empty if there is one set.
    pub what: Vec<String>,
    /// Numbers of its configurations.
    #[serde(skip)]
    pub groups: Vec<usize>,
    /// The label of the baseline.
    pub baseline: Option<String>,
    /// The unquantized configurations besides the baseline, which `--baseline` can name.
    pub alternatives: Vec<String>,
    /// Keys in which the settings of the set differ.
    pub settings: Vec<String>,
}

/// The criterion by which a configuration and its baseline were chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// They differ in the treatment only.
    SameSetting,
    /// Each is the best of this many settings that both treatments have.
    BestOf(usize),
    /// Each is the best of its own settings.
    OwnBest,
}

/// A configuration and its baseline.
#[derive(Debug, Clone, Copy)]
pub(super) struct Contrast {
    pub group: usize,
    pub baseline: usize,
    pub basis: Basis,
    /// True if it represents its treatment: the others of a treatment are shown and not tested.
    pub is_tested: bool,
}

/// Every set, and for each configuration its contrast, if it has one. `named` is the configuration that a user chose as
/// baseline.
pub(super) fn sets(runs: &[Run], groups: &[Group], named: Option<usize>) -> (Vec<Set>, Vec<Contrast>) {
    let config = |group: usize| &runs[groups[group].runs[0]].config;
    let mut by_key: BTreeMap<Vec<(&str, &str)>, Vec<usize>> = BTreeMap::new();
    for group in 0..groups.len() {
        let path = runs[groups[group].runs[0]].path.to_str().unwrap_or_default();
        let key = if config(group).is_empty() { vec![("", path)] } else { set_keys(config(group)) };
        by_key.entry(key).or_default().push(group);
    }
    let several = by_key.len() > 1;
    let common: BTreeSet<_> = by_key
        .keys()
        .map(|key| key.iter().copied().collect::<BTreeSet<_>>())
        .reduce(|a, b| &a & &b)
        .unwrap_or_default();
    let what = |key: &[(&str, &str)]| -> Vec<String> {
        let own = key.iter().filter(|pair| several && !common.contains(*pair) && !pair.0.is_empty());
        own.map(|(key, value)| super::text::shortened(&format!("{key} = {value}"), 60)).collect()
    };
    let (mut sets, mut contrasts) = (Vec::new(), Vec::new());
    for (key, members) in by_key {
        let settings: Vec<&RunFile> = members.iter().map(|group| config(*group)).collect();
        let settings = super::group::differing(settings.into_iter());
        let settings = settings.into_iter().filter(|key| !is_of(key, &SAME) && !is_of(key, &TREATMENT));
        let mut set = Set {
            what: what(&key),
            baseline: None,
            alternatives: Vec::new(),
            settings: settings.collect(),
            groups: members,
        };
        let matching = Matching { runs, groups, set: &set, named };
        let (chosen, found) = matching.contrasts();
        set.baseline = chosen.map(|group| groups[group].label.clone());
        let others =
            set.groups.iter().filter(|group| groups[**group].is_unquantized && Some(**group) != chosen);
        set.alternatives = others.map(|group| groups[*group].label.clone()).collect();
        contrasts.extend(found);
        sets.push(set);
    }
    sets.sort_by_key(|set| std::cmp::Reverse(set.groups.len()));
    (sets, contrasts)
}

/// Gives runs whose run files name the same data the fingerprint of their tokens as a key, if these differ: a file may
/// have changed between two runs. A run that does not record the fingerprint is then in a set of its own.
pub(super) fn tell_data_apart(runs: &mut [Run]) {
    runs.iter_mut().for_each(|run| run.config.set_fingerprint(None));
    let mut known: BTreeMap<Keys<'_>, BTreeSet<&str>> = BTreeMap::new();
    for run in runs.iter() {
        let fingerprints = known.entry(keys(&run.config, &["data."], true)).or_default();
        fingerprints.extend(run.status.data_fingerprint.as_deref());
    }
    let several = |run: &Run| known[&keys(&run.config, &["data."], true)].len() > 1;
    let several: Vec<bool> = runs.iter().map(several).collect();
    for (run, _) in runs.iter_mut().zip(several).filter(|(_, several)| *several) {
        run.config.set_fingerprint(run.status.data_fingerprint.as_deref());
    }
}

/// True if two runs record different data.
pub(super) fn have_other_data(run: Option<&Status>, other: Option<&Status>) -> bool {
    let data = run
        .zip(other)
        .and_then(|(run, other)| run.data_fingerprint.as_ref().zip(other.data_fingerprint.as_ref()));
    data.is_some_and(|(run, other)| run != other)
}

/// The keys that must be equal for losses to be compared, with their values.
pub(super) fn set_keys(config: &RunFile) -> Vec<(&str, &str)> {
    keys(config, &SAME, true)
}

/// True if the second is the unquantized run of the first one's seed, and differs only in rounding.
pub(super) fn are_twins(run: &RunFile, other: &RunFile) -> bool {
    let rounded = TREATMENT
        .iter()
        .filter(|key| !["optimizer.name", "train.precision"].contains(key))
        .copied()
        .collect::<Vec<_>>();
    run.is_quantized()
        && !other.is_empty()
        && !other.is_quantized()
        && run.get("run.seed") == other.get("run.seed")
        && keys(run, &rounded, false) == keys(other, &rounded, false)
}

fn keys<'a>(config: &'a RunFile, prefixes: &[&str], of: bool) -> Vec<(&'a str, &'a str)> {
    config.differences().filter(|(key, _)| is_of(key, prefixes) == of).collect()
}

/// A treatment's or a setting's keys.
type Keys<'a> = Vec<(&'a str, &'a str)>;

/// The pairing of a set's treatments.
struct Matching<'a> {
    runs: &'a [Run],
    groups: &'a [Group],
    set: &'a Set,
    named: Option<usize>,
}

impl<'a> Matching<'a> {
    fn config(&self, group: usize) -> &'a RunFile {
        &self.runs[self.groups[group].runs[0]].config
    }

    fn treatment(&self, group: usize) -> Keys<'a> {
        keys(self.config(group), &TREATMENT, true)
    }

    fn setting(&self, group: usize) -> Keys<'a> {
        let of_others = [&SAME[..], &TREATMENT[..]].concat();
        keys(self.config(group), &of_others, false)
    }

    /// The one with the lowest mean final loss, those with lost runs last.
    fn best(&self, groups: &[usize]) -> Option<usize> {
        let rank = |group: usize| {
            let runs = &self.groups[group].runs;
            let losses: Vec<f64> =
                runs.iter().filter_map(|run| Some(self.runs[*run].final_loss()?.loss)).collect();
            let mean = losses.iter().sum::<f64>() / losses.len() as f64;
            (losses.len() < runs.len(), if losses.is_empty() { f64::INFINITY } else { mean })
        };
        let by_rank = |a: &usize, b: &usize| {
            let (a, b) = (rank(*a), rank(*b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        };
        groups.iter().copied().min_by(by_rank)
    }

    /// The baseline of most configurations, and a contrast for each of the others.
    fn contrasts(&self) -> (Option<usize>, Vec<Contrast>) {
        let named = self.named.filter(|named| self.set.groups.contains(named));
        let mut treatments: BTreeMap<Keys<'a>, Vec<usize>> = BTreeMap::new();
        self.set.groups.iter().for_each(|group| {
            treatments.entry(self.treatment(*group)).or_default().push(*group);
        });
        let mut contrasts = Vec::new();
        for (treatment, members) in &treatments {
            let Some(baselines) = self.baselines(&treatments, members[0], named) else { continue };
            let own = *treatment == self.treatment(baselines[0]);
            let Some((group, baseline, basis)) = self.pair(members, &baselines) else { continue };
            contrasts.extend(members.iter().filter(|member| **member != baseline).map(|member| Contrast {
                group: *member,
                baseline,
                basis: if *member == group { basis } else { self.basis(*member, baseline) },
                is_tested: *member == group && !own,
            }));
        }
        let mut count: BTreeMap<usize, usize> = BTreeMap::new();
        contrasts.iter().for_each(|contrast| *count.entry(contrast.baseline).or_default() += 1);
        let most = count.into_iter().max_by_key(|(group, count)| (*count, std::cmp::Reverse(*group)));
        let alone = || self.best(&self.unquantized(|_| true));
        (named.or(most.map(|(group, _)| group)).or_else(alone), contrasts)
    }

    /// Unquantized configurations: those in fp32 if there are any.
    fn unquantized(&self, is_wanted: impl Fn(&Group) -> bool) -> Vec<usize> {
        let of = |is_fp32: bool| -> Vec<usize> {
            let is = |group: &&usize| {
                let group = &self.groups[**group];
                group.is_unquantized && is_wanted(group) && (group.format == "fp32" || !is_fp32)
            };
            self.set.groups.iter().filter(is).copied().collect()
        };
        Some(of(true)).filter(|found| !found.is_empty()).unwrap_or_else(|| of(false))
    }

    /// The treatment with which another is compared.
    fn baselines(
        &self,
        treatments: &BTreeMap<Keys<'a>, Vec<usize>>,
        member: usize,
        named: Option<usize>,
    ) -> Option<Vec<usize>> {
        if let Some(named) = named {
            return Some(vec![named]);
        }
        let optimizer = &self.groups[member].optimizer;
        let candidates = [
            self.unquantized(|group| group.optimizer == *optimizer),
            self.unquantized(|group| group.optimizer.as_deref() == Some("adamw")),
            self.unquantized(|_| true),
        ];
        let first = candidates.into_iter().find(|found| !found.is_empty())?;
        // Of several treatments, such as fp32 with loss scaling, that of the best.
        treatments.get(&self.treatment(self.best(&first)?)).cloned()
    }

    /// Configurations of a treatment that are compared with those of another.
    fn pair(&self, members: &[usize], baselines: &[usize]) -> Option<(usize, usize, Basis)> {
        let settings = |groups: &[usize]| -> BTreeSet<Keys<'a>> {
            groups.iter().map(|group| self.setting(*group)).collect()
        };
        let shared = &settings(members) & &settings(baselines);
        let at = |groups: &[usize]| -> Vec<usize> {
            groups.iter().copied().filter(|group| shared.contains(&self.setting(*group))).collect()
        };
        Some(match shared.len() {
            0 => (self.best(members)?, self.best(baselines)?, Basis::OwnBest),
            1 => (*at(members).first()?, *at(baselines).first()?, Basis::SameSetting),
            count => (self.best(&at(members))?, self.best(&at(baselines))?, Basis::BestOf(count)),
        })
    }

    /// The comparison with the baseline of a configuration that is not its treatment's best.
    fn basis(&self, member: usize, baseline: usize) -> Basis {
        match self.setting(member) == self.setting(baseline) {
            true => Basis::SameSetting,
            false => Basis::OwnBest,
        }
    }
}
