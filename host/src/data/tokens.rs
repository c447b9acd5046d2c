//! A token sequence: in memory, or mapped from a nanoGPT bin (uint16, little-endian).

use std::{fs::File, path::Path};

use crate::{diagnostic::Diagnostic, raw};

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
                .hint("`bins:DIR` needs train.bin and val.bin: 16-bit little-endian token ids, as nanoGPT writes them")
        };
        let file = File::open(path).map_err(unreadable)?;
        let length = file.metadata().map_err(unreadable)?.len();
        if length == 0 {
            // An empty file cannot be mapped; the corpus check says what is wrong with it.
            return Ok(Self::Memory(Vec::new()));
        }
        if !length.is_multiple_of(2) {
            return Err(Diagnostic::config(format!("the token bin has an odd number of bytes ({length})"))
                .at(path.display())
                .hint("token ids are 16-bit; the file is cut short or of another type"));
        }
        Ok(Self::Mapped(raw::map_file(&file).map_err(unreadable)?))
    }

    /// Number of tokens.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Memory(ids) => ids.len(),
            Self::Mapped(bytes) => bytes.len() / 2,
        }
    }

    /// Whether there is none.
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

    fn at(&self, index: usize) -> u16 {
        match self {
            Self::Memory(ids) => ids[index],
            Self::Mapped(bytes) => u16::from_le_bytes([bytes[2 * index], bytes[2 * index + 1]]),
        }
    }
}
