//! The ends of the grid that an optimizer's step reaches, before the final rounding, and the momentum that the step
//! drops there.

use altgrad_metrics::{
    MetricId, MetricRecord, Statistic,
    families::grid_ends::{CLAMPED_FRAC, DROPPED_MOMENTUM},
};
use altgrad_plugin_api::Scales;

use super::family::{self, Formula, MetricFamily, MetricSetup};
use crate::quant::WeightGrid;

/// Distance from an end, over its magnitude, at which an element counts as there: scaling a value and back takes three
/// roundings.
const NEAR: f32 = 1.0 / (1 << 20) as f32;

static STATISTICS: &[Formula<GridEnds, Option<f64>>] = &[
    (&CLAMPED_FRAC, |ends| Some(ends.clamped as f64 / ends.elements as f64)),
    (&DROPPED_MOMENTUM, |ends| {
        let [dropped, momentum] = ends.momentum?;
        (momentum > 0.0).then_some(dropped / momentum)
    }),
];

/// The family: of weights without master weights, and of those whose grids the optimizer's rule depends on.
pub struct GridEndsFamily;

/// Counts of one parameter's step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GridEnds {
    elements: u64,
    /// Elements at an end of the grid, or beyond it.
    clamped: u64,
    /// Sums of magnitudes of the momentum before the step: what was set to zero at these elements, and all; unknown
    /// without momentum.
    momentum: Option<[f64; 2]>,
}

impl GridEnds {
    /// Of the `values` that a step gave elements of `grid`, and the momentum before and after it; `[n]` each. `None` if
    /// the format has no values.
    #[must_use]
    pub fn of(values: &[f32], grid: &WeightGrid<'_>, momentum: Option<[&[f32]; 2]>) -> Option<Self> {
        let format = grid.format.values().ok()?;
        let ends = [format.min_finite(), format.max_finite()];
        Some(Self::between(ends, &grid.grid().scales, values, momentum))
    }

    /// The same for the smallest and largest finite value of a format.
    fn between(ends: [f32; 2], scales: &Scales<'_>, values: &[f32], momentum: Option<[&[f32]; 2]>) -> Self {
        let [low, high] = ends.map(|end| end * (1.0 - NEAR));
        let sum = |values: &[f32]| values.iter().map(|m| f64::from(m.abs())).sum::<f64>();
        let mut found = Self {
            elements: values.len() as u64,
            clamped: 0,
            momentum: momentum.map(|[before, _]| [0.0, sum(before)]),
        };
        for (run, [scale, _]) in scales.runs(values.len()) {
            for index in run {
                let stored = scale * values[index];
                if stored >= high || stored <= low {
                    found.clamped += 1;
                    found.drop_momentum(index, momentum);
                }
            }
        }
        found
    }

    /// Counts the momentum of an element at an end, if the step set it to zero.
    fn drop_momentum(&mut self, index: usize, momentum: Option<[&[f32]; 2]>) {
        if let (Some([before, after]), Some([dropped, _])) = (momentum, &mut self.momentum)
            && after[index] == 0.0
        {
            *dropped += f64::from(before[index].abs());
        }
    }

    fn add(self, other: Self) -> Self {
        let momentum = self.momentum.zip(other.momentum);
        Self {
            elements: self.elements + other.elements,
            clamped: self.clamped + other.clamped,
            momentum: momentum.map(|([a, b], [c, d])| [a + c, b + d]),
        }
    }
}

impl MetricFamily for GridEndsFamily {
    /// The counts of each parameter's step that was measured; empty on steps that do not record them.
    type Inputs<'a> = &'a [Option<GridEnds>];

    fn ids(setup: &MetricSetup<'_>) -> Vec<MetricId> {
        let rounded = setup.parameters.iter().enumerate().filter(|(id, _)| {
            setup.quant.is_stored_on_grid(*id) || setup.grid_rules && setup.quant.weight_format(*id).is_some()
        });
        let layers: Vec<_> = rounded.map(|(_, layer)| layer).collect();
        if layers.is_empty() {
            return Vec::new();
        }
        let shown = STATISTICS.iter().filter(|(of, _)| setup.grid_rules || **of != DROPPED_MOMENTUM);
        shown.flat_map(|(definition, _)| family::ids_of(definition, layers.iter().copied())).collect()
    }

    fn record(setup: &MetricSetup<'_>, ends: &[Option<GridEnds>], record: &mut MetricRecord) {
        let each = setup.parameters.iter().zip(ends);
        let each: Vec<_> = each.filter_map(|(layer, ends)| Some((layer, (*ends)?))).collect();
        let Some(total) = each.iter().map(|(_, ends)| *ends).reduce(GridEnds::add) else { return };
        for (definition, value) in STATISTICS {
            let statistic = Statistic::new(definition);
            record.push_some(statistic, value(&total));
            for (layer, ends) in &each {
                record.push_some(statistic.of_layer(layer), value(ends));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use altgrad_plugin_api::Blocks;

    use super::*;

    fn shares(ends: &GridEnds) -> Vec<Option<f64>> {
        STATISTICS.iter().map(|(_, value)| value(ends)).collect()
    }

    /// Two blocks of three elements on the values -8 to 6, at the scales 2 and 4.
    #[test]
    fn ends_and_dropped_momentum_by_hand() {
        let pairs = [[2.0, 0.5], [4.0, 0.25]];
        let scales = Scales::new(&pairs, Blocks::consecutive(3));
        // At the upper end, inside, at the lower end; beyond it, at the upper end but for a rounding, inside.
        let values = [3.0, 2.9, -4.0, -2.5, 1.5f32.next_down(), f32::NAN];
        let before = [1.0, 5.0, -2.0, 0.0, 3.0, 5.0];
        let after = [0.0, 0.0, 1.0, 0.0, 0.0, 4.0];
        let found = GridEnds::between([-8.0, 6.0], &scales, &values, Some([&before, &after]));
        assert_eq!(found, GridEnds { elements: 6, clamped: 4, momentum: Some([4.0, 16.0]) });
        assert_eq!(shares(&found), [Some(4.0 / 6.0), Some(0.25)]);
        let without = GridEnds::between([-8.0, 6.0], &scales, &values, None);
        assert_eq!(shares(&without.add(found)), [Some(8.0 / 12.0), None]);
        let still = GridEnds::between([-8.0, 6.0], &scales, &values, Some([&[0.0; 6], &after]));
        assert_eq!(shares(&still)[1], None, "there was no momentum");
    }
}
