//! Clipping of gradients before the update, for all optimizers alike: by value, and then by one norm over all
//! parameters, as PyTorch's `clip_grad_value_` and `clip_grad_norm_`.

use altgrad_base::diagnostic::Diagnostic;
use altgrad_config::TrainSection;
use burn::tensor::Tensor;

use crate::{
    fused_ops,
    metrics::gradients::{self, GradientSums},
    read_back::ReadBack,
};

/// Keeps the coefficient finite for a zero norm, and equal to PyTorch's.
const EPS: f64 = 1e-6;

/// The limits of a run; 0 disables a limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClipLimits {
    /// Largest magnitude of an element.
    pub value: f64,
    /// Largest global L2 norm.
    pub norm: f64,
}

impl From<&TrainSection> for ClipLimits {
    fn from(train: &TrainSection) -> Self {
        Self { value: train.grad_clip_value, norm: train.grad_clip }
    }
}

/// The gradients' norm before and after clipping.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GradNorm {
    /// Global L2 norm before.
    pub before: f64,
    /// Global L2 norm after.
    pub after: f64,
    /// The factor of the clipping by norm.
    pub factor: f64,
}

impl GradNorm {
    /// The norms of gradients that are not clipped.
    #[must_use]
    pub fn unclipped(moments: &[GradientSums]) -> Self {
        let before = moments.iter().map(GradientSums::square).sum::<f64>().sqrt();
        Self { before, after: before, factor: 1.0 }
    }
}

/// Clips `grads`, whose sums are `moments`: first by value, then the result by norm.
///
/// # Errors
/// The device failed.
pub fn clip(
    grads: &mut [Tensor<1>],
    moments: &[GradientSums],
    limits: ClipLimits,
) -> Result<GradNorm, Diagnostic> {
    if limits.value == 0.0 {
        return Ok(by_global_norm(grads, moments, limits.norm));
    }
    by_value(grads, limits.value as f32);
    let mut read_back = ReadBack::default();
    let requested = gradients::request_moments(grads, &mut read_back);
    let clamped = gradients::moments(&requested, &read_back.read()?)?;
    let norm = by_global_norm(grads, &clamped, limits.norm);
    Ok(GradNorm { before: GradNorm::unclipped(moments).before, ..norm })
}

/// Limits the magnitude of each element to `limit`; NaN stays NaN.
fn by_value(grads: &mut [Tensor<1>], limit: f32) {
    for grad in grads {
        // Comparisons, because the minimum of NaN and a number is the number on some devices.
        let (above, below) = (grad.clone().greater_elem(limit), grad.clone().lower_elem(-limit));
        *grad = grad.clone().mask_fill(above, limit).mask_fill(below, -limit);
    }
}

/// Scales all gradients by `min(1, limit / (norm + 1e-6))`; a `limit` of 0 disables it.
fn by_global_norm(grads: &mut [Tensor<1>], moments: &[GradientSums], limit: f64) -> GradNorm {
    let unclipped = GradNorm::unclipped(moments);
    let before = unclipped.before;
    let coefficient = limit / (before + EPS);
    // With a NaN norm the gradients do not change, and the step reports the NaN.
    if limit == 0.0 || coefficient.is_nan() || coefficient >= 1.0 {
        return unclipped;
    }
    // Taken out, so that each has one owner and is scaled in place.
    let whole = grads.iter_mut().map(|grad| std::mem::replace(grad, Tensor::empty([0], &grad.device())));
    let scaled = fused_ops::scale::all_scaled(whole.collect(), coefficient as f32);
    grads.iter_mut().zip(scaled).for_each(|(grad, scaled)| *grad = scaled);
    // The coefficient of an infinite norm is 0: finite elements become 0 and infinite ones NaN, as in PyTorch.
    let after = if before.is_finite() {
        before * coefficient
    } else {
        moments.iter().map(|moments| coefficient * moments.largest()).sum()
    };
    GradNorm { before, after, factor: coefficient }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{device::ComputeDevice, tensor};

    fn clipped(first: f32, value: f64, norm: f64) -> (GradNorm, Vec<f32>) {
        let device = ComputeDevice::cpu().tensors;
        let mut grads = [tensor::flat(vec![first], &device), tensor::flat(vec![0.0, -4.0], &device)];
        let mut read_back = ReadBack::default();
        let requested = gradients::request_moments(&grads, &mut read_back);
        let moments = gradients::moments(&requested, &read_back.read().unwrap()).unwrap();
        let norm = clip(&mut grads, &moments, ClipLimits { value, norm }).unwrap();
        (norm, grads.into_iter().flat_map(|grad| tensor::read_f32(grad).unwrap()).collect())
    }

    #[test]
    fn one_norm_over_all_tensors() {
        let (norm, grads) = clipped(3.0, 0.0, 1.0);
        assert_eq!(norm.before, 5.0);
        assert!((norm.after - 1.0).abs() < 1e-6 && (norm.factor - 0.2).abs() < 1e-6);
        assert!((grads[0] - 0.6).abs() < 1e-6 && (grads[2] + 0.8).abs() < 1e-6);
    }

    #[test]
    fn small_gradients_and_no_limit_change_nothing() {
        let unclipped = GradNorm { before: 5.0, after: 5.0, factor: 1.0 };
        for (value, norm) in [(0.0, 10.0), (0.0, 0.0), (4.0, 0.0), (100.0, 5.1)] {
            assert_eq!(clipped(3.0, value, norm), (unclipped, vec![3.0, 0.0, -4.0]));
        }
    }

    #[test]
    fn values_are_clipped_before_the_norm() {
        let (norm, grads) = clipped(0.75, 1.0, 0.0);
        assert_eq!(grads, [0.75, 0.0, -1.0]);
        assert_eq!((norm.after, norm.factor), (1.25, 1.0));
        assert!((norm.before - 16.5625f64.sqrt()).abs() < 1e-6, "{norm:?}");
        // The norm that is limited is that of the clipped values.
        let (norm, grads) = clipped(0.75, 1.0, 0.625);
        assert!((norm.factor - 0.5).abs() < 1e-6 && (norm.after - 0.625).abs() < 1e-6, "{norm:?}");
        assert!((grads[0] - 0.375).abs() < 1e-6 && (grads[2] + 0.5).abs() < 1e-6, "{grads:?}");
    }

    #[test]
    fn an_infinite_norm_leaves_zeros_and_a_nan_for_each_infinite_element() {
        let (norm, grads) = clipped(f32::INFINITY, 0.0, 1.0);
        assert!(norm.before == f64::INFINITY && norm.after.is_nan() && norm.factor == 0.0, "{norm:?}");
        assert!(grads[0].is_nan() && grads[1..] == [0.0, -0.0], "{grads:?}");
        // Finite elements whose mean square is beyond f32.
        let (norm, grads) = clipped(1e30, 0.0, 1.0);
        let expected = GradNorm { before: f64::INFINITY, after: 0.0, factor: 0.0 };
        assert_eq!((norm, grads), (expected, vec![0.0, 0.0, -0.0]));
    }

    #[test]
    fn infinity_becomes_the_limit_and_nan_stays() {
        let (norm, grads) = clipped(f32::INFINITY, 1.0, 0.0);
        assert_eq!((norm.before, grads), (f64::INFINITY, vec![1.0, 0.0, -1.0]));
        let (norm, grads) = clipped(f32::NAN, 1.0, 1.0);
        assert!(norm.after.is_nan() && norm.factor == 1.0 && grads[0].is_nan() && grads[2] == -1.0);
    }
}
