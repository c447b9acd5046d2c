//! Building a run: all checks, opening of data, and initial parameters.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::Duration,
};

use altgrad_base::diagnostic::Diagnostic;
use altgrad_config::{LossScaleChoice, QuantSection, RunConfig, Source};
use altgrad_data::{Batches, Corpus, tokenizer::Tokenizer};
use altgrad_loader::{
    Registry, SinkPlugin,
    instance::{KeyedDiagnostic, OptionTable, option_table},
};
use altgrad_sinks::{FilterChoice, SinkSetup};
use wildmatch::WildMatch;

use super::{
    cast_schedule, computed, groups, observe, ready_run::ReadyRun, rounding, run_setup::RunSetup,
    scale_warning, schedule::Schedule,
};

use crate::{
    device::ComputeDevice,
    memory,
    metrics::{self, MetricId, MetricSetup, update_metrics::UpdateMetrics},
    model::{Gpt, GptShape, Layout, Params, weights},
    optimizer::OptimizerState,
    quant::{QuantContext, Role, Scaling, Site},
    state::{CastSchedule, LossScaler, TrainModel, TrainState},
    tensor,
};

impl ReadyRun {
    /// Checks a run against all its requirements except the folder to which it will be written.
    ///
    /// # Errors
    /// The first fault, with its position in the run file.
    pub fn build(mut config: RunConfig, source: &Source) -> Result<Self, Diagnostic> {
        let device =
            ComputeDevice::open(config.run.device).map_err(|error| error.at(source.locate("run.device")))?;
        let registry = Registry::open(&config.plugins)?;
        for refusal in registry.refused() {
            tracing::warn!("{}: {}", refusal.place.as_deref().unwrap_or_default(), refusal.message);
        }
        let placed = |(key, error): KeyedDiagnostic| place(error, source, &key);
        let sinks = make_sinks(&registry, &config).map_err(placed)?;
        // The resolved file has every option, so that a run can be understood without its plugins.
        for (section, sink) in config.sink.iter_mut().zip(&sinks) {
            section.settings = option_table(&sink.plugin.config);
        }
        let corpus = Corpus::open(&config.data).map_err(|error| place(error, source, "data.dataset"))?;
        // The resolved file has the tokenizer, so that weights can be used without the corpus.
        config.data.tokenizer = corpus.tokenizer.choice().unwrap_or(config.data.tokenizer);
        if let Tokenizer::Char(characters) = &corpus.tokenizer {
            config.data.alphabet = Some(characters.iter().collect());
        }
        let shape = GptShape::new(&config.model, config.data.block_size, corpus.tokenizer.vocab());
        let in_phases = config.quant.schedule.iter().map(|phase| cast_schedule::config_of(&config, phase));
        let memory = [config.clone()].into_iter().chain(in_phases).map(|config| {
            memory::check(&config, &shape, &device).map_err(|error| place(error, source, "model"))
        });
        // Before the model takes its part of what is available.
        let memory = memory.collect::<Result<Vec<_>, _>>()?;
        let memory = memory.into_iter().flatten().max_by(|a, b| a[0].total_cmp(&b[0]));
        let layout = Layout::new(&shape);
        let optimizer = groups::groups(&config.optimizer, &registry, &layout).map_err(placed)?;
        config.optimizer.settings = option_table(optimizer.config());
        let quant = rounding::quant(&config, &registry, &device, &layout).map_err(placed)?;
        let quant =
            quant.observing(observe::observation(&config, &registry, &device, &layout).map_err(placed)?);
        let phases = cast_schedule::phases(&config, source, &registry, &device, (&layout, &quant))?;
        if config.train.loss_scale == LossScaleChoice::Dynamic {
            [&quant].into_iter().chain(&phases).try_for_each(loss_scale_fits).map_err(placed)?;
        }
        let plugin = optimizer.identity().clone();
        let optimizer = OptimizerState::new(optimizer, &layout, &quant)?;
        let setups = [&quant].into_iter().chain(&phases).map(|quant| {
            MetricSetup::new(&layout, quant, config.metrics, config.shadow.every > 0)
                .with_grid_rules(optimizer.has_grid_rules(quant, &layout))
                .with_curvature(config.curvature.every > 0)
                .with_loss_scaling(config.train.loss_scale == LossScaleChoice::Dynamic)
        });
        let metrics = metrics::names(setups);
        warn_of_patterns(&config, &metrics);
        let rounded = [&quant].into_iter().chain(&phases).flat_map(|quant| quant.sites());
        for idle in idle_formats(&config.quant, &rounded.map(|site| site.role).collect()) {
            tracing::warn!("{idle}");
        }
        let sites = [&quant].into_iter().chain(&phases).flat_map(QuantContext::sites);
        let observed = quant.observation().into_iter().flat_map(|observation| observation.formats());
        let formats = sites.map(|site| &site.format).chain(observed);
        let formats = formats.map(|format| &format.plugin().identity);
        let identities = formats.chain([&plugin]).chain(sinks.iter().map(|sink| &sink.plugin.identity));
        let named = identities.map(|plugin| ((plugin.kind.to_string(), plugin.name.clone()), plugin.clone()));
        let plugins = named.collect::<BTreeMap<_, _>>().into_values().collect();
        let meter = UpdateMetrics::new(config.metrics, layout.specs.len(), config.run.seed);
        #[cfg(feature = "gpu")]
        let optimizer =
            phases.iter().try_fold(optimizer.on_device(&device, &quant, &layout)?, |optimizer, quant| {
                optimizer.also_on_device(&device, quant, &layout)
            })?;
        let params =
            starting_params(&config, layout, &device).map_err(|error| place(error, source, "model.init"))?;
        let scale_warning = scale_warning::warning(&quant, &params)?;
        let (seed, dropout) = (config.run.seed, config.model.dropout);
        let model = TrainModel {
            gpt: Gpt { shape, gelu: config.model.gelu },
            dropout,
            z_loss: config.train.z_loss,
            seed,
        };
        let batches = Batches::new(corpus, seed, config.data.batch_size, config.data.block_size);
        let schedule = Schedule::new(&config.train);
        let described = cast_schedule::described(&phases, &config, &params.layout, &device);
        let waiting = cast_schedule::waiting(phases, &optimizer, &params.layout, source)?;
        let mut state = TrainState::new(params, quant, optimizer, meter);
        state.loss_scale = LossScaler::new(config.train.loss_scale);
        state.schedule = CastSchedule::new(waiting);
        let mut computed = computed::table(&config, &device, &state);
        if !described.is_empty() {
            computed["schedule"] = described.into();
        }
        let setup = RunSetup {
            config,
            registry,
            plugins,
            device,
            batches,
            model,
            schedule,
            metrics,
            computed,
            scale_warning,
            memory,
        };
        Ok(Self { setup, state, sinks })
    }
}

