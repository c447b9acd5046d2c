//! Writes the texts of a format and their table where the compiler of the plugin finds them.

use std::{collections::BTreeMap, env, fs, path::Path};

use altgrad_plugin_api::{
    InfoField, InfoKind, KernelBuffer, KernelLanguage, KernelOp, MergeRule, Rounding, kernel::table::Limit,
};

use crate::{
    expand::{Expanded, MAX_VECTOR, expand},
    recipe::{Access, Buffer, Kernel, Scalar},
    rounder::{Mode, Rounder},
    tally::{BIN_EXPONENTS, UNITS},
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

/// Compiles all kernels of one format and writes `{name}.rs` and the files it includes into `dir`, the `OUT_DIR` of
/// whoever includes it.
///
/// # Panics
/// As [`build`].
pub fn write<R: Rounder>(dir: &Path, name: &str) {
    let mut files = Files { dir, name, written: BTreeMap::new() };
    let mut code = String::from(
        "{\nuse altgrad_plugin_api::{\n    BufferRole, DType, InfoField, InfoKind, KernelBuffer, KernelLanguage, \
         KernelOp, MergeRule,\n    kernel::table::{Limit::*, Text},\n};\n&[\n",
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

/// The operation's number. Kernels that do not round have no mode, which is nearest-even's.
fn op(kernel: Kernel, mode: Mode) -> KernelOp {
    kernel.op().with_rounding(match mode {
        Mode::NearestEven => Rounding::NearestEven,
        Mode::NearestAway => Rounding::NearestAway,
        Mode::TowardZero => Rounding::TowardZero,
        Mode::Stochastic => Rounding::Stochastic,
    })
}

/// One element of the table, as Rust: what derived `Debug` prints is an expression.
fn entry(
    kernel: Kernel,
    mode: Mode,
    language: KernelLanguage,
    vector: usize,
    text: &Expanded,
    files: &mut Files<'_>,
) -> String {
    let rule = |name| if name == "amax" { MergeRule::MAX } else { MergeRule::ADD };
    let statistics: Vec<_> = kernel.statistics().iter().map(|&name| (name, rule(name))).collect();
    // Terms are products of two factors that were multiplied with 2^exponent each.
    let bins = |&name| BIN_EXPONENTS.map(|exponent| (name, -2 * exponent));
    let sums: Vec<(&str, i32)> = kernel.sums().iter().flat_map(bins).collect();
    let (info, limits) = info(kernel, vector, text);
    format!(
        "    Text {{ op: {:?}, language: {language:?}, vector: {vector}, units: {UNITS}, shared_bytes: {}, \
         entry: {:?}, deflated: {}, buffers: &{:?}, info: &{info:?}, limits: &{limits:?}, info_words: {}, \
         statistics: &{statistics:?}, partial_sums: &{sums:?} }},\n",
        op(kernel, mode),
        text.shared_bytes,
        text.entry,
        files.include(&text.source),
        kernel.buffers().iter().map(buffer).collect::<Vec<_>>(),
        text.info_words,
    )
}

fn buffer(&Buffer { role, dtype, access, .. }: &Buffer) -> KernelBuffer {
    KernelBuffer { role, index: 0, dtype, reads: access != Access::Write, writes: access != Access::Read }
}

/// The fields of the info block: those the host fills in, and the offsets of those the plugin does.
fn info(kernel: Kernel, vector: usize, text: &Expanded) -> (Vec<InfoField>, Vec<(u32, Limit)>) {
    let (mut info, mut limits) = (Vec::new(), Vec::new());
    for (scalar, &offset) in kernel.scalars().into_iter().zip(&text.scalars) {
        match scalar {
            Scalar::Host(index) => {
                info.push(InfoField { offset, kind: InfoKind::SCALAR_U32, index, divisor: 1 })
            }
            Scalar::Limit(limit) => limits.push((offset, limit)),
        }
    }
    for ((buffer, &offset), index) in kernel.buffers().iter().zip(&text.lengths).zip(0..) {
        let divisor = if buffer.vectors { vector as u32 } else { 1 };
        info.push(InfoField { offset, kind: InfoKind::BUFFER_LEN, index, divisor });
    }
    (info, limits)
}
