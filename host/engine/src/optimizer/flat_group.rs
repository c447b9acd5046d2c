//! One launch for the updates of several parameters on a GPU: those that a kernel updates element by element, by the
//! same scalars, lie one after the other in one buffer, and so do their gradients and states.
//!
//! The tensors of parameters and states are parts of these buffers. Every update collects the gradients; it collects a
//! parameter or a state only if it is no such part, as after a load. A buffer whose parts are in use elsewhere is
//! copied before it changes, so that tensors keep their values. As in [`super::device_op`], a failed call leaves its
//! reason in [`Faults`].

use std::sync::Arc;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_plugin_api::{BufferRole, KernelBuffer, PluginError};
use burn::backend::{
    Backend, Dispatch, TensorMetadata, backend_extension, fusion::custom::TensorSpec, tensor::FloatTensor,
};
use burn::tensor::{DType, Shape, Tensor};
use burn_cubecl::{CubeBackend, ops::numeric::empty_device_contiguous_dtype, tensor::CubeTensor};
use parking_lot::Mutex;

use super::device_op::{Faults, Kept, PreparedLaunch};
use crate::{
    kernel_text::{cubes, upload},
    tensor::{
        batch::{MOST, TensorBatch, TensorBatchMetadata, batch, unbatched},
        flat_places::FlatPlaces,
        gather_kernel::gather,
    },
};

/// The buffers of parameters that one launch updates.
#[derive(Debug)]
pub struct FlatGroup {
    places: FlatPlaces,
    buffers: Mutex<Buffers>,
}

#[derive(Debug, Default)]
struct Buffers {
    params: Option<CubeTensor>,
    states: Vec<CubeTensor>,
    /// The parameters and gradients of the update that is collected.
    collected: Vec<CubeTensor>,
    grads: Option<CubeTensor>,
}

/// One update of a group.
#[derive(Debug)]
pub struct FlatCall {
    /// The buffers.
    pub group: Arc<FlatGroup>,
    /// The launch.
    pub launch: PreparedLaunch,
    /// The kept tensors of each parameter.
    pub kept: Vec<Arc<Mutex<Kept>>>,
    /// The destination of a failure.
    pub faults: Faults,
}

impl FlatGroup {
    /// Most parameters of a group: as many as operations can order.
    pub const MOST: usize = MOST * MOST;

    /// A group of parameters of these lengths.
    #[must_use]
    pub fn new(lens: &[usize]) -> Self {
        Self { places: FlatPlaces::new(lens), buffers: Mutex::default() }
    }

    /// True if a tensor is the part of a buffer at its place.
    fn is_part(&self, x: &CubeTensor, index: usize, of: &CubeTensor) -> bool {
        let key = |x: &CubeTensor| x.handle.clone().binding().claim_key();
        x.is_contiguous() && key(x) == key(&self.places.part(of, index))
    }

    /// The buffer of these tensors, one of each parameter: `before` if all are its parts, and nothing else uses them.
    fn collected(&self, tensors: Vec<CubeTensor>, before: Option<CubeTensor>) -> CubeTensor {
        let parts = before.filter(|of| (0..).zip(&tensors).all(|(index, x)| self.is_part(x, index, of)));
        if let Some(buffer) = parts {
            drop(tensors);
            return if buffer.can_mut() { buffer } else { buffer.copy() };
        }
        let buffer = self.places.empty(&tensors[0]);
        gather(self.places.starts().zip(tensors).collect(), &buffer);
        buffer
    }
}

/// The operations, for burn's backends.
#[backend_extension(Cube, Fusion)]
pub trait FlatUpdateOps: Backend {
    /// Collects parameters, and their gradients, from number `first` on. The result has no meaning: it orders the
    /// operations.
    #[fusion(meta = after_collecting)]
    fn collect(
        #[extension_type] params: TensorBatch<Self>,
        #[extension_type] grads: TensorBatch<Self>,
        call: Arc<FlatCall>,
        first: usize,
    ) -> FloatTensor<Self>;

    /// Updates what was collected. The result has no meaning.
    #[fusion(meta = after_update)]
    fn update_collected(
        #[extension_type] collected: TensorBatch<Self>,
        call: Arc<FlatCall>,
    ) -> FloatTensor<Self>;

    /// Some of the parameters after the update, from number `first` on.
    #[fusion(meta = parts)]
    fn updated_parts(
        updated: FloatTensor<Self>,
        call: Arc<FlatCall>,
        first: usize,
        count: usize,
    ) -> TensorBatch<Self>;
}

fn token() -> TensorSpec {
    TensorSpec::new(Shape::from([1]), DType::F32)
}

fn after_collecting(
    _: &TensorBatchMetadata,
    _: &TensorBatchMetadata,
    _: &Arc<FlatCall>,
    _: &usize,
) -> TensorSpec {
    token()
}

fn after_update(_: &TensorBatchMetadata, _: &Arc<FlatCall>) -> TensorSpec {
    token()
}

