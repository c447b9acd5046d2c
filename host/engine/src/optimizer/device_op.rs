//! An update as operations on a device: the launches an optimizer lists, on the parameter, its gradient and what the device keeps.
//!
//! States and the memory of counting are no tensors of a graph: they stay in [`Kept`], which every update of a parameter shares, and are
//! written in place. An operation cannot return an error: a failed call leaves NaN in its result and the reason in [`Faults`].

use std::sync::Arc;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_plugin_api::{
    BufferRole, KernelBuffer, PluginError,
    kernel::update::{Counting, STATISTICS},
};
use burn::backend::{
    Backend, Dispatch, TensorMetadata, backend_extension, fusion::custom::TensorSpec, tensor::FloatTensor,
};
use burn::tensor::{DType, Shape, Tensor};
use burn_cubecl::{
    CubeBackend, kernel::into_contiguous, ops::numeric::empty_device_contiguous_dtype, tensor::CubeTensor,
};
use parking_lot::Mutex;

use crate::kernel_text::{PluginKernel, cubes, download, upload};

/// What a device keeps of a parameter from update to update.
#[derive(Debug, Default)]
pub struct Kept {
    /// States that are still to be brought there: `[state][element]`.
    to_come: Vec<Vec<f32>>,
    /// `[n]` each.
    states: Vec<CubeTensor>,
    /// A u32 word an element, zero at first.
    memory: Option<CubeTensor>,
}

impl Kept {
    /// These states, to be brought there.
    #[must_use]
    pub fn new(states: Vec<Vec<f32>>) -> Self {
        Self { to_come: states, ..Self::default() }
    }

    /// Reads the states back; none if they are not there.
    ///
    /// # Errors
    /// Why the device did not give them.
    pub fn read(&self) -> Result<Vec<Vec<f32>>, String> {
        if self.states.is_empty() {
            return Ok(self.to_come.clone());
        }
        self.states.iter().map(|state| download::<CubeBackend>(state.clone())).collect()
    }

    /// Forgets what is there, in favour of these states.
    pub fn replace(&mut self, states: Vec<Vec<f32>>) {
        (self.states, self.to_come) = (Vec::new(), states);
    }
}

/// The first call that failed.
pub type Faults = Arc<Mutex<Option<Diagnostic>>>;

/// One launch: its kernel for vectors of four, and for one element at a time; all its scalars.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// The kernels.
    pub kernels: [Arc<PluginKernel>; 2],
    /// The scalars.
    pub scalars: Vec<u32>,
}

/// One update, or its counting.
#[derive(Debug)]
pub struct UpdateCall {
    /// In order.
    pub launches: Vec<Prepared>,
    /// What is counted.
    pub counting: Counting,
    /// Of the parameter.
    pub kept: Arc<Mutex<Kept>>,
    /// Where a failure goes.
    pub faults: Faults,
}

/// The operations, as burn's backends see them. Words are u32 bit patterns.
#[backend_extension(Cube, Fusion)]
pub trait UpdateOps: Backend {
    /// The parameter after its update, words and sums.
    #[fusion(meta = updated)]
    fn update(
        param: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        call: Arc<UpdateCall>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);

    /// Words and sums of an update that is done.
    #[fusion(meta = counted)]
    fn count(
        before: FloatTensor<Self>,
        after: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        call: Arc<UpdateCall>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);
}

fn words_and_sums(elements: usize) -> (TensorSpec, TensorSpec) {
    let float = |len| TensorSpec::new(Shape::from([len]), DType::F32);
    (float(STATISTICS.len()), float(cubes(elements)))
}

fn updated(param: &TensorSpec, _: &TensorSpec, _: &Arc<UpdateCall>) -> (TensorSpec, TensorSpec, TensorSpec) {
    let (words, sums) = words_and_sums(param.shape.num_elements());
    (param.clone(), words, sums)
}

fn counted(
    before: &TensorSpec,
    _: &TensorSpec,
    _: &TensorSpec,
    _: &Arc<UpdateCall>,
) -> (TensorSpec, TensorSpec) {
    words_and_sums(before.shape.num_elements())
}

