//! Which libraries a run has: found, loaded, and free of duplicate names.
//!
//! Libraries come from the run file's `[plugins]` table only: those it lists, or all of its folder. The
//! working directory is never searched by accident.

use std::{
    fs,
    path::{Path, PathBuf},
};

use altgrad_base::diagnostic::{Diagnostic, Fault, closest};
use altgrad_config::{PluginRef, PluginsSection};
use altgrad_plugin_api::{Descriptor, PluginKind};

use super::{LibraryInfo, LoadedLibrary, library};

/// The loaded libraries, and what is worth saying when a name is not among them.
#[derive(Default)]
pub struct Registry {
    libraries: Vec<LoadedLibrary>,
    /// Libraries of the folder that were refused; the run goes on unless it needs them.
    refused: Vec<Diagnostic>,
    /// The folder names are looked up in, absolute.
    folder: PathBuf,
}

impl Registry {
    /// Loads what `[plugins]` asks for.
    ///
    /// With `load`, each entry must be found and sound. Without, every library of the folder is tried, and a
    /// refused one only counts when something of it is needed.
    ///
    /// # Errors
    /// [`Fault::Plugin`]: a listed library is missing or refused, or two libraries export one name.
    pub fn open(section: &PluginsSection) -> Result<Self, Diagnostic> {
        let mut registry = Self { folder: folder(section)?, ..Self::default() };
        match &section.load {
            Some(listed) => {
                for entry in listed {
                    let path = registry.resolve(entry)?;
                    registry.add(LoadedLibrary::load(&path, entry.sha256())?)?;
                }
            }
            None => {
                for path in libraries_in(&registry.folder) {
                    match LoadedLibrary::load(&path, None) {
                        Ok(library) => registry.add(library)?,
                        Err(refusal) => registry.refused.push(refusal),
                    }
                }
            }
        }
        Ok(registry)
    }

    /// The loaded libraries, in load order.
    #[must_use]
    pub fn libraries(&self) -> &[LoadedLibrary] {
        &self.libraries
    }

    /// Why libraries of the folder are not among them.
    #[must_use]
    pub fn refused(&self) -> &[Diagnostic] {
        &self.refused
    }

    /// The folder that names are looked up in.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The library and descriptor of a plugin.
    ///
    /// # Errors
    /// What is missing, where it was looked for, and what there is instead.
    pub fn find(&self, kind: PluginKind, id: &str) -> Result<(&LoadedLibrary, &Descriptor), Diagnostic> {
        self.libraries
            .iter()
            .find_map(|library| Some((library, library.info.find(kind, id)?)))
            .ok_or_else(|| self.unknown(kind, id))
    }

    /// Names of all plugins of a kind, in load order.
    pub fn names(&self, kind: PluginKind) -> impl Iterator<Item = &str> {
        self.libraries
            .iter()
            .flat_map(|library| &library.info.descriptors)
            .filter(move |descriptor| descriptor.kind == kind)
            .map(|descriptor| descriptor.id.as_str())
    }

    fn add(&mut self, library: LoadedLibrary) -> Result<(), Diagnostic> {
        if !is_known(self.libraries.iter().map(|known| &known.info), &library.info)? {
            self.libraries.push(library);
        }
        Ok(())
    }

    /// The file of one `plugins.load` entry.
    fn resolve(&self, entry: &PluginRef) -> Result<PathBuf, Diagnostic> {
        let target = entry.target();
        if entry.is_path() || target.ends_with(".so") {
            let path = Path::new(target);
            return Ok(if entry.is_path() { path.to_path_buf() } else { self.folder.join(path) });
        }
        let candidates = [format!("{target}.so"), format!("lib{target}.so")];
        candidates.iter().map(|name| self.folder.join(name)).find(|path| path.is_file()).ok_or_else(|| {
            Diagnostic::plugin(format!("plugin library `{target}` not found"))
                .at(format!("looked for {} in {}", candidates.join(" and "), self.folder.display()))
                .hint(self.what_is_there())
        })
    }

