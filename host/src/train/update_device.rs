//! Updates on a GPU, by the kernels that an optimizer brings: no parameter, gradient or state leaves the device.
//!
//! With master weights the step counts what it does in the same launch. Without, the rounding that ends an update is the format's own, and
//! a launch after it counts. All parameters' counts are read at once, after the updates. A parameter without kernels (a decode
//! table's, or an optimizer that has none) goes through main memory; so does one whose grid cannot be counted, while metrics are wanted.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
};

use altgrad_plugin_api::{
    ErrorKind, FormatSpec, KernelOp, KernelTarget, Launch, PluginError, Scope, StepScalars,
    kernel::update::{Counting, UpdateCounts},
};
use burn::backend::DispatchDevice;
use burn::tensor::{Device, Tensor};

use super::{
    update::{OptimizerRun, extents, settle},
    update_op::{self, Faults, Kept, Prepared, UpdateCall, locked},
};
use crate::{
    device::ComputeDevice,
    diagnostic::{Diagnostic, Fault},
    kernel_text::{PluginKernel, target},
    metrics::update_metrics::UpdateMetrics,
    model::{Layout, Params, layout::ParamId, params},
    plugins::{FormatPlugin, OptimizerPlugin, optimizer::ParamUpdate},
    quant::{Quant, Seen},
    read_back::{ReadBack, Slot},
};

/// What stays on the device, and the kernels that work on it.
pub struct DeviceRun {
    device: Device,
    target: KernelTarget,
    /// By instance, operation, and whether for vectors.
    kernels: HashMap<(usize, KernelOp, bool), Arc<PluginKernel>>,
    /// By parameter.
    kept: Vec<Arc<Mutex<Kept>>>,
    /// By parameter: whether there are kernels for it.
    pub(super) has_kernels: Vec<bool>,
    faults: Faults,
}

impl DeviceRun {
    /// Nothing kept yet; `None` on the CPU.
    fn new(device: &ComputeDevice, params: usize) -> Option<Self> {
        let DispatchDevice::Cube(cube) = device.tensors.as_dispatch() else { return None };
        Some(Self {
            device: device.tensors.clone(),
            target: target(&cube.client())?,
            kernels: HashMap::new(),
            kept: (0..params).map(|_| Arc::default()).collect(),
            has_kernels: vec![false; params],
            faults: Faults::default(),
        })
    }

    /// An instance's kernels for an operation, kept after the first time.
    fn kernels(
        &mut self,
        (index, plugin): (usize, &OptimizerPlugin),
        op: KernelOp,
    ) -> Result<[Arc<PluginKernel>; 2], PluginError> {
        let mut get = |vectors: bool| {
            if let Some(kernel) = self.kernels.get(&(index, op, vectors)) {
                return Ok(kernel.clone());
            }
            let vector = if vectors { 4 } else { 1 };
            let text = plugin.kernel(op, &KernelTarget { vector, ..self.target.clone() })?;
            let text = text.ok_or_else(|| {
                PluginError::new(
                    ErrorKind::UNSUPPORTED,
                    format!("it has no kernel for {op:?} on this device"),
                )
            })?;
            text.check_update()?;
            if text.vector == 0 || !vector.is_multiple_of(text.vector) {
                let message = format!("its kernel for {op:?} takes {} elements at once", text.vector);
                return Err(PluginError::new(ErrorKind::UNSUPPORTED, message));
            }
            let kernel = Arc::new(PluginKernel::new(text));
            self.kernels.insert((index, op, vectors), kernel.clone());
            Ok(kernel)
        };
        Ok([get(true)?, get(false)?])
    }

    /// A call of some launches.
    fn call(
        &mut self,
        plugin: (usize, &OptimizerPlugin),
        launches: &[Launch],
        counting: Counting,
        kept: Arc<Mutex<Kept>>,
    ) -> Result<UpdateCall, Diagnostic> {
        let prepare = |launch: &Launch| {
            let scalars = counting.words().into_iter().chain(launch.scalars.iter().copied()).collect();
            Ok(Prepared { kernels: self.kernels(plugin, launch.op)?, scalars })
        };
        let launches: Result<Vec<_>, PluginError> = launches.iter().map(prepare).collect();
        let launches = launches.map_err(|error| plugin.1.identity.failure(Fault::Plugin, &error))?;
        Ok(UpdateCall { launches, counting, kept, faults: self.faults.clone() })
    }

