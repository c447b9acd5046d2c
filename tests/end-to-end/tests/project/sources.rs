//! Rules of all sources: the first line of a file, its length, the files with `unsafe`, how tests report skips, and
//! forbidden dependencies.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use super::root;

/// The only files with `unsafe`, from the root; each uses it.
const UNSAFE: [&str; 14] = [
    "host/cli/src/ffi.rs",
    // Shared memory, `fork` and signal handlers.
    "host/cli/src/supervise/ffi.rs",
    "host/conformance/src/guarded.rs",
    "host/engine/src/matrix.rs",
    // The replay of launches.
    "host/engine/src/passes/recorder.rs",
    // cuBLASLt.
    "host/engine/src/tensor/cublaslt/ffi.rs",
    "host/loader/src/ffi.rs",
    "host/loader/src/ffi/c_memory.rs",
    "host/loader/src/ffi/c_plugins.rs",
    "host/loader/src/ffi/c_table.rs",
    "plugin-api/src/export.rs",
    "plugin-api/src/tensor.rs",
    // Memory of arrays.
    "python/src/ffi.rs",
    // A plugin that oversteps on purpose.
    "tests/fixtures/trespasser/src/memory.rs",
];
/// No source file is longer, tests included.
const MOST_LINES: usize = 500;

/// Every Rust source of the project, path from the root and text.
fn sources() -> Vec<(String, String)> {
    let sources = files_named(".rs");
    assert!(sources.len() > 50, "only {} sources found", sources.len());
    sources
}

/// Every file of the project whose name ends so, path from the root and text.
pub(super) fn files_named(end: &str) -> Vec<(String, String)> {
    fn walk(folder: &Path, end: &str, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                walk(&path, end, found);
            } else if name.ends_with(end) {
                found.push(path);
            }
        }
    }
    let mut paths = Vec::new();
    walk(&root(), end, &mut paths);
    paths
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(root()).unwrap().display().to_string();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect()
}

#[test]
fn every_source_opens_with_its_documentation_and_has_at_most_500_lines() {
    for (path, text) in sources() {
        assert!(text.starts_with("//! "), "{path} does not open with `//!`");
        let lines = text.lines().count();
        assert!(lines <= MOST_LINES, "{path} has {lines} lines");
        let is_long = |line: &&str| line.trim_start().starts_with("//") && line.chars().count() > 120;
        assert_eq!(text.lines().find(is_long), None, "{path}: wrap comments at 120 characters");
    }
}

/// The number of lines of code that use `unsafe`.
fn unsafe_lines(text: &str) -> usize {
    // Split, so that this file does not find itself.
    let keyword = ["un", "safe"].concat();
    let kinds = [" {", " fn", " impl", " extern", " trait"].map(|what| format!("{keyword}{what}"));
    let attribute = format!("#[{keyword}(");
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let uses =
        |line: &&str| line.contains(&attribute) || kinds.iter().any(|kind| line.contains(kind.as_str()));
    code.filter(uses).count()
}

/// `cargo xtask test --all` runs all ignored tests but those on demand, which it knows by their names.
#[test]
fn ignored_tests_name_their_tier() {
    let mark = concat!("#[", "ignore");
    for (path, text) in sources() {
        for (at, _) in text.match_indices(mark) {
            let rest = &text[at + mark.len()..];
            let name = rest.split("fn ").nth(1).unwrap_or_default();
            let is_on_demand = rest.starts_with(" = \"on demand: ");
            assert!(
                is_on_demand || rest.starts_with(" = \"--all: "),
                "{path}: {}",
                &rest[..60.min(rest.len())]
            );
            assert_eq!(
                is_on_demand,
                name.starts_with("on_demand"),
                "{path}: {}",
                &name[..60.min(name.len())]
            );
        }
    }
}

#[test]
fn unsafe_code_is_only_in_the_files_that_may_have_it() {
    let mut found = BTreeSet::new();
    for (path, text) in sources() {
        let count = unsafe_lines(&text);
        assert!(count == 0 || UNSAFE.contains(&path.as_str()), "{path} has {count} uses of `unsafe`");
        if count > 0 {
            found.insert(path);
        }
    }
    let unused: Vec<_> = UNSAFE.iter().filter(|path| !found.contains(**path)).collect();
    assert!(unused.is_empty(), "files without `unsafe` are listed: {unused:?}");
}

/// Macros whose text the test harness shows for failed tests only, called with a text that reports a skip.
fn captured_skips(text: &str) -> usize {
    // Split, so that this file does not find itself; `eprintln!` ends so too.
    let (begin, skip) = (["println", "!("].concat(), ["\"SKIP", "PED"].concat());
    text.split(&begin).skip(1).filter(|argument| argument.trim_start().starts_with(&skip)).count()
}

