//! A name of a public type has one meaning across the workspace.

use std::collections::{BTreeMap, BTreeSet};

use super::sources::files_named;

/// Names that several crates define, with the reason.
const SHARED: &[(&str, &str)] = &[
    ("Alert", "a sink's view of an alert"),
    ("Grid", "a plugin's view of a grid, with the scales of blocks"),
    ("Histogram", "a sink's view of a histogram"),
    ("Matrix", "a plugin's view of a matrix"),
    ("QuantStats", "a plugin's statistics of a call, which the engine adds up with a scale"),
    ("Scaling", "how a scale follows from values, and in the engine also when"),
];

/// Stand-ins for crates, whose types have the names of those that they replace.
const STAND_INS: &str = "host/vendor/";

/// Device code, whose types have the names of those that they are on a device.
const DEVICE_CODE: &str = "plugins/kernel-kit/";

/// The public types of a source by their names.
fn types(text: &str) -> impl Iterator<Item = &str> {
    let defined = text.lines().filter_map(|line| {
        let rest = line.strip_prefix("pub ")?;
        ["struct ", "enum ", "trait ", "union ", "type "].iter().find_map(|word| rest.strip_prefix(word))
    });
    defined.map(|rest| rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap())
}

#[test]
fn a_name_of_a_public_type_has_one_meaning() {
    let is_meant = |path: &str| {
        let others = ["/tests/", "/templates/", "/benches/", "examples/", STAND_INS, DEVICE_CODE];
        path.contains("/src/")
            && !path.starts_with("tests/")
            && !others.iter().any(|part| path.contains(part))
    };
    let mut names = BTreeMap::<String, BTreeSet<String>>::new();
    for (path, text) in files_named(".rs").into_iter().filter(|(path, _)| is_meant(path)) {
        for name in types(&text) {
            names.entry(name.to_string()).or_default().insert(path.clone());
        }
    }
    assert!(names.len() > 500, "only {} types found", names.len());
    names.retain(|_, files| files.len() > 1);
    let listed = |name: &str| SHARED.iter().any(|(shared, _)| *shared == name);
    let several: Vec<String> = names
        .iter()
        .filter(|(name, _)| !listed(name))
        .map(|(name, files)| format!("{name}: {}", files.iter().cloned().collect::<Vec<_>>().join(", ")))
        .collect();
    assert!(several.is_empty(), "rename all but one, or list the reason:\n{}", several.join("\n"));
    let is_single = |(name, _): &&(&str, &str)| !names.contains_key(*name);
    let single: Vec<&str> = SHARED.iter().filter(is_single).map(|(name, _)| *name).collect();
    assert!(single.is_empty(), "one definition is left, so remove from the list: {single:?}");
}

#[test]
fn types_are_found_by_their_definitions() {
    let text = "pub struct A<'a> {\npub(crate) enum B {\n    pub type C = u8;\npub trait D: E {\npub type F = u8;\n/// pub struct G\n";
    assert_eq!(types(text).collect::<Vec<_>>(), ["A", "D", "F"]);
}
