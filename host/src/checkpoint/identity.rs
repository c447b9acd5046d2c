//! Who a run is: its run file, data, plugins and machine; and how it differs from the one that wrote a checkpoint.
//!
//! What may change without a word: names and places (`run.name`, `run.out`, `plugins`, the path of the data), where
//! metrics go (`sink`), when checkpoints are made (`checkpoint`), what is worth an alert (`alerts`), how long the run is (as
//! long as the learning rates of the steps that are done stay the same). Everything else would make another run of it.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

use super::{
    read::Checkpoint,
    state::{Data, Difference, Plugin},
};
use crate::{
    config::TrainSection, diagnostic::Diagnostic, plan::Plan, plugins::instance::Identity as PluginIdentity,
    train::schedule::Schedule,
};

/// Keys, and sections, that a run may change when it goes on. The device, data and schedule are compared by what they are.
const FREE: [&str; 11] = [
    "run.name",
    "run.out",
    "run.device",
    "plugins",
    "data.dataset",
    "model.preset",
    "model.init",
    "alerts",
    "checkpoint",
    "sink",
    "train.max_steps",
];
/// Keys that only matter by the learning rates they make.
const SCHEDULE: [&str; 2] = ["train.decay_steps", "train.cooldown_steps"];
/// What is said of something that was not there.
const NOTHING: &str = "not set";

/// Who a run is.
#[derive(Debug, Clone)]
pub struct Identity {
    pub(super) host_version: String,
    pub(super) device: String,
    pub(super) threads: usize,
    pub(super) seed: u64,
    pub(super) grad_accum: u64,
    pub(super) optimizer: String,
    pub(super) data: Data,
    pub(super) plugins: Vec<Plugin>,
    pub(super) config_toml: String,
    train: TrainSection,
}

impl Identity {
    /// That of a plan. Reads all tokens.
    ///
    /// # Errors
    /// The run file cannot be written as text.
    pub fn of(plan: &Plan) -> Result<Self, Diagnostic> {
        let quant = &plan.trainer.quant;
        let formats = quant.sites().iter().map(|site| &site.format.plugin().identity);
        let used = formats
            .chain([plan.trainer.optimizer.identity()])
            .chain(plan.sinks.iter().map(|sink| &sink.plugin.identity));
        let plugins: BTreeSet<Plugin> = used.map(|identity| plugin(plan, identity)).collect();
        let corpus = plan.batches.corpus();
        Ok(Self {
            host_version: env!("CARGO_PKG_VERSION").to_string(),
            device: plan.device.label.clone(),
            threads: rayon::current_num_threads(),
            seed: plan.config.run.seed,
            grad_accum: plan.config.train.grad_accum as u64,
            optimizer: plan.config.optimizer.name.clone(),
            data: Data { description: corpus.description.clone(), fingerprint: corpus.fingerprint() },
            plugins: plugins.into_iter().collect(),
            config_toml: plan.config.to_toml()?,
            train: plan.config.train.clone(),
        })
    }

    /// Some run's.
    #[cfg(test)]
    pub(super) fn of_nobody() -> Self {
        Self {
            host_version: "0".into(),
            device: "cpu".into(),
            threads: 1,
            seed: 1,
            grad_accum: 2,
            optimizer: "adamw".into(),
            data: Data { description: "text".into(), fingerprint: "00".into() },
            plugins: Vec::new(),
            config_toml: "[train]\nmax_steps = 9\n".into(),
            train: TrainSection::default(),
        }
    }

    /// What makes it another run than the one that wrote the checkpoint.
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
        let data =
            |data: &Data| format!("{} with the fingerprint {:.12}", data.description, data.fingerprint);
        if state.data.fingerprint != self.data.fingerprint {
            compare("data.dataset", &data(&state.data), &data(&self.data));
        }
        for plugin in self.plugins.iter().filter(|plugin| plugin.kind != "sink") {
            let same = |other: &&Plugin| other.kind == plugin.kind && other.name == plugin.name;
            if let Some(was) = state.plugin.iter().find(same).filter(|was| *was != plugin) {
                let said =
                    |plugin: &Plugin| format!("version {}, sha256 {:.12}", plugin.version, plugin.sha256);
                compare(&format!("{} plugin {}", plugin.kind, plugin.name), &said(was), &said(plugin));
            }
        }
        Ok(found)
    }

    /// What does not make it another run, but may change its last bits.
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

    /// Whether some step that is done would have another learning rate now: the key at fault.
    fn schedule_difference(&self, checkpoint: &Checkpoint) -> Option<Difference> {
        let train: TrainSection = checkpoint.config.get("train")?.clone().try_into().ok()?;
        let (was, is) = (Schedule::new(&train), Schedule::new(&self.train));
        let done = checkpoint.state.step.min(self.train.max_steps);
        let changed = (0..done).any(|step| was.lr(step) != is.lr(step));
        let own = toml::from_str(&self.config_toml).ok()?;
        let (was, is) = (flat(&checkpoint.config), flat(&own));
        let differ = |key: &&&str| was.get(**key) != is.get(**key);
        let keys = SCHEDULE.iter().chain(&["train.max_steps"]);
        let key = keys.clone().find(differ).filter(|_| changed)?;
        Some(difference(key, was.get(*key), is.get(*key)))
    }
}

fn plugin(plan: &Plan, identity: &PluginIdentity) -> Plugin {
    let library = plan
        .registry
        .libraries()
        .iter()
        .find(|library| library.path.display().to_string() == identity.library);
    Plugin {
        kind: identity.kind.to_string(),
        name: identity.name.clone(),
        version: identity.version.clone(),
        sha256: library.map(|library| library.sha256.clone()).unwrap_or_default(),
    }
}

/// The keys in which two resolved run files differ, free ones left out.
pub(super) fn config_differences(was: &Table, is: &Table) -> Vec<Difference> {
    let free = |key: &str| {
        let of = |free: &&str| {
            key.strip_prefix(*free).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        FREE.iter().chain(&SCHEDULE).any(of)
    };
    let mut found = all_differences(was, is);
    found.retain(|difference| !free(&difference.key));
    found
}

/// The keys in which two resolved run files differ.
pub fn all_differences(was: &Table, is: &Table) -> Vec<Difference> {
    let (was, is) = (flat(was), flat(is));
    let keys: BTreeSet<&String> = was.keys().chain(is.keys()).collect();
    let differ = keys.into_iter().filter(|key| was.get(*key) != is.get(*key));
    differ.map(|key| difference(key, was.get(key), is.get(key))).collect()
}

fn difference(key: &str, was: Option<&Value>, is: Option<&Value>) -> Difference {
    let said = |value: Option<&Value>| value.map_or(NOTHING.to_string(), ToString::to_string);
    Difference { key: key.to_string(), was: said(was), is: said(is) }
}

/// Every value by its dotted key.
fn flat(table: &Table) -> BTreeMap<String, Value> {
    fn add(key: String, value: &Value, found: &mut BTreeMap<String, Value>) {
        let below = |name: &str| if key.is_empty() { name.to_string() } else { format!("{key}.{name}") };
        match value {
            Value::Table(table) => table.iter().for_each(|(name, value)| add(below(name), value, found)),
            Value::Array(values) if values.iter().any(Value::is_table) => {
                values
                    .iter()
                    .enumerate()
                    .for_each(|(index, value)| add(below(&index.to_string()), value, found));
            }
            value => drop(found.insert(key, value.clone())),
        }
    }
    let mut found = BTreeMap::new();
    table.iter().for_each(|(name, value)| add(name.clone(), value, &mut found));
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
