//! Memory of Python's buffers as slices, for calls without the interpreter's lock: this crate's `unsafe`.
//!
//! Refused: buffers of another element type, that are not C-contiguous, read-only ones for writing, and a source that
//! overlaps the result. As in NumPy, a program that writes to an array in one thread while another thread rounds it
//! gets unspecified values.

use std::{marker::PhantomData, slice};

use pyo3::{
    buffer::{Element, PyBuffer},
    exceptions::PyValueError,
    prelude::*,
};

/// An array that is read.
pub(crate) struct Source<T: Element>(PyBuffer<T>);

/// An array that is written.
pub(crate) struct Target<T: Element>(PyBuffer<T>, PhantomData<T>);

/// The buffer, if its elements lie one after the other.
fn contiguous<T: Element>(object: &Bound<'_, PyAny>) -> PyResult<PyBuffer<T>> {
    let buffer = PyBuffer::<T>::get(object)?;
    if buffer.is_c_contiguous() {
        Ok(buffer)
    } else {
        Err(PyValueError::new_err("the array is not C-contiguous"))
    }
}

/// First address and the one behind the last.
fn extent<T: Element>(buffer: &PyBuffer<T>) -> (usize, usize) {
    let start = buffer.buf_ptr() as usize;
    (start, start + buffer.len_bytes())
}

impl<T: Element> Source<T> {
    pub(crate) fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        contiguous(object).map(Self)
    }

    /// The elements.
    pub(crate) fn elements(&self) -> &[T] {
        if self.0.item_count() == 0 {
            return &[];
        }
        // SAFETY: the buffer is C-contiguous and has `item_count` elements of `T`, which `PyBuffer` has checked along
        // with their alignment; its owner may neither free nor resize it before `self` is dropped. All bit patterns are
        // valid numbers.
        unsafe { slice::from_raw_parts(self.0.buf_ptr().cast::<T>(), self.0.item_count()) }
    }
}

impl<T: Element> Target<T> {
    /// An array to write to, that does not overlap `source`.
    pub(crate) fn new<S: Element>(object: &Bound<'_, PyAny>, source: &Source<S>) -> PyResult<Self> {
        let buffer = contiguous::<T>(object)?;
        if buffer.readonly() {
            return Err(PyValueError::new_err("the array for results is read-only"));
        }
        let ((start, end), (other_start, other_end)) = (extent(&buffer), extent(&source.0));
        if start < other_end && other_start < end {
            return Err(PyValueError::new_err("the array for results overlaps its source"));
        }
        Ok(Self(buffer, PhantomData))
    }

    /// The elements.
    pub(crate) fn elements(&mut self) -> &mut [T] {
        if self.0.item_count() == 0 {
            return &mut [];
        }
        // SAFETY: as in `Source::elements`; the buffer is writable, does not overlap the source, and is borrowed
        // mutably.
        unsafe { slice::from_raw_parts_mut(self.0.buf_ptr().cast::<T>(), self.0.item_count()) }
    }
}
