//! The name of a format in a metric's name.

use std::fmt;

use arrayvec::ArrayString;

/// A format as a run file names it: `E4M3`, `E3M4:ieee`. At most [`Self::MOST`] bytes, without slash and dot, which
/// separate the parts of metrics' names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FormatName(ArrayString<{ Self::MOST }>);

impl FormatName {
    /// Bytes of the longest name.
    pub const MOST: usize = 48;

    /// The name; `None` if it is empty, too long, or holds a slash or a dot.
    #[must_use]
    pub fn new(name: &str) -> Option<Self> {
        let fits = !name.is_empty() && !name.contains(['/', '.']);
        fits.then(|| ArrayString::from(name).ok().map(Self))?
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FormatName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_break_a_metrics_name_are_refused() {
        assert_eq!(FormatName::new("E3M4:ieee").map(|name| name.to_string()).as_deref(), Some("E3M4:ieee"));
        for name in ["", "a/b", "a.b", &"x".repeat(FormatName::MOST + 1)] {
            assert_eq!(FormatName::new(name), None, "{name}");
        }
    }
}
