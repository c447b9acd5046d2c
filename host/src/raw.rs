//! The host's only `unsafe`: opening plugin libraries and mapping files.
//!
//! Everything here is a thin call with the reason why it is sound; the checks that make it so stand in
//! [`crate::plugins::library`] and [`crate::data`].

use std::{fs::File, path::Path};

use altgrad_plugin_api::abi::{
    ENTRY_SYMBOL, PluginModuleRef,
    abi_stable::library::{AbiHeaderRef, LibHeader, LibraryError},
};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// Opens the library at an absolute path, for good, and returns its abi_stable header, not yet validated.
///
/// All symbols are bound now (a missing one fails here, not in the middle of a run) and none is shared with
/// other libraries.
///
/// # Errors
/// The loader's own message: the file cannot be opened, or has no entry symbol.
pub fn open_library(path: &Path) -> Result<AbiHeaderRef, libloading::Error> {
    // SAFETY: running a library's initialisers is what loading a plugin means; the caller has checked that
    // the file is a complete ELF library for this machine, so that mapping it cannot fault.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }?;
    // SAFETY: a symbol of this name is exported only by `export_plugin!` (or abi_stable's own macro), both as
    // a static `LibHeader`, whose first field is the `AbiHeader` that `AbiHeaderRef` points to and validates.
    let header = unsafe { library.get::<AbiHeaderRef>(ENTRY_SYMBOL.as_bytes()) }.map(|symbol| *symbol);
    // Libraries are never unloaded: their statics and code are referenced from everywhere.
    std::mem::forget(library);
    header
}

/// The root module of a library whose layout the caller has checked.
///
/// # Errors
/// The version is incompatible, or the library's constructor failed.
pub fn root_module(header: &'static LibHeader) -> Result<PluginModuleRef, LibraryError> {
    // SAFETY: `plugins::layout::check` compared the library's layout of `PluginModule`, and of every type
    // reachable from it, with the host's, in one direction or the other, and found it compatible.
    unsafe { header.init_root_module_with_unchecked_layout::<PluginModuleRef>() }
}

/// Maps a file for reading.
///
/// # Errors
/// The operating system's.
pub fn map_file(file: &File) -> std::io::Result<memmap2::Mmap> {
    // SAFETY: a mapping is undefined if the file shrinks or changes under it. The host opens bins for reading only
    // and never writes one; README ("Data") asks users not to rewrite a bin while a run reads it.
    unsafe { memmap2::Mmap::map(file) }
}
