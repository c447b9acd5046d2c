//! The scales of weights: those of their last rounding, on the device and, once a step has read them, on the host.
//!
//! With fp32 master weights every forward pass computes them. Without master weights they are state:
//! [`TensorQuantizer::scale`](super::TensorQuantizer::scale) computes the first ones, and [`stored`] decides when they
//! change (docs/numerics.md, section 5.4).

use altgrad_base::diagnostic::Diagnostic;
use altgrad_loader::FormatPlugin;
use altgrad_plugin_api::{Blocks, Grid, Scales, ValueGrid};
use burn::tensor::Tensor;

use super::{TensorQuantizer, scale::scale_pairs};
use crate::tensor::{self, untracked};

/// A scale that is a power of two is doubled twice at least where it has become too small.
const SMALLEST_RISE: f32 = 4.0;

/// The scales of a weight: `[groups, 2]`, each with its inverse.
#[derive(Debug, Clone)]
pub(super) struct WeightScales {
    /// On the device.
    pub(super) pairs: Tensor<2>,
    /// On the host, once read.
    pub(super) read: Option<Vec<[f32; 2]>>,
}

impl WeightScales {
    pub(super) fn new(pairs: Tensor<2>) -> Self {
        Self { pairs: untracked(pairs), read: None }
    }

    /// The scales on the host; reads them if no step has.
    ///
    /// # Errors
    /// The device failed.
    pub(super) fn values(&self) -> Result<Vec<[f32; 2]>, Diagnostic> {
        match &self.read {
            Some(pairs) => Ok(pairs.clone()),
            None => Ok(scale_pairs(&tensor::read_f32(self.flat())?).to_vec()),
        }
    }

    /// Stores what was read of [`Self::flat`].
    pub(super) fn set_read(&mut self, flat: &[f32]) {
        self.read = Some(scale_pairs(flat).to_vec());
    }

    /// All numbers in one row.
    pub(super) fn flat(&self) -> Tensor<1> {
        let [groups, both] = self.pairs.dims();
        self.pairs.clone().reshape([groups * both])
    }
}

/// The largest number that rounds, to nearest, to less than the largest value of a format. Scales of stored weights
/// that are powers of two keep weights below it: a weight at the largest code is given room, because some optimizers
/// never step beyond it.
#[must_use]
pub fn end_of_range(grid: &ValueGrid) -> f32 {
    let largest = f64::from(grid.max_finite());
    let next = grid.value_at(grid.coordinate(largest) - 1.0);
    (f64::midpoint(largest, next) as f32).next_down()
}

/// The target of scales that follow the largest weight at every update: `target`, or the next lower one that is
/// `2^margin` times a value of the format. Rounding then leaves the largest weight, so that weights without an update
/// keep their values and their scale.
#[must_use]
pub fn target_on_grid(grid: &ValueGrid, target: f32, margin: i32) -> f32 {
    let free = 2f64.powi(margin);
    let wanted = (f64::from(target) / free).min(f64::from(grid.max_finite()));
    let value = grid.value_at(grid.coordinate(wanted).floor());
    (value.max(f64::from(grid.min_positive())) * free) as f32
}

/// The scales of a stored weight for its next rounding. `old` are its last ones, `new` those that its values ask for,
/// `[groups, 2]` each; `new` leave `margin` binades free.
///
/// A power of two is replaced where it exceeds the new one by more than the margin, so that the largest value would be
/// rounded to the largest code or beyond, and where it is a quarter of the new one or less.
pub(super) fn stored(old: Tensor<2>, new: Tensor<2>, margin: i32) -> Tensor<2> {
    let scale = |pairs: &Tensor<2>| pairs.clone().narrow(1, 0, 1);
    let (is, wanted) = (scale(&old), scale(&new));
    let too_large = is.clone().greater(wanted.clone().mul_scalar(2f32.powi(margin)));
    let too_small = is.mul_scalar(SMALLEST_RISE).lower_equal(wanted);
    let changes = too_large.bool_or(too_small).expand(old.dims());
    old.mask_where(changes, new)
}

/// The grid that a weight is rounded to: its format, and the scales of one step.
#[derive(Debug, Clone)]
pub struct WeightGrid<'a> {
    /// The format.
    pub format: &'a FormatPlugin,
    /// Scale and inverse of each block.
    pub pairs: Vec<[f32; 2]>,
    /// The blocks of elements that share a scale.
    pub blocks: Blocks,
}

impl<'a> WeightGrid<'a> {
    /// The grid of a weight of this shape whose scales are not known yet.
    pub(super) fn in_future(site: &'a TensorQuantizer, shape: &[usize]) -> Self {
        let blocks = site.blocks(shape.last().copied().unwrap_or(1));
        Self { format: site.format.plugin(), pairs: Vec::new(), blocks }
    }

    /// The format and the scale, if there is only one.
    #[must_use]
    pub fn one_scale(&self) -> Option<(&FormatPlugin, f32)> {
        match self.pairs.as_slice() {
            &[[scale, _]] => Some((self.format, scale)),
            _ => None,
        }
    }

    /// The grid that an optimizer receives.
    #[must_use]
    pub fn grid(&self) -> Grid<'_> {
        Grid { spec: &self.format.spec, scales: Scales::new(&self.pairs, self.blocks) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device;

    /// The scale that follows from an old one, a wanted one and a margin.
    fn next(old: f32, wanted: f32, margin: i32) -> f32 {
        let device = device::ComputeDevice::cpu().tensors;
        let pair = |scale: f32| Tensor::<2>::from_floats([[scale, 1.0 / scale]], &device);
        let pairs =
            tensor::read_f32(stored(pair(old), pair(wanted), margin).reshape([2])).unwrap_or_default();
        assert_eq!(pairs[1], 1.0 / pairs[0]);
        pairs[0]
    }

    #[test]
    fn powers_of_two_change_with_hysteresis() {
        // Without a margin a scale falls at once, and rises after two binades.
        for (wanted, expected) in [(4.0, 4.0), (8.0, 8.0), (16.0, 8.0), (32.0, 32.0), (2.0, 2.0)] {
            assert_eq!(next(8.0, wanted, 0), expected, "{wanted}");
        }
        // A binade of margin is used before the scale falls.
        for (wanted, expected) in [(4.0, 8.0), (2.0, 2.0), (16.0, 8.0), (32.0, 32.0)] {
            assert_eq!(next(8.0, wanted, 1), expected, "{wanted}");
        }
        let (least, most) = (2f32.powi(-126), 2f32.powi(126));
        assert_eq!((next(least, most, 0), next(most, least, 0)), (most, least));
    }
}
