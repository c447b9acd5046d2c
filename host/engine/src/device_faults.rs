//! Failures on the threads of the tensor library, which it only logs: the first one ends the computation.
//!
//! A GPU's operations run on threads of the library. If one panics there, for example because a kernel cannot be
//! launched, the library writes a line and continues with memory that was never written. `record` keeps the first
//! panic; `check` fails from then on, wherever results are read back.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
};

use altgrad_base::diagnostic::{Diagnostic, Fault};
use parking_lot::Mutex;

/// The first line of the first panic's message.
struct First(Mutex<Option<String>>);

static FIRST: First = First(Mutex::new(None));

impl First {
    /// Keeps a panic of a thread of the library, if it is the first one.
    #[cfg(any(feature = "gpu", test))]
    fn note(&self, thread: Option<&str>, panic: &dyn Any) {
        // The beginnings of the names of threads that fuse operations, and of those that launch kernels.
        if thread.is_some_and(|name| ["DSU-", "DSD-"].iter().any(|start| name.starts_with(start))) {
            self.0.lock().get_or_insert_with(|| text(panic));
        }
    }

    fn check(&self) -> Result<(), Diagnostic> {
        self.0.lock().as_deref().map_or(Ok(()), |why| Err(failed("an operation panicked", why)))
    }

    fn guarded<T>(&self, work: impl FnOnce() -> Result<T, Diagnostic>) -> Result<T, Diagnostic> {
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(result) => result.and_then(|value| self.check().map(|()| value)),
            Err(panic) => self.check().and_then(|()| resume_unwind(panic)),
        }
    }

    fn catch_panic<T>(&self, work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
        let result = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(text(&*panic)));
        match (result, self.0.lock().take()) {
            (Ok(_), Some(why)) => Err(why),
            (result, _) => result,
        }
    }
}

/// Keeps the first panic of the library's threads from now on. Panics are printed as before.
#[cfg(feature = "gpu")]
pub(crate) fn record() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            FIRST.note(std::thread::current().name(), panic.payload());
            previous(panic);
        }));
    });
}

/// Fails if an operation of a device has failed before.
///
/// # Errors
/// [`Fault::Device`], with the message of the first failure.
pub(crate) fn check() -> Result<(), Diagnostic> {
    FIRST.check()
}

/// The error of a device that failed in some work.
pub(crate) fn failed(what: &str, why: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::new(Fault::Device, format!("the device failed: {what}: {why}"))
        .hint("the results after it are wrong: resume from the last checkpoint, or use another device")
}

/// The result of `work`, or the error of `check`, also if the failure reached this thread as a panic. Another panic
/// continues.
///
/// # Errors
/// Those of `work`, and [`Fault::Device`].
pub fn guarded<T>(work: impl FnOnce() -> Result<T, Diagnostic>) -> Result<T, Diagnostic> {
    FIRST.guarded(work)
}

/// The result of an attempt, or the first line of the message of its panic, on this thread or on the library's, which
/// is then forgotten. `work` must leave nothing half changed that is used later.
pub(crate) fn catch_panic<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    FIRST.catch_panic(work)
}

/// The first line of a panic's message.
fn text(panic: &dyn Any) -> String {
    let message = panic.downcast_ref::<String>().map(String::as_str);
    let message = message.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked");
    message.lines().next().unwrap_or_default().to_string()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn the_first_panic_of_the_librarys_threads_is_kept() {
        let first = First(Mutex::new(None));
        for thread in [None, Some("main"), Some("rayon-DSU-0")] {
            first.note(thread, &"of another thread");
        }
        first.check().unwrap();
        assert_eq!(first.guarded(|| Ok(1)), Ok(1));
        let failure = first.guarded(|| {
            first.note(Some("DSU-0-0"), &"a kernel cannot be launched\nmore");
            first.note(Some("DSD-0-0"), &"another".to_string());
            Ok(())
        });
        let error = failure.unwrap_err();
        assert_eq!(error.message, "the device failed: an operation panicked: a kernel cannot be launched");
        assert_eq!(error.fault.exit_code(), 4);
        // It stays, and a panic that it causes on another thread is the same failure.
        assert_eq!(first.check(), Err(error.clone()));
        assert_eq!(first.guarded(|| -> Result<(), _> { panic!("called on a failed device") }), Err(error));
    }

    #[test]
    fn a_failed_attempt_leaves_no_failure() {
        let first = First(Mutex::new(None));
        let on_this_thread = first.catch_panic(|| -> Result<(), _> { panic!("no memory\nmore") });
        assert_eq!(on_this_thread, Err("no memory".to_string()));
        let on_another = first.catch_panic(|| {
            first.note(Some("DSD-0-0"), &"no compiler");
            Ok(())
        });
        assert_eq!(on_another, Err("no compiler".to_string()));
        assert_eq!(first.catch_panic(|| Ok(1)), Ok(1));
        first.check().unwrap();
    }
}
