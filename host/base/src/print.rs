//! Output that cannot fail: a closed pipe or a full log must never end a training run.
//!
//! The macros carry the names of the standard ones, which panic when a line cannot be written. A file that imports
//! them from here cannot use the panicking ones by accident.

/// Prints a line to standard output; a line that cannot be written is dropped.
#[macro_export]
macro_rules! println {
    ($($arg:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($arg)*);
    }};
}

/// Prints to standard output without a line break; what cannot be written is dropped.
#[macro_export]
macro_rules! print {
    ($($arg:tt)*) => {{
        use std::io::Write as _;
        let _ = write!(std::io::stdout(), $($arg)*);
    }};
}

/// Prints a line to standard error; a line that cannot be written is dropped.
#[macro_export]
macro_rules! eprintln {
    ($($arg:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($arg)*);
    }};
}
