//! New rows of a growing CSV file: rows that were read are not read again.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
};

use csv::ReaderBuilder;

/// Bytes read at once, and of the longest row.
const CHUNK: u64 = 4 << 20;

/// A file and the length that was read.
#[derive(Debug)]
pub(super) struct Tail {
    path: PathBuf,
    /// Device and inode: a file that is replaced is read from its start.
    identity: Option<(u64, u64)>,
    offset: u64,
    /// The last line before `offset`. The second replacement of a file can have the inode of the first file, but not
    /// this line there.
    last: Vec<u8>,
    header: Vec<String>,
}

/// The result of reading a file's new lines.
#[derive(Debug, Default)]
pub(super) struct NewRows {
    /// True if rows of earlier reads are void, because the file was replaced or shortened.
    pub is_anew: bool,
    /// Column names of the rows.
    pub header: Vec<String>,
    /// Complete rows, in their order.
    pub rows: Vec<Vec<String>>,
}

impl Tail {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, identity: None, offset: 0, last: Vec::new(), header: Vec::new() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The rows since the last reading, at most some megabytes; none where the file cannot be read.
    pub(super) fn look(&mut self) -> NewRows {
        self.try_look().unwrap_or_default()
    }

    fn try_look(&mut self) -> Option<NewRows> {
        let mut file = File::open(&self.path).ok()?;
        let metadata = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
        let identity = Some((metadata.dev(), metadata.ino()));
        let is_anew = self.identity != identity || !self.is_continued(&file);
        if is_anew {
            (self.identity, self.offset) = (identity, 0);
            self.last.clear();
            self.header.clear();
        }
        let mut found = NewRows { is_anew, ..NewRows::default() };
        if metadata.len() > self.offset {
            file.seek(SeekFrom::Start(self.offset)).ok()?;
            let mut bytes = Vec::new();
            file.take(CHUNK).read_to_end(&mut bytes).ok()?;
            // A line without its end is still being written.
            bytes.truncate(bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1));
            self.offset += bytes.len() as u64;
            if let Some(line) = bytes.split_inclusive(|byte| *byte == b'\n').next_back() {
                self.last = line.to_vec();
            }
            found.rows = records(&bytes);
        }
        if self.header.is_empty() && !found.rows.is_empty() {
            self.header = found.rows.remove(0);
        }
        found.header.clone_from(&self.header);
        found.rows.retain(|row| row.len() == self.header.len());
        Some(found)
    }

    /// True if the line that was read last is still in its place.
    fn is_continued(&self, file: &File) -> bool {
        let mut line = vec![0; self.last.len()];
        file.read_exact_at(&mut line, self.offset - self.last.len() as u64).is_ok() && line == self.last
    }
}

fn records(bytes: &[u8]) -> Vec<Vec<String>> {
    let reader = ReaderBuilder::new().has_headers(false).flexible(true).from_reader(bytes);
    let cells = |record: csv::ByteRecord| {
        record.iter().map(|cell| String::from_utf8_lossy(cell).into_owned()).collect()
    };
    reader.into_byte_records().filter_map(Result::ok).map(cells).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::{fs, io::Write};

    use super::*;

    #[test]
    fn rows_come_once_and_anew_where_the_file_was_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.csv");
        let mut tail = Tail::new(path.clone());
        assert!(tail.look().rows.is_empty(), "no file yet");
        fs::write(&path, "step,a\n0,1\n1,").unwrap();
        let first = tail.look();
        assert_eq!((first.is_anew, first.rows), (true, vec![vec!["0".to_string(), "1".into()]]));
        fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"2\n2,3\n").unwrap();
        let second = tail.look();
        assert_eq!((second.is_anew, second.rows.len(), second.header.len()), (false, 2, 2));
        assert!(tail.look().rows.is_empty());
        // As the csv sink adds a column: another file under the same name.
        let beside = folder.path().join("beside");
        let replace = |text: &str| {
            fs::write(&beside, text).unwrap();
            fs::rename(&beside, &path).unwrap();
        };
        replace("step,a,b\n0,1,\n");
        let third = tail.look();
        assert_eq!((third.is_anew, third.rows.len(), third.header.len()), (true, 1, 3));
        // The second file may get the inode of the one that was read.
        replace("step,a,b,c\n");
        replace("step,a,b,c\n0,1,,\n1,2,,\n");
        let fourth = tail.look();
        assert_eq!((fourth.is_anew, fourth.rows.len(), fourth.header.len()), (true, 2, 4));
    }
}
