//! Counting of an update as an operation on a device: the engine's own kernel, after the update and its rounding.

use std::sync::Arc;

use burn::backend::{
    Backend, Dispatch, TensorMetadata, backend_extension, fusion::custom::TensorSpec, tensor::FloatTensor,
};
use burn::tensor::{DType, Shape, Tensor};
use burn_cubecl::{
    CubeBackend, kernel::into_contiguous, ops::numeric::empty_device_contiguous_dtype, tensor::CubeTensor,
};
use parking_lot::Mutex;

use super::{
    count_kernel::{self, CountedUpdate},
    element_memory::ElementMemory,
    update_counts::{Counting, WORDS},
};
use crate::{
    kernel_text::{cubes, download, upload},
    tensor::batch::{TensorBatch, TensorBatchMetadata, batch},
    zero_words::zero_words,
};

/// The memory of a parameter on a device from update to update: the words of an [`ElementMemory`], initially zero.
#[derive(Debug, Clone, Default)]
pub struct CountMemory(Arc<Mutex<Option<Words>>>);

#[derive(Debug)]
enum Words {
    /// Not transferred yet.
    ToCome(Vec<u32>),
    /// `[n]`: bit patterns of f32.
    OnDevice(Box<CubeTensor>),
}

impl CountMemory {
    /// Continues from this memory.
    pub fn restore(&self, memory: &ElementMemory) {
        *self.0.lock() = memory.words().map(Words::ToCome);
    }

    /// Reads the memory back, after the operations that write it; `None` before the first one.
    ///
    /// # Errors
    /// The device's error.
    pub fn read(&self) -> Result<Option<ElementMemory>, String> {
        let words = match &*self.0.lock() {
            None => return Ok(None),
            Some(Words::ToCome(words)) => words.clone(),
            Some(Words::OnDevice(words)) => {
                download::<CubeBackend>((**words).clone())?.into_iter().map(f32::to_bits).collect()
            }
        };
        Ok(Some(ElementMemory::of_words(&words)))
    }

    /// The words of `elements` on the device, to which `upload` transfers them the first time.
    fn words(&self, elements: usize, upload: impl FnOnce(Vec<f32>) -> CubeTensor) -> CubeTensor {
        let mut memory = self.0.lock();
        let words = match memory.take() {
            None => upload(vec![0.0; elements]),
            Some(Words::ToCome(words)) => upload(words.into_iter().map(f32::from_bits).collect()),
            Some(Words::OnDevice(words)) => *words,
        };
        *memory = Some(Words::OnDevice(Box::new(words.clone())));
        words
    }
}

/// The counting of some updates.
#[derive(Debug)]
pub struct CountCall {
    /// What is counted of each, and the memory of its parameter.
    pub updates: Vec<(Counting, CountMemory)>,
}

/// The operation, for burn's backends.
#[backend_extension(Cube, Fusion)]
pub trait CountOps: Backend {
    /// The words of each update, as bit patterns of f32, and the sums of each. All inputs are `[n]`.
    #[fusion(meta = counted)]
    fn count_updates(
        #[extension_type] before: TensorBatch<Self>,
        #[extension_type] after: TensorBatch<Self>,
        #[extension_type] grads: TensorBatch<Self>,
        call: Arc<CountCall>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);
}

fn counted(
    before: &TensorBatchMetadata,
    _: &TensorBatchMetadata,
    _: &TensorBatchMetadata,
    call: &Arc<CountCall>,
) -> (TensorSpec, TensorSpec) {
    let float = |len| TensorSpec::new(Shape::from([len]), DType::F32);
    (float(WORDS * call.updates.len()), float(before.lens().map(cubes).sum()))
}

impl CountOps for CubeBackend {
    fn count_updates(
        before: TensorBatch<Self>,
        after: TensorBatch<Self>,
        grads: TensorBatch<Self>,
        call: Arc<CountCall>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let [before, after, grads] = [before, after, grads]
            .map(|batch| batch.into_tensors().into_iter().map(into_contiguous).collect::<Vec<_>>());
        let (client, device) = (before[0].client.clone(), before[0].device());
        let empty = |len| {
            empty_device_contiguous_dtype(client.clone(), device.clone(), Shape::from([len]), DType::F32)
        };
        let flat = |values: Vec<f32>| upload::<Self>(&device, Shape::from([values.len()]), values);
        let sums = empty(before.iter().map(|x| cubes(x.shape().num_elements())).sum());
        let words = zero_words(&device, WORDS * call.updates.len());
        let tensors = before.into_iter().zip(after).zip(grads).map(|((a, b), g)| [a, b, g]);
        let updates = tensors.zip(&call.updates).map(|(tensors, (counting, memory))| {
            let elements = tensors[0].shape().num_elements();
            let memory = if counting.remembers() { memory.words(elements, flat) } else { empty(4) };
            CountedUpdate { tensors, memory, counting: *counting }
        });
        count_kernel::launch(&updates.collect::<Vec<_>>(), &words, &sums);
        (words, sums)
    }
}

/// Counts at most [`MOST`](crate::tensor::batch::MOST) updates: the words of each, as bit patterns, and the sums of
/// each. The tensors are before, after, and the gradient: `[n]` each, on a GPU.
#[must_use]
pub fn count_updates(tensors: Vec<[Tensor<1>; 3]>, call: CountCall) -> [Tensor<1>; 2] {
    let of = |index: usize| batch(tensors.iter().map(|update| update[index].clone()));
    let [before, after, grads] = [of(0), of(1), of(2)];
    let (words, sums) = <Dispatch as CountOps>::count_updates(before, after, grads, Arc::new(call));
    [words, sums].map(Tensor::from_dispatch)
}
