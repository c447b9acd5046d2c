//! One CSV file that only grows: whole lines at its end, and now and then a column at its right.
//!
//! Appended rows reach the file within the call; nothing waits in this process. A wider header is made by writing a
//! copy beside the file and renaming it, so at every moment the name leads to a whole file. A process killed while
//! writing leaves at most one torn line. A resumed run removes this line and the rows of steps that come again at its
//! first row, checkpoint or end, by replacing the file. A run that is refused after its files were opened changes
//! nothing. A lock, which ends with the process, keeps a second sink or run out of the file. `table.rs` defines the
//! cells.

use std::{
    fmt::Display,
    fs::{self, File, OpenOptions, TryLockError},
    io::{BufReader, Read, Seek, Take},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use altgrad_plugin_api::PluginError;
use csv::{ByteRecord, Reader, ReaderBuilder, Terminator, Writer};

use crate::kept::{Kept, Rows};

/// The first column.
pub(crate) const STEP: &str = "step";

/// An open file.
#[derive(Debug)]
pub(crate) struct CsvFile {
    path: PathBuf,
    file: File,
    /// Bytes of the lines to keep; a resumed run's file may be longer.
    length: u64,
    /// All columns, `step` first.
    header: Vec<String>,
    rows: Rows,
    /// Rows that are missing or changed since the checkpoint.
    gap: Option<String>,
}

/// The step at which a resumed run continues.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Resume<'a> {
    pub step: u64,
    /// The checkpoint's record of the file.
    pub kept: Option<&'a Kept>,
}

impl CsvFile {
    /// Begins the file at `path` with these columns; folders are made.
    ///
    /// A fresh run replaces an existing file. With `resume`, whole rows of earlier steps and the columns of an earlier
    /// segment stay, and are compared with the checkpoint's record.
    ///
    /// # Errors
    /// `IO` if the file cannot be written, is in use, or cannot be continued by a resumed run.
    pub(crate) fn open(
        path: PathBuf,
        columns: Vec<String>,
        resume: Option<Resume<'_>>,
    ) -> Result<Self, PluginError> {
        let mut open = Self::reopen(path, resume)?;
        if open.header.is_empty() {
            open.begin(columns)?;
        }
        Ok(open)
    }

    /// The same with these columns only.
    ///
    /// # Errors
    /// As [`Self::open`], and `IO` if the file has other columns.
    pub(crate) fn open_fixed(
        path: PathBuf,
        columns: &[&str],
        resume: Option<Resume<'_>>,
    ) -> Result<Self, PluginError> {
        let mut open = Self::reopen(path, resume)?;
        if open.header.is_empty() {
            open.begin(columns.iter().map(ToString::to_string).collect())?;
        } else if open.header != columns {
            let error = format!("its columns are not `{}`: another version wrote it", columns.join(","));
            return Err(PluginError::io(&open.path, error)
                .with_hint("resume in a new folder with `--out`, or with the version that began the run"));
        }
        Ok(open)
    }

