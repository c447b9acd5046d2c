//! The module graph of every crate has no cycle.
//!
//! The nodes are the modules beside each other in one folder, each with all modules below it. An edge is a path that
//! names an item of the other module; a re-export counts as the module of the item itself. A module and those below it
//! may use each other, and tests may use anything.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::Path,
    process::Command,
};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use serde_json::Value;

/// A module by its place in [`Crate::modules`].
type Id = usize;

/// A path in a source, such as `super::grid::Grid`.
type Segments = Vec<String>;

/// An import: the name that it gives (`*` for all names), its path, and whether it is visible outside.
struct Import {
    name: String,
    path: Segments,
    is_public: bool,
}

/// A module without its tests.
#[derive(Default)]
struct Module {
    /// The names from the crate's root to it.
    path: Segments,
    parent: Option<Id>,
    children: BTreeMap<String, Id>,
    imports: Vec<Import>,
    /// Names that it defines.
    items: BTreeSet<String>,
    /// Paths of two or more segments outside of imports.
    paths: Vec<Segments>,
}

/// A crate's modules, the root first.
#[derive(Default)]
struct Crate {
    modules: Vec<Module>,
}

impl Crate {
    /// Reads a crate from its root file.
    fn read(root: &Path) -> Self {
        let mut all = Self { modules: vec![Module::default()] };
        all.read_file(0, root, root.parent().unwrap());
        all
    }

    /// Adds a module's file; the files of its modules are in `folder`.
    fn read_file(&mut self, id: Id, file: &Path, folder: &Path) {
        let text = fs::read_to_string(file).unwrap();
        let tokens: TokenStream = text.parse().unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        self.read_tokens(id, tokens, folder);
    }

