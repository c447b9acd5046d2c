//! A run's optimizer with its states: passes every parameter, its gradient and its states to the plugin.
//!
//! States are host-owned buffers that the plugin declared; the host stores them as opaque numbers. If a step updates
//! elements independently, the plugin receives parts of a parameter on all threads; if it uses services, its tensors
//! stay on the device.

use std::collections::BTreeMap;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_loader::{OptimizerPlugin, instance::Identity};
use altgrad_plugin_api::{Scope, StateSpec, StepScalars};
use burn::tensor::Tensor;

use super::{
    groups::{OptimizerGroups, extents, param_info},
    random_bits::update_key,
    services::{self, DeviceStates},
    shared_states::SharedStates,
    stored_state::{StateEncoding, StoredState},
    subscriber::{UpdateEvent, UpdateSubscriber, UpdatedValues},
};
use crate::{
    model::{
        Layout, Params,
        layout::{ParamId, ParamSpec},
    },
    quant::{QuantPlan, QuantStats, Quantizer, WeightGrid},
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
    /// The states of each instance as a whole.
    pub(super) shared: Vec<SharedStates>,
    /// The parameters that each instance updates together.
    together: Vec<Vec<ParamId>>,
    /// Gradient evaluations of an update, by instance.
    evaluations: Vec<u32>,
    /// Updates of the whole run.
    total: u64,
    /// The values of parameters that were moved to evaluate another gradient of the update, before that.
    moved_from: BTreeMap<ParamId, Tensor<1>>,
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
    /// The plugin failed, cannot update a parameter, or declares a state of a type that the host does not have; or a
    /// storage names no state.
    pub fn new(groups: OptimizerGroups, layout: &Layout, quant: &QuantPlan) -> Result<Self, Diagnostic> {
        let mut state = Self {
            groups,
            scopes: Vec::new(),
            rules: Vec::new(),
            rules_without_grid: Vec::new(),
            specs: Vec::new(),
            states: Vec::new(),
            on_device: Vec::new(),
            shared: Vec::new(),
            together: Vec::new(),
            evaluations: Vec::new(),
            total: 0,
            moved_from: BTreeMap::new(),
            seed: quant.seed(),
            updates: 0,
            #[cfg(feature = "gpu")]
            device: None,
        };
        state.add_instances()?;
        for (id, spec) in layout.specs.iter().enumerate() {
            state.add_parameter(id, spec, quant).map_err(|error| error.at(&spec.name))?;
        }
        let of_params = state.specs.iter().flatten().map(|state| state.name.as_str());
        let of_instances = state.shared.iter().flat_map(SharedStates::names);
        state.groups.check_storage(of_params.chain(of_instances))?;
        Ok(state)
    }

    /// The same in a run of that many updates.
    #[must_use]
    pub fn of_run(self, updates: u64) -> Self {
        Self { total: updates, ..self }
    }

    fn add_instances(&mut self) -> Result<(), Diagnostic> {
        self.shared = SharedStates::all(&self.groups)?;
        let evaluations = self.groups.plugins().iter().map(OptimizerPlugin::evaluations);
        self.evaluations = evaluations.collect::<Result<_, _>>()?;
        self.together = vec![Vec::new(); self.shared.len()];
        Ok(())
    }

    fn add_parameter(&mut self, id: ParamId, spec: &ParamSpec, quant: &QuantPlan) -> Result<(), Diagnostic> {
        let (instance, plugin, _) = self.groups.of(id);
        let shape = extents(&spec.shape);
        let info = param_info(&spec.name, &shape, quant.is_stored_on_grid(id));
        let grid = quant.future_weight_grid(id, &spec.shape);
        self.rules.push(plugin.rule(&info, grid.as_ref().map(WeightGrid::grid))?);
        self.rules_without_grid.push(plugin.rule(&info, None).ok());
        let (scope, wanted) = (plugin.scope(&info)?, plugin.states(&info)?);
        let storage = wanted.iter().map(|state| self.groups.storage(state)).collect::<Result<Vec<_>, _>>()?;
        let elements = wanted.iter().map(|state| self.groups.elements(state, &info));
        let elements = elements.collect::<Result<Vec<_>, _>>()?;
        if scope == Scope::ELEMENTS && wanted.iter().any(|state| state.shape.is_some()) {
            let message = "the optimizer updates elements alone, with a state of a shape of its own";
            return Err(
                Diagnostic::plugin(message).hint("declare another scope, or states of the parameter's shape")
            );
        }
        if scope == Scope::GROUP {
            self.together[instance].push(id);
        }
        let on_device = [Scope::SERVICES, Scope::GROUP].contains(&scope);
        let stored = if on_device && storage.iter().all(|storage| matches!(storage, StateEncoding::F32)) {
            Vec::new()
        } else {
            let new = |((state, storage), &elements): ((&StateSpec, &StateEncoding), &usize)| {
                StoredState::new(storage, elements, state.initial as f32)
            };
            wanted.iter().zip(&storage).zip(&elements).map(new).collect::<Result<_, _>>()?
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
    pub fn rules_under(&self, quant: &QuantPlan, layout: &Layout) -> Result<Vec<String>, Diagnostic> {
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
    pub fn has_grid_rules(&self, quant: &QuantPlan, layout: &Layout) -> bool {
        let rules = self.rules_under(quant, layout);
        rules.is_ok_and(|rules| rules.into_iter().map(Some).ne(self.rules_without_grid.iter().cloned()))
    }

    /// True if a parameter would have another rule if its weight were not transformed before it is rounded, and so lay
    /// on a grid.
    #[must_use]
    pub fn misses_grid(&self, quant: &QuantPlan, layout: &Layout, id: ParamId) -> bool {
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
        match self.scopes[id] {
            Scope::SERVICES => return "the optimizer, by the host's services",
            Scope::GROUP => return "the optimizer, with others, by the host's services",
            _ => {}
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

    /// Updates all parameters in place, after a pass whose rounding by `quant` had these statistics. Optimizers receive
    /// the scales of that pass as grids. Without master weights the update ends with a rounding. Reads the device once
    /// per parameter unless it is the CPU.
    ///
    /// # Errors
    /// The plugin failed; parameters before the one at fault are updated, the others are not.
    pub fn step(
        &mut self,
        params: &mut Params,
        grads: Vec<Tensor<1>>,
        (quant, stats): (&mut Quantizer, &[Option<QuantStats>]),
        lr: f64,
        subscriber: &mut dyn UpdateSubscriber,
    ) -> Result<(), Diagnostic> {
        self.updates += 1;
        // Before the scales change.
        let plan = quant.plan.clone();
        let grids = weight_grids(params, quant, &plan)?;
        let last = self.evaluations.clone();
        let mut together =
            self.step_groups(params, &grads, (&*plan, &grids[..]), (lr, self.updates), &last)?;
        quant.record_amax(stats);
        quant.begin_update();
        #[cfg(feature = "gpu")]
        if let Some(mut device) = self.device.take() {
            let grads = (grads, together);
            let result = self.step_on_device(&mut device, params, grads, (quant, &grids), lr, subscriber);
            self.device = Some(device);
            return result;
        }
        for (id, grad) in grads.into_iter().enumerate() {
            let casts = (&mut *quant, grids[id].as_ref());
            self.step_in_memory(id, params, (grad, together.remove(&id)), casts, lr, subscriber)?;
        }
        Ok(())
    }

    /// The largest number of gradient evaluations of an update.
    #[must_use]
    pub fn evaluations(&self) -> u32 {
        self.evaluations.iter().copied().max().unwrap_or(1)
    }

    /// Moves parameters to where the next gradient of the update is evaluated, after that evaluation.
    ///
    /// # Errors
    /// The plugin failed.
    pub fn move_to_evaluate(
        &mut self,
        params: &mut Params,
        grads: &[Tensor<1>],
        quant: &Quantizer,
        lr: f64,
        evaluation: u32,
    ) -> Result<(), Diagnostic> {
        let grids = weight_grids(params, quant, &quant.plan)?;
        let due = self.evaluations.iter().map(|&all| if evaluation < all { evaluation } else { 0 });
        let due: Vec<u32> = due.collect();
        let casts = (&*quant.plan, &grids[..]);
        for (id, value) in self.step_groups(params, grads, casts, (lr, self.updates + 1), &due)? {
            let from = std::mem::replace(&mut params.values[id], value);
            self.moved_from.entry(id).or_insert(from);
        }
        Ok(())
    }

    /// Updates the parameters that instances update together, after that gradient evaluation of each instance, 0 for
    /// none: their new values.
    fn step_groups(
        &mut self,
        params: &Params,
        grads: &[Tensor<1>],
        (plan, grids): (&QuantPlan, &[Option<WeightGrid<'_>>]),
        (lr, update): (f64, u64),
        evaluations: &[u32],
    ) -> Result<BTreeMap<ParamId, Tensor<1>>, Diagnostic> {
        let mut all = BTreeMap::new();
        for (instance, &evaluation) in
            evaluations.iter().enumerate().filter(|(_, evaluation)| **evaluation > 0)
        {
            let ids = self.together[instance].clone();
            let shapes: Vec<Vec<u64>> =
                ids.iter().map(|&id| extents(&params.layout.specs[id].shape)).collect();
            let updates = ids.iter().zip(&shapes).map(|(&id, shape)| services::Update {
                info: param_info(&params.layout.specs[id].name, shape, plan.is_stored_on_grid(id)),
                value: params.values[id].clone(),
                grad: grads[id].clone(),
                scalars: self.scalars(id, lr, update),
                grid: grids[id].as_ref().map(WeightGrid::grid),
            });
            let updates = updates.collect();
            let (values, result) = self.step_with_services(&ids, updates, Some(instance), evaluation)?;
            result?;
            all.extend(ids.into_iter().zip(values));
        }
        Ok(all)
    }

    /// The scalars of a parameter's update.
    pub(super) fn scalars(&self, id: ParamId, lr: f64, update: u64) -> StepScalars {
        let (_, _, lr_scale) = self.groups.of(id);
        let key = update_key(self.seed, update, id);
        StepScalars { lr: lr * lr_scale, update, updates: self.total, key }
    }

    /// One parameter's update by the plugin's CPU function or with services, or to the new value of an update with
    /// others, on its grid if it is rounded.
    pub(super) fn step_in_memory(
        &mut self,
        id: ParamId,
        params: &mut Params,
        (grad, together): (Tensor<1>, Option<Tensor<1>>),
        (quant, weight_grid): (&mut Quantizer, Option<&WeightGrid<'_>>),
        lr: f64,
        subscriber: &mut dyn UpdateSubscriber,
    ) -> Result<(), Diagnostic> {
        let spec = &params.layout.specs[id];
        let grid = weight_grid.map(WeightGrid::grid);
        let device = params.values[id].device();
        // Taken out, so that the CPU's buffer has one owner and is updated without a copy.
        let value = std::mem::replace(&mut params.values[id], Tensor::empty([0], &device));
        let shape = extents(&spec.shape);
        let info = param_info(&spec.name, &shape, quant.plan.is_stored_on_grid(id));
        let scalars = self.scalars(id, lr, self.updates);
        let wanted = subscriber.wants();
        let has_grid_rule = self.rules_without_grid[id].as_ref() != Some(&self.rules[id]);
        let momentum = if wanted.values && has_grid_rule { self.momentum(id)? } else { None };
        let residual = if wanted.values && info.rounded { self.residual_values(id)? } else { None };

        let (value, grad, before, result) = if self.on_device[id].is_some() {
            // No data move unless they are wanted.
            let is_read = wanted.values || wanted.gradients;
            let read = if is_read { tensor::read_f32(grad.clone())? } else { Vec::new() };
            let from = self.moved_from.remove(&id).unwrap_or_else(|| value.clone());
            let before = wanted.values.then(|| tensor::read_f32(from)).transpose()?;
            let (value, result) = match together {
                Some(value) => (value, Ok(())),
                None => {
                    let update = services::Update { info, value: value.clone(), grad, scalars, grid };
                    let (mut values, result) = self.step_with_services(&[id], vec![update], None, 1)?;
                    (values.pop().unwrap_or(value), result)
                }
            };
            (value, read, before, result)
        } else {
            let (mut param, grad) = (tensor::read_f32(value)?, tensor::read_f32(grad)?);
            let before = wanted.values.then(|| param.clone());
            let result = self.step_slices(id, info, (&mut param, &grad), scalars, grid);
            (tensor::flat(param, &device), grad, before, result)
        };

        let unrounded = self.residual(id).filter(|_| info.rounded).map(|state| (state, value.clone()));
        let intended =
            (wanted.values && info.rounded).then(|| tensor::read_f32(value.clone())).transpose()?;
        let step = quant.state.step + 1;
        let mut value = round_to_grid(quant, id, &spec.shape, value, step);
        if let Some((state, unrounded)) = unrounded {
            self.set_state(id, state, unrounded - value.clone())?;
        }

        let mut event = UpdateEvent { id, spec, grad: &grad, values: None };
        match before {
            None => subscriber.updated(&event),
            Some(before) => {
                let after = tensor::read_f32(value)?;
                let new_grid = quant.state.stored_grid(&quant.plan, id, &spec.shape)?;
                let momentum = momentum.zip(if has_grid_rule { self.momentum(id)? } else { None });
                let residuals = residual.zip(self.residual_values(id)?);
                event.values = Some(UpdatedValues {
                    before: &before,
                    intended: intended.as_deref().unwrap_or(&after),
                    after: &after,
                    is_rounded: info.rounded,
                    has_grid_rule,
                    momentum: momentum.as_ref().map(|(before, after)| [&before[..], &after[..]]),
                    residuals: residuals.as_ref().map(|(before, after)| [&before[..], &after[..]]),
                    grids: [weight_grid, new_grid.as_ref()],
                });
                subscriber.updated(&event);
                value = tensor::flat(after, &device);
            }
        }
        params.values[id] = value;
        result.map_err(|error| error.at(&spec.name))
    }
}

/// The grid of each parameter.
fn weight_grids<'a>(
    params: &Params,
    quant: &Quantizer,
    plan: &'a QuantPlan,
) -> Result<Vec<Option<WeightGrid<'a>>>, Diagnostic> {
    let specs = params.layout.specs.iter().enumerate();
    specs.map(|(id, spec)| quant.state.weight_grid(plan, id, &spec.shape)).collect()
}

/// [`Quantizer::round_to_grid`] of a flat parameter.
pub(crate) fn round_to_grid(
    quant: &mut Quantizer,
    id: ParamId,
    shape: &[usize],
    value: Tensor<1>,
    step: u64,
) -> Tensor<1> {
    let &[rows, columns] = shape else { return value };
    quant.round_to_grid(id, value.reshape([rows, columns]), step).reshape([rows * columns])
}
