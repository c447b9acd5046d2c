//! Inputs of the families' tests, and the values of their records.

use altgrad_config::ModelSection;
use burn::tensor::Tensor;

use super::MetricRecord;
use crate::{
    device::ComputeDevice,
    model::{GptShape, Layout},
    tensor,
};

/// The embeddings of a small model.
pub(super) fn layout() -> Layout {
    let mut layout = Layout::new(&GptShape::new(&ModelSection::default(), 8, 10));
    layout.specs.truncate(2);
    layout
}

pub(super) fn flat(values: &[f32]) -> Tensor<1> {
    tensor::flat(values.to_vec(), &ComputeDevice::cpu().tensors)
}

/// The value of the metric of this name.
pub(super) fn value(row: &MetricRecord, name: &str) -> Option<f64> {
    row.values.iter().find(|(id, _)| id.to_string() == name).map(|(_, value)| *value)
}
