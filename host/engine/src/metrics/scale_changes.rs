//! The effect of an update on the scales of weights without master weights.
//!
//! A scale that changes moves its weights: all elements of its block are stored on another grid. Codes do not show it,
//! because both grids have the same codes.

use altgrad_base::ulp::ulp_distance;
use altgrad_metrics::{
    MetricId, MetricRecord, Statistic,
    families::scale_changes::{RECODE_ROUNDED_FRAC, RECODED_FRAC, SCALE_DRIFT},
};
use altgrad_plugin_api::QuantParams;
use rayon::prelude::*;

use super::family::{self, Formula, MetricFamily, MetricSetup};
use crate::quant::WeightGrid;

/// Elements per task.
const PART: usize = 1 << 16;
/// The distance of values that are the same but for the rounding errors of their scales, in f32 steps.
const ERROR_OF_SCALE: u64 = 2;

static STATISTICS: &[Formula<ScaleChanges, Option<f64>>] = &[
    (&SCALE_DRIFT, |changes| Some(changes.drift / changes.elements as f64)),
    (&RECODED_FRAC, |changes| Some(changes.recoded as f64 / changes.elements as f64)),
    (&RECODE_ROUNDED_FRAC, |changes| Some(changes.rounded? as f64 / changes.elements as f64)),
];

/// The family: of parameters without master weights.
pub struct ScaleChangesFamily;

/// The scales of a parameter before and after an update.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ScaleChanges {
    elements: u64,
    /// Elements whose scale changed.
    recoded: u64,
    /// Elements whose value is not on the new grid, if known.
    rounded: Option<u64>,
    /// Sum over elements of `|log2(k' / k)|`.
    drift: f64,
}

impl ScaleChanges {
    /// Compares the grids of a parameter of `elements` elements; `before` gives its values before the update and is
    /// called only if a scale changed.
    #[must_use]
    pub fn of(
        [old, new]: [&WeightGrid<'_>; 2],
        elements: usize,
        before: impl FnOnce() -> Option<Vec<f32>>,
    ) -> Self {
        let mut changes = Self { elements: elements as u64, rounded: Some(0), ..Self::default() };
        if old.pairs == new.pairs {
            return changes;
        }
        let new_runs = new.grid().scales.runs(elements);
        for ((range, [from, _]), (_, [to, _])) in old.grid().scales.runs(elements).zip(new_runs) {
            if from != to {
                changes.recoded += range.len() as u64;
                changes.drift += range.len() as f64 * (f64::from(to).log2() - f64::from(from).log2()).abs();
            }
        }
        changes.rounded = before().and_then(|values| off_grid(&values, new));
        changes
    }

    fn add(self, other: Self) -> Self {
        Self {
            elements: self.elements + other.elements,
            recoded: self.recoded + other.recoded,
            rounded: self.rounded.zip(other.rounded).map(|(a, b)| a + b),
            drift: self.drift + other.drift,
        }
    }
}

/// Values that are not on a grid; `None` if the plugin fails.
fn off_grid(values: &[f32], grid: &WeightGrid<'_>) -> Option<u64> {
    let scales = grid.grid().scales;
    let part = |(part, values): (usize, &[f32])| {
        let mut rounded = vec![0.0; values.len()];
        let params = QuantParams::nearest(scales.skip((part * PART) as u64));
        grid.format.fake_quant(values, &mut rounded, &params, &mut []).ok()?;
        let moves = |(value, rounded): &(&f32, &f32)| ulp_distance(**value, **rounded) > ERROR_OF_SCALE;
        Some(values.iter().zip(&rounded).filter(moves).count() as u64)
    };
    values.par_chunks(PART).enumerate().map(part).sum()
}

impl MetricFamily for ScaleChangesFamily {
    /// The changes of each parameter, `None` for those with master weights, on the steps that record them.
    type Inputs<'a> = Option<&'a [Option<ScaleChanges>]>;

    fn ids(setup: &MetricSetup<'_>) -> Vec<MetricId> {
        if setup.stored().next().is_none() {
            return Vec::new();
        }
        let layers = || setup.stored().map(|(_, layer)| layer);
        STATISTICS.iter().flat_map(|(definition, _)| family::ids_of(definition, layers())).collect()
    }

    fn record(setup: &MetricSetup<'_>, changes: Option<&[Option<ScaleChanges>]>, record: &mut MetricRecord) {
        let of = |param: usize| changes?.get(param).copied().flatten();
        let each: Vec<_> = setup.stored().filter_map(|(param, layer)| Some((layer, of(param)?))).collect();
        let Some(total) = each.iter().map(|(_, changes)| *changes).reduce(ScaleChanges::add) else { return };
        for (definition, value) in STATISTICS {
            let statistic = Statistic::new(definition);
            record.push_some(statistic, value(&total));
            for (layer, changes) in &each {
                record.push_some(statistic.of_layer(layer), value(changes));
            }
        }
    }
}
