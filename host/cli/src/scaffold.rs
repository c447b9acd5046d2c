//! `plugins new`: a plugin crate to begin with, in a folder of its own.
//!
//! The files are in `host/cli/templates`, filled in with a name and the source of `altgrad-plugin-api`. The new crate
//! builds outside this workspace, passes `plugins check`, and does not depend on the host. An existing folder is
//! refused.

use std::{
    fs, io,
    path::{Component, Path, PathBuf},
    process::ExitCode,
};

use altgrad_base::{diagnostic::Diagnostic, eprintln, println};
use altgrad_config::PluginsSection;
use altgrad_loader::{Catalog, own_folder};
use altgrad_plugin_api::PluginKind;
use clap::{Args, ValueEnum};
use minijinja::{Environment, UndefinedBehavior, Value, context};

/// `altgrad-host plugins new`.
#[derive(Debug, Args)]
pub(super) struct NewArgs {
    /// Kind of the plugin.
    #[arg(long)]
    kind: TemplateKind,
    /// Name of the plugin: lower-case letters, digits and single hyphens, beginning with a letter. The name of a format
    /// is the same in capitals.
    name: String,
    /// Folder of the new crate. Default: the name.
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// Folder of altgrad-plugin-api. Default: `plugin-api` of the archive, the wheel or the clone that the
    /// executable belongs to.
    #[arg(long, value_name = "PATH")]
    api: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum TemplateKind {
    /// A number format.
    Format,
    /// An optimizer.
    Optimizer,
    /// A sink, a destination of metrics.
    Sink,
}

impl TemplateKind {
    fn name(self) -> &'static str {
        match self {
            Self::Format => "format",
            Self::Optimizer => "optimizer",
            Self::Sink => "sink",
        }
    }

    fn plugin_kind(self) -> PluginKind {
        match self {
            Self::Format => PluginKind::FORMAT,
            Self::Optimizer => PluginKind::OPTIMIZER,
            Self::Sink => PluginKind::SINK,
        }
    }

    fn source(self) -> &'static str {
        match self {
            Self::Format => include_str!("../templates/format/lib.rs"),
            Self::Optimizer => include_str!("../templates/optimizer/lib.rs"),
            Self::Sink => include_str!("../templates/sink/lib.rs"),
        }
    }

    /// Paths in the crate, and their templates.
    fn files(self) -> [(&'static str, &'static str); 5] {
        [
            ("Cargo.toml", include_str!("../templates/Cargo.toml")),
            ("README.md", include_str!("../templates/README.md")),
            (".gitignore", include_str!("../templates/gitignore")),
            (".github/workflows/ci.yml", include_str!("../templates/ci.yml")),
            ("src/lib.rs", self.source()),
        ]
    }
}

pub(super) fn run(args: &NewArgs) -> Result<ExitCode, Diagnostic> {
    let name = valid_name(&args.name)?;
    let source = Source::find(args.api.as_deref())?;
    let folder = args.path.clone().unwrap_or_else(|| name.into());
    let kind = args.kind.name();
    let package = format!("altgrad-{kind}-{name}");
    let id = if matches!(args.kind, TemplateKind::Format) { name.to_uppercase() } else { name.into() };
    // The file name of cargo's output.
    let library = format!("lib{}.so", package.replace('-', "_"));
    let answers = context! {
        kind, name, package,
        id => id.as_str(),
        library => library.as_str(),
        dependency => source.dependency(&folder).map_err(|error| {
            Diagnostic::run(format!("cannot find the new crate's folder ({error})")).at(folder.display())
        })?,
        by_path => matches!(source, Source::Folder(_)),
    };
    let files = filled_in(args.kind, &answers)?;
    write(&folder, &files)?;
    warn_if_taken(args.kind.plugin_kind(), &id);
    println!("The {kind} {id} is in {}. To build, check and use it:", folder.display());
    println!("  cd {}", folder.display());
    println!("  cargo build --release");
    println!("  altgrad-host plugins check target/release/{library}");
    println!("  altgrad-host plugins install target/release/{library}");
    Ok(ExitCode::SUCCESS)
}

/// Warns of a name that a plugin of the host's folder has: run files would mean either, so only one can be installed.
fn warn_if_taken(kind: PluginKind, id: &str) {
    let Ok(catalog) = Catalog::open(&PluginsSection::default()) else { return };
    let Some(taken) = catalog.libraries.iter().find(|library| library.find(kind, id).is_some()) else {
        return;
    };
    eprintln!(
        "warning: {} has a {kind} {id} already: `plugins install` would replace it, and asks for `--replace`",
        taken.path.display()
    );
}

/// Longer ones break lines of the templates.
const LONGEST_NAME: usize = 40;

fn valid_name(name: &str) -> Result<&str, Diagnostic> {
    let letter = |c: char| c.is_ascii_lowercase();
    let words = name.split('-').all(|word| !word.is_empty());
    let characters = name.chars().all(|c| letter(c) || c.is_ascii_digit() || c == '-');
    if name.len() <= LONGEST_NAME && name.starts_with(letter) && words && characters {
        return Ok(name);
    }
    let message = format!("invalid plugin name {name:?}");
    Err(Diagnostic::config(message).hint(format!(
        "up to {LONGEST_NAME} lower-case letters, digits and single hyphens, from a letter on: lns8, my-optimizer"
    )))
}

/// The source of the API.
#[derive(Debug)]
enum Source {
    /// Its folder, absolute.
    Folder(PathBuf),
    /// Its version in a registry.
    Version(String),
}

