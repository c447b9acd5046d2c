//! The offline file: a spool as the official client writes runs without a network, so that `wandb sync FOLDER` sends
//! it.
//!
//! Written whole at the end of an offline run, from the spool, which stays the only truth. Framing: a seven-byte file
//! header, then chunks in blocks of 32 KiB, each with CRC-32, length and type; LevelDB's log format with another CRC.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use prost::Message;
use serde_json::Value;

use crate::{
    index::{Begin, Index},
    json::fields,
    records::{Alert, Content, Exit, Header, History, Item, Record, Run, Step, Time, Update, Version},
    spool::replace,
    summary::Summary,
};

/// The beginning of the name of a folder with an offline file; a stamp and the run's id follow.
const OFFLINE: &str = "offline-run-";
const FILE_HEADER: [u8; 7] = [0x3a, 0x57, 0x26, 0x42, 0xe1, 0xbe, 0x00];
const BLOCK: usize = 32 << 10;
const CHUNK_HEADER: usize = 7;

/// Writes records into blocks.
struct Blocks<W> {
    out: W,
    /// Bytes of the current block that are used.
    used: usize,
    records: i64,
}

impl<W: Write> Blocks<W> {
    fn begin(mut out: W) -> io::Result<Self> {
        out.write_all(&FILE_HEADER)?;
        Ok(Self { out, used: FILE_HEADER.len(), records: 0 })
    }

    fn write(&mut self, content: Content) -> io::Result<()> {
        self.records += 1;
        let bytes = Record { num: self.records, content: Some(content) }.encode_to_vec();
        let (mut rest, mut first) = (bytes.as_slice(), true);
        loop {
            if BLOCK - self.used < CHUNK_HEADER {
                self.out.write_all(&[0; CHUNK_HEADER][..BLOCK - self.used])?;
                self.used = 0;
            }
            let room = BLOCK - self.used - CHUNK_HEADER;
            let (chunk, after) = rest.split_at(rest.len().min(room));
            let kind = match (first, after.is_empty()) {
                (true, true) => 1,
                (true, false) => 2,
                (false, false) => 3,
                (false, true) => 4,
            };
            let mut crc = crc32fast::Hasher::new();
            crc.update(&[kind]);
            crc.update(chunk);
            self.out.write_all(&crc.finalize().to_le_bytes())?;
            self.out.write_all(&(chunk.len() as u16).to_le_bytes())?;
            self.out.write_all(&[kind])?;
            self.out.write_all(chunk)?;
            self.used = (self.used + CHUNK_HEADER + chunk.len()) % BLOCK;
            (rest, first) = (after, false);
            if rest.is_empty() {
                return Ok(());
            }
        }
    }
}

/// Writes the offline file of a spool that was read to its end; returns its folder. Replaces those of the run's earlier
/// parts.
///
/// # Errors
/// Spool or file cannot be read or written, or an earlier file not be removed.
pub(crate) fn export(index: &Index, folder: &Path) -> io::Result<PathBuf> {
    let begin =
        index.begin.as_ref().ok_or_else(|| io::Error::other("the spool does not say which run it is of"))?;
    let id = &begin.identity.run_id;
    let export = folder.join(format!("{OFFLINE}{}-{id}", stamp(begin.started)));
    fs::create_dir_all(export.join("files"))?;
    replace(&export.join(format!("run-{id}.wandb")), |out| write(index, begin, &mut Blocks::begin(out)?))?;
    remove_others(folder, &export, id)?;
    Ok(export)
}

