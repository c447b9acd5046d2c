//! Updates on a GPU by the optimizer's kernels: no parameter, gradient or state leaves the device.
//!
//! A subscriber that wants the values before an update keeps a copy of the parameter on the device. A parameter without
//! kernels (a decode table's, an optimizer that has none) goes through main memory; so does one whose states are not
//! all f32 of the optimizer's own, and one whose update the subscriber cannot measure there.

use std::{collections::BTreeMap, sync::Arc};

use altgrad_base::diagnostic::Diagnostic;
use altgrad_loader::{OptimizerPlugin, optimizer::ParamUpdate};
use altgrad_plugin_api::{Blocks, Grid, Launch, ParamInfo, Scales, Scope, StepScalars};
use burn::tensor::Tensor;
use parking_lot::Mutex;

use super::{
    device_op::{self, Kept, PreparedLaunch},
    device_run::{DeviceRun, SharedLaunch},
    flat_group,
    groups::{extents, param_info},
    stored_state::StoredState,
    subscriber::{DeviceUpdate, UpdateSubscriber},
    update::{OptimizerState, round_to_grid},
};
use crate::{
    device::ComputeDevice,
    model::{Layout, Params, layout::ParamId},
    quant::{QuantPlan, Quantizer, WeightGrid},
    tensor,
};

impl OptimizerState {
    /// Moves the updates to a GPU if there are kernels; on the CPU it does nothing. Compares each kernel with the CPU
    /// function on a few values.
    ///
    /// # Errors
    /// [`Fault::Plugin`](altgrad_base::diagnostic::Fault::Plugin): a kernel does not compile there, or its results
    /// differ.
    pub fn on_device(
        mut self,
        device: &ComputeDevice,
        quant: &QuantPlan,
        layout: &Layout,
    ) -> Result<Self, Diagnostic> {
        let Some(mut run) = DeviceRun::new(device, layout.specs.len()) else { return Ok(self) };
        let mut tried = BTreeMap::new();
        for id in (0..layout.specs.len()).filter(|&id| self.on_device[id].is_none()) {
            let (index, plugin, _) = self.groups.of(id);
            let spec = &layout.specs[id];
            let shape = extents(&spec.shape);
            // With a format last, because that result decides. Such a weight is unrounded where nothing is stored yet.
            for format in [None].into_iter().chain(quant.weight_format(id).map(Some)) {
                let name = format.map_or("", |format| format.identity.name.as_str());
                let blocks = quant.future_weight_grid(id, &spec.shape).map(|grid| grid.blocks);
                let blocks = blocks.filter(|_| format.is_some() && !quant.has_one_scale(id));
                let scales = if blocks.is_none() { Scales::ONE } else { SEVERAL };
                let grid = format.map(|format| Grid { spec: &format.spec, scales });
                // The parameter has other blocks than the few values on which kernels are tried.
                let pairs = blocks.map(|blocks| vec![[1.0; 2]; blocks.count(spec.len() as u64) as usize]);
                let own = blocks.zip(pairs.as_ref()).map(|(blocks, pairs)| Scales::new(pairs, blocks));
                let own = grid.map(|grid| Grid { scales: own.unwrap_or(grid.scales), ..grid });
                let info = param_info(&spec.name, &shape, format.is_some() && quant.is_stored_on_grid(id));
                let wanted = operations(plugin, &info, own).map_err(|error| error.at(&spec.name))?;
                let key = (index, name, scales.pairs.len(), wanted);
                let found = match (tried.get(&key), &key.3) {
                    (Some(found), _) => *found,
                    (None, Some(wanted)) => {
                        let like = (spec.name.as_str(), wanted.as_slice());
                        try_out(&mut run, (index, plugin), like, grid, device)?
                    }
                    (None, None) => false,
                };
                if tried.insert(key, found).is_none() && !found {
                    tracing::warn!(
                        "optimizer `{}` has no kernels for {}{name}{} like `{}` on {}: they go through main memory each step",
                        plugin.identity.name,
                        if name.is_empty() { "unrounded parameters" } else { "weights in " },
                        if scales.single().is_some() { "" } else { " with scales by block" },
                        spec.name,
                        device.label,
                    );
                }
                run.has_kernels[id] = found;
            }
            if run.has_kernels[id] && !self.kernels_know_states(id) {
                run.has_kernels[id] = false;
                tracing::warn!(
                    "states of `{}` are not all f32 of the optimizer's own: it goes through main memory each step",
                    spec.name,
                );
            }
        }
        self.device = Some(run);
        Ok(self)
    }

