//! A run's optimizer with its states: passes every parameter, its gradient and its states to the plugin.
//!
//! States are host-owned buffers that the plugin declared; the host stores them as opaque numbers. If a step updates elements
//! independently, the plugin receives parts of a parameter on all threads; if it uses services, its tensors stay on the device.

use altgrad_base::diagnostic::Diagnostic;
use altgrad_loader::instance::Identity;
use altgrad_plugin_api::{ParamInfo, Scope, StateSpec, StepScalars};
use burn::tensor::Tensor;

use super::{
    groups::OptimizerGroups,
    services::{self, DeviceStates},
    stored_state::{Storage, StoredState},
};
use crate::{
    metrics::{grid_ends::GridEnds, update_loss::UpdateLoss, update_metrics::UpdateMetrics, updates::Step},
    model::{
        Layout, Params,
        layout::{ParamId, ParamSpec},
    },
    quant::{QuantContext, QuantStats, WeightGrid},
    tensor,
};

/// An optimizer and its states.
pub struct OptimizerState {
    pub(super) groups: OptimizerGroups,
    /// The scope of each parameter's updates.
    pub(super) scopes: Vec<Scope>,
    /// The rule that updates each parameter, in the plugin's words.
    rules: Vec<String>,
    /// The rule that would update it without a grid, unless the plugin refuses that.
    rules_without_grid: Vec<Option<String>>,
    /// `[parameter][state]`: the plugin's states.
    pub(super) specs: Vec<Vec<StateSpec>>,
    /// `[parameter][state]`, copied by the update if it is shared; none of parameters whose states services or
    /// kernels keep on a device.
    pub(super) states: Vec<Vec<StoredState>>,
    /// The states of parameters that are updated with services.
    pub(super) on_device: Vec<Option<DeviceStates>>,
    /// The run's seed, for states that are rounded stochastically.
    pub(super) seed: u64,
    /// Updates done.
    pub(super) updates: u64,
    /// The part that runs on a GPU.
    #[cfg(feature = "gpu")]
    pub(super) device: Option<super::device_run::DeviceRun>,
}

impl OptimizerState {
    /// Allocates the states of every parameter.
    ///
    /// # Errors
    /// The plugin failed, cannot update a parameter, or declares a state of a type that the host does not have; or a storage
    /// names no state.
    pub fn new(groups: OptimizerGroups, layout: &Layout, quant: &QuantContext) -> Result<Self, Diagnostic> {
        let mut state = Self {
            groups,
            scopes: Vec::new(),
            rules: Vec::new(),
            rules_without_grid: Vec::new(),
            specs: Vec::new(),
            states: Vec::new(),
            on_device: Vec::new(),
            seed: quant.seed(),
            updates: 0,
            #[cfg(feature = "gpu")]
            device: None,
        };
        for (id, spec) in layout.specs.iter().enumerate() {
            state.add_parameter(id, spec, quant).map_err(|error| error.at(&spec.name))?;
        }
        state.groups.check_storage(state.specs.iter().flatten().map(|state| state.name.as_str()))?;
        Ok(state)
    }

    fn add_parameter(
        &mut self,
        id: ParamId,
        spec: &ParamSpec,
        quant: &QuantContext,
    ) -> Result<(), Diagnostic> {
        let (_, plugin, _) = self.groups.of(id);
        let shape = extents(&spec.shape);
        let info = param_info(&spec.name, &shape, quant.is_stored_on_grid(id));
        let grid = quant.future_weight_grid(id, &spec.shape);
        self.rules.push(plugin.rule(&info, grid.as_ref().map(WeightGrid::grid))?);
        self.rules_without_grid.push(plugin.rule(&info, None).ok());
        let (scope, wanted) = (plugin.scope(&info)?, plugin.states(&info)?);
        let storage = wanted.iter().map(|state| self.groups.storage(state)).collect::<Result<Vec<_>, _>>()?;
        let on_device = scope == Scope::SERVICES;
        let stored = if on_device && storage.iter().all(|storage| matches!(storage, Storage::F32)) {
            Vec::new()
        } else {
            let new = |(spec_of_state, storage): (&StateSpec, &Storage)| {
                StoredState::new(storage, spec.len(), spec_of_state.initial as f32)
            };
            wanted.iter().zip(&storage).map(new).collect::<Result<_, _>>()?
        };
        self.states.push(stored);
        self.on_device.push(on_device.then(|| DeviceStates::new(&wanted, &shape)));
        self.specs.push(wanted);
        self.scopes.push(scope);
        Ok(())
    }

