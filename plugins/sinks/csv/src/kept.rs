//! A checkpoint's record of a file, and the check that the file still matches it.
//!
//! The sum runs over the cells of the rows, not over bytes: a column that came later leaves empty cells in earlier
//! rows, and they do not count. It grows with the rows, so that no checkpoint reads a file again.

use sha2::{Digest, Sha256};

/// The rows of a file so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rows {
    count: u64,
    /// The step of the last one.
    last: Option<u64>,
    sum: Sha256,
}

impl Rows {
    /// Adds one row of a step.
    pub(crate) fn add<T: AsRef<[u8]>>(&mut self, step: u64, cells: &[T]) {
        let filled = cells.iter().rposition(|cell| !cell.as_ref().is_empty()).map_or(0, |last| last + 1);
        add_cells(&mut self.sum, &cells[..filled]);
        self.count += 1;
        self.last = Some(step);
    }

    /// The record of these rows below this header.
    pub(crate) fn kept(&self, header: &[String]) -> Kept {
        let mut sum = self.sum.clone();
        add_cells(&mut sum, header);
        let sum = sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Kept { rows: self.count, last: self.last, columns: header.len(), sum }
    }
}

/// Lengths precede their cells, so that no two lists of cells give the same bytes.
fn add_cells<T: AsRef<[u8]>>(sum: &mut Sha256, cells: &[T]) {
    sum.update((cells.len() as u64).to_le_bytes());
    for cell in cells {
        sum.update((cell.as_ref().len() as u64).to_le_bytes());
        sum.update(cell.as_ref());
    }
}

/// A checkpoint's record of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    rows: u64,
    last: Option<u64>,
    columns: usize,
    /// sha256 of rows and columns.
    sum: String,
}

impl Kept {
    /// A line of the sink's state.
    pub(crate) fn to_line(&self) -> String {
        let last = self.last.map_or("-".to_string(), |step| step.to_string());
        format!("{} {last} {} {}", self.rows, self.columns, self.sum)
    }

    /// Reads the output of [`Kept::to_line`].
    pub(crate) fn from_line(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let (rows, last) = (words.next()?.parse().ok()?, words.next()?.parse().ok());
        let (columns, sum) = (words.next()?.parse().ok()?, words.next()?.to_string());
        Some(Self { rows, last, columns, sum })
    }

    /// The difference between the record and a file that holds these rows below this header, all of steps before
    /// `resume_step`. A state with later rows cannot tell: those come again.
    pub(crate) fn gap(&self, found: &Rows, header: &[String], resume_step: u64) -> Option<String> {
        let later = self.last.is_some_and(|last| last >= resume_step);
        let columns = &header[..self.columns.min(header.len())];
        if self.rows == 0 || later || found.kept(columns) == *self {
            return None;
        }
        let missing = self.rows.saturating_sub(found.count);
        Some(match (missing, found.last, self.last) {
            (0, ..) => format!("its {} rows are not those of the checkpoint", self.rows),
            (_, Some(found), Some(last)) if found < last => {
                format!("{missing} of {} rows are missing, those of steps {} to {last}", self.rows, found + 1)
            }
            (_, None, Some(last)) => format!("all {missing} rows are missing, those up to step {last}"),
            _ => format!("{missing} of {} rows are missing before its end", self.rows),
        })
    }
}
