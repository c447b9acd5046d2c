//! Memory between two inaccessible pages, which can be made read-only: an access beyond it ends the process.
//!
//! The conformance suites' only `unsafe`. Checks that use it run where a process may end: `plugins check` gives each
//! its own. They announce each operation on standard error, so that the last line names the operation during which the
//! process ended.

use std::{ffi::c_void, io, marker::PhantomData, ptr, slice};

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// The place of elements in their pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// From the first byte: reads before them fail.
    First,
    /// Up to the last byte: reads after them fail.
    Last,
}

impl Place {
    pub(crate) const BOTH: [Self; 2] = [Self::First, Self::Last];
}

/// Types any bits are a value of, of 2, 4 or 8 bytes.
pub(crate) trait Plain: Copy {}
impl Plain for f32 {}
impl Plain for u16 {}
impl Plain for u64 {}
impl Plain for [f32; 2] {}

/// Some elements with inaccessible memory on both sides.
#[derive(Debug)]
pub(crate) struct Guarded<T: Plain> {
    /// The page before the elements'.
    base: *mut c_void,
    /// Bytes of all pages.
    mapped: usize,
    /// Byte of the first element.
    start: usize,
    len: usize,
    elements: PhantomData<T>,
}

impl<T: Plain> Guarded<T> {
    /// A copy of `values` with a page without access on both sides.
    pub(crate) fn new(values: &[T], place: Place) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let bytes = size_of_val(values);
        let inner = bytes.next_multiple_of(page).max(page);
        let mapped = inner + 2 * page;
        let start = page + if place == Place::First { 0 } else { inner - bytes };
        // SAFETY: new memory at a place that the system chooses.
        let base = unsafe { mmap_anonymous(ptr::null_mut(), mapped, ProtFlags::empty(), MapFlags::PRIVATE) }?;
        let guarded = Self { base, mapped, start, len: values.len(), elements: PhantomData };
        guarded.protect(MprotectFlags::READ | MprotectFlags::WRITE)?;
        // SAFETY: the pages were just made writable, are longer than the elements from `start` on, and belong to nobody
        // else; pages begin at multiples of any element's size, and so does what ends with a page.
        unsafe { ptr::copy_nonoverlapping(values.as_ptr(), guarded.first(), values.len()) };
        Ok(guarded)
    }

    /// The same, read-only from now on.
    pub(crate) fn locked(values: &[T], place: Place) -> io::Result<Self> {
        let guarded = Self::new(values, place)?;
        guarded.protect(MprotectFlags::READ)?;
        Ok(guarded)
    }

    fn protect(&self, access: MprotectFlags) -> io::Result<()> {
        let page = rustix::param::page_size();
        // SAFETY: the pages between the first and the last of the mapping; nothing is borrowed from them in `new`,
        // which alone calls this.
        unsafe { mprotect(self.base.byte_add(page), self.mapped - 2 * page, access) }?;
        Ok(())
    }

    fn first(&self) -> *mut T {
        // SAFETY: within the mapping.
        unsafe { self.base.byte_add(self.start) }.cast()
    }

    /// The elements.
    pub(crate) fn get(&self) -> &[T] {
        // SAFETY: initialised by `new`, readable and aligned, borrowed with `self`.
        unsafe { slice::from_raw_parts(self.first(), self.len) }
    }

    /// The elements of memory that is not locked.
    pub(crate) fn get_mut(&mut self) -> &mut [T] {
        // SAFETY: as `get`, and borrowed alone. Writing to locked memory ends the process, as reading beyond it does.
        unsafe { slice::from_raw_parts_mut(self.first(), self.len) }
    }
}

impl<T: Plain> Drop for Guarded<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, from which nothing is borrowed any more.
        let _ = unsafe { munmap(self.base, self.mapped) };
    }
}

/// Announces the next operation, for readers of the output of an ended process.
pub(crate) fn announce(what: &str) {
    eprintln!("{what}");
}

/// A guarded copy could not be made.
pub(crate) fn no_memory(error: io::Error) -> String {
    format!("no guarded memory can be had ({error})")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_where_they_should_be() {
        let page = rustix::param::page_size();
        for place in Place::BOTH {
            let mut guarded = Guarded::new(&[1.0f32, 2.0, 3.0], place).unwrap();
            guarded.get_mut()[1] = 5.0;
            assert_eq!(guarded.get(), [1.0, 5.0, 3.0]);
            let ends = [guarded.get().as_ptr().addr() % page, (guarded.get().as_ptr().addr() + 12) % page];
            assert_eq!(ends[usize::from(place == Place::Last)], 0);
            assert_eq!(Guarded::locked(&[7u64], place).unwrap().get(), [7]);
        }
        assert!(Guarded::<u16>::new(&[], Place::Last).unwrap().get().is_empty());
    }
}
