//! All kernel texts of one plugin, as two source files: a table in Rust, and the deflated texts that it points into.

use std::{collections::BTreeMap, fmt::Debug};

use altgrad_plugin_api::{
    InfoField, InfoKind, KernelBuffer, KernelLanguage,
    kernel::{rules::UpdateRule, table::GridConstant},
};
use cubecl_core::prelude::KernelDefinition;

use crate::{
    expand::{self, Expanded, MAX_VECTOR},
    recipe::{self, Access, Buffer, Recipe, Scalar},
    rounder::{Mode, Rounder},
    tally::UNITS,
    update::recipe::Update,
};

/// The best compression: texts are made rarely and kept permanently.
const DEFLATE_LEVEL: u8 = 10;

/// The names that a table may use, in the order of its `use` line.
const NAMES: [&str; 8] = [
    "BufferRole",
    "DType",
    "InfoField",
    "InfoKind",
    "KernelBuffer",
    "KernelLanguage",
    "KernelOp",
    "MergeRule",
];

/// The texts of one plugin in both languages, for vectors of 4 and of 1.
#[derive(Debug, Default)]
pub struct Texts {
    entries: String,
    constants: Constants,
    deflated: Vec<u8>,
    /// Start and length in `deflated`, by text: equal texts share a range.
    ranges: BTreeMap<String, (usize, usize)>,
    /// Name and text of each.
    plain: Vec<(String, String)>,
}

impl Texts {
    /// Those of a format.
    ///
    /// # Panics
    /// If cubecl refuses a kernel: the author needs the message.
    #[must_use]
    pub fn of_format<R: Rounder>() -> Self {
        Self::of(&Mode::ALL, |mode, vector| (recipe::fake_quant(mode), expand::fake_quant::<R>(mode, vector)))
    }

    /// The texts of an optimizer with these update rules: the steps, and their preparations.
    ///
    /// # Panics
    /// As [`Texts::of_format`].
    #[must_use]
    pub fn of_updates(rules: &[UpdateRule]) -> Self {
        let steps = rules.iter().map(|&rule| Update::Step(rule));
        let prepare = rules.contains(&UpdateRule::Power).then_some(Update::Prepare);
        let kernels: Vec<Update> = steps.chain(prepare).collect();
        Self::of(&kernels, |kernel, vector| (kernel.recipe(), expand::update(kernel, vector)))
    }

    fn of<K: Copy>(kernels: &[K], define: impl Fn(K, usize) -> (Recipe, KernelDefinition)) -> Self {
        let mut texts = Self::default();
        for language in [KernelLanguage::CUDA, KernelLanguage::WGSL] {
            for vector in [MAX_VECTOR, 1] {
                for &kernel in kernels {
                    let (recipe, definition) = define(kernel, vector);
                    let text = expand::expand(&recipe, definition, language);
                    texts.push(&recipe, language, vector, text);
                }
            }
        }
        texts
    }

    /// Adds an entry to the table: the output of derived `Debug` is Rust.
    fn push(&mut self, recipe: &Recipe, language: KernelLanguage, vector: usize, text: Expanded) {
        let (name, extension) =
            if language == KernelLanguage::CUDA { ("CUDA", "cu") } else { ("WGSL", "wgsl") };
        let (start, len) = self.range(&text.source);
        let buffers: Vec<KernelBuffer> = recipe.buffers.iter().map(buffer).collect();
        let (info, constants) = info(recipe, vector, &text);
        let buffers = self.constants.name("BUFFERS", "KernelBuffer", &buffers);
        let info = self.constants.name("INFO", "InfoField", &info);
        let constants = self.constants.name("CONSTANTS", "(u32, GridConstant)", &constants);
        let sums = self.constants.name("SUMS", "(&str, i32)", &recipe.sums);
        let statistics = self.constants.name("STATISTICS", "(&str, MergeRule)", recipe.statistics);
        self.entries.push_str(&format!(
            "    /* {}, {name}, {vector} at once */ Text {{ op: {:?}, language: KernelLanguage::{name}, vector: {vector}, \
             units: {UNITS}, shared_bytes: {}, entry: {:?}, deflated: part({start}, {len}), buffers: {buffers}, \
             info: {info}, constants: {constants}, info_words: {}, statistics: {statistics}, partial_sums: {sums} }},\n",
            recipe.name, recipe.op, text.shared_bytes, text.entry, text.info_words,
        ));
        let file = recipe.name.replace(['(', ')', ' '], "-").to_lowercase();
        self.plain.push((format!("{}-{vector}.{extension}", file.trim_end_matches('-')), text.source));
    }