/// Removes the other folders with an offline file of the run: `wandb sync` would send each of them.
fn remove_others(folder: &Path, export: &Path, id: &str) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.path() != export && entry.file_name().to_str().is_some_and(|name| is_export(name, id)) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// True if a folder of this name has an offline file of run `id`. Another run's id may end with it.
fn is_export(name: &str, id: &str) -> bool {
    let rest = name.strip_prefix(OFFLINE).and_then(|rest| rest.strip_suffix(id));
    let stamp = rest.and_then(|rest| rest.strip_suffix('-'));
    stamp.is_some_and(|stamp| stamp.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_'))
}

fn write(index: &Index, begin: &Begin, blocks: &mut Blocks<impl Write>) -> io::Result<()> {
    let producer = concat!("altgrad-sink-wandb ", env!("CARGO_PKG_VERSION")).to_string();
    blocks.write(Content::Header(Header { version_info: Some(Version { producer }) }))?;
    blocks.write(Content::Run(run(begin)))?;
    let mut summary = Summary::default();
    for &row in &index.rows {
        let text = index.text(row)?;
        summary.take(&text);
        let item = fields(&text).map(|(key, value)| item(key, value)).collect();
        blocks.write(Content::History(History { item, step: Some(Step { num: row.step as i64 }) }))?;
    }
    for alert in &index.alerts {
        let wait_duration = alert.wait_ms as i64;
        let (title, text, level) = (alert.title.clone(), alert.text.clone(), alert.severity.clone());
        blocks.write(Content::Alert(Alert { title, text, level, wait_duration }))?;
    }
    if let Some(closing) = &index.closing {
        summary.take(closing);
    }
    let wandb = (r#""_wandb""#, &*format!("{{\"runtime\":{}}}", summary.runtime() as u64));
    let update = summary.iter().chain([wandb]).map(|(key, value)| item(key, value)).collect();
    blocks.write(Content::Summary(Update { update }))?;
    // A run that was killed has no end; uploading marks it as ended.
    let exit_code = index.end.map_or(1, |(_, end)| end.exit_code);
    blocks.write(Content::Exit(Exit { exit_code, runtime: summary.runtime() as i32 }))
}

/// A field of an object, its key in quotes.
fn item(key: &str, value: &str) -> Item {
    let name = serde_json::from_str(key).unwrap_or_else(|_| key.to_string());
    Item { nested_key: vec![name], value_json: value.to_string() }
}

fn run(begin: &Begin) -> Run {
    let identity = begin.identity.clone();
    let config = begin.config.as_object().into_iter().flatten();
    let config = config.map(|(key, value): (_, &Value)| Item {
        nested_key: vec![key.clone()],
        value_json: value.to_string(),
    });
    let seconds = begin.started.floor();
    Run {
        run_id: identity.run_id,
        entity: identity.entity.unwrap_or_default(),
        project: identity.project,
        config: Some(Update { update: config.collect() }),
        run_group: identity.group.unwrap_or_default(),
        job_type: identity.job_type.unwrap_or_default(),
        display_name: identity.display_name.unwrap_or_else(|| begin.name.clone()),
        notes: identity.notes.unwrap_or_default(),
        tags: identity.tags,
        host: begin.host.clone().unwrap_or_default(),
        start_time: Some(Time { seconds: seconds as i64, nanos: ((begin.started - seconds) * 1e9) as i32 }),
    }
}

/// `YYYYMMDD_HHMMSS` of a time since 1970, UTC (Howard Hinnant, "chrono-compatible low-level date algorithms").
fn stamp(unix_s: f64) -> String {
    let seconds = unix_s as i64;
    let (days, second) = (seconds.div_euclid(86400), seconds.rem_euclid(86400));
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    format!("{year:04}{month:02}{day:02}_{:02}{:02}{:02}", second / 3600, second / 60 % 60, second % 60)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_dates() {
        assert_eq!(stamp(0.0), "19700101_000000");
        assert_eq!(stamp(951_782_399.9), "20000228_235959");
        assert_eq!(stamp(951_782_400.0), "20000229_000000");
        assert_eq!(stamp(1_795_286_102.0), "20261121_183502");
    }

    /// Reads the framing by its rules, not by the code above.
    fn read(bytes: &[u8]) -> Vec<Record> {
        assert_eq!(bytes[..7], FILE_HEADER);
        let (mut at, mut whole, mut records) = (7, Vec::new(), Vec::new());
        while at < bytes.len() {
            let left = BLOCK - at % BLOCK;
            if left < 7 {
                assert!(bytes[at..at + left].iter().all(|&byte| byte == 0));
                at += left;
                continue;
            }
            let len = usize::from(u16::from_le_bytes([bytes[at + 4], bytes[at + 5]]));
            assert!(len + 7 <= left, "a chunk crosses a block");
            let crc = crc32fast::hash(&bytes[at + 6..at + 7 + len]);
            assert_eq!(bytes[at..at + 4], crc.to_le_bytes());
            let kind = bytes[at + 6];
            assert_eq!(whole.is_empty(), kind <= 2);
            whole.extend_from_slice(&bytes[at + 7..at + 7 + len]);
            if kind == 1 || kind == 4 {
                records.push(Record::decode(&*std::mem::take(&mut whole)).unwrap());
            }
            at += 7 + len;
        }
        records
    }

    #[test]
    fn records_of_all_lengths_cross_blocks_as_the_format_wants() {
        let mut blocks = Blocks::begin(Vec::new()).unwrap();
        let contents: Vec<Content> = (0..400)
            .map(|index| {
                let value_json = "x".repeat(index * 17 % 70_000 + if index % 50 == 0 { 100_000 } else { 0 });
                Content::Summary(Update { update: vec![Item { nested_key: vec!["k".into()], value_json }] })
            })
            .collect();
        for content in &contents {
            blocks.write(content.clone()).unwrap();
        }
        let records = read(&blocks.out);
        assert_eq!(records.len(), contents.len());
        for ((record, content), num) in records.into_iter().zip(contents).zip(1..) {
            assert_eq!(record, Record { num, content: Some(content) });
        }
    }
}
