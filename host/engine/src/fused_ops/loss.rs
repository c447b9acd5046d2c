//! Mean cross-entropy of logits and targets.

use burn::backend::flex::FlexTensor;
use burn::tensor::{Int, Tensor, TensorData, activation};
#[cfg(feature = "gpu")]
use burn::{backend::TensorMetadata as _, tensor::Shape};
#[cfg(feature = "gpu")]
use burn_cubecl::{CubeBackend, tensor::CubeTensor};
use rayon::prelude::*;

#[cfg(feature = "gpu")]
use super::{
    device::{self, DeviceFunction},
    loss_kernel,
};
use super::{
    function::{CHUNK, CpuFunction, SavedTensors, apply, is_available},
    loops,
};
#[cfg(feature = "gpu")]
use crate::kernel_text::upload;
use crate::{
    tensor::{
        cpu::{elements, flat, from_elements, into_unique, zeros},
        untracked,
    },
    trace::TraceScope,
};

/// Mean of `-log softmax(logits)[target]`, nats: `[1]`. Shapes: logits `[rows, vocab]`, one target per row. Records
/// the logarithms.
#[must_use]
pub fn cross_entropy(logits: Tensor<2>, targets: &[i32], scope: TraceScope<'_>) -> Tensor<1> {
    let shape = logits.dims();
    let function =
        || CrossEntropy { targets: targets.iter().map(|&target| target as usize).collect(), shape };
    if !is_available(&logits.device()) {
        // A trace records the gradient of the logarithms, which the kernels do not have.
        #[cfg(feature = "gpu")]
        if !scope.is_on() {
            return device::apply(logits, [None, None], function());
        }
        return reference(logits, targets, scope);
    }
    let probe = scope.gradient_probe("gradient of log_softmax", &logits.device());
    scope.record_with("log_softmax", || log_softmax(untracked(logits.clone())));
    apply(logits, [probe, None], function())
}

/// Logarithms of the softmax of rows, `[rows, n]`, without a gradient.
pub(super) fn log_softmax(logits: Tensor<2>) -> Tensor<2> {
    if is_available(&logits.device()) {
        apply(logits, [None, None], LogSoftmax)
    } else {
        activation::log_softmax(logits, 1)
    }
}

/// The same as a chain of tensor operations.
fn reference(logits: Tensor<2>, targets: &[i32], scope: TraceScope<'_>) -> Tensor<1> {
    let (device, rows) = (logits.device(), targets.len());
    let log_probs = scope.observe("log_softmax", activation::log_softmax(logits, 1));
    let targets = Tensor::<2, Int>::from_data(TensorData::new(targets.to_vec(), [rows, 1]), &device);
    log_probs.gather(1, targets).mean().neg()
}

/// The mean cross-entropy of logits. The gradient of the second input is that of the logarithms, flat.
#[derive(Debug)]
pub struct CrossEntropy {
    /// The column of each row's target.
    pub targets: Vec<usize>,
    /// `[rows, vocab]` of the logits.
    pub shape: [usize; 2],
}

impl CrossEntropy {
    /// A row's share in the mean.
    fn share(&self) -> f32 {
        1.0 / self.shape[0] as f32
    }
}

/// The cross-entropies of rows of logits, nats. Shapes: logits `[rows, vocab]`, one target per row.
pub(super) fn losses(logits: &[f32], targets: &[usize]) -> Vec<f32> {
    let vocab = logits.len() / targets.len();
    let rows = logits.par_chunks(vocab).zip(targets).with_min_len(CHUNK / vocab);
    rows.map(|(row, &target)| loops::cross_entropy(row, target)).collect()
}

/// As [`losses`]; replaces the logits by the gradient of each loss times `share`.
pub(super) fn losses_and_gradients(logits: &mut [f32], targets: &[usize], share: f32) -> Vec<f32> {
    let vocab = logits.len() / targets.len();
    let rows = logits.par_chunks_mut(vocab).zip(targets).with_min_len(CHUNK / vocab);
    rows.map(|(row, &target)| loops::cross_entropy_and_gradient(row, target, share)).collect()
}

/// The mean of losses: `[1]`.
pub(super) fn mean(losses: &[f32]) -> FlexTensor {
    let sum: f64 = losses.iter().copied().map(f64::from).sum();
    flat(vec![(sum / losses.len() as f64) as f32])
}

