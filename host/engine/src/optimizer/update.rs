//! A run's optimizer with its states: hands every parameter, its gradient and its states to the plugin.
//!
//! States are host-owned buffers the plugin declared; the host stores them without knowing what they mean. Where a step goes an
//! element at a time the plugin gets parts of a parameter on all threads, where it asks for services its tensors stay on the device.

use std::sync::Arc;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_loader::{instance::Identity, optimizer::ParamUpdate};
use altgrad_plugin_api::{DType, ParamInfo, Scope, StepScalars};
use burn::tensor::Tensor;

use super::{
    groups::OptimizerGroups,
    services::{self, DeviceStates},
};
use crate::{
    metrics::{update_metrics::UpdateMetrics, updates::Step},
    model::{Layout, Params, layout::ParamId},
    quant::{QuantContext, QuantStats, WeightGrid},
    tensor,
    tensor_file::Values,
};

/// A state of a parameter, as a checkpoint holds it.
#[derive(Debug, Clone)]
pub struct OptimizerBuffer {
    /// The plugin's name for it.
    pub name: String,
    /// `[n]`.
    pub values: Values,
}

/// An optimizer and its states.
pub struct OptimizerState {
    pub(super) groups: OptimizerGroups,
    /// What updates of each parameter have to see.
    pub(super) scopes: Vec<Scope>,
    /// The rule that updates each parameter, in the plugin's words.
    rules: Vec<String>,
    /// `[parameter][state]`: the plugin's names.
    names: Vec<Vec<String>>,
    /// `[parameter][state]`, `[n]` each, copied by the update if somebody else holds it; none of parameters that are
    /// updated with services, or whose states kernels keep on a GPU.
    pub(super) states: Vec<Vec<Arc<Vec<f32>>>>,
    /// Of parameters that are updated with services.
    on_device: Vec<Option<DeviceStates>>,
    /// Updates done.
    pub(super) updates: u64,
    /// What runs on a GPU.
    #[cfg(feature = "gpu")]
    pub(super) device: Option<super::device_run::DeviceRun>,
}

impl OptimizerState {
    /// Allocates the states of every parameter.
    ///
    /// # Errors
    /// The plugin failed, or wants a state of a type the host does not have.
    pub fn new(groups: OptimizerGroups, layout: &Layout, quant: &QuantContext) -> Result<Self, Diagnostic> {
        let (mut scopes, mut rules, mut names) = (Vec::new(), Vec::new(), Vec::new());
        let (mut states, mut on_device) = (Vec::new(), Vec::new());
        for (id, spec) in layout.specs.iter().enumerate() {
            let (_, plugin, _) = groups.of(id);
            let shape = extents(&spec.shape);
            let info = param_info(&spec.name, &shape, quant.is_stored_on_grid(id));
            let grid = quant.future_weight_grid(id, &spec.shape);
            let rule = plugin.rule(&info, grid.as_ref().map(WeightGrid::grid));
            rules.push(rule.map_err(|error| error.at(&spec.name))?);
            let (scope, wanted) = (plugin.scope(&info)?, plugin.states(&info)?);
            let mut buffers = Vec::new();
            for state in &wanted {
                if state.dtype != DType::F32 {
                    let message = format!(
                        "optimizer `{}` wants state `{}` not in f32",
                        plugin.identity.name, state.name
                    );
                    return Err(Diagnostic::plugin(message).at(&plugin.identity.library));
                }
                if scope != Scope::SERVICES {
                    buffers.push(Arc::new(vec![state.initial as f32; spec.len()]));
                }
            }
            states.push(buffers);
            on_device.push((scope == Scope::SERVICES).then(|| DeviceStates::new(&wanted, &shape)));
            names.push(wanted.iter().map(|state| state.name.to_string()).collect());
            scopes.push(scope);
        }
        Ok(Self {
            groups,
            scopes,
            rules,
            names,
            states,
            on_device,
            updates: 0,
            #[cfg(feature = "gpu")]
            device: None,
        })
    }

