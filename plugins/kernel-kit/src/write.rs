//! Writes the texts of a format and their table where the compiler of the plugin finds them.

use std::{collections::BTreeMap, env, fs, path::Path};

use altgrad_plugin_api::{InfoKind, KernelLanguage, KernelOp, MergeRule, Rounding};

use crate::{
    expand::{Expanded, MAX_VECTOR, expand},
    recipe::{Access, Buffer, Element, Kernel, Scalar},
    rounder::{Mode, Rounder},
    tally::{BIN_EXPONENTS, UNITS},
};

/// Lines of [`crate::embed`] that are not its page.
fn embedded() -> String {
    let lines = include_str!("embed.rs").lines().filter(|line| !line.starts_with("//!"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// For build scripts: compiles all kernels of one format and writes `kernels.rs` into `OUT_DIR`.
///
/// The plugin includes that file in a module of its own and calls its `kernel(op, target, limits)`.
///
/// # Panics
/// If a kernel does not compile or a file cannot be written: the build fails with that message.
pub fn build<R: Rounder>() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/kernel.rs");
    let Some(dir) = env::var_os("OUT_DIR") else { panic!("OUT_DIR is not set: this is for build scripts") };
    write::<R>(Path::new(&dir), "kernels");
}

/// Compiles all kernels of one format and writes `{name}.rs` and the files it includes into `dir`, the `OUT_DIR` of
/// whoever includes it.
///
/// # Panics
/// As [`build`].
pub fn write<R: Rounder>(dir: &Path, name: &str) {
    let mut files = Files { dir, name, written: BTreeMap::new() };
    let mut code = embedded();
    code.push_str(
        "/// The text for an operation and target, if there is any.\n\
         pub fn kernel(op: KernelOp, target: &KernelTarget, limits: &Limits) -> Option<KernelText> {\n    \
             find(TEXTS, op, target, limits)\n\
         }\n\n\
         static TEXTS: &[Text] = &[\n",
    );
    for language in [KernelLanguage::CUDA, KernelLanguage::WGSL] {
        for vector in [MAX_VECTOR, 1] {
            for kernel in Kernel::ALL {
                for mode in Mode::ALL.into_iter().take(if kernel.rounds() { 4 } else { 1 }) {
                    let text = expand::<R>(kernel, mode, language, vector);
                    code.push_str(&entry(kernel, mode, language, vector, &text, &mut files));
                }
            }
        }
    }
    code.push_str("];\n");
    put(&dir.join(format!("{name}.rs")), &code);
}

/// Source files; equal texts share one.
struct Files<'a> {
    dir: &'a Path,
    name: &'a str,
    written: BTreeMap<String, String>,
}

impl Files<'_> {
    /// Writes a text, or finds it written, and returns the expression that includes it.
    fn include(&mut self, source: &str, extension: &str) -> String {
        let number = self.written.len();
        let file = self.written.entry(source.to_string()).or_insert_with(|| {
            let file = format!("{}-{number}.{extension}", self.name);
            put(&self.dir.join(&file), source);
            file
        });
        format!("include_str!(concat!(env!(\"OUT_DIR\"), \"/{file}\"))")
    }
}

fn put(path: &Path, text: &str) {
    fs::write(path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}

/// The operation's number. Kernels that do not round have no mode, which is nearest-even's.
fn op(kernel: Kernel, mode: Mode) -> KernelOp {
    kernel.op().with_rounding(match mode {
        Mode::NearestEven => Rounding::NearestEven,
        Mode::NearestAway => Rounding::NearestAway,
        Mode::TowardZero => Rounding::TowardZero,
        Mode::Stochastic => Rounding::Stochastic,
    })
}

/// One element of the table, as Rust.
fn entry(
    kernel: Kernel,
    mode: Mode,
    language: KernelLanguage,
    vector: usize,
    text: &Expanded,
    files: &mut Files<'_>,
) -> String {
    let extension = if language == KernelLanguage::CUDA { "cu" } else { "wgsl" };
    let rule = |name| if name == "amax" { MergeRule::MAX.0 } else { MergeRule::ADD.0 };
    let statistics: Vec<_> = kernel.statistics().iter().map(|&name| (name, rule(name))).collect();
    // Terms are products of two factors that were multiplied with 2^exponent each.
    let bins = |&name| BIN_EXPONENTS.map(|exponent| (name, -2 * exponent));
    let sums: Vec<(&str, i32)> = kernel.sums().iter().flat_map(bins).collect();
    format!(
        "    Text {{ op: {}, language: {}, vector: {vector}, units: {UNITS}, shared_bytes: {}, entry: {:?}, \
         source: {}, buffers: &[{}], info: &{:?}, info_words: {}, statistics: &{statistics:?}, \
         partial_sums: &{sums:?} }},\n",
        op(kernel, mode).0,
        language.0,
        text.shared_bytes,
        text.entry,
        files.include(&text.source, extension),
        buffers(kernel),
        info(kernel, vector, text),
        text.info_words,
    )
}

/// Role, type, whether read and whether written of each buffer.
fn buffers(kernel: Kernel) -> String {
    let buffer = |buffer: &Buffer| {
        let dtype = match buffer.element {
            Element::F32 => "DType::F32",
            Element::U32 => "DType { code: 1, bits: 32, lanes: 1 }",
        };
        let (reads, writes) = (buffer.access != Access::Write, buffer.access != Access::Read);
        format!("({}, {dtype}, {reads}, {writes})", buffer.role.0)
    };
    kernel.buffers().iter().map(buffer).collect::<Vec<_>>().join(", ")
}

/// Offset, kind, index and divisor of each field of the info block.
fn info(kernel: Kernel, vector: usize, text: &Expanded) -> Vec<(u32, u32, u32, u32)> {
    let scalars = kernel.scalars().into_iter().zip(&text.scalars).map(|(scalar, &offset)| match scalar {
        Scalar::Key(index) => (offset, InfoKind::SCALAR_U32.0, index, 1),
        Scalar::Limit(limit) => (offset, InfoKind::CONSTANT.0, limit as u32, 1),
    });
    let buffers = kernel.buffers();
    let lengths = buffers.iter().zip(&text.lengths).zip(0..).map(|((buffer, &offset), index)| {
        (offset, InfoKind::BUFFER_LEN.0, index, if buffer.vectors { vector as u32 } else { 1 })
    });
    scalars.chain(lengths).collect()
}