    /// A parameter's states, read back.
    pub(super) fn read_states(&self, id: ParamId) -> Result<Vec<Arc<Vec<f32>>>, Diagnostic> {
        // What is still queued may write them.
        self.device.sync().map_err(|error| not_read(&error.to_string()))?;
        let states = locked(&self.kept[id]).read().map_err(|why| not_read(&why))?;
        Ok(states.into_iter().map(Arc::new).collect())
    }

    /// The first call that failed since this was last asked.
    fn check(&self) -> Result<(), Diagnostic> {
        locked(&self.faults).take().map_or(Ok(()), Err)
    }
}

/// Counts that were asked for.
struct Asked {
    id: ParamId,
    words: Slot,
    sums: Slot,
}

impl OptimizerRun {
    /// Moves the updates to a GPU, as far as there are kernels; nothing happens on the CPU. Tries each kernel on a few values, against
    /// the CPU function.
    ///
    /// # Errors
    /// [`Fault::Plugin`](crate::diagnostic::Fault::Plugin): a kernel does not compile there, or computes something else.
    pub fn on_device(
        mut self,
        device: &ComputeDevice,
        quant: &Quant,
        layout: &Layout,
    ) -> Result<Self, Diagnostic> {
        let Some(mut run) = DeviceRun::new(device, layout.specs.len()) else { return Ok(self) };
        let mut tried = BTreeMap::new();
        for id in (0..layout.specs.len()).filter(|&id| self.scopes[id] != Scope::SERVICES) {
            let (index, plugin, _) = self.groups.of(id);
            // With a format last: that decides. Such a weight is unrounded where nothing is stored yet.
            for format in [None].into_iter().chain(quant.weight_format(id).map(Some)) {
                let name = format.map_or("", |format| format.identity.name.as_str());
                let found = match tried.get(&(index, name)) {
                    Some(found) => *found,
                    None => try_out(&mut run, (index, plugin), format, device)?,
                };
                if tried.insert((index, name), found).is_none() && !found {
                    tracing::warn!(
                        "optimizer `{}` has no kernels for {} {name} on {}: such parameters go through main memory each step",
                        plugin.identity.name,
                        if name.is_empty() { "unrounded parameters" } else { "weights in" },
                        device.label,
                    );
                }
                run.has_kernels[id] = found;
            }
        }
        self.device = Some(run);
        Ok(self)
    }

    /// [`OptimizerRun::step`] on a GPU. Reads counts once, at the end, if any are wanted.
    pub(super) fn step_on_device(
        &mut self,
        run: &mut DeviceRun,
        params: &mut Params,
        grads: Vec<Tensor<1>>,
        (quant, seen): (&Quant, &[Option<Seen>]),
        lr: f64,
        meter: &mut UpdateMetrics,
    ) -> Result<(), Diagnostic> {
        self.updates += 1;
        run.check()?;
        let stored: Vec<_> = (0..grads.len()).map(|id| quant.stored(id, seen)).collect();
        quant.record(seen);
        let (mut read_back, mut asked) = (ReadBack::default(), Vec::new());
        for (id, grad) in grads.into_iter().enumerate() {
            let (spec, stored) = (&params.layout.specs[id], stored[id]);
            let (index, plugin, lr_scale) = self.groups.of(id);
            let scalars = StepScalars { lr: lr * lr_scale, update: self.updates };
            let grid = stored.map(|(format, scale)| (&format.spec, scale));
            let launches = plugin.launches(&spec.name, &extents(&spec.shape), scalars, grid);
            let launches = launches.map_err(|error| error.at(&spec.name))?;
            let (Some(launches), Some(counting)) = (launches, meter.counting(id, stored)) else {
                self.bring_back(run, id)?;
                self.step_in_memory(id, params, grad, (quant, stored), lr, meter)?;
                continue;
            };
            let kept = run.kept[id].clone();
            if !self.states[id].is_empty() {
                let states = std::mem::take(&mut self.states[id]);
                locked(&kept).replace(states.into_iter().map(Arc::unwrap_or_clone).collect());
            }
            let device = params.values[id].device();
            // Taken out, so that the buffer has one owner and is updated in place.
            let value = std::mem::replace(&mut params.values[id], Tensor::empty([0], &device));
            if meter.looks() {
                let (before, grad) = (params::read_f32(value.clone())?, params::read_f32(grad.clone())?);
                meter.look_at(id, spec, (&before, &grad), stored);
            }
            meter.gradient_on_device(id);
            // A rounding that follows is counted after it.
            let rounds = quant.settles(id) && counting.is_due();
            let before = rounds.then(|| value.clone());
            let inside = if rounds { Counting::default() } else { counting };
            let call = run.call((index, plugin), &launches, inside, kept.clone())?;
            let [value, mut words, mut sums] = update_op::update(value, grad.clone(), call);
            let value = settle(quant, id, &spec.shape, value, quant.step() + 1);
            if let Some(before) = before {
                let alone = [Launch { op: KernelOp::COUNT_UPDATE, scalars: Vec::new().into() }];
                let call = run.call((index, plugin), &alone, counting, kept)?;
                [words, sums] = update_op::count([&before, &value, &grad], call);
            }
            params.values[id] = value;
            if counting.counts() {
                asked.push(Asked { id, words: read_back.ask(words), sums: read_back.ask(sums) });
            }
        }
        let values = read_back.read();
        run.check()?;
        let values = values?;
        for Asked { id, words, sums } in asked {
            let words = values.get(words)?.iter().map(|word| word.to_bits()).collect();
            let counts = UpdateCounts::new(words, values.get(sums)?);
            let counts = counts.map_err(|error| Diagnostic::run(error.message.as_str()))?;
            meter.counted(id, &params.layout.specs[id], &counts, stored[id].is_some());
        }
        Ok(())
    }