impl CpuFunction for CrossEntropy {
    /// Saves the gradient in the memory of the logits, because their exponentials are known here.
    fn forward(&self, [logits, ..]: [FlexTensor; 3], tracked: bool) -> (FlexTensor, SavedTensors) {
        if !tracked {
            return (mean(&losses(elements(&logits), &self.targets)), Vec::new());
        }
        let mut logits = into_unique(logits);
        let losses = losses_and_gradients(logits.storage_mut(), &self.targets, self.share());
        (mean(&losses), vec![logits])
    }

    fn backward(
        &self,
        mut saved: SavedTensors,
        grad: FlexTensor,
        wanted: [bool; 3],
    ) -> [Option<FlexTensor>; 3] {
        let factor = elements(&grad)[0];
        let logits = saved.pop().map(|gradient| scale_gradient(gradient, factor));
        let logarithms = wanted[1].then(|| {
            let [rows, vocab] = self.shape;
            let mut gradient = zeros(rows * vocab);
            for (row, target) in gradient.chunks_exact_mut(vocab).zip(&self.targets) {
                row[*target] = -self.share() * factor;
            }
            flat(gradient)
        });
        [logits, logarithms, None]
    }
}

#[cfg(feature = "gpu")]
impl DeviceFunction for CrossEntropy {
    fn inputs(&self) -> usize {
        1
    }

    fn reads_padded_rows(&self) -> bool {
        true
    }

    fn shapes(&self, [logits, ..]: [&Shape; 3]) -> [Shape; 2] {
        [Shape::from([1]), logits.clone()]
    }

    /// Saves the gradient, because the exponentials are known here.
    fn forward(&self, [logits, ..]: [CubeTensor; 3], outputs: [CubeTensor; 2], tracked: bool) {
        let ids: Vec<f32> = self.targets.iter().map(|&target| f32::from_bits(target as u32)).collect();
        let targets = upload::<CubeBackend>(&logits.device(), Shape::from([ids.len()]), ids);
        loss_kernel::cross_entropy(logits, targets, outputs, tracked);
    }

    fn backward(&self, _: [CubeTensor; 3], saved: CubeTensor, grad: CubeTensor, [to, ..]: [CubeTensor; 3]) {
        loss_kernel::multiply(saved, grad, to);
    }
}

/// A saved gradient times `factor`.
pub(super) fn scale_gradient(gradient: FlexTensor, factor: f32) -> FlexTensor {
    let mut gradient = into_unique(gradient);
    if factor != 1.0 {
        gradient.storage_mut::<f32>().par_chunks_mut(CHUNK).for_each(|part| loops::scale(part, factor));
    }
    gradient
}

/// Logarithms of the softmax of rows `[rows, n]`. It has no backward pass.
#[derive(Debug)]
struct LogSoftmax;

impl CpuFunction for LogSoftmax {
    fn forward(&self, [logits, ..]: [FlexTensor; 3], _: bool) -> (FlexTensor, SavedTensors) {
        let (shape, mut values) = (logits.layout().shape().clone(), elements(&logits).to_vec());
        values.par_chunks_mut(shape[1].max(1)).for_each(loops::log_softmax);
        (from_elements(values, shape), Vec::new())
    }

    fn backward(&self, _: SavedTensors, _: FlexTensor, _: [bool; 3]) -> [Option<FlexTensor>; 3] {
        [None, None, None]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fused_ops::testing::compare, tensor::testing::numbers};

    #[test]
    fn results_and_gradients_are_those_of_the_reference() {
        for [rows, vocab] in [[1, 1], [3, 5], [70, 300], [2, 40_000]] {
            let logits: Vec<f32> = numbers(1, rows * vocab).into_iter().map(|x| 8.0 * x).collect();
            let targets: Vec<i32> = (0..rows).map(|row| (row * 7919 % vocab) as i32).collect();
            let of = |op: fn(Tensor<2>, &[i32], TraceScope<'_>) -> Tensor<1>| {
                let targets = targets.clone();
                move |[x]: [Tensor<1>; 1]| op(x.reshape([rows, vocab]), &targets, TraceScope::OFF)
            };
            compare(&[logits], 3e-6, of(cross_entropy), of(reference));
        }
    }
}
