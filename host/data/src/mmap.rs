//! Memory-mapped token files: the crate's only `unsafe`.

use std::fs::File;

/// Maps a file for reading.
///
/// # Errors
/// The operating system's error.
pub fn map_file(file: &File) -> std::io::Result<memmap2::Mmap> {
    // SAFETY: a mapping is undefined if the file shrinks or changes under it. The host opens bins for reading only
    // and never writes one; README ("Data") asks users not to rewrite a bin while a run reads it.
    unsafe { memmap2::Mmap::map(file) }
}
