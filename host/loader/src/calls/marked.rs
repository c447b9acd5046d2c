//! An object of a plugin whose every call is marked, the one that drops it included.

use super::{Call, Plugin, Running, enter, set};

/// An object that a plugin made. Its fields are dropped in this order.
pub(crate) struct Marked<T> {
    before: Before,
    object: T,
    _after: After,
}

/// Marks, when it is dropped, that the object's drop begins.
struct Before(Plugin);

impl Drop for Before {
    fn drop(&mut self) {
        // Over when `After` is dropped.
        std::mem::forget(enter(self.0, Call::Drop));
    }
}

/// Marks, when it is dropped, that the object's drop is over.
struct After;

impl Drop for After {
    fn drop(&mut self) {
        set(0);
    }
}

impl<T> Marked<T> {
    /// The object of that plugin.
    pub fn new(plugin: Plugin, object: T) -> Self {
        Self { before: Before(plugin), object, _after: After }
    }

    /// Calls it.
    pub fn call<R>(&self, call: Call, body: impl FnOnce(&T) -> R) -> R {
        let _running: Running = enter(self.before.0, call);
        body(&self.object)
    }

    /// Calls it where it may change.
    pub fn call_mut<R>(&mut self, call: Call, body: impl FnOnce(&mut T) -> R) -> R {
        let _running: Running = enter(self.before.0, call);
        body(&mut self.object)
    }
}
