//! The identity of the run on the server, over all its segments: from the spool, else the checkpoint, else the options.

use std::hash::{BuildHasher, RandomState};

use altgrad_plugin_api::PluginError;
use serde::{Deserialize, Serialize};

use crate::{
    index::{Begin, Index},
    journal::now,
    options::{Identity, Mode, Options},
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
}

impl Kept {
    /// The rows before the checkpoint at `step` that the spool has lost since. A spool that was deleted, or began later, has lost none:
    /// the server has its earlier rows.
    pub(crate) fn gap(&self, spool: &Index, step: u64) -> Option<String> {
        let begin = spool.begin.as_ref()?;
        let has_earlier = spool.rows.first().map_or(!begin.continues, |row| row.step < step);
        let rows = spool.rows.partition_point(|row| row.step < step) as u64;
        let kept = self.rows.filter(|kept| *kept > rows && has_earlier)?;
        Some(format!("{} of {kept} rows before the checkpoint are missing", kept - rows))
    }
}

/// The identity of the run: id and place of an earlier segment stay, the rest may change. A resumed run may name another server.
///
/// # Errors
/// `CONFIG` if an upload is to send a run to another server than its own.
pub(crate) fn identity(
    options: &Options,
    only_upload: bool,
    begin: Option<&Begin>,
    kept: Option<&Kept>,
) -> Result<Identity, PluginError> {
    let mut identity = options.identity.clone();
    let mut server = None;
    if let Some(begin) = begin {
        let before = begin.identity.clone();
        if only_upload {
            check_server(options, before.base_url.as_deref())?;
            let base_url = before.base_url.or(identity.base_url);
            return Ok(Identity { base_url, ..before });
        }
        (identity.run_id, identity.project, identity.entity) = (before.run_id, before.project, before.entity);
        server = before.base_url;
    } else if let Some(kept) = kept {
        identity.run_id.clone_from(&kept.run_id);
        identity.project.clone_from(&kept.project);
        identity.entity.clone_from(&kept.entity);
        server.clone_from(&kept.base_url);
    } else if identity.run_id.is_empty() {
        identity.run_id = new_id();
    }
    if !options.names_server {
        identity.base_url = server.or(identity.base_url);
    }
    Ok(identity)
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
