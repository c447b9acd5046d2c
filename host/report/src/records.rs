//! A run's records, one at a time, as the engine handed them to sinks: from `metrics.csv` and `layers.csv`.
//!
//! Columns that name no metric of this version are left out. What a cell does not hold is missing from its record.
//! Histograms are not read.

use std::path::Path;

use altgrad_metrics::{Layer, MetricId, MetricRecord, Statistic};
use altgrad_run_folder::rows::{Rows, number};

use super::layer_rows::LayerRows;

/// The records of a run, in the order of their steps.
pub struct Records {
    metrics: Rows,
    columns: Vec<(MetricId, usize)>,
    layers: Option<LayersAhead>,
}

/// The rows of `layers.csv`, of which the next one may be of a later step.
struct LayersAhead {
    rows: LayerRows,
    values: Vec<(Statistic, f64)>,
    /// Step and layer of the values.
    next: Option<(u64, Layer)>,
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
        let layers = LayerRows::open(layers)?.map(LayersAhead::new).transpose()?;
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

impl LayersAhead {
    fn new(rows: LayerRows) -> Result<Self, String> {
        let mut ahead = Self { rows, values: Vec::new(), next: None };
        ahead.look_ahead()?;
        Ok(ahead)
    }

    fn look_ahead(&mut self) -> Result<(), String> {
        let row = self.rows.next_row(&mut self.values)?;
        self.next = row.map(|(step, layer)| (step, Layer::from(String::from_utf8_lossy(layer).as_ref())));
        Ok(())
    }

    /// Adds the values of the record's step; those of earlier steps have no record.
    fn add_to(&mut self, record: &mut MetricRecord) -> Result<(), String> {
        while let Some((step, layer)) = self.next.take_if(|(step, _)| *step <= record.step) {
            if step == record.step {
                let values = self.values.iter();
                record.values.extend(values.map(|(statistic, value)| (statistic.of_layer(&layer), *value)));
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