    fn unknown(&self, kind: PluginKind, id: &str) -> Diagnostic {
        let names: Vec<&str> = self.names(kind).collect();
        let fault = if self.refused.is_empty() { Fault::Config } else { Fault::Plugin };
        let mut hint = match names.as_slice() {
            [] => format!("no {kind} is loaded"),
            names => format!("loaded {kind}s: {}", names.join(", ")),
        };
        if let Some(name) = closest(id, names.iter().copied()) {
            hint = format!("{hint}; did you mean `{name}`?");
        }
        hint = format!("{hint}; looked in {} ({})", self.folder.display(), self.what_is_there());
        for refusal in &self.refused {
            let place = refusal.place.as_deref().unwrap_or_default();
            hint = format!("{hint}; {place}: {}", refusal.message);
        }
        Diagnostic::new(fault, format!("unknown {kind} `{id}`")).hint(hint)
    }

    /// The folder's libraries by name, for messages.
    fn what_is_there(&self) -> String {
        if !self.folder.is_dir() {
            return "there is no such folder".into();
        }
        let names: Vec<String> = libraries_in(&self.folder)
            .iter()
            .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
            .collect();
        if names.is_empty() { "it holds no library".into() } else { format!("it holds {}", names.join(", ")) }
    }
}

/// What the libraries of a folder say about themselves: read from their notes, or, without any, by loading them.
#[derive(Debug)]
pub struct Catalog {
    /// The folder, absolute.
    pub folder: PathBuf,
    /// The libraries, sorted by file name.
    pub libraries: Vec<LibraryInfo>,
    /// Why other libraries of the folder are not among them.
    pub refused: Vec<Diagnostic>,
}

impl Catalog {
    /// Reads every library of the folder that `[plugins]` names; its `load` is not followed.
    ///
    /// # Errors
    /// [`Fault::Plugin`]: two libraries export one name. [`Fault::Config`]: the folder is none.
    pub fn open(section: &PluginsSection) -> Result<Self, Diagnostic> {
        let folder = folder(section)?;
        let (mut libraries, mut refused) = (Vec::new(), Vec::new());
        for path in libraries_in(&folder) {
            match library::inspect(&path) {
                Ok(library) if is_known(libraries.iter(), &library)? => {}
                Ok(library) => libraries.push(library),
                Err(refusal) => refused.push(refusal),
            }
        }
        Ok(Self { folder, libraries, refused })
    }
}

/// Whether a library is one of the others; a name that it shares with another file is refused.
fn is_known<'a>(
    mut others: impl Iterator<Item = &'a LibraryInfo>,
    library: &LibraryInfo,
) -> Result<bool, Diagnostic> {
    let shared = |other: &LibraryInfo| {
        let named = |descriptor: &&Descriptor| other.find(descriptor.kind, &descriptor.id).is_some();
        library.descriptors.iter().find(named).copied()
    };
    let Some((other, Descriptor { kind, id, .. })) = others.find_map(|other| Some((other, shared(other)?)))
    else {
        return Ok(false);
    };
    if (&other.sha256, &other.path) == (&library.sha256, &library.path) {
        return Ok(true);
    }
    Err(Diagnostic::plugin(format!("two libraries export the {kind} `{id}`"))
        .at(format!("{} and {}", other.path.display(), library.path.display()))
        .hint("remove one, or list the one you want in `plugins.load`"))
}

/// `plugins.dir`, which must exist, or the folder `plugins` beside the executable.
fn folder(section: &PluginsSection) -> Result<PathBuf, Diagnostic> {
    let Some(dir) = &section.dir else {
        let executable = std::env::current_exe().map_err(|error| {
            Diagnostic::plugin(format!("cannot find the executable's own folder ({error})"))
        })?;
        return Ok(executable.parent().unwrap_or(Path::new("/")).join("plugins"));
    };
    let folder = std::path::absolute(dir).map_err(|error| {
        Diagnostic::config(format!("`plugins.dir` cannot be made absolute ({error})")).at(dir)
    })?;
    if !folder.is_dir() {
        return Err(Diagnostic::config("the plugin folder does not exist, or is no folder")
            .at(folder.display())
            .hint("name a folder of plugin libraries, or leave it out for `plugins` beside the executable"));
    }
    Ok(folder)
}

/// The libraries of a folder, sorted by name so that load order never depends on the file system.
fn libraries_in(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "so") && path.is_file())
        .collect();
    found.sort();
    found
}
