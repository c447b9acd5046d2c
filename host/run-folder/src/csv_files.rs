//! The files that a run's csv sink writes: the run file may give them names of their own.

use std::path::{Component, Path, PathBuf};

use altgrad_base::files;
use toml::{Table, Value};

use crate::folder::CONFIG;

/// The name of the sink.
const CSV: &str = "csv";

/// The files of the csv sink, relative to the run folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsvFiles {
    /// A row per step.
    pub metrics: PathBuf,
    /// A row per value of a layer.
    pub layers: PathBuf,
    /// Times and rates, a row per step.
    pub timings: PathBuf,
    /// A row per distribution.
    pub histograms: PathBuf,
}

impl CsvFiles {
    /// The files that a run file's first csv sink names, else the default ones. A name that leaves the run folder does
    /// not count.
    #[must_use]
    pub fn of(config: &Table) -> Self {
        let mut sinks = config.get("sink").and_then(Value::as_array).into_iter().flatten();
        let csv = sinks.find(|sink| sink.get("name").and_then(Value::as_str) == Some(CSV));
        let file = |option: &str, default: &str| {
            let named = csv.and_then(|csv| csv.get(option)?.as_str()).filter(|name| is_inside(name));
            PathBuf::from(named.unwrap_or(default))
        };
        Self {
            metrics: file("path", "metrics.csv"),
            layers: file("layers_path", "layers.csv"),
            timings: file("timings_path", "timings.csv"),
            histograms: file("histograms_path", "histograms.csv"),
        }
    }

    /// The files of a run folder; the default ones without a run file.
    ///
    /// # Errors
    /// One sentence: the run file cannot be read.
    pub fn read(folder: &Path) -> Result<Self, String> {
        let bytes = files::read_if_exists(&folder.join(CONFIG));
        let Some(bytes) = bytes.map_err(|error| format!("`{CONFIG}`: {error}"))? else {
            return Ok(Self::default());
        };
        let text = String::from_utf8(bytes).map_err(|_| format!("`{CONFIG}`: it is not UTF-8 text"))?;
        let config =
            text.parse().map_err(|error: toml::de::Error| format!("`{CONFIG}`: {}", error.message()))?;
        Ok(Self::of(&config))
    }
}

impl Default for CsvFiles {
    fn default() -> Self {
        Self::of(&Table::new())
    }
}

/// True if a relative path stays in its folder.
fn is_inside(path: &str) -> bool {
    Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_first_csv_sink_names_the_files_inside_of_the_run_folder() {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join(CONFIG);
        assert_eq!(CsvFiles::read(folder.path()), Ok(CsvFiles::default()));
        let sinks = "[[sink]]\nname = \"wandb\"\npath = \"no.csv\"\n[[sink]]\nname = \"csv\"\npath = \"a/own.csv\"\n\
             layers_path = \"../l.csv\"\ntimings_path = \"/t.csv\"\n[[sink]]\nname = \"csv\"\npath = \"second.csv\"\n";
        fs::write(&config, sinks).unwrap();
        let files = CsvFiles::read(folder.path()).unwrap();
        assert_eq!(files, CsvFiles { metrics: "a/own.csv".into(), ..CsvFiles::default() });
        fs::write(&config, "[[sink]\n").unwrap();
        assert!(CsvFiles::read(folder.path()).unwrap_err().starts_with("`config.toml`: "));
    }
}