    /// The file as an earlier segment of the run left it: without a header where there is none.
    fn reopen(path: PathBuf, resume: Option<Resume<'_>>) -> Result<Self, PluginError> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|error| PluginError::io(folder, error))?;
        }
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).to_owned();
        let file = options.open(&path).map_err(|error| PluginError::io(&path, error))?;
        lock(&path, &file)?;
        // The file that a process left when it was killed while it widened the table.
        let _ = fs::remove_file(beside(&path));
        let Scanned { header, length, rows } = match resume {
            Some(resume) => scan(&path, &file, resume.step)?,
            None => Scanned::default(),
        };
        let gap = resume.and_then(|resume| resume.kept?.gap(&rows, &header, resume.step));
        let gap = gap.map(|gap| format!("`{}`: {gap}", path.display()));
        Ok(Self { path, file, length, header, rows, gap })
    }

    fn begin(&mut self, columns: Vec<String>) -> Result<(), PluginError> {
        self.write(&lines(&[&columns]))?;
        self.header = columns;
        Ok(())
    }

    /// Shows the rows so far, first to last.
    ///
    /// # Errors
    /// `IO`.
    pub(crate) fn each_row(&self, mut take: impl FnMut(&ByteRecord)) -> Result<(), PluginError> {
        let fault = |error: &dyn Display| PluginError::io(&self.path, error);
        let mut rows = reader(&self.path, &self.file, self.length)?;
        let mut row = ByteRecord::new();
        rows.read_byte_record(&mut row).map_err(|error| fault(&error))?;
        while rows.read_byte_record(&mut row).map_err(|error| fault(&error))? {
            take(&row);
        }
        Ok(())
    }

    /// All columns.
    pub(crate) fn header(&self) -> &[String] {
        &self.header
    }

    /// The record of the file for a checkpoint.
    pub(crate) fn kept(&self) -> Kept {
        self.rows.kept(&self.header)
    }

    /// The rows that were missing or changed when the file was opened.
    pub(crate) fn gap(&self) -> Option<&str> {
        self.gap.as_deref()
    }

    /// Adds rows of a step. If that fails, all of them are removed, as far as the machine allows.
    ///
    /// # Errors
    /// `IO`.
    pub(crate) fn append(&mut self, step: u64, rows: &[Vec<String>]) -> Result<(), PluginError> {
        self.write(&lines(rows))?;
        rows.iter().for_each(|row| self.rows.add(step, row));
        Ok(())
    }

    fn write(&mut self, lines: &[u8]) -> Result<(), PluginError> {
        self.remove_later_rows()?;
        if let Err(error) = self.file.write_all_at(lines, self.length) {
            let _ = self.cut();
            return Err(PluginError::io(&self.path, error));
        }
        self.length += lines.len() as u64;
        Ok(())
    }

    /// Puts a copy of the lines to keep in place of the file, with more columns if the header has them; rows so far
    /// have empty cells there.
    ///
    /// # Errors
    /// `IO`.
    pub(crate) fn widen(&mut self, header: Vec<String>) -> Result<(), PluginError> {
        let beside = beside(&self.path);
        let written = self.copy_wider(&header, &beside);
        let (file, length) = written.inspect_err(|_| drop(fs::remove_file(&beside)))?;
        fs::rename(&beside, &self.path).map_err(|error| PluginError::io(&self.path, error))?;
        (self.file, self.length, self.header) = (file, length, header);
        Ok(())
    }

    /// Writes the copy; the file, open and locked, and its length.
    fn copy_wider(&mut self, header: &[String], beside: &Path) -> Result<(File, u64), PluginError> {
        let fault = |error: &dyn Display| PluginError::io(beside, error);
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(beside);
        let file = file.map_err(|error| fault(&error))?;
        lock(beside, &file)?;
        let more = header.len() - self.header.len();
        let mut rows = reader(&self.path, &self.file, self.length)?;
        let write = || -> Result<File, csv::Error> {
            let mut writer = Writer::from_writer(file);
            writer.write_record(header)?;
            let mut row = ByteRecord::new();
            rows.read_byte_record(&mut row)?;
            while rows.read_byte_record(&mut row)? {
                writer.write_record(row.iter().chain(std::iter::repeat_n(&b""[..], more)))?;
            }
            let file = writer.into_inner().map_err(|error| error.into_error())?;
            // The copy must be on the disk before it takes the place of the only other one.
            file.sync_all()?;
            Ok(file)
        };
        let mut file = write().map_err(|error| fault(&error))?;
        let length = file.stream_position().map_err(|error| fault(&error))?;
        Ok((file, length))
    }

    /// Removes everything after the lines to keep. The file is replaced rather than shortened: a program that follows
    /// it might not notice that it was shorter for a moment.
    ///
    /// # Errors
    /// `IO`.
    pub(crate) fn remove_later_rows(&mut self) -> Result<(), PluginError> {
        let total = self.file.metadata().map_err(|error| PluginError::io(&self.path, error))?.len();
        match self.header.is_empty() {
            _ if total == self.length => Ok(()),
            true => self.cut(),
            false => self.widen(self.header.clone()),
        }
    }

    fn cut(&self) -> Result<(), PluginError> {
        self.file.set_len(self.length).map_err(|error| PluginError::io(&self.path, error))
    }

    /// Flushes everything to the disk itself.
    ///
    /// # Errors
    /// `IO`.
    pub(crate) fn sync(&self) -> Result<(), PluginError> {
        self.file.sync_data().map_err(|error| PluginError::io(&self.path, error))
    }
}