#[test]
fn a_skip_is_reported_past_the_harness() {
    for (path, text) in sources() {
        // No harness captures the output of benchmarks.
        let captured = if path.contains("/benches/") { 0 } else { captured_skips(&text) };
        assert_eq!(
            captured, 0,
            "{path}: report a skip with `writeln!(io::stderr(), ...)`, as `skipped` does"
        );
    }
    let said =
        "PRINT!(\"SKIPPED: x\"); ePRINT!(\n    \"SKIPPED {x}\"\n); PRINT!(\"x\"); writeln!(e, \"SKIPPED\");";
    assert_eq!(captured_skips(&said.replace("PRINT", "println")), 2);
}

/// True if a file is code of a plugin: no test, and no program.
fn is_of_a_plugin(path: &str) -> bool {
    let of_plugins = path.starts_with("plugins/") || path.starts_with("examples/");
    let others = ["/tests/", "/tests.rs", "/testing/", "plugins/kernel-generator/"];
    of_plugins && path.contains("/src/") && !others.iter().any(|part| path.contains(part))
}

#[test]
fn plugins_do_not_panic_where_their_output_cannot_be_written() {
    let print = ["print", "ln!("].concat();
    let plugins = sources().into_iter().filter(|(path, _)| is_of_a_plugin(path));
    for (path, text) in plugins {
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        assert!(!code.contains(&print), "{path}: `{print}` panics; ignore the error of `write_all`");
    }
}

/// Let chains, which need Rust 1.88.
fn let_chains(text: &str) -> usize {
    let conditions = text.split("if ").skip(1).filter_map(|rest| rest.split(['{', ';']).next());
    let is_chain = |condition: &&str| {
        condition.starts_with("let ") && condition.contains("&& ") || condition.contains("&& let ")
    };
    conditions.filter(is_chain).count()
}

/// `rust-version` of plugin-api and of the templates is 1.87.
#[test]
fn authors_of_plugins_need_no_let_chains() {
    let of_authors = |path: &str| path.starts_with("plugin-api/") || path.starts_with("host/cli/templates/");
    for (path, text) in sources().into_iter().filter(|(path, _)| of_authors(path)) {
        assert_eq!(let_chains(&text), 0, "{path}: nest the conditions");
    }
    let chains =
        "if let Some(x) = y\n    && x > 0\n{} if a && let Some(x) = y {} if let Some(x) = y {} if a && b {}";
    assert_eq!(let_chains(chains), 2);
}

/// The only file that may take something from the library that loads and checks plugins: it is quiet upstream, and may
/// have to be replaced one day.
const STABLE: &str = "plugin-api/src/stable.rs";

/// Lines of code that name a crate; comments and strings are excluded.
fn naming(text: &str, crate_name: &str) -> Vec<String> {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    let path = [crate_name, "::"].concat();
    let imports = ["use ", "extern crate "].map(|what| [what, crate_name].concat());
    let names =
        |line: &&str| line.contains(&path) || imports.iter().any(|import| line.contains(import.as_str()));
    code.filter(names).map(|line| line.trim().to_string()).collect()
}

#[test]
fn abi_stable_is_named_in_one_module() {
    let crate_name = ["abi", "_stable"].concat();
    for (path, text) in sources() {
        let lines = naming(&text, &crate_name);
        assert!(path == STABLE || lines.is_empty(), "{path}: take it from `{STABLE}`: {lines:#?}");
        assert!(path != STABLE || !lines.is_empty(), "{path} names it no more: is it gone?");
    }
    // Nor does any other crate depend on it; authors copy templates and examples.
    for (path, text) in files_named("Cargo.toml") {
        let depends = text.lines().any(|line| line.starts_with(&crate_name) && !line.contains("opt-level"));
        let may = ["Cargo.toml", "plugin-api/Cargo.toml"].contains(&path.as_str());
        assert_eq!(depends, may, "{path}");
    }
    assert_eq!(
        naming(
            &"let x: NAME::RVec; // NAME::y\nuse NAME as a;\n// NAME::z".replace("NAME", &crate_name),
            &crate_name
        )
        .len(),
        2
    );
}

#[test]
fn plugin_api_depends_on_no_tensor_library_and_the_build_on_no_llvm_and_no_database() {
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
    let databases = lock.lines().filter(|line| line.starts_with("name = \"turso"));
    assert_eq!(databases.collect::<Vec<_>>(), ["name = \"turso\""], "only the stand-in may be there");
}
