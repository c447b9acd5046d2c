//! The host's error type: a message, a place and a hint.
//!
//! All host crates return [`Diagnostic`]; the command line prints it and maps its [`Fault`] to the exit code. It holds
//! text only: a message can name a run-file position, a library or a tensor without a dependency on its type.

use std::fmt;

/// Bytes of the longest line that is shown.
const LONGEST_LINE: usize = 240;

/// The class of an error, which determines the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The run itself failed: exit code 1.
    Run,
    /// Bad usage or configuration, found before anything was written: exit code 2.
    Config,
    /// A plugin was refused: exit code 3.
    Plugin,
    /// The requested device is not available, or failed: exit code 4.
    Device,
    /// The run ended with NaN or infinity: exit code 5.
    NotFinite,
}

impl Fault {
    /// The process exit code; docs/troubleshooting.md lists them.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Run => 1,
            Self::Config => 2,
            Self::Plugin => 3,
            Self::Device => 4,
            Self::NotFinite => 5,
        }
    }
}

/// One error: a sentence, its place, and a hint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Diagnostic {
    /// The class, which determines the exit code.
    pub fault: Fault,
    /// The error in one sentence without a final full stop.
    pub message: String,
    /// The place: `configs/exp.toml:14:10`, a library path, a file.
    pub place: Option<String>,
    /// The line at fault, with a mark below it.
    pub excerpt: Option<Box<str>>,
    /// The advice to the user.
    pub hint: Option<String>,
}

impl Diagnostic {
    /// An error of class `fault` without place and hint.
    pub fn new(fault: Fault, message: impl Into<String>) -> Self {
        Self { fault, message: message.into(), place: None, excerpt: None, hint: None }
    }

    /// [`Fault::Run`]: the run failed.
    pub fn run(message: impl Into<String>) -> Self {
        Self::new(Fault::Run, message)
    }

    /// [`Fault::Config`]: the user requested something impossible.
    pub fn config(message: impl Into<String>) -> Self {
        Self::new(Fault::Config, message)
    }

    /// [`Fault::Plugin`]: a library or one of its plugins was refused.
    pub fn plugin(message: impl Into<String>) -> Self {
        Self::new(Fault::Plugin, message)
    }

    /// [`Fault::NotFinite`]: the run ended with NaN or infinity.
    pub fn not_finite(message: impl Into<String>) -> Self {
        Self::new(Fault::NotFinite, message)
    }

    /// Sets the place, unless one is set: the first place is closest to the fault.
    #[must_use]
    pub fn at(mut self, place: impl fmt::Display) -> Self {
        self.place.get_or_insert_with(|| place.to_string());
        self
    }

    /// Sets the excerpt: a line of a text and a mark below a column. Line and column (in characters) count from 1.
    /// Control characters become blanks; long lines are omitted.
    #[must_use]
    pub fn showing(mut self, text: &str, line: usize, column: usize) -> Self {
        let shown = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
        if shown.len() > LONGEST_LINE {
            return self;
        }
        let shown: String =
            shown.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        let (margin, before) = (line.to_string().len(), column.saturating_sub(1));
        self.excerpt =
            Some(format!("{:margin$} |\n{line} | {shown}\n{:margin$} | {:before$}^", "", "", "").into());
        self
    }

    /// Sets the hint, unless one is set.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint.get_or_insert_with(|| hint.into());
        self
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        if let Some(place) = &self.place {
            write!(f, "\n  --> {place}")?;
        }
        if let Some(excerpt) = &self.excerpt {
            write!(f, "\n{excerpt}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

/// The largest length of a name, bytes.
const LONGEST_NAME: usize = 256;

/// `did you mean` suggestions: the known name closest to `given`, if any is close. Longer texts than the longest name
/// have none, because the comparison takes quadratic time.
#[must_use]
pub fn closest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given = if given.len() > LONGEST_NAME { return None } else { given.to_lowercase() };
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&given, &name.to_lowercase()), name))
        .filter(|(distance, name)| *distance <= 1 + name.len() / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_what_where_and_what_to_do() {
        let error = Diagnostic::config("unknown format `E4M4` at `quant.weight`")
            .at("configs/exp.toml:14:10")
            .hint("did you mean `E4M3`?");
        assert_eq!(
            error.to_string(),
            "error: unknown format `E4M4` at `quant.weight`\n  --> configs/exp.toml:14:10\nhint: did you mean `E4M3`?"
        );
    }

    #[test]
    fn shows_the_line_with_a_mark() {
        let error = Diagnostic::config("not valid TOML").at("a.toml:2:5").showing("a = 1\n[\trun\n", 2, 3);
        assert_eq!(error.to_string(), "error: not valid TOML\n  --> a.toml:2:5\n  |\n2 | [ run\n  |   ^");
    }

    #[test]
    fn closest_ignores_case_and_refuses_far_names() {
        assert_eq!(closest("e4m4", ["E5M2", "E4M3"]), Some("E4M3"));
        assert_eq!(closest("posit8", ["E5M2", "E4M3"]), None);
        assert_eq!(closest(&"x".repeat(1 << 24), ["E5M2"]), None);
    }
}
