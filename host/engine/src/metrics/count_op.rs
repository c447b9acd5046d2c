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
    count_kernel,
    element_memory::ElementMemory,
    update_counts::{Counting, WORDS},
};
use crate::kernel_text::{cubes, download, upload};

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
    fn words(&self, elements: usize, upload: impl Fn(Vec<f32>) -> CubeTensor) -> CubeTensor {
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

/// One counting.
#[derive(Debug)]
pub struct CountCall {
    /// What is counted.
    pub counting: Counting,
    /// The memory of the parameter.
    pub memory: CountMemory,
}

/// The operation, for burn's backends.
#[backend_extension(Cube, Fusion)]
pub trait CountOps: Backend {
    /// The words of an update, as bit patterns of f32, and its sums. All inputs are `[n]`.
    #[fusion(meta = counted)]
    fn count_update(
        before: FloatTensor<Self>,
        after: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        call: Arc<CountCall>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);
}

fn counted(
    before: &TensorSpec,
    _: &TensorSpec,
    _: &TensorSpec,
    _: &Arc<CountCall>,
) -> (TensorSpec, TensorSpec) {
    let float = |len| TensorSpec::new(Shape::from([len]), DType::F32);
    (float(WORDS), float(cubes(before.shape.num_elements())))
}

impl CountOps for CubeBackend {
    fn count_update(
        before: FloatTensor<Self>,
        after: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        call: Arc<CountCall>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let tensors = [before, after, grad].map(into_contiguous);
        let [before, ..] = &tensors;
        let (elements, device) = (before.shape().num_elements(), before.device());
        let flat = |values: Vec<f32>| upload::<Self>(&device, Shape::from([values.len()]), values);
        let sums = Shape::from([cubes(elements)]);
        let sums = empty_device_contiguous_dtype(before.client.clone(), device.clone(), sums, DType::F32);
        let words = flat(vec![0.0; WORDS]);
        let memory =
            if call.counting.remembers() { call.memory.words(elements, flat) } else { flat(vec![0.0; 4]) };
        count_kernel::launch(tensors, call.counting, memory, words.clone(), sums.clone());
        (words, sums)
    }
}

/// Counts an update: its words, as bit patterns, and its sums. The tensors are before, after, and the gradient: `[n]`
/// each, on a GPU.
#[must_use]
pub fn count_update(
    [before, after, grad]: [Tensor<1>; 3],
    counting: Counting,
    memory: CountMemory,
) -> [Tensor<1>; 2] {
    let [before, after, grad] = [before, after, grad].map(Tensor::into_dispatch);
    let call = Arc::new(CountCall { counting, memory });
    let (words, sums) = <Dispatch as CountOps>::count_update(before, after, grad, call);
    [words, sums].map(Tensor::from_dispatch)
}
