//! The run file as text, and the position of every key in it.
//!
//! [`Source::locate`] turns a dotted key into `configs/exp.toml:14:10` or the `--set` that overrode it, for this
//! crate's errors and for every later one about a value of the run file. It does not know the meaning of keys.
//! `overrides` adds overrides.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use altgrad_base::diagnostic::Diagnostic;
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};
use toml_parser::lexer::{Token, TokenKind};

/// The source of a key.
#[derive(Debug, Clone)]
pub(super) enum Place {
    /// Byte offsets of the key and of its value in the file.
    File { key: usize, value: usize },
    /// The same of the recipe.
    Recipe { key: usize, value: usize },
    /// The `--set` of this index.
    Override(usize),
    /// Another option of the command line, with its value.
    Option(String),
}

/// The run file's text, its path, the `--set` overrides, and the place of every key.
#[derive(Debug, Clone)]
pub struct Source {
    path: PathBuf,
    text: String,
    /// As on the command line, without `--set`.
    pub(super) overrides: Vec<String>,
    /// Path and text of the recipe, if the run file names one.
    pub(super) recipe: Option<(PathBuf, String)>,
    /// By dotted key, array elements by index: `sink.0.name`.
    pub(super) places: BTreeMap<String, Place>,
}

impl Source {
    /// Parses `text`, still without overrides: the tree and the positions of its keys.
    pub fn parse(path: &Path, text: String) -> Result<(Table, Self), Diagnostic> {
        Self::parse_shown(path, &text.clone(), text)
    }

    /// The same for `text` that represents `shown`, byte for byte: positions and the kept text are those of `shown`.
    pub(super) fn parse_shown(path: &Path, text: &str, shown: String) -> Result<(Table, Self), Diagnostic> {
        if let Some(message) = too_many_brackets(text) {
            return Err(Diagnostic::config(message).at(path.display()).hint(PATTERNS));
        }
        // The parser reports in its own order; users need the first place.
        let (parsed, errors) = DeTable::parse_recoverable(text);
        let start = |error: &toml::de::Error| error.span().map_or(0, |span| span.start);
        if let Some(error) = errors.iter().min_by_key(|error| start(error)) {
            let (line, column) = line_and_column(&shown, start(error));
            return Err(Diagnostic::config(format!("not valid TOML: {}", one_line(error.message())))
                .at(position(path, &shown, start(error)))
                .showing(&shown, line, column));
        }
        let mut places = BTreeMap::new();
        let table = plain_table(parsed.get_ref(), "", &mut |dotted, key, value| {
            places.insert(dotted, Place::File { key: key.start, value: value.start });
        })
        .map_err(|fault| Diagnostic::config(fault.message).at(position(path, &shown, fault.offset)))?;
        Ok((table, Self { path: path.to_owned(), text: shown, overrides: Vec::new(), recipe: None, places }))
    }

    /// The path as given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The run file's text, before overrides.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The overrides as given, without `--set`.
    #[must_use]
    pub fn overrides(&self) -> &[String] {
        &self.overrides
    }

    /// Notes that an option of the command line, such as `--device cuda:0`, has set `key`.
    pub fn note_option(&mut self, key: &str, option: String) {
        self.places.insert(key.to_owned(), Place::Option(option));
    }

    /// True if the file or the command line gives `key` a value; false for a default.
    #[must_use]
    pub fn is_written(&self, key: &str) -> bool {
        self.places.contains_key(key)
    }

    /// The position of the value of the dotted `key`: `configs/exp.toml:14:10`, `--set quant.weight=E3M4`,
    /// `--device cpu`, or `configs/exp.toml (default)` if it is not written. Of a table that is partly set by `--set`,
    /// the last of these.
    #[must_use]
    pub fn locate(&self, key: &str) -> String {
        match self.set_within(key).or_else(|| self.places.get(key)) {
            Some(Place::File { value, .. }) => position(&self.path, &self.text, *value),
            Some(Place::Recipe { value, .. }) => self.recipe_place(*value),
            Some(Place::Override(index)) => self.override_place(*index),
            Some(Place::Option(option)) => option.clone(),
            None => format!("{} (default)", self.path.display()),
        }
    }

