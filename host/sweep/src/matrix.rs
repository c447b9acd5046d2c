//! The matrix file: a base run file, axes and exclusions; read and checked as far as possible without plugins.
//!
//! Its tables are read in `axes`. `[axes]` holds lists of values under dotted keys of the run file, and lists of tables
//! under names of their own: entries whose keys change together. What the combinations are: `combine`. What rates are
//! tried: `[tune]` and `[stable]`, in `rates`.

use std::path::{Path, PathBuf};

use altgrad_base::diagnostic::Diagnostic;
use altgrad_config::Source;
use altgrad_run_folder::record::ComparisonChoice;
use serde::Deserialize;
use toml::Table;

use super::{
    axes::{self, Assignment, Axis, Exclusion, is_plain},
    rates::{StableSection, TuneSection},
};
/// The name of the file in messages.
const WHAT: &str = "matrix file";
/// A hint for refusals without one.
const EXAMPLE: &str = "configs/matrix.toml is a matrix file that works";
/// Keys that the sweep itself sets.
const OWN: [&str; 2] = ["run.name", "run.out"];

/// The file as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// The run file that everything is set over, relative to this file's folder.
    base: Option<String>,
    /// Name of the sweep and its folder. Default: this file's name without `.toml`.
    name: Option<String>,
    /// Folder of the sweep's folder, relative to this file's folder. Default: the base's `run.out`.
    out: Option<String>,
    /// Keys set in every run.
    #[serde(default)]
    set: Table,
    /// The axes; the last varies fastest.
    #[serde(default)]
    axes: Table,
    /// Combinations that are left out: all that have the values of an entry.
    #[serde(default)]
    exclude: Vec<Table>,
    /// The learning rate for each format and optimizer, found by trials.
    tune: Option<TuneSection>,
    /// Up to which rate each format and optimizer trains, found by trials.
    stable: Option<StableSection>,
    /// The comparison that `compare` and `report` make.
    compare: Option<ComparisonChoice>,
}

/// A matrix file, in range.
#[derive(Debug)]
pub struct SweepMatrix {
    pub(super) source: Source,
    /// The base run file.
    pub base: PathBuf,
    /// Name of the sweep.
    pub name: String,
    /// Folder of the sweep's folder, if the file has one.
    pub out: Option<PathBuf>,
    pub(super) set: Vec<Assignment>,
    pub(super) axes: Vec<Axis>,
    pub(super) exclude: Vec<Exclusion>,
    /// `[tune]`.
    pub tune: Option<TuneSection>,
    /// `[stable]`.
    pub stable: Option<StableSection>,
    /// `[compare]`.
    pub compare: Option<ComparisonChoice>,
}

impl SweepMatrix {
    /// Reads a matrix file.
    ///
    /// # Errors
    /// A fault in the file, at its line and column.
    pub fn read(path: &Path) -> Result<Self, Diagnostic> {
        Self::checked(path).map_err(|error| error.hint(EXAMPLE))
    }

    fn checked(path: &Path) -> Result<Self, Diagnostic> {
        let (file, source): (File, Source) = altgrad_config::read_as(path, WHAT)?;
        let base = file.base.filter(|base| !base.is_empty()).ok_or_else(|| {
            Diagnostic::config("the matrix names no base run file")
                .at(path.display())
                .hint("add base = \"exp.toml\", relative to this file's folder")
        })?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let base = folder.join(base);
        let stem = || path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_string();
        let name = file.name.unwrap_or_else(stem);
        if name.is_empty() || !name.chars().all(is_plain) || name.starts_with('.') {
            let message = format!("`name` must be letters, digits, `.`, `_`, `+` or `-`, found {name:?}");
            return Err(Diagnostic::config(message)
                .at(source.locate("name"))
                .hint("it becomes a folder; without it, the file's own name is taken"));
        }
        let set = axes::leaves(&file.set, "set", &source);
        let axes = axes::axes(&file.axes, &source)?;
        let exclude = axes::exclusions(&file.exclude, &axes, &source)?;
        let matrix = Self {
            source,
            base,
            name,
            out: file.out.map(|out| folder.join(out)),
            set,
            axes,
            exclude,
            tune: file.tune,
            stable: file.stable,
            compare: file.compare,
        };
        matrix.check_keys()?;
        let elsewhere = matrix.axes.iter().any(Axis::is_tuned);
        let tune = matrix.tune.as_ref().map(|tune| tune.check(elsewhere));
        let stable = matrix.stable.as_ref().map(StableSection::check);
        for rates in [tune, stable] {
            rates.transpose().map_err(|(key, error)| error.at(matrix.source.locate(key)))?;
        }
        matrix.check_tuned()?;
        matrix.check_margin()?;
        Ok(matrix)
    }

