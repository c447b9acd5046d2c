//! The plugins of a run: libraries are found and described, and loaded when one of their plugins is used.
//!
//! Libraries come from the run file's `[plugins]` table only: the listed ones, or all of its folder. The working
//! directory is never searched by accident. The code of a library that a run does not use never runs, so an invalid one
//! only causes a line of output.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use altgrad_base::diagnostic::{Diagnostic, Fault, closest};
use altgrad_config::{PluginCheckChoice, PluginRef, PluginsSection};
use altgrad_plugin_api::{Descriptor, PluginKind};

use super::{LibraryInfo, LoadedLibrary, format_file::is_format_file, library};
use crate::vet::{self, Candidate, Checked};

/// The libraries of a run, and the details of an error about an unknown name.
#[derive(Default)]
pub struct Registry {
    entries: Vec<Entry>,
    /// Libraries of the folder that were refused; a run that does not need them continues.
    refused: Vec<Diagnostic>,
    /// The folder in which names are searched, absolute.
    folder: PathBuf,
    /// The entries of `plugins.load`, if it is given: other libraries of the folder are not used.
    listed: Option<Vec<String>>,
    check: PluginCheckChoice,
}

/// A library, loaded at its first use.
struct Entry {
    info: LibraryInfo,
    /// The path where it was found; may be a link.
    named: PathBuf,
    loaded: OnceLock<Result<LoadedLibrary, Diagnostic>>,
}

/// A plugin that can make instances.
pub struct Found<'a> {
    /// The plugin's library, loaded.
    pub library: &'a LoadedLibrary,
    /// The plugin's descriptor.
    pub descriptor: &'a Descriptor,
    /// The result of the quick checks.
    pub checked: Checked,
}

impl Registry {
    /// Finds the libraries of `[plugins]`; none is loaded yet.
    ///
    /// With `load`, each entry must be found and valid. Without, every library of the folder is described, and a
    /// refused one is an error only if one of its plugins is needed.
    ///
    /// # Errors
    /// [`Fault::Plugin`]: a listed library is missing or refused. [`Fault::Config`]: the folder is none.
    pub fn open(section: &PluginsSection) -> Result<Self, Diagnostic> {
        let listed = section.load.as_ref();
        let listed = listed.map(|load| load.iter().map(|entry| entry.target().to_owned()).collect());
        let mut registry = Self { folder: folder(section)?, listed, check: section.check, ..Self::default() };
        match &section.load {
            Some(listed) => {
                for entry in listed {
                    let path = registry.resolve(entry)?;
                    let (info, _) = library::examine(&path, entry.sha256())?;
                    registry.add(Entry::new(info, path));
                }
            }
            None => {
                for path in libraries_in(&registry.folder) {
                    match library::inspect(&path) {
                        Ok(info) => registry.add(Entry::new(info, path)),
                        Err(refusal) => registry.refused.push(refusal),
                    }
                }
            }
        }
        for path in section.formats.iter().map(PathBuf::from) {
            if !is_format_file(&path) {
                return Err(Diagnostic::plugin("a file of `plugins.formats` is no TOML or JSON")
                    .at(path.display())
                    .hint("list libraries in `plugins.load`"));
            }
            let (info, _) = library::examine(&path, None)?;
            registry.add(Entry::new(info, path));
        }
        Ok(registry)
    }

    /// The libraries that were loaded, in the order in which they were found.
    pub fn loaded(&self) -> impl Iterator<Item = &LibraryInfo> {
        self.entries.iter().filter_map(|entry| Some(&entry.loaded.get()?.as_ref().ok()?.info))
    }

    /// The reasons why libraries of the folder were refused.
    #[must_use]
    pub fn refused(&self) -> &[Diagnostic] {
        &self.refused
    }

    /// The folder in which names are searched.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A plugin's descriptor, without loading its library.
    ///
    /// # Errors
    /// A missing plugin, with the searched places and the plugins found there; or two libraries that have it.
    pub fn describe(&self, kind: PluginKind, id: &str) -> Result<&Descriptor, Diagnostic> {
        self.entry(kind, id).map(|(_, descriptor)| descriptor)
    }