    fn read_tokens(&mut self, id: Id, tokens: TokenStream, folder: &Path) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let is = |at: usize, text: &str| tokens.get(at).is_some_and(|token| token.to_string() == text);
        let mut at = 0;
        while at < tokens.len() {
            match (&tokens[at], tokens.get(at + 1)) {
                (TokenTree::Punct(mark), Some(TokenTree::Group(attribute))) if mark.as_char() == '#' => {
                    let text = attribute.stream().to_string().replace(' ', "");
                    at += 2;
                    if text.starts_with("cfg(test") || text.starts_with("cfg(all(test") {
                        at = end_of_item(&tokens, at);
                    }
                }
                (TokenTree::Ident(word), Some(TokenTree::Ident(name))) if word == "mod" => {
                    match tokens.get(at + 2) {
                        Some(TokenTree::Group(body)) => {
                            let child = self.add(id, name.to_string());
                            self.read_tokens(child, body.stream(), &folder.join(name.to_string()));
                        }
                        _ => self.read_child(id, name.to_string(), folder),
                    }
                    at += 3;
                }
                (TokenTree::Ident(word), Some(TokenTree::Ident(_) | TokenTree::Punct(_)))
                    if word == "use" =>
                {
                    let end = (at..tokens.len()).find(|at| is(*at, ";")).unwrap_or(tokens.len());
                    let is_public = at > 0 && (is(at - 1, "pub") || (at > 1 && is(at - 2, "pub")));
                    self.import(id, &mut Vec::new(), &tokens[at + 1..end], is_public);
                    at = end;
                }
                (TokenTree::Ident(_), _) => {
                    let mut path = vec![tokens[at].to_string()];
                    let follows = at > 0 && (is(at - 1, ":") || is(at - 1, "."));
                    while let (true, true, Some(TokenTree::Ident(name))) =
                        (is(at + 1, ":"), is(at + 2, ":"), tokens.get(at + 3))
                    {
                        path.push(name.to_string());
                        at += 3;
                    }
                    if path.len() > 1 && !follows {
                        self.modules[id].paths.push(path);
                    } else if let (Some(TokenTree::Ident(name)), true) =
                        (tokens.get(at + 1), DEFINES.contains(&path[0].as_str()))
                    {
                        self.modules[id].items.insert(name.to_string());
                    } else if path[0] == "macro_rules" && is(at + 1, "!") && at + 2 < tokens.len() {
                        self.modules[id].items.insert(tokens[at + 2].to_string());
                    }
                    at += 1;
                }
                (TokenTree::Group(group), _) => {
                    self.read_tokens(id, group.stream(), folder);
                    at += 1;
                }
                _ => at += 1,
            }
        }
    }

    fn add(&mut self, parent: Id, name: String) -> Id {
        let id = self.modules.len();
        let path = [self.modules[parent].path.as_slice(), std::slice::from_ref(&name)].concat();
        self.modules[parent].children.insert(name, id);
        self.modules.push(Module { path, parent: Some(parent), ..Module::default() });
        id
    }

    /// Adds a module with a file of its own; one that lies elsewhere (`#[path]`) has no modules to compare.
    fn read_child(&mut self, parent: Id, name: String, folder: &Path) {
        let below = folder.join(&name);
        let id = self.add(parent, name.clone());
        for file in [folder.join(format!("{name}.rs")), below.join("mod.rs")] {
            if file.exists() {
                return self.read_file(id, &file, &below);
            }
        }
    }

    /// Adds the imports of a tree such as `a::{b, c as d}` below `prefix`.
    fn import(&mut self, id: Id, prefix: &mut Segments, tree: &[TokenTree], is_public: bool) {
        let depth = prefix.len();
        let mut alias = None;
        let mut tokens = tree.iter();
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                    for tree in inner.split(|token| token.to_string() == ",") {
                        self.import(id, prefix, tree, is_public);
                    }
                    prefix.truncate(depth);
                    return;
                }
                TokenTree::Ident(word) if word == "as" => alias = tokens.next().map(ToString::to_string),
                TokenTree::Punct(mark) if mark.as_char() == ':' => {}
                other => prefix.push(other.to_string()),
            }
        }
        if prefix.len() > depth {
            let mut path = prefix.clone();
            if path.last().is_some_and(|last| last == "self" || last == "*") {
                let last = path.pop();
                alias = last.filter(|last| last == "*").or(alias);
            }
            let name = alias.or_else(|| path.last().cloned()).unwrap_or_default();
            self.modules[id].imports.push(Import { name, path, is_public });
        }
        prefix.truncate(depth);
    }

    /// The module that defines what a path in `from` names; `None` for items of other crates.
    fn resolve(&self, from: Id, path: &[String], depth: usize) -> Option<Id> {
        let (first, mut rest) = path.split_first()?;
        let mut module = match first.as_str() {
            "crate" => 0,
            "self" => from,
            "super" => self.modules[from].parent?,
            name => {
                let module = &self.modules[from];
                let is_known = module.children.contains_key(name)
                    || module.imports.iter().any(|import| import.name == name);
                rest = path;
                is_known.then_some(from)?
            }
        };
        while rest.first().is_some_and(|name| name == "super") {
            module = self.modules[module].parent?;
            rest = &rest[1..];
        }
        while let Some((name, after)) = rest.split_first() {
            let here = &self.modules[module];
            if let Some(child) = here.children.get(name) {
                (module, rest) = (*child, after);
                continue;
            }
            if here.items.contains(name) || depth > 8 {
                return Some(module);
            }
            let named = here
                .imports
                .iter()
                .filter(|import| import.name == *name && import.path.len() + after.len() > 1);
            let mut is_imported = false;
            for import in named {
                is_imported = true;
                let path = [&import.path, after].concat();
                if let Some(found) = self.resolve(module, &path, depth + 1) {
                    return Some(found);
                }
            }
            if is_imported {
                return None;
            }
            let all = here.imports.iter().filter(|import| import.name == "*");
            let found = all.filter_map(|import| {
                self.resolve(module, &[&import.path, rest].concat(), depth + 1)
                    .filter(|found| *found != module)
            });
            return found.into_iter().next().or(Some(module));
        }
        Some(module)
    }

    /// The modules that each module uses, other than those on the way to the root and those below it.
    fn edges(&self) -> BTreeMap<(Segments, Segments), String> {
        let mut edges = BTreeMap::new();
        for (id, module) in self.modules.iter().enumerate() {
            let is_facade =
                |import: &Import, to: Id| import.is_public && self.modules[to].path.starts_with(&module.path);
            let imports = module.imports.iter().filter_map(|import| {
                let to = self.resolve(id, &import.path, 0)?;
                (!is_facade(import, to)).then_some((to, &import.path))
            });
            let paths = module.paths.iter().filter_map(|path| Some((self.resolve(id, path, 0)?, path)));
            for (to, path) in imports.chain(paths) {
                let (from, to) = (&module.path, &self.modules[to].path);
                let shared = from.iter().zip(to).take_while(|(a, b)| a == b).count();
                if shared < from.len().min(to.len()) {
                    let ends = [&from[..=shared], &to[..=shared]].map(<[String]>::to_vec);
                    let [from_end, to_end] = ends;
                    let example = format!("{} names {}", from.join("::"), path.join("::"));
                    edges.entry((from_end, to_end)).or_insert(example);
                }
            }
        }
        edges
    }

    /// The edges that lie on cycles, in words.
    fn cycles(&self) -> Vec<String> {
        let edges = self.edges();
        let reaches = |from: &Segments, to: &Segments| {
            let (mut known, mut open) = (BTreeSet::new(), vec![from]);
            while let Some(at) = open.pop() {
                let next = edges.keys().filter(|(start, _)| start == at).map(|(_, end)| end);
                open.extend(next.filter(|next| known.insert(*next)));
            }
            known.contains(to)
        };
        let on_cycle = edges.iter().filter(|((from, to), _)| reaches(to, from));
        on_cycle
            .map(|((from, to), example)| format!("{} -> {}: {example}", from.join("::"), to.join("::")))
            .collect()
    }
}

