//! The change of the weights since the run's start: its distance in codes (ULP) of the format they are rounded to, and
//! the part of it that rounding removes.

use altgrad_metrics::{
    Layer, MetricId, MetricRecord, Statistic,
    families::ulp_from_init::{MOVEMENT_LOSS, ULP_FROM_INIT},
};
use altgrad_plugin_api::{QuantParams, Scales};
use rayon::prelude::*;

use super::{
    family::{self, MetricFamily, MetricSetup},
    ulp_distance::UlpDistance,
    update_distances::{PIECE, sum},
    update_loss::UpdateLoss,
};
use crate::quant::WeightGrid;

/// Elements per task. The number is fixed, so that sums do not depend on the number of threads.
const PART: usize = 1 << 16;

/// The change of one parameter since the run's start.
#[derive(Debug, Clone, Copy, Default)]
pub struct FromInit {
    /// Mean distance in codes.
    pub distance: Option<f64>,
    /// The part that rounding removes.
    pub lost: Option<UpdateLoss>,
}

/// The family: distances of parameters that are rounded with one scale, losses of those with master weights.
pub struct UlpFromInitFamily;

impl MetricFamily for UlpFromInitFamily {
    /// The changes, one entry per parameter, or none.
    type Inputs<'a> = &'a [FromInit];

    fn ids(setup: &MetricSetup<'_>) -> Vec<MetricId> {
        let mut ids = family::ids_of(&ULP_FROM_INIT, setup.rounded_layers());
        if mastered(setup).next().is_some() {
            ids.extend(family::ids_of(&MOVEMENT_LOSS, mastered(setup).map(|(_, layer)| layer)));
        }
        ids
    }

    fn record(setup: &MetricSetup<'_>, changes: &[FromInit], record: &mut MetricRecord) {
        let of = |param: usize| changes.get(param).copied().unwrap_or_default();
        for (param, layer) in setup.rounded() {
            record.push_some(Statistic::new(&ULP_FROM_INIT).of_layer(layer), of(param).distance);
        }
        let lost = mastered(setup).filter_map(|(param, _)| of(param).lost).reduce(|a, b| a + b);
        record.push_some(&MOVEMENT_LOSS, lost.and_then(UpdateLoss::share));
        for (param, layer) in mastered(setup) {
            let lost = of(param).lost.and_then(UpdateLoss::share);
            record.push_some(Statistic::new(&MOVEMENT_LOSS).of_layer(layer), lost);
        }
    }
}

/// Numbers and names of the parameters that are rounded to a grid in each step from master weights.
fn mastered<'a>(setup: &'a MetricSetup<'_>) -> impl Iterator<Item = (usize, &'a Layer)> {
    let is_mastered =
        |param: usize| setup.quant.weight_format(param).is_some() && !setup.quant.is_stored_on_grid(param);
    setup.parameters.iter().enumerate().filter(move |(param, _)| is_mastered(*param))
}

/// The part of a weight's change since `w_0` that rounding to nearest on the step's grid removes; `None` if the
/// format's plugin fails. `[n]` each.
#[must_use]
pub fn movement(weights: &[f32], w_0: &[f32], grid: &WeightGrid<'_>) -> Option<UpdateLoss> {
    let params = QuantParams::nearest(Scales::new(&grid.pairs, grid.blocks));
    let rounded = |values: &[f32]| {
        let mut rounded = vec![0.0; values.len()];
        grid.format.fake_quant(values, &mut rounded, &params, &mut []).ok().map(|_| rounded)
    };
    Some(UpdateLoss::between([w_0, weights], [&rounded(w_0)?, &rounded(weights)?]))
}

/// Mean distance between two states of a parameter, ULP; `None` if a value is not finite. `[n]` each.
#[must_use]
pub fn mean_distance(a: &[f32], b: &[f32], distance: &UlpDistance) -> Option<f64> {
    let parts = a.par_chunks(PART).zip(b.par_chunks(PART)).map(|(a, b)| {
        let mut codes = vec![0.0; a.len()];
        distance.distances(a, b, &mut codes);
        codes.chunks(PIECE).map(sum).sum::<f64>()
    });
    let mean = parts.collect::<Vec<f64>>().iter().sum::<f64>() / a.len() as f64;
    mean.is_finite().then_some(mean)
}
