//! Several flat tensors as operands of one operation, so that a GPU needs one launch for all of them.

use burn::backend::{Backend, Dispatch, ExtensionType, tensor::FloatTensor};
use burn::tensor::Tensor;
#[cfg(feature = "gpu")]
use burn::{
    backend::fusion::custom::TensorSpec,
    tensor::{DType, Shape},
};

/// Most tensors of an operation.
pub const MOST: usize = 16;

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
    #[extension_type]
    i: Place<B>,
    #[extension_type]
    j: Place<B>,
    #[extension_type]
    k: Place<B>,
    #[extension_type]
    l: Place<B>,
    #[extension_type]
    m: Place<B>,
    #[extension_type]
    n: Place<B>,
    #[extension_type]
    o: Place<B>,
    #[extension_type]
    p: Place<B>,
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
        let [a, b, c, d, e, f, g, h] = std::array::from_fn(|_| next());
        let [i, j, k, l, m, n, o, p] = std::array::from_fn(|_| next());
        Self { a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p }
    }
}

impl<B: Backend> TensorBatch<B> {
    /// The tensors, in order.
    #[must_use]
    pub fn into_tensors(self) -> Vec<FloatTensor<B>> {
        let Self { a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p } = self;
        let tensor = |place| match place {
            Place::Empty => None,
            Place::Tensor(tensor) => Some(tensor),
        };
        [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p].into_iter().filter_map(tensor).collect()
    }
}

#[cfg(feature = "gpu")]
impl TensorBatchMetadata {
    /// The number of elements of each tensor.
    pub(crate) fn lens(&self) -> impl Iterator<Item = usize> {
        let Self { a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p } = self;
        [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p].into_iter().filter_map(|place| match place {
            PlaceMetadata::Empty => None,
            PlaceMetadata::Tensor(spec) => Some(spec.shape.num_elements()),
        })
    }

    /// A batch of flat tensors of these lengths.
    pub(crate) fn of_lens(lens: impl IntoIterator<Item = usize>, dtype: DType) -> Self {
        let mut lens = lens.into_iter();
        let mut next = || {
            lens.next().map_or(PlaceMetadata::Empty, |len| {
                PlaceMetadata::Tensor(TensorSpec::new(Shape::from([len]), dtype))
            })
        };
        let [a, b, c, d, e, f, g, h] = std::array::from_fn(|_| next());
        let [i, j, k, l, m, n, o, p] = std::array::from_fn(|_| next());
        Self { a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p }
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