/// The text of rows of one length.
fn lines<R: AsRef<[String]>>(rows: &[R]) -> Vec<u8> {
    let mut writer = Writer::from_writer(Vec::new());
    for row in rows {
        // Cannot fail, as `into_inner` cannot: the writer's end is memory, and the rows are of one length.
        let _ = writer.write_record(row.as_ref());
    }
    writer.into_inner().unwrap_or_default()
}

/// The path of a wider copy.
fn beside(path: &Path) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".tmp");
    PathBuf::from(beside)
}

fn lock(path: &Path, file: &File) -> Result<(), PluginError> {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            let error = PluginError::io(path, "in use by another sink or run");
            Err(error.with_hint("give each csv sink paths of its own"))
        }
        // A file system without locks is no reason not to write.
        _ => Ok(()),
    }
}

/// The first bytes of an open file.
type Beginning<'a> = BufReader<Take<&'a File>>;

/// Reads the first `length` bytes of a file, record by record, lines of unequal length included.
fn reader<'a>(path: &Path, mut file: &'a File, length: u64) -> Result<Reader<Beginning<'a>>, PluginError> {
    file.rewind().map_err(|error| PluginError::io(path, error))?;
    let mut builder = ReaderBuilder::new();
    builder.has_headers(false).flexible(true).terminator(Terminator::Any(b'\n'));
    Ok(builder.from_reader(BufReader::new(file.take(length))))
}

/// The part of a file that a resumed run keeps.
#[derive(Default)]
struct Scanned {
    /// Empty if the file ends before the header does.
    header: Vec<String>,
    /// Bytes of header and rows.
    length: u64,
    rows: Rows,
}

/// Reads the file of an interrupted run up to `resume_step`.
fn scan(path: &Path, file: &File, resume_step: u64) -> Result<Scanned, PluginError> {
    let fault = |error: &dyn Display| PluginError::io(path, error);
    let total = file.metadata().map_err(|error| fault(&error))?.len();
    let mut reader = reader(path, file, total)?;
    let (mut header, mut keep, mut record) = (Vec::new(), 0, ByteRecord::new());
    let (mut rows, mut cells) = (Rows::default(), Vec::new());
    while reader.read_byte_record(&mut record).map_err(|error| fault(&error))? {
        let end = reader.position().byte();
        if end == total && is_torn(file, keep, end).map_err(|error| fault(&error))? {
            break;
        }
        if header.is_empty() {
            header = record.iter().map(|cell| String::from_utf8_lossy(cell).into_owned()).collect();
            if header.first().is_none_or(|first| first != STEP) {
                return Err(fault(&"not a file of this sink: its first column is not `step`"));
            }
        } else {
            let number = record.position().map_or(0, csv::Position::line);
            if record.len() != header.len() {
                let (found, due) = (record.len(), header.len());
                return Err(fault(&format!("line {number} has {found} cells where the header has {due}")));
            }
            let step = std::str::from_utf8(&record[0]).ok().and_then(|cell| cell.parse::<u64>().ok());
            let step = step.ok_or_else(|| {
                let cell = String::from_utf8_lossy(&record[0]);
                fault(&format!("line {number}: `{cell}` is not a step"))
            })?;
            if step >= resume_step {
                break;
            }
            cells.clear();
            cells.extend(record.iter().map(<[u8]>::to_vec));
            rows.add(step, &cells);
        }
        keep = end;
    }
    Ok(Scanned { header, length: keep, rows })
}

/// True if a crash tore off the last record: it ends without a line break, or with one that is part of a name.
fn is_torn(file: &File, begin: u64, end: u64) -> std::io::Result<bool> {
    let mut bytes = vec![0; usize::try_from(end - begin).map_err(std::io::Error::other)?];
    file.read_exact_at(&mut bytes, begin)?;
    let quotes = bytes.iter().filter(|&&byte| byte == b'"').count();
    Ok(bytes.last() != Some(&b'\n') || quotes % 2 == 1)
}
