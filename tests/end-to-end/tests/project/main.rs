//! The project's own rules, where a machine can check them.

#![allow(clippy::unwrap_used)]

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The only files with `unsafe`: the host's one module, the views and the export line of plugin-api.
const UNSAFE: [&str; 4] =
    ["host/src/raw.rs", "host/src/raw/c_table.rs", "plugin-api/src/tensor.rs", "plugin-api/src/export.rs"];
/// A frozen copy of plugin-api, with its two.
const FROZEN: &str = "tests/fixtures/api-1.0.0/";
/// No source file is longer, tests included.
const MOST_LINES: usize = 500;

fn root() -> PathBuf {
    fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap()
}

/// Every Rust source of the project, path from the root and text.
fn sources() -> Vec<(String, String)> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                walk(&path, found);
            } else if name.ends_with(".rs") {
                found.push(path);
            }
        }
    }
    let mut paths = Vec::new();
    walk(&root(), &mut paths);
    assert!(paths.len() > 50, "only {} sources found", paths.len());
    paths
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(root()).unwrap().display().to_string();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect()
}

#[test]
fn every_file_opens_by_saying_what_it_is_and_stays_small() {
    for (path, text) in sources() {
        assert!(text.starts_with("//! "), "{path} does not open with `//!`");
        let lines = text.lines().count();
        assert!(lines <= MOST_LINES, "{path} has {lines} lines");
    }
}

#[test]
fn unsafe_stays_in_its_rooms() {
    // Split, so that this file does not find itself.
    let keyword = ["un", "safe"].concat();
    for (path, text) in sources() {
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let kinds = [" {", " fn", " impl", " extern", " trait"].map(|what| format!("{keyword}{what}"));
        let attribute = format!("#[{keyword}(");
        let uses = code.filter(|line| {
            line.contains(&attribute) || kinds.iter().any(|kind| line.contains(kind.as_str()))
        });
        let count = uses.count();
        let original = path.strip_prefix(FROZEN).unwrap_or(&path);
        assert!(count == 0 || UNSAFE.contains(&original), "{path} has {count} uses");
    }
}

#[test]
fn plugin_api_depends_on_no_tensor_library_and_the_build_on_no_llvm() {
    let manifest = fs::read_to_string(root().join("plugin-api/Cargo.toml")).unwrap();
    for library in ["burn", "cubecl", "ndarray", "tch"] {
        assert!(!manifest.contains(library), "plugin-api names {library}");
    }
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    // `windows_*_gnullvm` are import libraries of Windows, not LLVM.
    let names = lock.lines().filter(|line| line.starts_with("name = ") && !line.contains("windows_"));
    let llvm = names.filter(|line| line.contains("llvm") || line.contains("mlir"));
    assert_eq!(llvm.collect::<Vec<_>>(), ["name = \"cubecl-llvm\""], "only the stand-in may be there");
    let entry = lock.split("[[package]]").find(|entry| entry.contains("name = \"cubecl-llvm\"")).unwrap();
    assert!(!entry.contains("source = "), "cubecl-llvm must be the stand-in of host/vendor");
}
