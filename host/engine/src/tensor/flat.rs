//! One-dimensional tensors made from a vector and read back into one.

use altgrad_base::diagnostic::Diagnostic;
use burn::tensor::{Device, Tensor, TensorData};

use crate::device_faults;

/// A tensor `[n]` with these values.
#[must_use]
pub fn flat(values: Vec<f32>, device: &Device) -> Tensor<1> {
    let len = values.len();
    Tensor::from_data(TensorData::new(values, [len]), device)
}

/// The elements of a tensor `[n]`. Synchronises with the device once. On the CPU nothing is copied if the tensor is not
/// shared.
///
/// # Errors
/// [`Fault::Device`](altgrad_base::diagnostic::Fault::Device): the device failed.
pub fn read_f32(tensor: Tensor<1>) -> Result<Vec<f32>, Diagnostic> {
    let failed = |error: String| device_faults::failed("a tensor was not read", error);
    tracing::debug!("read back: {} elements", tensor.shape().num_elements());
    let data = tensor.try_into_data();
    device_faults::check()?;
    let data = data.map_err(|error| failed(error.to_string()))?;
    data.try_into_vec::<f32>().map_err(|error| failed(format!("{error:?}")))
}

/// The same values outside of any autodiff graph.
#[must_use]
pub fn untracked<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    if tensor.device().is_autodiff() { tensor.inner() } else { tensor }
}
