//! Checks of a library before its code runs.
//!
//! A library runs with the user's rights, and can end the process or corrupt its memory. The host therefore installs a
//! [`TrustPolicy`], which records the libraries that the user trusts and tests libraries in other processes. Without
//! one, every library is trusted and tested in this process: the default of programs that use this crate with libraries
//! of their own.

use std::{path::Path, sync::OnceLock};

use altgrad_base::diagnostic::Diagnostic;
use altgrad_plugin_api::PluginKind;

use crate::notes::Notes;

/// A library file to be allowed or checked.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// The path where the user or a run file found it; may be a link.
    pub named: &'a Path,
    /// The file itself, absolute.
    pub path: &'a Path,
    /// SHA-256 of the bytes that will be loaded, 64 hex digits.
    pub sha256: &'a str,
    /// The key of its records, see [`LibraryInfo::identity`](crate::LibraryInfo::identity).
    pub identity: &'a str,
}

/// Decides whether libraries may be used.
pub trait TrustPolicy: Send + Sync {
    /// Allows code of the library to run, here or in another process.
    ///
    /// # Errors
    /// The user has not allowed it.
    fn allow(&self, library: Candidate<'_>) -> Result<(), Diagnostic>;

    /// The description of a library without notes, given by its code. The code runs in another process.
    ///
    /// # Errors
    /// The library is refused, ends its process, or takes too long.
    fn describe(&self, library: Candidate<'_>) -> Result<Notes, Diagnostic>;

    /// Runs the quick checks of a plugin in another process, with its default options and with those of a run, unless
    /// this library has a record of passing them. The name is that of a run file: a format's may have a variant.
    /// `options` are those that are not the defaults; options that the plugin refuses are not a failed check.
    ///
    /// # Errors
    /// The plugin fails a check, ends its process, or takes too long.
    fn check(
        &self,
        library: Candidate<'_>,
        plugin: (PluginKind, &str),
        options: &toml::Table,
    ) -> Result<Checked, Diagnostic>;
}

/// The result of a plugin's quick checks before it was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Checked {
    /// It passed them, now or earlier.
    Passed,
    /// They were not run.
    Unchecked,
}

static VET: OnceLock<Box<dyn TrustPolicy>> = OnceLock::new();

/// Installs the [`TrustPolicy`] of the process, permanently; a second one is ignored.
pub fn install(vet: impl TrustPolicy + 'static) {
    let _ = VET.set(Box::new(vet));
}

/// The [`TrustPolicy`] of the process.
pub(crate) fn installed() -> Option<&'static dyn TrustPolicy> {
    VET.get().map(|vet| &**vet)
}
