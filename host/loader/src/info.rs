//! The description of a library file, as far as it can be read without running the library's code.
//!
//! Read once -> sha256 -> pin -> static ELF check -> notes: version, CPU features, descriptors. A library that fails a
//! check is refused in one sentence.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use altgrad_base::{diagnostic::Diagnostic, files};
use altgrad_config::{optimizer_keys, sink_keys};
use altgrad_plugin_api::{BuildInfo, Descriptor, OptionDefault, OptionSpec, PluginKind, RStr};
use sha2::{Digest, Sha256};

use crate::{
    c_abi::{self, CExports},
    cpu, elf, format_file,
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
    /// The key of what is remembered of the library, 64 hex digits: [`Self::sha256`] or, if the library loads others
    /// from its own folder, a hash of its path too. The sha256 does not cover those others.
    pub identity: String,
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
    /// See [`LibraryInfo::identity`].
    pub(crate) identity: String,
    /// The whole file.
    pub(crate) bytes: Vec<u8>,
    pub(crate) notes: Option<Notes>,
    /// The formats of a file without code; its notes describe them.
    pub(crate) formats: Option<CExports>,
}

/// The sha256 that a file must have.
#[derive(Clone, Copy)]
pub(crate) enum Expected<'a> {
    Any,
    /// That of the user's pin.
    Pinned(&'a str),
    /// That of the file when this command read it first.
    Unchanged(&'a str),
}

impl Expected<'_> {
    fn check(self, sha256: &str) -> Result<(), Diagnostic> {
        match self {
            Self::Pinned(pin) if !pin.eq_ignore_ascii_case(sha256) => {
                let hint = format!("if the new build is meant, pin sha256 = \"{sha256}\"");
                Err(refused(format!("its sha256 is not the pinned {}...", short(pin)), hint))
            }
            Self::Unchanged(first) if !first.eq_ignore_ascii_case(sha256) => {
                Err(refused("its file changed while the command ran", "start the command again"))
            }
            _ => Ok(()),
        }
    }
}

impl CheckedFile {
    /// Reads the file at `path`.
    pub(crate) fn read(path: &Path, expected: Expected<'_>) -> Result<Self, Diagnostic> {
        // An absolute path never goes through the library search path.
        let path = fs::canonicalize(path)
            .map_err(|error| refused(format!("cannot be read ({error})"), "check the path"))?;
        let bytes = files::read(&path)
            .map_err(|error| refused(format!("cannot be read ({error})"), "check the file"))?;
        let sha256 = files::hex(&Sha256::digest(&bytes));
        expected.check(&sha256)?;
        let formats = if format_file::is_format_file(&path) {
            Some(CExports::new(format_file::read(&path, &bytes)?.library()))
        } else if let Some((what, hint)) = elf::fault(&bytes) {
            return Err(refused(what, hint));
        } else {
            None
        };
        let notes = match &formats {
            Some(formats) => Some(Notes { build: c_abi::NO_BUILD, descriptors: formats.descriptors() }),
            None => notes::read(&bytes)?,
        };
        if let Some(notes) = &notes {
            check_build(&notes.build)?;
            check_descriptors(&notes.descriptors)?;
        }
        let identity = identity(&path, &sha256, &bytes);
        Ok(Self { path, sha256, identity, bytes, notes, formats })
    }

    pub(crate) fn into_info(self, build: BuildInfo, descriptors: Vec<Descriptor>) -> LibraryInfo {
        let Self { path, sha256, identity, bytes, .. } = self;
        LibraryInfo { path, sha256, identity, bytes: bytes.len() as u64, build, descriptors }
    }
}

/// See [`LibraryInfo::identity`].
fn identity(path: &Path, sha256: &str, bytes: &[u8]) -> String {
    if !elf::looks_beside_itself(bytes) {
        return sha256.to_owned();
    }
    files::hex(&Sha256::new().chain_update(sha256).chain_update(path.as_os_str().as_bytes()).finalize())
}

/// Refuses a library whose code this machine cannot run, or whose build information is not one line each.
pub(crate) fn check_build(build: &BuildInfo) -> Result<(), Diagnostic> {
    let BuildInfo { api_version, rustc, target, cpu_features } = *build;
    if [api_version, rustc, target, cpu_features].iter().any(|text| has_controls(text)) {
        let why = "its build information has control characters";
        return Err(refused(why, "build it again with an ordinary compiler"));
    }
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
/// No plugins, a duplicate plugin, a plugin of an unknown kind, a duplicate option, an option that a run file cannot
/// set, a name that is impossible in a run file, or a text with control characters, such as a second line.
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
        if let Some(what) = with_controls(descriptor) {
            let why = format!("the {what} of its {kind} `{id}` has control characters");
            return Err(refused(why, "write one line of text"));
        }
        check_reach(descriptor, &options)?;
    }
    Ok(())
}

/// The text of a descriptor that has control characters.
fn with_controls(descriptor: &Descriptor) -> Option<String> {
    let Descriptor { version, summary, vendor, homepage, .. } = descriptor;
    let own = [("version", version), ("summary", summary), ("vendor", vendor), ("homepage", homepage)];
    if let Some((what, _)) = own.iter().find(|(_, text)| has_controls(text)) {
        return Some((*what).to_owned());
    }
    let mut options = descriptor.options.iter();
    let option = options.find(|option| {
        has_controls(&option.name)
            || has_controls(&option.help)
            || option.choices.iter().any(|choice| has_controls(choice))
    })?;
    Some(format!("option `{}`", option.name.escape_debug()))
}

