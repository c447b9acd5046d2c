//! The metrics of a run by step, from `metrics.csv` and `timings.csv`: those that are shown, and every evaluation.

use std::{collections::BTreeMap, path::Path};

use super::{
    rows::{Rows, number},
    series::Series,
};

/// Buckets of a curve of the whole run.
const CAPACITY: usize = 512;
/// Evaluations that are kept exactly; of more, the latest.
const EVALUATIONS: usize = 1 << 16;

/// The held-out loss.
pub const VAL_LOSS: &str = "val/loss";
/// The training loss.
pub const LOSS: &str = "train/loss";
/// Cosine of the gradient with the unquantized one, all parameters together.
pub const COSINE: &str = "grad_cos_sim";
/// Share of elements with a gradient whose code stays.
pub const STALL: &str = "update/bit_stall_rate";
/// Share of elements beyond a format's largest value.
pub const OVERFLOW: &str = "quant/overflow_rate";
/// Training tokens a second.
pub const TOKENS_PER_S: &str = "train/tokens_per_s";
/// Global gradient norm.
pub const GRAD_NORM: &str = "train/grad_norm";
/// Share of non-zero elements of gradients that become zero.
pub const GRAD_UNDERFLOW: &str = "quant/grad/underflow_rate";
/// Share of non-zero elements that become zero.
pub const UNDERFLOW: &str = "quant/underflow_rate";
/// Signal to rounding noise over everything.
pub const SQNR: &str = "quant/sqnr_db";
/// Median distance of an update, ULP.
pub const ULP_P50: &str = "update/ulp_abs_p50";
/// 99th percentile of it.
pub const ULP_P99: &str = "update/ulp_abs_p99";
/// Bits of information in the weights' codes.
pub const ENTROPY: &str = "quant/weight/code_entropy";

/// The metrics of which curves are kept.
const KEPT: [&str; 13] = [
    LOSS,
    VAL_LOSS,
    COSINE,
    STALL,
    OVERFLOW,
    TOKENS_PER_S,
    GRAD_NORM,
    GRAD_UNDERFLOW,
    UNDERFLOW,
    SQNR,
    ULP_P50,
    ULP_P99,
    ENTROPY,
];

/// What a file of metrics holds.
#[derive(Default)]
pub(super) struct Curves {
    pub by_name: BTreeMap<String, Series>,
    pub evaluations: Vec<(u64, f64)>,
    pub rows: u64,
    pub last_step: Option<u64>,
}

impl Curves {
    /// Reads the metrics that are kept, and the evaluations among them if wanted.
    pub fn read(path: &Path, evaluations: bool) -> Result<(Self, u64), String> {
        let mut found = Self::default();
        let Some(mut rows) = Rows::open(path)? else { return Ok((found, 0)) };
        let column = |name: &&'static str| Some((*name, rows.column(name)?, Series::new(CAPACITY)));
        let mut wanted: Vec<_> = KEPT.iter().filter_map(column).collect();
        let val_loss = rows.column(VAL_LOSS).filter(|_| evaluations);
        while let Some((step, cells)) = rows.next()? {
            (found.rows, found.last_step) = (found.rows + 1, Some(step));
            for (_, column, curve) in &mut wanted {
                if let Some(value) = number(&cells[*column]) {
                    curve.add(step, value);
                }
            }
            let loss = val_loss.and_then(|column| number::<f64>(&cells[column]));
            if let Some(loss) = loss.filter(|loss| loss.is_finite()) {
                if found.evaluations.len() == 2 * EVALUATIONS {
                    found.evaluations.drain(..EVALUATIONS);
                }
                found.evaluations.push((step, loss));
            }
        }
        let kept = wanted.into_iter().filter(|(_, _, curve)| {
            curve.last().or(curve.first_not_finite().map(|step| (step, 0.0))).is_some()
        });
        found.by_name = kept.map(|(name, _, curve)| (name.to_string(), curve)).collect();
        Ok((found, rows.damaged))
    }
}
