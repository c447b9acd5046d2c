//! Plugins of others: other compilers, other versions of the API, C, and the suite that checks them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod c_plugin;
mod check;
mod damaged;
mod foreign;
mod format_files;
mod formats;
mod install;
mod optimizers;
mod other_compiler;
mod overwritten;
mod panics;
mod third_party;
mod trust;
