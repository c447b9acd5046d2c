//! Tensors in main memory as slices of their elements.

use burn::backend::flex::{FlexTensor, Layout};
use burn::tensor::{Bytes, Element, Shape};

/// A contiguous tensor with these elements, row-major.
pub(crate) fn from_elements<E: Element>(values: Vec<E>, shape: Shape) -> FlexTensor {
    FlexTensor::new(Bytes::from_elems(values), Layout::contiguous(shape), E::dtype())
}

/// A tensor `[n]` with these elements.
pub(crate) fn flat(values: Vec<f32>) -> FlexTensor {
    let len = values.len();
    from_elements(values, Shape::from([len]))
}

/// The elements of a contiguous f32 tensor, row-major.
pub(crate) fn elements(x: &FlexTensor) -> &[f32] {
    let Some(elements) = x.as_slice::<f32>() else { unreachable!("the host makes f32 tensors only") };
    elements
}

/// True if a tensor is all of its buffer, in order, and no other tensor shares the buffer.
pub(crate) fn owns_buffer(x: &FlexTensor) -> bool {
    let whole = x.bytes().len() == size_of::<f32>() * x.layout().num_elements();
    whole && x.is_contiguous() && x.is_unique()
}

/// The tensor in an unshared buffer: its own buffer if that is unshared, else a copy.
pub(crate) fn into_unique(x: FlexTensor) -> FlexTensor {
    if owns_buffer(&x) {
        return x;
    }
    from_elements(elements(&x).to_vec(), x.layout().shape().clone())
}

/// A vector of `len` zeros.
pub(crate) fn zeros(len: usize) -> Vec<f32> {
    vec![0.0; len]
}
