//! Elements and rows with dead gradients: |gradient| before clipping was below `dead_gradient_threshold` for
//! `dead_neuron_window` steps in a row. Missing until that many steps have been counted; rows are missing where a
//! device counts.

use altgrad_metrics::{
    MetricId, MetricRecord, Statistic,
    families::dead_gradients::{DEAD_PERSISTENT, DEAD_ROWS},
};

use super::{
    family::{self, MetricFamily, MetricSetup},
    update_counts::Counting,
};
use crate::packed_ints::PackedInts;

/// The number of steps that each element has been dead: a byte per element for a window of at most 255 steps, else two.
#[derive(Debug)]
pub struct DeadGradients {
    /// Steps after which an element is permanently dead.
    pub(super) window: u16,
    /// Smaller magnitudes are counted.
    threshold: f32,
    /// For each parameter, the number of steps counted, and the consecutive dead steps of each element.
    params: Vec<(u64, PackedInts)>,
    /// The share of each parameter whose elements are counted on a device.
    counted: Vec<Option<f64>>,
}

impl DeadGradients {
    /// Counts of zero; with a `window` of 0 nothing is counted.
    #[must_use]
    pub fn new(window: u16, threshold: f32, params: usize) -> Self {
        let params = if window == 0 { 0 } else { params };
        Self { window, threshold, params: vec![Default::default(); params], counted: vec![None; params] }
    }

    /// The counting of a device, for gradients that clipping multiplied by `clipped`.
    #[must_use]
    pub fn counting(&self, counting: Counting, clipped: f32) -> Counting {
        if self.window == 0 { counting } else { counting.dead(self.threshold * clipped, self.window) }
    }

    /// Records that a device counted a parameter's gradient; call it every step. The counts in main memory end.
    pub fn count_on_device(&mut self, param: usize) {
        if let Some((steps, runs)) = self.params.get_mut(param) {
            *steps += 1;
            *runs = PackedInts::default();
        }
    }

    /// Adds the number of a parameter's elements that a device found permanently dead, this step.
    pub fn counted(&mut self, param: usize, dead: u64, elements: u64) {
        if let Some(share) = self.counted.get_mut(param) {
            *share = Some(dead as f64 / elements as f64);
        }
    }

    /// True if gradients are counted.
    #[must_use]
    pub fn counts(&self) -> bool {
        !self.params.is_empty()
    }

    /// Adds a parameter's gradient, which clipping multiplied by `clipped`; every step, in time order.
    pub fn count(&mut self, param: usize, grad: &[f32], clipped: f32) {
        let Some((steps, runs)) = self.params.get_mut(param) else { return };
        *steps += 1;
        self.counted[param] = None;
        if runs.is_empty() {
            *runs = PackedInts::zeros(grad.len(), self.window);
        }
        let below = self.threshold * clipped;
        runs.update(grad, |run, grad| if grad.abs() < below { run.saturating_add(1) } else { 0 });
    }

    /// The number of counted steps of a parameter, and the consecutive dead steps of its elements, none where a device
    /// counts; `None` if they are not counted, or before the first step.
    #[must_use]
    pub fn remembered(&self, param: usize) -> Option<(u64, PackedInts)> {
        self.params.get(param).filter(|(steps, _)| *steps > 0).cloned()
    }

    /// Continues from stored counts.
    pub fn restore(&mut self, param: usize, steps: u64, runs: PackedInts) {
        if let Some(counts) = self.params.get_mut(param) {
            *counts = (steps, runs.up_to(self.window));
        }
    }

    /// The share of a matrix's rows of `width` elements that are permanently dead as a whole; `None` until the window
    /// is full, and for elements that a device keeps.
    fn rows(&self, param: usize, width: usize) -> Option<f64> {
        let (steps, runs) = self.params.get(param)?;
        let known = *steps >= u64::from(self.window) && self.counted[param].is_none() && !runs.is_empty();
        let rows = runs.len().checked_div(width)?;
        known.then(|| runs.rows_from(self.window, width) as f64 / rows as f64)
    }

