//! Every type of the plugin interface as text, compared with `plugin-api/ABI.txt`: a change needs a new version.
//!
//! abi_stable compares this text when a library is loaded: sizes, alignments, fields and their types in order,
//! variants, functions and their parameters. A removed or changed line breaks existing libraries, and needs a new major
//! version; added lines need a new minor one. Before 1.0 either needs a new minor version. After moving the version:
//!
//! ```text
//! ALTGRAD_BLESS=1 cargo test -p altgrad-plugin-api --test abi_snapshot
//! ```

#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    collections::{BTreeMap, HashSet},
    fmt::Write as _,
    fs,
    path::Path,
};

use altgrad_plugin_api::abi::{
    ENTRY_SYMBOL, PluginModuleRef, ServicesObject,
    stable::{
        StableAbi,
        type_layout::{TLData, TLField, TypeLayout},
    },
};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Blocks of text by type, of this crate's types only: `abi_stable` is pinned.
#[derive(Default)]
struct Types {
    seen: HashSet<*const TypeLayout>,
    blocks: BTreeMap<String, String>,
}

impl Types {
    fn visit(&mut self, layout: &'static TypeLayout) {
        if !self.seen.insert(layout) {
            return;
        }
        if layout.package() == env!("CARGO_PKG_NAME") {
            // The module of a type is not part of its layout, but for those that are generated for an interface.
            let interface = layout.mod_path().to_string();
            let interface = interface.rsplit("::").next().filter(|name| name.ends_with("_trait"));
            let name = [interface.unwrap_or_default(), &layout.full_type().to_string()].join(" ");
            self.blocks.insert(name.trim_start().to_string(), block(layout));
        }
        for inner in layout.shared_vars().type_layouts() {
            self.visit(inner());
        }
        if let Some(checks) = layout.extra_checks() {
            for &inner in &*checks.nested_type_layouts() {
                self.visit(inner);
            }
        }
    }
}

/// A type's own lines. Those of a type that may grow at its end do not say how long it is.
fn block(layout: &'static TypeLayout) -> String {
    let size = format!("size {} align {} {:?}", layout.size(), layout.alignment(), layout.repr_attr());
    let lines = match layout.data() {
        TLData::Primitive(kind) => format!("{size} primitive {kind:?}\n"),
        TLData::Opaque => format!("{size} opaque\n"),
        TLData::Struct { fields } => format!("{size} struct\n{}", lines(fields.iter())),
        TLData::Union { fields } => format!("{size} union\n{}", lines(fields.iter())),
        TLData::Enum(variants) => {
            let mut text = format!("{size} enum {:?}\n", variants.discriminants.discriminant_repr());
            let mut fields = variants.fields.iter();
            for (name, count) in variants.variant_names_iter().zip(variants.field_count.iter()) {
                writeln!(text, "    variant {name}").unwrap();
                text.push_str(&lines(fields.by_ref().take(usize::from(*count))));
            }
            text
        }
        TLData::PrefixType(prefix) => {
            let first = prefix.first_suffix_field;
            format!("prefix, {first} fields from the start\n{}", lines(prefix.fields.iter()))
        }
    };
    lines + &lines_of_phantoms(layout)
}

fn lines_of_phantoms(layout: &'static TypeLayout) -> String {
    layout.phantom_fields().iter().fold(String::new(), |mut text, field| {
        writeln!(text, "    phantom {}: {}", field.name(), shown(field.layout())).unwrap();
        text
    })
}

/// A type's name. Names of generic types of other crates lack their parameters, so these are added: in order, each
/// once.
fn shown(layout: &'static TypeLayout) -> String {
    let mut held = Vec::new();
    leaves(layout, &mut HashSet::new(), &mut held);
    let name = named(layout);
    if held == [name.clone()] { name } else { format!("{name} of [{}]", held.join(", ")) }
}

/// This crate's types and the primitive ones that a type is made of.
fn leaves(layout: &'static TypeLayout, seen: &mut HashSet<*const TypeLayout>, held: &mut Vec<String>) {
    if layout.package() == env!("CARGO_PKG_NAME") || matches!(layout.data(), TLData::Primitive(_)) {
        let name = named(layout);
        if !held.contains(&name) {
            held.push(name);
        }
    } else if seen.insert(layout) {
        for inner in layout.shared_vars().type_layouts() {
            leaves(inner(), seen, held);
        }
    }
}