    fn is_set(&self, key: &str) -> bool {
        matches!(self.places.get(key), Some(Place::Override(_))) || self.set_within(key).is_some()
    }

    /// The last `--set` of a key in the table `key`.
    fn set_within(&self, key: &str) -> Option<&Place> {
        let inside = |other: &str| other.strip_prefix(key).is_some_and(|rest| rest.starts_with('.'));
        let set = self.places.iter().filter_map(|(other, place)| match place {
            Place::Override(index) if inside(other) => Some((*index, place)),
            _ => None,
        });
        set.max_by_key(|(index, _)| *index).map(|(_, place)| place)
    }

    /// The byte offset in the file of the value of `key`: it gives the order of two keys.
    pub fn offset(&self, key: &str) -> Option<usize> {
        match self.places.get(key)? {
            Place::File { value, .. } => Some(*value),
            Place::Recipe { .. } | Place::Override(_) | Place::Option(_) => None,
        }
    }

    /// The written key whose name or value is at a place, as an error gives it. Of several, as in one override, one
    /// that the error names, or else the longest.
    pub(super) fn key_at(&self, place: &str, is_named: impl Fn(&str) -> bool) -> Option<String> {
        let stands_there = |key: &&String| {
            [self.locate(key), self.locate_key(key)].iter().any(|own| {
                place.strip_prefix(own.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(" ("))
            })
        };
        self.places.keys().filter(stands_there).max_by_key(|key| (is_named(key), key.len())).cloned()
    }

    /// As [`locate`](Self::locate), for an error about the key itself.
    pub(super) fn locate_key(&self, key: &str) -> String {
        match self.places.get(key) {
            Some(Place::File { key, .. }) => position(&self.path, &self.text, *key),
            Some(Place::Recipe { key, .. }) => self.recipe_place(*key),
            _ => self.locate(key),
        }
    }

    /// The place of the first of `keys` that a `--set` sets, or else that is written, for an error about several.
    #[must_use]
    pub fn locate_first(&self, keys: &[&str]) -> String {
        let set = keys.iter().find(|key| self.is_set(key));
        let written = set.or_else(|| keys.iter().find(|key| self.is_written(key)));
        self.locate(written.or(keys.first()).unwrap_or(&""))
    }

    fn recipe_place(&self, offset: usize) -> String {
        let (path, text) =
            self.recipe.as_ref().map_or((Path::new("recipe"), ""), |(path, text)| (path, text));
        position(path, text, offset)
    }

    /// `--set run.name=x`.
    pub(super) fn override_place(&self, index: usize) -> String {
        override_place(self.overrides.get(index).map_or("", String::as_str))
    }
}

/// The name of an override in an error.
pub(super) fn override_place(raw: &str) -> String {
    format!("--set {}", one_line(raw))
}

/// `parent.segment`; a segment that TOML would quote is quoted.
pub fn join(parent: &str, segment: &str) -> String {
    let bare = !segment.is_empty()
        && segment.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-".contains(letter));
    match (parent, bare) {
        ("", true) => segment.to_owned(),
        ("", false) => format!("{segment:?}"),
        (_, true) => format!("{parent}.{segment}"),
        (_, false) => format!("{parent}.{segment:?}"),
    }
}

/// `text` without line breaks and other control characters.
pub(super) fn one_line(text: &str) -> String {
    text.trim_end().replace(char::is_control, " ")
}

/// `path:line:column`, both from 1, the column in characters.
pub(super) fn position(path: &Path, text: &str, offset: usize) -> String {
    let (line, column) = line_and_column(text, offset);
    format!("{}:{line}:{column}", path.display())
}

/// Line and column of a byte offset, both from 1, the column in characters.
#[must_use]
pub fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    // A byte order mark is no character of line 1.
    let before = text.get(..offset).unwrap_or(text).trim_start_matches('\u{feff}');
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |last| last.chars().count()) + 1;
    (line, column)
}

/// Valid TOML that is refused: a number that does not fit its types, a key too long.
pub(super) struct Unfit {
    pub(super) message: String,
    pub(super) offset: usize,
}

