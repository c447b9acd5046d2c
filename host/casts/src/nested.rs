//! Values scaled back by the stored scale first and then by the tensor's.

use crate::{powers::exp2, range::Range, scaling::BlockScale, scaling::Scaling, two_levels::TensorScale};

/// `fl(fl(value b) D)`, or `fl(fl(fl(value b) G) / (most target))` where the scale of the tensor follows from its
/// encode scale. The exponent of the products has no limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nested {
    /// Multiplied first: `G` times a power of two, or `D`.
    first: f32,
    /// Divides then, and the inverse of that power of two; none after `D`.
    divisor: Option<[f64; 2]>,
    /// The factor of the scaling, which divides last.
    factor: f32,
}

impl Nested {
    /// Under this scale of a tensor.
    pub(crate) fn new(scaling: &Scaling, range: &Range, tensor: &TensorScale) -> Self {
        let factor = scaling.factor;
        if tensor.amax == 0.0 {
            return Self { first: 1.0, divisor: None, factor };
        }
        if scaling.order.is_encode() {
            let shift = if tensor.amax > 1.0 { -64 } else { 64 };
            // The quotient of two f32, rounded to f64 and then to f32, is rounded once.
            let divisor = [f64::from(scaling.most_stored() * range.target), f64::from(exp2(-shift))];
            return Self { first: tensor.amax * exp2(shift), divisor: Some(divisor), factor };
        }
        Self { first: tensor.decode, divisor: None, factor }
    }

    /// Scales rounded elements back.
    #[inline(always)]
    pub(crate) fn restore(&self, points: &mut [f32], scale: &BlockScale) {
        for point in points {
            let stored = *point * scale.stored;
            let product = stored * self.first;
            let value = match self.divisor {
                Some([divisor, inverse]) => (f64::from(product) / divisor * inverse) as f32,
                None => product,
            };
            let value = (value / self.factor).clamp(-f32::MAX, f32::MAX);
            *point = if stored.is_finite() { value } else { stored / self.factor };
        }
    }
}
