//! Clipping by the global norm: one norm over all parameters, as in PyTorch's `clip_grad_norm_`.

use burn::tensor::Tensor;

use crate::{cpu_ops, metrics::gradients::Moments};

/// Keeps the coefficient finite for a zero norm, and equal to PyTorch's.
const EPS: f64 = 1e-6;

/// The gradients' norm before and after clipping.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GradNorm {
    /// Global L2 norm before.
    pub before: f64,
    /// Global L2 norm after.
    pub after: f64,
}

impl GradNorm {
    /// The norms of gradients that are not clipped.
    #[must_use]
    pub fn unclipped(moments: &[Moments]) -> Self {
        let before = moments.iter().map(Moments::square).sum::<f64>().sqrt();
        Self { before, after: before }
    }

    /// The factor by which the gradients were multiplied.
    #[must_use]
    pub fn factor(&self) -> f64 {
        if self.before.is_nan() || self.after == self.before { 1.0 } else { self.after / self.before }
    }
}

/// Scales all gradients by `min(1, limit / (norm + 1e-6))`; a `limit` of 0 scales nothing.
#[must_use]
pub fn by_global_norm(grads: &mut [Tensor<1>], moments: &[Moments], limit: f64) -> GradNorm {
    let unclipped = GradNorm::unclipped(moments);
    let before = unclipped.before;
    let coefficient = limit / (before + EPS);
    // With a NaN norm the gradients stay as they are, and the step reports the NaN.
    if limit == 0.0 || coefficient.is_nan() || coefficient >= 1.0 {
        return unclipped;
    }
    for grad in grads {
        // Taken out, so that it has one owner and is scaled in place.
        let whole = std::mem::replace(grad, Tensor::empty([0], &grad.device()));
        *grad = cpu_ops::scale::scaled(whole, coefficient as f32);
    }
    // Of an infinite norm nothing is left, as in PyTorch.
    GradNorm { before, after: if before.is_finite() { before * coefficient } else { 0.0 } }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{device::ComputeDevice, metrics::gradients, read_back::ReadBack, tensor};

    fn clipped(limit: f64) -> (GradNorm, Vec<f32>) {
        let device = ComputeDevice::cpu().tensors;
        let mut grads = [tensor::flat(vec![3.0], &device), tensor::flat(vec![0.0, 4.0], &device)];
        let mut read_back = ReadBack::default();
        let asked = gradients::ask_moments(&grads, &mut read_back);
        let moments = gradients::moments(&asked, &read_back.read().unwrap()).unwrap();
        let norm = by_global_norm(&mut grads, &moments, limit);
        (norm, grads.into_iter().flat_map(|grad| tensor::read_f32(grad).unwrap()).collect())
    }

    #[test]
    fn one_norm_over_all_tensors() {
        let (norm, grads) = clipped(1.0);
        assert_eq!(norm.before, 5.0);
        assert!((norm.after - 1.0).abs() < 1e-6 && (norm.factor() - 0.2).abs() < 1e-6);
        assert!((grads[0] - 0.6).abs() < 1e-6 && (grads[2] - 0.8).abs() < 1e-6);
    }

    #[test]
    fn small_gradients_and_no_limit_change_nothing() {
        assert_eq!(clipped(10.0).1, [3.0, 0.0, 4.0]);
        assert_eq!(clipped(0.0).1, [3.0, 0.0, 4.0]);
        assert_eq!(clipped(0.0).0.factor(), 1.0);
        assert_eq!(GradNorm { before: f64::INFINITY, after: 0.0 }.factor(), 0.0);
        assert_eq!(GradNorm { before: f64::NAN, after: f64::NAN }.factor(), 1.0);
    }
}
