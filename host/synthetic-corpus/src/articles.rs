//! The wording of articles by role (`phrases/articles.txt`).

use std::sync::LazyLock;

use super::phrases::{self, File};
use super::plan::Role;

static ARTICLES: File = LazyLock::new(|| phrases::by_name(include_str!("phrases/articles.txt")));

/// The phrases of one role.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wording {
    /// Titles an article of the role may have.
    pub(super) titles: &'static [&'static str],
    /// Phrases for the first paragraph.
    pub(super) first: &'static [&'static str],
    /// Phrases for the paragraphs after it; they may refer to an earlier paragraph as `{par}`.
    pub(super) later: &'static [&'static str],
}

/// Returns the phrases of `role`, whose section has the name of the variant.
pub(super) fn wording(role: Role) -> Wording {
    let section = format!("{role:?}");
    let [titles, first, later] =
        ["titles", "first", "later"].map(|name| phrases::table(&ARTICLES, &section, name));
    Wording { titles, first, later }
}

/// Later paragraphs that fit several roles.
pub(super) fn later() -> &'static [&'static str] {
    phrases::table(&ARTICLES, "any", "later")
}

/// Sentences that may end a paragraph of several roles.
pub(super) fn tails() -> &'static [&'static str] {
    phrases::table(&ARTICLES, "any", "tails")
}
