//! A plugin's object of which every call is marked, including its destructor.

use super::{Call, Plugin, Running, enter, set};

/// An object made by a plugin. Its fields are dropped in this order.
pub(crate) struct Marked<T> {
    before: Before,
    object: T,
    _after: After,
}

/// When dropped, marks the beginning of the object's destructor.
struct Before(Plugin);

impl Drop for Before {
    fn drop(&mut self) {
        // Ends when `After` is dropped.
        std::mem::forget(enter(self.0, Call::Drop));
    }
}

/// When dropped, marks the end of the object's destructor.
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

    /// Calls a method with shared access.
    pub fn call<R>(&self, call: Call, body: impl FnOnce(&T) -> R) -> R {
        let _running: Running = enter(self.before.0, call);
        body(&self.object)
    }

    /// Calls a method with exclusive access.
    pub fn call_mut<R>(&mut self, call: Call, body: impl FnOnce(&mut T) -> R) -> R {
        let _running: Running = enter(self.before.0, call);
        body(&mut self.object)
    }
}