impl UpdateOps for CubeBackend {
    fn update(
        param: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        call: Arc<UpdateCall>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let param = into_contiguous(param);
        // Updated in place, unless someone else looks at it.
        let param = if param.can_mut() { param } else { param.copy() };
        let (shape, device) = (param.shape(), param.device());
        match call.launch(&param, &into_contiguous(grad), None) {
            Ok((words, sums)) => (param, words, sums),
            Err(error) => {
                call.fail(&error);
                let nan = upload::<Self>(&device, shape.clone(), vec![f32::NAN; shape.num_elements()]);
                let (words, sums) = call.nothing(&nan);
                (nan, words, sums)
            }
        }
    }

    fn count(
        before: FloatTensor<Self>,
        after: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        call: Arc<UpdateCall>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let (before, after, grad) = (into_contiguous(before), into_contiguous(after), into_contiguous(grad));
        call.launch(&after, &grad, Some(&before)).unwrap_or_else(|error| {
            call.fail(&error);
            call.nothing(&before)
        })
    }
}

impl UpdateCall {
    fn fail(&self, error: &PluginError) {
        self.faults.lock().get_or_insert(Diagnostic::run(error.message.as_str()));
    }

    /// Words and sums of a launch that was none.
    fn nothing(&self, like: &CubeTensor) -> (CubeTensor, CubeTensor) {
        let sums = cubes(like.shape().num_elements());
        let flat = |len| upload::<CubeBackend>(&like.device(), Shape::from([len]), vec![0.0; len]);
        (flat(STATISTICS.len()), flat(sums))
    }

    /// Launches everything; words and sums.
    fn launch(
        &self,
        param: &CubeTensor,
        grad: &CubeTensor,
        before: Option<&CubeTensor>,
    ) -> Result<(CubeTensor, CubeTensor), PluginError> {
        let (elements, device) = (param.shape().num_elements(), param.device());
        let flat = |values: Vec<f32>| upload::<CubeBackend>(&device, Shape::from([values.len()]), values);
        let mut kept = self.kept.lock();
        let to_come = std::mem::take(&mut kept.to_come);
        kept.states.extend(to_come.into_iter().map(flat));
        let memory = if self.counting.remembers() {
            kept.memory.get_or_insert_with(|| flat(vec![0.0; elements])).clone()
        } else {
            flat(vec![0.0; 4])
        };
        let words = flat(vec![0.0; STATISTICS.len()]);
        let sums = Shape::from([cubes(elements)]);
        let sums = empty_device_contiguous_dtype(param.client.clone(), device.clone(), sums, DType::F32);
        let fits = |x: &CubeTensor| x.handle.offset_start.unwrap_or(0).is_multiple_of(16);
        let vectors =
            elements.is_multiple_of(4) && [Some(param), Some(grad), before].into_iter().flatten().all(fits);
        let buffer = |wanted: &KernelBuffer| match wanted.role {
            BufferRole::SOURCE => before,
            BufferRole::PARAM => Some(param),
            BufferRole::GRAD => Some(grad),
            BufferRole::STATE => kept.states.get(wanted.index as usize),
            BufferRole::MEMORY => Some(&memory),
            BufferRole::STATISTICS => Some(&words),
            BufferRole::PARTIAL_SUMS => Some(&sums),
            _ => None,
        };
        for Prepared { kernels: [four, one], scalars } in &self.launches {
            let kernel = if vectors { four } else { one };
            kernel.launch(&param.client, cubes(elements), scalars, buffer)?;
        }
        drop(kept);
        Ok((words, sums))
    }
}

/// [`UpdateOps::update`] of a flat parameter.
#[must_use]
pub fn update(param: Tensor<1>, grad: Tensor<1>, call: UpdateCall) -> [Tensor<1>; 3] {
    let (param, grad) = (param.into_dispatch(), grad.into_dispatch());
    let (param, words, sums) = <Dispatch as UpdateOps>::update(param, grad, Arc::new(call));
    [param, words, sums].map(Tensor::from_dispatch)
}

/// [`UpdateOps::count`] of flat parameters.
#[must_use]
pub fn count([before, after, grad]: [&Tensor<1>; 3], call: UpdateCall) -> [Tensor<1>; 2] {
    let [before, after, grad] = [before, after, grad].map(|tensor| tensor.clone().into_dispatch());
    let (words, sums) = <Dispatch as UpdateOps>::count(before, after, grad, Arc::new(call));
    [words, sums].map(Tensor::from_dispatch)
}