fn has_controls(text: &str) -> bool {
    text.contains(char::is_control)
}

/// Refuses options that no run file can set: keys of the host, and options of formats that names cannot give.
fn check_reach(descriptor: &Descriptor, options: &[&str]) -> Result<(), Diagnostic> {
    let (kind, id) = (descriptor.kind, descriptor.id.as_str());
    let of_the_host = match kind {
        PluginKind::OPTIMIZER => optimizer_keys(),
        PluginKind::SINK => sink_keys(),
        _ => BTreeSet::new(),
    };
    if let Some(key) = options.iter().find(|option| of_the_host.contains(**option)) {
        let keys = Vec::from_iter(of_the_host).join(", ");
        let why = format!("its {kind} `{id}` has the option `{key}`, which is a key of the host");
        return Err(refused(why, format!("give it another name; the host's keys of the table: {keys}")));
    }
    let breaks_name = |text: &RStr<'_>| text.contains([',', '=']);
    let cannot_be_named = |option: &&OptionSpec| {
        matches!(option.default, OptionDefault::TextList(_))
            || breaks_name(&option.name)
            || option.choices.iter().any(breaks_name)
    };
    let mut of_formats = descriptor.options.iter().filter(|_| kind == PluginKind::FORMAT);
    of_formats.find(cannot_be_named).map_or(Ok(()), |other| {
        let why = format!("its format `{id}` has the option `{}`", other.name.escape_debug());
        let hint = "a run file names formats as NAME:KEY=VALUE,KEY=VALUE: no lists, no `,` and no `=`";
        Err(refused(why, hint))
    })
}

fn short(text: &str) -> &str {
    text.get(..12).unwrap_or(text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_plugin_api::texts;

    use super::*;

    #[test]
    fn options_that_no_run_file_reaches_are_refused() {
        const EVERY: [OptionSpec; 1] = [OptionSpec::integer("every", 1)];
        const GROUP: [OptionSpec; 2] = [OptionSpec::float("momentum", 0.9), OptionSpec::text("match", "")];
        const MODE: [OptionSpec; 2] = [OptionSpec::text("variant", ""), OptionSpec::text_list("modes", &[])];
        const ODD: [OptionSpec; 1] = [OptionSpec::text("kind", "a").choices(texts!["a", "b=c"])];
        let (sink, optimizer) = (Descriptor::sink("a", "1", "x"), Descriptor::optimizer("a", "1", "x"));
        let format = Descriptor::format("A", "1", "x");
        let said = |descriptor: Descriptor| match check_descriptors(&[descriptor]) {
            Ok(()) => String::new(),
            Err(refusal) => refusal.message.replace("plugin library refused: its ", ""),
        };
        assert_eq!(said(sink.options(&EVERY)), "sink `a` has the option `every`, which is a key of the host");
        let taken = "optimizer `a` has the option `match`, which is a key of the host";
        assert_eq!(said(optimizer.options(&GROUP)), taken);
        assert_eq!(said(format.options(&MODE)), "format `A` has the option `modes`");
        assert_eq!(said(format.options(&ODD)), "format `A` has the option `kind`");
        assert_eq!(said(sink.options(&GROUP)) + &said(optimizer.options(&EVERY)), "");
        assert_eq!(said(format.options(&MODE[..1])), "");
    }

    #[test]
    fn texts_of_several_lines_are_refused() {
        const NAMED: [OptionSpec; 1] = [OptionSpec::float("a\nb", 0.9)];
        const HELPED: [OptionSpec; 1] = [OptionSpec::float("lr", 0.9).help("Rate\u{1b}[2J")];
        let said = |descriptor: Descriptor| check_descriptors(&[descriptor]).unwrap_err().message;
        let sink = |version, summary| Descriptor::sink("a", version, summary);
        for (descriptor, what) in [
            (sink("1\n", "x"), "version"),
            (sink("1", "x\nlibrary       /usr/lib/other.so"), "summary"),
            (Descriptor::optimizer("a", "1", "x").options(&NAMED), "option `a\\nb`"),
            (Descriptor::optimizer("a", "1", "x").options(&HELPED), "option `lr`"),
        ] {
            let expected = format!(
                "plugin library refused: the {what} of its {} `a` has control characters",
                descriptor.kind
            );
            assert_eq!(said(descriptor), expected);
        }
        let build = BuildInfo { rustc: "rustc 1.0\nCPU features  none".into(), ..BuildInfo::CURRENT };
        assert!(check_build(&build).is_err() && check_build(&BuildInfo::CURRENT).is_ok());
    }

    #[test]
    fn a_changed_file_is_not_called_one_with_another_pin() {
        let said = |expected: Expected<'_>| expected.check("ab").map_err(|refusal| refusal.message);
        assert!(said(Expected::Any).is_ok() && said(Expected::Pinned("AB")).is_ok());
        assert_eq!(
            said(Expected::Pinned("cd")).unwrap_err(),
            "plugin library refused: its sha256 is not the pinned cd..."
        );
        assert_eq!(
            said(Expected::Unchanged("cd")).unwrap_err(),
            "plugin library refused: its file changed while the command ran"
        );
    }
}
