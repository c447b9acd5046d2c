//! Weights on disk: safetensors with nanoGPT's names, shapes and orientation.
//!
//! Keys are `transformer.` and the parameter's name; a linear weight is `[out, in]`, as in PyTorch. A tied
//! head stands once, as `transformer.wte.weight`; an untied one is `lm_head.weight`. Reading takes keys with or without
//! the prefix, ignores attention-mask buffers and a redundant tied head, and refuses anything else that is
//! unknown, missing or of another shape.

use std::{borrow::Cow, collections::HashMap, path::Path};

use safetensors::{Dtype, SafeTensors, View};

use super::layout::Layout;
use crate::{diagnostic::Diagnostic, files};

const PREFIX: &str = "transformer.";

/// Reads the values of every parameter, in the layout's order, row-major `[n]` each.
///
/// # Errors
/// The file is missing or broken, or does not fit the layout; says which key.
pub fn read(path: &Path, layout: &Layout) -> Result<Vec<Vec<f32>>, Diagnostic> {
    let fault = |message: String| Diagnostic::config(message).at(path.display());
    let bytes = files::read(path).map_err(|error| {
        fault(format!("cannot read the weights ({error})"))
            .hint("a weights file is safetensors in nanoGPT's layout")
    })?;
    let tensors = SafeTensors::deserialize(&bytes)
        .map_err(|error| fault(format!("not a safetensors file ({error})")))?;
    let mut by_name: HashMap<&str, _> = HashMap::new();
    let entries = tensors.tensors();
    for (key, view) in &entries {
        by_name.insert(key.strip_prefix(PREFIX).unwrap_or(key), view);
    }
    let mut values = Vec::with_capacity(layout.specs.len());
    for spec in &layout.specs {
        let view = by_name.remove(spec.name.as_str()).ok_or_else(|| {
            fault(format!("the weights lack `{}`", spec.name)).hint("is the model of the same shape?")
        })?;
        if view.shape() != spec.shape {
            let message = format!(
                "`{}` has shape {:?} in the file, {:?} in the model",
                spec.name,
                view.shape(),
                spec.shape
            );
            return Err(fault(message).hint("set [model] and [data] to the shape the weights were made for"));
        }
        if view.dtype() != Dtype::F32 {
            return Err(fault(format!("`{}` is {:?}, only F32 can be read", spec.name, view.dtype())));
        }
        values.push(view.data().as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect());
    }
    let tied_head = layout.head == layout.wte;
    let ignorable = |name: &str| name.ends_with(".attn.bias") || (tied_head && name == "lm_head.weight");
    if let Some(extra) = by_name.keys().filter(|name| !ignorable(name)).min() {
        return Err(fault(format!("the weights hold `{extra}`, which the model lacks"))
            .hint("is the model of the same depth, with the same `bias` and `tie_weights`?"));
    }
    Ok(values)
}

/// A parameter's key in the file.
#[must_use]
pub fn key(param: &str) -> String {
    if param == "lm_head.weight" { param.to_string() } else { format!("{PREFIX}{param}") }
}

/// Writes the values of every parameter, given in the layout's order, to a new file: a temporary one in the
/// same folder first, so that no half-written file bears the name.
///
/// # Errors
/// The folder cannot be written.
pub fn write(path: &Path, layout: &Layout, values: &[Vec<f32>]) -> Result<(), Diagnostic> {
    let failed = |error: String| {
        Diagnostic::run(format!("cannot write the weights ({error})"))
            .at(path.display())
            .hint("is the disk full, or the folder missing or read-only?")
    };
    let tensors = layout
        .specs
        .iter()
        .zip(values)
        .map(|(spec, values)| (key(&spec.name), Flat { shape: &spec.shape, values }));
    let metadata = HashMap::from([("format".to_string(), "pt".to_string())]);
    let bytes = safetensors::serialize(tensors, Some(metadata)).map_err(|error| failed(error.to_string()))?;
    files::write(path, &bytes).map_err(|error| failed(error.to_string()))
}

/// A tensor to write.
struct Flat<'a> {
    shape: &'a [usize],
    values: &'a [f32],
}

impl View for Flat<'_> {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }

    fn shape(&self) -> &[usize] {
        self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        self.values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>().into()
    }

    fn data_len(&self) -> usize {
        self.values.len() * 4
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use super::*;
    use crate::model::GptShape;

    fn layout(n_layer: usize, tie_weights: bool) -> Layout {
        Layout::new(&GptShape {
            vocab: 5,
            block_size: 4,
            n_layer,
            n_head: 1,
            n_embd: 4,
            bias: true,
            tie_weights,
        })
    }

    #[test]
    fn what_is_written_is_read_back_and_misfits_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.safetensors");
        let values: Vec<Vec<f32>> = (layout(1, true).specs.iter().enumerate())
            .map(|(index, spec)| (0..spec.len()).map(|at| index as f32 + at as f32 / 128.0).collect())
            .collect();
        write(&path, &layout(1, true), &values).unwrap();
        assert_eq!(read(&path, &layout(1, true)).unwrap(), values);
        let message = |layout| read(&path, &layout).unwrap_err().message;
        assert_eq!(message(layout(2, true)), "the weights lack `h.1.ln_1.weight`");
        assert_eq!(
            message(layout(0, true)),
            "the weights hold `h.0.attn.c_attn.bias`, which the model lacks"
        );
        assert_eq!(message(layout(1, false)), "the weights lack `lm_head.weight`");
    }

    #[test]
    fn what_is_no_weights_file_is_said_to_be_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.safetensors");
        assert!(read(&path, &layout(1, true)).unwrap_err().message.starts_with("cannot read the weights"));
        fs::write(&path, "hello").unwrap();
        assert!(read(&path, &layout(1, true)).unwrap_err().message.starts_with("not a safetensors file"));
    }
}
