//! The index of a spool's lines: valid rows, their positions, and the facts of other lines.
//!
//! Reading goes forward once. Rows ascend by step; a cut removes rows, and the removed ones are remembered, because
//! the server may have some of them.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
    path::Path,
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use crate::{
    options::Identity,
    row,
    spool::{self, Kind},
};

/// The position of a row in the spool: its line and those of its histograms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowAt {
    pub step: u64,
    pub start: u64,
    pub len: usize,
}

/// The facts of the run that a process writes as it begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Begin {
    pub identity: Identity,
    /// The run's name, shown unless the user has set another.
    #[serde(default)]
    pub name: String,
    /// True if the spool was lost and, by a checkpoint, the server's run is ours.
    pub continues: bool,
    /// The step rows continue from.
    pub resume_step: Option<u64>,
    /// Name of the machine.
    pub host: Option<String>,
    /// The run folder, by its inode; earlier versions do not state it.
    #[serde(default)]
    pub folder: Option<u64>,
    /// Seconds since 1970.
    pub started: f64,
    /// The run file as W&B's config.
    pub config: serde_json::Value,
}

/// An alert as it is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SpooledAlert {
    pub step: u64,
    pub kind: String,
    pub title: String,
    pub text: String,
    pub severity: String,
    pub wait_ms: u64,
}

/// The end of the run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct End {
    pub exit_code: i32,
    pub runtime: f64,
}

/// The index of a spool, as far as it was read.
#[derive(Debug)]
pub(crate) struct Index {
    file: Arc<File>,
    /// The position at which reading continues.
    at: u64,
    /// Rows that count, steps ascending.
    pub rows: Vec<RowAt>,
    /// Rows that a cut took back, with the place they had among the rows.
    pub cut: Vec<(usize, RowAt)>,
    /// The least step of any cut.
    pub cut_floor: Option<u64>,
    /// True if the last row may yet get histograms.
    open: bool,
    pub begin: Option<Begin>,
    pub alerts: Vec<SpooledAlert>,
    /// The closing values.
    pub closing: Option<String>,
    /// The end of the run and the position of that line, unless it was resumed afterwards.
    pub end: Option<(u64, End)>,
    /// Lines that could not be read.
    pub damaged: u64,
    /// Seconds that the server's run had taken before this spool began: added to rows as they are read.
    pub runtime_before: f64,
}

impl Index {
    /// An index of nothing yet.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: Arc::new(File::open(path)?),
            at: 0,
            rows: Vec::new(),
            cut: Vec::new(),
            cut_floor: None,
            open: false,
            begin: None,
            alerts: Vec::new(),
            closing: None,
            end: None,
            damaged: 0,
            runtime_before: 0.0,
        })
    }

    /// Reads on, up to `end` and not a byte further: later bytes may yet be removed.
    pub(crate) fn read_to(&mut self, end: u64) -> io::Result<()> {
        let file = self.file.clone();
        (&*file).seek(SeekFrom::Start(self.at))?;
        let mut reader = BufReader::with_capacity(1 << 16, (&*file).take(end.saturating_sub(self.at)));
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line)? > 0 && line.pop() == Some(b'\n') {
            self.take(self.at, &line);
            self.at += line.len() as u64 + 1;
            line.clear();
        }
        Ok(())
    }

    fn take(&mut self, start: u64, line: &[u8]) {
        let Some((kind, payload)) = spool::record(line) else {
            // An empty line walls off a torn one.
            self.damaged += u64::from(!line.is_empty());
            self.open = false;
            return;
        };
        let len = line.len() + 1;
        if kind == Kind::Histogram {
            if let Some(row) = self.rows.last_mut().filter(|_| self.open) {
                row.len += len;
            }
            return;
        }
        self.open = false;
        let understood = match kind {
            Kind::Row => payload.split_once(' ').and_then(|(_, head)| row::step_of(head)).map(|step| {
                self.open = true;
                self.rows.push(RowAt { step, start, len });
            }),
            Kind::Cut => payload.parse().ok().map(|step| self.cut_from(step)),
            Kind::Begin => serde_json::from_str(payload).ok().map(|begin| {
                (self.begin, self.end, self.closing) = (Some(begin), None, None);
            }),
            Kind::Alert => serde_json::from_str(payload).ok().map(|alert| self.alerts.push(alert)),
            Kind::Summary => {
                self.closing = Some(payload.to_string());
                Some(())
            }
            Kind::End => serde_json::from_str(payload).ok().map(|end| self.end = Some((start, end))),
            Kind::Histogram => Some(()),
        };
        self.damaged += u64::from(understood.is_none());
    }

    fn cut_from(&mut self, step: u64) {
        let keep = self.rows.partition_point(|row| row.step < step);
        self.cut.extend(self.rows.drain(keep..).zip(keep..).map(|(row, place)| (place, row)));
        self.cut_floor = Some(self.cut_floor.map_or(step, |floor| floor.min(step)));
    }

    /// Rows to which nothing can be added any more and that are below a step.
    pub(crate) fn settled(&self, below: u64) -> usize {
        let closed = self.rows.len() - usize::from(self.open && !self.rows.is_empty());
        closed.min(self.rows.partition_point(|row| row.step < below))
    }

    /// The line the server gets for a row.
    pub(crate) fn text(&self, row: RowAt) -> io::Result<String> {
        let (head, histograms) = stored(&self.file, row)?;
        let delayed = (self.runtime_before > 0.0).then(|| row::delayed(&head.text, self.runtime_before));
        Ok(row::joined(delayed.as_ref().unwrap_or(&head.text), histograms.iter().map(String::as_str)))
    }

    /// Syncs the read bytes to the disk, so that the server never has rows that a power failure could remove here.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// A row and its histograms as the spool has them.
pub(crate) fn stored(file: &File, row: RowAt) -> io::Result<(row::Head, Vec<String>)> {
    let damaged =
        || io::Error::new(io::ErrorKind::InvalidData, format!("the row of step {} is damaged", row.step));
    let bytes = spool::read_part(file, row.start, row.len)?;
    let mut lines = bytes.split(|&byte| byte == b'\n').filter_map(spool::record);
    let (_, payload) = lines.next().ok_or_else(damaged)?;
    let (reproducible, text) = payload.split_once(' ').ok_or_else(damaged)?;
    let reproducible = reproducible.parse().map_err(|_| damaged())?;
    let head = row::Head { text: text.to_string(), reproducible };
    Ok((head, lines.map(|(_, text)| text.to_string()).collect()))
}
