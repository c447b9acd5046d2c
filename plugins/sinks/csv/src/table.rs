//! One CSV file that only grows: rows at its end, and now and then a column at its right.
//!
//! A row reaches the file within the call that brings it; nothing waits in this process. The header changes by
//! writing a wider copy beside the file and renaming it, so at every moment the name leads to a whole file.
//! A process killed while writing leaves at most one torn line, which resuming drops.

use std::{
    collections::HashMap,
    fmt::Display,
    fs::{self, File},
    io::ErrorKind::NotFound,
    path::{Path, PathBuf},
};

use altgrad_plugin_api::{ErrorKind, PluginError};
use csv::{ReaderBuilder, StringRecord, Writer};

/// The first column.
const STEP: &str = "step";

/// An open file and its columns.
#[derive(Debug)]
pub(crate) struct Table {
    path: PathBuf,
    /// All columns, `step` first.
    header: Vec<String>,
    /// Where each metric is in `header`.
    columns: HashMap<String, usize>,
    writer: Writer<File>,
}

/// A fault of a file, by name.
pub(crate) fn io_error(path: &Path, error: &dyn Display) -> PluginError {
    PluginError::new(ErrorKind::IO, format!("`{}`: {error}", path.display()))
}

impl Table {
    /// Begins the file at `path`, in an existing folder, with a column for each of `metrics`.
    ///
    /// A fresh run replaces what is there. With `resume_step`, complete rows of earlier steps and all columns stay.
    ///
    /// # Errors
    /// `IO` if the file cannot be written, or is not one that resuming can go on with; `CONFIG` for a metric `step`.
    pub(crate) fn open<'a>(
        path: PathBuf,
        metrics: impl Iterator<Item = &'a str>,
        resume_step: Option<u64>,
    ) -> Result<Self, PluginError> {
        let (mut header, found) = match resume_step {
            Some(_) => read(&path)?,
            None => (vec![STEP.to_string()], Vec::new()),
        };
        let mut columns = header.iter().cloned().zip(0..).collect();
        add_columns(metrics, &mut header, &mut columns)?;
        let mut rows = Vec::new();
        for row in found {
            let step: u64 = row[0].parse().map_err(|_| {
                let line = row.position().map_or(0, csv::Position::line);
                io_error(&path, &format!("line {line}: `{}` is not a step", &row[0]))
            })?;
            if Some(step) < resume_step {
                rows.push(row);
            }
        }
        let writer = rewrite(&path, &header, &rows)?;
        Ok(Self { path, header, columns, writer })
    }

    /// Adds the row of one step. Of a metric given twice, the later value counts.
    ///
    /// A metric not seen before widens the file, which copies all of it.
    ///
    /// # Errors
    /// `IO` if the row cannot be written, `CONFIG` for a metric `step`.
    pub(crate) fn append<'a>(
        &mut self,
        step: u64,
        metrics: impl Iterator<Item = (&'a str, f64)> + Clone,
    ) -> Result<(), PluginError> {
        if add_columns(metrics.clone().map(|(name, _)| name), &mut self.header, &mut self.columns)? {
            let (_, rows) = read(&self.path)?;
            self.writer = rewrite(&self.path, &self.header, &rows)?;
        }
        let mut row = vec![String::new(); self.header.len()];
        row[0] = step.to_string();
        for (name, value) in metrics {
            // `{:?}` is the shortest text that reads back as the same f64, with an exponent where that is shorter.
            row[self.columns[name]] = format!("{value:?}");
        }
        self.writer.write_record(&row).map_err(|error| io_error(&self.path, &error))?;
        self.writer.flush().map_err(|error| io_error(&self.path, &error))
    }
}

/// Adds columns for the names not seen before; whether there were any.
fn add_columns<'a>(
    names: impl Iterator<Item = &'a str>,
    header: &mut Vec<String>,
    columns: &mut HashMap<String, usize>,
) -> Result<bool, PluginError> {
    let before = header.len();
    for name in names {
        if name == STEP {
            return Err(PluginError::config("a metric must not be called `step`: the first column is"));
        }
        if !columns.contains_key(name) {
            columns.insert(name.to_string(), header.len());
            header.push(name.to_string());
        }
    }
    Ok(header.len() > before)
}

/// Header and complete rows of a file; only the column `step` if there is no file or no complete header.
fn read(path: &Path) -> Result<(Vec<String>, Vec<StringRecord>), PluginError> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == NotFound => Vec::new(),
        result => result.map_err(|error| io_error(path, &error))?,
    };
    // What follows the last line break was torn off by a crash.
    let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
    if whole == 0 {
        return Ok((vec![STEP.to_string()], Vec::new()));
    }
    let mut reader = ReaderBuilder::new().from_reader(&bytes[..whole]);
    let header = reader.headers().map_err(|error| io_error(path, &error))?;
    let header: Vec<String> = header.iter().map(String::from).collect();
    if header.first().is_none_or(|first| first != STEP) {
        return Err(io_error(path, &"not a file of this sink: its first column is not `step`"));
    }
    let rows: Result<_, csv::Error> = reader.records().collect();
    Ok((header, rows.map_err(|error| io_error(path, &error))?))
}

/// Puts a whole file in place at once; more rows can be appended through what it returns.
fn rewrite(path: &Path, header: &[String], rows: &[StringRecord]) -> Result<Writer<File>, PluginError> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".tmp");
    let beside = PathBuf::from(beside);
    let mut writer =
        File::create(&beside).map(Writer::from_writer).map_err(|error| io_error(&beside, &error))?;
    let missing = |row: &StringRecord| header.len().saturating_sub(row.len());
    let write = |writer: &mut Writer<File>| -> Result<(), csv::Error> {
        writer.write_record(header)?;
        for row in rows {
            writer.write_record(row.iter().chain(std::iter::repeat_n("", missing(row))))?;
        }
        writer.flush()?;
        // The copy must be on the disk before it takes the place of the only other one.
        Ok(writer.get_ref().sync_all()?)
    };
    write(&mut writer).map_err(|error| io_error(&beside, &error))?;
    fs::rename(&beside, path).map_err(|error| io_error(path, &error))?;
    Ok(writer)
}
