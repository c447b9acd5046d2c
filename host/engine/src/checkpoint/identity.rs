//! The identity of a run: its run file, data, plugins and machine; and its differences from the run that wrote a
//! checkpoint.
//!
//! Keys that may change: names and paths (`run.name`, `run.out`, `plugins`, the path of the data), `sink`,
//! `checkpoint`, `alerts`, `limits`, and the length of the run, if the learning rates of completed steps stay the same.
//! Any other change makes it a different run.

use std::collections::BTreeSet;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_config::TrainSection;
use altgrad_loader::instance::Identity as PluginIdentity;
use altgrad_run_folder::record::{Difference, differences, dotted_values};
use toml::Table;

use super::{
    read::Checkpoint,
    state::{CorpusRecord, PluginRecord},
};
use crate::setup::{RunSetup, Schedule};

/// Keys and sections that a resumed run may change. The device, data and schedule are compared by their values.
const FREE: [&str; 13] = [
    "run.name",
    "run.out",
    "run.device",
    "plugins",
    "data.dataset",
    "model.preset",
    "model.init",
    "quant.from_recipe",
    "alerts",
    "checkpoint",
    "limits",
    "sink",
    "train.max_steps",
];
/// Keys that matter only through the learning rates that they determine.
const SCHEDULE: [&str; 2] = ["train.decay_steps", "train.cooldown_steps"];

/// The identity of a run.
#[derive(Debug, Clone)]
pub struct RunIdentity {
    pub(super) host_version: String,
    pub(super) device: String,
    pub(super) threads: usize,
    pub(super) seed: u64,
    pub(super) grad_accum: u64,
    pub(super) optimizer: String,
    pub(super) data: CorpusRecord,
    pub(super) plugins: Vec<PluginRecord>,
    pub(super) config_toml: String,
    pub(super) train: TrainSection,
}

impl RunIdentity {
    /// The identity of a run. Reads all tokens.
    ///
    /// # Errors
    /// The run file cannot be written as text, or the data cannot be read.
    pub fn of(setup: &RunSetup) -> Result<Self, Diagnostic> {
        let plugins: BTreeSet<PluginRecord> =
            setup.plugins.iter().map(|identity| plugin(setup, identity)).collect();
        let corpus = setup.batches.corpus();
        let data =
            CorpusRecord { description: corpus.description.clone(), fingerprint: corpus.fingerprint()? };
        Ok(Self {
            host_version: env!("CARGO_PKG_VERSION").to_string(),
            device: setup.device.label.clone(),
            threads: rayon::current_num_threads(),
            seed: setup.config.run.seed,
            grad_accum: setup.config.train.grad_accum as u64,
            optimizer: setup.config.optimizer.name.clone(),
            data,
            plugins: plugins.into_iter().collect(),
            config_toml: setup.config.to_toml()?,
            train: setup.config.train.clone(),
        })
    }

    /// The training data.
    #[must_use]
    pub fn data(&self) -> &CorpusRecord {
        &self.data
    }

    /// Differences that make it a different run from the one that wrote the checkpoint.
    ///
    /// # Errors
    /// The run file cannot be read back.
    pub fn differences(&self, checkpoint: &Checkpoint) -> Result<Vec<Difference>, Diagnostic> {
        let own: Table = toml::from_str(&self.config_toml)
            .map_err(|error| Diagnostic::run(format!("the resolved run file cannot be read ({error})")))?;
        let state = &checkpoint.state;
        let mut found = config_differences(&checkpoint.config, &own);
        found.extend(self.schedule_difference(checkpoint));
        let mut compare = |key: &str, was: &str, is: &str| {
            if was != is {
                found.push(Difference { key: key.into(), was: was.into(), is: is.into() });
            }
        };
        compare("run.device", &state.device, &self.device);
        let data = |data: &CorpusRecord| {
            format!("{} with the fingerprint {:.12}", data.description, data.fingerprint)
        };
        if state.data.fingerprint != self.data.fingerprint {
            compare("data.dataset", &data(&state.data), &data(&self.data));
        }
        for plugin in self.plugins.iter().filter(|plugin| plugin.kind != "sink") {
            let same = |other: &&PluginRecord| other.kind == plugin.kind && other.name == plugin.name;
            if let Some(was) = state.plugin.iter().find(same).filter(|was| *was != plugin) {
                let said = |plugin: &PluginRecord| {
                    format!("version {}, sha256 {:.12}", plugin.version, plugin.sha256)
                };
                compare(&format!("{} plugin {}", plugin.kind, plugin.name), &said(was), &said(plugin));
            }
        }
        Ok(found)
    }

