//! The subject of the checks: a sink as a descriptor and a constructor of instances, with a scratch folder whose
//! files are inspected.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fmt, fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use altgrad_plugin_api::{
    Alert, AlertLevel, Config, ConfigValue, Descriptor, Histogram, Metric, MetricName, PluginError, RunInfo,
    RunOutcome, Sink, StoredValue,
    abi::{
        SinkObject,
        stable::std_types::{RSlice, RVec},
    },
    adapters,
};
use tempfile::TempDir;

use crate::{
    CheckResult,
    subject::{Given, said},
};

/// Values by step and name of the metric.
pub(crate) type Stored = BTreeMap<(u64, String), Vec<f64>>;

/// The constructor of a sink, as the host has it.
type Make = dyn Fn(&Config) -> Result<SinkObject, PluginError> + Send + Sync;

/// A sink.
pub struct SinkSubject {
    descriptor: Descriptor,
    /// Options that are not the defaults.
    pub(super) given: Given,
    config: Config,
    make: Arc<Make>,
    /// The first seed of random checks.
    pub(crate) seed: u64,
}

/// Implemented by hand: a constructor has no `Debug`.
impl fmt::Debug for SinkSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SinkSubject").field("id", &self.descriptor.id).finish_non_exhaustive()
    }
}

impl SinkSubject {
    /// The sink that `make` makes, with these options; random checks begin with `seed`.
    ///
    /// # Errors
    /// There is no such option, or the value is not allowed.
    pub fn new(
        descriptor: Descriptor,
        options: impl IntoIterator<Item = (String, ConfigValue)>,
        seed: u64,
        make: impl Fn(&Config) -> Result<SinkObject, PluginError> + Send + Sync + 'static,
    ) -> Result<Self, String> {
        let config = Config::resolve(&descriptor.options, [])
            .map_err(|fault| format!("the default of `{}` {}", fault.key, fault.message))?;
        Self { descriptor, given: Vec::new(), config, make: Arc::new(make), seed }.with_options(options)
    }

    /// The same with these options beside those that it has.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_options(
        &self,
        options: impl IntoIterator<Item = (String, ConfigValue)>,
    ) -> Result<Self, String> {
        let given: Given = self.given.iter().cloned().chain(options).collect();
        let config = Config::resolve(&self.descriptor.options, given.clone())
            .map_err(|fault| format!("option `{}` {}", fault.key, fault.message))?;
        Ok(Self { given, config, make: self.make.clone(), ..*self })
    }

    /// Makes an instance and drops it.
    ///
    /// # Errors
    /// The plugin's own error.
    pub fn try_out(&self) -> Result<(), PluginError> {
        self.try_instance().map(drop)
    }

    /// A sink type of this crate with its default options.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of<T: Sink>() -> Result<Self, String> {
        Self::new(T::DESCRIPTOR, [], 0, adapters::sink_object::<T>)
    }

    /// The plugin's descriptor.
    #[must_use]
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    pub(crate) fn make(&self, config: &Config) -> Result<SinkObject, PluginError> {
        (self.make)(config)
    }

    /// A new instance; the error is the plugin's.
    pub(crate) fn try_instance(&self) -> Result<Instance, PluginError> {
        Ok(Instance { object: self.make(&self.config)? })
    }

    /// A new instance.
    pub(crate) fn instance(&self) -> Result<Instance, String> {
        self.try_instance().map_err(|error| said("new", &error))
    }

    /// The values that a run folder holds, by step and name, if the sink reads them.
    pub(crate) fn stored(&self, folder: &Path) -> Result<Option<Stored>, String> {
        let sink = self.instance()?;
        let read = sink.object.read_back(folder.display().to_string().as_str().into()).into_result();
        let read = read.map_err(|error| said("read_back", &error))?.into_option();
        Ok(read.map(|values| {
            let mut stored = Stored::new();
            for StoredValue { step, name, value } in values {
                stored.entry((step, name.into())).or_default().push(value);
            }
            stored
        }))
    }

    /// A new scratch folder with a run folder.
    pub(crate) fn scratch(&self) -> Result<Scratch, String> {
        Scratch::new().map_err(|error| format!("no scratch folder can be made ({error})"))
    }

    /// A new instance, opened for a fresh run in that scratch folder.
    pub(crate) fn opened(&self, scratch: &Scratch) -> Result<Instance, String> {
        let mut sink = self.instance()?;
        sink.open(&scratch.run(), None, &[])?;
        Ok(sink)
    }
}

/// An instance, called with plain values; every error is one sentence.
pub(crate) struct Instance {
    object: SinkObject,
}

/// The result of a call.
type Called<T = ()> = Result<T, String>;

/// Metrics every run of the suite announces; rows may have others.
pub(crate) const ANNOUNCED: [(&str, bool); 4] = [
    ("train/loss", false),
    ("grad_norm_l2/h.0.attn.c_attn.weight", false),
    ("quant/weight/sqnr_db/h.0.attn.c_attn.weight", false),
    ("time/step_ms", true),
];

fn names<'a>(names: &[(&'a str, bool)]) -> Vec<MetricName<'a>> {
    names.iter().map(|&(name, timing)| MetricName { name: name.into(), timing }).collect()
}

/// Refuses rows that a host never sends.
fn unique(row: &[(&str, f64)]) -> Called {
    let mut names = BTreeSet::new();
    match row.iter().find(|(name, _)| !names.insert(*name)) {
        Some((name, _)) => Err(format!("the suite itself repeats the name {name:.40?} in a row")),
        None => Ok(()),
    }
}

