//! Building a run: all checks, opening of data, and initial parameters.

use std::{collections::BTreeMap, path::Path};

use altgrad_base::diagnostic::Diagnostic;
use altgrad_config::{LossScaleChoice, RunConfig, Source};
use altgrad_data::Batches;
use altgrad_loader::{
    Registry,
    instance::{Identity, KeyedDiagnostic, option_table},
};
use altgrad_sinks::SinkSetup;

use super::{
    cast_schedule, computed, groups,
    inputs::{self, at_position, place},
    observe,
    ready_run::ReadyRun,
    rounding,
    run_setup::RunSetup,
    scale_warning,
    schedule::Schedule,
    warnings,
};
use crate::{
    device::ComputeDevice,
    memory::{self, StateBytes},
    metrics::{self, MetricId, MetricSetup, update_metrics::UpdateMetrics},
    model::{Gpt, GptShape, Layout, Params, weights},
    optimizer::OptimizerState,
    passes::TrainModel,
    quant::{QuantPlan, Scaling, TensorQuantizer, observe::ObservedSites},
    state::{CastSchedule, LossScaler, TrainState},
    tensor,
};

impl ReadyRun {
    /// Checks a run against all its requirements except the folder to which it will be written.
    ///
    /// # Errors
    /// The first fault, with its position in the run file.
    pub fn build(mut config: RunConfig, source: &Source) -> Result<Self, Diagnostic> {
        let placed = |(key, error): KeyedDiagnostic| place(error, source, &key);
        let device =
            ComputeDevice::open(config.run.device).map_err(|error| error.at(source.locate("run.device")))?;
        let registry = inputs::open_registry(&config)?;
        let sinks = inputs::make_sinks(&registry, &mut config).map_err(placed)?;
        let corpus =
            inputs::open_corpus(&mut config).map_err(|error| place(error, source, "data.dataset"))?;
        let shape = GptShape::new(&config.model, config.data.block_size, corpus.tokenizer.vocab());
        let sizes = |error| at_position(error, source.locate_first(&["model", "data", "optimizer"]));
        // Before the model takes its part of what is available.
        most_memory(&config, &shape, &device, None).map_err(sizes)?;
        let layout = Layout::new(&shape);
        let optimizer = groups::groups(&config.optimizer, &registry, &layout).map_err(placed)?;
        config.optimizer.settings = option_table(optimizer.config());

        let quant = rounding::quant(&config, &registry, &device, &layout).map_err(placed)?;
        let observed = observe::observation(&config, &registry, &device, &layout).map_err(placed)?;
        let phases = cast_schedule::phases(&config, source, &registry, &device, (&layout, &quant))?;
        let casts: Vec<&QuantPlan> = [&quant].into_iter().chain(&phases).collect();
        if config.train.loss_scale == LossScaleChoice::Dynamic {
            casts.iter().try_for_each(|quant| loss_scale_fits(quant)).map_err(placed)?;
        }
        let plugins = plugins_used(&casts, observed.as_ref(), optimizer.identity(), &sinks);
        let states = optimizer.state_bytes(&layout, &quant)?;
        let memory = most_memory(&config, &shape, &device, Some(states)).map_err(sizes)?;
        let optimizer = OptimizerState::new(optimizer, &layout, &quant)?.of_run(config.train.max_steps);
        if config.train.loss_scale == LossScaleChoice::Dynamic && optimizer.evaluations() > 1 {
            let message =
                "the optimizer evaluates several gradients for an update, which may not overflow in between";
            let error = Diagnostic::config(message).hint("use a fixed `train.loss_scale`");
            return Err(place(error, source, "train.loss_scale"));
        }
        let metrics = metric_names(&config, &casts, observed.as_ref(), (&optimizer, &layout), &device);
        warnings::warn(&config, &casts, &metrics, (&optimizer, &layout));

        #[cfg(feature = "gpu")]
        let optimizer =
            phases.iter().try_fold(optimizer.on_device(&device, &quant, &layout)?, |optimizer, quant| {
                optimizer.also_on_device(&device, quant, &layout)
            })?;
        let update_metrics =
            UpdateMetrics::new(config.metrics, layout.specs.len(), config.run.seed).on_device(&device);
        let params =
            starting_params(&config, layout, &device).map_err(|error| place(error, source, "model.init"))?;
        let scale_warning = scale_warning::warning(&config.quant, &quant, &params)?;
        let described = cast_schedule::described(&phases, &config, &params.layout, &device);
        let waiting = cast_schedule::waiting(phases, &optimizer, &params.layout, source)?;
        let mut state = TrainState::new(params, quant.into(), optimizer);
        state.loss_scale = LossScaler::new(config.train.loss_scale);
        state.schedule = CastSchedule::new(waiting);

        let mut computed = computed::table(&config, &device, &state);
        if !described.is_empty() {
            computed["schedule"] = described.into();
        }
        let seed = config.run.seed;
        let model = TrainModel {
            dropout: config.model.dropout,
            z_loss: config.train.z_loss,
            seed,
            #[cfg(feature = "gpu")]
            recorder: crate::passes::Recorder::for_device(&device, &state.quant.plan),
            ..TrainModel::new(Gpt { shape, gelu: config.model.gelu })
        };
        let batches = Batches::new(corpus, seed, config.data.batch_size, config.data.block_size);
        let schedule = Schedule::new(&config.train);
        let setup = RunSetup {
            config,
            registry,
            plugins,
            device,
            batches,
            observed,
            model,
            schedule,
            metrics,
            computed,
            scale_warning,
            memory,
        };
        Ok(Self { setup, state, update_metrics, sinks })
    }
}