    /// Adds a phase of casts to those before: kernels work if they work in all phases.
    ///
    /// # Errors
    /// As [`Self::on_device`].
    pub fn also_on_device(
        self,
        device: &ComputeDevice,
        quant: &QuantPlan,
        layout: &Layout,
    ) -> Result<Self, Diagnostic> {
        let before = self.device.as_ref().map(|run| run.has_kernels.clone());
        let mut state = self.on_device(device, quant, layout)?;
        if let (Some(before), Some(run)) = (before, &mut state.device) {
            run.has_kernels.iter_mut().zip(before).for_each(|(has, had)| *has &= had);
        }
        Ok(state)
    }

    /// [`OptimizerState::step`] on a GPU. One launch updates all parameters that it can.
    pub(super) fn step_on_device(
        &mut self,
        run: &mut DeviceRun,
        params: &mut Params,
        (grads, mut together): (Vec<Tensor<1>>, BTreeMap<ParamId, Tensor<1>>),
        (quant, grids): (&mut Quantizer, &[Option<WeightGrid<'_>>]),
        lr: f64,
        subscriber: &mut dyn UpdateSubscriber,
    ) -> Result<(), Diagnostic> {
        run.check()?;
        let mut shared: Vec<(SharedLaunch, Vec<(BegunUpdate, Tensor<1>)>)> = Vec::new();
        for (id, grad) in grads.into_iter().enumerate() {
            let casts = (&mut *quant, grids[id].as_ref());
            if let Some(value) = together.remove(&id) {
                self.step_in_memory(id, params, (grad, Some(value)), casts, lr, subscriber)?;
                continue;
            }
            let begun = self.begin_update(run, params, (id, grad), casts, lr, subscriber)?;
            let Some((begun, value, launches)) = begun else { continue };
            let (index, plugin, _) = self.groups.of(id);
            let extent = [params.layout.specs[id].len(), self.specs[id].len()];
            let launch = match self.scopes[id] {
                Scope::ELEMENTS => run.shared_launch((index, plugin), &launches, extent)?,
                _ => None,
            };
            let Some(launch) = launch else {
                let grid = grids[id].as_ref().map(WeightGrid::grid);
                let call = run.call((index, plugin), &launches, grid, run.kept[id].clone())?;
                let value = device_op::update(value, begun.grad.clone(), call);
                end_update(params, begun, value, (quant, grids), subscriber);
                continue;
            };
            match shared.iter_mut().find(|(other, _)| other.key == launch.key) {
                Some((_, members)) => members.push((begun, value)),
                None => shared.push((launch, vec![(begun, value)])),
            }
        }
        for (SharedLaunch { launch, .. }, members) in shared {
            launch_shared(run, params, (launch, members), (quant, grids), subscriber);
        }
        let read = subscriber.ends_on_device(&params.layout.specs, quant, grids);
        run.check()?;
        read
    }

    /// Begins the update of one parameter: takes its value, and lists its launches; without kernels for it, the update
    /// goes through main memory.
    fn begin_update(
        &mut self,
        run: &mut DeviceRun,
        params: &mut Params,
        (id, grad): (ParamId, Tensor<1>),
        (quant, weight_grid): (&mut Quantizer, Option<&WeightGrid<'_>>),
        lr: f64,
        subscriber: &mut dyn UpdateSubscriber,
    ) -> Result<Option<(BegunUpdate, Tensor<1>, Vec<Launch>)>, Diagnostic> {
        let spec = &params.layout.specs[id];
        let (_, plugin, _) = self.groups.of(id);
        let scalars = self.scalars(id, lr, self.updates);
        let shape = extents(&spec.shape);
        let info = param_info(&spec.name, &shape, quant.plan.is_stored_on_grid(id));
        let grid = weight_grid.map(WeightGrid::grid);
        let launches = plugin.launches(&info, scalars, grid);
        let launches = launches.map_err(|error| error.at(&spec.name))?;
        let launches = launches.filter(|_| run.has_kernels[id]);
        let wants_before = subscriber.wants_on_device(id, weight_grid);
        let (Some(launches), Some(wants_before)) = (launches, wants_before) else {
            self.bring_back(run, id)?;
            self.step_in_memory(id, params, (grad, None), (quant, weight_grid), lr, subscriber)?;
            return Ok(None);
        };
        if !self.states[id].is_empty() {
            let states = std::mem::take(&mut self.states[id]);
            run.kept[id].lock().replace(states.into_iter().filter_map(StoredState::into_f32).collect());
        }
        let device = params.values[id].device();
        // Taken out, so that the buffer has one owner and is updated in place.
        let value = std::mem::replace(&mut params.values[id], Tensor::empty([0], &device));
        subscriber.begins_on_device((id, spec), [&value, &grad], weight_grid)?;
        let before = wants_before.then(|| value.clone());
        Ok(Some((BegunUpdate { id, before, grad, is_rounded: info.rounded }, value, launches)))
    }

    /// True if kernels support a parameter's states: all are f32 and of its shape, and the host writes none.
    fn kernels_know_states(&self, id: ParamId) -> bool {
        self.residual(id).is_none()
            && self.specs[id].iter().all(|state| state.shape.is_none())
            && self.states[id].iter().all(|state| matches!(state, StoredState::F32(_)))
    }

    /// Moves a parameter's states to main memory, if they are on the device.
    fn bring_back(&mut self, run: &DeviceRun, id: ParamId) -> Result<(), Diagnostic> {
        if self.states[id].is_empty() {
            self.states[id] = run.read_states(id)?.into_iter().map(StoredState::F32).collect();
            run.kept[id].lock().replace(Vec::new());
        }
        Ok(())
    }
}

/// An update whose launch comes.
struct BegunUpdate {
    id: ParamId,
    /// The values before, if they are wanted.
    before: Option<Tensor<1>>,
    grad: Tensor<1>,
    /// True if a rounding ends it.
    is_rounded: bool,
}

/// Updates parameters that share a launch, by one for each buffer that they fill.
fn launch_shared(
    run: &mut DeviceRun,
    params: &mut Params,
    (launch, mut members): (PreparedLaunch, Vec<(BegunUpdate, Tensor<1>)>),
    (quant, grids): (&mut Quantizer, &[Option<WeightGrid<'_>>]),
    subscriber: &mut dyn UpdateSubscriber,
) {
    let lens: Vec<usize> = members.iter().map(|(begun, _)| params.layout.specs[begun.id].len()).collect();
    let mut first = 0;
    for end in run.ends_of_groups(&lens) {
        let (begun, values): (Vec<_>, Vec<_>) = members.drain(..end - first).unzip();
        let ids = begun.iter().map(|begun| begun.id).collect();
        let call = run.flat_call((ids, &lens[first..end]), launch.clone());
        let grads = begun.iter().map(|begun| begun.grad.clone()).collect();
        for (begun, value) in begun.into_iter().zip(flat_group::update(values, grads, call)) {
            end_update(params, begun, value, (quant, grids), subscriber);
        }
        first = end;
    }
}

/// Rounds a parameter that is stored on a grid, stores it, and shows its update.
fn end_update(
    params: &mut Params,
    begun: BegunUpdate,
    value: Tensor<1>,
    (quant, grids): (&mut Quantizer, &[Option<WeightGrid<'_>>]),
    subscriber: &mut dyn UpdateSubscriber,
) {
    let BegunUpdate { id, before, grad, is_rounded, .. } = begun;
    let intended = is_rounded.then(|| value.clone());
    let step = quant.state.step + 1;
    let after = round_to_grid(quant, id, &params.layout.specs[id].shape, value, step);
    params.values[id] = after.clone();
    let update = DeviceUpdate { id, before, intended, after, grad };
    subscriber.updated_on_device(update, grids[id].as_ref());
}

/// Scales of blocks of three elements, for weights that have several.
const SEVERAL: Scales<'static> = Scales::new(&[[1.0, 1.0], [4.0, 0.25], [0.5, 2.0]], Blocks::consecutive(3));

/// The operations of a parameter's update, in order; `None` without kernels for it.
fn operations(
    plugin: &OptimizerPlugin,
    info: &ParamInfo<'_>,
    grid: Option<Grid<'_>>,
) -> Result<Option<Vec<u32>>, Diagnostic> {
    let launches = plugin.launches(info, StepScalars::new(1e-3, 1), grid)?;
    Ok(launches.map(|launches| launches.iter().map(|launch| launch.op.0).collect()))
}

/// Runs the kernels of an update of a few values, with and without vectors: they must agree with the CPU function, up
/// to f32's rounding. The values are a matrix or a vector of this name that the plugin updates by the wanted
/// operations. Returns whether there are such values.
fn try_out(
    run: &mut DeviceRun,
    (index, plugin): (usize, &OptimizerPlugin),
    (name, wanted): (&str, &[u32]),
    grid: Option<Grid<'_>>,
    device: &ComputeDevice,
) -> Result<bool, Diagnostic> {
    const VALUES: [f32; 8] = [0.0, -0.1, 0.3, 1.0, -1.7, 3.1, 100.0, -1e-3];
    const GRAD: [f32; 8] = [0.1, 2.0, 0.0, -3.0, 1e-3, 5.0, -0.7, 1e-4];
    for len in [VALUES.len(), VALUES.len() - 1] {
        let (mut expected, grad) = (VALUES[..len].to_vec(), &GRAD[..len]);
        let shape = [len as u64, 1];
        let mut info = ParamInfo::new(name, &shape);
        if operations(plugin, &info, grid)?.as_deref() != Some(wanted) {
            info = ParamInfo::new(name, &shape[..1]);
        }
        if operations(plugin, &info, grid)?.as_deref() != Some(wanted) {
            return Ok(false);
        }
        let mut states: Vec<Vec<f32>> =
            plugin.states(&info)?.iter().map(|state| vec![state.initial as f32; len]).collect();
        let kept = Arc::new(Mutex::new(Kept::new(states.clone())));
        let mut value = tensor::flat(expected.clone(), &device.tensors);
        for update in 1..=2 {
            let scalars = StepScalars::new(1e-3, update);
            let Some(launches) = plugin.launches(&info, scalars, grid)? else { return Ok(false) };
            let update = ParamUpdate {
                info,
                param: &mut expected,
                grad,
                states: states.iter_mut().map(Vec::as_mut_slice).collect(),
                scalars,
                grid,
            };
            plugin.step(Scope::WHOLE, update)?;
            let call = run.call((index, plugin), &launches, grid, kept.clone())?;
            let grad = tensor::flat(grad.to_vec(), &device.tensors);
            value = device_op::update(value, grad, call);
        }
        let found = tensor::read_f32(value).and_then(|found| run.check().map(|()| found));
        let states_found = kept.lock().read();
        let refused = |why: String| {
            let message = format!(
                "optimizer plugin `{}`: its kernels do not run on device {}: {why}",
                plugin.identity.name, device.label
            );
            Diagnostic::plugin(message).at(&plugin.identity.library)
        };
        let found = found.map_err(|error| refused(error.message))?;
        let pairs = std::iter::once((&found, &expected));
        let states_found = states_found.map_err(refused)?;
        for (found, expected) in pairs.chain(states_found.iter().zip(&states)) {
            let close = |i: &usize| (found[*i] - expected[*i]).abs() <= 1e-5 * expected[*i].abs().max(1e-6);
            if let Some(i) = (0..len).find(|i| !close(i)) {
                let what = format!("{} becomes {}, on the CPU {}", VALUES[i], found[i], expected[i]);
                return Err(refused(what));
            }
        }
    }
    Ok(true)
}
