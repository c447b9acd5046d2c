//! Tensors that an operation saves for its backward pass, in their smallest exact encoding if they are large.
//!
//! Values on the grid of a format become codes of one or two bytes, values rounded to bf16 become 16 bits, others stay
//! f32.

use std::sync::Arc;

use altgrad_plugin_api::QuantParams;
use burn::backend::{TensorMetadata, flex::FlexTensor};
use burn::tensor::DType;
use rayon::prelude::*;

use super::{DeviceFormat, cpu, scale::scale_pairs};
use crate::tensor::{
    bf16,
    cpu::{elements, from_elements},
};

/// Elements of a parallel task.
const CHUNK: usize = 1 << 16;
/// Largest scale for which values are encoded, and the inverse of the smallest. Others could make values subnormal in
/// f32, where codes are not exact.
const LARGEST_SCALE: f32 = (1u64 << 40) as f32;

/// An encoding that represents the values of an operand exactly.
#[derive(Debug, Clone)]
pub enum Encoding {
    /// f32.
    F32,
    /// bf16.
    Bf16,
    /// The codes of the format, together with scales.
    Codes(Arc<DeviceFormat>),
}

impl Encoding {
    /// True if the values times their scales are exact in bf16 and sums of their products stay within f32's range.
    /// Those of E7M0 do not: it reaches 2^64.
    #[must_use]
    pub fn fits_bf16(&self) -> bool {
        match self {
            Self::F32 => false,
            Self::Bf16 => true,
            Self::Codes(format) => format.fits_bf16(),
        }
    }
}

/// Tensors with fewer elements stay f32: they are still in a processor's cache when the backward pass uses them, and
/// encoding takes longer.
const SMALL: usize = 400_000;

/// Values in an encoding; unchanged if a value has no code or there are few. Codes need scales.
pub(super) fn pack(x: FlexTensor, scales: Option<&FlexTensor>, encoding: &Encoding) -> FlexTensor {
    if x.shape().num_elements() < SMALL {
        return x;
    }
    let (shape, x, scales) = (x.shape(), x.to_contiguous(), scales.map(FlexTensor::to_contiguous));
    match (encoding, &scales) {
        (Encoding::Bf16, _) => from_elements(bf16::narrow(elements(&x)), shape),
        (Encoding::Codes(format), Some(scales)) => {
            let scales = scale_pairs(elements(scales));
            let packed = if format.decoded().len() > 256 {
                codes(format, elements(&x), scales, |code| code).map(|codes| from_elements(codes, shape))
            } else {
                codes(format, elements(&x), scales, |code| code as u8)
                    .map(|codes| from_elements(codes, shape))
            };
            packed.unwrap_or(x)
        }
        _ => x,
    }
}

/// The values that [`pack`] encoded, bit-identical.
pub(super) fn unpack(packed: FlexTensor, scales: Option<&FlexTensor>, encoding: &Encoding) -> FlexTensor {
    let (shape, scales) = (packed.shape(), scales.map(FlexTensor::to_contiguous));
    let scales = scales.as_ref().map(|scales| scale_pairs(elements(scales)));
    let unpacked: Option<Vec<f32>> = match (encoding, packed.dtype(), scales) {
        (Encoding::Bf16, DType::U16, _) => packed.as_slice::<u16>().map(bf16::widen),
        (Encoding::Codes(format), DType::U8, Some(scales)) => {
            packed.as_slice::<u8>().map(|codes| values(format, codes, scales))
        }
        (Encoding::Codes(format), DType::U16, Some(scales)) => {
            packed.as_slice::<u16>().map(|codes| values(format, codes, scales))
        }
        _ => None,
    };
    unpacked.map_or(packed, |values| from_elements(values, shape))
}

/// The codes of values on the grid; `None` if a value has none or may be inexact.
fn codes<T: Copy + Default + Send>(
    format: &DeviceFormat,
    x: &[f32],
    scales: &[[f32; 2]],
    narrow: impl Fn(u16) -> T + Sync,
) -> Option<Vec<T>> {
    if scales.iter().any(|[scale, _]| !(1.0 / LARGEST_SCALE..=LARGEST_SCALE).contains(scale)) {
        return None;
    }
    let params = QuantParams::nearest(cpu::consecutive(scales, x.len()));
    let mut codes = vec![T::default(); x.len()];
    let parts = codes.par_chunks_mut(CHUNK).zip(x.par_chunks(CHUNK)).enumerate();
    let done = parts.map(|(part, (codes, x))| {
        let wide = format.plugin().encode(x, &params.skip((part * CHUNK) as u64)).ok()?;
        codes.iter_mut().zip(wide).for_each(|(code, wide)| *code = narrow(wide));
        Some(())
    });
    done.collect::<Option<()>>().map(|()| codes)
}

/// The values of codes.
fn values<T: Copy + Into<u16> + Sync>(format: &DeviceFormat, codes: &[T], scales: &[[f32; 2]]) -> Vec<f32> {
    let (table, scales) = (format.decoded(), cpu::consecutive(scales, codes.len()));
    let mut values = vec![0.0; codes.len()];
    values.par_chunks_mut(CHUNK).zip(codes.par_chunks(CHUNK)).enumerate().for_each(
        |(part, (values, codes))| {
            for (run, [_, inverse]) in scales.skip((part * CHUNK) as u64).runs(codes.len()) {
                for (value, &code) in values[run.clone()].iter_mut().zip(&codes[run]) {
                    *value = table[usize::from(code.into())] * inverse;
                }
            }
        },
    );
    values
}