    /// The name and origin of the optimizer.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        self.groups.identity()
    }

    /// Updates done.
    #[must_use]
    pub fn updates(&self) -> u64 {
        self.updates
    }

    /// The rules that would update the parameters under other casts, in the plugin's words.
    ///
    /// # Errors
    /// The plugin cannot update a parameter under these casts.
    pub fn rules_under(&self, quant: &QuantContext, layout: &Layout) -> Result<Vec<String>, Diagnostic> {
        let rule = |(id, spec): (ParamId, &ParamSpec)| {
            let shape = extents(&spec.shape);
            let info = param_info(&spec.name, &shape, quant.is_stored_on_grid(id));
            let grid = quant.future_weight_grid(id, &spec.shape);
            let (_, plugin, _) = self.groups.of(id);
            let rule = plugin.rule(&info, grid.as_ref().map(WeightGrid::grid));
            rule.map_err(|error| error.at(&spec.name))
        };
        layout.specs.iter().enumerate().map(rule).collect()
    }

    /// Stores the rules, by parameter.
    pub fn set_rules(&mut self, rules: Vec<String>) {
        self.rules = rules;
    }

    /// The rule that updates a parameter, in the plugin's words; empty if it has one only.
    #[must_use]
    pub fn rule(&self, id: ParamId) -> &str {
        &self.rules[id]
    }

    /// True if a rule under these casts depends on the grid of its parameter; false if the plugin refuses them.
    #[must_use]
    pub fn has_grid_rules(&self, quant: &QuantContext, layout: &Layout) -> bool {
        let rules = self.rules_under(quant, layout);
        rules.is_ok_and(|rules| rules.into_iter().map(Some).ne(self.rules_without_grid.iter().cloned()))
    }

    /// True if a parameter would have another rule if its weight were not transformed before it is rounded, and so lay on a grid.
    #[must_use]
    pub fn misses_grid(&self, quant: &QuantContext, layout: &Layout, id: ParamId) -> bool {
        let spec = &layout.specs[id];
        let Some(grid) = quant.weight_grid_before_transform(id, &spec.shape) else { return false };
        let shape = extents(&spec.shape);
        let info = param_info(&spec.name, &shape, quant.is_stored_on_grid(id));
        let (_, plugin, _) = self.groups.of(id);
        plugin.rule(&info, Some(grid.grid())).ok() != self.rules_without_grid[id]
    }

    /// The kind of update of a parameter, in words.
    #[must_use]
    pub fn updated_by(&self, id: ParamId) -> &'static str {
        if self.scopes[id] == Scope::SERVICES {
            return "the optimizer, by the host's services";
        }
        #[cfg(feature = "gpu")]
        if let Some(device) = &self.device {
            return match device.has_kernels[id] {
                true => "the optimizer's kernels",
                false => "the optimizer's CPU function, through main memory",
            };
        }
        "the optimizer's CPU function"
    }

    /// Updates all parameters in place, after a pass with `quant` that collected `seen`. Optimizers receive the scales of that
    /// pass as grids. Without master weights the update ends with a rounding. `meter` records every step. Reads the device once
    /// per parameter unless it is the CPU.
    ///
    /// # Errors
    /// The plugin failed; parameters before the one at fault are updated, the others are not.
    pub fn step(
        &mut self,
        params: &mut Params,
        grads: Vec<Tensor<1>>,
        (quant, seen): (&QuantContext, &[Option<QuantStats>]),
        lr: f64,
        meter: &mut UpdateMetrics,
    ) -> Result<(), Diagnostic> {
        #[cfg(feature = "gpu")]
        if let Some(mut device) = self.device.take() {
            let result = self.step_on_device(&mut device, params, grads, (quant, seen), lr, meter);
            self.device = Some(device);
            return result;
        }
        self.updates += 1;
        // Before the scales change.
        let grids = weight_grids(quant, params)?;
        quant.record_amax(seen);
        for (id, grad) in grads.into_iter().enumerate() {
            self.step_in_memory(id, params, grad, (quant, grids[id].as_ref()), lr, meter)?;
        }
        Ok(())
    }

    /// One parameter's update by the plugin's CPU function or with services, on its grid if it is rounded.
    pub(super) fn step_in_memory(
        &mut self,
        id: ParamId,
        params: &mut Params,
        grad: Tensor<1>,
        (quant, weight_grid): (&QuantContext, Option<&WeightGrid<'_>>),
        lr: f64,
        meter: &mut UpdateMetrics,
    ) -> Result<(), Diagnostic> {
        let spec = &params.layout.specs[id];
        let grid = weight_grid.map(WeightGrid::grid);
        let (_, _, lr_scale) = self.groups.of(id);
        let device = params.values[id].device();
        // Taken out, so that the CPU's buffer has one owner and is updated without a copy.
        let value = std::mem::replace(&mut params.values[id], Tensor::empty([0], &device));
        let shape = extents(&spec.shape);
        let info = param_info(&spec.name, &shape, quant.is_stored_on_grid(id));
        let scalars = StepScalars { lr: lr * lr_scale, update: self.updates };
        let measured = meter.wants_weights() || meter.wants_gradients();
        let grid_rule = self.rules_without_grid[id].as_ref() != Some(&self.rules[id]);
        let momentum = if meter.wants_weights() && grid_rule { self.momentum(id)? } else { None };
        let measures_loss = info.rounded && meter.wants_weights();
        let residual = if measures_loss { self.residual_values(id)? } else { None };
        let (value, grad, before, result) = if self.on_device[id].is_some() {
            // No data move unless they are measured.
            let seen = if measured { tensor::read_f32(grad.clone())? } else { Vec::new() };
            let before = meter.wants_weights().then(|| tensor::read_f32(value.clone())).transpose()?;
            let update = services::Update { info, value, grad, scalars, grid };
            let (value, result) = self.step_with_services(id, update)?;
            (value, seen, before, result)
        } else {
            let (mut param, grad) = (tensor::read_f32(value)?, tensor::read_f32(grad)?);
            let before = meter.wants_weights().then(|| param.clone());
            let result = self.step_slices(id, info, (&mut param, &grad), scalars, grid);
            (tensor::flat(param, &device), grad, before, result)
        };
        meter.gradient(id, &grad);
        let unrounded = self.residual(id).filter(|_| info.rounded).map(|state| (state, value.clone()));
        let intended = measures_loss.then(|| tensor::read_f32(value.clone())).transpose()?;
        let mut value = round_to_grid(quant, id, &spec.shape, value, quant.step() + 1);
        if let Some((state, unrounded)) = unrounded {
            self.set_state(id, state, unrounded - value.clone())?;
        }
        if let Some(before) = before {
            let after = tensor::read_f32(value)?;
            let new_grid = stored_grid(quant, id, &spec.shape)?;
            let step = Step { before: &before, after: &after, grad: &grad };
            let momentum = momentum.zip(if grid_rule { self.momentum(id)? } else { None });
            let momentum = momentum.as_ref().map(|(before, after)| [&before[..], &after[..]]);
            let stepped = intended.as_deref().unwrap_or(&after);
            let residuals = residual.zip(self.residual_values(id)?);
            let residuals = residuals.as_ref().map(|(before, after)| [&before[..], &after[..]]);
            let lost =
                intended.as_deref().map(|intended| UpdateLoss::of(&before, intended, &after, residuals));
            let ends = weight_grid.filter(|_| info.rounded || grid_rule);
            let ends = ends.and_then(|grid| GridEnds::of(stepped, grid, momentum));
            let grids = [weight_grid, new_grid.as_ref()];
            meter.update(id, spec, step, (lost, ends), grids);
            value = tensor::flat(after, &device);
        }
        params.values[id] = value;
        result.map_err(|error| error.at(&spec.name))
    }
}

