//! Metrics for TensorBoard: `tensorboard --logdir runs` shows every run, while it runs.
//!
//! Scalars, distributions, alerts (as texts `alerts/KIND`) and the run file (text `config`, and hyperparameters for the
//! page HPARAMS) go to an event file in the run folder, each row in it when `log` returns. Scalars are f32 there, as
//! TensorBoard's own are: `metrics.csv` has all bits. A resumed run begins a new file that tells TensorBoard to forget
//! steps which come again, so that a viewer that is open stays right too. A resume that fails before its first row
//! leaves no file. Of the sessions of a resumed run, the page HPARAMS shows the first start and the first end:
//! hyperparameters changed by a resume are not shown there, and only a completed run writes an end. What TensorBoard
//! calls `min` and `max` of a distribution are the outer edges of its outermost bins that hold something; sums are
//! taken from the middles of the bins. Closing values are scalars at the last step. The file is in `file.rs`, its
//! messages in `proto.rs`, hyperparameters in `hparams.rs`.

use std::path::{Path, PathBuf};

use altgrad_plugin_api::{
    Alert, Config, Descriptor, ErrorKind, Histogram, Metric, OptionSpec, PluginError, RunInfo, RunOutcome,
    Sink,
};

mod file;
mod hparams;
mod proto;
#[cfg(test)]
mod tests;

use file::{EventFile, now, record};
use proto::{
    Content, DataClass, DataType, Dim, Event, Metadata, PluginData, Summary, Tensor, TensorShape, Value, What,
};

/// The sink: the path of its files, and the file of an open run.
#[derive(Debug)]
pub struct TensorBoard {
    folder: PathBuf,
    histograms: bool,
    file: Option<EventFile>,
    /// The last step that came.
    step: u64,
}

/// A value without a plugin of TensorBoard's to be named: scalars and distributions are known by their type.
fn value(tag: &str, content: Content) -> Value {
    Value { tag: tag.into(), metadata: None, content: Some(content) }
}

/// A text, which TensorBoard shows as Markdown.
fn text(tag: &str, text: &str) -> Value {
    let plugin_data = Some(PluginData { plugin_name: "text".into(), content: Vec::new() });
    let tensor_shape = Some(TensorShape { dim: vec![Dim { size: 1 }] });
    let string_val = vec![text.as_bytes().to_vec()];
    let tensor = Tensor { dtype: DataType::String.into(), tensor_shape, string_val, float_val: Vec::new() };
    let metadata = Some(Metadata { plugin_data, data_class: DataClass::Tensor.into() });
    Value { metadata, ..value(tag, Content::Tensor(tensor)) }
}

