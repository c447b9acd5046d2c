//! The project's own rules, where a machine can check them: rules of sources, and of dependencies between crates. They need no
//! staged host.

#![allow(clippy::unwrap_used)]

mod commit;
mod layers;
mod messages;
mod results;
mod signatures;
mod sources;
mod walkthroughs;

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The workspace's folder.
fn root() -> PathBuf {
    fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap()
}
