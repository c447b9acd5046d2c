//! `plugins install`: checked libraries into the folder of plugins, each whole or not at all, and each plugin once.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use altgrad_base::{diagnostic::Diagnostic, eprintln, files, interrupt, println};
use altgrad_config::PluginsSection;
use altgrad_loader::{Catalog, LibraryInfo, elf, format_file::is_format_file, library};
use clap::Args;

use super::check;

/// Cargo's prefix of a plugin's library, if its package is named as by `plugins new`.
const PREFIXES: [&str; 3] = ["libaltgrad_format_", "libaltgrad_optimizer_", "libaltgrad_sink_"];

/// `altgrad-host plugins install`.
#[derive(Debug, Args)]
pub(super) struct InstallArgs {
    /// The libraries.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The folder: by default `plugins` beside the executable.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// First runs the conformance suite on each library, as `plugins check` does.
    #[arg(long)]
    check: bool,
    /// Replaces an installed library that has the same plugin, shipped or of others, or a file of the same name. The
    /// first file that is replaced is kept, with `.replaced` behind its name.
    #[arg(long)]
    replace: bool,
}

/// A library on its way.
struct Plan {
    library: LibraryInfo,
    /// The checked library, which will be written.
    bytes: Vec<u8>,
    to: PathBuf,
    before: Before,
}

/// The existing file in the place of a library.
enum Before {
    Nothing,
    Library(LibraryInfo),
    /// A file that the host refuses.
    Refused,
}

/// Installs all of the libraries, or, if one is refused, none.
pub(super) fn run(args: &InstallArgs) -> Result<ExitCode, Diagnostic> {
    interrupt::end_at_once()?;
    let dir = args.dir.as_ref().map(|dir| dir.display().to_string());
    let catalog = Catalog::open(&PluginsSection { dir, ..PluginsSection::default() })?;
    let mut plans: Vec<Plan> = Vec::new();
    for file in &args.files {
        let (library, bytes) = library::examine(file, None)?;
        if let Some(other) = plans.iter().find(|plan| share_a_plugin(&plan.library, &library)) {
            return Err(Diagnostic::config("two of the libraries have the same plugin")
                .at(format!("{} and {}", other.library.path.display(), file.display()))
                .hint("install one of them"));
        }
        let (to, before) = place(file, &library, &catalog).map_err(|refusal| refusal.at(file.display()))?;
        plans.push(Plan { library, bytes, to, before });
    }
    if !args.replace
        && let Some(plan) = plans.iter().find(|plan| plan.replaces().is_some())
    {
        let message = format!("it would replace {}", plan.replaces().unwrap_or_default());
        return Err(Diagnostic::config(message)
            .at(plan.to.display())
            .hint("`--replace` installs the new library, and keeps the file there as `NAME.replaced`; or rename the plugin"));
    }
    for (file, plan) in args.files.iter().zip(&plans).filter(|_| args.check) {
        if !check::passes(&check::CheckArgs::of(file), Some(&plan.library.sha256))? {
            let refusal = Diagnostic::plugin("the library failed checks and was not installed");
            return Err(refusal
                .at(file.display())
                .hint("see the failed checks above; `altgrad-host plugins check FILE` repeats them"));
        }
    }
    for plan in &plans {
        plan.carry_out()?;
    }
    Ok(ExitCode::SUCCESS)
}

fn share_a_plugin(a: &LibraryInfo, b: &LibraryInfo) -> bool {
    a.descriptors.iter().any(|plugin| b.find(plugin.kind, &plugin.id).is_some())
}

/// The path of an installed library: that of the library that has its plugins now, or else a name of its own.
fn place(file: &Path, library: &LibraryInfo, catalog: &Catalog) -> Result<(PathBuf, Before), Diagnostic> {
    let same: Vec<&LibraryInfo> =
        catalog.libraries.iter().filter(|other| share_a_plugin(other, library)).collect();
    match same.as_slice() {
        [] => free_place(file, catalog),
        [old] if old.path.parent() == fs::canonicalize(&catalog.folder).ok().as_deref() => {
            Ok((old.path.clone(), Before::Library((*old).clone())))
        }
        [old] => {
            let message = format!("its plugin is in {}, through a link in the folder", old.path.display());
            Err(Diagnostic::config(message).hint("remove the link first"))
        }
        several => {
            let paths: Vec<String> = several.iter().map(|old| old.path.display().to_string()).collect();
            let message = format!("its plugins are in several libraries: {}", paths.join(", "));
            Err(Diagnostic::config(message).hint("remove them first"))
        }
    }
}

