//! One library file, checked in the order that keeps the host alive.
//!
//! Read once -> sha256 -> pin -> static ELF check -> dlopen (now, local, absolute) -> abi_stable header -> layout
//! present -> two-way layout check -> build info (version, CPU features) -> descriptors. Of a library in C: magic number, version
//! and sizes of its tables instead of header and layout. What fails is refused in one sentence that names the file. A pin is
//! identity, not a sandbox: a plugin runs with the host's rights.

use std::{
    fs,
    path::{Path, PathBuf},
};

use altgrad_base::{diagnostic::Diagnostic, files};
use altgrad_plugin_api::{
    BuildInfo, Config, Descriptor, ErrorKind, PluginError, PluginKind,
    abi::{
        FormatObject, OptimizerObject, PluginModuleRef, SinkObject,
        abi_stable::{
            library::{LibHeader, LibraryError},
            std_types::{RResult, RVec},
        },
    },
};
use sha2::{Digest, Sha256};

use super::{
    c_abi::{self, CFormats},
    elf, layout,
};
use crate::ffi::{self, Entry};

/// A plugin library that passed every check.
pub struct LoadedLibrary {
    /// Absolute path.
    pub path: PathBuf,
    /// Of the file's bytes, 64 hex digits.
    pub sha256: String,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// How it was built.
    pub build: BuildInfo,
    /// Its plugins, sorted by kind and id.
    pub descriptors: Vec<Descriptor>,
    exports: Exports,
}

/// What makes instances.
#[derive(Clone)]
enum Exports {
    Rust(PluginModuleRef),
    C(CFormats),
}

impl LoadedLibrary {
    /// Loads the library at `path`, whose sha256 must be `pin` if one is given.
    ///
    /// # Errors
    /// [`Fault::Plugin`](altgrad_base::diagnostic::Fault::Plugin) with the path as place.
    pub fn load(path: &Path, pin: Option<&str>) -> Result<Self, Diagnostic> {
        Self::load_checked(path, pin).map_err(|refusal| refusal.at(path.display()))
    }

    fn load_checked(path: &Path, pin: Option<&str>) -> Result<Self, Diagnostic> {
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
        let (build, exports) = match open(&path)? {
            Entry::Rust(header) => {
                let header = header.upgrade().map_err(|_| {
                    let hint = "rebuild it against this host's plugin-api";
                    refused("it was built with an incompatible abi_stable", hint)
                })?;
                let module = check_types(header, &path)?;
                ((module.build_info())(), Exports::Rust(module))
            }
            Entry::C(tables) => {
                let hint = || format!("rebuild it with {}", c_abi::version());
                let library = tables.map_err(|fault| refused(fault, hint()))?;
                (c_abi::build_info(&library), Exports::C(CFormats::new(library)))
            }
        };
        check_cpu(&build)?;
        let descriptors = exports.descriptors()?;
        Ok(Self { path, sha256, bytes: bytes.len() as u64, build, descriptors, exports })
    }

    /// The plugin of that kind and id.
    #[must_use]
    pub fn find(&self, kind: PluginKind, id: &str) -> Option<&Descriptor> {
        self.descriptors.iter().find(|descriptor| descriptor.kind == kind && descriptor.id == id)
    }

    /// A new instance of one of its formats, bare: what runs call is [`super::FormatPlugin`].
    ///
    /// # Errors
    /// The plugin's own.
    pub fn format_object(&self, id: &str, config: &Config) -> Result<FormatObject, PluginError> {
        match &self.exports {
            Exports::Rust(module) => (module.make_format())(id.into(), config).into_result(),
            Exports::C(formats) => formats.make(id),
        }
    }

    /// The same of one of its sinks: [`super::SinkPlugin`].
    ///
    /// # Errors
    /// The plugin's own.
    pub fn sink_object(&self, id: &str, config: &Config) -> Result<SinkObject, PluginError> {
        (self.module(PluginKind::Sink, id)?.make_sink())(id.into(), config).into_result()
    }

    /// The same of one of its optimizers: [`super::OptimizerPlugin`].
    ///
    /// # Errors
    /// The plugin's own.
    pub fn optimizer_object(&self, id: &str, config: &Config) -> Result<OptimizerObject, PluginError> {
        (self.module(PluginKind::Optimizer, id)?.make_optimizer())(id.into(), config).into_result()
    }

    /// What makes plugins that exist in Rust only.
    fn module(&self, kind: PluginKind, id: &str) -> Result<&PluginModuleRef, PluginError> {
        match &self.exports {
            Exports::Rust(module) => Ok(module),
            Exports::C(_) => {
                Err(PluginError::new(ErrorKind::UNKNOWN_ID, format!("this library has no {kind} `{id}`")))
            }
        }
    }
}

impl Exports {
    fn descriptors(&self) -> Result<Vec<Descriptor>, Diagnostic> {
        let descriptors = match self {
            Self::Rust(module) => {
                let listed: RResult<RVec<Descriptor>, PluginError> = (module.descriptors())();
                let refusal = |error: PluginError| refused(error.message.as_str(), error.hint.as_str());
                listed.into_result().map_err(refusal)?.into_vec()
            }
            Self::C(formats) => formats.descriptors(),
        };
        check_descriptors(&descriptors)?;
        Ok(descriptors)
    }
}