    /// What it is called and where it comes from.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        self.groups.identity()
    }

    /// Updates done.
    #[must_use]
    pub fn updates(&self) -> u64 {
        self.updates
    }

    /// The rule that updates a parameter, in the plugin's words; empty if it has one only.
    #[must_use]
    pub fn rule(&self, id: ParamId) -> &str {
        &self.rules[id]
    }

    /// What updates a parameter, in words.
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

    /// Number of states of a parameter.
    #[must_use]
    pub fn state_count(&self, id: ParamId) -> usize {
        self.names[id].len()
    }

    /// The states of a parameter. Reads those that kernels keep on a GPU.
    ///
    /// # Errors
    /// The device failed.
    pub fn states(&self, id: ParamId) -> Result<Vec<OptimizerBuffer>, Diagnostic> {
        let values = match &self.on_device[id] {
            Some(states) => states.values()?,
            None => self.kept_states(id)?.into_iter().map(Values::F32).collect(),
        };
        Ok(self.names[id]
            .iter()
            .cloned()
            .zip(values)
            .map(|(name, values)| OptimizerBuffer { name, values })
            .collect())
    }

    #[cfg(not(feature = "gpu"))]
    fn kept_states(&self, id: ParamId) -> Result<Vec<Arc<Vec<f32>>>, Diagnostic> {
        Ok(self.states[id].clone())
    }

    #[cfg(feature = "gpu")]
    fn kept_states(&self, id: ParamId) -> Result<Vec<Arc<Vec<f32>>>, Diagnostic> {
        match &self.device {
            Some(device) if self.states[id].is_empty() => device.read_states(id),
            _ => Ok(self.states[id].clone()),
        }
    }

    /// Goes on after `updates` updates of these parameters; `read` gives the elements of a parameter's state by number
    /// and name.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn restore(
        &mut self,
        updates: u64,
        params: &Params,
        mut read: impl FnMut(ParamId, &str) -> Result<Vec<f32>, Diagnostic>,
    ) -> Result<(), Diagnostic> {
        for (id, names) in self.names.iter().enumerate() {
            let values: Vec<_> = names.iter().map(|name| read(id, name)).collect::<Result<_, _>>()?;
            match &mut self.on_device[id] {
                Some(states) => states.restore(values, &params.values[id].device()),
                None => self.states[id] = values.into_iter().map(Arc::new).collect(),
            }
        }
        self.updates = updates;
        Ok(())
    }

    /// Updates all parameters in place, after a pass with `quant` that saw `seen`: the scales it used are the grids
    /// that optimizers are told. Without master weights the update ends with a rounding. `meter` sees every step. Reads
    /// the device once a parameter where that is not the CPU.
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
        // Before the scales move on.
        let grids = weight_grids(quant, params, seen)?;
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
        let (grid, stored) = (weight_grid.map(WeightGrid::grid), weight_grid.and_then(WeightGrid::one_scale));
        let (_, plugin, lr_scale) = self.groups.of(id);
        let device = params.values[id].device();
        // Taken out, so that the CPU's buffer has one owner and is updated without a copy.
        let value = std::mem::replace(&mut params.values[id], Tensor::empty([0], &device));
        let shape = extents(&spec.shape);
        let info = param_info(&spec.name, &shape, quant.is_stored_on_grid(id));
        let scalars = StepScalars { lr: lr * lr_scale, update: self.updates };
        let (value, grad, before, result) = if let Some(states) = &mut self.on_device[id] {
            // Nothing moves unless it is measured.
            let measured = meter.wants_weights() || meter.wants_gradients();
            let seen = if measured { tensor::read_f32(grad.clone())? } else { Vec::new() };
            let before = meter.wants_weights().then(|| tensor::read_f32(value.clone())).transpose()?;
            let update = services::Update { info, value, grad, scalars, grid };
            let (value, result) = states.step(plugin, update);
            (value, seen, before, result)
        } else {
            let (mut param, grad) = (tensor::read_f32(value)?, tensor::read_f32(grad)?);
            let before = meter.wants_weights().then(|| param.clone());
            let update = ParamUpdate {
                info,
                param: &mut param,
                grad: &grad,
                states: self.states[id].iter_mut().map(|state| Arc::make_mut(state).as_mut_slice()).collect(),
                scalars,
                grid,
            };
            let result = plugin.step(self.scopes[id], update);
            (tensor::flat(param, &device), grad, before, result)
        };
        meter.gradient(id, &grad);
        let mut value = round_to_grid(quant, id, &spec.shape, value, quant.step() + 1);
        if let Some(before) = before {
            let after = tensor::read_f32(value)?;
            meter.update(id, spec, Step { before: &before, after: &after, grad: &grad }, stored);
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

/// The grids of all parameters' weights, before the scales move on.
pub(super) fn weight_grids<'a>(
    quant: &'a QuantContext,
    params: &Params,
    seen: &[Option<QuantStats>],
) -> Result<Vec<Option<WeightGrid<'a>>>, Diagnostic> {
    let specs = params.layout.specs.iter().enumerate();
    specs.map(|(id, spec)| quant.weight_grid(id, &spec.shape, seen)).collect()
}

/// What a plugin is told of a parameter; `rounded`: its updates end with a rounding.
pub(super) fn param_info<'a>(name: &'a str, shape: &'a [u64], rounded: bool) -> ParamInfo<'a> {
    ParamInfo { rounded, ..ParamInfo::new(name, shape) }
}

pub(super) fn extents(shape: &[usize]) -> Vec<u64> {
    shape.iter().map(|&extent| extent as u64).collect()
}
