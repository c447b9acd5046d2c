//! Text of run folders, which may be anything, made safe to show.

use std::borrow::Cow;

use altgrad_base::print::escaped;

/// A stranger's text, made safe to show: at most this many characters, and none that controls a terminal.
pub(super) fn shortened(text: &str, most: usize) -> String {
    let start = match text.char_indices().nth(most) {
        Some(_) => Cow::Owned(text.chars().take(most - 1).chain(['…']).collect::<String>()),
        None => Cow::Borrowed(text),
    };
    escaped(&start).replace(['\n', '\t'], " ")
}
