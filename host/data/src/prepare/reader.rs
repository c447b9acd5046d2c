//! Files to records, as a stream: nothing is unpacked to the disk, and no record or line is kept beyond a limit.
//!
//! A file that is damaged (cut short, a wrong checksum) is an error: what is missing cannot be counted. A record that
//! cannot be used is an item with its reason. Names in archives only say what to read; nothing is written by them.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek},
    sync::{Arc, mpsc::SyncSender},
};

use altgrad_base::diagnostic::Diagnostic;
use flate2::read::MultiGzDecoder;

use super::{
    Progress, archive,
    input::{Input, InputFile, InputKind},
    layout::Split,
    lines::{self, Line},
    skip::{Place, Reason},
    sources::Dataset,
    text,
};
/// Bytes of a record, or of a stretch of text without a line end between words, that are read at most.
pub(super) const LONGEST: usize = 32 << 20;
/// Bytes of records that travel together.
const GROUP: usize = 4 << 20;

/// A record, or a part of a text.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) place: Place,
    /// The split that its file's name, or its place in the file, says.
    pub(super) split: Option<Split>,
    /// Whether a document begins, and ends, with it.
    pub(super) ends: Ends,
    pub(super) content: Content,
}

/// Which ends of a document a part of it holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends {
    pub(super) first: bool,
    pub(super) last: bool,
    /// Whether a separator follows: not where a text goes on in another split.
    pub(super) separated: bool,
}

impl Ends {
    /// A whole document.
    pub(super) const WHOLE: Self = Self { first: true, last: true, separated: true };
}

/// What an item holds.
#[derive(Debug)]
pub(super) enum Content {
    /// A JSON record.
    Record(Vec<u8>),
    /// A text or, in order, a part of one, cut where tokens cannot cross.
    Text(Vec<u8>),
    /// Nothing that can be used.
    Refused(Reason),
}

/// Items that travel together.
pub(super) type Group = Vec<Item>;

/// Why reading ended early.
#[derive(Debug)]
pub(super) enum Stop {
    /// Nobody wants more.
    Unwanted,
    /// The input cannot be read.
    Failed(Diagnostic),
}

/// Reads files and hands on what they hold.
pub(super) struct Reader<'a> {
    pub(super) dataset: Dataset,
    sender: &'a SyncSender<Group>,
    group: Group,
    bytes: usize,
}

impl<'a> Reader<'a> {
    /// Reads everything, in order.
    ///
    /// # Errors
    /// A file cannot be read, or nobody wants more.
    pub(super) fn read(
        input: &Input,
        dataset: Dataset,
        sender: &'a SyncSender<Group>,
        progress: &dyn Progress,
    ) -> Result<(), Stop> {
        let mut reader = Self { dataset, sender, group: Vec::new(), bytes: 0 };
        let meter = ByteProgress { progress, total: input.bytes() };
        let alone = input.files.len() == 1 && input.files[0].path == input.root;
        let mut done = 0;
        for file in &input.files {
            reader
                .file(file, alone, &meter, &mut done)
                .map_err(|stop| stop.at(&file.path.display().to_string()))?;
        }
        reader.send()
    }

    fn file(
        &mut self,
        file: &InputFile,
        alone: bool,
        meter: &ByteProgress<'_>,
        done: &mut u64,
    ) -> Result<(), Stop> {
        let opened = File::open(&file.path).map_err(damaged)?;
        let counted = Counted { inner: opened, meter, done };
        match file.kind {
            InputKind::TarGz => archive::tar_gz(self, counted),
            InputKind::Zip => archive::zip(self, counted),
            InputKind::Text if alone => {
                text::cut_in_two(self, &file.name, file.bytes, BufReader::new(counted))
            }
            kind => self.plain(&file.name, kind, counted),
        }
    }

    /// A file or an entry that is no archive.
    pub(super) fn plain(&mut self, name: &str, kind: InputKind, reader: impl Read) -> Result<(), Stop> {
        // Large buffers: gzip and counting cost by the call.
        let buffered = |reader| BufReader::with_capacity(1 << 16, reader);
        match kind {
            InputKind::Lines => self.lines(name, buffered(reader)),
            InputKind::LinesGz => {
                let unpacked = MultiGzDecoder::new(buffered(reader));
                self.lines(name, BufReader::with_capacity(1 << 16, unpacked))
            }
            InputKind::Record => self.record(name, reader),
            InputKind::Text => text::whole(self, name, BufReader::new(reader)),
            // Not reached: archives are opened by `file`, and nested ones are not listed.
            InputKind::TarGz | InputKind::Zip => Ok(()),
        }
    }

    fn lines(&mut self, name: &str, mut reader: impl BufRead) -> Result<(), Stop> {
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
            self.push(Item { place, split, ends: Ends::WHOLE, content })?;
        }
        Ok(())
    }

    fn record(&mut self, name: &str, reader: impl Read) -> Result<(), Stop> {
        let mut bytes = Vec::new();
        reader.take(LONGEST as u64 + 1).read_to_end(&mut bytes).map_err(damaged)?;
        let too_long = bytes.len() > LONGEST;
        let content =
            if too_long { Content::Refused(Reason::TooLong(LONGEST)) } else { Content::Record(bytes) };
        self.push(Item { place: place(name), split: Split::of_path(name), ends: Ends::WHOLE, content })
    }

    /// Hands an item on.
    pub(super) fn push(&mut self, item: Item) -> Result<(), Stop> {
        self.bytes += match &item.content {
            Content::Record(bytes) | Content::Text(bytes) => bytes.len(),
            Content::Refused(_) => 0,
        };
        self.group.push(item);
        if self.bytes >= GROUP || self.group.len() >= GROUP / 64 { self.send() } else { Ok(()) }
    }

    fn send(&mut self) -> Result<(), Stop> {
        self.bytes = 0;
        self.sender.send(std::mem::take(&mut self.group)).map_err(|_| Stop::Unwanted)
    }
}

impl Stop {
    fn at(self, place: &str) -> Self {
        match self {
            Self::Failed(error) => Self::Failed(error.at(place)),
            Self::Unwanted => self,
        }
    }
}

/// A whole file, or entry, as a place.
pub(super) fn place(name: &str) -> Place {
    Place { file: name.into(), line: None }
}

/// The error of an input that cannot be read on.
pub(super) fn damaged(error: impl Into<io::Error>) -> Stop {
    let error = error.into();
    let message = match error.kind() {
        io::ErrorKind::UnexpectedEof => "the input ends in the middle: it was cut short".to_string(),
        _ => format!("the input cannot be read ({error})"),
    };
    Stop::Failed(Diagnostic::config(message).hint("fetch or copy it again; nothing was written"))
}

/// Where bytes read are shown.
pub(super) struct ByteProgress<'a> {
    progress: &'a dyn Progress,
    total: u64,
}

/// A reader that shows how far it is.
pub(super) struct Counted<'a, R> {
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
