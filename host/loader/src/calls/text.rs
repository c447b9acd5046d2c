//! Text in memory that processes share: written once, readable at any time, also by signal handlers.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

/// The replacement of omitted text.
const CUT: &str = "…";

/// At most `N` bytes of text. All zeros is the empty text.
#[derive(Debug)]
#[repr(C)]
pub struct MarkText<const N: usize> {
    length: AtomicUsize,
    bytes: [AtomicU8; N],
}

impl<const N: usize> Default for MarkText<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> MarkText<N> {
    /// The empty text.
    #[must_use]
    pub const fn new() -> Self {
        Self { length: AtomicUsize::new(0), bytes: [const { AtomicU8::new(0) }; N] }
    }

    /// True if nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length.load(Ordering::Acquire) == 0
    }

    /// Writes the text. Too long a text is cut: a path keeps its end, any other text its beginning.
    pub fn write(&self, text: &str) {
        let text = fitting(text, N);
        for (place, byte) in self.bytes.iter().zip(text.bytes()) {
            place.store(byte, Ordering::Relaxed);
        }
        self.length.store(text.len(), Ordering::Release);
    }

    /// True if this text was written, as far as it fits.
    #[must_use]
    pub fn holds(&self, text: &str) -> bool {
        let mut held = Vec::with_capacity(N);
        self.read(|piece| held.extend_from_slice(piece));
        held == fitting(text, N).as_bytes()
    }

    /// Passes the text to `piece` in pieces. Allocates nothing.
    pub fn read(&self, mut piece: impl FnMut(&[u8])) {
        let length = self.length.load(Ordering::Acquire).min(N);
        for chunk in self.bytes[..length].chunks(64) {
            let mut bytes = [0; 64];
            for (byte, place) in bytes.iter_mut().zip(chunk) {
                *byte = place.load(Ordering::Relaxed);
            }
            piece(&bytes[..chunk.len()]);
        }
    }

    /// The text; `None` if nothing was written.
    #[must_use]
    pub fn get(&self) -> Option<String> {
        let mut bytes = Vec::new();
        self.read(|piece| bytes.extend_from_slice(piece));
        (!bytes.is_empty()).then(|| String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// The part of a text that fits into `most` bytes.
fn fitting(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_string();
    }
    let left = most - CUT.len();
    if text.contains('/') {
        format!("{CUT}{}", &text[text.ceil_char_boundary(text.len() - left)..])
    } else {
        format!("{}{CUT}", &text[..text.floor_char_boundary(left)])
    }
}
