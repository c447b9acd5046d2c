//! How a state of an optimizer is stored between updates: in f32, in bf16, or as codes of a format with block scales.
//!
//! The optimizer computes in f32. States of other types are converted before and after each update, one parameter at a time, so
//! an optimizer written for f32 works with all of them. Definitions: docs/numerics.md, section 9.8.

use std::sync::Arc;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_loader::FormatPlugin;
use altgrad_plugin_api::{Blocks, QuantParams, RandomKey, Rounding, Scales};
use half::bf16;
use rayon::prelude::*;

use crate::{
    quant::ScaleRule,
    tensor_file::{OTHER_RUN, TensorFile, Values},
};

/// Elements of a parallel task, as many whole blocks as fit.
const PART: usize = 1 << 16;
/// Bits of a code that shares a byte with another.
const PACKED_BITS: u32 = 4;
const PACKED_MASK: u8 = (1 << PACKED_BITS) - 1;

/// The type that a state is stored in.
#[derive(Debug, Clone)]
pub enum Storage {
    /// 4 bytes per element.
    F32,
    /// 2 bytes per element, rounded to nearest, ties to even.
    Bf16,
    /// One byte per element, half of one if codes have at most 4 bits, and four per block.
    Codes(Arc<CodeStorage>),
}

/// Codes of a format, with a scale for each block.
#[derive(Debug)]
pub struct CodeStorage {
    /// The format, of up to 256 codes.
    pub format: FormatPlugin,
    /// Bits of a code: 1 to 8.
    pub bits: u32,
    /// The scale of a block, from its largest magnitude.
    pub rule: ScaleRule,
    /// Consecutive elements that share a scale.
    pub block: usize,
    /// How values are rounded.
    pub rounding: Rounding,
}

impl Storage {
    /// In words, for the run's record: `E4M3, blocks of 128`.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::F32 => "f32".into(),
            Self::Bf16 => "bf16".into(),
            Self::Codes(codes) => format!("{}, blocks of {}", codes.format.identity.name, codes.block),
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
    /// Codes of `n` elements and scales `[blocks]`.
    Codes {
        /// How they are made.
        storage: Arc<CodeStorage>,
        /// How many.
        elements: usize,
        /// The codes, as many a byte as fit; the first in the low bits.
        codes: Arc<Vec<u8>>,
        /// What values were multiplied by.
        scales: Arc<Vec<f32>>,
    },
}

impl StoredState {
    /// A state of `elements` elements of this value.
    ///
    /// # Errors
    /// The format's plugin failed.
    pub fn new(storage: &Storage, elements: usize, initial: f32) -> Result<Self, Diagnostic> {
        let mut state = match storage {
            Storage::F32 => return Ok(Self::F32(Arc::new(vec![initial; elements]))),
            Storage::Bf16 => Self::Bf16(Arc::new(vec![0; elements])),
            Storage::Codes(storage) => Self::Codes {
                storage: storage.clone(),
                elements,
                codes: Arc::new(vec![0; elements.div_ceil(storage.codes_a_byte())]),
                scales: Arc::new(vec![1.0; elements.div_ceil(storage.block)]),
            },
        };
        state.store(&vec![initial; elements], RandomKey::default())?;
        Ok(state)
    }

    /// How it is stored, in words.
    #[must_use]
    pub fn storage_name(&self) -> String {
        match self {
            Self::F32(_) => Storage::F32.name(),
            Self::Bf16(_) => Storage::Bf16.name(),
            Self::Codes { storage, .. } => Storage::Codes(storage.clone()).name(),
        }
    }

