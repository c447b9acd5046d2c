//! Phrases that do not depend on the subject (`phrases/lexicon.txt`).

use std::sync::LazyLock;

use super::phrases::{self, File};

static LEXICON: File = LazyLock::new(|| phrases::by_name(include_str!("phrases/lexicon.txt")));

/// Member States with the year from which acts may name them, in order of that year.
static MEMBER_STATES: LazyLock<Vec<(&str, u32)>> = LazyLock::new(|| {
    let states = list("member_states").iter().filter_map(|line| line.split_once(' '));
    states.filter_map(|(since, name)| Some((name, since.parse().ok()?))).collect()
});

/// A list by its name.
pub(super) fn list(name: &str) -> &'static [&'static str] {
    phrases::table(&LEXICON, "lists", name)
}

/// The Member States that acts of `year` may name.
pub(super) fn member_states(year: u32) -> Vec<&'static str> {
    MEMBER_STATES.iter().filter(|(_, since)| *since <= year).map(|(name, _)| *name).collect()
}

/// The alternatives for which a placeholder stands; none for a placeholder of another kind.
pub(super) fn alternatives(placeholder: &str) -> &'static [&'static str] {
    phrases::table(&LEXICON, "alternatives", placeholder)
}
