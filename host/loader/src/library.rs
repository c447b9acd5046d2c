//! One library, checked in an order that protects the host.
//!
//! The file and its notes ([`info`](crate::info)) -> dlopen of those bytes (`image`: now, local) -> abi_stable header
//! -> layout present -> version -> two-way layout check -> CPU features -> descriptors -> agreement with the notes. Of
//! a library in C: magic number, version and sizes of its tables instead of header and layout. What fails is refused in
//! one sentence that names the file. A pin is identity, not a sandbox: a plugin runs with the host's rights. A file of
//! formats ([`format_file`](crate::format_file)) has no code; it is read, and its formats are those of a library in C
//! without functions.

use std::path::Path;

use altgrad_base::{diagnostic::Diagnostic, print::escaped};
use altgrad_plugin_api::{
    BuildInfo, Config, Descriptor, PluginError,
    abi::{
        FormatObject, OptimizerObject, PluginModuleRef, SinkObject,
        stable::library::{LibHeader, LibraryError},
    },
};

use super::{
    c_abi::{self, CExports},
    calls::{self, Call},
    layout,
};
use crate::{
    ffi::{self, LibraryEntry},
    image::{self, Fault},
    info::{CheckedFile, Expected, LibraryInfo, check_build, check_descriptors},
    notes::Notes,
    refusal::refused,
    version::{self, Version},
    vet::{self, Candidate},
};

/// The description of a library: by its notes or, if it has none, by its code in another process.
///
/// # Errors
/// [`Fault::Plugin`](altgrad_base::diagnostic::Fault::Plugin) with the path as place: it is not a valid library for
/// this host.
pub fn inspect(path: &Path) -> Result<LibraryInfo, Diagnostic> {
    examine(path, None).map(|(info, _)| info)
}

/// The description of a library whose sha256 must be `pin` if one is given, and the bytes of the described file.
///
/// # Errors
/// As [`inspect`].
pub fn examine(path: &Path, pin: Option<&str>) -> Result<(LibraryInfo, Vec<u8>), Diagnostic> {
    let expected = pin.map_or(Expected::Any, Expected::Pinned);
    let examined = CheckedFile::read(path, expected).and_then(|file| {
        let bytes = file.bytes.clone();
        let info = match (file.notes.clone(), vet::installed()) {
            (Some(Notes { build, descriptors }), _) => file.into_info(build, descriptors),
            (None, Some(vet)) => {
                let CheckedFile { path: own, sha256, identity, .. } = &file;
                let candidate = Candidate { named: path, path: own, sha256, identity };
                vet.allow(candidate)?;
                let Notes { build, descriptors } = vet.describe(candidate)?;
                file.into_info(build, descriptors)
            }
            (None, None) => LoadedLibrary::of(file)?.info,
        };
        Ok((info, bytes))
    });
    examined.map_err(|refusal| refusal.at(path.display()))
}

/// A plugin library that passed every check.
pub struct LoadedLibrary {
    /// The description of the library.
    pub info: LibraryInfo,
    exports: Exports,
}

/// The constructors of instances.
#[derive(Clone)]
enum Exports {
    Rust(PluginModuleRef),
    C(CExports),
}

impl LoadedLibrary {
    /// Loads the library at `path`. If `sha256` is given, the file must still have it.
    ///
    /// # Errors
    /// [`Fault::Plugin`](altgrad_base::diagnostic::Fault::Plugin) with the path as place.
    pub fn load(path: &Path, sha256: Option<&str>) -> Result<Self, Diagnostic> {
        let file = CheckedFile::read(path, sha256.map_or(Expected::Any, Expected::Unchanged));
        file.and_then(Self::of).map_err(|refusal| refusal.at(path.display()))
    }

    /// Loads the bytes of a checked file.
    fn of(file: CheckedFile) -> Result<Self, Diagnostic> {
        if let (Some(formats), Some(Notes { build, descriptors })) =
            (file.formats.clone(), file.notes.clone())
        {
            return Ok(Self { info: file.into_info(build, descriptors), exports: Exports::C(formats) });
        }
        let library = calls::plugin("", &file.path.display().to_string());
        let _running = calls::enter(library, Call::Load);
        let (build, exports) = match open(&file)? {
            LibraryEntry::Rust(header) => {
                let header = header.upgrade().map_err(|_| {
                    let hint = "rebuild it against this host's plugin-api";
                    refused("it was built with an incompatible abi_stable", hint)
                })?;
                let module = check_types(header, &file.path)?;
                ((module.build_info())(), Exports::Rust(module))
            }
            LibraryEntry::C(tables) => {
                let hint = || format!("rebuild it with tables as {} describes them", c_abi::version());
                let library = tables.map_err(|fault| refused(fault, hint()))?;
                (c_abi::build_info(&library), Exports::C(CExports::new(library)))
            }
        };
        check_build(&build)?;
        let descriptors = exports.descriptors();
        check_descriptors(&descriptors)?;
        if let Some(notes) = &file.notes {
            check_notes(notes, &build, &descriptors)?;
        }
        Ok(Self { info: file.into_info(build, descriptors), exports })
    }

    /// A new instance of one of its formats, bare: runs call [`super::FormatPlugin`].
    ///
    /// # Errors
    /// The plugin's own error.
    pub fn format_object(&self, id: &str, config: &Config) -> Result<FormatObject, PluginError> {
        match &self.exports {
            Exports::Rust(module) => (module.make_format())(id.into(), config).into_result(),
            Exports::C(plugins) => plugins.format(id, config),
        }
    }

