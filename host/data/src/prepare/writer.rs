//! Bins while they are written: under temporary names, whole or not at all.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, BufWriter, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use altgrad_base::{diagnostic::Diagnostic, files, scratch::Cleanup};

use super::{
    input,
    layout::Split,
    pipeline::{Encoded, Piece},
    skip::{Reason, Skips},
};
use crate::meta::{self, Meta};

/// The bins of a folder, being made. Dropped before [`Self::publish`], they vanish; so they do when a signal ends the
/// process.
pub(super) struct Bins {
    folder: PathBuf,
    separator: Vec<u16>,
    bins: BTreeMap<Split, Bin>,
    /// The split of a document whose end has not come.
    open: Option<Split>,
    /// True if the current document is left out.
    broken: bool,
    _cleanup: Cleanup,
}

/// One bin.
struct Bin {
    file: BufWriter<File>,
    part: PathBuf,
    stats: meta::SplitBin,
    document: Document,
}

/// The current document.
#[derive(Default)]
struct Document {
    tokens: u64,
    text_bytes: u64,
    visible: bool,
}

impl Bins {
    /// Bins for a folder that exists; `separator` follows every document.
    ///
    /// # Errors
    /// A file cannot be made.
    pub(super) fn new(folder: &Path, separator: Vec<u16>) -> Result<Self, Diagnostic> {
        let parts = Split::ALL.map(|split| part(folder, split));
        // Of a preparation that was killed; and later of this one, gone already once published.
        let remove = move || parts.iter().for_each(|part| drop(fs::remove_file(part)));
        remove();
        let mut bins = Self {
            folder: folder.into(),
            separator,
            bins: BTreeMap::new(),
            open: None,
            broken: false,
            _cleanup: Cleanup::new(remove),
        };
        bins.bin(Split::Train)?;
        bins.bin(Split::Val)?;
        Ok(bins)
    }

    /// Adds the next item; a document that becomes unusable is removed again and counted.
    ///
    /// # Errors
    /// The disk's error, or a skipped record with `--strict`.
    pub(super) fn add(&mut self, encoded: Encoded, skips: &mut Skips) -> Result<(), Diagnostic> {
        let Encoded { place, ends, result } = encoded;
        if self.broken && !ends.first {
            return Ok(());
        }
        self.broken = false;
        let reason = match result {
            Ok(piece) => {
                let split = piece.split;
                self.append(piece)?;
                self.open = (!ends.last).then_some(split);
                if !ends.last || self.close(split, ends.separated)? {
                    return Ok(());
                }
                Reason::Empty
            }
            Err(reason) => {
                if let Some(split) = self.open.take() {
                    self.take_back(split)?;
                }
                self.broken = true;
                reason
            }
        };
        skips.add(&place, &reason)
    }

    /// Documents so far.
    pub(super) fn documents(&self) -> u64 {
        self.bins.values().map(|bin| bin.stats.documents).sum()
    }

    /// Replaces existing bins and description, and returns the content of the bins. A folder never holds bins of two
    /// preparations as one: the old ones are deleted before the description changes, which happens before the new ones
    /// are written.
    ///
    /// # Errors
    /// The disk's error.
    pub(super) fn publish(mut self, mut meta: Meta) -> Result<Meta, Diagnostic> {
        for (split, bin) in &mut self.bins {
            let broken = |error| failed(&bin.part, error);
            bin.file.flush().map_err(broken)?;
            bin.file.get_ref().sync_all().map_err(broken)?;
            bin.stats.sha256 = input::sha256(&bin.part, &mut |_| {}).map_err(broken)?;
            meta.splits.insert(split.name().into(), bin.stats.clone());
        }
        for split in Split::ALL {
            let old = self.folder.join(format!("{}.bin", split.name()));
            match fs::remove_file(&old) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(&old, error)),
                _ => {}
            }
        }
        let text = serde_json::to_string_pretty(&meta)
            .map_err(|error| Diagnostic::run(format!("the description cannot be written ({error})")))?;
        let path = self.folder.join(meta::FILE);
        files::write(&path, format!("{text}\n").as_bytes()).map_err(|error| failed(&path, error))?;
        for (split, bin) in &self.bins {
            let path = self.folder.join(format!("{}.bin", split.name()));
            fs::rename(&bin.part, &path).map_err(|error| failed(&path, error))?;
        }
        // Makes the renames themselves durable, where folders can be opened.
        File::open(&self.folder).and_then(|folder| folder.sync_all()).ok();
        Ok(meta)
    }

    fn bin(&mut self, split: Split) -> Result<&mut Bin, Diagnostic> {
        let part = part(&self.folder, split);
        match self.bins.entry(split) {
            std::collections::btree_map::Entry::Occupied(entry) => Ok(entry.into_mut()),
            std::collections::btree_map::Entry::Vacant(entry) => {
                let file = File::create(&part).map_err(|error| failed(&part, error))?;
                let file = BufWriter::with_capacity(1 << 18, file);
                Ok(entry.insert(Bin {
                    file,
                    part,
                    stats: meta::SplitBin::default(),
                    document: Document::default(),
                }))
            }
        }
    }

    fn append(&mut self, piece: Piece) -> Result<(), Diagnostic> {
        let bin = self.bin(piece.split)?;
        bin.write(&piece.ids)?;
        bin.document.tokens += piece.ids.len() as u64;
        bin.document.text_bytes += piece.text_bytes;
        bin.document.visible |= !piece.blank;
        Ok(())
    }

    /// Ends the current document. Returns false, and removes it, if it is blank.
    fn close(&mut self, split: Split, separated: bool) -> Result<bool, Diagnostic> {
        let separator = if separated { self.separator.clone() } else { Vec::new() };
        let bin = self.bin(split)?;
        if !bin.document.visible {
            self.take_back(split)?;
            return Ok(false);
        }
        bin.write(&separator)?;
        let document = std::mem::take(&mut bin.document);
        bin.stats.count(document.tokens);
        bin.stats.tokens += document.tokens + separator.len() as u64;
        bin.stats.text_bytes += document.text_bytes;
        Ok(true)
    }

    /// Removes the current document from its bin.
    fn take_back(&mut self, split: Split) -> Result<(), Diagnostic> {
        let bin = self.bin(split)?;
        bin.document = Document::default();
        let end = bin.stats.tokens * 2;
        let cut = bin.file.seek(SeekFrom::Start(end)).and_then(|_| bin.file.get_ref().set_len(end));
        cut.map_err(|error| failed(&bin.part, error))
    }
}

impl Bin {
    fn write(&mut self, ids: &[u16]) -> Result<(), Diagnostic> {
        let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        self.file.write_all(&bytes).map_err(|error| failed(&self.part, error))
    }
}

/// A bin's name while it is written.
fn part(folder: &Path, split: Split) -> PathBuf {
    folder.join(format!("{}.bin.part", split.name()))
}

fn failed(path: &Path, error: io::Error) -> Diagnostic {
    Diagnostic::run(format!("the bins cannot be written ({error})"))
        .at(path.display())
        .hint("nothing is lost: make room or choose another --out, and run it again")
}