    /// The share of a parameter's elements that are permanently dead; `None` until the window is full.
    fn share(&self, param: usize) -> Option<f64> {
        let (steps, runs) = self.params.get(param)?;
        let full = *steps >= u64::from(self.window);
        if let Some(share) = self.counted[param] {
            return full.then_some(share);
        }
        (full && !runs.is_empty()).then(|| runs.rows_from(self.window, 1) as f64 / runs.len() as f64)
    }
}

/// The family.
pub struct DeadGradientsFamily;

impl MetricFamily for DeadGradientsFamily {
    /// The counts, on the steps that record them.
    type Inputs<'a> = Option<&'a DeadGradients>;

    fn ids(setup: &MetricSetup<'_>) -> Vec<MetricId> {
        let window = setup.config.dead_neuron_window;
        if window == 0 {
            return Vec::new();
        }
        let matrices =
            setup.parameters.iter().zip(&setup.layout.specs).filter(|(_, spec)| spec.shape.len() == 2);
        let rows = family::ids_of(&DEAD_ROWS, matrices.map(|(layer, _)| layer));
        [family::ids_of(&DEAD_PERSISTENT, setup.parameters.iter()), rows].concat()
    }

    fn record(setup: &MetricSetup<'_>, dead: Option<&DeadGradients>, record: &mut MetricRecord) {
        let Some(dead) = dead else { return };
        for (param, layer) in setup.parameters.iter().enumerate() {
            record.push_some(Statistic::new(&DEAD_PERSISTENT).of_layer(layer), dead.share(param));
            if let [_, width] = setup.layout.specs[param].shape[..] {
                record.push_some(Statistic::new(&DEAD_ROWS).of_layer(layer), dead.rows(param, width));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_is_who_stays_dead() {
        let mut dead = DeadGradients::new(3, 1e-8, 1);
        let steps: [[f32; 4]; 5] = [
            [0.0, 1e-9, 1.0, 0.0],
            [0.0, -1e-9, 0.0, 0.0],
            [0.0, 2e-8, 0.0, f32::NAN],
            [0.0, 0.0, 0.0, 0.0],
            [0.0, 0.0, 1.0, 0.0],
        ];
        let shares: Vec<Option<f64>> = steps
            .iter()
            .map(|grad| {
                dead.count(0, grad, 1.0);
                dead.share(0)
            })
            .collect();
        // The third element is dead in the fourth step; NaN is not dead.
        assert_eq!(shares, [None, None, Some(0.25), Some(0.5), Some(0.25)]);
    }

    #[test]
    fn a_row_is_dead_if_all_its_elements_are() {
        let mut dead = DeadGradients::new(2, 0.5, 1);
        dead.count(0, &[0.4, 0.1, 0.4, 0.1, 2.0, 0.0], 1.0);
        assert_eq!(dead.rows(0, 2), None, "the window is not full");
        dead.count(0, &[0.4, 0.1, 0.6, 0.1, 0.0, 0.0], 1.0);
        assert_eq!((dead.rows(0, 2), dead.share(0)), (Some(1.0 / 3.0), Some(4.0 / 6.0)));
        dead.counted(0, 3, 6);
        assert_eq!(dead.rows(0, 2), None, "a device counts elements only");
    }

    #[test]
    fn clipping_kills_nobody() {
        let mut dead = DeadGradients::new(1, 1e-8, 1);
        // 1e-7 and 5e-9 before clipping by a hundred.
        dead.count(0, &[1e-9, 5e-11], 0.01);
        assert_eq!(dead.share(0), Some(0.5));
        let mut never = DeadGradients::new(0, 1e-8, 1);
        never.count(0, &[0.0], 1.0);
        assert_eq!(never.share(0), None);
    }
}