/// Bytes of the longest dotted key. Every key's place is kept under its dotted name, and tables in tables are walked by
/// recursion: without a limit a small file could claim the square of its size, or the whole stack.
const LONGEST_KEY: usize = 256;

/// Most brackets that a file or an override may open, those of strings and comments not counted. The parser's own limit
/// on nesting (toml_parser 1.1.5) does not hold while it recovers from errors, and it recurses: a file of unclosed
/// tables ends the process. No file can nest deeper than it opens brackets.
const MOST_BRACKETS: usize = 1000;
/// The replacement of a long list.
pub(super) const PATTERNS: &str = "shorten the lists: a rule's `match` takes patterns such as `h.*.attn.*`, so that few rules do for many layers";

/// The reason why the brackets of a TOML text are refused before it is parsed; `None` if they are not.
#[must_use]
pub fn too_many_brackets(text: &str) -> Option<String> {
    let opens =
        |token: &Token| matches!(token.kind(), TokenKind::LeftSquareBracket | TokenKind::LeftCurlyBracket);
    let opened = toml_parser::Source::new(text).lex().filter(opens).count();
    (opened > MOST_BRACKETS).then(|| format!("{opened} brackets are opened, more than {MOST_BRACKETS}"))
}

/// The reason why the length of a dotted key is refused; `None` if it is not.
pub(super) fn too_long(dotted: &str) -> Option<String> {
    let start: String = dotted.chars().take(32).collect();
    (dotted.len() > LONGEST_KEY).then(|| {
        format!(
            "the key that begins with `{}` has {} bytes, more than {LONGEST_KEY}",
            one_line(&start),
            dotted.len()
        )
    })
}

/// Called with each dotted key and the spans of key and value.
pub(super) type Visit<'a> = &'a mut dyn FnMut(String, Range<usize>, Range<usize>);

/// The table without spans, which go to `visit`.
pub(super) fn plain_table(table: &DeTable<'_>, parent: &str, visit: Visit<'_>) -> Result<Table, Unfit> {
    let mut plain = Table::new();
    for (name, value) in table {
        let dotted = join(parent, name.get_ref());
        if let Some(message) = too_long(&dotted) {
            return Err(Unfit { message, offset: name.span().start });
        }
        visit(dotted.clone(), name.span(), value.span());
        plain.insert(
            name.get_ref().to_string(),
            plain_value(value.get_ref(), &dotted, value.span().start, visit)?,
        );
    }
    Ok(plain)
}

/// One value without spans; `offset` is where it starts.
pub(super) fn plain_value(
    value: &DeValue<'_>,
    dotted: &str,
    offset: usize,
    visit: Visit<'_>,
) -> Result<Value, Unfit> {
    let too_large = |text: String, range: &str| Unfit {
        message: format!("`{dotted}` is out of range for {range}: {}", one_line(&text)),
        offset,
    };
    Ok(match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Boolean(flag) => Value::Boolean(*flag),
        // No key holds a date, and serde would make it a string on the way to a plugin's table anyway.
        DeValue::Datetime(moment) => Value::String(moment.to_string()),
        DeValue::Integer(integer) => i64::from_str_radix(integer.as_str(), integer.radix())
            .map(Value::Integer)
            .map_err(|_| too_large(integer.to_string(), "a 64-bit integer"))?,
        DeValue::Float(float) => match float.as_str().parse::<f64>() {
            // An infinity that was not written as one is an overflow.
            Ok(number) if number.is_finite() || !float.as_str().contains(|c: char| c.is_ascii_digit()) => {
                Value::Float(number)
            }
            _ => return Err(too_large(float.to_string(), "a 64-bit float")),
        },
        DeValue::Array(elements) => {
            let mut plain = Vec::with_capacity(elements.len());
            for (index, element) in elements.iter().enumerate() {
                let dotted = join(dotted, &index.to_string());
                if let Some(message) = too_long(&dotted) {
                    return Err(Unfit { message, offset: element.span().start });
                }
                visit(dotted.clone(), element.span(), element.span());
                plain.push(plain_value(element.get_ref(), &dotted, element.span().start, visit)?);
            }
            Value::Array(plain)
        }
        DeValue::Table(table) => Value::Table(plain_table(table, dotted, visit)?),
    })
}
