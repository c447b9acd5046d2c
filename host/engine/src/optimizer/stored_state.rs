//! The storage of an optimizer's state between updates: in f32, in bf16, or as codes of a format with block scales.
//!
//! The optimizer computes in f32. States of other types are converted before and after each update, one parameter at a
//! time, so an optimizer written for f32 works with all of them. Definitions: docs/numerics.md, section 9.8.

use std::sync::Arc;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_plugin_api::RandomKey;

use super::code_storage::{CodeStorage, Coded};
use crate::{
    tensor::bf16,
    tensor_file::{OTHER_RUN, TensorElements, TensorFile},
};

/// The type that a state is stored in.
#[derive(Debug, Clone)]
pub enum StateEncoding {
    /// 4 bytes per element.
    F32,
    /// 2 bytes per element, rounded to nearest, ties to even.
    Bf16,
    /// One byte per element, half of one if codes have at most 4 bits, and four per block.
    Codes(Arc<CodeStorage>),
}

impl StateEncoding {
    /// Bytes of a state of that many elements.
    #[must_use]
    pub fn bytes(&self, elements: usize) -> f64 {
        match self {
            Self::Bf16 => 2.0 * elements as f64,
            Self::Codes(codes) if elements >= codes.min_size => codes.bytes(elements),
            Self::F32 | Self::Codes(_) => 4.0 * elements as f64,
        }
    }

    /// In words, for the run's record: `E4M3, blocks of 128`.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::F32 => "f32".into(),
            Self::Bf16 => "bf16".into(),
            Self::Codes(codes) => codes.name(),
        }
    }
}

/// A state of a parameter.
#[derive(Debug, Clone)]
pub enum StoredState {
    /// `[n]`.
    F32(Arc<Vec<f32>>),
    /// `[n]`: bits.
    Bf16(Arc<Vec<u16>>),
    /// Codes of a format, with the values of each block.
    Codes {
        /// The storage that made them.
        storage: Arc<CodeStorage>,
        /// The codes.
        coded: Coded,
    },
}

impl StoredState {
    /// A state of `elements` elements of this value.
    ///
    /// # Errors
    /// The format's plugin failed.
    pub fn new(storage: &StateEncoding, elements: usize, initial: f32) -> Result<Self, Diagnostic> {
        let mut state = match storage {
            StateEncoding::F32 => return Ok(Self::F32(Arc::new(vec![initial; elements]))),
            StateEncoding::Codes(storage) if elements < storage.min_size => {
                return Ok(Self::F32(Arc::new(vec![initial; elements])));
            }
            StateEncoding::Bf16 => Self::Bf16(Arc::new(vec![0; elements])),
            StateEncoding::Codes(storage) => {
                Self::Codes { storage: storage.clone(), coded: Coded::new(storage, elements) }
            }
        };
        state.store(&vec![initial; elements], RandomKey::default())?;
        Ok(state)
    }

    /// The storage in words.
    #[must_use]
    pub fn storage_name(&self) -> String {
        match self {
            Self::F32(_) => StateEncoding::F32.name(),
            Self::Bf16(_) => StateEncoding::Bf16.name(),
            Self::Codes { storage, .. } => StateEncoding::Codes(storage.clone()).name(),
        }
    }

    /// Bytes in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::F32(values) => 4 * values.len(),
            Self::Bf16(bits) => 2 * bits.len(),
            Self::Codes { coded, .. } => coded.bytes(),
        }
    }

    /// The values themselves, to be changed in place, if they are f32. Copied if they are shared.
    pub fn as_f32_mut(&mut self) -> Option<&mut [f32]> {
        match self {
            Self::F32(values) => Some(Arc::make_mut(values).as_mut_slice()),
            Self::Bf16(_) | Self::Codes { .. } => None,
        }
    }

    /// The values themselves, if they are f32.
    #[cfg(feature = "gpu")]
    pub fn into_f32(self) -> Option<Vec<f32>> {
        match self {
            Self::F32(values) => Some(Arc::unwrap_or_clone(values)),
            Self::Bf16(_) | Self::Codes { .. } => None,
        }
    }

    /// The values in f32: `[n]`.
    ///
    /// # Errors
    /// The format's plugin failed.
    pub fn load(&self) -> Result<Vec<f32>, Diagnostic> {
        match self {
            Self::F32(values) => Ok(values.to_vec()),
            Self::Bf16(bits) => Ok(bf16::widen(bits)),
            Self::Codes { storage, coded } => storage.decode(coded),
        }
    }

    /// Replaces the values, `[n]`; `key` names the random bits of stochastic rounding.
    ///
    /// # Errors
    /// A value has no code, such as NaN in a format without NaN, or the format's plugin failed.
    pub fn store(&mut self, values: &[f32], key: RandomKey) -> Result<(), Diagnostic> {
        match self {
            Self::F32(own) => Arc::make_mut(own).copy_from_slice(values),
            Self::Bf16(bits) => *bits = Arc::new(bf16::narrow(values)),
            Self::Codes { storage, coded } => storage.encode(values, key, coded)?,
        }
        Ok(())
    }

    /// The tensors of a checkpoint: the suffix of the state's name, extents if they are not the parameter's, elements.
    #[must_use]
    pub fn entries(&self) -> Vec<(&'static str, Option<Vec<usize>>, TensorElements)> {
        match self {
            Self::F32(values) => vec![("", None, TensorElements::F32(values.clone()))],
            Self::Bf16(bits) => vec![("", None, TensorElements::Bf16(bits.clone()))],
            Self::Codes { storage, coded } => {
                let shape = storage.is_packed().then(|| vec![coded.codes.len()]);
                let mut entries = vec![("", shape, TensorElements::U8(coded.codes.clone()))];
                entries.extend(coded.block_values().map(|(suffix, values)| {
                    (suffix, Some(vec![values.len()]), TensorElements::F32(values.clone()))
                }));
                entries
            }
        }
    }

    /// Restores the tensors of a checkpoint; `name` is the state's key there, `shape` the parameter's.
    ///
    /// # Errors
    /// A tensor is missing, has another type or shape, or has a scale that is not finite and positive.
    pub fn restore(&mut self, file: &TensorFile<'_>, name: &str, shape: &[usize]) -> Result<(), Diagnostic> {
        match self {
            Self::F32(values) => *values = Arc::new(file.required(name, shape)?),
            Self::Bf16(bits) => *bits = Arc::new(file.required_bf16(name, shape)?),
            Self::Codes { storage, coded } => {
                let packed = [coded.codes.len()];
                let shape = if storage.is_packed() { packed.as_slice() } else { shape };
                coded.codes = Arc::new(file.required_u8(name, shape)?);
                for (suffix, values) in coded.block_values_mut() {
                    *values = Arc::new(positive(file, &format!("{name}{suffix}"), values.len())?);
                }
            }
        }
        Ok(())
    }
}

/// Values of blocks from a checkpoint, all finite and above 0.
fn positive(file: &TensorFile<'_>, name: &str, count: usize) -> Result<Vec<f32>, Diagnostic> {
    let values = file.required(name, &[count])?;
    match values.iter().find(|value| !(value.is_finite() && **value > 0.0)) {
        Some(value) => {
            let message =
                format!("the checkpoint's `{name}` has the value {value}, which is not positive and finite");
            Err(Diagnostic::config(message).hint(OTHER_RUN))
        }
        None => Ok(values),
    }
}
