//! The spool: a file that only grows, so that accepted rows are on disk even if process or network fail.
//!
//! A line a record: `CRC KIND PAYLOAD`, the CRC-32 of the rest as eight hexadecimal digits. One write a record; a
//! killed process leaves at most one torn line at the end, which opening drops. A failed write (full disk) is taken
//! back, or, where even that fails, walled off as a line of its own that reading skips and counts. What records mean:
//! `index.rs`.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufWriter, Seek, SeekFrom, Write},
    os::unix::fs::FileExt,
    path::Path,
};

/// The kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A process begins to write: facts about the run, JSON.
    Begin,
    /// A row without histograms: `REPRODUCIBLE {...}`, see `row.rs`.
    Row,
    /// A histogram of the row before: `"name":{...}`.
    Histogram,
    /// Rows from this step on count no longer: others follow.
    Cut,
    /// An alert, JSON.
    Alert,
    /// The closing values, a JSON object.
    Summary,
    /// The run has ended, JSON.
    End,
}

const LETTERS: [(Kind, u8); 7] = [
    (Kind::Begin, b'B'),
    (Kind::Row, b'R'),
    (Kind::Histogram, b'H'),
    (Kind::Cut, b'C'),
    (Kind::Alert, b'A'),
    (Kind::Summary, b'S'),
    (Kind::End, b'E'),
];

/// A record as a line.
fn line(kind: Kind, payload: &str) -> Vec<u8> {
    let letter = LETTERS.iter().find(|(known, _)| *known == kind).map_or(b'?', |&(_, letter)| letter);
    let mut line = Vec::with_capacity(payload.len() + 12);
    line.extend_from_slice(b"00000000 ");
    line.extend_from_slice(&[letter, b' ']);
    line.extend_from_slice(payload.as_bytes());
    let crc = format!("{:08x}", crc32fast::hash(&line[9..]));
    line[..8].copy_from_slice(crc.as_bytes());
    line.push(b'\n');
    line
}

/// A line as a record, if it is whole. `line` comes without its line break.
pub(crate) fn record(line: &[u8]) -> Option<(Kind, &str)> {
    let (crc, rest) = (line.get(..8)?, line.get(9..)?);
    let crc = u32::from_str_radix(std::str::from_utf8(crc).ok()?, 16).ok()?;
    if crc32fast::hash(rest) != crc || rest.get(1) != Some(&b' ') {
        return None;
    }
    let kind = LETTERS.iter().find(|(_, letter)| *letter == rest[0])?.0;
    Some((kind, std::str::from_utf8(&rest[2..]).ok()?))
}

/// The writing end.
#[derive(Debug)]
pub(crate) struct Spool {
    file: File,
    /// Length up to which every line is complete.
    len: u64,
    /// True if a torn line may follow `len`.
    torn: bool,
}

impl Spool {
    /// Opens the file for more lines, made if it is not there; a torn line at its end goes.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let len = whole_length(&mut file)?;
        file.set_len(len)?;
        Ok(Self { file, len, torn: false })
    }

    /// Length of the written part.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Flushes the records to the disk.
    ///
    /// # Errors
    /// The disk fails.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Adds a record; its bytes are with the operating system when this returns.
    ///
    /// # Errors
    /// The record is lost, but no other.
    pub(crate) fn append(&mut self, kind: Kind, payload: &str) -> io::Result<()> {
        let mut bytes = line(kind, payload);
        if self.torn {
            if self.file.set_len(self.len).is_err() {
                bytes.insert(0, b'\n');
                self.len = self.file.metadata()?.len();
            }
            self.torn = false;
        }
        match self.file.write_all(&bytes) {
            Ok(()) => {
                self.len += bytes.len() as u64;
                Ok(())
            }
            Err(error) => {
                self.torn = self.file.set_len(self.len).is_err();
                Err(error)
            }
        }
    }
}

/// Length of a file up to its last line break.
fn whole_length(file: &mut File) -> io::Result<u64> {
    let mut end = file.seek(SeekFrom::End(0))?;
    let mut block = [0; 4096];
    while end > 0 {
        let start = end.saturating_sub(block.len() as u64);
        let part = &mut block[..(end - start) as usize];
        file.read_exact_at(part, start)?;
        if let Some(last) = part.iter().rposition(|&byte| byte == b'\n') {
            return Ok(start + last as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// Part of a spool.
pub(crate) fn read_part(file: &File, start: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, start)?;
    Ok(bytes)
}

/// Puts a file in place at once, after a power cut too.
pub(crate) fn replace(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let beside = path.with_extension("tmp");
    let mut out = BufWriter::new(File::create(&beside)?);
    write(&mut out)?;
    out.into_inner()?.sync_all()?;
    std::fs::rename(beside, path)
}
