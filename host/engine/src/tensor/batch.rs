//! Several flat tensors as operands of one operation, so that a GPU needs one launch for all of them.

use burn::backend::{Backend, Dispatch, ExtensionType, tensor::FloatTensor};
use burn::tensor::Tensor;

/// Most tensors of an operation.
pub const MOST: usize = 8;

/// Up to [`MOST`] tensors `[n]`, of any lengths.
#[derive(Debug, ExtensionType)]
#[extension_type(fusion: cfg(feature = "gpu"))]
pub struct TensorBatch<B: Backend> {
    #[extension_type]
    a: Place<B>,
    #[extension_type]
    b: Place<B>,
    #[extension_type]
    c: Place<B>,
    #[extension_type]
    d: Place<B>,
    #[extension_type]
    e: Place<B>,
    #[extension_type]
    f: Place<B>,
    #[extension_type]
    g: Place<B>,
    #[extension_type]
    h: Place<B>,
}

/// A place of a batch.
#[derive(Debug, ExtensionType)]
#[extension_type(fusion: cfg(feature = "gpu"))]
pub enum Place<B: Backend> {
    /// No tensor.
    Empty,
    /// A tensor.
    Tensor(FloatTensor<B>),
}

impl<B: Backend> FromIterator<FloatTensor<B>> for TensorBatch<B> {
    fn from_iter<T: IntoIterator<Item = FloatTensor<B>>>(tensors: T) -> Self {
        let mut tensors = tensors.into_iter();
        let mut next = || tensors.next().map_or(Place::Empty, Place::Tensor);
        Self { a: next(), b: next(), c: next(), d: next(), e: next(), f: next(), g: next(), h: next() }
    }
}

impl<B: Backend> TensorBatch<B> {
    /// The tensors, in order.
    #[must_use]
    pub fn into_tensors(self) -> Vec<FloatTensor<B>> {
        let Self { a, b, c, d, e, f, g, h } = self;
        let tensor = |place| match place {
            Place::Empty => None,
            Place::Tensor(tensor) => Some(tensor),
        };
        [a, b, c, d, e, f, g, h].into_iter().filter_map(tensor).collect()
    }
}

#[cfg(feature = "gpu")]
impl TensorBatchMetadata {
    /// The number of elements of each tensor.
    pub(crate) fn lens(&self) -> impl Iterator<Item = usize> {
        let Self { a, b, c, d, e, f, g, h } = self;
        [a, b, c, d, e, f, g, h].into_iter().filter_map(|place| match place {
            PlaceMetadata::Empty => None,
            PlaceMetadata::Tensor(spec) => Some(spec.shape.num_elements()),
        })
    }
}

/// A batch of at most [`MOST`] tensors.
pub(crate) fn batch(tensors: impl IntoIterator<Item = Tensor<1>>) -> TensorBatch<Dispatch> {
    tensors.into_iter().map(Tensor::into_dispatch).collect()
}

/// The tensors of a batch.
#[cfg(feature = "gpu")]
pub(crate) fn unbatched(batch: TensorBatch<Dispatch>) -> impl Iterator<Item = Tensor<1>> {
    batch.into_tensors().into_iter().map(Tensor::from_dispatch)
}
