//! Skipped records and the reasons: counted and summed up, or with `--strict` refused.

use std::{collections::BTreeMap, fmt, sync::Arc};

use altgrad_base::diagnostic::Diagnostic;

/// The position of a record: its file, and its line if the file has lines.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) file: Arc<str>,
    pub(super) line: Option<u64>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}", self.file),
            None => f.write_str(&self.file),
        }
    }
}

/// The reason why a record is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reason {
    /// No JSON, or a field of another type than the layout's.
    Malformed(String),
    /// A field that the layout needs.
    Missing(&'static str),
    /// No text in the wanted language.
    Language(String),
    /// Bytes that are no UTF-8; the first of them.
    NotUtf8(usize),
    /// Only white space.
    Empty,
    /// More than so many bytes in one record, or in one line of text.
    TooLong(usize),
    /// A name in an archive that leads out of it.
    UnsafeName,
    /// An entry of an archive that is no plain file.
    NotAFile,
}

impl Reason {
    /// The name under which records are counted.
    fn kind(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed",
            Self::Missing(_) => "missing field",
            Self::Language(_) => "other language",
            Self::NotUtf8(_) => "invalid UTF-8",
            Self::Empty => "empty",
            Self::TooLong(_) => "too long",
            Self::UnsafeName => "unsafe name",
            Self::NotAFile => "no plain file",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(what) => write!(f, "malformed: {what}"),
            Self::Missing(field) => write!(f, "no `{field}`"),
            Self::Language(language) => write!(f, "no text in `{language}`"),
            Self::NotUtf8(at) => write!(f, "not UTF-8 (byte {at})"),
            Self::Empty => f.write_str("no text"),
            Self::TooLong(most) => write!(f, "longer than {} MiB", most >> 20),
            Self::UnsafeName => f.write_str("the name leads out of the archive"),
            Self::NotAFile => f.write_str("a link or a device, no plain file"),
        }
    }
}

/// Counts of skipped records.
#[derive(Debug)]
pub struct Skips {
    strict: bool,
    kinds: BTreeMap<&'static str, (u64, String)>,
}

impl Skips {
    pub(super) fn new(strict: bool) -> Self {
        Self { strict, kinds: BTreeMap::new() }
    }

    /// Counts a record.
    ///
    /// # Errors
    /// With `--strict`, a skipped record.
    pub(super) fn add(&mut self, place: &Place, reason: &Reason) -> Result<(), Diagnostic> {
        if self.strict {
            return Err(Diagnostic::config(format!("a record cannot be used ({reason})"))
                .at(place)
                .hint("without --strict such records are counted and left out"));
        }
        self.kinds.entry(reason.kind()).or_insert_with(|| (0, format!("{place}: {reason}"))).0 += 1;
        Ok(())
    }

    /// Counts by reason.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<String, u64> {
        self.kinds.iter().map(|(kind, (count, _))| ((*kind).to_string(), *count)).collect()
    }

    /// True if more than white space was left out.
    pub(super) fn lost_text(&self) -> bool {
        self.kinds.keys().any(|kind| *kind != Reason::Empty.kind())
    }

    /// The first record of each reason, with the reason.
    pub(super) fn firsts(&self) -> Vec<String> {
        self.kinds.values().map(|(_, first)| first.clone()).collect()
    }

    /// A line for each reason, with the first record it is about: `2 malformed, first at train.jsonl:7: ...`.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.kinds.iter().map(|(kind, (count, first))| format!("{count} {kind}, first at {first}")).collect()
    }
}