/// Words before the name of an item.
const DEFINES: [&str; 9] = ["const", "enum", "fn", "macro", "static", "struct", "trait", "type", "union"];

/// The place after the item that begins at `at`, its further attributes included.
fn end_of_item(tokens: &[TokenTree], mut at: usize) -> usize {
    while tokens.get(at).is_some_and(|token| token.to_string() == "#") {
        at += 2;
    }
    let words = tokens[at..].iter().take(3).map(ToString::to_string);
    let ends_with_semicolon =
        words.into_iter().any(|word| ["use", "const", "static", "type", "let"].contains(&word.as_str()));
    let is_end = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace && !ends_with_semicolon,
        token => token.to_string() == ";" || (token.to_string() == "," && !ends_with_semicolon),
    };
    (at..tokens.len()).find(|at| is_end(&tokens[*at])).map_or(tokens.len(), |end| end + 1)
}

#[test]
fn modules_of_a_crate_do_not_depend_on_each_other_in_a_cycle() {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]).current_dir(super::root());
    let metadata: Value = serde_json::from_slice(&cargo.output().unwrap().stdout).unwrap();
    let (mut cycles, mut modules) = (Vec::new(), 0);
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        let targets = package["targets"].as_array().unwrap().iter();
        let roots =
            targets.map(|target| target["src_path"].as_str().unwrap()).filter(|path| path.contains("/src/"));
        let mut found = Vec::new();
        for root in roots {
            let read = Crate::read(Path::new(root));
            modules += read.modules.len();
            found.extend(read.cycles());
        }
        if !found.is_empty() {
            cycles.push(format!("{name}:\n  {}", found.join("\n  ")));
        }
    }
    assert!(modules > 500, "only {modules} modules found");
    assert!(cycles.is_empty(), "\n{}\n", cycles.join("\n"));
}

#[test]
fn cycles_are_found_through_re_exports_and_paths_but_not_in_tests() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("lib.rs", "mod a; mod b; mod c; mod d; pub use b::{B, inner::X as Y};");
    write("a.rs", "use crate::{Y, d}; pub struct A; fn f() { d::run() }");
    write("b.rs", "pub struct B(super::a::A); pub mod inner { pub struct X; }");
    write("c.rs", "use super::B; pub fn go() {}\n#[cfg(test)]\nmod tests { use crate::d::run; }");
    write("d.rs", "//! use crate::a::A;\npub fn run() { let _ = \"crate::a::A\"; crate::c::go::<u8>() }");
    let cycles = Crate::read(&folder.path().join("lib.rs")).cycles();
    insta::assert_snapshot!(cycles.join("\n"), @r"
    a -> b: a names crate::Y
    a -> d: a names crate::d
    b -> a: b names super::a::A
    c -> b: c names super::B
    d -> c: d names crate::c::go
    ");
}
