//! NVFP4's scales: E4M3 numbers, alone or under an f32 scale of the whole tensor.
//!
//! Encode first is Transformer Engine's order (its kernel and its reference agree), decode first torchao's
//! `nvfp4_quantize`; arXiv:2509.25149, appendix B, gives the formulas without the order of roundings.

use crate::{
    bf16::nearest_bf16,
    powers::{LEAST_DECODE, ceil_log2, exp2},
    range::Range,
    scale_rule::BlockStatistics,
    scale_storage::{E4M3_MAX, E4M3_NAN, e4m3},
    scale_type::{ScaleRounding, ScaleType},
    scaling::{BlockScale, Order, Scaling, Storage, ZeroBlock},
};

impl Scaling {
    /// The f32 scale over the scales of these blocks, if there is one.
    #[must_use]
    pub fn tensor_scale(&self, range: &Range, blocks: &[BlockStatistics]) -> Option<TensorScale> {
        self.tensor.then(|| {
            let measured = blocks.iter().map(|block| block.amax).fold(0.0, f32::max);
            let is_poisoned = blocks.iter().any(|block| self.poisons(block));
            let amax = if is_poisoned { f32::NAN } else { self.amax.unwrap_or(measured) };
            TensorScale::new(self.order, amax, range.target, self.most_stored())
        })
    }

    /// The same for a tensor with this largest finite magnitude, none of whose elements poisons it.
    #[must_use]
    pub fn tensor_scale_of_amax(&self, range: &Range, amax: f32) -> Option<TensorScale> {
        self.tensor_scale(range, &[BlockStatistics::of_amax(amax)])
    }

    /// The stored scale of the block with the largest magnitude of the tensor.
    #[must_use]
    #[inline(always)]
    pub fn most_stored(&self) -> f32 {
        match (self.most, self.storage) {
            (Some(most), _) => most,
            (None, Storage::Minifloat(own)) => own.largest(),
            _ => E4M3_MAX,
        }
    }

    /// A scale that is a floating-point byte, with or without one of the tensor. The decode scale is larger by
    /// `factor`, and rounded at random by `word` if it is.
    #[inline(always)]
    pub(crate) fn byte_scale(
        &self,
        range: &Range,
        block: &BlockStatistics,
        tensor: Option<&TensorScale>,
        factor: f32,
        word: u32,
    ) -> BlockScale {
        if self.poisons(block) || tensor.is_some_and(|tensor| tensor.amax.is_nan()) {
            return BlockScale::nan(Some(self.byte_type().map_or(E4M3_NAN, ScaleType::nan)));
        }
        let amax = if tensor.is_some() { block.amax } else { self.amax.unwrap_or(block.amax) };
        if amax == 0.0 && block.is_infinite() {
            return self.byte_of(range, 1.0, tensor, word);
        }
        self.byte_block(range, amax, tensor, factor, word)
    }

    #[inline(always)]
    fn byte_block(
        &self,
        range: &Range,
        amax: f32,
        tensor: Option<&TensorScale>,
        factor: f32,
        word: u32,
    ) -> BlockScale {
        let target = range.target;
        let ratio = match (self.order, tensor) {
            (Order::Encode, None) if self.in_bf16 => nearest_bf16(amax * nearest_bf16(1.0 / target)),
            (_, None) if self.in_bf16 => nearest_bf16(amax / target),
            (Order::Encode | Order::Product, None) => amax * (1.0 / target),
            (Order::Encode | Order::Product, Some(tensor)) => amax * (tensor.encode * (1.0 / target)),
            (Order::Amax, Some(tensor)) => amax / target * tensor.encode,
            (Order::DecodeTensor, Some(tensor)) => amax / tensor.decode / target,
            (_, None) => amax / target,
            (_, Some(tensor)) => amax / target / tensor.decode,
        };
        let ratio = ratio * factor;
        let least = if amax == 0.0 { 0.0 } else { tensor.map_or(0.0, |tensor| tensor.least_stored) };
        self.byte_of(range, ratio.max(least), tensor, word)
    }

    /// The scale of the stored number that `ratio` is rounded to.
    #[inline(always)]
    pub(crate) fn byte_of(
        &self,
        range: &Range,
        ratio: f32,
        tensor: Option<&TensorScale>,
        word: u32,
    ) -> BlockScale {
        let round = if self.correction.is_some() { ScaleRounding::Nearest } else { self.round };
        let (code, stored) = self.stored(ratio.max(self.floor as f32), round, word);
        self.byte(range, code, stored, tensor)
    }

    /// The stored number that `ratio` is rounded to, and its code.
    #[inline(always)]
    fn stored(&self, ratio: f32, round: ScaleRounding, word: u32) -> (u8, f32) {
        let (code, stored) = match (self.storage, round) {
            (Storage::Minifloat(own), _) => own.round(ratio, round, word),
            (_, ScaleRounding::Nearest) => e4m3(ratio.min(E4M3_MAX)),
            _ => ScaleType::UE4M3.round(ratio, round, word),
        };
        let own = || self.byte_type().unwrap_or(ScaleType::UE4M3);
        match self.zero {
            ZeroBlock::StoredOne if stored == 0.0 => own().round(1.0, ScaleRounding::Nearest, 0),
            ZeroBlock::StoredSmallest if stored == 0.0 => (1, own().value(1)),
            _ => (code, stored),
        }
    }

