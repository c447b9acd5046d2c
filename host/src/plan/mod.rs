//! The plan: a run file, loaded plugins and opened data made into a run that can start.
//!
//! The last place that says no: after it, only the machine can fail. It writes nothing.

mod computed;
mod groups;
mod quant;

use std::{collections::BTreeSet, path::Path, time::Duration};

use crate::{
    config::{RunConfig, Source},
    data::{Batches, Corpus, tokenizer::Tokenizer},
    device::ComputeDevice,
    diagnostic::Diagnostic,
    memory,
    metrics::{self, MetricId, MetricSetup, update_metrics::UpdateMetrics},
    model::{Gpt, GptShape, Layout, Params, params, weights},
    plugins::{
        Registry, SinkPlugin,
        instance::{KeyedDiagnostic, OptionTable},
    },
    quant::Quant,
    sinks::SinkSetup,
    train::{Trainer, schedule::Schedule, update::OptimizerRun},
};

/// A run, ready to start.
pub struct Plan {
    /// The resolved run file.
    pub config: RunConfig,
    /// The loaded libraries.
    pub registry: Registry,
    /// Absolute paths of the libraries this run uses.
    pub used: BTreeSet<String>,
    /// Where tensors live.
    pub device: ComputeDevice,
    /// Batches of the corpus.
    pub batches: Batches,
    /// Parameters, quantizer and optimizer.
    pub trainer: Trainer,
    /// Learning rates.
    pub schedule: Schedule,
    /// Sinks, not opened.
    pub sinks: Vec<SinkSetup>,
    /// Metrics a row may carry.
    pub metrics: Vec<MetricId>,
    /// Measures parameters.
    pub meter: UpdateMetrics,
}

impl Plan {
    /// Checks a run against everything it needs, but for the folder it will be written to.
    ///
    /// # Errors
    /// The first thing that does not fit, with its position in the run file.
    pub fn new(mut config: RunConfig, source: &Source) -> Result<Self, Diagnostic> {
        let device =
            ComputeDevice::open(config.run.device).map_err(|error| error.at(source.locate("run.device")))?;
        let registry = Registry::open(&config.plugins)?;
        for refusal in registry.refused() {
            tracing::warn!("{}: {}", refusal.place.as_deref().unwrap_or_default(), refusal.message);
        }
        let placed = |(key, error): KeyedDiagnostic| place(error, source, &key);
        let sinks = make_sinks(&registry, &config).map_err(placed)?;
        let corpus = Corpus::open(&config.data).map_err(|error| place(error, source, "data.dataset"))?;
        // The resolved file says the tokenizer, so that weights can be used without the corpus.
        config.data.tokenizer = corpus.tokenizer.choice().unwrap_or(config.data.tokenizer);
        if let Tokenizer::Char(characters) = &corpus.tokenizer {
            config.data.alphabet = Some(characters.iter().collect());
        }
        let shape = GptShape::new(&config.model, config.data.block_size, corpus.tokenizer.vocab());
        memory::check(&config, &shape, &device).map_err(|error| place(error, source, "model"))?;
        let layout = Layout::new(&shape);
        let optimizer = groups::groups(&config.optimizer, &registry, &layout).map_err(placed)?;
        let quant = quant::quant(&config, &registry, &device, &layout).map_err(placed)?;
        let metrics =
            metrics::names(&MetricSetup::new(&layout, &quant, config.metrics, config.shadow.every > 0));
        let formats = quant.sites().iter().map(|site| &site.format.plugin().identity);
        let identities =
            sinks.iter().map(|sink| &sink.plugin.identity).chain(formats).chain([optimizer.identity()]);
        let used = identities.map(|identity| identity.library.clone()).collect();
        let meter = UpdateMetrics::new(config.metrics, layout.specs.len());
        let optimizer = OptimizerRun::new(optimizer, &layout)?;
        #[cfg(feature = "gpu")]
        let optimizer = optimizer.on_device(&device, &quant, &layout)?;
        let params =
            starting_params(&config, layout, &device).map_err(|error| place(error, source, "model.init"))?;
        let seed = config.run.seed;
        let gpt = Gpt { shape, gelu: config.model.gelu };
        let dropout = config.model.dropout;
        let mut trainer = Trainer { gpt, params, quant, optimizer, dropout, seed, torn: false };
        trainer.settle();
        let batches = Batches::new(corpus, seed, config.data.batch_size, config.data.block_size);
        let schedule = Schedule::new(&config.train);
        Ok(Self { config, registry, used, device, batches, trainer, schedule, sinks, metrics, meter })
    }

    /// Training tokens of one step.
    #[must_use]
    pub fn tokens_per_step(&self) -> u64 {
        (self.config.train.grad_accum * self.config.data.batch_size * self.config.data.block_size) as u64
    }

    /// The run in a few lines, for people.
    #[must_use]
    pub fn summary(&self) -> String {
        let corpus = self.batches.corpus();
        let quant = self.trainer.quant.summary();
        format!(
            "{}: {} parameters, {}, optimizer {}, device {}\ndata: {}, {} training and {} validation tokens",
            self.config.run.name,
            self.trainer.params.layout.elements(),
            quant,
            self.config.optimizer.name,
            self.device.label,
            corpus.description,
            corpus.train.len(),
            corpus.val.len(),
        )
    }
}

/// Says where in the run file: beside the place the error brings itself (a library, a file).
fn place(mut error: Diagnostic, source: &Source, key: &str) -> Diagnostic {
    let position = source.locate(key);
    error.place = Some(match error.place.take() {
        Some(own) if own != position => format!("{position} ({own})"),
        _ => position,
    });
    error
}

fn make_sinks(registry: &Registry, config: &RunConfig) -> Result<Vec<SinkSetup>, KeyedDiagnostic> {
    let sinks = config.sink.iter().enumerate().map(|(index, sink)| {
        let key = format!("sink.{index}");
        let table = OptionTable { key: &key, values: &sink.settings };
        let mut plugin = SinkPlugin::make(registry, &sink.name, table)?;
        if config.sink.iter().filter(|other| other.name == sink.name).count() > 1 {
            // Of several of a kind, messages say which.
            plugin.identity.name = format!("{} ({key})", sink.name);
        }
        Ok(SinkSetup { plugin, queue: sink.queue, deadline: Duration::from_secs_f64(sink.deadline_s) })
    });
    sinks.collect()
}

/// The rounding that a run file asks for, for a use of its weights other than training.
///
/// # Errors
/// A format is unknown or refused, or a pattern matches nothing, with its position in the run file.
pub fn rounding(
    config: &RunConfig,
    source: &Source,
    registry: &Registry,
    device: &ComputeDevice,
    layout: &Layout,
) -> Result<Quant, Diagnostic> {
    quant::quant(config, registry, device, layout).map_err(|(key, error)| place(error, source, &key))
}

fn starting_params(config: &RunConfig, layout: Layout, device: &ComputeDevice) -> Result<Params, Diagnostic> {
    match &config.model.init {
        None => Ok(Params::init(layout, config.run.seed, &device.tensors)),
        Some(file) => {
            let values = weights::read(Path::new(file), &layout)?;
            let values = values.into_iter().map(|values| params::flat(values, &device.tensors)).collect();
            Ok(Params { layout, values })
        }
    }
}
