//! A bin file that stays open: ids are read where they are needed, and a file that changes meanwhile is refused by
//! name.
//!
//! Files are read and not mapped: a mapped file that is cut short ends the process.

use std::{
    fs::{self, File, Metadata},
    io,
    ops::Range,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::OnceLock,
    time::SystemTime,
};

use altgrad_base::diagnostic::Diagnostic;
use parking_lot::Mutex;

use crate::bin_layout::{BinLayout, IdType, START};

/// Ids that are narrowed at once.
const PART: usize = 1 << 20;

/// An open bin file.
#[derive(Debug)]
pub struct BinFile {
    path: PathBuf,
    file: File,
    layout: BinLayout,
    /// The length and the time of the last change that the contents are known for.
    seen: Mutex<Stamp>,
    /// The digest of all ids, once it has been computed.
    digest: OnceLock<[u8; 32]>,
}

/// Length in bytes and time of the last change.
type Stamp = (u64, Option<SystemTime>);

fn stamp(metadata: &Metadata) -> Stamp {
    (metadata.len(), metadata.modified().ok())
}

impl BinFile {
    /// Opens a file; `written` is the type of its ids by its description.
    ///
    /// # Errors
    /// The file is missing, unreadable or damaged.
    pub(super) fn open(path: &Path, written: Option<IdType>) -> Result<Self, Diagnostic> {
        let unreadable = |error: io::Error| {
            Diagnostic::config(format!("cannot read the token bin ({error})"))
                .at(path.display())
                .hint("`bins:DIR` needs train.bin and val.bin: token ids as nanoGPT, llm.c, NumPy or `altgrad-host data prepare` write them")
        };
        // Checked before opening: opening a pipe waits for a writer.
        if !fs::metadata(path).map_err(unreadable)?.is_file() {
            return Err(unreadable(io::Error::other("it is not a regular file")));
        }
        let file = File::open(path).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        let bytes = usize::try_from(metadata.len()).unwrap_or(usize::MAX);
        let mut start = vec![0; bytes.min(START)];
        file.read_exact_at(&mut start, 0).map_err(unreadable)?;
        let layout = BinLayout::of(&start, bytes, written).map_err(|error| error.at(path.display()))?;
        let seen = Mutex::new(stamp(&metadata));
        Ok(Self { path: path.to_path_buf(), file, layout, seen, digest: OnceLock::new() })
    }

    /// Number of ids.
    pub(super) fn len(&self) -> usize {
        self.layout.count
    }

    /// True if the ids need no conversion.
    pub(super) fn is_16_bit(&self) -> bool {
        self.layout.ids == IdType::Uint16
    }

    /// Keeps the digest of all ids.
    pub(super) fn remember(&self, digest: [u8; 32]) {
        let _ = self.digest.set(digest);
    }

    /// 16-bit ids of a range.
    pub(super) fn read(&self, range: Range<usize>) -> Result<Vec<u16>, Diagnostic> {
        let bytes = self.bytes(range)?;
        Ok(bytes.as_chunks::<2>().0.iter().map(|id| u16::from_le_bytes(*id)).collect())
    }

