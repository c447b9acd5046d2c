//! The identity of the run on the server, over all its segments: from the spool, else the checkpoint, else the options.

use std::{
    fs,
    hash::{BuildHasher, RandomState},
    os::unix::fs::MetadataExt as _,
    path::Path,
};

use altgrad_plugin_api::PluginError;
use serde::{Deserialize, Serialize};

use crate::{
    index::{Begin, Index},
    journal::now,
    options::{Identity, Mode, Options, Resume},
};

/// The state that a resumed run needs if the spool is gone: no secrets.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub run_id: String,
    pub project: String,
    pub entity: Option<String>,
    #[serde(default)]
    pub base_url: Option<String>,
    /// True if the server's run was made, or continued, from here.
    pub claimed: bool,
    pub runtime: f64,
    /// Rows that the spool had of earlier steps; earlier versions do not state it.
    #[serde(default)]
    pub rows: Option<u64>,
    /// The run folder, by its inode; earlier versions do not state it.
    #[serde(default)]
    pub folder: Option<u64>,
}

/// The number of a folder in its file system: a rename and another machine of a network file system keep it, a copy
/// does not.
pub(crate) fn folder_number(folder: &Path) -> Option<u64> {
    fs::metadata(folder).ok().map(|folder| folder.ino())
}

/// The reason why the rows of a resumed run go to a run that the server does not have from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anew {
    /// The folder is a copy: the run on the server is the original's.
    Copy,
    /// The options name another server.
    Server,
}

impl Kept {
    /// The rows before the checkpoint at `step` that the spool has lost since. A spool that was deleted, or began
    /// later, has lost none: the server has its earlier rows.
    pub(crate) fn gap(&self, spool: &Index, step: u64) -> Option<String> {
        let begin = spool.begin.as_ref()?;
        let has_earlier = spool.rows.first().map_or(!begin.continues, |row| row.step < step);
        let rows = spool.rows.partition_point(|row| row.step < step) as u64;
        let kept = self.rows.filter(|kept| *kept > rows && has_earlier)?;
        Some(format!("{} of {kept} rows before the checkpoint are missing", kept - rows))
    }
}

/// The identity of the run in a run folder, and the reason if it is none that the server has from here. Id and place of
/// an earlier segment stay, the rest may change; a resumed run may name another server, and a copy of a folder gets an
/// id of its own unless `resume` says otherwise.
///
/// # Errors
/// `CONFIG` if an upload is to send a run to another server than its own.
pub(crate) fn identity(
    options: &Options,
    (only_upload, folder): (bool, Option<u64>),
    begin: Option<&Begin>,
    kept: Option<&Kept>,
) -> Result<(Identity, Option<Anew>), PluginError> {
    let mut identity = options.identity.clone();
    let before = begin.map(|begin| begin.identity.clone());
    if only_upload && let Some(before) = before {
        check_server(options, before.base_url.as_deref())?;
        let base_url = before.base_url.or(identity.base_url);
        return Ok((Identity { base_url, ..before }, None));
    }
    let earlier = before.map(|before| (before.run_id, before.project, before.entity, before.base_url));
    let kept_place =
        |kept: &Kept| (kept.run_id.clone(), kept.project.clone(), kept.entity.clone(), kept.base_url.clone());
    let Some((run_id, project, entity, server)) = earlier.or_else(|| kept.map(kept_place)) else {
        if identity.run_id.is_empty() {
            identity.run_id = new_id();
        }
        return Ok((identity, None));
    };
    let was_in = begin.and_then(|begin| begin.folder).or_else(|| kept?.folder);
    let is_copy = was_in.is_some_and(|was_in| folder.is_some_and(|folder| folder != was_in));
    if !options.names_server {
        identity.base_url = server.clone().or(identity.base_url);
    }
    let anew = match (identity.resume, &server, &identity.base_url) {
        (Resume::Never, ..) if is_copy => Some(Anew::Copy),
        (_, Some(server), Some(named)) if server != named => Some(Anew::Server),
        _ => None,
    };
    (identity.project, identity.entity) = (project, entity);
    if anew != Some(Anew::Copy) {
        identity.run_id = run_id;
    } else if identity.run_id.is_empty() {
        identity.run_id = new_id();
    }
    Ok((identity, anew))
}

/// Refuses to upload a run of one server to another.
fn check_server(options: &Options, of_run: Option<&str>) -> Result<(), PluginError> {
    let Options { mode, base_url, names_server, .. } = options;
    match of_run {
        Some(of_run) if *mode == Mode::Online && *names_server && of_run != base_url => {
            let message = format!(
                "the run is of the server {of_run}, and `base_url` or WANDB_BASE_URL names {base_url}"
            );
            let hint = "unset WANDB_BASE_URL; or write a file with `altgrad-host wandb-upload --offline`, which \
                        `wandb sync` sends to any server";
            Err(PluginError::config(message).with_hint(hint))
        }
        _ => Ok(()),
    }
}

/// Eight letters or digits, random.
fn new_id() -> String {
    const LETTERS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut random = RandomState::new().hash_one(now().to_bits());
    let letter = |_| {
        let letter = LETTERS[(random % 36) as usize];
        random /= 36;
        char::from(letter)
    };
    (0..8).map(letter).collect()
}
