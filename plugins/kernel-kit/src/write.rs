//! Writes the texts of a format and their table where the compiler of the plugin finds them.

use std::{collections::BTreeMap, env, fs, path::Path};

use altgrad_plugin_api::{
    InfoField, InfoKind, KernelBuffer, KernelLanguage, MergeRule,
    kernel::{rules::Rule, table::Limit},
};
use cubecl_core::prelude::KernelDefinition;

use crate::{
    expand::{self, Expanded, MAX_VECTOR},
    recipe::{Access, Buffer, Kernel, Recipe, Scalar, Words},
    rounder::{Mode, Rounder},
    tally::UNITS,
    update::recipe::Update,
};

/// The best compression there is: the time is the build's.
const DEFLATE_LEVEL: u8 = 10;

/// For build scripts: compiles all kernels of one format and writes `kernels.rs` into `OUT_DIR`.
///
/// That file is an expression of type `&'static [Text]`, the plugin's table of
/// [texts](altgrad_plugin_api::kernel::table::Text).
///
/// # Panics
/// If a kernel does not compile or a file cannot be written: the build fails with that message.
pub fn build<R: Rounder>() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/kernel.rs");
    let Some(dir) = env::var_os("OUT_DIR") else { panic!("OUT_DIR is not set: this is for build scripts") };
    write::<R>(Path::new(&dir), "kernels");
}

/// The same for an optimizer that updates by these rules of the project's own.
///
/// # Panics
/// As [`build`].
pub fn build_updates(rules: &[Rule]) {
    println!("cargo::rerun-if-changed=build.rs");
    let Some(dir) = env::var_os("OUT_DIR") else { panic!("OUT_DIR is not set: this is for build scripts") };
    write_updates(Path::new(&dir), "kernels", rules);
}

/// Compiles all kernels of one format and writes `{name}.rs` and the files it includes into `dir`, the `OUT_DIR` of
/// whoever includes it.
///
/// # Panics
/// As [`build`].
pub fn write<R: Rounder>(dir: &Path, name: &str) {
    let modes = |kernel: Kernel| Mode::ALL.into_iter().take(if kernel.rounds() { 4 } else { 1 });
    let kernels = Kernel::ALL.into_iter().flat_map(|kernel| modes(kernel).map(move |mode| (kernel, mode)));
    write_table(dir, name, kernels.collect::<Vec<_>>(), |(kernel, mode), vector| {
        (kernel.recipe(mode), expand::format::<R>(kernel, mode, vector))
    });
}

/// Compiles the kernels of some update rules, what they prepare and the counting, as [`write()`] does a format's.
///
/// # Panics
/// As [`build`].
pub fn write_updates(dir: &Path, name: &str, rules: &[Rule]) {
    let steps = rules.iter().map(|&rule| Update::Step(rule));
    let prepare = rules.contains(&Rule::Power).then_some(Update::Prepare);
    let kernels = steps.chain(prepare).chain([Update::Count]);
    write_table(dir, name, kernels.collect(), |kernel, vector| {
        (kernel.recipe(), expand::update(kernel, vector))
    });
}

/// Writes the table of some kernels in both languages, for vectors of 4 and of 1.
fn write_table<K: Copy>(
    dir: &Path,
    name: &str,
    kernels: Vec<K>,
    define: impl Fn(K, usize) -> (Recipe, KernelDefinition),
) {
    let mut files = Files { dir, name, written: BTreeMap::new() };
    let mut code = String::from(
        "{\n#[allow(unused_imports)] // Not every kernel needs all.\nuse altgrad_plugin_api::{\n    BufferRole, DType, InfoField, InfoKind, KernelBuffer, KernelLanguage, \
         KernelOp, MergeRule,\n    kernel::table::{Limit::*, Text},\n};\n&[\n",
    );
    for language in [KernelLanguage::CUDA, KernelLanguage::WGSL] {
        for vector in [MAX_VECTOR, 1] {
            for &kernel in &kernels {
                let (recipe, definition) = define(kernel, vector);
                let text = expand::expand(&recipe, definition, language);
                code.push_str(&entry(&recipe, language, vector, &text, &mut files));
            }
        }
    }
    code.push_str("]\n}\n");
    put(&dir.join(format!("{name}.rs")), code.as_bytes());
}

/// Deflated texts; equal ones share a file.
struct Files<'a> {
    dir: &'a Path,
    name: &'a str,
    written: BTreeMap<String, String>,
}

impl Files<'_> {
    /// Writes a text, or finds it written, and returns the expression that includes it.
    fn include(&mut self, source: &str) -> String {
        let number = self.written.len();
        let file = self.written.entry(source.to_string()).or_insert_with(|| {
            let file = format!("{}-{number}.deflate", self.name);
            let deflated = miniz_oxide::deflate::compress_to_vec(source.as_bytes(), DEFLATE_LEVEL);
            put(&self.dir.join(&file), &deflated);
            file
        });
        format!("include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{file}\"))")
    }
}

fn put(path: &Path, content: &[u8]) {
    fs::write(path, content).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}

/// One element of the table, as Rust: what derived `Debug` prints is an expression.
fn entry(
    recipe: &Recipe,
    language: KernelLanguage,
    vector: usize,
    text: &Expanded,
    files: &mut Files<'_>,
) -> String {
    let rule = |name| if name == "amax" { MergeRule::MAX } else { MergeRule::ADD };
    let statistics = match recipe.statistics {
        Words::Named(names) => {
            format!("&{:?}", names.iter().map(|&name| (name, rule(name))).collect::<Vec<_>>())
        }
        Words::Update => "altgrad_plugin_api::kernel::update::STATISTICS".into(),
    };
    let (info, limits) = info(recipe, vector, text);
    format!(
        "    Text {{ op: {:?}, language: {language:?}, vector: {vector}, units: {UNITS}, shared_bytes: {}, \
         entry: {:?}, deflated: {}, buffers: &{:?}, info: &{info:?}, limits: &{limits:?}, info_words: {}, \
         statistics: {statistics}, partial_sums: &{:?} }},\n",
        recipe.op,
        text.shared_bytes,
        text.entry,
        files.include(&text.source),
        recipe.buffers.iter().map(buffer).collect::<Vec<_>>(),
        text.info_words,
        recipe.sums,
    )
}

fn buffer(&Buffer { role, index, dtype, access, .. }: &Buffer) -> KernelBuffer {
    KernelBuffer { role, index, dtype, reads: access != Access::Write, writes: access != Access::Read }
}

/// The fields of the info block: those the host fills in, and the offsets of those the plugin does.
fn info(recipe: &Recipe, vector: usize, text: &Expanded) -> (Vec<InfoField>, Vec<(u32, Limit)>) {
    let (mut info, mut limits) = (Vec::new(), Vec::new());
    for (scalar, &offset) in recipe.scalars.iter().copied().zip(&text.scalars) {
        match scalar {
            Scalar::Host(index) => {
                info.push(InfoField { offset, kind: InfoKind::SCALAR_U32, index, divisor: 1 })
            }
            Scalar::Limit(limit) => limits.push((offset, limit)),
        }
    }
    for ((buffer, &offset), index) in recipe.buffers.iter().zip(&text.lengths).zip(0..) {
        let divisor = if buffer.vectors { vector as u32 } else { 1 };
        info.push(InfoField { offset, kind: InfoKind::BUFFER_LEN, index, divisor });
    }
    (info, limits)
}