/// A refusal: why, as the end of "the library was refused: ...", and what to do.
fn refused(why: impl AsRef<str>, hint: impl Into<String>) -> Diagnostic {
    Diagnostic::plugin(format!("plugin library refused: {}", why.as_ref())).hint(hint)
}

fn open(path: &Path) -> Result<Entry, Diagnostic> {
    ffi::open_library(path).map_err(|error| {
        if matches!(error, libloading::Error::DlSym { .. } | libloading::Error::DlSymUnknown) {
            let hint = "add `altgrad_plugin_api::export_plugin!(...)`, or `ALTGRAD_EXPORT_FORMATS(...)` in C";
            return refused("it exports no plugin", hint);
        }
        // What the loader says is the error's source.
        let said = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        let said = said.replace('\n', " ");
        refused(
            format!("the loader says: {said}"),
            "a library or symbol it needs is missing, or it is damaged",
        )
    })
}

fn check_types(header: &'static LibHeader, path: &Path) -> Result<PluginModuleRef, Diagnostic> {
    let Some(library) = header.layout() else {
        let hint = "export it with `export_plugin!`, which always includes the type layout";
        return Err(refused("it carries no type layout, so nothing about it can be checked", hint));
    };
    let theirs = header.version_strings().to_string();
    let ours = BuildInfo::current().api_version.to_string();
    if theirs.split('.').next() != ours.split('.').next() {
        let hint = format!("rebuild it against plugin-api {ours}");
        return Err(refused(format!("it was built against plugin-api {theirs}, this host has {ours}"), hint));
    }
    layout::check(library).map_err(|fault| {
        let hint = match write_report(path, &fault.report) {
            Some(file) => format!("rebuild it against plugin-api {ours}; full report in {}", file.display()),
            None => format!("rebuild it against plugin-api {ours}"),
        };
        refused(fault.sentence, hint)
    })?;
    ffi::root_module(header).map_err(|error: LibraryError| {
        let text = error.to_string();
        refused(text.lines().next().unwrap_or("its constructor failed"), "report it to the plugin's author")
    })
}

/// The checker's hundreds of lines go to a file of their own, if one can be made.
fn write_report(path: &Path, report: &str) -> Option<PathBuf> {
    let name = path.file_stem()?.to_string_lossy();
    let file =
        tempfile::Builder::new().prefix(&format!("altgrad-layout-{name}-")).suffix(".txt").tempfile().ok()?;
    fs::write(file.path(), report).ok()?;
    file.keep().ok().map(|(_, kept)| kept)
}

fn check_cpu(build: &BuildInfo) -> Result<(), Diagnostic> {
    let missing: Vec<&str> =
        build.cpu_features.split(',').filter(|feature| !feature.is_empty() && !cpu_has(feature)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let why = format!("it needs CPU features this machine lacks: {}", missing.join(", "));
    Err(refused(why, "rebuild it without `-C target-cpu` or on this machine"))
}

/// Whether this CPU has a feature a compiler may assume. Features outside this list are not checked.
fn cpu_has(feature: &str) -> bool {
    macro_rules! detect {
        ($($name:tt),+) => {
            match feature {
                $($name => std::is_x86_feature_detected!($name),)+
                _ => true,
            }
        };
    }
    #[cfg(target_arch = "x86_64")]
    return detect!(
        "sse",
        "sse2",
        "sse3",
        "sse4a",
        "aes",
        "pclmulqdq",
        "sha",
        "adx",
        "rdrand",
        "rdseed",
        "movbe",
        "tbm",
        "gfni",
        "vaes",
        "vpclmulqdq",
        "xsave",
        "xsavec",
        "xsaveopt",
        "xsaves",
        "fxsr",
        "cmpxchg16b",
        "avxvnni",
        "avx512ifma",
        "avx512vbmi",
        "avx512vbmi2",
        "avx512bitalg",
        "avx512vpopcntdq",
        "avx512vp2intersect",
        "avx512fp16",
        "ssse3",
        "sse4.1",
        "sse4.2",
        "popcnt",
        "avx",
        "avx2",
        "fma",
        "f16c",
        "bmi1",
        "bmi2",
        "lzcnt",
        "avx512f",
        "avx512bw",
        "avx512cd",
        "avx512dq",
        "avx512vl",
        "avx512vnni",
        "avx512bf16"
    );
    #[cfg(not(target_arch = "x86_64"))]
    return true;
}

/// Refuses a library by what it says about its plugins.
///
/// # Errors
/// It lists none, one twice, one with an option twice, or one whose name no run file could use.
pub fn check_descriptors(descriptors: &[Descriptor]) -> Result<(), Diagnostic> {
    if descriptors.is_empty() {
        return Err(refused("it lists no plugin", "name at least one in `export_plugin!`"));
    }
    for (index, descriptor) in descriptors.iter().enumerate() {
        let id = descriptor.id.as_str();
        let kind = descriptor.kind;
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
