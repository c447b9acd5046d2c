//! Weights on disk: safetensors in nanoGPT's layout, read also in GPT-2's.
//!
//! Keys are `transformer.` and the parameter's name; a linear weight is `[out, in]`, as in PyTorch. A tied head has one
//! entry, `transformer.wte.weight`; an untied one is `lm_head.weight`. Reading detects the layout of a file
//! ([`Convention`]), widens bf16 and f16, ignores attention-mask buffers, a tied head that equals the embedding and
//! biases of zeros in a model without any, drops padding of the vocabulary and positions beyond the block, and refuses
//! any other tensor that is unknown, missing, of another shape, or not finite.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use half::{bf16, f16};
use safetensors::{Dtype, SafeTensorError, SafeTensors, tensor::TensorView};

use self::layouts::{Entries, Entry, is_mask, is_transposed, transposed};
use super::layout::{Layout, ParamSpec};
use crate::{
    checksums,
    tensor_file::{self, TensorElements},
};
use altgrad_base::{diagnostic::Diagnostic, files};

mod layouts;
#[cfg(test)]
mod tests;

pub use layouts::Convention;

const PREFIX: &str = "transformer.";
/// The name of an untied head.
const HEAD: &str = "lm_head.weight";
/// Vocabularies are padded to a multiple of this, or of its double, for the sake of matrix products.
const PADDING: usize = 64;

/// Reads the values of every parameter, in the layout's order, row-major `[n]` each.
///
/// # Errors
/// The file is missing or damaged, or does not match the layout; the error names the key.
pub fn read(path: &Path, layout: &Layout) -> Result<Vec<Vec<f32>>, Diagnostic> {
    WeightsFile::open(path)?.values(layout)
}

/// A weights file, read whole.
#[derive(Debug)]
pub struct WeightsFile {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl WeightsFile {
    /// Reads the file, and compares it with its checksum if it is a checkpoint's.
    ///
    /// # Errors
    /// The file is missing, is not a regular file, or differs from its checksum.
    pub fn open(path: &Path) -> Result<Self, Diagnostic> {
        // The checkpoint of a link such as `last` may change meanwhile.
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        let bytes = files::read(&real).map_err(|error| {
            Diagnostic::config(format!("cannot read the weights ({error})"))
                .at(path.display())
                .hint("a weights file is safetensors in nanoGPT's or GPT-2's layout")
        })?;
        checksums::verify(&real, &bytes)?;
        Ok(Self { path: path.to_path_buf(), bytes })
    }

    /// Rows of the token embedding, and number of blocks: the size of a model's vocabulary and its depth.
    ///
    /// # Errors
    /// The file is damaged or has no token embedding.
    pub fn size(&self) -> Result<(usize, usize), Diagnostic> {
        self.with(|entries| match entries.get("wte.weight").map(|(_, view)| view.shape()) {
            Some(&[rows, _]) => Ok((rows, entries.blocks())),
            _ => Err(Diagnostic::config("the weights lack `wte.weight`").hint(other_names(&entries))),
        })
    }

    /// As [`read`].
    ///
    /// # Errors
    /// As [`read`].
    pub fn values(&self, layout: &Layout) -> Result<Vec<Vec<f32>>, Diagnostic> {
        self.with(|mut entries| {
            let convention = entries.convention();
            let tied = (layout.head == layout.wte).then(|| entries.take(HEAD)).flatten();
            if let (Some((key, head)), Some((_, table))) = (tied, entries.get("wte.weight"))
                && head.data() != table.data()
            {
                let message = format!("`{key}` is not the token embedding, but the model's head is");
                return Err(Diagnostic::config(message).hint("set model.tie_weights = false"));
            }
            let mut values = Vec::with_capacity(layout.specs.len());
            if entries.get("wte.weight").is_none() {
                return Err(Diagnostic::config("the weights lack `wte.weight`").hint(other_names(&entries)));
            }
            for spec in &layout.specs {
                let entry = entries.take(&spec.name).ok_or_else(|| lacks(spec))?;
                values.push(in_layout(&entry, spec, layout, convention)?);
            }
            let extra = entries.iter().find(|(name, entry)| !is_mask(name) && !is_zero_bias(name, entry));
            match extra {
                None => Ok(values),
                Some((name, _)) => {
                    Err(Diagnostic::config(format!("the weights hold `{name}`, which the model lacks"))
                        .hint("is the model of the same depth, with the same `bias`, `tie_weights`, `positions` and `qk_norm`?"))
                }
            }
        })
    }

