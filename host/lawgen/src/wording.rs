//! The form of an article's wording.

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
