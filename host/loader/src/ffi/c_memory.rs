//! Memory of a C library: tables that may grow at their end, arrays and texts; and the message of a failed call. See
//! also: [`c_table`](super::c_table) and [`c_plugins`](super::c_plugins), which know the tables.

use std::{
    ffi::{CStr, c_char},
    mem::MaybeUninit,
    ptr, slice,
};

use altgrad_plugin_api::{ErrorKind, PluginError};

use crate::version::{C_VERSION, Version};

/// Bytes for the message of a failed call.
const MESSAGE: usize = 512;
/// More plugins or kernels than any library has: a larger count is a damaged table.
const MOST: u32 = 1 << 12;

/// The reason why a table cannot be used, worded to follow the library or its format in a sentence.
pub type TableFault = String;

/// `altgrad_error`.
#[repr(C)]
#[derive(Debug)]
pub(super) struct CError {
    pub(super) message: *mut c_char,
    pub(super) size: u64,
}

/// A count of a table, unless it is beyond any library's.
pub(super) fn counted(count: u32, what: &str) -> Result<usize, TableFault> {
    if count > MOST { Err(format!("{count} {what}: the table is damaged")) } else { Ok(count as usize) }
}

/// A table that begins with its own size, and this size; it has at least the first `least` bytes.
pub(super) fn growing<T: Copy>(table: *const T, least: usize, what: &str) -> Result<(T, usize), TableFault> {
    if table.is_null() || !table.cast::<u32>().is_aligned() {
        return Err(format!("{what} is null or not aligned"));
    }
    // SAFETY: not null and aligned; a table of the header begins with its size.
    let size = unsafe { table.cast::<u32>().read() };
    Ok((sized(table, size, least, what)?, size as usize))
}

/// A copy of a table that declares a size of `size` bytes; fields beyond it are zero.
pub(super) fn sized<T: Copy>(table: *const T, size: u32, least: usize, what: &str) -> Result<T, TableFault> {
    if (size as usize) < least || !table.is_aligned() {
        return Err(format!("{what} is {size} bytes long, version {} has {least}", Version(C_VERSION)));
    }
    let mut copy = MaybeUninit::<T>::zeroed();
    let known = (size as usize).min(size_of::<T>());
    // SAFETY: not null and aligned, and as long as its own size field states; its fields are numbers, pointers and
    // optional functions, for which every pattern of bits is a value, zero included.
    Ok(unsafe {
        ptr::copy_nonoverlapping(table.cast::<u8>(), copy.as_mut_ptr().cast::<u8>(), known);
        copy.assume_init()
    })
}

/// A static array of a library.
pub(super) fn array<T>(first: *const T, count: usize, what: &str) -> Result<&'static [T], TableFault> {
    if count == 0 && first.is_null() {
        return Ok(&[]);
    }
    if count == 0 {
        return Err(format!("{what} are given, but their count is 0"));
    }
    if first.is_null() || !first.is_aligned() {
        return Err(format!("{what} are null or not aligned"));
    }
    // SAFETY: not null and aligned; the table that points here says how many there are, and libraries are never
    // unloaded.
    Ok(unsafe { slice::from_raw_parts(first, count) })
}

/// A static text of a library.
pub(super) fn text(text: *const c_char, what: &str) -> Result<&'static str, TableFault> {
    if text.is_null() {
        return Err(format!("`{what}` is null"));
    }
    // SAFETY: not null; the header asks for a static text closed by a zero, and libraries are never unloaded.
    let text: &'static CStr = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| format!("`{what}` is not UTF-8"))
}

/// Calls a function with a buffer for its message.
pub(super) fn called(name: &str, call: impl FnOnce(*mut CError) -> i32) -> Result<(), PluginError> {
    let mut message = [0u8; MESSAGE];
    let mut error = CError { message: message.as_mut_ptr().cast(), size: MESSAGE as u64 };
    let kind = match call(&raw mut error) {
        0 => return Ok(()),
        code @ (1 | 6 | 8) => ErrorKind(code.unsigned_abs()),
        _ => ErrorKind::OTHER,
    };
    let said = CStr::from_bytes_until_nul(&message).map(|text| text.to_string_lossy().replace('\n', " "));
    let said = said.ok().filter(|text| !text.is_empty()).unwrap_or_else(|| format!("`{name}` failed"));
    Err(PluginError::new(kind, said))
}
