//! An update as an operation on a device: the launches that an optimizer lists, on the parameter, its gradient and the
//! kept states.
//!
//! States are no tensors of a graph: they stay in [`Kept`], which every update of a parameter shares, and are written
//! in place. An operation cannot return an error: a failed call leaves NaN in its result and the reason in [`Faults`].

use std::sync::Arc;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_plugin_api::{BufferRole, KernelBuffer, PluginError, kernel::SCRATCH_WORDS};
use burn::backend::{
    Backend, Dispatch, TensorMetadata, backend_extension, fusion::custom::TensorSpec, tensor::FloatTensor,
};
use burn::tensor::{Shape, Tensor};
use burn_cubecl::{CubeBackend, kernel::into_contiguous, tensor::CubeTensor};
use parking_lot::Mutex;

use crate::kernel_text::{PluginKernel, cubes, download, upload};

/// The state of a parameter on a device from update to update.
#[derive(Debug, Default)]
pub struct Kept {
    /// States that are not transferred yet: `[state][element]`.
    pub(super) to_come: Vec<Vec<f32>>,
    /// `[n]` each; parts of larger buffers for parameters of a [`FlatGroup`](super::flat_group::FlatGroup).
    pub(super) states: Vec<CubeTensor>,
}

impl Kept {
    /// These states, not transferred yet.
    #[must_use]
    pub fn new(states: Vec<Vec<f32>>) -> Self {
        Self { to_come: states, ..Self::default() }
    }

    /// Reads the states back; none if they were not transferred.
    ///
    /// # Errors
    /// The device's error.
    pub fn read(&self) -> Result<Vec<Vec<f32>>, String> {
        if self.states.is_empty() {
            return Ok(self.to_come.clone());
        }
        self.states.iter().map(|state| download::<CubeBackend>(state.clone())).collect()
    }

    /// Replaces the kept states by these.
    pub fn replace(&mut self, states: Vec<Vec<f32>>) {
        (self.states, self.to_come) = (Vec::new(), states);
    }
}

/// The first call that failed.
pub type Faults = Arc<Mutex<Option<Diagnostic>>>;

/// One launch: its kernel for vectors of four, and for one element at a time; all its scalars.
#[derive(Debug, Clone)]
pub struct PreparedLaunch {
    /// The kernels.
    pub kernels: [Arc<PluginKernel>; 2],
    /// The scalars.
    pub scalars: Vec<u32>,
}

/// One update.
#[derive(Debug)]
pub struct UpdateCall {
    /// In order.
    pub launches: Vec<PreparedLaunch>,
    /// Scale and inverse of each block of the parameter's grid.
    pub scales: Vec<[f32; 2]>,
    /// The kept tensors of the parameter.
    pub kept: Arc<Mutex<Kept>>,
    /// The destination of a failure.
    pub faults: Faults,
}

/// The operation, for burn's backends.
#[backend_extension(Cube, Fusion)]
pub trait UpdateOps: Backend {
    /// The parameter after its update; in place, unless it is shared.
    #[fusion(meta = updated)]
    fn update(param: FloatTensor<Self>, grad: FloatTensor<Self>, call: Arc<UpdateCall>) -> FloatTensor<Self>;
}

fn updated(param: &TensorSpec, _: &TensorSpec, _: &Arc<UpdateCall>) -> TensorSpec {
    param.clone()
}

impl UpdateOps for CubeBackend {
    fn update(param: FloatTensor<Self>, grad: FloatTensor<Self>, call: Arc<UpdateCall>) -> FloatTensor<Self> {
        let param = into_contiguous(param);
        let param = if param.can_mut() { param } else { param.copy() };
        match call.launch(&param, &into_contiguous(grad)) {
            Ok(()) => param,
            Err(error) => {
                call.faults.lock().get_or_insert(Diagnostic::run(error.message.as_str()));
                let shape = param.shape();
                let nan = vec![f32::NAN; shape.num_elements()];
                upload::<Self>(&param.device(), shape, nan)
            }
        }
    }
}

impl UpdateCall {
    /// Launches all kernels.
    fn launch(&self, param: &CubeTensor, grad: &CubeTensor) -> Result<(), PluginError> {
        let (elements, device) = (param.shape().num_elements(), param.device());
        let flat = |values: Vec<f32>| upload::<CubeBackend>(&device, Shape::from([values.len()]), values);
        let mut kept = self.kept.lock();
        let to_come = std::mem::take(&mut kept.to_come);
        kept.states.extend(to_come.into_iter().map(flat));
        let kernels = || self.launches.iter().flat_map(|launch| &launch.kernels);
        let wanted = |role| kernels().any(|kernel| kernel.has(role));
        let scratch = wanted(BufferRole::SCRATCH).then(|| flat(vec![0.0; SCRATCH_WORDS]));
        let scales = wanted(BufferRole::SCALES).then(|| flat(self.scales.as_flattened().to_vec()));
        let fits = |x: &CubeTensor| x.handle.offset_start.unwrap_or(0).is_multiple_of(16);
        let vectors = elements.is_multiple_of(4) && fits(param) && fits(grad);
        let buffer = |wanted: &KernelBuffer| match wanted.role {
            BufferRole::PARAM => Some(param),
            BufferRole::GRAD => Some(grad),
            BufferRole::STATE => kept.states.get(wanted.index as usize),
            BufferRole::SCRATCH => scratch.as_ref(),
            BufferRole::SCALES => scales.as_ref(),
            _ => None,
        };
        for PreparedLaunch { kernels: [four, one], scalars } in &self.launches {
            let kernel = if vectors { four } else { one };
            kernel.launch(&param.client, cubes(elements), scalars, buffer)?;
        }
        Ok(())
    }
}

/// [`UpdateOps::update`] of a flat parameter.
#[must_use]
pub fn update(param: Tensor<1>, grad: Tensor<1>, call: UpdateCall) -> Tensor<1> {
    let (param, grad) = (param.into_dispatch(), grad.into_dispatch());
    Tensor::from_dispatch(<Dispatch as UpdateOps>::update(param, grad, Arc::new(call)))
}
