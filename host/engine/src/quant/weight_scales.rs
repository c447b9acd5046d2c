//! The scales of weights: those of their last rounding, on the device and, once a step has read them, on the host.
//!
//! With fp32 master weights every forward pass computes them. Without master weights they are state:
//! [`Site::scale`](super::Site::scale) computes the first ones, and [`stored`] decides when they change (docs/numerics.md,
//! section 5.4).

use altgrad_base::diagnostic::Diagnostic;
use altgrad_loader::FormatPlugin;
use altgrad_plugin_api::{Blocks, Grid, Scales, ValueGrid};
use burn::tensor::Tensor;

use super::{LayerId, QuantContext, Role, ScaleChange, Scaling, Site, SiteId, scale::scale_pairs};
use crate::{
    read_back::{ReadBack, Slot, Values},
    tensor::{self, untracked},
};

/// A scale that is a power of two is doubled twice at least where it has become too small.
const SMALLEST_RISE: f32 = 4.0;

/// The scales of a weight: `[groups, 2]`, each with its inverse.
#[derive(Debug, Clone)]
pub(super) struct WeightScales {
    /// On the device.
    pub(super) pairs: Tensor<2>,
    /// On the host, once read.
    read: Option<Vec<[f32; 2]>>,
}

impl WeightScales {
    pub(super) fn new(pairs: Tensor<2>) -> Self {
        Self { pairs: untracked(pairs), read: None }
    }

    /// All numbers in one row.
    pub(super) fn flat(&self) -> Tensor<1> {
        let [groups, both] = self.pairs.dims();
        self.pairs.clone().reshape([groups * both])
    }
}

/// The largest number that rounds, to nearest, to less than the largest value of a format. Scales of stored weights that are
/// powers of two keep weights below it: a weight at the largest code is given room, because some optimizers never step
/// beyond it.
#[must_use]
pub fn end_of_range(grid: &ValueGrid) -> f32 {
    let largest = f64::from(grid.max_finite());
    let next = grid.value_at(grid.coordinate(largest) - 1.0);
    (f64::midpoint(largest, next) as f32).next_down()
}

/// The target of scales that follow the largest weight at every update: `target`, or the next lower one that is `2^margin` times a
/// value of the format. Rounding then leaves the largest weight, so that weights without an update keep their values and their scale.
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
fn stored(old: Tensor<2>, new: Tensor<2>, margin: i32) -> Tensor<2> {
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
    fn in_future(site: &'a Site, shape: &[usize]) -> Self {
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

impl QuantContext {
    /// Keeps the scales of a weight's rounding until the next one.
    pub(super) fn keep_scales(&self, id: SiteId, scales: &Tensor<2>) {
        self.weight_scales.lock().insert(id, WeightScales::new(scales.clone()));
    }

    /// The scales at which a stored weight is rounded at the end of its update; `wanted` are those of its new values.
    pub(super) fn next_scales(&self, id: SiteId, wanted: Tensor<2>) -> Tensor<2> {
        let kept = self.weight_scales.lock().get(&id).map(|kept| kept.pairs.clone());
        match (self.sites[id].scaling, kept) {
            (Scaling::Stored { change: ScaleChange::Never, .. }, Some(kept)) => kept,
            (Scaling::Stored { change: ScaleChange::Hysteresis, rule }, Some(kept)) => {
                stored(kept, wanted, rule.scaling.margin)
            }
            _ => wanted,
        }
    }

    /// Requests the scales of all weights.
    pub(super) fn request_scales(&self, read_back: &mut ReadBack) -> Vec<(SiteId, Slot)> {
        let unread = |scales: &&WeightScales| scales.read.is_none();
        let scales = self.weight_scales.lock();
        let unread = scales.iter().filter(|(_, scales)| unread(scales));
        unread.map(|(id, scales)| (*id, read_back.ask(scales.flat()))).collect()
    }

    /// Stores scales that were requested.
    pub(super) fn read_scales(
        &self,
        requested: &[(SiteId, Slot)],
        values: &Values,
    ) -> Result<(), Diagnostic> {
        let mut scales = self.weight_scales.lock();
        for (id, slot) in requested {
            if let Some(scales) = scales.get_mut(id) {
                scales.read = Some(scale_pairs(values.get(*slot)?).to_vec());
            }
        }
        Ok(())
    }

    /// Reads the scales of all weights that were not read yet: one synchronization.
    ///
    /// # Errors
    /// The device failed.
    pub fn read_weight_scales(&self) -> Result<(), Diagnostic> {
        let mut read_back = ReadBack::default();
        let requested = self.request_scales(&mut read_back);
        self.read_scales(&requested, &read_back.read()?)
    }

    /// The grid of a layer's weight of this shape as it was last rounded, if it is. Reads the scales from the device if no
    /// step has.
    ///
    /// # Errors
    /// The device failed.
    pub fn weight_grid(&self, layer: LayerId, shape: &[usize]) -> Result<Option<WeightGrid<'_>>, Diagnostic> {
        let Some(grid) = self.future_weight_grid(layer, shape) else { return Ok(None) };
        let id = self.layers.get(&(layer, Role::Weight));
        let mut scales = self.weight_scales.lock();
        let Some(scales) = id.and_then(|id| scales.get_mut(id)) else { return Ok(None) };
        let pairs = match &scales.read {
            Some(pairs) => pairs.clone(),
            None => {
                let pairs = scale_pairs(&tensor::read_f32(scales.flat())?).to_vec();
                scales.read.insert(pairs).clone()
            }
        };
        Ok(Some(WeightGrid { pairs, ..grid }))
    }

    /// The grid of a layer's weight of this shape in steps to come, whose scales are not known yet; if it is rounded. A weight that is
    /// transformed first lies on no grid.
    #[must_use]
    pub fn future_weight_grid(&self, layer: LayerId, shape: &[usize]) -> Option<WeightGrid<'_>> {
        self.weight_on_grid(layer).map(|site| WeightGrid::in_future(site, shape))
    }

    /// The grid that a layer's weight of this shape would lie on if it were not transformed; if it is.
    #[must_use]
    pub fn weight_grid_before_transform(&self, layer: LayerId, shape: &[usize]) -> Option<WeightGrid<'_>> {
        let site = self.site_of(layer, Role::Weight).filter(|site| site.transform.is_some())?;
        Some(WeightGrid::in_future(site, shape))
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
