//! What an operation keeps for its backward pass: values in their smallest exact form.
//!
//! Values on a format's grid are their codes, one or two bytes; values rounded to bf16 are 16 bits; others stay f32.

use std::sync::Arc;

use altgrad_plugin_api::QuantParams;
use burn::backend::{TensorMetadata, flex::FlexTensor};
use burn::tensor::DType;
use rayon::prelude::*;

use super::{
    DeviceFormat,
    op::{elements, flex, pairs},
};

/// Elements a thread takes at once.
const PART: usize = 1 << 16;
/// Scales outside of 1/this to this could bring values among f32's subnormals, where codes are not exact.
const EXTREME: f32 = (1u64 << 40) as f32;
/// Products of two, added 2^14 times, stay below f32's largest value.
const LARGEST_FACTOR: f32 = (1u64 << 56) as f32;

/// What an operand's values are exact in.
#[derive(Debug, Clone)]
pub enum Form {
    /// f32.
    F32,
    /// bf16.
    Bf16,
    /// The format's codes, with scales.
    Codes(Arc<DeviceFormat>),
}

impl Form {
    /// Whether the values times their scales are exact in bf16, and sums of their products far from f32's limits: E7M0
    /// reaches 2^64, whose square is beyond them.
    #[must_use]
    pub fn fits_bf16(&self) -> bool {
        match self {
            Self::F32 => false,
            Self::Bf16 => true,
            Self::Codes(format) => {
                let fits = |value: &f32| to_bf16(*value) == *value && value.abs() <= LARGEST_FACTOR;
                let mut finite = format.decoded().iter().filter(|value| value.is_finite()).peekable();
                finite.peek().is_some() && finite.all(fits)
            }
        }
    }
}

/// Values as they are kept; as they are where a value has no code.
pub(super) fn pack(x: FlexTensor, scales: &FlexTensor, form: &Form) -> FlexTensor {
    let (shape, x, scales) = (x.shape(), x.to_contiguous(), scales.to_contiguous());
    let scales = pairs(elements(&scales));
    match form {
        Form::F32 => x,
        Form::Bf16 => flex(elements(&x).iter().map(|x| (x.to_bits() >> 16) as u16).collect(), shape),
        Form::Codes(format) if format.decoded().len() > 256 => {
            codes(format, elements(&x), scales, |code| code).map_or(x, |codes| flex(codes, shape))
        }
        Form::Codes(format) => {
            codes(format, elements(&x), scales, |code| code as u8).map_or(x, |codes| flex(codes, shape))
        }
    }
}

/// What [`pack`] was given, bit for bit.
pub(super) fn unpack(packed: FlexTensor, scales: &FlexTensor, form: &Form) -> FlexTensor {
    let (shape, scales) = (packed.shape(), scales.to_contiguous());
    let scales = pairs(elements(&scales));
    let wide = |bits: &[u16]| bits.iter().map(|&bits| f32::from_bits(u32::from(bits) << 16)).collect();
    let unpacked: Option<Vec<f32>> = match (form, packed.dtype()) {
        (Form::Bf16, DType::U16) => packed.as_slice::<u16>().map(wide),
        (Form::Codes(format), DType::U8) => {
            packed.as_slice::<u8>().map(|codes| values(format, codes, scales))
        }
        (Form::Codes(format), DType::U16) => {
            packed.as_slice::<u16>().map(|codes| values(format, codes, scales))
        }
        _ => None,
    };
    unpacked.map_or(packed, |values| flex(values, shape))
}

/// The nearest bf16 value, ties to even; NaN stays NaN.
pub(super) fn to_bf16(x: f32) -> f32 {
    let bits = x.to_bits();
    let rounded = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff_0000;
    f32::from_bits(if x.is_nan() { bits | 0x0040_0000 } else { rounded } & 0xffff_0000)
}

/// The codes of values on the grid; `None` if a value has none or may be inexact.
fn codes<T: Copy + Default + Send>(
    format: &DeviceFormat,
    x: &[f32],
    scales: &[[f32; 2]],
    narrow: impl Fn(u16) -> T + Sync,
) -> Option<Vec<T>> {
    if scales.iter().any(|[scale, _]| !(1.0 / EXTREME..=EXTREME).contains(scale)) {
        return None;
    }
    let group = (x.len() / scales.len()).max(1);
    let mut codes = vec![T::default(); x.len()];
    let parts = codes.par_chunks_mut(PART).zip(x.par_chunks(PART)).enumerate();
    let done = parts.map(|(part, (codes, x))| {
        let mut scaled = x.to_vec();
        for_groups(part * PART, &mut scaled, group, |group, x| {
            let [scale, _] = scales[group];
            x.iter_mut().for_each(|x| *x *= scale);
        });
        let wide = format.plugin().encode(&scaled, &QuantParams::IDENTITY).ok()?;
        codes.iter_mut().zip(wide).for_each(|(code, wide)| *code = narrow(wide));
        Some(())
    });
    done.collect::<Option<()>>().map(|()| codes)
}

/// The values of codes.
fn values<T: Copy + Into<u16> + Sync>(format: &DeviceFormat, codes: &[T], scales: &[[f32; 2]]) -> Vec<f32> {
    let (table, group) = (format.decoded(), (codes.len() / scales.len()).max(1));
    let mut values = vec![0.0; codes.len()];
    values.par_chunks_mut(PART).zip(codes.par_chunks(PART)).enumerate().for_each(
        |(part, (values, codes))| {
            values.iter_mut().zip(codes).for_each(|(value, &code)| *value = table[usize::from(code.into())]);
            for_groups(part * PART, values, group, |group, values| {
                let [_, inverse] = scales[group];
                values.iter_mut().for_each(|value| *value *= inverse);
            });
        },
    );
    values
}

/// Calls `each` with the number and the elements of every group of `group` consecutive elements, cut at the ends of
/// `part`, which begins at element `first`.
fn for_groups(first: usize, part: &mut [f32], group: usize, each: impl Fn(usize, &mut [f32])) {
    let (mut rest, mut first) = (part, first);
    while !rest.is_empty() {
        let len = (group - first % group).min(rest.len());
        let (here, behind) = rest.split_at_mut(len);
        each(first / group, here);
        (rest, first) = (behind, first + len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bf16_rounds_to_nearest_even() {
        let cases = [
            (1.0, 1.0),
            (-0.0, -0.0),
            // One and half a step of 2^-7: to even; and a little more: up.
            (1.0 + 2f32.powi(-8), 1.0),
            (1.0 + 3.0 * 2f32.powi(-8), 1.0 + 2f32.powi(-6)),
            (1.0 + 2f32.powi(-8) + 2f32.powi(-20), 1.0 + 2f32.powi(-7)),
            (f32::MAX, f32::INFINITY),
            (f32::NEG_INFINITY, f32::NEG_INFINITY),
            (f32::from_bits(0x0001_8000), f32::from_bits(0x0002_0000)),
        ];
        for (x, expected) in cases {
            assert_eq!(to_bf16(x).to_bits(), expected.to_bits(), "{x}");
        }
        assert!(to_bf16(f32::NAN).is_nan() && to_bf16(f32::from_bits(0x7f80_0001)).is_nan());
    }

    #[test]
    fn groups_are_cut_at_the_ends() {
        let mut part = [0.0; 7];
        for_groups(4, &mut part, 3, |group, x| x.fill(group as f32));
        assert_eq!(part, [1.0, 1.0, 2.0, 2.0, 2.0, 3.0, 3.0]);
    }
}
