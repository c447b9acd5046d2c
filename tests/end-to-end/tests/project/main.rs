//! The project's own rules, where a machine can check them: rules of sources, and of dependencies between crates. They
//! need no staged host.

#![allow(clippy::unwrap_used)]

mod citations;
mod commit;
mod kernels;
mod layers;
mod messages;
mod modules;
mod prose;
mod results;
mod signatures;
mod sources;
mod type_names;
mod walkthroughs;

use std::{ffi::OsStr, process::Command};

use altgrad_end_to_end::root;

/// A program that finds the repository of its folder. Git exports the variables of another one to hooks, and so to
/// tests that a hook starts.
fn outside_of_hooks(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR"] {
        command.env_remove(variable);
    }
    command
}
