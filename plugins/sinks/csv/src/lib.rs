//! Metrics as CSV, readable right after the step.
//!
//! | file | a row is | columns |
//! |---|---|---|
//! | `metrics.csv` | a step | `step`, then a metric each |
//! | `layers.csv` | a value of a layer | `step`, `layer`, `metric` (`quant/weight/sqnr_db`, `grad_norm_l2`), `value` |
//! | `timings.csv` | a step | `step`, then what measures the machine (times, rates, memory) |
//! | `histograms.csv` | a distribution | `step`, `layer`, `name`, `edges`, `counts`; the last two are lists |
//!
//! Timings have a separate file, because the other files must be identical in equal runs. Values of layers have a row
//! each, because most metrics exist in some layers and steps only: a column each would be mostly empty. In
//! `metrics.csv` and `timings.csv` a missing value is an empty cell; NaN is `NaN` in all files. A distribution has no
//! edges where they are those of the row above with its name. Metrics that come late get their column then, at the
//! right. A resumed run keeps the rows of the steps before it, and repeats none; a checkpoint holds how many there are
//! and their sum, and missing or changed rows are reported when the run resumes. Refuses paths that leave the run
//! folder, and metrics called `step`. Alerts are in the host's `events.jsonl`. The file is in `file.rs`, its columns in
//! `table.rs`, distributions in `histograms.rs`.

use std::path::{Path, PathBuf};

use altgrad_plugin_api::{
    Config, Descriptor, ErrorKind, Histogram, Metric, MetricName, OptionSpec, PluginError, RunInfo,
    RunOutcome, Sink,
};

mod file;
mod histograms;
mod kept;
mod table;
#[cfg(test)]
mod tests;

use file::{CsvFile, Resume, STEP};
use histograms::Histograms;
use kept::Kept;
use table::{Table, cell};

/// Columns of the file of layers.
const LAYER_COLUMNS: [&str; 4] = [STEP, "layer", "metric", "value"];

/// The options that name files.
const FILES: [OptionSpec; 4] = [
    OptionSpec::text("path", "metrics.csv")
        .help("File of the reproducible metrics, relative to the run folder"),
    OptionSpec::text("layers_path", "layers.csv")
        .help("File of the metrics by layer, relative to the run folder"),
    OptionSpec::text("timings_path", "timings.csv")
        .help("File of what measures the machine, relative to the run folder"),
    OptionSpec::text("histograms_path", "histograms.csv")
        .help("File of the distributions, relative to the run folder"),
];

/// The sink: the paths of its files, in the order of `FILES`, and the files of an open run.
#[derive(Debug)]
pub struct CsvSink {
    paths: [PathBuf; 4],
    histograms: bool,
    open: Option<Tables>,
}

#[derive(Debug)]
struct Tables {
    metrics: Table,
    layers: CsvFile,
    timings: Table,
    histograms: Option<Histograms>,
}

/// The table of a metric.
#[derive(PartialEq, Eq)]
enum Place<'a> {
    Metrics(&'a str),
    Layers(&'a str, &'a str),
    Timings(&'a str),
}

fn place<'a>(name: &MetricName<'a>) -> Place<'a> {
    match name.by_layer() {
        _ if name.timing => Place::Timings(name.name.as_str()),
        Some((statistic, layer)) => Place::Layers(statistic, layer),
        None => Place::Metrics(name.name.as_str()),
    }
}

impl CsvSink {
    fn tables(&mut self) -> Result<&mut Tables, PluginError> {
        self.open.as_mut().ok_or_else(|| PluginError::new(ErrorKind::OTHER, "the csv sink is not open"))
    }

    /// The open files, in the order of `FILES`.
    fn files(&mut self) -> Result<Vec<&mut CsvFile>, PluginError> {
        let Tables { metrics, layers, timings, histograms } = self.tables()?;
        let histograms = histograms.as_mut().map(Histograms::file);
        Ok([metrics.file(), layers, timings.file()].into_iter().chain(histograms).collect())
    }

    fn remove_later_rows(&mut self) -> Result<(), PluginError> {
        self.files()?.into_iter().try_for_each(CsvFile::remove_later_rows)
    }

    fn sync(&mut self) -> Result<(), PluginError> {
        self.files()?.into_iter().try_for_each(|file| file.sync())
    }

    /// The checkpoint's record of each file, in the order of `FILES`; none for a file under another path.
    fn kept(&self, state: &str) -> [Option<Kept>; 4] {
        let mut lines = state.lines();
        std::array::from_fn(|file| {
            let (kept, path) = lines.next()?.split_once('\t')?;
            if path == self.shown_path(file) { Kept::from_line(kept) } else { None }
        })
    }

    /// A path on one line.
    fn shown_path(&self, file: usize) -> String {
        self.paths[file].to_string_lossy().escape_debug().to_string()
    }
}

