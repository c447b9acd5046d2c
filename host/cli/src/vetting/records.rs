//! Records of libraries, by identity: one JSON file for each, in the user's state folder.
//!
//! The folder is `altgrad/libraries` in `$XDG_STATE_HOME`, by default `~/.local/state` (XDG Base Directory
//! Specification). Files can be deleted at any time: trust is then asked for again, and the rest is found out again.

use std::{env, fs, io, path::PathBuf, time::UNIX_EPOCH};

use altgrad_base::files;
use serde::{Deserialize, Serialize};

/// Builds of the host whose checks are remembered of a library.
const HOSTS: usize = 4;

/// Plugins, and plugins with options of a run, that are remembered of a library for each build of the host.
const PLUGINS: usize = 256;

/// The folder of records.
pub(super) struct Records {
    /// None if the environment names no home.
    folder: Option<PathBuf>,
}

/// The record of a library.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Record {
    /// True if the user allowed its code to run.
    pub(super) trusted: bool,
    /// The description from its code, if it has no notes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) described: Option<String>,
    /// The reason why it could not describe its plugins to a build of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refused: Option<Refused>,
    /// Plugins that passed the quick checks, also with the options of a run, by build of the host, the latest last.
    pub(super) passed: Vec<Passed>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Refused {
    pub(super) host: String,
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Passed {
    host: String,
    plugins: Vec<String>,
}

impl Record {
    pub(super) fn has_passed(&self, host: &str, plugin: &str) -> bool {
        let mut of_host = self.passed.iter().filter(|passed| passed.host == host);
        of_host.any(|passed| passed.plugins.iter().any(|known| known == plugin))
    }

    pub(super) fn passes(&mut self, host: &str, plugin: &str) {
        match self.passed.iter_mut().find(|passed| passed.host == host) {
            Some(passed) if passed.plugins.iter().any(|known| known == plugin) => {}
            Some(passed) => {
                passed.plugins.push(plugin.into());
                let older = passed.plugins.len().saturating_sub(PLUGINS);
                passed.plugins.drain(..older);
            }
            None => self.passed.push(Passed { host: host.into(), plugins: vec![plugin.into()] }),
        }
        let older = self.passed.len().saturating_sub(HOSTS);
        self.passed.drain(..older);
    }
}

/// The build of this host: checks of another may find other things.
pub(super) fn host() -> String {
    let stamp = env::current_exe().and_then(fs::metadata).and_then(|file| {
        let changed = file.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(format!("{} bytes of {}", file.len(), changed.as_nanos()))
    });
    format!("{} {}", env!("CARGO_PKG_VERSION"), stamp.unwrap_or_default())
}

impl Records {
    pub(super) fn open() -> Self {
        // The specification: a path that is not absolute is none.
        let named = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let state = named("XDG_STATE_HOME").or_else(|| Some(named("HOME")?.join(".local/state")));
        Self { folder: state.map(|state| state.join("altgrad/libraries")) }
    }

    /// The record; empty if it cannot be read.
    pub(super) fn read(&self, identity: &str) -> Record {
        let text = self.folder.as_ref().and_then(|folder| files::read(&folder.join(name(identity))).ok());
        text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
    }

    /// Changes a record while no other process does.
    pub(super) fn change(&self, identity: &str, change: impl FnOnce(&mut Record)) -> io::Result<()> {
        let folder =
            self.folder.as_ref().ok_or_else(|| io::Error::other("the environment names no home folder"))?;
        fs::create_dir_all(folder)?;
        let _held = files::hold(&folder.join("lock"))?;
        let mut record = self.read(identity);
        change(&mut record);
        files::write(&folder.join(name(identity)), serde_json::to_string_pretty(&record)?.as_bytes())
    }
}

fn name(identity: &str) -> String {
    format!("{identity}.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_kept_by_hash_and_of_the_latest_hosts_only() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records { folder: Some(folder.path().join("a/b")) };
        assert_eq!(records.read("ab"), Record::default());
        records.change("ab", |record| record.trusted = true).unwrap();
        for host in ["1", "2", "3", "4", "5", "5"] {
            records.change("ab", |record| record.passes(host, &format!("format X{host}"))).unwrap();
        }
        let record = records.read("ab");
        assert!(record.trusted && record.passed.len() == HOSTS);
        assert!(record.has_passed("5", "format X5") && !record.has_passed("5", "format X2"));
        assert!(!record.has_passed("1", "format X1"), "forgotten");
        assert_eq!(records.read("cd"), Record::default());
        fs::write(folder.path().join("a/b/cd.json"), "{").unwrap();
        assert_eq!(records.read("cd"), Record::default());
        let nowhere = Records { folder: None };
        assert!(nowhere.change("ab", |_| {}).is_err() && !nowhere.read("ab").trusted);
    }
}
