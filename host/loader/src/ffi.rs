//! The loader's only `unsafe`: opening plugin libraries, and reading the tables of those written in C ([`c_table`],
//! [`c_plugins`], [`c_memory`]).
//!
//! Every item here is a thin call with its safety reason; the checks behind these reasons are in [`crate::library`].

pub mod c_memory;
pub mod c_plugins;
pub mod c_table;

use std::path::Path;

use altgrad_plugin_api::abi::{
    ENTRY_SYMBOL, PluginModuleRef,
    stable::library::{AbiHeaderRef, LibHeader, LibraryError},
};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use c_table::{C_ENTRY_SYMBOL, CLibrary};

/// The export of a library.
#[derive(Debug)]
pub enum LibraryEntry {
    /// abi_stable's header, not yet validated.
    Rust(AbiHeaderRef),
    /// The tables of a library in C, or the reason why they cannot be read.
    C(Result<CLibrary, c_memory::TableFault>),
}

/// Opens the library at an absolute path, permanently, and returns its export; of a library with both kinds, the Rust
/// one.
///
/// All symbols are bound now, so a missing one fails here and not during a run. No symbol is shared with other
/// libraries.
///
/// # Errors
/// The loader's own message: the file cannot be opened, or has neither entry symbol.
pub fn open_library(path: &Path) -> Result<LibraryEntry, libloading::Error> {
    // SAFETY: running a library's initialisers is what loading a plugin means; the caller has checked that
    // the file is a complete ELF library for this machine, so that mapping it cannot fault, and that it stays so.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }?;
    // SAFETY: a symbol of this name is exported only by `export_plugin!` (or abi_stable's own macro), both as
    // a static `LibHeader`, whose first field is the `AbiHeader` that `AbiHeaderRef` points to and validates.
    let header = unsafe { library.get::<AbiHeaderRef>(ENTRY_SYMBOL.as_bytes()) }
        .map(|symbol| LibraryEntry::Rust(*symbol));
    let entry = header.or_else(|missing| {
        // SAFETY: only the symbol's address is taken; `CLibrary::read` checks the contents.
        let table = unsafe { library.get::<*const c_table::Library>(C_ENTRY_SYMBOL.as_bytes()) };
        table.map(|table| LibraryEntry::C(CLibrary::read(*table))).map_err(|_| missing)
    });
    // Libraries are never unloaded: their statics and code are referenced from everywhere.
    std::mem::forget(library);
    entry
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
