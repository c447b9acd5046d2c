//! The rows of `layers.csv`: a value each, or, as earlier versions wrote them, all values of a layer and step.
//!
//! Metrics of other versions are left out.

use std::{collections::HashMap, path::Path};

use altgrad_metrics::Statistic;
use altgrad_run_folder::rows::{Rows, number};

/// The rows, one at a time.
pub(super) struct LayerRows {
    rows: Rows,
    layer: usize,
    form: Form,
}

/// The form of the rows.
enum Form {
    /// Columns of the metric's name and its value, and the names so far.
    Long { metric: usize, value: usize, names: HashMap<Vec<u8>, Option<Statistic>> },
    /// A column for each metric.
    Wide(Vec<(Statistic, usize)>),
}

impl LayerRows {
    /// Opens the file; `Ok(None)` if there is none.
    ///
    /// # Errors
    /// One sentence: the file cannot be read, or has no column `layer`.
    pub(super) fn open(path: &Path) -> Result<Option<Self>, String> {
        let Some(rows) = Rows::open(path)? else { return Ok(None) };
        let layer = rows.column("layer").ok_or("`layers.csv` has no column `layer`")?;
        let form = match (rows.column("metric"), rows.column("value")) {
            (Some(metric), Some(value)) => Form::Long { metric, value, names: HashMap::new() },
            _ => Form::Wide(
                rows.columns().filter_map(|(name, column)| Some((Statistic::parse(name)?, column))).collect(),
            ),
        };
        Ok(Some(Self { rows, layer, form }))
    }

    /// The next row: its step and layer, and its values in `values`.
    ///
    /// # Errors
    /// One sentence: the file cannot be read any further.
    pub(super) fn next_row(
        &mut self,
        values: &mut Vec<(Statistic, f64)>,
    ) -> Result<Option<(u64, &[u8])>, String> {
        values.clear();
        let Some((step, cells)) = self.rows.next_row()? else { return Ok(None) };
        match &mut self.form {
            Form::Wide(columns) => values.extend(
                columns.iter().filter_map(|(statistic, column)| Some((*statistic, number(&cells[*column])?))),
            ),
            Form::Long { metric, value, names } => {
                let name = &cells[*metric];
                let statistic = match names.get(name) {
                    Some(known) => *known,
                    None => {
                        let statistic = std::str::from_utf8(name).ok().and_then(Statistic::parse);
                        names.insert(name.to_vec(), statistic);
                        statistic
                    }
                };
                values.extend(statistic.zip(number(&cells[*value])));
            }
        }
        Ok(Some((step, &cells[self.layer])))
    }

    /// Rows left out so far.
    pub(super) fn damaged(&self) -> u64 {
        self.rows.damaged
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use super::*;

    /// Both forms of the same values are the same; a metric of another version is left out, NaN is a value.
    #[test]
    fn long_and_wide_rows_hold_the_same() {
        let wide = "step,layer,grad_norm_l2,other,grad_snr\n0,h.0.a,1,5,\n0,h.1.a,2,5,NaN\n3,h.0.a,4,5,\n";
        let long = "step,layer,metric,value\n0,h.0.a,grad_norm_l2,1\n0,h.0.a,other,5\n0,h.1.a,grad_norm_l2,2\n\
                    0,h.1.a,grad_snr,NaN\n3,h.0.a,grad_norm_l2,4\n";
        let folder = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            let path = folder.path().join("layers.csv");
            fs::write(&path, text).unwrap();
            let mut rows = LayerRows::open(&path).unwrap().unwrap();
            let (mut found, mut values) = (Vec::new(), Vec::new());
            while let Some((step, layer)) = rows.next_row(&mut values).unwrap() {
                let layer = String::from_utf8_lossy(layer).into_owned();
                found.extend(values.iter().map(|(name, value)| format!("{step} {layer} {name} {value}")));
            }
            found
        };
        let expected = [
            "0 h.0.a grad_norm_l2 1",
            "0 h.1.a grad_norm_l2 2",
            "0 h.1.a grad_mean_over_std NaN",
            "3 h.0.a grad_norm_l2 4",
        ];
        assert_eq!(read(wide), expected);
        assert_eq!(read(long), expected);
    }
}
