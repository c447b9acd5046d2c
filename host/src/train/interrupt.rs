//! Ctrl-C and SIGTERM: the first asks the run to end cleanly, the second ends the process.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::diagnostic::Diagnostic;

/// Exit code of an interrupted run.
pub const EXIT_CODE: u8 = 130;

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Installs the handler. Once a process.
///
/// # Errors
/// The operating system refused.
pub fn install() -> Result<(), Diagnostic> {
    ctrlc::set_handler(|| {
        if REQUESTED.swap(true, Ordering::SeqCst) {
            std::process::exit(i32::from(EXIT_CODE));
        }
        eprintln!("interrupted: finishing this step; press Ctrl-C again to stop at once");
    })
    .map_err(|error| Diagnostic::run(format!("cannot install the Ctrl-C handler ({error})")))
}

/// Whether the run should end after the current step.
#[must_use]
pub fn requested() -> bool {
    REQUESTED.load(Ordering::SeqCst)
}
