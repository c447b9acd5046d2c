//! A file with a column for each metric: a metric that a row lacks is an empty cell.

use std::{collections::HashMap, path::PathBuf};

use altgrad_plugin_api::PluginError;

use crate::file::{CsvFile, Resume, STEP};

/// An open file and its columns.
#[derive(Debug)]
pub(crate) struct Table {
    file: CsvFile,
    /// The columns of the next row, those of the file first.
    header: Vec<String>,
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
        metrics: impl Iterator<Item = &'a str>,
        resume: Option<Resume<'_>>,
    ) -> Result<Self, PluginError> {
        let mut wanted = vec![STEP.to_string()];
        add_columns(metrics, &mut wanted, &mut HashMap::new())?;
        let file = CsvFile::open(path, wanted.clone(), resume)?;
        // An earlier segment may have had other columns, and they stay where they were.
        let mut header = file.header().to_vec();
        let mut columns = header.iter().cloned().zip(0..).collect();
        add_columns(wanted[1..].iter().map(String::as_str), &mut header, &mut columns)?;
        Ok(Self { file, header, columns })
    }

    /// Adds the row of a step: values by column. Of a column given twice, the later value counts.
    ///
    /// A new metric widens the file, which copies all of it.
    ///
    /// # Errors
    /// `IO` if it cannot be written, `CONFIG` for a metric called as a column of another meaning.
    pub(crate) fn append(&mut self, step: u64, values: &[(&str, f64)]) -> Result<(), PluginError> {
        add_columns(values.iter().map(|(name, _)| *name), &mut self.header, &mut self.columns)?;
        if self.header.len() > self.file.header().len() {
            self.file.widen(self.header.clone())?;
        }
        let mut cells = vec![String::new(); self.header.len()];
        cells[0] = step.to_string();
        for (name, value) in values {
            cells[self.columns[*name]] = cell(*value);
        }
        self.file.append(step, &[cells])
    }

    /// The file itself.
    pub(crate) fn file(&mut self) -> &mut CsvFile {
        &mut self.file
    }
}

/// A number as a cell: the shortest text that reads back as the same f64, with an exponent where that is shorter.
pub(crate) fn cell(value: f64) -> String {
    format!("{value:?}")
}

/// Adds columns for new names.
fn add_columns<'a>(
    names: impl Iterator<Item = &'a str>,
    header: &mut Vec<String>,
    columns: &mut HashMap<String, usize>,
) -> Result<(), PluginError> {
    for name in names {
        if name == STEP {
            return Err(PluginError::config(format!("a metric must not be called `{name}`: a column is")));
        }
        if !columns.contains_key(name) {
            columns.insert(name.to_string(), header.len());
            header.push(name.to_string());
        }
    }
    Ok(())
}
