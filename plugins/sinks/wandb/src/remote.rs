//! The known state of the server: a small file beside the spool, replaced whole.
//!
//! It saves work and keeps alerts from coming twice; for rows the server's own count decides (`reconcile.rs`).

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::spool;

/// The known state of the server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Remote {
    #[serde(skip)]
    path: PathBuf,
    /// True if this spool has begun to write to the run; set before the first request that writes.
    pub claimed: bool,
    /// As the server spells them.
    pub entity: String,
    pub project: String,
    /// Lines of the server's history that are not this spool's.
    pub base: u64,
    /// The last step the server had before this spool; rows up to it cannot be sent.
    pub floor: Option<u64>,
    /// First step of rows up to `floor` that the server should have had from here, and does not.
    pub missing_from: u64,
    /// Seconds that the server's run had taken before this spool.
    pub runtime_before: f64,
    /// Rows after `floor` that the server has acknowledged.
    pub lines: u64,
    /// Alerts that were sent.
    pub alerts: u64,
    /// Place in the spool of the end that the server has.
    pub end: Option<u64>,
    /// True if all of the run was on the server, and the spool is deleted.
    pub finished: bool,
}

impl Remote {
    /// The file in a folder; unreadable or absent, nothing is known.
    pub(crate) fn open(folder: &Path) -> Self {
        let path = folder.join("uploaded.json");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        Self { path, ..serde_json::from_str(&text).unwrap_or_default() }
    }

    /// Writes down that all of the run is on the server, with the run's place there. A later spool begins anew.
    ///
    /// # Errors
    /// As [`Self::save`].
    pub(crate) fn finish(folder: &Path) -> io::Result<()> {
        let Self { path, entity, project, .. } = Self::open(folder);
        Self { path, entity, project, finished: true, ..Self::default() }.save()
    }

    /// Nothing is known of another run or server.
    pub(crate) fn forgotten(self) -> Self {
        Self { path: self.path, ..Self::default() }
    }

    /// Writes it down.
    ///
    /// # Errors
    /// The disk is full, or the folder read-only.
    pub(crate) fn save(&self) -> io::Result<()> {
        spool::replace(&self.path, |out| writeln!(out, "{}", serde_json::json!(self)))
    }

    /// The number of `steps`, ascending, that precede the first that can be sent.
    pub(crate) fn skipped(&self, steps: impl Fn(u64) -> usize) -> usize {
        self.floor.map_or(0, |floor| steps(floor + 1))
    }
}
