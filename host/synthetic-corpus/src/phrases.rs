//! Reads the phrase tables, text files in `phrases`.
//!
//! `[name]` begins a section. `table: a | b` adds phrases to a table of the section; after `table:` alone, each
//! indented line is a phrase. A line that begins with `#` is a comment. Phrases may hold placeholders in braces, which
//! `expand` replaces.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// A section's tables by name.
#[derive(Debug, Default)]
pub(super) struct Section {
    pub(super) name: &'static str,
    tables: BTreeMap<&'static str, Vec<&'static str>>,
}

impl Section {
    /// The phrases of a table; none if the section lacks it.
    pub(super) fn table(&self, name: &str) -> &[&'static str] {
        self.tables.get(name).map_or(&[], Vec::as_slice)
    }

    /// The only phrase of a table.
    pub(super) fn phrase(&self, name: &str) -> &'static str {
        self.table(name).first().copied().unwrap_or("")
    }
}

/// The sections of a file in their order.
pub(super) fn sections(text: &'static str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut table = "";
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            sections.push(Section { name, ..Section::default() });
            continue;
        }
        let Some(section) = sections.last_mut() else { continue };
        let mut add = |table, phrase| section.tables.entry(table).or_default().push(phrase);
        if let Some(phrase) = line.strip_prefix("  ") {
            add(table, phrase);
        } else if let Some((name, phrases)) = line.split_once(':') {
            table = name;
            phrases
                .split('|')
                .map(str::trim)
                .filter(|phrase| !phrase.is_empty())
                .for_each(|one| add(name, one));
        }
    }
    sections
}

/// A file whose sections are found by name.
pub(super) type File = LazyLock<BTreeMap<&'static str, Section>>;

/// The sections of a file by name.
pub(super) fn by_name(text: &'static str) -> BTreeMap<&'static str, Section> {
    sections(text).into_iter().map(|section| (section.name, section)).collect()
}

/// A table of a file; empty if the file lacks it.
pub(super) fn table(file: &'static File, section: &str, name: &str) -> &'static [&'static str] {
    file.get(section).map_or(&[], |section| section.table(name))
}