    /// The position of a text, after it has been added.
    fn range(&mut self, source: &str) -> (usize, usize) {
        let deflated = &mut self.deflated;
        *self.ranges.entry(source.to_string()).or_insert_with(|| {
            let (start, text) = (deflated.len(), source.as_bytes());
            deflated.extend(miniz_oxide::deflate::compress_to_vec(text, DEFLATE_LEVEL));
            (start, deflated.len() - start)
        })
    }

    /// The table: Rust items, among them `TEXTS`, a slice of [`Text`](altgrad_plugin_api::kernel::table::Text)s. It
    /// includes the file `deflated`, which lies beside it.
    #[must_use]
    pub fn table(&self, deflated: &str) -> String {
        let body = format!("{}{}", self.constants.text, self.entries);
        let names: Vec<&str> = NAMES.into_iter().filter(|name| body.contains(name)).collect();
        let constant = if body.contains("GridConstant") { "GridConstant::{self, *}, " } else { "" };
        format!(
            "use altgrad_plugin_api::{{\n    {}, kernel::table::{{{constant}Text}},\n}};\n\n\
             const DEFLATED: &[u8] = include_bytes!({deflated:?});\n\n\
             const fn part(start: usize, len: usize) -> &'static [u8] {{\n    \
             DEFLATED.split_at(start).1.split_at(len).0\n}}\n\n{}\n\
             pub const TEXTS: &[Text] = &[\n{}];\n",
            names.join(", "),
            self.constants.text,
            self.entries,
        )
    }

    /// The content of the file that the table includes.
    #[must_use]
    pub fn deflated(&self) -> &[u8] {
        &self.deflated
    }

    /// The texts for reading: file name and content.
    #[must_use]
    pub fn plain(&self) -> &[(String, String)] {
        &self.plain
    }
}

/// Slices that entries share, each a constant of the table.
#[derive(Debug, Default)]
struct Constants {
    text: String,
    /// Name, by element type and elements.
    names: BTreeMap<String, String>,
}

impl Constants {
    /// The expression of a slice.
    fn name<T: Debug>(&mut self, prefix: &str, element: &str, slice: &[T]) -> String {
        if slice.is_empty() {
            return "&[]".into();
        }
        let values: Vec<String> = slice.iter().map(|element| format!("{element:?}")).collect();
        let value = format!("&[{element}] = &[{}];\n", values.join(", "));
        let number = self.names.keys().filter(|other| other.starts_with(&format!("&[{element}]"))).count();
        let text = &mut self.text;
        let name = self.names.entry(value).or_insert_with_key(|value| {
            let name = format!("{prefix}_{number}");
            text.push_str(&format!("const {name}: {value}"));
            name
        });
        name.clone()
    }
}

fn buffer(&Buffer { role, index, dtype, access, .. }: &Buffer) -> KernelBuffer {
    KernelBuffer { role, index, dtype, reads: access != Access::Write, writes: access != Access::Read }
}

/// The fields of the info block: those the host fills in, and the offsets of those the plugin does.
fn info(recipe: &Recipe, vector: usize, text: &Expanded) -> (Vec<InfoField>, Vec<(u32, GridConstant)>) {
    let (mut info, mut constants) = (Vec::new(), Vec::new());
    for (scalar, &offset) in recipe.scalars.iter().copied().zip(&text.scalars) {
        match scalar {
            Scalar::Host(index) => {
                info.push(InfoField { offset, kind: InfoKind::SCALAR_U32, index, divisor: 1 })
            }
            Scalar::Elements(index) => {
                info.push(InfoField { offset, kind: InfoKind::BUFFER_LEN, index, divisor: 1 })
            }
            Scalar::Constant(constant) => constants.push((offset, constant)),
        }
    }
    for ((buffer, &offset), index) in recipe.buffers.iter().zip(&text.lengths).zip(0..) {
        let divisor = if buffer.vectors { vector as u32 } else { 1 };
        info.push(InfoField { offset, kind: InfoKind::BUFFER_LEN, index, divisor });
    }
    (info, constants)
}
