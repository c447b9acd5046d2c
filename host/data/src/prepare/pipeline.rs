//! Records to token ids: one thread reads, all cores encode, and results arrive in the order of the input.
//!
//! Memory is bounded by a few groups of records, for input of any size: one is read, one waits, one is encoded.

use std::{collections::BTreeSet, sync::mpsc, thread};

use altgrad_base::diagnostic::Diagnostic;
use parking_lot::Mutex;
use rayon::prelude::*;
use sha2::{Digest, Sha256};

use super::{
    input::Input,
    items::{Content, Ends, Group, Item, Stop},
    layout::{Layout, Split},
    progress::PrepareProgress,
    reader,
    skip::{Place, Reason},
};
use crate::tokenizer::{Encoder, Tokenizer};

/// The assignment of documents to splits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Splitting {
    /// True if a split that the data set names is used.
    pub(super) own: bool,
    /// The share held out of all other documents.
    pub(super) val_fraction: f64,
}

/// A record, or a part of a text, as ids.
#[derive(Debug)]
pub(super) struct Encoded {
    pub(super) place: Place,
    pub(super) ends: Ends,
    pub(super) result: Result<Piece, Reason>,
}

/// Part of a document.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) split: Split,
    pub(super) ids: Vec<u16>,
    pub(super) text_bytes: u64,
    pub(super) blank: bool,
}

/// The processing of records.
pub(super) struct Pipeline<'a> {
    pub(super) input: &'a Input,
    pub(super) layout: &'a Layout,
    pub(super) splitting: Splitting,
    pub(super) progress: &'a dyn PrepareProgress,
}

impl Pipeline<'_> {
    /// Encodes everything; `take` gets it in the order of the input.
    ///
    /// # Errors
    /// The input cannot be read, a character has no id, or `take` fails.
    pub(super) fn encode(
        &self,
        tokenizer: &Tokenizer,
        mut take: impl FnMut(Encoded) -> Result<(), Diagnostic>,
    ) -> Result<(), Diagnostic> {
        let idle = Mutex::new(Vec::new());
        self.groups(|group| {
            let encoded: Result<Vec<Encoded>, Diagnostic> = group
                .into_par_iter()
                .map_init(
                    || Borrowed { idle: &idle, encoder: None },
                    |borrowed, item| self.encode_item(borrowed.get(tokenizer)?, item),
                )
                .collect();
            encoded.and_then(|encoded| encoded.into_iter().try_for_each(&mut take)).map_err(Stop::Failed)
        })
    }

    /// The characters of all documents that can be used.
    ///
    /// # Errors
    /// The input cannot be read.
    pub(super) fn characters(&self) -> Result<BTreeSet<char>, Diagnostic> {
        let mut all = BTreeSet::new();
        self.groups(|group| {
            let of_item = |item: Item| {
                let text = self.text(item).map_or_else(|_| String::new(), |(text, _)| text);
                text.chars().collect::<BTreeSet<char>>()
            };
            let found = group.into_par_iter().map(of_item).reduce(BTreeSet::new, |mut a, b| {
                a.extend(b);
                a
            });
            all.extend(found);
            Ok(())
        })?;
        Ok(all)
    }

    /// The arguments of `data prepare` that suit the input's first record; `None` if it is no record or suits nothing.
    ///
    /// # Errors
    /// The input cannot be read.
    pub(super) fn fitting(&self) -> Result<Option<String>, Diagnostic> {
        let mut first = None;
        self.groups(|group| {
            first = group.into_iter().find_map(|item| match item.content {
                Content::Record(json) => Some(json),
                _ => None,
            });
            if first.is_some() { Err(Stop::Unwanted) } else { Ok(()) }
        })?;
        Ok(first.and_then(|json| Layout::published().find(|layout| layout.document(&json).is_ok())).map(
            |layout| {
                let name = layout.dataset.name();
                layout.language.map_or(name.to_string(), |language| format!("{name} --lang {language}"))
            },
        ))
    }

    /// Reads on a separate thread while `work` handles the previous group.
    fn groups(&self, mut work: impl FnMut(Group) -> Result<(), Stop>) -> Result<(), Diagnostic> {
        let (sender, receiver) = mpsc::sync_channel(1);
        thread::scope(|scope| {
            let reading =
                scope.spawn(move || reader::read(self.input, self.layout.dataset, &sender, self.progress));
            let worked = receiver.iter().try_for_each(&mut work);
            // Without a receiver the reader stops.
            drop(receiver);
            let read = match reading.join() {
                Ok(read) => read,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            match worked.and(read) {
                Err(Stop::Failed(error)) => Err(error),
                Ok(()) | Err(Stop::Unwanted) => Ok(()),
            }
        })
    }

    fn encode_item(&self, encoder: &mut Encoder, item: Item) -> Result<Encoded, Diagnostic> {
        let (place, ends) = (item.place.clone(), item.ends);
        let (text, split) = match self.text(item) {
            Ok(found) => found,
            Err(reason) => return Ok(Encoded { place, ends, result: Err(reason) }),
        };
        let mut ids = Vec::with_capacity(text.len() / 3);
        encoder.encode(&text, &mut ids).map_err(|error| error.at(&place))?;
        let (text_bytes, blank) = (text.len() as u64, text.trim().is_empty());
        Ok(Encoded { place, ends, result: Ok(Piece { split, ids, text_bytes, blank }) })
    }

    /// The text of an item, and its split.
    fn text(&self, item: Item) -> Result<(String, Split), Reason> {
        let (named, key, text) = match item.content {
            Content::Refused(reason) => return Err(reason),
            Content::Text(bytes) => {
                let text = String::from_utf8(bytes)
                    .map_err(|error| Reason::NotUtf8(error.utf8_error().valid_up_to()))?;
                let text = match text.strip_prefix('\u{feff}') {
                    // A mark of the encoding, not of the text.
                    Some(rest) if item.ends.first => rest.to_string(),
                    _ => text,
                };
                (None, Some(item.place.file.to_string()), text)
            }
            Content::Record(json) => {
                let document = self.layout.document(&json)?;
                (document.split, document.id, document.text)
            }
        };
        let named = named.or(item.split).filter(|_| self.splitting.own);
        let split = named.unwrap_or_else(|| self.by_hash(key.as_deref().unwrap_or(&text)));
        Ok((text, split))
    }

    /// The split of a document without one in the data set, by its identifier.
    fn by_hash(&self, key: &str) -> Split {
        let hash = Sha256::digest(key.as_bytes());
        let mut first = [0; 8];
        first.copy_from_slice(&hash[..8]);
        // Uniform in [0, 1), to 53 bits.
        let uniform = (u64::from_be_bytes(first) >> 11) as f64 / (1u64 << 53) as f64;
        if uniform < self.splitting.val_fraction { Split::Val } else { Split::Train }
    }
}

/// An encoder of a working thread; it returns with its cache when the thread is done.
struct Borrowed<'p> {
    idle: &'p Mutex<Vec<Encoder>>,
    encoder: Option<Encoder>,
}

impl Borrowed<'_> {
    fn get(&mut self, tokenizer: &Tokenizer) -> Result<&mut Encoder, Diagnostic> {
        let encoder = match self.encoder.take() {
            Some(encoder) => encoder,
            None => match self.idle.lock().pop() {
                Some(encoder) => encoder,
                None => tokenizer.encoder()?,
            },
        };
        Ok(self.encoder.insert(encoder))
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        if let Some(encoder) = self.encoder.take() {
            self.idle.lock().push(encoder);
        }
    }
}
