//! A token sequence: in memory, or mapped from a nanoGPT bin (uint16, little-endian).

use std::{
    fs::{self, File},
    path::Path,
};

use altgrad_base::diagnostic::Diagnostic;
use rayon::prelude::*;
use sha2::{Digest, Sha256};

use crate::mmap;

/// Token ids of one split, `[n]`.
#[derive(Debug)]
pub enum Tokens {
    /// Made at start-up from text.
    Memory(Vec<u16>),
    /// A bin file; pages come in as windows touch them.
    Mapped(memmap2::Mmap),
}

impl Tokens {
    /// Maps a bin file.
    ///
    /// # Errors
    /// The file is missing, unreadable, or not a whole number of 16-bit ids.
    pub fn map(path: &Path) -> Result<Self, Diagnostic> {
        let unreadable = |error: std::io::Error| {
            Diagnostic::config(format!("cannot read the token bin ({error})"))
                .at(path.display())
                .hint("`bins:DIR` needs train.bin and val.bin: 16-bit little-endian token ids, as nanoGPT and `altgrad-host data prepare` write them")
        };
        // Checked before opening: opening a pipe waits for a writer.
        let metadata = fs::metadata(path).map_err(unreadable)?;
        if !metadata.is_file() {
            return Err(unreadable(std::io::Error::other("it is not a regular file")));
        }
        let length = metadata.len();
        if length == 0 {
            // An empty file cannot be mapped; the corpus check reports it.
            return Ok(Self::Memory(Vec::new()));
        }
        if !length.is_multiple_of(2) {
            return Err(Diagnostic::config(format!("the token bin has an odd number of bytes ({length})"))
                .at(path.display())
                .hint("token ids are 16-bit; the file is cut short or of another type"));
        }
        let file = File::open(path).map_err(unreadable)?;
        Ok(Self::Mapped(mmap::map_file(&file).map_err(unreadable)?))
    }

    /// Number of tokens.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Memory(ids) => ids.len(),
            Self::Mapped(bytes) => bytes.len() / 2,
        }
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The ids of `start..start + len`, widened. The range must lie within the sequence.
    pub fn window(&self, start: usize, len: usize) -> impl Iterator<Item = i32> + '_ {
        (start..start + len).map(|index| i32::from(self.at(index)))
    }

    /// All ids in order.
    pub fn ids(&self) -> impl Iterator<Item = u16> + '_ {
        (0..self.len()).map(|index| self.at(index))
    }

    /// The largest id; `None` if there is no token. Reads everything.
    #[must_use]
    pub fn max(&self) -> Option<u16> {
        self.ids().max()
    }

    /// Sha256 over the sha256 of parts of 2^20 ids. Reads everything, on all threads.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        const PART: usize = 1 << 20;
        let part = |start: usize| {
            let ids = start..(start + PART).min(self.len());
            Sha256::digest(ids.flat_map(|index| self.at(index).to_le_bytes()).collect::<Vec<u8>>())
        };
        let parts: Vec<_> =
            (0..self.len().div_ceil(PART)).into_par_iter().map(|index| part(index * PART)).collect();
        let mut whole = Sha256::new();
        parts.iter().for_each(|part| whole.update(part));
        whole.finalize().into()
    }

    fn at(&self, index: usize) -> u16 {
        match self {
            Self::Memory(ids) => ids[index],
            Self::Mapped(bytes) => u16::from_le_bytes([bytes[2 * index], bytes[2 * index + 1]]),
        }
    }
}
