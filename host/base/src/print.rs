//! Output that ends no command and cannot control a terminal.
//!
//! A closed pipe or a full log must never end a training run, so text that cannot be written is dropped. [`finish`]
//! returns the fault at the end of the command: a full disk, but not a reader that has closed its pipe. Plugins,
//! archives, run folders and paths of strangers also contribute text, so characters that control terminals are written
//! as escapes ([`escaped`]). The macros have the names of the standard ones, which panic when a line cannot be written.
//! A file that imports them from here cannot use the panicking ones by accident.

use std::{
    borrow::Cow,
    fmt,
    io::{self, Write},
    sync::Mutex,
};

use crate::diagnostic::Diagnostic;

/// The first fault of standard output.
static FAULT: Mutex<Option<String>> = Mutex::new(None);

/// True for a character that controls a terminal: control characters except line feed and tab, and characters that
/// change the direction of text or end a line.
fn commands(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        _ => character.is_control(),
    }
}

/// Text with each character that controls a terminal written as `\uXXXX`. JSON keeps its value.
#[must_use]
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.chars().any(commands) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if commands(character) {
            shown.push_str(&format!("\\u{:04x}", u32::from(character)));
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

/// A word of a command as a shell takes it: in quotation marks if it needs them.
#[must_use]
pub fn word(text: &str) -> Cow<'_, str> {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_./=:,+@%".contains(character);
    if !text.is_empty() && text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("'{}'", text.replace('\'', r"'\''")))
}

/// Writes text, escaped; text that cannot be written is dropped. For the macros.
pub fn write(mut out: impl Write, text: fmt::Arguments<'_>) {
    let text = text.to_string();
    let _ = out.write_all(escaped(&text).as_bytes());
}

/// Writes bytes to standard output and flushes it. Returns whether they were written; a fault is also kept for
/// [`finish`].
pub fn output(bytes: &[u8]) -> bool {
    let mut out = io::stdout();
    keep_fault(out.write_all(bytes).and_then(|()| out.flush()))
}

/// Writes text to standard output, escaped. For the macros.
pub fn line(text: fmt::Arguments<'_>) {
    let text = text.to_string();
    keep_fault(io::stdout().write_all(escaped(&text).as_bytes()));
}

/// True if writing to standard output did not fail. Keeps the first fault for [`finish`].
pub fn keep_fault(written: io::Result<()>) -> bool {
    if let Err(error) = &written
        && error.kind() != io::ErrorKind::BrokenPipe
        && let Ok(mut fault) = FAULT.lock()
    {
        fault.get_or_insert_with(|| error.to_string());
    }
    written.is_ok()
}

/// Flushes standard output at the end of a command.
///
/// # Errors
/// A part of the output could not be written.
pub fn finish() -> Result<(), Diagnostic> {
    keep_fault(io::stdout().flush());
    let fault = FAULT.lock().ok().and_then(|fault| fault.clone());
    fault.map_or(Ok(()), |error| {
        Err(Diagnostic::run(format!("a part of the output is lost ({error})"))
            .at("standard output")
            .hint("is the disk full?"))
    })
}

/// Prints a line to standard output; a line that cannot be written is dropped, and
/// [`print::finish`](crate::print::finish) returns the fault.
#[macro_export]
macro_rules! println {
    () => { $crate::print::line(format_args!("\n")) };
    ($($arg:tt)*) => { $crate::print::line(format_args!("{}\n", format_args!($($arg)*))) };
}

/// Prints to standard output without a line break, as [`println!`](crate::println).
#[macro_export]
macro_rules! print {
    ($($arg:tt)*) => { $crate::print::line(format_args!($($arg)*)) };
}

/// Prints a line to standard error; a line that cannot be written is dropped.
#[macro_export]
macro_rules! eprintln {
    () => { $crate::print::write(std::io::stderr(), format_args!("\n")) };
    ($($arg:tt)*) => {
        $crate::print::write(std::io::stderr(), format_args!("{}\n", format_args!($($arg)*)))
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_terminals_obey_are_shown() {
        let plain = "tables │ ± … ü\tand\nlines";
        assert!(matches!(escaped(plain), Cow::Borrowed(text) if text == plain));
        assert_eq!(escaped("\x1b[2J\x1b]0;title\x07"), "\\u001b[2J\\u001b]0;title\\u0007");
        assert_eq!(escaped("a\rb\x08\x7f\u{9b}31m"), "a\\u000db\\u0008\\u007f\\u009b31m");
        assert_eq!(escaped("x\u{202e}txt.exe\u{2069}"), "x\\u202etxt.exe\\u2069");
    }

    #[test]
    fn words_are_quoted_if_a_shell_would_split_or_change_them() {
        for plain in ["a/b-1.so", "x=1.5", "../lib_a.so"] {
            assert_eq!(word(plain), plain);
        }
        for (text, quoted) in
            [("a b/bad.so", "'a b/bad.so'"), ("it's", r"'it'\''s'"), ("$x", "'$x'"), ("", "\'\'")]
        {
            assert_eq!(word(text), quoted);
        }
    }

    #[test]
    fn json_stays_the_same_json() {
        let name = "x\u{202e}\u{9b}y";
        let json = serde_json::to_string(name).unwrap_or_default();
        assert_ne!(escaped(&json), json);
        assert_eq!(serde_json::from_str::<String>(&escaped(&json)).unwrap_or_default(), name);
    }

    #[test]
    fn what_cannot_be_written_is_dropped() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        write(Full, format_args!("{}", 1));
    }
}