fn named(layout: &'static TypeLayout) -> String {
    layout.full_type().to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn lines(fields: impl Iterator<Item = TLField>) -> String {
    let mut text = String::new();
    for field in fields {
        writeln!(text, "    {}: {}", field.name(), shown(field.layout())).unwrap();
        for function in field.function_range().iter() {
            let said = function.to_string();
            writeln!(text, "        {}", said.split_whitespace().collect::<Vec<_>>().join(" ")).unwrap();
            for parameter in function.param_type_layouts.iter() {
                writeln!(text, "            takes {}", shown(parameter())).unwrap();
            }
            if let Some(returned) = function.return_type_layout() {
                writeln!(text, "            gives {}", shown(returned())).unwrap();
            }
        }
    }
    text
}

fn rendered() -> String {
    let mut types = Types::default();
    types.visit(PluginModuleRef::LAYOUT);
    types.visit(ServicesObject::LAYOUT);
    let blocks = types.blocks.into_iter().map(|(name, block)| format!("\n{name}\n{block}"));
    format!("plugin-api {VERSION}\nentry {ENTRY_SYMBOL}\n{}", blocks.collect::<String>())
}

/// True if a host of interface `new` can load libraries of interface `old`: `new` has every line of `old`, in order.
fn only_grown(old: &str, new: &str) -> bool {
    let mut new = new.lines().skip(1);
    old.lines().skip(1).all(|line| new.any(|other| other == line))
}

/// Why `old` may not be replaced by `new`.
fn refusal(old: &str, new: &str) -> Option<String> {
    let version =
        |text: &str| text.lines().next().and_then(|line| line.split(' ').nth(1).map(str::to_string));
    let (before, now) = (version(old)?, version(new)?);
    let major = |version: &str| version.split('.').next().map(str::to_string);
    let minor = |version: &str| version.split('.').nth(1).map(str::to_string);
    let breaking = if major(&now).as_deref() == Some("0") { "minor" } else { "major" };
    if old.split_once('\n')?.1 == new.split_once('\n')?.1 {
        return None;
    }
    if major(&before) != major(&now) || (breaking == "minor" && minor(&before) != minor(&now)) {
        return None;
    }
    if !only_grown(old, new) {
        return Some(format!(
            "a crossing type changed so that libraries of {before} break: move the {breaking} version"
        ));
    }
    (minor(&before) == minor(&now))
        .then(|| format!("crossing types have grown since {before}: move the minor version"))
}

#[test]
fn crossing_types_change_only_with_the_version() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("ABI.txt");
    let (old, new) = (fs::read_to_string(&path).unwrap_or_default(), rendered());
    assert!(new.lines().count() > 200, "most types are missing:\n{new}");
    if old == new {
        return;
    }
    let differs = old.lines().zip(new.lines()).skip(1).find(|(old, new)| old != new);
    if let Some(refusal) = refusal(&old, &new) {
        panic!("{refusal} in plugin-api/Cargo.toml (first difference, before and now: {differs:?})");
    }
    assert!(
        std::env::var_os("ALTGRAD_BLESS").is_some(),
        "{} is out of date: see this test's first lines",
        path.display()
    );
    fs::write(&path, new).unwrap();
}

#[test]
fn what_has_grown_needs_a_minor_version_and_what_changed_a_major_one() {
    let text = |version: &str, lines: &str| format!("plugin-api {version}\nentry e\n{lines}");
    let rows = [
        ("1.0.0", "1.0.0", "a\nb\nc\n", None),
        ("1.0.0", "1.0.1", "a\nb\nc\n", None),
        ("1.0.0", "1.1.0", "a\nb\nnew\nc\n", None),
        ("1.0.0", "1.0.1", "a\nb\nnew\nc\n", Some("minor")),
        ("1.0.0", "1.1.0", "a\nB\nc\n", Some("major")),
        ("1.0.0", "1.1.0", "b\na\nc\n", Some("major")),
        ("1.0.0", "1.1.0", "a\nb\n", Some("major")),
        ("1.0.0", "2.0.0", "a\n", None),
        ("0.1.0", "0.1.1", "a\nB\nc\n", Some("minor")),
        ("0.1.0", "0.1.1", "a\nb\nnew\nc\n", Some("minor")),
        ("0.1.0", "0.2.0", "a\n", None),
        ("0.1.0", "1.0.0", "a\n", None),
    ];
    for (before, version, lines, which) in rows {
        let refusal = refusal(&text(before, "a\nb\nc\n"), &text(version, lines));
        let says =
            |which| refusal.as_ref().is_some_and(|text| text.contains(&format!("the {which} version")));
        assert!(which.map_or(refusal.is_none(), says), "{before} {version} {lines:?}: {refusal:?}");
    }
}
