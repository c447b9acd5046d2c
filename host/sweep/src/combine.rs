//! From a matrix to its combinations, in order and with names, and from a combination to a checked run file.

use std::{collections::BTreeMap, path::Path};

use altgrad_base::diagnostic::Diagnostic;
use altgrad_config::{RunConfig, ScheduleChoice, Source};
use toml::Value;

use super::{
    axes::Assignment,
    matrix::SweepMatrix,
    names::{self, SEED},
    rates::{LR, to_digits},
};
/// Combinations a matrix may have: each is a folder.
const MOST: usize = 10_000;
/// The learning rate at the schedule's end.
const MIN_LR: &str = "train.min_lr";
/// Its digits: a product of rates has no more that mean anything.
const MIN_LR_DIGITS: usize = 9;
/// Bytes of the longest name of a run, so that it is a folder's name everywhere.
const LONGEST: usize = 200;

/// One run of the matrix.
#[derive(Debug, Clone)]
pub struct Combination {
    /// The run's name and folder.
    pub name: String,
    /// Its name without the seed: runs that differ in the seed share it.
    pub group: String,
    /// The part of each axis in the name, by the axis's name.
    pub parts: Vec<(String, String)>,
    /// The value of each axis, by the axis's name: a key's value, or an entry's label.
    pub values: Vec<(String, Value)>,
    /// The tuned key of the combination, and its values; none if it runs with the rate it has.
    pub tune: Option<(String, Vec<f64>)>,
    pub(super) sets: Vec<Assignment>,
}

impl Combination {
    /// The parts of its name without the seed's.
    fn parts_but_seed(&self) -> Vec<&str> {
        self.parts.iter().filter(|(axis, _)| axis != SEED).map(|(_, part)| part.as_str()).collect()
    }

    /// The keys of the run file that its axes set, with their values.
    pub(super) fn set_keys(&self) -> BTreeMap<String, Value> {
        self.sets.iter().map(|set| (set.key.clone(), set.value.clone())).collect()
    }
}

impl SweepMatrix {
    /// All combinations but those left out; the last axis varies fastest.
    ///
    /// # Errors
    /// There are no combinations or too many, two would share a folder, or an exclusion has no effect.
    pub fn combinations(&self) -> Result<Vec<Combination>, Diagnostic> {
        let file = self.source.path().display();
        let count = self.axes.iter().try_fold(1_usize, |count, axis| count.checked_mul(axis.points.len()));
        if count.is_none_or(|count| count > MOST) {
            let message = format!("the matrix has more than {MOST} combinations");
            return Err(Diagnostic::config(message).at(file).hint("split it into several, or vary less"));
        }
        let mut used = vec![false; self.exclude.len()];
        let mut found = Vec::new();
        for index in 0..count.unwrap_or_default() {
            let choice = self.choice(index);
            let excluded = self.excluded(&choice);
            excluded.iter().for_each(|exclusion| used[*exclusion] = true);
            if excluded.is_empty() {
                found.push(self.combination(&choice));
            }
        }
        if let Some(unused) = used.iter().position(|used| !used) {
            return Err(Diagnostic::config("the exclusion leaves nothing out")
                .at(self.source.locate(&self.exclude[unused].at))
                .hint("no combination has all of its values: remove it"));
        }
        if found.is_empty() {
            return Err(Diagnostic::config("the matrix leaves every combination out").at(file));
        }
        self.check_names(&found)?;
        Ok(found)
    }

    /// The index of each axis's point in a combination.
    fn choice(&self, mut index: usize) -> Vec<usize> {
        let mut choice = vec![0; self.axes.len()];
        for (chosen, axis) in choice.iter_mut().zip(&self.axes).rev() {
            *chosen = index % axis.points.len();
            index /= axis.points.len();
        }
        choice
    }

    /// The exclusions that a combination meets.
    fn excluded(&self, choice: &[usize]) -> Vec<usize> {
        let value = |name: &str| {
            let position = self.axes.iter().position(|axis| axis.name == name)?;
            Some(&self.axes[position].points[choice[position]].value)
        };
        let meets = |conditions: &[(String, Vec<Value>)]| {
            conditions.iter().all(|(name, values)| value(name).is_some_and(|value| values.contains(value)))
        };
        let met = self.exclude.iter().enumerate().filter(|(_, exclusion)| meets(&exclusion.conditions));
        met.map(|(index, _)| index).collect()
    }

    fn combination(&self, choice: &[usize]) -> Combination {
        let points = || self.axes.iter().zip(choice).map(|(axis, index)| (axis, &axis.points[*index]));
        let parts: Vec<(String, String)> = points()
            .map(|(axis, point)| (axis.name.clone(), names::part(axis, &point.value, &self.axes)))
            .collect();
        let values = points().map(|(axis, point)| (axis.name.clone(), point.value.clone())).collect();
        let joined = |seeds: bool, otherwise: &str| {
            let wanted = parts.iter().filter(|(axis, _)| seeds || axis != SEED);
            let name = wanted.map(|(_, part)| part.as_str()).collect::<Vec<_>>().join("_");
            if name.is_empty() { otherwise.to_string() } else { name }
        };
        let sets = points().flat_map(|(_, point)| point.sets.iter().cloned()).collect();
        let tune = points().find_map(|(_, point)| point.tune.as_ref()).or(self.tune.as_ref());
        let tune = tune.map(|tune| (tune.key.clone(), tune.grid())).filter(|(_, grid)| !grid.is_empty());
        let (name, group) = (joined(true, &self.name), joined(false, &self.name));
        Combination { name, group, tune, sets, parts, values }
    }

