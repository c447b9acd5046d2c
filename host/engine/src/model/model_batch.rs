//! A batch as the model reads it: token ids on the host, or on a device already.

use altgrad_data::Batch;
use burn::tensor::{Device, Int, Tensor, TensorData};

use crate::fused_ops::loss::{TargetTensors, Targets};

/// A batch, and its tensors if they are on a device.
#[derive(Debug, Clone)]
pub struct ModelBatch {
    /// The token ids.
    pub batch: Batch,
    tensors: Option<BatchTensors>,
}

/// The token ids of a batch on a GPU, outside of any autodiff graph.
#[derive(Debug, Clone)]
pub struct BatchTensors {
    /// `[batch, block]`.
    pub inputs: Tensor<2, Int>,
    /// An id per row.
    pub targets: TargetTensors,
}

impl From<Batch> for ModelBatch {
    /// The model transfers it.
    fn from(batch: Batch) -> Self {
        Self { batch, tensors: None }
    }
}

impl ModelBatch {
    /// A batch that is on a device.
    #[must_use]
    pub fn on_device(batch: Batch, tensors: BatchTensors) -> Self {
        Self { batch, tensors: Some(tensors) }
    }

    /// The ids that the model sees, on a device: `[batch, block]`.
    #[must_use]
    pub fn inputs(&self, device: &Device) -> Tensor<2, Int> {
        match &self.tensors {
            Some(tensors) if device.is_autodiff() => Tensor::from_inner(tensors.inputs.clone()),
            Some(tensors) => tensors.inputs.clone(),
            None => Tensor::from_data(TensorData::new(self.batch.inputs.clone(), self.batch.shape), device),
        }
    }

    /// The ids that follow.
    #[must_use]
    pub fn targets(&self) -> Targets<'_> {
        Targets { ids: &self.batch.targets, tensors: self.tensors.as_ref().map(|tensors| &tensors.targets) }
    }
}
