//! One event file: records with checksums, each a whole event.
//!
//! A record is the event's length, the length's checksum, the event, the event's checksum; little-endian. Readers stop
//! at a record that a killed process left incomplete and continue with the next file, so a file is never written to
//! again after its process ended: a resumed run begins another, whose name sorts after it. The beginning of a file
//! makes readers forget the steps that come again, so it is written with the first record after it: a resume that is
//! refused changes nothing.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    time::SystemTime,
};

use altgrad_plugin_api::PluginError;
use prost::Message;

use crate::proto::{Event, SessionLog, SessionStatus, What};

/// Prefix of names; TensorBoard searches names for `tfevents` and reads files in the order of names.
const PREFIX: &str = "events.out.tfevents.";

/// An open file.
#[derive(Debug)]
pub(crate) struct EventFile {
    path: PathBuf,
    file: File,
    /// Bytes of whole records.
    length: u64,
    /// The records at the beginning, until they are written.
    header: Vec<u8>,
}

/// Seconds since 1970; 0 if the clock is before that.
pub(crate) fn now() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// CRC-32C, rotated and moved, so that a checksum of data that holds checksums is not degenerate.
fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// An event as a record.
pub(crate) fn record(event: &Event) -> Vec<u8> {
    let event = event.encode_to_vec();
    let length = (event.len() as u64).to_le_bytes();
    let mut record = Vec::with_capacity(event.len() + 16);
    record.extend(length);
    record.extend(masked_crc(&length).to_le_bytes());
    record.extend(&event);
    record.extend(masked_crc(&event).to_le_bytes());
    record
}

impl EventFile {
    /// Makes an empty file in `folder`, which is made. Once its header is written, readers drop the values of earlier
    /// files for `first_step` and later steps.
    ///
    /// # Errors
    /// `IO` if it cannot be written, or another sink or run writes to the folder.
    pub(crate) fn begin(folder: &Path, first_step: i64) -> Result<Self, PluginError> {
        fs::create_dir_all(folder).map_err(|error| PluginError::io(folder, error))?;
        let stamp = last_stamp(folder)?.map_or(0, |last| last + 1).max(now() as u64);
        let path = folder.join(format!("{PREFIX}{stamp:010}.altgrad"));
        let file = OpenOptions::new().write(true).create_new(true).open(&path);
        let file = file.map_err(|error| PluginError::io(&path, error))?;
        // Without locks in the file system other processes cannot be excluded; writing continues nevertheless.
        let _ = file.try_lock();
        let event = |what| Event { wall_time: now(), step: 0, what: Some(what) };
        let version = event(What::FileVersion("brain.Event:2".into()));
        let start = What::SessionLog(SessionLog { status: SessionStatus::Start.into() });
        // TensorBoard takes the first start of a run for its beginning and others for resumptions.
        let start = Event { step: first_step, ..event(start) };
        Ok(Self { path, file, length: 0, header: [record(&version), record(&start)].concat() })
    }

    /// Adds whole records to the header.
    pub(crate) fn add_to_header(&mut self, records: &[u8]) {
        self.header.extend(records);
    }

    /// Adds whole records, after the header if it is not written yet. If that fails, all are removed, as far as the
    /// machine allows.
    ///
    /// # Errors
    /// `IO`.
    pub(crate) fn append(&mut self, records: &[u8]) -> Result<(), PluginError> {
        let records = [&self.header, records].concat();
        if let Err(error) = self.file.write_all(&records) {
            let _ = self.file.set_len(self.length);
            let _ = self.file.seek(SeekFrom::Start(self.length));
            return Err(PluginError::io(&self.path, error));
        }
        self.length += records.len() as u64;
        self.header.clear();
        Ok(())
    }

    /// True if nothing is written, the header included.
    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Removes the file.
    ///
    /// # Errors
    /// `IO`.
    pub(crate) fn remove(self) -> Result<(), PluginError> {
        fs::remove_file(&self.path).map_err(|error| PluginError::io(&self.path, error))
    }

    /// Flushes everything to the disk itself.
    ///
    /// # Errors
    /// `IO`.
    pub(crate) fn sync(&self) -> Result<(), PluginError> {
        self.file.sync_data().map_err(|error| PluginError::io(&self.path, error))
    }
}

/// The stamp of the folder's last event file, if there is one.
fn last_stamp(folder: &Path) -> Result<Option<u64>, PluginError> {
    let mut last = None;
    for entry in fs::read_dir(folder).map_err(|error| PluginError::io(folder, error))? {
        let path = entry.map_err(|error| PluginError::io(folder, error))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(rest) = name.strip_prefix(PREFIX) else { continue };
        let file = File::open(&path).map_err(|error| PluginError::io(&path, error))?;
        if matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)) {
            let error = PluginError::io(&path, "in use by another sink or run");
            return Err(error.with_hint("give each tensorboard sink a `folder` of its own"));
        }
        last = last.max(rest.split('.').next().and_then(|stamp| stamp.parse::<u64>().ok()));
    }
    Ok(last)
}
