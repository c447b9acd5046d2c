//! The distance of the weights from the initial ones, in codes (ULP) of the format they are rounded
//! to.

use altgrad_metrics::{MetricId, MetricRecord, Statistic, families::ulp_from_init::ULP_FROM_INIT};
use rayon::prelude::*;

use super::{
    family::{self, MetricFamily, MetricSetup},
    ulp_distance::UlpDistance,
    update_distances::{PIECE, sum},
};

/// Elements a thread takes at once. Fixed, so that sums do not depend on the number of threads.
const PART: usize = 1 << 16;

/// The family: of parameters that are rounded with one scale.
pub struct UlpFromInitFamily;

impl MetricFamily for UlpFromInitFamily {
    /// The mean distances, one entry a parameter, or none.
    type Inputs<'a> = &'a [Option<f64>];

    fn ids(setup: &MetricSetup<'_>) -> Vec<MetricId> {
        family::ids_of(&ULP_FROM_INIT, setup.rounded_layers())
    }

    fn record(setup: &MetricSetup<'_>, distances: &[Option<f64>], record: &mut MetricRecord) {
        for (param, layer) in setup.rounded() {
            let distance = distances.get(param).copied().flatten();
            record.push_some(Statistic::new(&ULP_FROM_INIT).of_layer(layer), distance);
        }
    }
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
