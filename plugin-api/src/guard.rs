//! Panic guards: no panic leaves a library, and a panic poisons its instance.
//!
//! A panic that crossed the boundary would end the process. Every call into a plugin runs under
//! [`Guarded::call`], which turns a panic into a [`PluginError`] and poisons the instance, because a panic
//! may leave its state incomplete.

use std::{
    cell::RefCell,
    panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook},
    sync::{Once, OnceLock},
};

use crate::{ErrorKind, PluginError};

thread_local! {
    /// The place of the last panic of a guarded call on this thread; `None` outside such calls.
    static GUARDED_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Records the place of panics in guarded calls instead of printing them to stderr.
///
/// The hook belongs to the library's own copy of the standard library: the host's is untouched, and panics outside
/// guarded calls (a plugin's own threads) print as usual.
pub(crate) fn install_panic_recorder() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = take_hook();
        set_hook(Box::new(move |info| {
            let recorded = GUARDED_PANIC.with_borrow_mut(|place| match place {
                Some(place) => {
                    *place = info.location().map(ToString::to_string).unwrap_or_default();
                    true
                }
                None => false,
            });
            if !recorded {
                previous(info);
            }
        }));
    });
}

/// Runs `body`; a panic in it becomes an error with its place and message.
pub(crate) fn catch<R>(what: &str, body: impl FnOnce() -> Result<R, PluginError>) -> Result<R, PluginError> {
    GUARDED_PANIC.set(Some(String::new()));
    let result = catch_unwind(AssertUnwindSafe(body));
    let place = GUARDED_PANIC.take().filter(|place| !place.is_empty());
    result.unwrap_or_else(|payload| {
        let text = payload
            .downcast_ref::<&str>()
            .map(ToString::to_string)
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no message".into());
        // A payload whose own destructor panics must not escape either, nor may the payload of that panic be dropped.
        let dropped = catch_unwind(AssertUnwindSafe(move || drop(payload)));
        let _ = dropped.map_err(std::mem::forget);
        let place = place.map(|place| format!(" at {place}")).unwrap_or_default();
        let text = text.lines().collect::<Vec<_>>().join(" ");
        Err(PluginError::new(ErrorKind::PANIC, format!("panicked in `{what}`{place}: {text}"))
            .with_hint("this is a bug in the plugin; report it to its author"))
    })
}

/// An instance with its guard.
pub(crate) struct Guarded<T> {
    /// Taken out only by the destructor.
    inner: Option<T>,
    /// The message of the first panic.
    panic: OnceLock<String>,
}

impl<T> Guarded<T> {
    pub(crate) fn new(inner: T) -> Self {
        Self { inner: Some(inner), panic: OnceLock::new() }
    }

    /// Calls a shared method. `what` names it for messages.
    pub(crate) fn call<R>(
        &self,
        what: &str,
        body: impl FnOnce(&T) -> Result<R, PluginError>,
    ) -> Result<R, PluginError> {
        let inner = self.usable(what)?;
        self.poison_on_panic(catch(what, || body(inner)))
    }

    /// Calls an exclusive method. `what` names it for messages.
    pub(crate) fn call_mut<R>(
        &mut self,
        what: &str,
        body: impl FnOnce(&mut T) -> Result<R, PluginError>,
    ) -> Result<R, PluginError> {
        self.usable(what)?;
        let Some(inner) = &mut self.inner else { return Err(self.poisoned(what)) };
        let result = catch(what, || body(inner));
        self.poison_on_panic(result)
    }

    fn usable(&self, what: &str) -> Result<&T, PluginError> {
        match &self.inner {
            Some(inner) if self.panic.get().is_none() => Ok(inner),
            _ => Err(self.poisoned(what)),
        }
    }

    fn poisoned(&self, what: &str) -> PluginError {
        let panic = self.panic.get().map_or("", String::as_str);
        PluginError::new(
            ErrorKind::POISONED,
            format!("`{what}` was called after the plugin panicked: {panic}"),
        )
    }

    fn poison_on_panic<R>(&self, result: Result<R, PluginError>) -> Result<R, PluginError> {
        if let Some(error) = result.as_ref().err().filter(|error| error.kind == ErrorKind::PANIC) {
            let _ = self.panic.set(error.message.to_string());
        }
        result
    }
}

impl<T> Drop for Guarded<T> {
    /// A panicking destructor must not cross either; no caller is left to receive its error.
    fn drop(&mut self) {
        let inner = self.inner.take();
        let _ = catch("drop", || {
            drop(inner);
            Ok(())
        });
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    struct PanicsOnDrop;
    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            panic!("in drop");
        }
    }

    #[test]
    fn a_panic_becomes_an_error_and_poisons() {
        install_panic_recorder();
        let guarded = Guarded::new(7);
        assert_eq!(guarded.call("get", |value| Ok(*value)).unwrap(), 7);
        let error = guarded.call::<i32>("get", |_| panic!("no {}", "way")).unwrap_err();
        assert_eq!(error.kind, ErrorKind::PANIC);
        assert!(error.message.starts_with("panicked in `get` at "), "{error}");
        assert!(error.message.ends_with(": no way"), "{error}");
        let later = guarded.call("get", |value| Ok(*value)).unwrap_err();
        assert_eq!(later.kind, ErrorKind::POISONED);
        assert!(later.message.ends_with(": no way"), "the first panic is the reason: {later}");
    }

    #[test]
    fn a_payload_that_panics_when_dropped_stays_inside() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                std::panic::panic_any(Self);
            }
        }
        install_panic_recorder();
        let guarded = Guarded::new(());
        let error = guarded.call::<()>("get", |()| std::panic::panic_any(Bomb)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::PANIC);
        assert!(error.message.ends_with(": no message"), "{error}");
    }

    #[test]
    fn an_ordinary_error_does_not_poison() {
        let mut guarded = Guarded::new(1);
        let error = guarded.call_mut::<()>("set", |_| Err(PluginError::unsupported("no"))).unwrap_err();
        assert_eq!(error.kind, ErrorKind::UNSUPPORTED);
        assert_eq!(guarded.call("get", |value| Ok(*value)).unwrap(), 1);
    }

    #[test]
    fn a_panicking_destructor_stays_inside() {
        install_panic_recorder();
        drop(Guarded::new(PanicsOnDrop));
    }
}