    fn bytes(&self, range: Range<usize>) -> Result<Vec<u8>, Diagnostic> {
        let width = self.layout.ids.bytes();
        let mut bytes = vec![0; range.len() * width];
        let at = self.layout.offset + range.start * width;
        self.file.read_exact_at(&mut bytes, at as u64).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => self.changed("it is shorter than at its start"),
            _ => Diagnostic::run(format!("cannot read the token bin ({error})"))
                .at(self.path.display())
                .hint("is the disk still connected? `--resume` continues the run"),
        })?;
        Ok(bytes)
    }

    /// Refuses a file that has changed since it was opened: one with another length, or with another time of its last
    /// change and other ids by `digest`.
    pub(super) fn check_unchanged(
        &self,
        digest: impl FnOnce() -> Result<[u8; 32], Diagnostic>,
    ) -> Result<(), Diagnostic> {
        let Ok(now) = self.file.metadata().map(|metadata| stamp(&metadata)) else { return Ok(()) };
        let seen = *self.seen.lock();
        if seen == now {
            return Ok(());
        }
        if seen.0 != now.0 {
            let (was, is) = (seen.0, now.0);
            return Err(self.changed(&format!("it has {is} bytes and had {was}")));
        }
        match self.digest.get().copied() {
            Some(known) if known == digest()? => {
                *self.seen.lock() = now;
                Ok(())
            }
            _ => Err(self.changed("its time of change is new, and its ids are others")),
        }
    }

    fn changed(&self, how: &str) -> Diagnostic {
        Diagnostic::run(format!("the token bin changed while it was used: {how}"))
            .at(self.path.display())
            .hint("restore the file, then `--resume` continues the run; write new data to another folder")
    }

    /// All ids, converted to 16 bits.
    ///
    /// # Errors
    /// An id does not fit.
    pub(super) fn narrowed(&self) -> Result<Vec<u16>, Diagnostic> {
        let mut ids = Vec::with_capacity(self.len());
        for start in (0..self.len()).step_by(PART) {
            let bytes = self.bytes(start..(start + PART).min(self.len()))?;
            for id in bytes.chunks_exact(self.layout.ids.bytes()) {
                // Negative ids have their highest bit set and do not fit either.
                let (low, high) = id.split_at(id.len().min(2));
                let low = low.iter().rev().fold(0u16, |value, byte| value << 8 | u16::from(*byte));
                let is_negative = self.layout.ids == IdType::Int16 && low > i16::MAX as u16;
                if is_negative || high.iter().any(|byte| *byte != 0) {
                    let message = format!("the token id at position {} does not fit 16 bits", ids.len());
                    return Err(Diagnostic::config(message)
                        .at(self.path.display())
                        .hint("altgrad has 16-bit ids: use a tokenizer with at most 65536 ids"));
                }
                ids.push(low);
            }
        }
        Ok(ids)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Tokens;

    fn bin(ids: &[u16]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train.bin");
        write(&path, ids);
        (folder, path)
    }

    fn write(path: &Path, ids: &[u16]) {
        fs::write(path, ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<u8>>()).unwrap();
    }

    fn touch(path: &Path) {
        let time = SystemTime::now() + Duration::from_secs(60);
        File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }

    #[test]
    fn a_file_that_changes_is_refused_by_name_and_a_touched_one_is_not() {
        let ids = [1, 2, 3, 4, 5, 6, 7, 8];
        let open = || {
            let (folder, path) = bin(&ids);
            let tokens = Tokens::open(&path, None).unwrap();
            tokens.digest().unwrap();
            (folder, path, tokens)
        };
        let (_folder, path, tokens) = open();
        touch(&path);
        assert_eq!(*tokens.read(2..4).unwrap(), [3, 4]);
        let (_folder, path, tokens) = open();
        write(&path, &[9; 8]);
        touch(&path);
        let error = tokens.read(2..4).unwrap_err();
        assert!(error.message.ends_with("its ids are others"), "{error}");
        assert_eq!(error.place, Some(path.display().to_string()));
        let (_folder, path, tokens) = open();
        write(&path, &ids[..3]);
        assert_eq!(
            tokens.read(2..4).unwrap_err().message,
            "the token bin changed while it was used: it has 6 bytes and had 16"
        );
        assert!(tokens.digest().is_err() && tokens.max().is_err());
    }

    #[test]
    fn wider_ids_are_narrowed_if_they_fit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train.bin");
        let open = |bytes: Vec<u8>, ids| {
            fs::write(&path, bytes).unwrap();
            let tokens = Tokens::open(&path, Some(ids))?;
            Ok(tokens.read(0..tokens.len())?.into_owned())
        };
        let wide = |ids: &[i64]| ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<u8>>();
        assert_eq!(open(wide(&[0, 50_256, 65_535]), IdType::Int64), Ok(vec![0, 50_256, 65_535]));
        assert_eq!(open(vec![1, 255], IdType::Uint8), Ok(vec![1, 255]));
        let refused = |bytes, ids| -> Diagnostic { open(bytes, ids).unwrap_err() };
        let message = "the token id at position 1 does not fit 16 bits";
        assert_eq!(refused(wide(&[0, 65_536]), IdType::Int64).message, message);
        assert_eq!(refused(wide(&[0, -1]), IdType::Int64).message, message);
        assert_eq!(refused(vec![0, 0, 255, 255], IdType::Int16).message, message);
    }
}
