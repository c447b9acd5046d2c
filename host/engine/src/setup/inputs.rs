//! The libraries, sinks and data of a run. The resolved run file gets what it needs to be understood without them.

use std::time::Duration;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_config::{RunConfig, Source};
use altgrad_data::{Corpus, tokenizer::Tokenizer};
use altgrad_loader::{
    Registry, SinkPlugin,
    instance::{KeyedDiagnostic, OptionTable, option_table},
};
use altgrad_sinks::{FilterChoice, SinkSetup};

/// Opens the libraries, and warns of those that are refused.
pub(super) fn open_registry(config: &RunConfig) -> Result<Registry, Diagnostic> {
    let registry = Registry::open(&config.plugins)?;
    for refusal in registry.refused() {
        tracing::warn!("{}: {}", refusal.place.as_deref().unwrap_or_default(), refusal.message);
    }
    Ok(registry)
}

/// Makes the sinks, and adds all their options to the run file.
pub(super) fn make_sinks(
    registry: &Registry,
    config: &mut RunConfig,
) -> Result<Vec<SinkSetup>, KeyedDiagnostic> {
    let sinks = config.sink.iter().enumerate().map(|(index, sink)| {
        let key = format!("sink.{index}");
        let table = OptionTable { key: &key, values: &sink.settings };
        let mut plugin = SinkPlugin::make(registry, &sink.name, table)?;
        if config.sink.iter().filter(|other| other.name == sink.name).count() > 1 {
            // If there are several of a kind, messages name the key.
            plugin.identity.name = format!("{} ({key})", sink.name);
        }
        let filter = FilterChoice {
            include: sink.include.clone(),
            exclude: sink.exclude.clone(),
            every: sink.every,
            layers_every: sink.layers_every,
        };
        let deadline = Duration::from_secs_f64(sink.deadline_s);
        Ok(SinkSetup { plugin, queue: sink.queue, filter, deadline })
    });
    let sinks = sinks.collect::<Result<Vec<SinkSetup>, KeyedDiagnostic>>()?;
    for (section, sink) in config.sink.iter_mut().zip(&sinks) {
        section.settings = option_table(&sink.plugin.config);
    }
    Ok(sinks)
}

/// Opens the data, and adds their tokenizer to the run file, so that weights can be used without them.
pub(super) fn open_corpus(config: &mut RunConfig) -> Result<Corpus, Diagnostic> {
    let corpus = Corpus::open(&config.data)?;
    config.data.tokenizer = corpus.tokenizer.choice();
    if let Tokenizer::Char(characters) = &corpus.tokenizer {
        config.data.alphabet = Some(characters.iter().collect());
    }
    Ok(corpus)
}

/// Adds the position in the run file to the place that the error has (a library, a file): that of `key`, or of another
/// key that the message names and that is the one set.
pub(super) fn place(error: Diagnostic, source: &Source, key: &str) -> Diagnostic {
    let named = error.message.split('`').skip(1).step_by(2).filter(|name| source.is_written(name));
    let keys: Vec<&str> = [key].into_iter().chain(named).collect();
    let position = source.locate_first(&keys);
    at_position(error, position)
}

/// Puts a position before the place that the error has.
pub(super) fn at_position(mut error: Diagnostic, position: String) -> Diagnostic {
    error.place = Some(match error.place.take() {
        Some(own) if own != position => format!("{position} ({own})"),
        _ => position,
    });
    error
}