/// [`QuantContext::round_to_grid`] of a flat parameter.
pub(crate) fn round_to_grid(
    quant: &QuantContext,
    id: ParamId,
    shape: &[usize],
    value: Tensor<1>,
    step: u64,
) -> Tensor<1> {
    let &[rows, columns] = shape else { return value };
    quant.round_to_grid(id, value.reshape([rows, columns]), step).reshape([rows * columns])
}

/// The grids of all parameters' weights, before the scales change.
pub(super) fn weight_grids<'a>(
    quant: &'a QuantContext,
    params: &Params,
) -> Result<Vec<Option<WeightGrid<'a>>>, Diagnostic> {
    let specs = params.layout.specs.iter().enumerate();
    specs.map(|(id, spec)| quant.weight_grid(id, &spec.shape)).collect()
}

/// The grid on which a weight without master weights is stored after its update.
pub(super) fn stored_grid<'a>(
    quant: &'a QuantContext,
    id: ParamId,
    shape: &[usize],
) -> Result<Option<WeightGrid<'a>>, Diagnostic> {
    if quant.is_stored_on_grid(id) { quant.weight_grid(id, shape) } else { Ok(None) }
}

/// The parameter's facts for a plugin; `rounded`: its updates end with a rounding.
pub(super) fn param_info<'a>(name: &'a str, shape: &'a [u64], rounded: bool) -> ParamInfo<'a> {
    ParamInfo { rounded, ..ParamInfo::new(name, shape) }
}

pub(super) fn extents(shape: &[usize]) -> Vec<u64> {
    shape.iter().map(|&extent| extent as u64).collect()
}
