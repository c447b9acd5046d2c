//! Warnings on stderr, and the debug log that `ALTGRAD_LOG` asks for.

use std::{
    collections::HashSet,
    io::{self, IsTerminal, Write, stderr},
    sync::{Mutex, PoisonError},
};

use tracing_subscriber::{EnvFilter, fmt::writer::BoxMakeWriter};

/// Warnings, but not those of Vulkan's layers, nor that the tensor library keeps kernels in memory: the host writes
/// them to a file.
const DEFAULT: &str = "warn,wgpu_hal=off,cubecl_environment::persistence=off";

/// Starts the log of this process. A warning that was printed before is not printed again: the runs of a sweep share
/// theirs.
pub(super) fn start() {
    // Module paths help readers of a debug log; a warning to a user is about the run.
    let asked = EnvFilter::try_from_env("ALTGRAD_LOG");
    let is_debug = asked.is_ok();
    let filter = asked.unwrap_or_else(|_| EnvFilter::new(DEFAULT));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_target(is_debug);
    // https://no-color.org: set to anything but nothing.
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let writer = if is_debug { BoxMakeWriter::new(stderr) } else { BoxMakeWriter::new(|| OnceEach) };
    log.with_ansi(stderr().is_terminal() && !no_color).with_writer(writer).without_time().init();
}

/// Writes each text to stderr once. The log hands over an event in one piece.
struct OnceEach;

impl Write for OnceEach {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        static WRITTEN: Mutex<Option<HashSet<Box<[u8]>>>> = Mutex::new(None);
        let mut written = WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
        if written.get_or_insert_default().insert(text.into()) {
            stderr().write_all(text)?;
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        stderr().flush()
    }
}
