//! The refusal of a library: one sentence, and a hint.

use altgrad_base::diagnostic::Diagnostic;

/// The reason, worded to follow "plugin library refused: ", and the hint.
pub(crate) fn refused(why: impl AsRef<str>, hint: impl Into<String>) -> Diagnostic {
    Diagnostic::plugin(format!("plugin library refused: {}", why.as_ref())).hint(hint)
}
