//! Files and entries that are no archives, to items.

use std::{
    io::{BufRead, BufReader, Read},
    sync::Arc,
};

use flate2::read::MultiGzDecoder;

use super::{
    density::Density,
    input::InputKind,
    items::{Content, Ends, Item, Items, LONGEST, Stop, damaged, place},
    layout::Split,
    lines::{self, Line},
    skip::{Place, Reason},
    text,
};

/// Reads it to its end.
///
/// # Errors
/// The archive is damaged, unpacks to far too much, or no receiver is left.
pub(super) fn read(
    items: &mut Items<'_>,
    name: &str,
    kind: InputKind,
    density: &Density,
    reader: impl Read,
) -> Result<(), Stop> {
    // Large buffers: gzip and counting cost by the call.
    let buffered = |reader| BufReader::with_capacity(1 << 16, reader);
    match kind {
        InputKind::Lines => lines(items, name, buffered(reader)),
        InputKind::LinesGz => {
            let unpacked = density.unpacked(MultiGzDecoder::new(buffered(reader)));
            lines(items, name, BufReader::with_capacity(1 << 16, unpacked))
        }
        InputKind::Record => record(items, name, reader),
        InputKind::Text => text::whole(items, name, BufReader::new(reader)),
        // Not reached: archives are opened by `reader`, and nested ones are not listed.
        InputKind::TarGz | InputKind::Zip => Ok(()),
    }
}

fn lines(items: &mut Items<'_>, name: &str, mut reader: impl BufRead) -> Result<(), Stop> {
    let (file, split) = (Arc::<str>::from(name), Split::of_path(name));
    for number in 1.. {
        let mut line = Vec::new();
        let content = match lines::read(&mut reader, &mut line, LONGEST).map_err(damaged)? {
            Line::End => break,
            Line::Whole if line.trim_ascii().is_empty() => continue,
            Line::Whole => Content::Record(line),
            Line::TooLong => Content::Refused(Reason::TooLong(LONGEST)),
        };
        let place = Place { file: file.clone(), line: Some(number) };
        items.push(Item { place, split, ends: Ends::WHOLE, content })?;
    }
    Ok(())
}

fn record(items: &mut Items<'_>, name: &str, reader: impl Read) -> Result<(), Stop> {
    let mut bytes = Vec::new();
    reader.take(LONGEST as u64 + 1).read_to_end(&mut bytes).map_err(damaged)?;
    let too_long = bytes.len() > LONGEST;
    let content = if too_long { Content::Refused(Reason::TooLong(LONGEST)) } else { Content::Record(bytes) };
    items.push(Item { place: place(name), split: Split::of_path(name), ends: Ends::WHOLE, content })
}
