//! The inputs of recorded passes on a GPU: parameters, token ids and the host's words of a step in buffers of their
//! own, which every replay reads at the same places.

use std::sync::Arc;

use altgrad_data::Batch;
use burn::backend::{
    Backend, Dispatch, backend_extension,
    fusion::custom::TensorSpec,
    tensor::{FloatTensor, IntTensor},
};
use burn::tensor::{DType, Shape, Tensor};
use burn_cubecl::{CubeBackend, CubeDevice, tensor::CubeTensor};
use parking_lot::Mutex;

use crate::{
    fused_ops::loss::TargetTensors,
    model::{BatchTensors, ModelBatch},
    tensor::{
        batch::{MOST, TensorBatch, TensorBatchMetadata, batch, unbatched},
        flat,
        flat_places::{FlatPlaces, ends_of_buffers, most_elements},
        gather_kernel::gather,
    },
};

/// A buffer of some inputs.
#[derive(Debug)]
pub struct InputBuffer {
    places: FlatPlaces,
    /// Allocated by the first copy.
    buffer: Mutex<Option<CubeTensor>>,
}

/// The operations, for burn's backends.
#[backend_extension(Cube, Fusion)]
pub trait InputOps: Backend {
    /// Copies tensors to their places in a buffer, from number `first` on, whoever uses it; returns its parts.
    #[fusion(meta = parts)]
    fn copy_inputs(
        #[extension_type] tensors: TensorBatch<Self>,
        to: Arc<InputBuffer>,
        first: usize,
    ) -> TensorBatch<Self>;

    /// The same memory as numbers whose bits are in it. Shape: `shape`.
    #[fusion(meta = ids)]
    fn bits_as_ids(bits: FloatTensor<Self>, shape: [usize; 2]) -> IntTensor<Self>;
}

fn parts(tensors: &TensorBatchMetadata, _: &Arc<InputBuffer>, _: &usize) -> TensorBatchMetadata {
    TensorBatchMetadata::of_lens(tensors.lens(), DType::F32)
}

fn ids(_: &TensorSpec, shape: &[usize; 2]) -> TensorSpec {
    TensorSpec::new(Shape::from(*shape), DType::I32)
}

impl InputOps for CubeBackend {
    fn copy_inputs(tensors: TensorBatch<Self>, to: Arc<InputBuffer>, first: usize) -> TensorBatch<Self> {
        let tensors = tensors.into_tensors();
        let mut buffer = to.buffer.lock();
        let buffer = buffer.get_or_insert_with(|| to.places.empty(&tensors[0]));
        let parts = first..first + tensors.len();
        gather(to.places.starts().skip(first).zip(tensors).collect(), buffer);
        parts.map(|index| to.places.part(buffer, index)).collect()
    }

    fn bits_as_ids(bits: FloatTensor<Self>, shape: [usize; 2]) -> IntTensor<Self> {
        let CubeTensor { client, device, handle, .. } = bits;
        CubeTensor::new_contiguous(client, device, Shape::from(shape), handle, DType::I32)
    }
}

/// Inputs in their buffers. They are kept until the launches that read them are queued: a copy whose result is dropped
/// before may be left out.
#[derive(Debug)]
pub struct FilledInputs {
    /// The parameters.
    pub(super) params: Vec<Tensor<1>>,
    /// The batches.
    pub(super) batches: Vec<ModelBatch>,
    _rest: Vec<Tensor<1>>,
}

/// The buffers of a recording's inputs.
#[derive(Debug)]
pub struct RecordingInputs {
    /// Of some inputs each, in order.
    buffers: Vec<(usize, Arc<InputBuffer>)>,
}

impl RecordingInputs {
    /// Buffers for tensors of these lengths.
    fn new(lens: &[usize], device: &CubeDevice) -> Self {
        let mut first = 0;
        let buffer = |end: usize| {
            let places = FlatPlaces::new(&lens[std::mem::replace(&mut first, end)..end]);
            (end, Arc::new(InputBuffer { places, buffer: Mutex::default() }))
        };
        let ends = ends_of_buffers(lens, most_elements(&device.client()), usize::MAX);
        Self { buffers: ends.into_iter().map(buffer).collect() }
    }

    /// Buffers for parameters, batches and words of a step like these.
    pub(super) fn of(params: &[Tensor<1>], batches: &[Batch], words: usize, device: &CubeDevice) -> Self {
        let ids = batches.iter().flat_map(|batch| [batch.inputs.len(), batch.targets.len()]);
        let lens: Vec<usize> = params.iter().map(|x| x.dims()[0]).chain(ids).chain([words]).collect();
        Self::new(&lens, device)
    }

    /// The words of a step in their buffer. Call it after the operations of [`Self::fill`].
    pub(super) fn words(&self) -> Option<CubeTensor> {
        let (_, last) = self.buffers.last()?;
        let index = last.places.lens().count() - 1;
        last.buffer.lock().as_ref().map(|buffer| last.places.part(buffer, index))
    }

    /// Copies parameters, batches and the words of a step into the buffers.
    pub(super) fn fill(&self, params: &[Tensor<1>], batches: &[Batch], words: Vec<f32>) -> FilledInputs {
        let device = params[0].device();
        let bits = |ids: &Vec<i32>| flat(ids.iter().map(|id| f32::from_bits(*id as u32)).collect(), &device);
        let ids = batches.iter().flat_map(|batch| [bits(&batch.inputs), bits(&batch.targets)]);
        let mut tensors = params.iter().cloned().chain(ids).chain([flat(words, &device)]);
        let (mut copies, mut begin) = (Vec::new(), 0);
        for (end, buffer) in &self.buffers {
            for first in (begin..*end).step_by(MOST) {
                let some = batch(tensors.by_ref().take(MOST.min(end - first)));
                let (to, first) = (buffer.clone(), first - begin);
                copies.extend(unbatched(<Dispatch as InputOps>::copy_inputs(some, to, first)));
            }
            begin = *end;
        }
        let rest = copies.split_off(params.len());
        let batches = batches.iter().zip(rest.chunks_exact(2)).map(|(batch, ids)| {
            let numbers = |bits: &Tensor<1>, shape| {
                let bits = bits.clone().into_dispatch();
                Tensor::from_dispatch(<Dispatch as InputOps>::bits_as_ids(bits, shape))
            };
            let rows = numbers(&ids[1], [batch.targets.len(), 1]);
            let targets = TargetTensors { bits: ids[1].clone(), ids: rows };
            let tensors = BatchTensors { inputs: numbers(&ids[0], batch.shape), targets };
            ModelBatch::on_device(batch.clone(), tensors)
        });
        FilledInputs { batches: batches.collect(), params: copies, _rest: rest }
    }
}
