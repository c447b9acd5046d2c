//! A run's records, one at a time, as the engine handed them to sinks: from `metrics.csv` and `layers.csv`.
//!
//! Columns that name no metric of this version are left out. What a cell does not hold is missing from its record.
//! Histograms are not read.

use std::path::Path;

use altgrad_metrics::{Layer, MetricId, MetricRecord, Statistic};
use altgrad_run_folder::rows::{Rows, number};

/// The records of a run, in the order of their steps.
pub struct Records {
    metrics: Rows,
    columns: Vec<(MetricId, usize)>,
    layers: Option<LayerRows>,
}

/// The rows of `layers.csv`, of which the next one may be of a later step.
struct LayerRows {
    rows: Rows,
    layer: usize,
    columns: Vec<(Statistic, usize)>,
    next: Option<(u64, Vec<(MetricId, f64)>)>,
}

impl Records {
    /// Opens both files; without `layers.csv` records hold the run's values only.
    ///
    /// # Errors
    /// One sentence: `metrics.csv` is missing, or a file cannot be read.
    pub fn open(metrics: &Path, layers: &Path) -> Result<Self, String> {
        let metrics = Rows::open(metrics)?.ok_or("it has no `metrics.csv`")?;
        let columns = metrics.columns().filter_map(|(name, column)| Some((name.parse().ok()?, column)));
        let columns = columns.collect();
        let layers = Rows::open(layers)?.map(LayerRows::new).transpose()?;
        Ok(Self { metrics, columns, layers })
    }

    /// The next record.
    ///
    /// # Errors
    /// One sentence: a file cannot be read any further.
    pub fn next_record(&mut self) -> Result<Option<MetricRecord>, String> {
        let Some((step, cells)) = self.metrics.next_row()? else { return Ok(None) };
        let mut record = MetricRecord::new(step);
        for (id, column) in &self.columns {
            record.push_some(id.clone(), number(&cells[*column]));
        }
        if let Some(layers) = &mut self.layers {
            layers.add_to(&mut record)?;
        }
        Ok(Some(record))
    }
}

impl LayerRows {
    fn new(rows: Rows) -> Result<Self, String> {
        let layer = rows.column("layer").ok_or("`layers.csv` has no column `layer`")?;
        let columns = rows.columns().filter_map(|(name, column)| Some((Statistic::parse(name)?, column)));
        let columns = columns.collect();
        let mut rows = Self { rows, layer, columns, next: None };
        rows.look_ahead()?;
        Ok(rows)
    }

    fn look_ahead(&mut self) -> Result<(), String> {
        self.next = match self.rows.next_row()? {
            None => None,
            Some((step, cells)) => {
                let layer = Layer::from(String::from_utf8_lossy(&cells[self.layer]).as_ref());
                let value = |(statistic, column): &(Statistic, usize)| {
                    Some((statistic.of_layer(&layer), number(&cells[*column])?))
                };
                Some((step, self.columns.iter().filter_map(value).collect()))
            }
        };
        Ok(())
    }

    /// Adds the values of the record's step; those of earlier steps have no record.
    fn add_to(&mut self, record: &mut MetricRecord) -> Result<(), String> {
        while let Some((step, values)) = self.next.take() {
            if step > record.step {
                self.next = Some((step, values));
                return Ok(());
            }
            if step == record.step {
                record.values.extend(values);
            }
            self.look_ahead()?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn values_of_layers_join_the_record_of_their_step() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let metrics = file("metrics.csv", "step,train/loss,other,quant/grad/sqnr_db\n0,2.5,1,\n2,NaN,1,7\n");
        let layers =
            file("layers.csv", "step,layer,grad_norm_l2\n1,h.0.a,9\n2,h.0.a,1\n2,h.1.a,\n2,h.2.a,3\n");
        let mut records = Records::open(&metrics, &layers).unwrap();
        let mut read = Vec::new();
        while let Some(record) = records.next_record().unwrap() {
            let values = record.values.iter().map(|(id, value)| format!("{id}={value}"));
            read.push((record.step, values.collect::<Vec<_>>().join(" ")));
        }
        let last = "train/loss=NaN quant/grad/sqnr_db=7 grad_norm_l2/h.0.a=1 grad_norm_l2/h.2.a=3";
        assert_eq!(read, [(0, "train/loss=2.5".to_string()), (2, last.to_string())]);
        assert!(Records::open(&folder.path().join("none.csv"), &layers).is_err());
        let alone = Records::open(&metrics, &folder.path().join("none.csv")).unwrap().next_record().unwrap();
        assert_eq!(alone.unwrap().values.len(), 1);
    }
}