    /// A plugin with its loaded library. `name` is that of the run file: `id`, for a format possibly with a variant.
    /// `options` are the run's that are not the defaults.
    ///
    /// # Errors
    /// As [`Self::describe`]; the user does not trust the library; the plugin fails the quick checks; the library is
    /// refused.
    pub fn load(
        &self,
        kind: PluginKind,
        (id, name): (&str, &str),
        options: &toml::Table,
    ) -> Result<Found<'_>, Diagnostic> {
        let (entry, _) = self.entry(kind, id)?;
        let checked = entry.vet((kind, name), options, self.check)?;
        let library = entry.load()?;
        let descriptor = library.info.find(kind, id).ok_or_else(|| self.unknown(kind, id))?;
        Ok(Found { library, descriptor, checked })
    }

    /// Names of all plugins of a kind, in the order in which their libraries were found.
    pub fn names(&self, kind: PluginKind) -> impl Iterator<Item = &str> {
        self.entries
            .iter()
            .flat_map(|entry| &entry.info.descriptors)
            .filter(move |descriptor| descriptor.kind == kind)
            .map(|descriptor| descriptor.id.as_str())
    }

    /// Adds a library, once.
    fn add(&mut self, entry: Entry) {
        if !self.entries.iter().any(|known| known.info.is(&entry.info)) {
            self.entries.push(entry);
        }
    }

    /// The only library that has a plugin.
    fn entry(&self, kind: PluginKind, id: &str) -> Result<(&Entry, &Descriptor), Diagnostic> {
        let mut having = self.entries.iter().filter_map(|entry| Some((entry, entry.info.find(kind, id)?)));
        let found = having.next().ok_or_else(|| self.unknown(kind, id))?;
        match having.next() {
            None => Ok(found),
            Some((other, _)) => Err(both(kind, id, [&found.0.info, &other.info])),
        }
    }

    /// The file of one `plugins.load` entry.
    fn resolve(&self, entry: &PluginRef) -> Result<PathBuf, Diagnostic> {
        let target = entry.target();
        let path = Path::new(target);
        if entry.is_path() || target.ends_with(".so") || is_format_file(path) {
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
            [] => format!("no {kind} is available"),
            names => format!("available {kind}s: {}", names.join(", ")),
        };
        if let Some(name) = closest(id, names.iter().copied()) {
            hint = format!("{hint}; did you mean `{name}`?");
        }
        hint = match &self.listed {
            Some(listed) if listed.is_empty() => format!("{hint}; `plugins.load` names no library"),
            Some(listed) => format!("{hint}; `plugins.load` names only {}", listed.join(", ")),
            None => format!("{hint}; looked in {} ({})", self.folder.display(), self.what_is_there()),
        };
        for refusal in &self.refused {
            let place = refusal.place.as_deref().unwrap_or_default();
            hint = format!("{hint}; {place}: {}", refusal.message);
        }
        // Many libraries may be refused for one reason.
        let advice: BTreeSet<&str> =
            self.refused.iter().filter_map(|refusal| refusal.hint.as_deref()).collect();
        advice.into_iter().for_each(|advice| hint = format!("{hint}; {advice}"));
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

impl Entry {
    fn new(info: LibraryInfo, named: PathBuf) -> Self {
        Self { info, named, loaded: OnceLock::new() }
    }

    /// Checks that its code may run, and that one of its plugins passes the quick checks.
    fn vet(
        &self,
        plugin: (PluginKind, &str),
        options: &toml::Table,
        check: PluginCheckChoice,
    ) -> Result<Checked, Diagnostic> {
        let Some(vet) = vet::installed() else { return Ok(Checked::Unchecked) };
        let LibraryInfo { path, sha256, identity, .. } = &self.info;
        let candidate = Candidate { named: &self.named, path, sha256, identity };
        // A file without code needs no trust.
        let allowed = if is_format_file(path) { Ok(()) } else { vet.allow(candidate) };
        let vetted = allowed.and_then(|()| match check {
            PluginCheckChoice::Quick => vet.check(candidate, plugin, options),
            PluginCheckChoice::None => Ok(Checked::Unchecked),
        });
        vetted.map_err(|refusal| refusal.at(path.display()))
    }

    /// The library, loaded from the bytes that were described.
    fn load(&self) -> Result<&LoadedLibrary, Diagnostic> {
        let LibraryInfo { path, sha256, .. } = &self.info;
        self.loaded.get_or_init(|| LoadedLibrary::load(path, Some(sha256))).as_ref().map_err(Clone::clone)
    }
}

/// The descriptions of the libraries of a folder.
#[derive(Debug)]
pub struct Catalog {
    /// The folder, absolute.
    pub folder: PathBuf,
    /// The libraries, sorted by file name.
    pub libraries: Vec<LibraryInfo>,
    /// The reasons why other libraries of the folder were refused, and the libraries with the same plugin.
    pub refused: Vec<Diagnostic>,
}

impl Catalog {
    /// Describes every library of the folder that `[plugins]` names; its `load` is ignored.
    ///
    /// # Errors
    /// [`Fault::Config`]: the folder is none.
    pub fn open(section: &PluginsSection) -> Result<Self, Diagnostic> {
        let folder = folder(section)?;
        let mut catalog = Self { folder, libraries: Vec::new(), refused: Vec::new() };
        for path in libraries_in(&catalog.folder) {
            match library::inspect(&path) {
                Ok(library) => catalog.add(library),
                Err(refusal) => catalog.refused.push(refusal),
            }
        }
        Ok(catalog)
    }

    fn add(&mut self, library: LibraryInfo) {
        if self.libraries.iter().any(|known| known.is(&library)) {
            return;
        }
        for Descriptor { kind, id, .. } in &library.descriptors {
            let other = self.libraries.iter().find(|other| other.find(*kind, id).is_some());
            self.refused.extend(other.map(|other| both(*kind, id, [other, &library])));
        }
        self.libraries.push(library);
    }
}

/// The error of a name that two libraries share.
fn both(kind: PluginKind, id: &str, [one, other]: [&LibraryInfo; 2]) -> Diagnostic {
    Diagnostic::plugin(format!("two libraries export the {kind} `{id}`"))
        .at(format!("{} and {}", one.path.display(), other.path.display()))
        .hint("remove one, or list the one you want in `plugins.load`")
}

/// The folder of the host's own files: the executable's, or, if it has no plugins, `../lib/altgrad` where a package
/// puts them.
///
/// # Errors
/// The system does not tell the executable's path.
pub fn own_folder() -> io::Result<PathBuf> {
    let executable = std::env::current_exe()?;
    let beside = executable.parent().unwrap_or(Path::new("/"));
    let packaged = beside.with_file_name("lib").join("altgrad");
    let is_packaged = !beside.join("plugins").is_dir() && packaged.join("plugins").is_dir();
    Ok(if is_packaged { packaged } else { beside.into() })
}

/// `plugins.dir`, which must exist, or the folder `plugins` beside the executable.
fn folder(section: &PluginsSection) -> Result<PathBuf, Diagnostic> {
    let Some(dir) = &section.dir else {
        let own = own_folder().map_err(|error| {
            Diagnostic::plugin(format!("cannot find the executable's own folder ({error})"))
        })?;
        return Ok(own.join("plugins"));
    };
    let folder = std::path::absolute(dir).map_err(|error| {
        Diagnostic::config(format!("`plugins.dir` cannot be made absolute ({error})")).at(dir)
    })?;
    existing(&folder)?;
    Ok(folder)
}

/// Refuses a folder of plugins that does not exist. Runs need none where they load no library of it.
///
/// # Errors
/// [`Fault::Config`]: the folder is none.
pub fn existing(folder: &Path) -> Result<(), Diagnostic> {
    if folder.is_dir() {
        return Ok(());
    }
    Err(Diagnostic::config("the plugin folder does not exist, or is no folder")
        .at(folder.display())
        .hint("name a folder of plugin libraries; the default is `plugins` beside the executable"))
}

/// The libraries of a folder, sorted by name so that load order never depends on the file system.
fn libraries_in(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "so") || is_format_file(path))
        .filter(|path| path.is_file())
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_plugins_needs_its_folder() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert!(existing(here).is_ok());
        let missing = existing(&here.join("plugins")).map_err(|error| error.message);
        assert_eq!(missing, Err("the plugin folder does not exist, or is no folder".to_string()));
    }

    /// Other libraries of the folder would only mislead.
    #[test]
    fn a_plugin_that_no_listed_library_has_is_missing_in_the_list() {
        let hint = |listed: &[&str]| {
            let listed = Some(listed.iter().map(ToString::to_string).collect());
            Registry { listed, ..Registry::default() }.unknown(PluginKind::SINK, "csv").hint
        };
        let said = "no sink is available; `plugins.load` names only adamw.so, e4m3.so";
        assert_eq!(hint(&["adamw.so", "e4m3.so"]).as_deref(), Some(said));
        assert_eq!(hint(&[]).as_deref(), Some("no sink is available; `plugins.load` names no library"));
    }
}
