//! Metrics as CSV: one row a step, readable right after the step.
//!
//! Two files, because equal runs must give an equal `metrics.csv` bit for bit: what measures the machine (times,
//! rates, memory) goes to `timings.csv`. Both begin with the column `step` and have one for each metric; a missing
//! value is an empty cell, NaN is `NaN`. Refuses paths that leave the run folder and a metric called `step`.
//! Histograms and alerts are left to other sinks. The file itself is in `table.rs`.

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

use altgrad_plugin_api::{
    Config, Descriptor, ErrorKind, Metric, OptionSpec, PluginError, RunInfo, RunOutcome, Sink,
};

mod table;
#[cfg(test)]
mod tests;

use table::Table;

/// The sink: where its files are, and the files of an open run.
#[derive(Debug)]
pub struct CsvSink {
    metrics_path: PathBuf,
    timings_path: PathBuf,
    open: Option<Tables>,
}

#[derive(Debug)]
struct Tables {
    metrics: Table,
    timings: Table,
}

/// The file an option names, relative to the run folder.
fn inside_path(config: &Config, option: &str) -> Result<PathBuf, PluginError> {
    let text = config.text(option)?;
    let fault = |what: &str| Err(PluginError::config(format!("`{option}` {what}, is `{text}`")));
    let mut path = PathBuf::new();
    for component in Path::new(text).components() {
        match component {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            _ => return fault("must stay inside the run folder: no absolute path, no `..`"),
        }
    }
    if path.as_os_str().is_empty() { fault("must name a file") } else { Ok(path) }
}

impl CsvSink {
    fn tables(&mut self) -> Result<&mut Tables, PluginError> {
        self.open.as_mut().ok_or_else(|| PluginError::new(ErrorKind::OTHER, "the csv sink is not open"))
    }
}

impl Sink for CsvSink {
    fn descriptor() -> Descriptor {
        Descriptor::sink("csv", env!("CARGO_PKG_VERSION"), "One row a step in CSV files of the run folder")
            .option(
                OptionSpec::text("path", "metrics.csv")
                    .help("File of the reproducible metrics, relative to the run folder"),
            )
            .option(
                OptionSpec::text("timings_path", "timings.csv")
                    .help("File of what measures the machine, relative to the run folder; not the same file"),
            )
    }

    fn new(config: &Config) -> Result<Self, PluginError> {
        let (metrics_path, timings_path) =
            (inside_path(config, "path")?, inside_path(config, "timings_path")?);
        if metrics_path == timings_path {
            let message =
                format!("`path` and `timings_path` are the same file, `{}`", metrics_path.display());
            return Err(PluginError::config(message)
                .with_hint("timings differ between equal runs, so they have a file of their own"));
        }
        Ok(Self { metrics_path, timings_path, open: None })
    }

    fn open(&mut self, run: &RunInfo<'_>) -> Result<(), PluginError> {
        let table = |path: &Path, timing: bool| {
            let path = Path::new(run.folder.as_str()).join(path);
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder).map_err(|error| table::io_error(folder, &error))?;
            }
            let metrics = run.metrics.as_slice().iter().filter(|metric| metric.timing == timing);
            Table::open(path, metrics.map(|metric| metric.name.as_str()), run.resume_step.into_option())
        };
        self.open = Some(Tables {
            metrics: table(&self.metrics_path, false)?,
            timings: table(&self.timings_path, true)?,
        });
        Ok(())
    }

    fn log(&mut self, step: u64, metrics: &[Metric<'_>]) -> Result<(), PluginError> {
        let tables = self.tables()?;
        let part = |timing: bool| {
            let metrics = metrics.iter().filter(move |metric| metric.name.timing == timing);
            metrics.map(|metric| (metric.name.name.as_str(), metric.value))
        };
        tables.metrics.append(step, part(false))?;
        tables.timings.append(step, part(true))
    }

    fn finish(&mut self, _: RunOutcome) -> Result<(), PluginError> {
        // Every row was flushed when it came.
        self.open.take();
        Ok(())
    }
}

altgrad_plugin_api::export_plugin!(sink CsvSink);
