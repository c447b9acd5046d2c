//! The page about writing plugins shows every method of the three traits as the source has it.

use std::{collections::BTreeSet, fs};

use super::root;

/// The traits an author implements, and their files.
const TRAITS: [(&str, &str); 3] = [
    ("Format", "plugin-api/src/contract/format.rs"),
    ("Optimizer", "plugin-api/src/contract/optimizer.rs"),
    ("Sink", "plugin-api/src/contract/sink.rs"),
];

/// On one line: white space counts for one blank, none next to brackets, and no comma closes a list.
fn one_line(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    words.replace("( ", "(").replace(", )", ")").replace(",)", ")").replace(" )", ")")
}

/// The methods of a trait: each from its `fn` up to its body or the end of the line's statement; comments left out.
fn methods(source: &str, name: &str) -> BTreeSet<String> {
    let (_, rest) = source.split_once(&format!("pub trait {name}:")).unwrap();
    let body = &rest[..rest.find("\n}").unwrap()];
    let code: Vec<&str> = body.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    let starts = code.match_indices("\n    fn ").map(|(at, _)| at);
    starts.map(|at| one_line(code[at..].split([';', '{']).next().unwrap())).collect()
}

#[test]
fn the_page_about_plugins_has_every_signature() {
    let page = fs::read_to_string(root().join("docs/plugins.md")).unwrap();
    for (name, path) in TRAITS {
        let source = fs::read_to_string(root().join(path)).unwrap();
        let due = methods(&source, name);
        assert!(due.len() >= 6, "only {} methods of {name}", due.len());
        let open = format!("pub trait {name}:");
        let block = page.split("```").find(|block| block.starts_with("rust\n") && block.contains(&open));
        let block = block.unwrap_or_else(|| panic!("docs/plugins.md shows no `{open}`"));
        assert_eq!(methods(block, name), due, "docs/plugins.md and {path} differ");
    }
}
