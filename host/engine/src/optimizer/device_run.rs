//! The part of an optimizer that stays on a GPU: its states, its compiled kernels, and the first call
//! that failed.

use std::{collections::HashMap, sync::Arc};

use altgrad_base::diagnostic::{Diagnostic, Fault};
use altgrad_loader::OptimizerPlugin;
use altgrad_plugin_api::{BufferRole, ErrorKind, Grid, KernelOp, KernelTarget, Launch, PluginError, Scales};
use burn::backend::DispatchDevice;
use burn::tensor::Device;
use parking_lot::Mutex;

use super::{
    device_op::{Faults, Kept, PreparedLaunch, UpdateCall},
    flat_group::{FlatCall, FlatGroup},
};
use crate::{
    device::ComputeDevice,
    device_faults,
    kernel_text::{PluginKernel, target},
    model::layout::ParamId,
    tensor::flat_places::{ends_of_buffers, most_elements},
};

/// The state on the device, and the kernels that use it.
pub struct DeviceRun {
    device: Device,
    target: KernelTarget,
    /// By instance, operation, and whether vectors are used.
    kernels: HashMap<(usize, KernelOp, bool), Arc<PluginKernel>>,
    /// By parameter.
    pub(super) kept: Vec<Arc<Mutex<Kept>>>,
    /// By parameter: whether there are kernels for it.
    pub(super) has_kernels: Vec<bool>,
    /// The buffers of the last step's groups of parameters.
    groups: Vec<(Vec<ParamId>, Arc<FlatGroup>)>,
    /// Most elements of a buffer.
    most: usize,
    faults: Faults,
}

/// A launch that updates parameters beside each other.
pub(super) struct SharedLaunch {
    /// Equal for parameters that one launch updates: the instance, the operation, its scalars, and the number of
    /// states.
    pub(super) key: (usize, KernelOp, Vec<u32>, usize),
    pub(super) launch: PreparedLaunch,
}

impl DeviceRun {
    /// Without tensors at first; `None` on the CPU.
    pub(super) fn new(device: &ComputeDevice, params: usize) -> Option<Self> {
        let DispatchDevice::Cube(cube) = device.tensors.as_dispatch() else { return None };
        let client = cube.client();
        Some(Self {
            device: device.tensors.clone(),
            target: target(&client)?,
            kernels: HashMap::new(),
            kept: (0..params).map(|_| Arc::default()).collect(),
            has_kernels: vec![false; params],
            groups: Vec::new(),
            most: most_elements(&client),
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

    /// A call of some launches, on a parameter with this grid.
    pub(super) fn call(
        &mut self,
        plugin: (usize, &OptimizerPlugin),
        launches: &[Launch],
        grid: Option<Grid<'_>>,
        kept: Arc<Mutex<Kept>>,
    ) -> Result<UpdateCall, Diagnostic> {
        let prepare = |launch: &Launch| {
            Ok(PreparedLaunch { kernels: self.kernels(plugin, launch.op)?, scalars: launch.scalars.to_vec() })
        };
        let launches: Result<Vec<_>, PluginError> = launches.iter().map(prepare).collect();
        let launches = launches.map_err(|error| plugin.1.identity.failure(Fault::Plugin, &error))?;
        let scales = grid.map_or(Scales::ONE, |grid| grid.scales).pairs.to_vec();
        Ok(UpdateCall { launches, scales, kept, faults: self.faults.clone() })
    }

    /// The launch that updates a parameter of some `elements` and `states` beside others: an only one, whose kernel
    /// knows no more of a parameter than single elements.
    ///
    /// # Errors
    /// The plugin has no such kernel.
    pub(super) fn shared_launch(
        &mut self,
        plugin: (usize, &OptimizerPlugin),
        launches: &[Launch],
        [elements, states]: [usize; 2],
    ) -> Result<Option<SharedLaunch>, Diagnostic> {
        let [launch] = launches else { return Ok(None) };
        let kernels = self.kernels(plugin, launch.op);
        let kernels = kernels.map_err(|error| plugin.1.identity.failure(Fault::Plugin, &error))?;
        let knows_more = |role| kernels.iter().any(|kernel| kernel.has(role));
        if elements > self.most || [BufferRole::SCALES, BufferRole::SCRATCH].into_iter().any(knows_more) {
            return Ok(None);
        }
        let key = (plugin.0, launch.op, launch.scalars.to_vec(), states);
        Ok(Some(SharedLaunch { key, launch: PreparedLaunch { kernels, scalars: launch.scalars.to_vec() } }))
    }

    /// The ends of the parts into which parameters of these lengths are divided, so that each fits into a buffer.
    pub(super) fn ends_of_groups(&self, lens: &[usize]) -> Vec<usize> {
        ends_of_buffers(lens, self.most, FlatGroup::MOST)
    }

    /// A call of one launch for parameters of these lengths.
    pub(super) fn flat_call(
        &mut self,
        (ids, lens): (Vec<ParamId>, &[usize]),
        launch: PreparedLaunch,
    ) -> FlatCall {
        let kept = ids.iter().map(|id| self.kept[*id].clone()).collect();
        let group = match self.groups.iter().find(|(of, _)| *of == ids) {
            Some((_, group)) => group.clone(),
            None => {
                // A parameter is in one buffer only.
                self.groups.retain(|(of, _)| !of.iter().any(|id| ids.contains(id)));
                let group = Arc::new(FlatGroup::new(lens));
                self.groups.push((ids, group.clone()));
                group
            }
        };
        FlatCall { group, launch, kept, faults: self.faults.clone() }
    }

    /// A parameter's states, read back after queued operations, which may still write them.
    pub(super) fn read_states(&self, id: ParamId) -> Result<Vec<Arc<Vec<f32>>>, Diagnostic> {
        let synced = self.device.sync().map_err(|error| error.to_string());
        let states = synced.and_then(|()| self.kept[id].lock().read());
        device_faults::check()?;
        let states =
            states.map_err(|why| device_faults::failed("an optimizer's states were not read", why))?;
        Ok(states.into_iter().map(Arc::new).collect())
    }

    /// The first failed call since the last check.
    pub(super) fn check(&self) -> Result<(), Diagnostic> {
        self.faults.lock().take().map_or(Ok(()), Err)
    }
}