/// Adds the position in the run file to the place that the error has (a library, a file).
pub(super) fn place(mut error: Diagnostic, source: &Source, key: &str) -> Diagnostic {
    let position = source.locate(key);
    error.place = Some(match error.place.take() {
        Some(own) if own != position => format!("{position} ({own})"),
        _ => position,
    });
    error
}

/// Refuses a dynamic loss scale where gradients have static scales, because it would move them out of the range of these.
fn loss_scale_fits(quant: &QuantContext) -> Result<(), KeyedDiagnostic> {
    let is_static = |site: &&Site| site.role.is_gradient() && matches!(site.scaling, Scaling::Static { .. });
    let Some(site) = quant.sites().iter().find(is_static) else { return Ok(()) };
    let message = format!(
        "`train.loss_scale` is dynamic, and {} of `{}` have a static scale, which does not follow it",
        site.role.plural(),
        site.layer
    );
    let hint = "give gradients dynamic or delayed scales, or set a fixed loss scale and multiply `static_amax` by it";
    Err(("train.loss_scale".into(), Diagnostic::config(message).hint(hint)))
}

fn make_sinks(registry: &Registry, config: &RunConfig) -> Result<Vec<SinkSetup>, KeyedDiagnostic> {
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
    sinks.collect()
}

/// Warns of a pattern of a sink that matches no metric: a typing error, or a file that is shared with runs that have more metrics.
fn warn_of_patterns(config: &RunConfig, metrics: &[MetricId]) {
    for (index, sink) in config.sink.iter().enumerate() {
        for (list, patterns) in [("include", &sink.include), ("exclude", &sink.exclude)] {
            for pattern in patterns {
                let matcher = WildMatch::new(pattern);
                if !metrics.iter().any(|metric| matcher.matches(&metric.to_string())) {
                    tracing::warn!(
                        "`sink.{index}.{list}`: the pattern `{pattern}` matches no metric of this run"
                    );
                }
            }
        }
    }
}

/// The formats of `[quant]` that round nothing, if the tensors of the `rounded` roles are rounded. Second uses follow the first.
fn idle_formats(quant: &QuantSection, rounded: &BTreeSet<Role>) -> Vec<String> {
    let idle = Role::ALL.into_iter().filter(|role| role.first_use().is_none()).filter_map(|role| {
        let cast = quant.cast(role, |_| false);
        let format = cast.format().filter(|_| !rounded.contains(&role))?;
        Some(format!(
            "`{}` has no effect: no {} are rounded to {format}, every layer is excluded, skipped or switched off",
            cast.key,
            role.plural()
        ))
    });
    idle.collect()
}

/// The rounding that a run file selects, for a use of its weights other than training.
///
/// # Errors
/// A format is unknown or refused, or a pattern matches nothing, with its position in the run file.
pub fn rounding_of(
    config: &RunConfig,
    source: &Source,
    registry: &Registry,
    device: &ComputeDevice,
    layout: &Layout,
) -> Result<QuantContext, Diagnostic> {
    rounding::quant(config, registry, device, layout).map_err(|(key, error)| place(error, source, &key))
}

fn starting_params(config: &RunConfig, layout: Layout, device: &ComputeDevice) -> Result<Params, Diagnostic> {
    match &config.model.init {
        None => Ok(Params::init(layout, config.run.seed, &device.tensors)),
        Some(file) => {
            let values = weights::read(Path::new(file), &layout)?;
            let values = values.into_iter().map(|values| tensor::flat(values, &device.tensors)).collect();
            Ok(Params { layout, values })
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn formats_that_round_nothing_are_named() {
        let idle = |quant: &str, rounded: &[Role]| {
            let quant: QuantSection = toml::from_str(quant).unwrap();
            idle_formats(&quant, &rounded.iter().copied().collect())
        };
        let text = "weight = 'E4M3'\nactivation = 'none'\ncast = { grad = { format = 'E5M2' } }";
        assert!(idle(text, &[Role::Weight, Role::Grad]).is_empty() && idle("", &[]).is_empty());
        let found = idle(text, &[Role::Weight]);
        let said = "`quant.cast.grad.format` has no effect: no gradients are rounded to E5M2, every layer is excluded, skipped or switched off";
        assert_eq!(found, [said]);
        assert_eq!(idle(text, &[]).len(), 2);
    }
}