    fn check_names(&self, combinations: &[Combination]) -> Result<(), Diagnostic> {
        let file = self.source.path().display();
        let mut seen: BTreeMap<String, &Combination> = BTreeMap::new();
        let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        let has_trials = self.tune.is_some() || self.stable.is_some();
        for combination in combinations {
            let name = &combination.name;
            let empty = combination.parts.iter().find(|(_, part)| part.is_empty());
            if let Some((axis, _)) = empty {
                return Err(Diagnostic::config(format!("a value of the axis `{axis}` gives no name"))
                    .at(self.source.locate(&format!("axes.{axis}")))
                    .hint("make it an axis of [[axes.NAME]] entries, each with a label"));
            }
            if name.len() > LONGEST {
                return Err(Diagnostic::config(format!("the name {name:?} is longer than {LONGEST} bytes"))
                    .at(file)
                    .hint("give long values shorter names: [[axes.NAME]] entries with a label"));
            }
            // Some file systems take names of different case as one.
            if seen.insert(name.to_lowercase(), combination).is_some() {
                return Err(Diagnostic::config(format!(
                    "two combinations would share the run folder {name:?}"
                ))
                .at(file)
                .hint("values need different names: use [[axes.NAME]] entries, each with a label"));
            }
            let parts = combination.parts_but_seed();
            if has_trials && *groups.entry(combination.group.to_lowercase()).or_insert(parts.clone()) != parts
            {
                let group = &combination.group;
                return Err(Diagnostic::config(format!(
                    "two combinations would share the trials of {group:?}"
                ))
                .at(file)
                .hint("without the seed their names are equal: give [[axes.NAME]] entries other labels"));
            }
        }
        Ok(())
    }

    /// The run file of a combination with `more` keys set, resolved, written below `out` under `name`.
    ///
    /// # Errors
    /// An invalid run file, at its place in the matrix or the base.
    pub fn resolve(
        &self,
        combination: &Combination,
        more: &[(String, Value)],
        out: &Path,
        name: &str,
    ) -> Result<(RunConfig, Source), Diagnostic> {
        let out = out.to_str().ok_or_else(|| {
            Diagnostic::config("the sweep's folder is not UTF-8").at(out.display()).hint("use `--out DIR`")
        })?;
        let text = |text: &str| Value::String(text.to_string());
        let own = [("run.out".to_string(), text(out)), ("run.name".to_string(), text(name))];
        let folder = self.source.path().parent().unwrap_or(Path::new(""));
        let written = self.set.iter().chain(&combination.sets);
        let written =
            written.map(|set| (&set.key, altgrad_config::from_folder(folder, &set.key, &set.value)));
        let all = written.chain(more.iter().chain(&own).map(|(key, value)| (key, value.clone())));
        let overrides: Vec<String> = all.map(|(key, value)| format!("{key}={value}")).collect();
        altgrad_config::load(&self.base, &overrides).map_err(|error| self.placed(combination, error))
    }

    /// The same error with the place in the matrix file that set the key, and the run.
    pub(super) fn placed(&self, combination: &Combination, mut error: Diagnostic) -> Diagnostic {
        let place = error.place.take().unwrap_or_default();
        let set = self.set.iter().chain(&combination.sets).find(|set| {
            place.strip_prefix("--set ").is_some_and(|said| {
                said.strip_prefix(set.key.as_str()).is_some_and(|rest| rest.starts_with('='))
            })
        });
        let place = set.map_or(place, |set| self.source.locate(&set.at));
        error.place = Some(format!("{place} (run {})", combination.name));
        error
    }

    /// The keys that give a combination the rate `value` under `key`. `train.min_lr` stays the fraction of `train.lr`
    /// that it is in the combination, unless the matrix sets it there or the schedule is constant, which has none.
    ///
    /// # Errors
    /// The combination itself does not load.
    pub fn with_rate(
        &self,
        combination: &Combination,
        key: &str,
        value: f64,
    ) -> Result<Vec<(String, Value)>, Diagnostic> {
        let mut sets = vec![(key.to_string(), Value::Float(value))];
        let written = self.set.iter().chain(&combination.sets).any(|set| set.key == MIN_LR);
        if key == LR && !written {
            let (config, _) = self.resolve(combination, &[], Path::new("."), &combination.name)?;
            if config.train.schedule != ScheduleChoice::Constant {
                let fraction = config.train.min_lr / config.train.lr;
                sets.push((MIN_LR.to_string(), Value::Float(to_digits(value * fraction, MIN_LR_DIGITS))));
            }
        }
        Ok(sets)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Two axes of labels with `_`, and the seed between them: all names differ, and without their seeds two are equal.
    #[test]
    fn combinations_of_other_values_do_not_share_trials() {
        let entry = |axis: &str, label: &str| format!("[[axes.{axis}]]\nlabel = {label:?}\n");
        let axes = [entry("a", "x_y"), entry("a", "x"), "[axes]\nrun.seed = [1]\n".into()];
        let axes = [axes.concat(), entry("b", "z"), entry("b", "y_z")].concat();
        let folder = tempfile::tempdir().unwrap();
        let combinations = |trials: &str| {
            let path = folder.path().join("m.toml");
            std::fs::write(&path, format!("base = \"base.toml\"\n{trials}{axes}")).unwrap();
            SweepMatrix::read(&path).unwrap().combinations()
        };
        let names: Vec<String> = combinations("").unwrap().into_iter().map(|run| run.name).collect();
        assert_eq!(names, ["x_y_s1_z", "x_y_s1_y_z", "x_s1_z", "x_s1_y_z"]);
        let refused = combinations("[stable]\n").unwrap_err();
        assert_eq!(refused.message, "two combinations would share the trials of \"x_y_z\"");
    }
}