    /// Bytes in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::F32(values) => 4 * values.len(),
            Self::Bf16(bits) => 2 * bits.len(),
            Self::Codes { codes, scales, .. } => codes.len() + 4 * scales.len(),
        }
    }

    /// The values themselves, to be changed in place, if they are f32. Copied if somebody else holds them.
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
            Self::Bf16(bits) => Ok(bits.par_iter().map(|&bits| bf16::from_bits(bits).to_f32()).collect()),
            Self::Codes { storage, elements, codes, scales } => storage.decode(*elements, codes, scales),
        }
    }

    /// Replaces the values, `[n]`; `key` names the random bits of stochastic rounding.
    ///
    /// # Errors
    /// A value has no code, such as NaN in a format without NaN, or the format's plugin failed.
    pub fn store(&mut self, values: &[f32], key: RandomKey) -> Result<(), Diagnostic> {
        match self {
            Self::F32(own) => Arc::make_mut(own).copy_from_slice(values),
            Self::Bf16(bits) => {
                let own = Arc::make_mut(bits).par_iter_mut().zip(values);
                own.for_each(|(bits, &value)| *bits = bf16::from_f32(value).to_bits());
            }
            Self::Codes { storage, codes, scales, .. } => {
                let (codes, scales) = (Arc::make_mut(codes).as_mut_slice(), Arc::make_mut(scales));
                storage.encode(values, key, codes, scales.as_mut_slice())?;
            }
        }
        Ok(())
    }

    /// The tensors of a checkpoint: what is added to the state's name, extents if they are not the parameter's, elements.
    #[must_use]
    pub fn entries(&self) -> Vec<(&'static str, Option<Vec<usize>>, Values)> {
        match self {
            Self::F32(values) => vec![("", None, Values::F32(values.clone()))],
            Self::Bf16(bits) => vec![("", None, Values::Bf16(bits.clone()))],
            Self::Codes { storage, codes, scales, .. } => vec![
                ("", storage.is_packed().then(|| vec![codes.len()]), Values::U8(codes.clone())),
                (SCALES, Some(vec![scales.len()]), Values::F32(scales.clone())),
            ],
        }
    }

    /// Takes the tensors of a checkpoint back; `name` is the state's key there, `shape` the parameter's.
    ///
    /// # Errors
    /// One is missing, of another type or shape, or has a scale that is not finite and positive.
    pub fn restore(&mut self, file: &TensorFile<'_>, name: &str, shape: &[usize]) -> Result<(), Diagnostic> {
        match self {
            Self::F32(values) => *values = Arc::new(file.required(name, shape)?),
            Self::Bf16(bits) => *bits = Arc::new(file.required_bf16(name, shape)?),
            Self::Codes { storage, codes, scales, .. } => {
                let packed = [codes.len()];
                let shape = if storage.is_packed() { packed.as_slice() } else { shape };
                *codes = Arc::new(file.required_u8(name, shape)?);
                let name = format!("{name}{SCALES}");
                let read = file.required(&name, &[scales.len()])?;
                if let Some(scale) = read.iter().find(|scale| !(scale.is_finite() && **scale > 0.0)) {
                    let message = format!("the checkpoint's `{name}` has the scale {scale}, which is none");
                    return Err(Diagnostic::config(message).hint(OTHER_RUN));
                }
                *scales = Arc::new(read);
            }
        }
        Ok(())
    }
}

/// What follows the name of a state in the name of its scales.
const SCALES: &str = ".scales";

impl CodeStorage {
    /// Codes that share a byte: two of at most 4 bits, else one.
    fn codes_a_byte(&self) -> usize {
        if self.bits <= PACKED_BITS { 2 } else { 1 }
    }

    fn is_packed(&self) -> bool {
        self.codes_a_byte() > 1
    }

    /// Elements of a parallel task: whole blocks and whole bytes.
    fn part(&self) -> usize {
        let blocks = (PART / self.block).max(1) * self.block;
        if blocks.is_multiple_of(self.codes_a_byte()) { blocks } else { blocks * self.codes_a_byte() }
    }

    fn pack(&self, codes: &[u16], bytes: &mut [u8]) {
        for (byte, codes) in bytes.iter_mut().zip(codes.chunks(self.codes_a_byte())) {
            *byte = codes.iter().rev().fold(0, |byte, &code| byte << PACKED_BITS | code as u8);
        }
    }

    fn unpack(&self, bytes: &[u8], elements: usize) -> Vec<u16> {
        if !self.is_packed() {
            return bytes.iter().map(|&code| code.into()).collect();
        }
        let codes = bytes.iter().flat_map(|&byte| [byte & PACKED_MASK, byte >> PACKED_BITS]);
        codes.take(elements).map(u16::from).collect()
    }

    fn decode(&self, elements: usize, codes: &[u8], scales: &[f32]) -> Result<Vec<f32>, Diagnostic> {
        let (mut values, part) = (vec![0.0; elements], self.part());
        let parts = values.par_chunks_mut(part).zip(codes.par_chunks(part / self.codes_a_byte()));
        parts.zip(scales.par_chunks(part / self.block)).try_for_each(|((values, codes), scales)| {
            let codes = self.unpack(codes, values.len());
            let pairs: Vec<[f32; 2]> = scales.iter().map(|&scale| [scale, 1.0 / scale]).collect();
            self.format.decode(&codes, values, &Scales::new(&pairs, self.blocks()))
        })?;
        Ok(values)
    }

    fn encode(
        &self,
        values: &[f32],
        key: RandomKey,
        codes: &mut [u8],
        scales: &mut [f32],
    ) -> Result<(), Diagnostic> {
        let part = self.part();
        let parts =
            codes.par_chunks_mut(part / self.codes_a_byte()).zip(scales.par_chunks_mut(part / self.block));
        parts.zip(values.par_chunks(part)).enumerate().try_for_each(|(index, ((codes, scales), values))| {
            let mut pairs = vec![[1.0; 2]; scales.len()];
            self.rule.group_scales(values, self.block, &mut pairs);
            let key = RandomKey { offset: (index * part) as u64, ..key };
            let scales_of_part = Scales::new(&pairs, self.blocks());
            let params = QuantParams { scales: scales_of_part, rounding: self.rounding, key };
            let wide = self.format.encode(values, &params)?;
            self.pack(&wide, codes);
            scales.iter_mut().zip(&pairs).for_each(|(scale, [pair, _])| *scale = *pair);
            Ok(())
        })
    }

    fn blocks(&self) -> Blocks {
        Blocks::consecutive(self.block as u64)
    }
}