    /// Entries with tuning need `[tune]`, and of two axes only one may have it.
    fn check_tuned(&self) -> Result<(), Diagnostic> {
        let mut tuning = self.axes.iter().filter(|axis| axis.is_tuned());
        let Some(first) = tuning.next() else { return Ok(()) };
        let place = |axis: &Axis| self.source.locate(&format!("axes.{}", axis.name));
        if self.tune.is_none() {
            return Err(Diagnostic::config(format!(
                "entries of `{}` are tuned, but there is no [tune]",
                first.name
            ))
            .at(place(first))
            .hint("add a [tune] table"));
        }
        match tuning.next() {
            None => Ok(()),
            Some(second) => {
                let message = format!("`{}` and `{}` both have `tune`", first.name, second.name);
                Err(Diagnostic::config(message).at(place(second)).hint("only entries of one axis can"))
            }
        }
    }

    fn check_margin(&self) -> Result<(), Diagnostic> {
        let margin = self.compare.as_ref().and_then(|compare| compare.margin);
        match margin.filter(|margin| !ComparisonChoice::is_margin(*margin)) {
            None => Ok(()),
            Some(margin) => {
                Err(Diagnostic::config(format!("`margin` must lie between 0 and 1, found {margin}"))
                    .at(self.source.locate("compare.margin"))
                    .hint("it is a share of the baseline's loss: 0.1 is 10 %"))
            }
        }
    }

    /// The place where the matrix gives a key, or one that holds it or lies in it, a value; `None` if nowhere.
    pub(super) fn sets(&self, key: &str) -> Option<&str> {
        let points = self.axes.iter().flat_map(|axis| &axis.points).flat_map(|point| &point.sets);
        self.set.iter().chain(points).find(|other| overlap(&other.key, key)).map(|other| other.at.as_str())
    }

    /// No key is set twice, and none that the sweep sets.
    fn check_keys(&self) -> Result<(), Diagnostic> {
        for key in OWN {
            if let Some(at) = self.sets(key) {
                return Err(Diagnostic::config(format!("`{key}` is set by the sweep for each run"))
                    .at(self.source.locate(at))
                    .hint("remove the key; `name` and `out` of the matrix file set the folder"));
            }
        }
        // Entries of one axis may set the same keys: only one of them is used.
        let mut rooms: Vec<Vec<&Assignment>> = vec![self.set.iter().collect()];
        rooms.extend(self.axes.iter().map(|axis| axis.points.iter().flat_map(|point| &point.sets).collect()));
        for (index, room) in rooms.iter().enumerate() {
            for assignment in room {
                let earlier =
                    rooms[..index].iter().flatten().find(|other| overlap(&other.key, &assignment.key));
                if let Some(earlier) = earlier {
                    let message = format!("`{}` is set twice, also by `{}`", assignment.key, earlier.at);
                    return Err(Diagnostic::config(message)
                        .at(self.source.locate(&assignment.at))
                        .hint("keys that vary together belong into the entries of one axis: [[axes.NAME]]"));
                }
            }
        }
        Ok(())
    }
}

/// True if one key is the other or lies in it.
fn overlap(a: &str, b: &str) -> bool {
    let lies_in =
        |a: &str, b: &str| a.strip_prefix(b).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    lies_in(a, b) || lies_in(b, a)
}