fn free_place(file: &Path, catalog: &Catalog) -> Result<(PathBuf, Before), Diagnostic> {
    let Some(name) = name(file) else {
        return Err(Diagnostic::config("the file's name does not end in `.so`, `.toml` or `.json`")
            .hint("plugins are found by that ending: rename the file"));
    };
    let to = catalog.folder.join(name);
    let there = fs::canonicalize(&to).ok();
    if let Some(other) = catalog.libraries.iter().find(|other| Some(&other.path) == there.as_ref()) {
        let message = format!("{} has other plugins: {}", to.display(), plugins(other));
        return Err(Diagnostic::config(message).hint("rename the file, or remove that library first"));
    }
    let before = if there.is_some() { Before::Refused } else { Before::Nothing };
    Ok((to, before))
}

/// Its own name, or the short one if cargo gave it: `libaltgrad_sink_my_log.so` becomes `my-log.so`.
fn name(file: &Path) -> Option<String> {
    let name = file.file_name()?.to_str()?;
    if is_format_file(file) {
        return Some(name.to_owned());
    }
    let short = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix));
    let name = short.map_or(name.to_string(), |short| short.replace('_', "-"));
    name.strip_suffix(".so").is_some_and(|stem| !stem.is_empty()).then_some(name)
}

impl Plan {
    /// The file that would be replaced, in words; none if the same library is there.
    fn replaces(&self) -> Option<String> {
        match &self.before {
            Before::Nothing => None,
            Before::Library(old) if old.sha256 == self.library.sha256 => None,
            Before::Library(old) => Some(described(old)),
            Before::Refused => Some("a file that is no plugin library for this host".into()),
        }
    }

    fn carry_out(&self) -> Result<(), Diagnostic> {
        let Self { library, bytes, to, before } = self;
        let replaced = self.replaces();
        if replaced.is_none() && matches!(before, Before::Library(_)) {
            println!("{}: already there, {}", to.display(), described(library));
            return Ok(());
        }
        // The first one may be a shipped plugin; those after it are builds of the same author, or were asked about.
        let kept = PathBuf::from(format!("{}.replaced", to.display()));
        let keeps = replaced.is_some() && !kept.exists();
        let keep = || if keeps { fs::copy(to, &kept).map(drop) } else { Ok(()) };
        let written = fs::create_dir_all(to.parent().unwrap_or(to))
            .and_then(|()| keep())
            .and_then(|()| files::write(to, bytes));
        written.map_err(|error| {
            Diagnostic::run(format!("the library cannot be written ({error})"))
                .at(to.display())
                .hint("check that the folder can be written, or name another with `--dir`")
        })?;
        println!("{}: installed {}", to.display(), described(library));
        if elf::looks_beside_itself(bytes) {
            eprintln!(
                "warning: {} looks for other libraries in its own folder ($ORIGIN): copy them there too",
                to.display()
            );
        }
        if let Some(replaced) = replaced {
            println!("  replaced {replaced}");
            let what = if keeps { "it is kept" } else { "an earlier one stays kept" };
            println!("  {what} as {}", kept.display());
        }
        Ok(())
    }
}

/// Its plugins with their versions, and its identity.
fn described(library: &LibraryInfo) -> String {
    format!("{}, sha256 {}", plugins(library), library.sha256)
}

fn plugins(library: &LibraryInfo) -> String {
    let plugins = library.descriptors.iter();
    let named = plugins.map(|plugin| format!("{} {} {}", plugin.kind, plugin.id, plugin.version));
    named.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_cargo_gives_are_shortened() {
        let named = |file: &str| name(Path::new(file));
        assert_eq!(named("target/release/libaltgrad_sink_my_log.so").as_deref(), Some("my-log.so"));
        assert_eq!(named("libmine_too.so").as_deref(), Some("libmine_too.so"));
        assert_eq!(named("e5m2.so").as_deref(), Some("e5m2.so"));
        for none in ["e5m2", ".so", "libaltgrad_format_.so", "e5m2.so.1"] {
            assert_eq!(named(none), None, "{none}");
        }
    }
}
