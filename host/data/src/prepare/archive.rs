//! Archives, entry by entry, without unpacking them.
//!
//! Entries whose names lead out of the archive, and links, are refused, though nothing would be written by their names.

use std::{
    cell::Cell,
    io::{self, BufReader, Read, Seek},
};

use altgrad_base::diagnostic::Diagnostic;
use flate2::read::MultiGzDecoder;

use super::{
    density::Density,
    input::InputKind,
    items::{Content, Ends, Item, Items, Stop, damaged, place},
    plain,
    skip::Reason,
    sources::Dataset,
};

/// Bytes of a tar entry's headers, long names included, that are read into memory at most.
const LONGEST_HEADERS: u64 = 1 << 20;

/// A gzipped tar archive.
pub(super) fn tar_gz(
    items: &mut Items<'_>,
    dataset: Dataset,
    density: &Density,
    file: impl Read,
) -> Result<(), Stop> {
    let budget = Cell::new(None);
    let unpacked = density.unpacked(MultiGzDecoder::new(BufReader::with_capacity(1 << 16, file)));
    let mut archive = tar::Archive::new(Budgeted { inner: unpacked, left: &budget });
    let mut entries = archive.entries().map_err(damaged)?;
    loop {
        // A reader of archives reads headers whole: they may not be longer than headers are.
        budget.set(Some(LONGEST_HEADERS));
        let Some(entry) = entries.next() else { break };
        budget.set(None);
        let mut entry = entry.map_err(damaged)?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let kind = entry.header().entry_type();
        let size = entry.size();
        density.begin(&name);
        let mut read = 0;
        let counted = Entry { inner: &mut entry, read: &mut read };
        if !kind.is_dir() && !kind.is_pax_global_extensions() {
            let is_plain = kind.is_file() || kind.is_contiguous();
            take(items, dataset, (&name, is_plain), density, counted)?;
        }
        let rest = io::copy(&mut entry, &mut io::sink()).map_err(damaged)?;
        if read + rest < size {
            return Err(damaged(io::ErrorKind::UnexpectedEof));
        }
    }
    budget.set(None);
    // To the end, where gzip's checksum is.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(damaged)?;
    Ok(())
}

/// A zip archive.
pub(super) fn zip(
    items: &mut Items<'_>,
    dataset: Dataset,
    density: &Density,
    file: impl Read + Seek,
) -> Result<(), Stop> {
    let broken = |error: zip::result::ZipError| match error {
        zip::result::ZipError::Io(error) => damaged(error),
        error => {
            Stop::Failed(Diagnostic::config(format!("the zip archive cannot be read ({error})")).hint(
                "fetch or copy it again; packed otherwise than by deflate, unpack it and name the folder",
            ))
        }
    };
    let mut archive = zip::ZipArchive::new(BufReader::with_capacity(1 << 16, file)).map_err(broken)?;
    for index in 0..archive.len() {
        let entry = archive.by_index(index).map_err(broken)?;
        let name = entry.name().map_err(broken)?.into_owned();
        density.begin(&name);
        if !entry.is_dir() {
            take(items, dataset, (&name, entry.is_file()), density, density.unpacked(entry))?;
        }
    }
    Ok(())
}

/// Reads an entry, if it is one to be read.
fn take(
    items: &mut Items<'_>,
    dataset: Dataset,
    (name, is_plain): (&str, bool),
    density: &Density,
    entry: impl Read,
) -> Result<(), Stop> {
    let safe = !name.starts_with('/')
        && name.split('/').all(|part| part != "..")
        && !name.contains(['\\', '\0', ':']);
    let kind = InputKind::of(name.trim_start_matches("./"), dataset).filter(|kind| kind.nests());
    match kind {
        _ if !safe => refuse(items, name, Reason::UnsafeName),
        None => Ok(()),
        Some(_) if !is_plain => refuse(items, name, Reason::NotAFile),
        Some(kind) => plain::read(items, name, kind, density, entry),
    }
}

fn refuse(items: &mut Items<'_>, name: &str, reason: Reason) -> Result<(), Stop> {
    items.push(Item { place: place(name), split: None, ends: Ends::WHOLE, content: Content::Refused(reason) })
}

/// A reader that fails once its budget, if it has one, is used up.
struct Budgeted<'a, R> {
    inner: R,
    left: &'a Cell<Option<u64>>,
}

impl<R: Read> Read for Budgeted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        if let Some(left) = self.left.get() {
            let left = left.checked_sub(read as u64);
            self.left
                .set(Some(left.ok_or_else(|| io::Error::other("an entry's headers are longer than 1 MiB"))?));
        }
        Ok(read)
    }
}

/// An entry whose bytes are counted: a tar archive that was cut short may end in the middle of one.
struct Entry<'a, R> {
    inner: R,
    read: &'a mut u64,
}

impl<R: Read> Read for Entry<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        *self.read += read as u64;
        Ok(read)
    }
}