impl Instance {
    /// The object that crosses, for calls whose errors matter.
    pub(crate) fn object(&mut self) -> &mut SinkObject {
        &mut self.object
    }

    pub(crate) fn open(&mut self, folder: &Path, resume_step: Option<u64>, state: &[u8]) -> Called {
        self.try_open(folder, resume_step, state).map_err(|error| match resume_step {
            None => said("open", &error),
            Some(step) => format!("resuming at step {step}: {}", said("open", &error)),
        })
    }

    pub(crate) fn try_open(
        &mut self,
        folder: &Path,
        resume_step: Option<u64>,
        state: &[u8],
    ) -> Result<(), PluginError> {
        let (folder, metrics) = (folder.display().to_string(), names(&ANNOUNCED));
        let run = RunInfo {
            name: "check".into(),
            folder: folder.as_str().into(),
            config_toml: "[run]\nname = \"check\"\nseed = 1337\n".into(),
            metrics: metrics.as_slice().into(),
            resume_step: resume_step.into(),
            state: state.into(),
        };
        self.object.open(&run).into_result()
    }

    /// Names within a row are unique, as the contract requires.
    pub(crate) fn log(&mut self, step: u64, row: &[(&str, f64)]) -> Called {
        unique(row)?;
        let row: Vec<Metric<'_>> = row
            .iter()
            .map(|&(name, value)| Metric {
                name: MetricName { name: name.into(), timing: name.starts_with("time/") },
                value,
            })
            .collect();
        let logged = self.object.log(step, RSlice::from_slice(&row)).into_result();
        logged.map_err(|error| format!("step {step}: {}", said("log", &error)))
    }

    pub(crate) fn histogram(&mut self, step: u64, name: &str, edges: &[f64], counts: &[u64]) -> Called {
        let histogram = Histogram { name: name.into(), edges: edges.into(), counts: counts.into() };
        let taken = self.object.histogram(step, &histogram).into_result();
        taken.map_err(|error| format!("step {step}: {}", said("histogram", &error)))
    }

    pub(crate) fn alert(&mut self, step: u64, level: AlertLevel, kind: &str, text: &str) -> Called {
        let alert = Alert { step, level, kind: kind.into(), text: text.into() };
        let taken = self.object.alert(&alert).into_result();
        taken.map_err(|error| format!("step {step}: {}", said("alert", &error)))
    }

    pub(crate) fn state(&mut self) -> Called<Vec<u8>> {
        self.object.state().map(RVec::into_vec).into_result().map_err(|error| said("state", &error))
    }

    pub(crate) fn summary(&mut self, values: &[(&str, f64)]) -> Called {
        unique(values)?;
        let values: Vec<Metric<'_>> = values
            .iter()
            .map(|&(name, value)| Metric { name: MetricName { name: name.into(), timing: false }, value })
            .collect();
        let taken = self.object.summary(RSlice::from_slice(&values)).into_result();
        taken.map_err(|error| said("summary", &error))
    }

    pub(crate) fn finish(&mut self, outcome: RunOutcome) -> Called {
        self.object.finish(outcome).into_result().map_err(|error| said("finish", &error))
    }
}

/// A folder with a run folder and something beside it, and the initial content of it and of the working folder.
pub(crate) struct Scratch {
    folder: TempDir,
    here: BTreeSet<PathBuf>,
}

/// Files beside the run folder, which must not change.
const BESIDE: (&str, &str) = ("beside.txt", "not yours");

impl Scratch {
    fn new() -> std::io::Result<Self> {
        let folder = tempfile::tempdir()?;
        fs::create_dir(folder.path().join("run"))?;
        fs::write(folder.path().join(BESIDE.0), BESIDE.1)?;
        Ok(Self { folder, here: listing(&env::current_dir()?)? })
    }

    /// The run folder.
    pub(crate) fn run(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    /// A folder without a run.
    pub(crate) fn nowhere(&self) -> PathBuf {
        self.folder.path().join("run/nowhere")
    }

    /// The verdict of a check that has finished with the folder: it fails if anything was written outside the
    /// run folder.
    pub(crate) fn closed(&self, outcome: CheckResult) -> CheckResult {
        let verdict = outcome?;
        let look = || -> std::io::Result<Option<String>> {
            for name in fs::read_dir(self.folder.path())?.map(|entry| entry.map(|entry| entry.file_name())) {
                let name = name?;
                if name != "run" && name != BESIDE.0 {
                    return Ok(Some(format!("it wrote {name:?} beside the run folder")));
                }
            }
            if fs::read_to_string(self.folder.path().join(BESIDE.0))? != BESIDE.1 {
                return Ok(Some("it changed a file beside the run folder".into()));
            }
            let new = listing(&env::current_dir()?)?.into_iter().find(|path| !self.here.contains(path));
            Ok(new.map(|path| format!("it wrote `{}`, outside the run folder", path.display())))
        };
        match look() {
            Ok(None) => Ok(verdict),
            Ok(Some(fault)) => Err(fault),
            Err(error) => Err(format!("the scratch folder is gone ({error})")),
        }
    }
}

/// The paths in a folder.
fn listing(folder: &Path) -> std::io::Result<BTreeSet<PathBuf>> {
    fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect()
}
