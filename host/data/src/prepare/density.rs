//! The limit of unpacking: a few megabytes that unpack to terabytes are refused while they are read.
//!
//! All unpacked data are deflate's, which packs up to 1032 bytes into one. Natural text has ratios of 3 to 10, logs and
//! tables of 50. A member, and a file as a whole, may unpack to [`FREE`] bytes in any case, and beyond that to [`MOST`]
//! times the bytes it was read from. The limit of the whole refers to the file on the disk, so that neither packing
//! twice nor members that share their bytes circumvent it.

use std::{
    cell::{Cell, RefCell},
    error::Error,
    fmt,
    io::{self, Read, Seek},
};

/// Bytes that anything may unpack to, 64 MiB.
pub(super) const FREE: u64 = 64 << 20;
/// Bytes that each packed byte may unpack to beyond that.
pub(super) const MOST: u64 = 100;
/// Packed bytes that may have been read before their member began.
const READ_AHEAD: u64 = 1 << 17;

/// The bytes of a file that were unpacked so far.
#[derive(Debug)]
pub(super) struct Density {
    /// Bytes of the file.
    bytes: u64,
    /// Bytes read of the file so far; bytes that are read twice count twice.
    packed: Cell<u64>,
    unpacked: Cell<u64>,
    member: RefCell<Member>,
}

/// The part that is being unpacked.
#[derive(Debug, Default)]
struct Member {
    name: String,
    /// Both counts where it began.
    packed: u64,
    unpacked: u64,
}

impl Density {
    /// The state before unpacking a file of that many bytes.
    pub(super) fn new(bytes: u64) -> Self {
        Self { bytes, packed: Cell::new(0), unpacked: Cell::new(0), member: RefCell::default() }
    }

    /// Bytes that are unpacked from now on belong to this member.
    pub(super) fn begin(&self, name: &str) {
        let (packed, unpacked) = (self.packed.get(), self.unpacked.get());
        *self.member.borrow_mut() = Member { name: name.into(), packed, unpacked };
    }

    /// A reader of the file itself.
    pub(super) fn packed<R>(&self, inner: R) -> Packed<'_, R> {
        Packed { inner, density: self }
    }

    /// A reader of unpacked bytes.
    pub(super) fn unpacked<R>(&self, inner: R) -> Unpacked<'_, R> {
        Unpacked { inner, density: self }
    }

    /// Records that bytes were unpacked.
    fn add(&self, bytes: u64) -> Result<(), TooDense> {
        let unpacked = self.unpacked.get() + bytes;
        self.unpacked.set(unpacked);
        let (packed, member) = (self.packed.get(), self.member.borrow());
        let own = Ratio { packed: packed - member.packed + READ_AHEAD, unpacked: unpacked - member.unpacked };
        let whole = Ratio { packed: packed.min(self.bytes), unpacked };
        let dense = if own.is_too_dense() { own } else { whole };
        if dense.is_too_dense() {
            Err(TooDense { member: member.name.clone(), ratio: dense })
        } else {
            Ok(())
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Ratio {
    packed: u64,
    unpacked: u64,
}

impl Ratio {
    fn is_too_dense(self) -> bool {
        self.unpacked > FREE && self.unpacked / MOST > self.packed
    }
}

/// The reason why reading ends.
#[derive(Debug)]
pub(super) struct TooDense {
    member: String,
    ratio: Ratio,
}

impl fmt::Display for TooDense {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ratio { packed, unpacked } = self.ratio;
        let (ratio, mib, kib) = (unpacked / packed.max(1), unpacked >> 20, packed.div_ceil(1 << 10));
        let limit = format!("more than {MOST}:1 is refused beyond {} MiB", FREE >> 20);
        write!(f, "`{}` unpacks to {mib} MiB and more from {kib} KiB, {ratio}:1; {limit}", self.member)
    }
}

impl Error for TooDense {}

impl TooDense {
    /// The one that an error of reading is about, if it is.
    pub(super) fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

/// A reader whose bytes are packed.
pub(super) struct Packed<'a, R> {
    inner: R,
    density: &'a Density,
}

impl<R: Read> Read for Packed<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.density.packed.set(self.density.packed.get() + read as u64);
        Ok(read)
    }
}

impl<R: Seek> Seek for Packed<'_, R> {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}

/// A reader whose bytes were unpacked; it fails where they are too many.
pub(super) struct Unpacked<'a, R> {
    inner: R,
    density: &'a Density,
}

impl<R: Read> Read for Unpacked<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.density.add(read as u64).map_err(io::Error::other)?;
        Ok(read)
    }
}
