//! The refusal of a library: one sentence, and what to do.

use altgrad_base::diagnostic::Diagnostic;

/// Why, as the end of "plugin library refused: ...", and what to do.
pub(crate) fn refused(why: impl AsRef<str>, hint: impl Into<String>) -> Diagnostic {
    Diagnostic::plugin(format!("plugin library refused: {}", why.as_ref())).hint(hint)
}
