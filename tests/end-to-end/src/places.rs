//! The files that tests use: the workspace, the staged host and its plugins, what cargo built beside them, and
//! fixtures.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The workspace's folder.
#[must_use]
pub fn root() -> PathBuf {
    fs::canonicalize(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).expect("the workspace")
}

/// The folder of the staged host: `altgrad-host` and `plugins`.
#[must_use]
pub fn stage() -> PathBuf {
    std::env::var_os("ALTGRAD_STAGE")
        .map(PathBuf::from)
        .expect("ALTGRAD_STAGE is not set: run these tests with `cargo xtask test`")
}

/// A library of the workspace that is no plugin of the project (fixtures, examples): packed with the stage, or as cargo
/// built it beside the stage.
///
/// # Panics
/// It is of an example that is gone: cargo keeps its library, which a fresh clone lacks.
#[must_use]
pub fn built(library: &str) -> PathBuf {
    let packed = stage().join(library);
    if packed.is_file() {
        return packed;
    }
    if let Some(example) = library.strip_prefix("libaltgrad_example_") {
        let suffix = format!("-{}", example.trim_end_matches(".so"));
        let mut examples = fs::read_dir(root().join("examples")).expect("the examples").flatten();
        let is_there = examples.any(|entry| entry.file_name().to_string_lossy().ends_with(&suffix));
        assert!(is_there, "no folder of examples ends in {suffix}");
    }
    stage().parent().expect("the target folder").join("debug").join(library)
}

/// A staged plugin.
#[must_use]
pub fn plugin(name: &str) -> PathBuf {
    stage().join("plugins").join(name)
}

/// A file of this crate's fixtures.
#[must_use]
pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}