    /// A new instance of one of its sinks, bare: runs call [`super::SinkPlugin`].
    ///
    /// # Errors
    /// The plugin's own error.
    pub fn sink_object(&self, id: &str, config: &Config) -> Result<SinkObject, PluginError> {
        match &self.exports {
            Exports::Rust(module) => (module.make_sink())(id.into(), config).into_result(),
            Exports::C(plugins) => plugins.sink(id, config),
        }
    }

    /// A new instance of one of its optimizers, bare: runs call [`super::OptimizerPlugin`].
    ///
    /// # Errors
    /// The plugin's own error.
    pub fn optimizer_object(&self, id: &str, config: &Config) -> Result<OptimizerObject, PluginError> {
        match &self.exports {
            Exports::Rust(module) => (module.make_optimizer())(id.into(), config).into_result(),
            Exports::C(plugins) => plugins.optimizer(id, config),
        }
    }
}

impl Exports {
    fn descriptors(&self) -> Vec<Descriptor> {
        match self {
            Self::Rust(module) => (module.descriptors())().into_vec(),
            Self::C(formats) => formats.descriptors(),
        }
    }
}

fn open(file: &CheckedFile) -> Result<LibraryEntry, Diagnostic> {
    image::open(file).map_err(|fault| match fault {
        Fault::NoEntry => {
            let hint = "add `altgrad_plugin_api::export_plugin!(...)`, or `ALTGRAD_EXPORT_FORMATS(...)` or its like in C";
            refused("it exports no plugin", hint)
        }
        Fault::Loader(said) => refused(
            format!("the loader says: {said}"),
            "a library or symbol it needs is missing, or it is damaged",
        ),
    })
}

fn check_types(header: &'static LibHeader, path: &Path) -> Result<PluginModuleRef, Diagnostic> {
    let Some(library) = header.layout() else {
        let hint = "export it with `export_plugin!`, which always includes the type layout";
        return Err(refused("it carries no type layout, so nothing about it can be checked", hint));
    };
    version::check(&header.version_strings().version)?;
    let ours = Version::of_api();
    layout::check(library).map_err(|fault| {
        tracing::debug!("{}: {}", path.display(), escaped(&fault.report));
        let hint = format!(
            "rebuild it against plugin-api {ours}; with ALTGRAD_LOG=debug the whole comparison is shown"
        );
        refused(fault.sentence, hint)
    })?;
    ffi::root_module(header).map_err(|error: LibraryError| {
        let text = error.to_string();
        refused(text.lines().next().unwrap_or("its constructor failed"), "report it to the plugin's author")
    })
}

/// Refuses a library whose notes differ from its code's description.
fn check_notes(notes: &Notes, build: &BuildInfo, descriptors: &[Descriptor]) -> Result<(), Diagnostic> {
    let differ = |what: String| {
        Err(refused(
            format!("its notes {what}"),
            "build it again; in C, `ALTGRAD_DESCRIBE_FORMAT` must say what the format's table says",
        ))
    };
    if notes.build != *build {
        return differ("say otherwise than its code how it was built".into());
    }
    let of = |all: &[Descriptor], one: &Descriptor| {
        all.iter().find(|other| (other.kind, other.id) == (one.kind, one.id)).copied()
    };
    for noted in &notes.descriptors {
        match of(descriptors, noted) {
            None => {
                return differ(format!(
                    "list the {} `{}`, which its code does not have",
                    noted.kind, noted.id
                ));
            }
            Some(coded) if coded != *noted => {
                return differ(format!("describe the {} `{}` otherwise than its code", noted.kind, noted.id));
            }
            Some(_) => {}
        }
    }
    match descriptors.iter().find(|coded| of(&notes.descriptors, coded).is_none()) {
        Some(missing) => differ(format!("leave out the {} `{}`", missing.kind, missing.id)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use altgrad_plugin_api::OptionSpec;

    use super::*;

    const PLAIN: Descriptor = Descriptor::optimizer("plain", "1", "Descent");
    const OTHER: Descriptor = Descriptor::sink("plain", "1", "Descent");

    #[test]
    fn notes_that_differ_from_the_code_are_refused_by_name() {
        let noted =
            |descriptors: &[Descriptor]| Notes { build: BuildInfo::CURRENT, descriptors: descriptors.into() };
        let code = [PLAIN, OTHER];
        let said = |notes: &Notes| match check_notes(notes, &BuildInfo::CURRENT, &code) {
            Ok(()) => String::new(),
            Err(refusal) => refusal.message.replace("plugin library refused: its notes ", ""),
        };
        assert_eq!(said(&noted(&code)), "");
        assert_eq!(said(&noted(&[PLAIN])), "leave out the sink `plain`");
        let more = [PLAIN, OTHER, Descriptor::format("X", "1", "x")];
        assert_eq!(said(&noted(&more)), "list the format `X`, which its code does not have");
        let changed = PLAIN.options(&const { [OptionSpec::float("lr", 0.1)] });
        assert_eq!(said(&noted(&[changed, OTHER])), "describe the optimizer `plain` otherwise than its code");
        let build = BuildInfo { rustc: "another".into(), ..BuildInfo::CURRENT };
        assert_eq!(said(&Notes { build, ..noted(&code) }), "say otherwise than its code how it was built");
    }
}
