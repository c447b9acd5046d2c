//! The metrics of a run by step, from `metrics.csv` and `timings.csv`: those that are shown, and every evaluation.

use std::{collections::BTreeMap, path::Path};

use altgrad_metrics::{
    MetricId, Over, Statistic,
    families::training::{LOSS, VAL_LOSS},
    report,
};
use altgrad_run_folder::rows::{Rows, number};

use super::series::Series;

/// Buckets of a curve of the whole run.
const CAPACITY: usize = 512;
/// Evaluations that are kept exactly; of more, the latest.
const EVALUATIONS: usize = 1 << 16;

/// The contents of a file of metrics.
#[derive(Default)]
pub(super) struct Curves {
    pub by_statistic: BTreeMap<Statistic, Series>,
    pub evaluations: Vec<(u64, f64)>,
    /// True if the newest evaluation is not finite; it is not among `evaluations`.
    pub ends_not_finite: bool,
    pub rows: u64,
    /// The last step that trained: the row of the final evaluation has none.
    pub last_step: Option<u64>,
}

impl Curves {
    /// Reads the metrics that are kept, and the evaluations among them if wanted.
    pub fn read(path: &Path, evaluations: bool) -> Result<(Self, u64), String> {
        let mut found = Self::default();
        let Some(mut rows) = Rows::open(path)? else { return Ok((found, 0)) };
        let mut wanted: Vec<_> = rows
            .columns()
            .filter_map(|(name, column)| Some((kept(name)?, column, Series::new(CAPACITY))))
            .collect();
        let val_loss = rows.column(VAL_LOSS.name).filter(|_| evaluations);
        let train_loss = rows.column(LOSS.name);
        while let Some((step, cells)) = rows.next_row()? {
            found.rows += 1;
            if train_loss.is_none_or(|column| !cells[column].is_empty()) {
                found.last_step = Some(step);
            }
            for (_, column, curve) in &mut wanted {
                if let Some(value) = number(&cells[*column]) {
                    curve.add(step, value);
                }
            }
            let Some(loss) = val_loss.and_then(|column| number::<f64>(&cells[column])) else { continue };
            found.ends_not_finite = !loss.is_finite();
            if loss.is_finite() {
                if found.evaluations.len() == 2 * EVALUATIONS {
                    found.evaluations.drain(..EVALUATIONS);
                }
                found.evaluations.push((step, loss));
            }
        }
        let kept = wanted.into_iter().filter(|(_, _, curve)| {
            curve.last().or(curve.first_not_finite().map(|step| (step, 0.0))).is_some()
        });
        found.by_statistic = kept.map(|(statistic, _, curve)| (statistic, curve)).collect();
        Ok((found, rows.damaged))
    }
}

/// The metric of a column, if the report keeps its curve.
fn kept(column: &str) -> Option<Statistic> {
    let id: MetricId = column.parse().ok()?;
    (id.over == Over::All && report::keeps_curve(&id.statistic)).then_some(id.statistic)
}
