//! Mean cross-entropy of logits and targets.

use burn::backend::flex::FlexTensor;
#[cfg(feature = "gpu")]
use burn::tensor::Shape;
use burn::tensor::{Device, Int, Tensor, TensorData, activation};
#[cfg(feature = "gpu")]
use burn_cubecl::tensor::CubeTensor;
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
use crate::tensor;
use crate::{
    tensor::{
        cpu::{elements, flat, from_elements, into_unique, zeros},
        untracked,
    },
    trace::TraceScope,
};

/// The target of each row of logits.
#[derive(Debug, Clone, Copy)]
pub struct Targets<'a> {
    /// Token ids.
    pub ids: &'a [i32],
    /// The same on a GPU, if they are there already.
    pub tensors: Option<&'a TargetTensors>,
}

/// Targets on a GPU, outside of any autodiff graph.
#[derive(Debug, Clone)]
pub struct TargetTensors {
    /// The bits of the ids, `[rows]`.
    pub bits: Tensor<1>,
    /// The ids, `[rows, 1]`.
    pub ids: Tensor<2, Int>,
}

impl<'a> From<&'a [i32]> for Targets<'a> {
    /// On the host.
    fn from(ids: &'a [i32]) -> Self {
        Self { ids, tensors: None }
    }
}

impl Targets<'_> {
    /// The bits of the ids on a device, `[rows]`.
    #[cfg(feature = "gpu")]
    fn bits(&self, device: &Device) -> Tensor<1> {
        match self.tensors {
            Some(TargetTensors { bits, .. }) if device.is_autodiff() => Tensor::from_inner(bits.clone()),
            Some(TargetTensors { bits, .. }) => bits.clone(),
            None => tensor::flat(self.ids.iter().map(|id| f32::from_bits(*id as u32)).collect(), device),
        }
    }

    /// The ids on a device, `[rows, 1]`.
    pub(super) fn ids(&self, device: &Device) -> Tensor<2, Int> {
        match self.tensors {
            Some(TargetTensors { ids, .. }) if device.is_autodiff() => Tensor::from_inner(ids.clone()),
            Some(TargetTensors { ids, .. }) => ids.clone(),
            None => Tensor::from_data(TensorData::new(self.ids.to_vec(), [self.ids.len(), 1]), device),
        }
    }
}

/// Mean of `-log softmax(logits)[target]`, nats: `[1]`. Shapes: logits `[rows, vocab]`, one target per row. Records
/// the logarithms.
#[must_use]
pub fn cross_entropy(logits: Tensor<2>, targets: Targets<'_>, scope: TraceScope<'_>) -> Tensor<1> {
    let (shape, ids) = (logits.dims(), targets.ids);
    let function = || CrossEntropy { targets: ids.iter().map(|&target| target as usize).collect(), shape };
    if !is_available(&logits.device()) {
        // A trace records the gradient of the logarithms, which the kernels do not have.
        #[cfg(feature = "gpu")]
        if !scope.is_on() {
            let targets = targets.bits(&logits.device());
            return device::apply(logits, [Some(targets), None], function());
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
fn reference(logits: Tensor<2>, targets: Targets<'_>, scope: TraceScope<'_>) -> Tensor<1> {
    let targets = targets.ids(&logits.device());
    let log_probs = scope.observe("log_softmax", activation::log_softmax(logits, 1));
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

/// The second input are the bits of the targets; their gradient has no meaning.
#[cfg(feature = "gpu")]
impl DeviceFunction for CrossEntropy {
    fn inputs(&self) -> usize {
        2
    }

    fn reads_padded_rows(&self) -> bool {
        true
    }

    fn shapes(&self, [logits, ..]: [&Shape; 3]) -> [Shape; 2] {
        [Shape::from([1]), logits.clone()]
    }

    /// Saves the gradient, because the exponentials are known here.
    fn forward(&self, [logits, targets, _]: [CubeTensor; 3], outputs: [CubeTensor; 2], tracked: bool) {
        loss_kernel::cross_entropy(logits, targets, outputs, tracked);
    }

    fn saves_gradient(&self) -> bool {
        true
    }

    fn backward(&self, _: [CubeTensor; 3], _: CubeTensor, grad: CubeTensor, [to, ..]: [CubeTensor; 3]) {
        loss_kernel::multiply(to, grad);
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
            let of = |op: fn(Tensor<2>, Targets<'_>, TraceScope<'_>) -> Tensor<1>| {
                let targets = targets.clone();
                move |[x]: [Tensor<1>; 1]| op(x.reshape([rows, vocab]), targets[..].into(), TraceScope::OFF)
            };
            compare(&[logits], 3e-6, of(cross_entropy), of(reference));
        }
    }
}
