//! Panics of the tensor library as errors: it panics where a device has no compiler or no memory, or a kernel cannot be set up.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// The result of `work`, or the first line of its panic's message. `work` must leave nothing half changed that is used later.
pub(crate) fn catch_panic<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(text(&*panic)))
}

fn text(panic: &(dyn Any + Send)) -> String {
    let message = panic.downcast_ref::<String>().map(String::as_str);
    let message = message.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked");
    message.lines().next().unwrap_or_default().to_string()
}
