//! The identity of the run on the server, over all its segments: from the spool, else the checkpoint, else the options.

use std::hash::{BuildHasher, RandomState};

use altgrad_plugin_api::RunInfo;
use serde::{Deserialize, Serialize};

use crate::{
    index::Begin,
    journal::now,
    options::{Identity, Options},
};

/// The state that a resumed run needs if the spool is gone: no secrets.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub run_id: String,
    pub project: String,
    pub entity: Option<String>,
    /// True if the server's run was made, or continued, from here.
    pub claimed: bool,
    pub runtime: f64,
}

/// The identity of the run: id and place of an earlier segment stay, the rest may change.
pub(crate) fn identity(
    options: &Options,
    run: &RunInfo<'_>,
    only_upload: bool,
    begin: Option<&Begin>,
    kept: Option<&Kept>,
) -> Identity {
    let mut identity = options.identity.clone();
    identity.display_name.get_or_insert_with(|| run.name.to_string());
    if let Some(begin) = begin {
        let before = begin.identity.clone();
        if only_upload {
            return before;
        }
        (identity.run_id, identity.project, identity.entity) = (before.run_id, before.project, before.entity);
    } else if let Some(kept) = kept {
        identity.run_id.clone_from(&kept.run_id);
        identity.project.clone_from(&kept.project);
        identity.entity.clone_from(&kept.entity);
    } else if identity.run_id.is_empty() {
        identity.run_id = new_id();
    }
    identity
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
