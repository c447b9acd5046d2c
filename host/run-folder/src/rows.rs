//! The rows of a run's CSV files, one at a time: as the csv sink writes them, and as a crash or another program leaves
//! them.
//!
//! A last line without its line break is still being written and is left out. Rows of another length, or whose step is
//! no number or does not rise, are left out and counted. A file without rows by step is refused. Memory is bounded by
//! the longest record, and a record that never ends is refused.

use std::{
    cell::Cell,
    fs::{self, File},
    io::{self, BufReader, Read},
    path::Path,
    rc::Rc,
};

use csv::{ByteRecord, Reader, ReaderBuilder, Terminator};

/// Bytes of the longest record that is read: a header of some hundred thousand names.
const LONGEST_RECORD: u64 = 16 << 20;
/// Bytes read at once.
const BUFFER: usize = 1 << 16;

/// A file's rows.
#[derive(Debug)]
pub struct Rows {
    reader: Reader<BufReader<Guarded>>,
    header: Vec<String>,
    guard: Rc<Guard>,
    current: ByteRecord,
    ahead: Option<ByteRecord>,
    /// Several rows of a step are fine: rows by layer.
    last_step: Option<u64>,
    /// Rows left out, the torn last one aside.
    pub damaged: u64,
}

/// The reader's state.
#[derive(Debug, Default)]
struct Guard {
    /// Bytes since the last whole record.
    since: Cell<u64>,
    last_byte: Cell<u8>,
}

/// A file that ends in an error if a record grows beyond the limit.
#[derive(Debug)]
struct Guarded {
    file: File,
    guard: Rc<Guard>,
}

impl Read for Guarded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.guard.since.set(self.guard.since.get() + read as u64);
        if let Some(last) = buffer[..read].last() {
            self.guard.last_byte.set(*last);
        }
        if self.guard.since.get() > LONGEST_RECORD {
            return Err(io::Error::other("a line is longer than 16 MB"));
        }
        Ok(read)
    }
}

impl Rows {
    /// Opens a file of rows by step; `Ok(None)` if there is none.
    ///
    /// # Errors
    /// One sentence: the file cannot be read, or has another format.
    pub fn open(path: &Path) -> Result<Option<Self>, String> {
        match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.to_string()),
            Ok(metadata) if !metadata.is_file() => return Err("it is not a regular file".into()),
            Ok(_) => {}
        }
        let file = File::open(path).map_err(|error| error.to_string())?;
        let guard = Rc::new(Guard::default());
        let guarded = BufReader::with_capacity(BUFFER, Guarded { file, guard: guard.clone() });
        let mut builder = ReaderBuilder::new();
        builder.has_headers(false).flexible(true).terminator(Terminator::Any(b'\n')).buffer_capacity(BUFFER);
        let mut reader = builder.from_reader(guarded);
        let mut first = ByteRecord::new();
        reader.read_byte_record(&mut first).map_err(|error| say(&error))?;
        let header: Vec<String> = first
            .iter()
            .map(|name| String::from_utf8_lossy(name).trim_end_matches('\r').to_string())
            .collect();
        if header.first().is_none_or(|name| name != "step") {
            return Err(
                if header.is_empty() { "it is empty" } else { "its first column is not `step`" }.into()
            );
        }
        guard.since.set(0);
        let mut rows = Self {
            reader,
            header,
            guard,
            current: ByteRecord::new(),
            ahead: Some(ByteRecord::new()),
            last_step: None,
            damaged: 0,
        };
        rows.look_ahead()?;
        Ok(Some(rows))
    }

    /// The index of a column.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<usize> {
        self.header.iter().position(|own| own == name)
    }

    /// All columns and their indices.
    pub fn columns(&self) -> impl Iterator<Item = (&str, usize)> {
        self.header.iter().enumerate().map(|(index, name)| (name.as_str(), index))
    }

    /// The next valid row: its step and cells.
    ///
    /// # Errors
    /// The file cannot be read any further.
    pub fn next_row(&mut self) -> Result<Option<(u64, &ByteRecord)>, String> {
        let step = loop {
            let Some(ahead) = &mut self.ahead else { return Ok(None) };
            std::mem::swap(&mut self.current, ahead);
            self.look_ahead()?;
            // A partial last line: the run continues, or it crashed.
            if self.ahead.is_none() && self.guard.last_byte.get() != b'\n' {
                return Ok(None);
            }
            let sound = self.current.len() == self.header.len();
            let step = number(&self.current[0]).filter(|_| sound);
            match step.filter(|step| self.last_step.is_none_or(|last| last <= *step)) {
                Some(step) => break step,
                None => self.damaged += 1,
            }
        };
        self.last_step = Some(step);
        Ok(Some((step, &self.current)))
    }

    fn look_ahead(&mut self) -> Result<(), String> {
        let mut record = self.ahead.take().unwrap_or_default();
        let more = self.reader.read_byte_record(&mut record).map_err(|error| say(&error))?;
        self.guard.since.set(0);
        self.ahead = more.then_some(record);
        Ok(())
    }
}

fn say(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::Io(error) => error.to_string(),
        _ => error.to_string(),
    }
}

/// A cell as a number of any type; `None` if it is empty or not a number.
pub fn number<T: std::str::FromStr>(cell: &[u8]) -> Option<T> {
    std::str::from_utf8(cell).ok()?.trim().parse().ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Steps and their other cells.
    type Read = Vec<(u64, Vec<String>)>;

    fn read(text: &[u8]) -> Result<(Read, u64), String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.csv");
        fs::write(&path, text).unwrap();
        let mut rows = Rows::open(&path)?.unwrap();
        let mut found = Vec::new();
        while let Some((step, cells)) = rows.next_row()? {
            found.push((
                step,
                cells.iter().skip(1).map(|cell| String::from_utf8_lossy(cell).into()).collect(),
            ));
        }
        Ok((found, rows.damaged))
    }

    #[test]
    fn a_torn_last_line_is_still_being_written_and_others_are_damaged() {
        let row = |step, cell: &str| (step, vec![cell.to_string()]);
        assert_eq!(read(b"step,a\n0,1\n1,2\n"), Ok((vec![row(0, "1"), row(1, "2")], 0)));
        assert_eq!(read(b"step,a\n0,1\n1,2"), Ok((vec![row(0, "1")], 0)));
        assert_eq!(read(b"step,a\n0,1\n1"), Ok((vec![row(0, "1")], 0)));
        assert_eq!(read(b"step,a\n0,1\nx,2\n3\n1,2\n0,9\n"), Ok((vec![row(0, "1"), row(1, "2")], 3)));
        assert_eq!(read(b"step,a\r\n0,1\r\n").unwrap().0.len(), 1);
        assert_eq!(read(b"step,a\n"), Ok((vec![], 0)));
        assert_eq!(read(b"step,a"), Ok((vec![], 0)));
        assert_eq!(read(b""), Err("it is empty".into()));
        assert_eq!(read(b"time,a\n1,2\n"), Err("its first column is not `step`".into()));
    }

    #[test]
    fn a_record_without_end_is_refused() {
        let mut text = b"step,a\n0,\"".to_vec();
        text.resize(40 << 20, b'x');
        assert_eq!(read(&text), Err("a line is longer than 16 MB".into()));
        assert_eq!(Rows::open(Path::new("/no/such/file")).map(|rows| rows.is_none()), Ok(true));
        assert!(Rows::open(Path::new("/")).is_err());
    }
}
