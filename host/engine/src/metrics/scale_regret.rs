//! Scale regret: the accuracy of the weights' rounding at scales moved by whole binades.
//!
//! `quant/weight/sqnr_db_at/-1/h.0.attn.c_attn.weight` is the SQNR (docs/numerics.md, section 7.6) of a weight before
//! the step, to nearest-even, at half of the step's scale. The peak of the curve minus its value at 0 is the loss of
//! the scaling rule. Missing for a parameter that is not rounded with one scale, and where its weights lie on the grid
//! already: without master weights the scale was applied before.

use altgrad_loader::FormatPlugin;
use altgrad_metrics::{Layer, MetricId, MetricRecord, Role, Statistic, families::scale_regret::SQNR_DB_AT};
use altgrad_plugin_api::{QuantParams, Scales};
use rayon::prelude::*;

use super::family::{MetricFamily, MetricSetup};

/// Offsets of the scale, binades.
const OFFSETS: [i8; 7] = [-3, -2, -1, 0, 1, 2, 3];
/// The index of the candidate that leaves the scale unchanged.
const HERE: usize = 3;
/// Elements per task. The number is fixed, so that sums do not depend on the number of threads.
const PART: usize = 1 << 16;

/// SQNR in dB by offset.
pub type Regret = [Option<f64>; OFFSETS.len()];

/// Rounds the weights at every offset; all missing if rounding at the step's own scale changes nothing. `[n]`.
#[must_use]
pub fn of(weights: &[f32], format: &FormatPlugin, scale: f32) -> Regret {
    let here = sqnr_db(weights, format, scale);
    if here.is_none() {
        return Regret::default();
    }
    OFFSETS.map(|offset| {
        if offset == OFFSETS[HERE] {
            here
        } else {
            sqnr_db(weights, format, scale * 2f32.powi(offset.into()))
        }
    })
}

/// `None` without an error or a value, where the scale is no normal number, and if the plugin fails.
fn sqnr_db(weights: &[f32], format: &FormatPlugin, scale: f32) -> Option<f64> {
    let pair = [scale, 1.0 / scale];
    if !pair.iter().all(|factor| factor.is_normal()) {
        return None;
    }
    let params = QuantParams::nearest(Scales::whole(&pair));
    let part = |weights: &[f32]| {
        let mut rounded = vec![0.0; weights.len()];
        let stats = format.fake_quant(weights, &mut rounded, &params, &mut []).ok()?;
        Some([stats.sum_x2, stats.sum_err2])
    };
    let parts: Option<Vec<[f64; 2]>> = weights.par_chunks(PART).map(part).collect();
    let [signal, noise] = parts?.into_iter().fold([0.0; 2], |[x, e], part| [x + part[0], e + part[1]]);
    let ratio = signal / noise;
    (signal > 0.0 && noise > 0.0 && ratio.is_finite()).then(|| 10.0 * ratio.log10())
}

/// The family: of the parameters that are rounded with one scale.
pub struct ScaleRegretFamily;

fn id(offset: i8, layer: &Layer) -> MetricId {
    Statistic::new(&SQNR_DB_AT).of_role(Role::Weight).at(offset).of_layer(layer)
}

impl MetricFamily for ScaleRegretFamily {
    /// The result, one entry per parameter, or none.
    type Inputs<'a> = &'a [Regret];

    fn ids(setup: &MetricSetup<'_>) -> Vec<MetricId> {
        let of = |offset| setup.rounded_layers().map(move |layer| id(offset, layer));
        OFFSETS.into_iter().flat_map(of).collect()
    }

    fn record(setup: &MetricSetup<'_>, regret: &[Regret], record: &mut MetricRecord) {
        for (column, offset) in OFFSETS.into_iter().enumerate() {
            for (param, layer) in setup.rounded() {
                record.push_some(id(offset, layer), regret.get(param).and_then(|regret| regret[column]));
            }
        }
    }
}