impl Source {
    fn find(given: Option<&str>) -> Result<Self, Diagnostic> {
        let folder = match given {
            Some(version) if is_version(version) => return Ok(Self::Version(version.into())),
            Some(folder) => PathBuf::from(folder),
            None => around_the_executable(),
        };
        if !is_api(&folder) {
            return Err(Diagnostic::config("altgrad-plugin-api is not there")
                .at(folder.join("Cargo.toml").display())
                .hint("give its folder, `plugin-api` of the archive or of the repository: --api PATH"));
        }
        folder.canonicalize().map(Self::Folder).map_err(|error| {
            Diagnostic::config(format!("cannot find the folder ({error})")).at(folder.display())
        })
    }

    /// The line of the manifest of a crate in that folder. Its path is relative: crate and API can move together.
    fn dependency(&self, crate_folder: &Path) -> io::Result<String> {
        Ok(match self {
            // As a TOML string, with any characters of a path.
            Self::Folder(folder) => {
                let path = toml::Value::String(relative(crate_folder, folder)?.display().to_string());
                format!("altgrad-plugin-api = {{ path = {path} }}")
            }
            Self::Version(version) => format!("altgrad-plugin-api = \"{version}\""),
        })
    }
}

/// The path from a folder that may not be there yet to another, which is canonical.
fn relative(from: &Path, to: &Path) -> io::Result<PathBuf> {
    let from = std::path::absolute(from)?;
    // Where parts of the path are links, `..` leads elsewhere.
    let there = from.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("/"));
    let from = there.canonicalize()?.join(from.strip_prefix(there).unwrap_or(Path::new("")));
    let common = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    let up = from.components().skip(common).map(|_| Component::ParentDir);
    Ok(up.chain(to.components().skip(common)).collect())
}

/// One to three numbers: `1`, `1.0`, `1.0.2`.
fn is_version(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    parts.len() <= 3 && parts.iter().all(|part| part.parse::<u32>().is_ok() && !part.starts_with('+'))
}

/// `plugin-api` among the host's own files, as in an archive and a wheel, or above the executable, as in a clone.
fn around_the_executable() -> PathBuf {
    let own = own_folder().unwrap_or_default();
    let found = own.ancestors().map(|folder| folder.join("plugin-api")).find(|folder| is_api(folder));
    found.unwrap_or_else(|| own.join("plugin-api"))
}

fn is_api(folder: &Path) -> bool {
    let manifest = fs::read_to_string(folder.join("Cargo.toml"));
    manifest.is_ok_and(|text| text.contains("name = \"altgrad-plugin-api\""))
}

fn filled_in(kind: TemplateKind, answers: &Value) -> Result<Vec<(&'static str, String)>, Diagnostic> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let fill = |(path, template): (&'static str, &str)| {
        let text = environment
            .render_str(template, answers)
            .map_err(|error| Diagnostic::run(format!("the template of {path} is broken ({error})")))?;
        // The engine leaves the last line break out.
        Ok((path, text + "\n"))
    };
    kind.files().into_iter().map(fill).collect()
}

/// All files or none, in a folder that is not there yet.
fn write(folder: &Path, files: &[(&str, String)]) -> Result<(), Diagnostic> {
    let failed = |error: io::Error| {
        Diagnostic::run(format!("cannot write the plugin's folder ({error})")).at(folder.display())
    };
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    fs::create_dir(folder).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Diagnostic::config("the folder exists already")
            .at(folder.display())
            .hint("choose another with --path DIR, or remove it"),
        _ => failed(error),
    })?;
    files.iter().try_for_each(|(path, text)| write_file(&folder.join(path), text)).map_err(|error| {
        // The error to report is the first one.
        let _ = fs::remove_dir_all(folder);
        failed(error)
    })
}

fn write_file(path: &Path, text: &str) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn names_are_crate_names() {
        for name in ["lns8", "my-optimizer", "a", "a-1"] {
            assert!(valid_name(name).is_ok(), "{name}");
        }
        let long = "a".repeat(LONGEST_NAME + 1);
        for name in ["", "8lns", "-a", "a-", "a--b", "A", "a_b", "a/b", "../a", "ä", "a b", "{{ x }}", &long]
        {
            assert!(valid_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn versions_are_told_from_folders() {
        for text in ["1", "1.0", "1.20.3"] {
            assert!(is_version(text), "{text}");
        }
        for text in ["", ".", "..", "1.", "+1", "1.0.0.0", "1.x", "plugin-api", "./1"] {
            assert!(!is_version(text), "{text}");
        }
    }

    #[test]
    fn a_path_is_relative_and_written_as_toml_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap();
        for (api, krate, path) in [
            ("a \"b\"/c\\d", "lns8", "../a \"b\"/c\\d"),
            ("altgrad/plugin-api", "work/deep/lns8", "../../../altgrad/plugin-api"),
            ("work/plugin-api", "work/plugin-api/lns8", ".."),
        ] {
            let line = Source::Folder(home.join(api)).dependency(&home.join(krate)).unwrap();
            let table: toml::Table = line.parse().unwrap();
            assert_eq!(table["altgrad-plugin-api"]["path"].as_str(), Some(path));
        }
        // From a link, `..` is the folder above what it links to.
        fs::create_dir_all(home.join("far/away")).unwrap();
        std::os::unix::fs::symlink(home.join("far/away"), home.join("link")).unwrap();
        assert_eq!(relative(&home.join("link/lns8"), &home.join("api")).unwrap(), Path::new("../../../api"));
    }
}
