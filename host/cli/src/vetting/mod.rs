//! Conditions before a library's code runs in this process: the user trusts it, and it passes the quick checks.
//!
//! The host's own folder is trusted, and so are paths that the user names on the command line. Other libraries are
//! named by files, which may come from strangers: they need `--trust`, or confirmation at the terminal, once for each
//! build. Libraries are described and checked in children, as `plugins check` does. [`Records`] stores the results by a
//! library's identity.

mod records;

use std::{
    fs,
    io::{IsTerminal, stderr, stdin},
    path::{Path, PathBuf},
    time::Duration,
};

use altgrad_base::{diagnostic::Diagnostic, eprintln, print::word};
use altgrad_loader::{
    notes::Notes,
    own_folder,
    vet::{self, Candidate, Checked, TrustPolicy},
};
use altgrad_plugin_api::PluginKind;
use clap::Args;

use crate::check::{child, late};
use records::{Records, Refused};

/// Time for a library to describe its plugins.
const DESCRIPTION: Duration = Duration::from_secs(10);
/// Time for all quick checks of a plugin.
const CHECKS: Duration = Duration::from_secs(60);

/// Whose libraries a command may load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// Those of the host's folder, and those that the user trusted before.
    Known,
    /// The user trusts whatever the command needs.
    Remember,
    /// The user names them on the command line, for this once.
    Named,
}

/// The option of commands that load what files name.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct TrustArgs {
    /// Trusts the plugin libraries that the command needs, wherever they are. Without this option, the command loads
    /// only libraries of the folder `plugins` beside the executable and libraries that were trusted before. Trust is
    /// remembered by sha256 in the user's state folder.
    #[arg(long)]
    trust: bool,
}

impl From<TrustArgs> for Trust {
    fn from(args: TrustArgs) -> Self {
        if args.trust { Self::Remember } else { Self::Known }
    }
}

/// Installs the rules of this process.
pub(super) fn install(trust: Trust) {
    let folder = own_folder().and_then(|own| fs::canonicalize(own.join("plugins"))).ok();
    vet::install(Vetting { trust, folder, records: Records::open() });
}

struct Vetting {
    trust: Trust,
    /// The host's own, if it is there.
    folder: Option<PathBuf>,
    records: Records,
}

impl Vetting {
    fn is_own(&self, library: &Path) -> bool {
        let folder = library.parent().and_then(|folder| fs::canonicalize(folder).ok());
        folder.is_some() && folder == self.folder
    }

    fn remember(&self, library: Candidate<'_>) {
        if let Err(error) = self.records.change(library.identity, |record| record.trusted = true) {
            let path = library.path.display();
            eprintln!(
                "warning: {path} is trusted for this command only: that cannot be remembered ({error})"
            );
        }
    }
}

impl TrustPolicy for Vetting {
    fn allow(&self, library: Candidate<'_>) -> Result<(), Diagnostic> {
        let known = || self.records.read(library.identity).trusted;
        if self.trust == Trust::Named || self.is_own(library.named) || known() {
            return Ok(());
        }
        if self.trust == Trust::Remember || is_trusted_by_the_user(library) {
            self.remember(library);
            return Ok(());
        }
        let hint = "its code would run with your rights: if you trust it, add `--trust` once, or install it with \
                    `altgrad-host plugins install`";
        Err(Diagnostic::plugin("the library is outside the host's folder, and not trusted").hint(hint))
    }

    fn describe(&self, library: Candidate<'_>) -> Result<Notes, Diagnostic> {
        let notes = |text: &str| Notes::from_json(text).ok();
        let (known, host) = (self.records.read(library.identity), records::host());
        if let Some(known) = known.described.as_deref().and_then(notes) {
            return Ok(known);
        }
        // A hanging library must not delay every command; a command that names it checks it again.
        if let Some(Refused { message, hint, .. }) =
            known.refused.filter(|refused| refused.host == host && self.trust != Trust::Named)
        {
            return Err(Diagnostic { hint, ..Diagnostic::plugin(message) });
        }
        let described = child::describe(library.path, library.sha256, DESCRIPTION).and_then(|described| {
            let unreadable = || Diagnostic::plugin("plugin library refused: its description cannot be read");
            Ok((notes(&described).ok_or_else(unreadable)?, described))
        });
        match described {
            Ok((found, described)) => {
                self.keep(library, |record| record.described = Some(described));
                Ok(found)
            }
            Err(refusal) => {
                let Diagnostic { message, hint, .. } = refusal.clone();
                self.keep(library, |record| record.refused = Some(Refused { host, message, hint }));
                Err(refusal)
            }
        }
    }

    fn check(
        &self,
        library: Candidate<'_>,
        (kind, name): (PluginKind, &str),
        options: &toml::Table,
    ) -> Result<Checked, Diagnostic> {
        let set: Vec<String> = options.iter().map(|(key, value)| format!("{key}={value}")).collect();
        // First as it is by default, then with the run's options.
        match self.check_with(library, (kind, name), &[])? {
            Checked::Passed if !set.is_empty() => self.check_with(library, (kind, name), &set),
            checked => Ok(checked),
        }
    }
}

impl Vetting {
    fn check_with(
        &self,
        library: Candidate<'_>,
        (kind, name): (PluginKind, &str),
        set: &[String],
    ) -> Result<Checked, Diagnostic> {
        let with = if set.is_empty() { String::new() } else { format!(" with {}", set.join(", ")) };
        let plugin = format!("{kind} {name}{with}");
        let host = records::host();
        if self.records.read(library.identity).has_passed(&host, &plugin) {
            return Ok(Checked::Passed);
        }
        let path = library.path.display();
        let failed = match late::quick(library.path, library.sha256, (kind, name), set, CHECKS) {
            Ok(failed) => failed,
            Err(error) => {
                eprintln!("warning: {kind} plugin `{name}` of {path} is not checked: {}", error.message);
                return Ok(Checked::Unchecked);
            }
        };
        if let Some(why) = failed {
            let mut hint =
                format!("`altgrad-host plugins check {}` says more", word(&library.path.to_string_lossy()));
            if self.trust != Trust::Named {
                // The command has a run file.
                hint += "; `plugins.check = \"none\"` uses it all the same";
            }
            let message = format!("{kind} plugin `{name}`{with} fails a check: {why}");
            return Err(Diagnostic::plugin(message).hint(hint));
        }
        self.keep(library, |record| record.passes(&host, &plugin));
        Ok(Checked::Passed)
    }

    /// Stores a result. If that fails, the check is repeated next time, which takes a second and changes nothing.
    fn keep(&self, library: Candidate<'_>, change: impl FnOnce(&mut records::Record)) {
        let _ = self.records.change(library.identity, change);
    }
}

/// Asks the user at the terminal, if there is one.
fn is_trusted_by_the_user(library: Candidate<'_>) -> bool {
    if !stdin().is_terminal() || !stderr().is_terminal() {
        return false;
    }
    let Candidate { path, sha256, .. } = library;
    eprintln!("{} (sha256 {sha256:.12}...) is outside the host's folder.", path.display());
    eprintln!("Its code runs with your rights. Trust it from now on? [y/N]");
    let mut answer = String::new();
    stdin().read_line(&mut answer).is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}