/// The memory of the phase of the casts that needs most, and available memory, bytes.
fn most_memory(
    config: &RunConfig,
    shape: &GptShape,
    device: &ComputeDevice,
    states: Option<StateBytes>,
) -> Result<Option<[f64; 2]>, Diagnostic> {
    let phases = config.quant.schedule.iter().map(|phase| cast_schedule::config_of(config, phase));
    let phases = [config.clone()].into_iter().chain(phases);
    let memory =
        phases.map(|config| memory::check(&config, shape, device, states)).collect::<Result<Vec<_>, _>>()?;
    Ok(memory.into_iter().flatten().max_by(|a, b| a[0].total_cmp(&b[0])))
}

/// The plugins of a run, each once: formats of all phases and of observations, the optimizer, sinks.
fn plugins_used(
    casts: &[&QuantPlan],
    observed: Option<&ObservedSites>,
    optimizer: &Identity,
    sinks: &[SinkSetup],
) -> Vec<Identity> {
    let rounded = casts.iter().flat_map(|quant| quant.sites()).map(|site| &site.format);
    let observed = observed.into_iter().flat_map(ObservedSites::formats);
    let formats = rounded.chain(observed).map(|format| &format.plugin().identity);
    let all = formats.chain([optimizer]).chain(sinks.iter().map(|sink| &sink.plugin.identity));
    let named = all.map(|plugin| ((plugin.kind.to_string(), plugin.name.clone()), plugin.clone()));
    named.collect::<BTreeMap<_, _>>().into_values().collect()
}

/// The metrics that a row may contain.
fn metric_names(
    config: &RunConfig,
    casts: &[&QuantPlan],
    observed: Option<&ObservedSites>,
    (optimizer, layout): (&OptimizerState, &Layout),
    device: &ComputeDevice,
) -> Vec<MetricId> {
    metrics::names(casts.iter().map(|quant| {
        MetricSetup::new(layout, quant, config.metrics, config.shadow.every > 0)
            .with_observed(observed)
            .with_grid_rules(optimizer.has_grid_rules(quant, layout))
            .with_optimizer(optimizer.number_names())
            .with_curvature(config.curvature.every > 0)
            .with_loss_scaling(config.train.loss_scale == LossScaleChoice::Dynamic)
            .with_data_sheet(device.sheet_rates().is_some())
    }))
}

/// Refuses a dynamic loss scale where gradients have static scales, because it would move them out of the range of
/// these.
fn loss_scale_fits(quant: &QuantPlan) -> Result<(), KeyedDiagnostic> {
    let is_static =
        |site: &&TensorQuantizer| site.role.is_gradient() && matches!(site.scaling, Scaling::Static { .. });
    let Some(site) = quant.sites().iter().find(is_static) else { return Ok(()) };
    let message = format!(
        "`train.loss_scale` is dynamic, and {} of `{}` have a static scale, which does not follow it",
        site.role.plural(),
        site.layer
    );
    let hint = "give gradients dynamic or delayed scales, or set a fixed loss scale and multiply `static_amax` by it";
    Err(("train.loss_scale".into(), Diagnostic::config(message).hint(hint)))
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
) -> Result<QuantPlan, Diagnostic> {
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
