//! The project's own rules, where a machine can check them: its sources, and who may depend on whom. They need no staged host.

#![allow(clippy::unwrap_used)]

mod commit;
mod layers;
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
