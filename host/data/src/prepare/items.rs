//! Items that readers send: records and parts of texts, and the groups in which they travel.

use std::{io, sync::mpsc::SyncSender};

use altgrad_base::diagnostic::Diagnostic;

use super::{
    density::TooDense,
    layout::Split,
    skip::{Place, Reason},
};

/// Bytes of a record, or of a stretch of text without a line end between words, that are read at most.
pub(super) const LONGEST: usize = 32 << 20;
/// Bytes of records that travel together.
const GROUP: usize = 4 << 20;

/// A record, or a part of a text.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) place: Place,
    /// The split of its file's name, or of its place in the file.
    pub(super) split: Option<Split>,
    /// The ends of a document that the item holds.
    pub(super) ends: Ends,
    pub(super) content: Content,
}

/// The ends of a document that a part of it holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends {
    pub(super) first: bool,
    pub(super) last: bool,
    /// True if a separator follows; false where a text continues in another split.
    pub(super) separated: bool,
}

impl Ends {
    /// A whole document.
    pub(super) const WHOLE: Self = Self { first: true, last: true, separated: true };
}

/// The content of an item.
#[derive(Debug)]
pub(super) enum Content {
    /// A JSON record.
    Record(Vec<u8>),
    /// A text or, in order, a part of one, cut where tokens cannot cross.
    Text(Vec<u8>),
    /// No usable content.
    Refused(Reason),
}

/// Items that travel together.
pub(super) type Group = Vec<Item>;

/// The reason why reading ended early.
#[derive(Debug)]
pub(super) enum Stop {
    /// No receiver is left.
    Unwanted,
    /// The input cannot be read.
    Failed(Diagnostic),
}

/// Items on their way, in groups.
pub(super) struct Items<'a> {
    sender: &'a SyncSender<Group>,
    items: Group,
    bytes: usize,
}

impl<'a> Items<'a> {
    /// An empty group; groups go to `sender`.
    pub(super) fn new(sender: &'a SyncSender<Group>) -> Self {
        Self { sender, items: Vec::new(), bytes: 0 }
    }

    /// Passes an item on, together with others.
    ///
    /// # Errors
    /// No receiver is left.
    pub(super) fn push(&mut self, item: Item) -> Result<(), Stop> {
        self.bytes += match &item.content {
            Content::Record(bytes) | Content::Text(bytes) => bytes.len(),
            Content::Refused(_) => 0,
        };
        self.items.push(item);
        if self.bytes >= GROUP || self.items.len() >= GROUP / 64 { self.send() } else { Ok(()) }
    }

    /// Sends the items that were not sent yet.
    ///
    /// # Errors
    /// No receiver is left.
    pub(super) fn send(&mut self) -> Result<(), Stop> {
        self.bytes = 0;
        self.sender.send(std::mem::take(&mut self.items)).map_err(|_| Stop::Unwanted)
    }
}

impl Stop {
    pub(super) fn at(self, place: &str) -> Self {
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
    if let Some(dense) = TooDense::of(&error) {
        return Stop::Failed(
            Diagnostic::config(dense.to_string()).hint("if it is your data, unpack it and name the folder"),
        );
    }
    let message = match error.kind() {
        io::ErrorKind::UnexpectedEof => "the input ends in the middle: it was cut short".to_string(),
        _ => format!("the input cannot be read ({error})"),
    };
    Stop::Failed(Diagnostic::config(message).hint("fetch or copy it again; nothing was written"))
}
