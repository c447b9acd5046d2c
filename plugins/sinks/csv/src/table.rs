//! A file with a column for each metric: a metric that a row lacks is an empty cell.

use std::{collections::HashMap, path::PathBuf};

use altgrad_plugin_api::PluginError;

use crate::file::{CsvFile, Resume, STEP};

/// The second column of a file by layer.
const LAYER: &str = "layer";

/// One row: the layer, in a file by layer, and the values by column. Of a column given twice, the later value counts.
#[derive(Debug, Default)]
pub(crate) struct Row<'a> {
    pub layer: Option<&'a str>,
    pub cells: Vec<(&'a str, f64)>,
}

/// An open file and its columns.
#[derive(Debug)]
pub(crate) struct Table {
    file: CsvFile,
    /// Columns that are no metrics.
    keys: &'static [&'static str],
    /// The column of each metric.
    columns: HashMap<String, usize>,
}

impl Table {
    /// Begins the file at `path` with a column for each of `metrics`; see [`CsvFile::open`].
    ///
    /// # Errors
    /// As [`CsvFile::open`], and `CONFIG` for a metric called as a column of another meaning.
    pub(crate) fn open<'a>(
        path: PathBuf,
        by_layer: bool,
        metrics: impl Iterator<Item = &'a str>,
        resume: Option<Resume<'_>>,
    ) -> Result<Self, PluginError> {
        let keys: &[&str] = if by_layer { &[STEP, LAYER] } else { &[STEP] };
        let mut header: Vec<String> = keys.iter().map(ToString::to_string).collect();
        let mut known = HashMap::new();
        add_columns(metrics, keys, &mut header, &mut known)?;
        let file = CsvFile::open(path, header, resume)?;
        // An earlier segment may have had other columns, and they stay where they were.
        let columns = file.header().iter().cloned().zip(0..).collect();
        Ok(Self { file, keys, columns })
    }

    /// Adds the rows of one step, all or none of them.
    ///
    /// A new metric widens the file, which copies all of it.
    ///
    /// # Errors
    /// `IO` if they cannot be written, `CONFIG` for a metric called as a column of another meaning.
    pub(crate) fn append(&mut self, step: u64, rows: &[Row<'_>]) -> Result<(), PluginError> {
        let names = rows.iter().flat_map(|row| row.cells.iter().map(|(name, _)| *name));
        let mut header = self.file.header().to_vec();
        if add_columns(names, self.keys, &mut header, &mut self.columns)? {
            self.file.widen(header)?;
        }
        let mut lines = Vec::with_capacity(rows.len());
        for row in rows {
            let mut cells = vec![String::new(); self.file.header().len()];
            cells[0] = step.to_string();
            if let Some(layer) = row.layer {
                cells[1] = layer.to_string();
            }
            for (name, value) in &row.cells {
                // `{:?}` is the shortest text that reads back as the same f64, with an exponent where that is shorter.
                cells[self.columns[*name]] = format!("{value:?}");
            }
            lines.push(cells);
        }
        self.file.append(step, &lines)
    }

    /// The file itself.
    pub(crate) fn file(&self) -> &CsvFile {
        &self.file
    }
}

/// Adds columns for new names; returns whether there were any.
fn add_columns<'a>(
    names: impl Iterator<Item = &'a str>,
    keys: &[&str],
    header: &mut Vec<String>,
    columns: &mut HashMap<String, usize>,
) -> Result<bool, PluginError> {
    let before = header.len();
    for name in names {
        if keys.contains(&name) {
            return Err(PluginError::config(format!("a metric must not be called `{name}`: a column is")));
        }
        if !columns.contains_key(name) {
            columns.insert(name.to_string(), header.len());
            header.push(name.to_string());
        }
    }
    Ok(header.len() > before)
}