    /// Brings a parameter's states to main memory, if they are not there.
    fn bring_back(&mut self, run: &DeviceRun, id: ParamId) -> Result<(), Diagnostic> {
        if self.states[id].is_empty() {
            self.states[id] = run.read_states(id)?;
            locked(&run.kept[id]).replace(Vec::new());
        }
        Ok(())
    }
}

fn not_read(why: &str) -> Diagnostic {
    Diagnostic::run(format!("an optimizer's states cannot be read back: {why}"))
}

/// Runs the kernels of an update of a few values, with and without vectors: they must do what the CPU function does, up to f32's rounding. Whether there are
/// kernels for this grid, at scale 1.
fn try_out(
    run: &mut DeviceRun,
    (index, plugin): (usize, &OptimizerPlugin),
    format: Option<&FormatPlugin>,
    device: &ComputeDevice,
) -> Result<bool, Diagnostic> {
    const VALUES: [f32; 8] = [0.0, -0.1, 0.3, 1.0, -1.7, 3.1, 100.0, -1e-3];
    const GRAD: [f32; 8] = [0.1, 2.0, 0.0, -3.0, 1e-3, 5.0, -0.7, 1e-4];
    const NAME: &str = "a parameter tried out";
    let grid: Option<(&FormatSpec, f32)> = format.map(|format| (&format.spec, 1.0));
    for len in [VALUES.len(), VALUES.len() - 1] {
        let (shape, mut expected, grad) = ([len as u64, 1], VALUES[..len].to_vec(), &GRAD[..len]);
        let mut states: Vec<Vec<f32>> =
            plugin.states(NAME, &shape)?.iter().map(|state| vec![state.initial as f32; len]).collect();
        let kept = Arc::new(Mutex::new(Kept::new(states.clone())));
        let mut value = params::flat(expected.clone(), &device.tensors);
        for update in 1..=2 {
            let scalars = StepScalars { lr: 1e-3, update };
            let Some(launches) = plugin.launches(NAME, &shape, scalars, grid)? else { return Ok(false) };
            let update = ParamUpdate {
                name: NAME,
                shape: &shape,
                param: &mut expected,
                grad,
                states: states.iter_mut().map(Vec::as_mut_slice).collect(),
                scalars,
                grid,
            };
            plugin.step(Scope::WHOLE, update)?;
            let call = run.call((index, plugin), &launches, Counting::values(), kept.clone())?;
            let grad = params::flat(grad.to_vec(), &device.tensors);
            [value, _, _] = update_op::update(value, grad, call);
        }
        let found = params::read_f32(value).and_then(|found| run.check().map(|()| found));
        let states_found = locked(&kept).read();
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