    /// The note in the metadata, if the file has one.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn note(&self) -> Result<Option<String>, Diagnostic> {
        let (_, header) = SafeTensors::read_metadata(&self.bytes).map_err(|error| self.damaged(&error))?;
        Ok(header.metadata().as_ref().and_then(|metadata| metadata.get(tensor_file::NOTE).cloned()))
    }

    fn damaged(&self, error: &SafeTensorError) -> Diagnostic {
        Diagnostic::config(format!("not a safetensors file ({error})"))
            .at(self.path.display())
            .hint("a weights file is safetensors in nanoGPT's or GPT-2's layout; is it cut short?")
    }

    fn with<T>(&self, look: impl FnOnce(Entries<'_>) -> Result<T, Diagnostic>) -> Result<T, Diagnostic> {
        let file = SafeTensors::deserialize(&self.bytes).map_err(|error| self.damaged(&error))?;
        Entries::new(&file).and_then(look).map_err(|error| error.at(self.path.display()))
    }
}

/// The names of a file that are not a GPT's, and a GPT's.
fn other_names(entries: &Entries<'_>) -> String {
    let own: Vec<String> = entries.iter().take(3).map(|(_, (key, _))| format!("`{key}`")).collect();
    let found = if own.is_empty() { "no tensor".to_owned() } else { own.join(", ") };
    format!(
        "a GPT-2 has `transformer.wte.weight` and `transformer.h.0.attn.c_attn.weight`, the file begins with {found}: rename the tensors"
    )
}

fn lacks(spec: &ParamSpec) -> Diagnostic {
    let hint = if spec.name == HEAD {
        "a file without a head is of a model with model.tie_weights = true"
    } else if spec.name.ends_with(".bias") {
        "a file without biases is of a model with model.bias = false"
    } else if spec.name == "wpe.weight" {
        "a file without positions is of a model with model.positions = \"rotary\""
    } else if spec.name.ends_with(".q_norm.weight") || spec.name.ends_with(".k_norm.weight") {
        "a file without these gains is of a model with model.qk_norm = false"
    } else {
        "is the model of the same shape?"
    };
    Diagnostic::config(format!("the weights lack `{}`", spec.name)).hint(hint)
}

/// A bias of zeros: the same model as without.
fn is_zero_bias(name: &str, (_, view): &Entry<'_>) -> bool {
    name.ends_with(".bias") && to_f32(view).is_some_and(|values| values.iter().all(|value| *value == 0.0))
}

/// The values of a tensor in the orientation of the layout.
fn in_layout(
    (key, view): &Entry<'_>,
    spec: &ParamSpec,
    layout: &Layout,
    convention: Convention,
) -> Result<Vec<f32>, Diagnostic> {
    let mut values = to_f32(view).ok_or_else(|| {
        Diagnostic::config(format!("`{key}` is {:?}, which cannot be read", view.dtype()))
            .hint("save the weights as F32, BF16 or F16")
    })?;
    if let Some(at) = values.iter().position(|value| !value.is_finite()) {
        let message = format!("`{key}` is not finite: element {at} is {}", values[at]);
        return Err(Diagnostic::config(message)
            .hint("use weights from before their run diverged, such as a checkpoint"));
    }
    let turn = convention == Convention::Gpt2 && is_transposed(&spec.name);
    let wanted: Vec<usize> =
        if turn { spec.shape.iter().rev().copied().collect() } else { spec.shape.clone() };
    if view.shape() == wanted {
        let values = if turn { transposed(&values, wanted[0], wanted[1]) } else { values };
        return Ok(values);
    }
    if let (&[rows, width], &[wanted_rows, wanted_width]) = (view.shape(), wanted.as_slice())
        && width == wanted_width
        && rows > wanted_rows
    {
        let positions = layout.wpe.is_some_and(|wpe| spec.name == layout.specs[wpe].name);
        let padding = rows.is_multiple_of(PADDING) && rows - wanted_rows < 2 * PADDING;
        if positions || (padding && (spec.name == layout.specs[layout.wte].name || spec.name == HEAD)) {
            let what = if positions { "positions" } else { "token ids, taken for padding," };
            tracing::warn!("`{key}` has {rows} rows: {what} beyond {wanted_rows} are left out");
            values.truncate(wanted_rows * width);
            return Ok(values);
        }
    }
    let message =
        format!("`{key}` has shape {:?} in the file, {wanted:?} is what the model needs", view.shape());
    Err(Diagnostic::config(message).hint("set [model] and [data] to the shape the weights were made for"))
}

/// The values in f32, exactly; `None` for types other than f32, bf16 and f16.
fn to_f32(view: &TensorView<'_>) -> Option<Vec<f32>> {
    let wide = |widen: fn([u8; 2]) -> f32| {
        view.data().as_chunks::<2>().0.iter().map(|bytes| widen(*bytes)).collect::<Vec<f32>>()
    };
    Some(match view.dtype() {
        Dtype::F32 => view.data().as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(),
        Dtype::BF16 => wide(|bytes| bf16::from_le_bytes(bytes).to_f32()),
        Dtype::F16 => wide(|bytes| f16::from_le_bytes(bytes).to_f32()),
        _ => return None,
    })
}

/// A parameter's key in the file.
#[must_use]
pub fn key(param: &str) -> String {
    if param == HEAD { param.to_string() } else { format!("{PREFIX}{param}") }
}

/// Writes the values of every parameter, given in the layout's order, to a new file in nanoGPT's layout, with a note in
/// its metadata: a temporary file in the same folder first, so that no half-written file bears the name.
///
/// # Errors
/// The folder cannot be written.
pub fn write(
    path: &Path,
    layout: &Layout,
    values: Vec<Vec<f32>>,
    note: Option<&str>,
) -> Result<(), Diagnostic> {
    write_as(path, (layout, Convention::NanoGpt), values, note)
}

/// [`write()`] in a layout of choice. GPT-2's has biases throughout: zeros where the model has none.
///
/// # Errors
/// The folder cannot be written.
pub fn write_as(
    path: &Path,
    (layout, convention): (&Layout, Convention),
    values: Vec<Vec<f32>>,
    note: Option<&str>,
) -> Result<(), Diagnostic> {
    let gpt2 = convention == Convention::Gpt2;
    let entry = |key: String, shape: Vec<usize>, values: Vec<f32>| tensor_file::Entry {
        name: key,
        shape,
        values: TensorElements::F32(Arc::new(values)),
    };
    let named = layout.specs.iter().zip(values).map(|(spec, values)| match spec.shape.as_slice() {
        &[outputs, inputs] if gpt2 && is_transposed(&spec.name) => {
            entry(key(&spec.name), vec![inputs, outputs], transposed(&values, outputs, inputs))
        }
        shape => entry(key(&spec.name), shape.to_vec(), values),
    });
    let mut tensors: Vec<_> = named.collect();
    if gpt2 {
        let zeros = layout.absent_biases();
        tensors.extend(zeros.map(|(name, len)| entry(format!("{PREFIX}{name}"), vec![len], vec![0.0; len])));
    }
    let mut bytes = Vec::new();
    tensor_file::write(tensors, note, &mut bytes).and_then(|()| files::write_output(path, &bytes)).map_err(
        |error| {
            Diagnostic::run(format!("cannot write the weights ({error})"))
                .at(path.display())
                .hint("is the disk full, or the folder missing or read-only?")
        },
    )
}