fn parts(_: &TensorSpec, call: &Arc<FlatCall>, first: &usize, count: &usize) -> TensorBatchMetadata {
    TensorBatchMetadata::of_lens(call.group.places.lens().skip(*first).take(*count), DType::F32)
}

fn empty_token(beside: &CubeTensor) -> CubeTensor {
    empty_device_contiguous_dtype(beside.client.clone(), beside.device(), Shape::from([1]), DType::F32)
}

impl FlatUpdateOps for CubeBackend {
    fn collect(
        params: TensorBatch<Self>,
        grads: TensorBatch<Self>,
        call: Arc<FlatCall>,
        first: usize,
    ) -> FloatTensor<Self> {
        let group = &call.group;
        let mut buffers = group.buffers.lock();
        if first == 0 {
            buffers.collected.clear();
        }
        buffers.collected.extend(params.into_tensors());
        let grads = grads.into_tensors();
        let token = empty_token(&grads[0]);
        let to = buffers.grads.get_or_insert_with(|| group.places.empty(&grads[0])).clone();
        gather(group.places.starts().skip(first).zip(grads).collect(), &to);
        token
    }

    fn update_collected(collected: TensorBatch<Self>, call: Arc<FlatCall>) -> FloatTensor<Self> {
        let token = collected.into_tensors().swap_remove(0);
        if let Err(error) = call.launch() {
            call.faults.lock().get_or_insert(Diagnostic::run(error.message.as_str()));
        }
        token
    }

    fn updated_parts(
        _: FloatTensor<Self>,
        call: Arc<FlatCall>,
        first: usize,
        count: usize,
    ) -> TensorBatch<Self> {
        let buffers = call.group.buffers.lock();
        let params = buffers.params.iter();
        params
            .flat_map(|params| (first..first + count).map(|index| call.group.places.part(params, index)))
            .collect()
    }
}

impl FlatCall {
    /// Launches the update.
    fn launch(&self) -> Result<(), PluginError> {
        let group = &self.group;
        let mut buffers = group.buffers.lock();
        let Buffers { params, states, collected, grads } = &mut *buffers;
        let before = params.take();
        let param = &*params.insert(group.collected(std::mem::take(collected), before));
        self.collect_states(states, param);
        let grad = grads.take().unwrap_or_else(|| group.places.empty(param));
        let buffer = |wanted: &KernelBuffer| match wanted.role {
            BufferRole::PARAM => Some(param),
            BufferRole::GRAD => Some(&grad),
            BufferRole::STATE => states.get(wanted.index as usize),
            _ => None,
        };
        let PreparedLaunch { kernels: [four, _], scalars } = &self.launch;
        four.launch(&param.client, cubes(group.places.elements()), scalars, buffer)
    }

    /// Puts the kept states into buffers, if they are no parts of them, and keeps the parts.
    fn collect_states(&self, buffers: &mut Vec<CubeTensor>, beside: &CubeTensor) {
        let device = beside.device();
        let mut kept: Vec<_> = self.kept.iter().map(|kept| kept.lock()).collect();
        for kept in &mut kept {
            let to_come = std::mem::take(&mut kept.to_come);
            let flat = |values: Vec<f32>| upload::<CubeBackend>(&device, Shape::from([values.len()]), values);
            kept.states.extend(to_come.into_iter().map(flat));
        }
        let count = kept.first().map_or(0, |kept| kept.states.len());
        let mut before = std::mem::take(buffers).into_iter();
        for state in 0..count {
            let tensors = kept.iter_mut().map(|kept| kept.states.remove(state)).collect();
            let buffer = self.group.collected(tensors, before.next());
            for (index, kept) in kept.iter_mut().enumerate() {
                kept.states.insert(state, self.group.places.part(&buffer, index));
            }
            buffers.push(buffer);
        }
    }
}

/// The parameters of a group after an update, from the tensors before it and their gradients.
#[must_use]
pub fn update(params: Vec<Tensor<1>>, grads: Vec<Tensor<1>>, call: FlatCall) -> Vec<Tensor<1>> {
    let (count, call) = (params.len(), Arc::new(call));
    let (mut params, mut grads) = (params.into_iter(), grads.into_iter());
    let firsts = (0..count).step_by(MOST);
    let collected: Vec<Tensor<1>> = firsts
        .clone()
        .map(|first| {
            let [params, grads] = [&mut params, &mut grads].map(|tensors| batch(tensors.take(MOST)));
            let token = <Dispatch as FlatUpdateOps>::collect(params, grads, call.clone(), first);
            Tensor::from_dispatch(token)
        })
        .collect();
    let updated = <Dispatch as FlatUpdateOps>::update_collected(batch(collected), call.clone());
    let updated: Tensor<1> = Tensor::from_dispatch(updated);
    let parts = firsts.flat_map(|first| {
        let (updated, count) = (updated.clone().into_dispatch(), MOST.min(count - first));
        unbatched(<Dispatch as FlatUpdateOps>::updated_parts(updated, call.clone(), first, count))
    });
    parts.collect()
}