impl Sink for CsvSink {
    const DESCRIPTOR: Descriptor =
        Descriptor::sink("csv", env!("CARGO_PKG_VERSION"), "Rows in CSV files of the run folder").options(&[
            FILES[0],
            FILES[1],
            FILES[2],
            FILES[3],
            OptionSpec::bool("histograms", true).help("Whether distributions are written"),
        ]);

    fn new(config: &Config) -> Result<Self, PluginError> {
        let mut paths: [PathBuf; 4] = Default::default();
        for (index, option) in FILES.iter().map(|option| option.name.as_str()).enumerate() {
            let path = config.path_inside(option)?;
            if path.as_os_str().is_empty() {
                let text = config.text(option)?;
                return Err(PluginError::config(format!("`{option}` must name a file, found `{text}`")));
            }
            if let Some(other) = paths[..index].iter().position(|other| *other == path) {
                let (one, path) = (FILES[other].name, path.display());
                return Err(PluginError::config(format!(
                    "`{one}` and `{option}` are the same file, `{path}`"
                )));
            }
            paths[index] = path;
        }
        Ok(Self { paths, histograms: config.bool("histograms")?, open: None })
    }

    fn open(&mut self, run: &RunInfo<'_>) -> Result<(), PluginError> {
        let resume_step = run.resume_step.into_option();
        let kept = self.kept(std::str::from_utf8(run.state.as_slice()).unwrap_or_default());
        let resume = |file: usize| resume_step.map(|step| Resume { step, kept: kept[file].as_ref() });
        let [metrics, layers, timings, histograms] =
            [0, 1, 2, 3].map(|file: usize| Path::new(run.folder.as_str()).join(&self.paths[file]));
        let table = |path, resume, column: fn(Place<'_>) -> Option<&str>| {
            let columns = run.metrics.as_slice().iter().filter_map(|name| column(place(name)));
            Table::open(path, columns, resume)
        };
        self.open = Some(Tables {
            metrics: table(metrics, resume(0), |place| match place {
                Place::Metrics(name) => Some(name),
                _ => None,
            })?,
            layers: CsvFile::open_fixed(layers, &LAYER_COLUMNS, resume(1))?,
            timings: table(timings, resume(2), |place| match place {
                Place::Timings(name) => Some(name),
                _ => None,
            })?,
            histograms: self.histograms.then(|| Histograms::open(histograms, resume(3))).transpose()?,
        });
        let gaps: Vec<String> =
            self.files()?.into_iter().filter_map(|file| file.gap().map(str::to_string)).collect();
        if gaps.is_empty() {
            return Ok(());
        }
        // The host calls again.
        self.open = None;
        Err(PluginError::new(ErrorKind::GAP, gaps.join("; ")))
    }

    fn log(&mut self, step: u64, metrics: &[Metric<'_>]) -> Result<(), PluginError> {
        let (mut values, mut times, mut layers) = (Vec::new(), Vec::new(), Vec::new());
        for metric in metrics {
            match place(&metric.name) {
                Place::Metrics(name) => values.push((name, metric.value)),
                Place::Timings(name) => times.push((name, metric.value)),
                Place::Layers(statistic, layer) => layers.push(vec![
                    step.to_string(),
                    layer.to_string(),
                    statistic.to_string(),
                    cell(metric.value),
                ]),
            }
        }
        let tables = self.tables()?;
        tables.metrics.append(step, &values)?;
        tables.layers.append(step, &layers)?;
        tables.timings.append(step, &times)?;
        // After the rows, so that a file that also gets a column is replaced once.
        self.remove_later_rows()
    }

    fn histogram(&mut self, step: u64, histogram: &Histogram<'_>) -> Result<(), PluginError> {
        let Some(file) = &mut self.tables()?.histograms else { return Ok(()) };
        file.append(step, histogram)
    }

    fn state(&mut self) -> Result<Vec<u8>, PluginError> {
        // Rows that a checkpoint relies on must survive a crash of the machine as the checkpoint does, and later ones
        // must not.
        self.remove_later_rows()?;
        self.sync()?;
        let kept: Vec<String> = self.files()?.into_iter().map(|file| file.kept().to_line()).collect();
        let line = |(file, kept): (usize, &String)| format!("{kept}\t{}\n", self.shown_path(file));
        Ok(kept.iter().enumerate().map(line).collect::<String>().into_bytes())
    }

    fn finish(&mut self, outcome: RunOutcome) -> Result<(), PluginError> {
        // A run that fails before its first row keeps the rows of earlier processes.
        if outcome != RunOutcome::FAILED {
            self.remove_later_rows()?;
        }
        self.sync()?;
        self.open = None;
        Ok(())
    }
}

altgrad_plugin_api::export_plugin!(sink CsvSink);