fn scalars(metrics: &[Metric<'_>]) -> Vec<Value> {
    metrics
        .iter()
        .map(|metric| value(metric.name.name.as_str(), Content::Scalar(metric.value as f32)))
        .collect()
}

fn distribution(histogram: &Histogram<'_>) -> proto::Histogram {
    let (edges, counts) = (histogram.edges.as_slice(), histogram.counts.as_slice());
    let bins = || edges.windows(2).zip(counts).filter(|(_, count)| **count > 0);
    let moment = |power| bins().map(|(bin, &count)| count as f64 * middle(bin).powi(power)).sum();
    proto::Histogram {
        min: bins().next().map_or(f64::NAN, |(bin, _)| bin[0]),
        max: bins().next_back().map_or(f64::NAN, |(bin, _)| bin[1]),
        num: counts.iter().map(|&count| count as f64).sum(),
        sum: moment(1),
        sum_squares: moment(2),
        bucket_limit: edges.get(1..).unwrap_or_default().to_vec(),
        bucket: counts.iter().map(|&count| count as f64).collect(),
    }
}

/// The middle of a bin; of one without an end, its other edge.
fn middle(bin: &[f64]) -> f64 {
    match (bin[0].is_finite(), bin[1].is_finite()) {
        (true, true) => 0.5 * bin[0] + 0.5 * bin[1],
        (true, false) => bin[0],
        _ => bin[1],
    }
}

impl TensorBoard {
    /// Writes the values of tags at a step.
    fn write(&mut self, step: u64, value: Vec<Value>) -> Result<(), PluginError> {
        self.file()?.append(&summary(step, value))
    }

    /// The file, its header written.
    fn write_header(&mut self) -> Result<&mut EventFile, PluginError> {
        let file = self.file()?;
        file.append(&[])?;
        Ok(file)
    }

    fn file(&mut self) -> Result<&mut EventFile, PluginError> {
        self.file
            .as_mut()
            .ok_or_else(|| PluginError::new(ErrorKind::OTHER, "the tensorboard sink is not open"))
    }
}

/// The values of tags at a step as a record.
fn summary(step: u64, value: Vec<Value>) -> Vec<u8> {
    let what = Some(What::Summary(Summary { value }));
    record(&Event { wall_time: now(), step: signed(step), what })
}

/// A step as TensorBoard has it.
fn signed(step: u64) -> i64 {
    i64::try_from(step).unwrap_or(i64::MAX)
}

impl Sink for TensorBoard {
    const DESCRIPTOR: Descriptor =
        Descriptor::sink("tensorboard", env!("CARGO_PKG_VERSION"), "An event file for TensorBoard").options(
            &[
                OptionSpec::text("folder", ".").help("Folder of the event files, relative to the run folder"),
                OptionSpec::bool("histograms", true).help("Whether distributions are written"),
            ],
        );

    fn new(config: &Config) -> Result<Self, PluginError> {
        let (folder, histograms) = (config.path_inside("folder")?, config.bool("histograms")?);
        Ok(Self { folder, histograms, file: None, step: 0 })
    }

    fn open(&mut self, run: &RunInfo<'_>) -> Result<(), PluginError> {
        let first_step = run.resume_step.into_option().unwrap_or(0);
        let folder = Path::new(run.folder.as_str()).join(&self.folder);
        let mut file = EventFile::begin(&folder, signed(first_step))?;
        // Indented, TOML is shown as it is.
        let config: Vec<String> =
            run.config_toml.as_str().lines().map(|line| format!("    {line}\n")).collect();
        let hparams = hparams::start(run.config_toml.as_str());
        file.add_to_header(&summary(first_step, vec![text("config", &config.concat()), hparams]));
        (self.file, self.step) = (Some(file), first_step);
        Ok(())
    }

    fn log(&mut self, step: u64, metrics: &[Metric<'_>]) -> Result<(), PluginError> {
        self.step = step;
        self.write(step, scalars(metrics))
    }

    fn histogram(&mut self, step: u64, histogram: &Histogram<'_>) -> Result<(), PluginError> {
        if !self.histograms {
            return Ok(());
        }
        let content = Content::Histogram(distribution(histogram));
        self.write(step, vec![value(histogram.name.as_str(), content)])
    }

    fn alert(&mut self, alert: &Alert<'_>) -> Result<(), PluginError> {
        let said =
            text(&format!("alerts/{}", alert.kind), &format!("{}: {}", alert.level.name(), alert.text));
        self.write(alert.step, vec![said])
    }

    fn state(&mut self) -> Result<Vec<u8>, PluginError> {
        // The state is empty, but rows that the checkpoint relies on must survive a crash of the machine as the
        // checkpoint does, and steps that come again must not.
        self.write_header()?.sync()?;
        Ok(Vec::new())
    }

    fn summary(&mut self, metrics: &[Metric<'_>]) -> Result<(), PluginError> {
        self.write(self.step, scalars(metrics))
    }

    fn finish(&mut self, outcome: RunOutcome) -> Result<(), PluginError> {
        // A run that fails before its first row leaves readers the steps of earlier processes.
        if outcome == RunOutcome::FAILED && self.file()?.is_empty() {
            return self.file.take().map_or(Ok(()), EventFile::remove);
        }
        if outcome == RunOutcome::COMPLETED {
            self.write(self.step, vec![hparams::end()])?;
        }
        self.write_header()?.sync()?;
        self.file = None;
        Ok(())
    }
}

altgrad_plugin_api::export_plugin!(sink TensorBoard);
