//! The description of a library file, as far as it can be read without running the library's code.
//!
//! Read once -> sha256 -> pin -> static ELF check -> notes: version, CPU features, descriptors. A library that fails a check is refused in
//! one sentence.

use std::{
    fs,
    path::{Path, PathBuf},
};

use altgrad_base::{diagnostic::Diagnostic, files};
use altgrad_plugin_api::{BuildInfo, Descriptor, PluginKind};
use sha2::{Digest, Sha256};

use crate::{
    cpu, elf,
    notes::{self, Notes},
    refusal::refused,
};

/// A library, and its description.
#[derive(Debug, Clone, PartialEq)]
pub struct LibraryInfo {
    /// Absolute path.
    pub path: PathBuf,
    /// SHA-256 of the file's bytes, 64 hex digits.
    pub sha256: String,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// The library's build information.
    pub build: BuildInfo,
    /// Its plugins, sorted by kind and id.
    pub descriptors: Vec<Descriptor>,
}

impl LibraryInfo {
    /// The plugin of this kind and id.
    #[must_use]
    pub fn find(&self, kind: PluginKind, id: &str) -> Option<&Descriptor> {
        self.descriptors.iter().find(|descriptor| descriptor.kind == kind && descriptor.id == id)
    }

    /// True if both are the same file.
    pub(crate) fn is(&self, other: &Self) -> bool {
        (&self.path, &self.sha256) == (&other.path, &other.sha256)
    }
}

/// A library file that passed every check without running code.
pub(crate) struct CheckedFile {
    /// Absolute path.
    pub(crate) path: PathBuf,
    /// SHA-256 of the bytes.
    pub(crate) sha256: String,
    /// The whole file.
    pub(crate) bytes: Vec<u8>,
    pub(crate) notes: Option<Notes>,
}

impl CheckedFile {
    /// Reads the file at `path`, whose sha256 must be `pin` if one is given.
    pub(crate) fn read(path: &Path, pin: Option<&str>) -> Result<Self, Diagnostic> {
        // An absolute path never goes through the library search path.
        let path = fs::canonicalize(path)
            .map_err(|error| refused(format!("cannot be read ({error})"), "check the path"))?;
        let bytes = files::read(&path)
            .map_err(|error| refused(format!("cannot be read ({error})"), "check the file"))?;
        let sha256 = files::hex(&Sha256::digest(&bytes));
        if let Some(pin) = pin.filter(|pin| !pin.eq_ignore_ascii_case(&sha256)) {
            let hint = format!("if the new build is meant, pin sha256 = \"{sha256}\"");
            return Err(refused(format!("its sha256 is not the pinned {}...", short(pin)), hint));
        }
        if let Some((what, hint)) = elf::fault(&bytes) {
            return Err(refused(what, hint));
        }
        let notes = notes::read(&bytes)?;
        if let Some(notes) = &notes {
            check_cpu(&notes.build)?;
            check_descriptors(&notes.descriptors)?;
        }
        Ok(Self { path, sha256, bytes, notes })
    }

    pub(crate) fn into_info(self, build: BuildInfo, descriptors: Vec<Descriptor>) -> LibraryInfo {
        let Self { path, sha256, bytes, .. } = self;
        LibraryInfo { path, sha256, bytes: bytes.len() as u64, build, descriptors }
    }
}

/// Refuses a library whose code this machine cannot run.
pub(crate) fn check_cpu(build: &BuildInfo) -> Result<(), Diagnostic> {
    let missing = cpu::missing(&build.cpu_features);
    if missing.is_empty() {
        return Ok(());
    }
    let why = format!("it needs CPU features this machine lacks: {}", missing.join(", "));
    Err(refused(why, "rebuild it without `-C target-cpu` or on this machine"))
}

/// Refuses a library with invalid descriptions of its plugins.
///
/// # Errors
/// No plugins, a duplicate plugin, a plugin of an unknown kind, a duplicate option, or a name that is impossible in a run file.
pub fn check_descriptors(descriptors: &[Descriptor]) -> Result<(), Diagnostic> {
    if descriptors.is_empty() {
        return Err(refused("it lists no plugin", "name at least one in `export_plugin!`"));
    }
    for (index, descriptor) in descriptors.iter().enumerate() {
        let (kind, id) = (descriptor.kind, descriptor.id.as_str());
        if kind.name().is_none() {
            let why = format!("its plugin `{}` is of {kind}", id.escape_debug());
            return Err(refused(why, "use a host of a later version"));
        }
        if id.is_empty() || !id.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
            let hint = "use letters, digits, `-`, `_` and `.`";
            return Err(refused(format!("its {kind} has the impossible name `{}`", id.escape_debug()), hint));
        }
        if descriptors[..index].iter().any(|other| other.kind == kind && other.id == id) {
            return Err(refused(format!("it lists the {kind} `{id}` twice"), "give each its own name"));
        }
        let options: Vec<&str> = descriptor.options.iter().map(|option| option.name.as_str()).collect();
        if let Some(twice) =
            options.iter().enumerate().find_map(|(at, name)| options[..at].contains(name).then_some(name))
        {
            let why = format!("its {kind} `{id}` has the option `{}` twice", twice.escape_debug());
            return Err(refused(why, "give each its own name"));
        }
    }
    Ok(())
}

fn short(text: &str) -> &str {
    text.get(..12).unwrap_or(text)
}
