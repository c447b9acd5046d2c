//! Ctrl-C and SIGTERM: the first asks the run to end cleanly, the second ends the process. A run that another program
//! started can be asked by the end of its standard input too, which comes even if that program is killed.

use crate::eprintln;
use std::{
    io,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use crate::diagnostic::Diagnostic;

/// Exit code of an interrupted run.
pub const EXIT_CODE: u8 = 130;

static REQUESTED: AtomicBool = AtomicBool::new(false);
/// Whether a signal came. Only signals count towards stopping at once: their sender repeats them on purpose.
static SIGNALLED: AtomicBool = AtomicBool::new(false);

/// Installs the handler. Once a process.
///
/// # Errors
/// The operating system refused.
pub fn install() -> Result<(), Diagnostic> {
    ctrlc::set_handler(|| {
        REQUESTED.store(true, Ordering::SeqCst);
        if SIGNALLED.swap(true, Ordering::SeqCst) {
            std::process::exit(i32::from(EXIT_CODE));
        }
        eprintln!("interrupted: finishing this step; press Ctrl-C again to stop at once");
    })
    .map_err(|error| Diagnostic::run(format!("cannot install the Ctrl-C handler ({error})")))
}

/// From now on, the end of standard input asks the run to end cleanly.
pub fn at_end_of_input() {
    thread::spawn(|| {
        // An input that cannot be read has ended.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        REQUESTED.store(true, Ordering::SeqCst);
    });
}

/// Whether the run should end after the current step.
#[must_use]
pub fn requested() -> bool {
    REQUESTED.load(Ordering::SeqCst)
}
