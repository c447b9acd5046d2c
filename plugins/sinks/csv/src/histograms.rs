//! The file of distributions: a row each, whose edges are left out where they are those of the row above with its name.
//!
//! Codes of all layers have the same edges, and those of an update's spectrum never change: written in every row, they
//! would be most of the file. A resumed run reads the edges of the kept rows, so that it writes the bytes of a run
//! without a break.

use std::{collections::HashMap, path::PathBuf};

use altgrad_plugin_api::{Histogram, MetricName, PluginError};

use crate::{
    file::{CsvFile, Resume, STEP},
    table::cell,
};

/// Columns of the file.
const COLUMNS: [&str; 5] = [STEP, "layer", "name", "edges", "counts"];
const NAME: usize = 2;
const EDGES: usize = 3;

/// The open file.
#[derive(Debug)]
pub(crate) struct Histograms {
    file: CsvFile,
    /// The edges of the last row with a name.
    edges: HashMap<String, String>,
}

impl Histograms {
    /// Begins or continues the file at `path`.
    ///
    /// # Errors
    /// As [`CsvFile::open_fixed`].
    pub(crate) fn open(path: PathBuf, resume: Option<Resume<'_>>) -> Result<Self, PluginError> {
        let file = CsvFile::open_fixed(path, &COLUMNS, resume)?;
        let mut edges = HashMap::new();
        file.each_row(|row| {
            let text = |column: usize| String::from_utf8_lossy(&row[column]).into_owned();
            if !row[EDGES].is_empty() {
                edges.insert(text(NAME), text(EDGES));
            }
        })?;
        Ok(Self { file, edges })
    }

    /// Adds a distribution.
    ///
    /// # Errors
    /// `IO` if it cannot be written.
    pub(crate) fn append(&mut self, step: u64, histogram: &Histogram<'_>) -> Result<(), PluginError> {
        let edges: Vec<String> = histogram.edges.iter().map(|edge| cell(*edge)).collect();
        let counts: Vec<String> = histogram.counts.iter().map(u64::to_string).collect();
        let full = MetricName { name: histogram.name, timing: false };
        let (name, layer) = full.by_layer().unwrap_or((histogram.name.as_str(), ""));
        let edges = edges.join(" ");
        let known = self.edges.get(name) == Some(&edges);
        let written = if known { String::new() } else { edges.clone() };
        let row = [step.to_string(), layer.to_string(), name.to_string(), written, counts.join(" ")];
        self.file.append(step, &[row.to_vec()])?;
        if !known {
            self.edges.insert(name.to_string(), edges);
        }
        Ok(())
    }

    /// The file itself.
    pub(crate) fn file(&mut self) -> &mut CsvFile {
        &mut self.file
    }
}