    /// Differences that do not make it a different run, but may change the last bits of results.
    #[must_use]
    pub fn remarks(&self, checkpoint: &Checkpoint) -> Vec<Difference> {
        let state = &checkpoint.state;
        let pairs = [
            ("threads", state.threads.to_string(), self.threads.to_string()),
            ("version of altgrad-host", state.host_version.clone(), self.host_version.clone()),
        ];
        let changed = pairs.into_iter().filter(|(_, was, is)| was != is);
        changed.map(|(key, was, is)| Difference { key: key.into(), was, is }).collect()
    }

    /// The key that changes the learning rate of a completed step, if there is one.
    fn schedule_difference(&self, checkpoint: &Checkpoint) -> Option<Difference> {
        let train: TrainSection = checkpoint.config.get("train")?.clone().try_into().ok()?;
        let (was, is) = (Schedule::new(&train), Schedule::new(&self.train));
        let done = checkpoint.state.step.min(self.train.max_steps);
        let changed = (0..done).any(|step| was.lr(step) != is.lr(step));
        let own = toml::from_str(&self.config_toml).ok()?;
        let (was, is) = (dotted_values(&checkpoint.config), dotted_values(&own));
        let differ = |key: &&&str| was.get(**key) != is.get(**key);
        let keys = SCHEDULE.iter().chain(&["train.max_steps"]);
        let key = keys.clone().find(differ).filter(|_| changed)?;
        Some(Difference::of_key(key, was.get(*key), is.get(*key)))
    }
}

fn plugin(setup: &RunSetup, identity: &PluginIdentity) -> PluginRecord {
    let library =
        setup.registry.loaded().find(|library| library.path.display().to_string() == identity.library);
    PluginRecord {
        kind: identity.kind.to_string(),
        name: identity.name.clone(),
        version: identity.version.clone(),
        sha256: library.map(|library| library.sha256.clone()).unwrap_or_default(),
    }
}

/// The keys in which two resolved run files differ, except those in [`FREE`].
pub(super) fn config_differences(was: &Table, is: &Table) -> Vec<Difference> {
    let free = |key: &str| {
        let of = |free: &&str| {
            key.strip_prefix(*free).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        FREE.iter().chain(&SCHEDULE).any(of)
    };
    let mut found = differences(was, is);
    // An alert that changes casts is part of the training.
    let follows_alerts = |table: &Table| {
        let entries = table.get("quant").and_then(|quant| quant.get("schedule")?.as_array());
        entries.into_iter().flatten().any(|entry| entry.get("on").is_some())
    };
    let alerts_count = follows_alerts(was) || follows_alerts(is);
    let is_condition = |key: &str| key.starts_with("alerts.") && !key.ends_with("cooldown_s");
    found.retain(|Difference { key, .. }| !free(key) || alerts_count && is_condition(key));
    found
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_names_its_key_and_free_keys_have_none() {
        let was = "[run]\nname = 'a'\nseed = 1\n[train]\nlr = 0.1\nmax_steps = 5\n[optimizer]\nname = 'x'\n\
            [[optimizer.group]]\nmatch = 'a*'\nlr_scale = 1.0\n[[sink]]\nname = 'csv'\n[alerts]\npatience = 1";
        let rows = [
            ("name = 'a'", "name = 'b'", None),
            ("max_steps = 5", "max_steps = 9", None),
            ("name = 'csv'", "name = 'wandb'", None),
            ("patience = 1", "patience = 2", None),
            ("seed = 1", "seed = 2", Some("`run.seed` is 2, was 1")),
            ("lr = 0.1", "lr = 0.2", Some("`train.lr` is 0.2, was 0.1")),
            ("lr_scale = 1.0", "lr_scale = 0.5", Some("`optimizer.group.0.lr_scale` is 0.5, was 1.0")),
            ("name = 'x'", "name = 'x'\nbeta1 = 0.5", Some("`optimizer.beta1` is 0.5, was not set")),
        ];
        let table = |text: &str| -> Table { toml::from_str(text).unwrap() };
        for (old, new, expected) in rows {
            let found = config_differences(&table(was), &table(&was.replacen(old, new, 1)));
            let said: Vec<String> = found.iter().map(ToString::to_string).collect();
            assert_eq!(said, expected.into_iter().collect::<Vec<_>>(), "{new}");
        }
    }
}