    /// The scale with EDEN's correction: its stored number times `factor`, rounded again.
    pub(crate) fn corrected(
        &self,
        range: &Range,
        scale: BlockScale,
        tensor: Option<&TensorScale>,
        factor: f32,
        word: u32,
    ) -> BlockScale {
        if scale.stored.is_nan() {
            return scale;
        }
        let (code, stored) = self.stored(scale.stored * factor, self.round, word);
        self.byte(range, code, stored, tensor)
    }

    /// The stored scale of a block with this decode scale, `tensor` being the scale over all, for scales that are
    /// bytes. Decode scales are products that are rounded a few times: the stored number is the nearest to their
    /// quotient.
    #[must_use]
    pub fn stored_scale(&self, decode: f32, tensor: Option<&TensorScale>) -> f32 {
        let Some(own) = self.byte_type().filter(|_| !decode.is_nan()) else { return decode };
        if decode == 0.0 {
            return 0.0;
        }
        let of_tensor = tensor.map_or(1.0, |tensor| self.stored_tensor_scale(tensor));
        let quotient = f64::from(decode) / f64::from(of_tensor);
        own.round(quotient as f32, ScaleRounding::Nearest, 0).1
    }

    /// The least normal number of scales that are bytes.
    #[must_use]
    pub fn least_normal_scale(&self) -> f32 {
        exp2(self.byte_type().map_or(-127, ScaleType::emin))
    }

    /// The decode scale of the tensor, as it is stored.
    #[must_use]
    pub fn stored_tensor_scale(&self, tensor: &TensorScale) -> f32 {
        if self.to_bf16 { nearest_bf16(tensor.decode) } else { tensor.decode }
    }

    /// The scale of this stored number.
    #[inline(always)]
    fn byte(&self, range: &Range, code: u8, stored: f32, tensor: Option<&TensorScale>) -> BlockScale {
        let (encode, decode) = match (self.order, tensor) {
            (_, None) if self.in_bf16 => (nearest_bf16(1.0 / stored), stored),
            (_, None) => (1.0 / stored, stored),
            (_, Some(tensor)) if self.to_bf16 => {
                let decode = nearest_bf16(nearest_bf16(tensor.decode) * stored);
                (1.0 / decode, decode)
            }
            // A tensor of zeros, or a past of zeros, has scale 1.
            (order, Some(tensor)) if order.is_encode() && tensor.amax == 0.0 => (1.0 / stored, stored),
            (Order::Encode | Order::Amax, Some(tensor)) => {
                (1.0 / (stored * tensor.decode), tensor.decode_of(stored, self.most_stored() * range.target))
            }
            (Order::Product, Some(tensor)) => (1.0 / (stored * tensor.decode), stored * tensor.decode),
            (_, Some(tensor)) => (tensor.encode / stored, tensor.decode * stored),
        };
        let scale = if stored == 0.0 {
            BlockScale { encode: f32::MAX, decode: 0.0, ..BlockScale::ONE }
        } else {
            self.within(range, encode.min(f32::MAX) * self.factor, decode / self.factor)
        };
        BlockScale { stored, code: Some(code), ..scale }
    }
}

/// The scale of a tensor whose blocks have E4M3 scales: 448 times the format's target is its largest value.
#[derive(Debug, Clone, Copy)]
pub struct TensorScale {
    /// The largest magnitude that the scales follow from.
    pub(crate) amax: f32,
    encode: f32,
    pub(crate) decode: f32,
    /// Stored scales of blocks are at least this power of two: with smaller ones, encode scales would exceed f32.
    least_stored: f32,
}

impl TensorScale {
    fn new(order: Order, amax: f32, target: f32, most_stored: f32) -> Self {
        let most = most_stored * target;
        // `min` returns the number if the other operand is NaN.
        if amax.is_nan() {
            return Self { amax, encode: amax, decode: amax, least_stored: 0.0 };
        }
        if amax == 0.0 {
            return Self { amax, encode: 1.0, decode: 1.0, least_stored: 0.0 };
        }
        // Both scales stay within f32, so that they are inverses.
        let within = |scale: f32| scale.clamp(LEAST_DECODE, f32::MAX);
        let amax = amax.max(most / f32::MAX);
        let (encode, decode) = match order {
            Order::Encode | Order::Amax | Order::Product => {
                let encode = within(most / amax);
                (encode, within(1.0 / encode))
            }
            Order::Decode | Order::DecodeMost | Order::DecodeTensor | Order::DecodeTarget => {
                let decode = within(match order {
                    Order::DecodeMost | Order::DecodeTensor => amax / most_stored / target,
                    Order::DecodeTarget => amax / target / most_stored,
                    _ => amax / most,
                });
                (within(1.0 / decode), decode)
            }
        };
        Self { amax, encode, decode, least_stored: exp2(ceil_log2(LEAST_DECODE / decode).max(-149)) }
    }

    /// `fl(fl(stored amax) fl(1/most))`, without a limit to the exponent of the first product.
    #[inline(always)]
    fn decode_of(&self, stored: f32, most: f32) -> f32 {
        let shift = if self.amax > 1.0 { exp2(-64) } else { exp2(64) };
        let product = stored * (self.amax * shift);
        // The product of two f32 is exact in f64.
        (f64::from(product) * f64::from(1.0 / most) / f64::from(shift)) as f32
    }
}
