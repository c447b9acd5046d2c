//! Files to records, as a stream: nothing is unpacked to the disk, and no record or line is kept beyond a limit.
//!
//! A file that is damaged (cut short, a wrong checksum) is an error: the missing part cannot be counted. A record
//! that cannot be used is an item with its reason. Names in archives only select entries; nothing is written by them.

use std::{
    fs::File,
    io::{self, BufReader, Read, Seek},
    sync::mpsc::SyncSender,
};

use super::{
    archive,
    density::Density,
    input::{Input, InputFile, InputKind},
    items::{Group, Items, Stop, damaged},
    plain,
    progress::PrepareProgress,
    sources::Dataset,
    text,
};

/// Reads everything, in order, and sends the items.
///
/// # Errors
/// A file cannot be read, or no receiver is left.
pub(super) fn read(
    input: &Input,
    dataset: Dataset,
    sender: &SyncSender<Group>,
    progress: &dyn PrepareProgress,
) -> Result<(), Stop> {
    let mut items = Items::new(sender);
    let meter = ByteProgress { progress, total: input.bytes() };
    let alone = input.is_one_text();
    let mut done = 0;
    for file in &input.files {
        read_file(&mut items, dataset, file, alone, &meter, &mut done)
            .map_err(|stop| stop.at(&file.path.display().to_string()))?;
    }
    items.send()
}

fn read_file(
    items: &mut Items<'_>,
    dataset: Dataset,
    file: &InputFile,
    alone: bool,
    meter: &ByteProgress<'_>,
    done: &mut u64,
) -> Result<(), Stop> {
    let opened = File::open(&file.path).map_err(damaged)?;
    let density = Density::new(file.bytes);
    density.begin(&file.name);
    let counted = density.packed(Counted { inner: opened, meter, done });
    match file.kind {
        InputKind::TarGz => archive::tar_gz(items, dataset, &density, counted),
        InputKind::Zip => archive::zip(items, dataset, &density, counted),
        _ if alone => text::cut_in_two(items, &file.name, file.bytes, BufReader::new(counted)),
        kind => plain::read(items, &file.name, kind, &density, counted),
    }
}

/// A reader that reports the bytes read.
struct ByteProgress<'a> {
    progress: &'a dyn PrepareProgress,
    total: u64,
}

/// A reader that shows how far it is.
struct Counted<'a, R> {
    inner: R,
    meter: &'a ByteProgress<'a>,
    done: &'a mut u64,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        *self.done += read as u64;
        self.meter.progress.at("preparing", *self.done, Some(self.meter.total));
        Ok(read)
    }
}

impl<R: Seek> Seek for Counted<'_, R> {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}
