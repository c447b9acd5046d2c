//! A token sequence: in memory, or in a bin file, of which windows are read as they are needed.

use std::{borrow::Cow, ops::Range, path::Path};

use altgrad_base::diagnostic::Diagnostic;
use rayon::prelude::*;
use sha2::{Digest, Sha256};

use crate::{bin_file::BinFile, bin_layout::IdType};

/// Ids that are read at once when all are read.
const PART: usize = 1 << 20;

/// Token ids of one split, `[n]`.
#[derive(Debug)]
pub enum Tokens {
    /// Made at start-up.
    Memory(Vec<u16>),
    /// A file of 16-bit ids.
    File(BinFile),
}

impl Tokens {
    /// Opens a bin file. `written` is the type of its ids by its description; a header of the file takes precedence.
    /// Ids of another type than 16 bits are read into memory.
    ///
    /// # Errors
    /// The file is missing, unreadable or damaged, or has ids that do not fit 16 bits.
    pub fn open(path: &Path, written: Option<IdType>) -> Result<Self, Diagnostic> {
        let file = BinFile::open(path, written)?;
        Ok(if file.is_16_bit() { Self::File(file) } else { Self::Memory(file.narrowed()?) })
    }

    /// Number of tokens.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Memory(ids) => ids.len(),
            Self::File(file) => file.len(),
        }
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The ids of a range, which must lie within the sequence.
    ///
    /// # Errors
    /// The file cannot be read, or has changed since it was opened.
    pub fn read(&self, range: Range<usize>) -> Result<Cow<'_, [u16]>, Diagnostic> {
        match self {
            Self::Memory(ids) => Ok(Cow::Borrowed(&ids[range])),
            Self::File(file) => {
                file.check_unchanged(|| self.digest())?;
                file.read(range).map(Cow::Owned)
            }
        }
    }

    /// All ids in order, in parts.
    pub fn parts(&self) -> impl Iterator<Item = Result<Cow<'_, [u16]>, Diagnostic>> {
        (0..self.len().div_ceil(PART)).map(|index| self.part(index))
    }

    fn part(&self, index: usize) -> Result<Cow<'_, [u16]>, Diagnostic> {
        let range = index * PART..((index + 1) * PART).min(self.len());
        match self {
            Self::Memory(ids) => Ok(Cow::Borrowed(&ids[range])),
            Self::File(file) => file.read(range).map(Cow::Owned),
        }
    }

    /// The largest id; `None` if there is no token. Reads everything.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn max(&self) -> Result<Option<u16>, Diagnostic> {
        self.parts().try_fold(None, |most, part| Ok(most.max(part?.iter().copied().max())))
    }

    /// Sha256 over the sha256 of parts of 2^20 ids. Reads everything, on all threads.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn digest(&self) -> Result<[u8; 32], Diagnostic> {
        let part = |index: usize| {
            let bytes: Vec<u8> = self.part(index)?.iter().flat_map(|id| id.to_le_bytes()).collect();
            Ok(Sha256::digest(bytes))
        };
        let parts: Result<Vec<_>, Diagnostic> =
            (0..self.len().div_ceil(PART)).into_par_iter().map(part).collect();
        let mut whole = Sha256::new();
        parts?.iter().for_each(|part| whole.update(part));
        let digest = whole.finalize().into();
        if let Self::File(file) = self {
            file.remember(digest);
        }
        Ok(digest)
    }
}
