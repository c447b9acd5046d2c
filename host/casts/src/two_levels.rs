//! NVFP4's scales: E4M3 numbers, alone or under an f32 scale of the whole tensor.
//!
//! Encode first is Transformer Engine's order (its kernel and its reference agree), decode first torchao's `nvfp4_quantize`;
//! arXiv:2509.25149, appendix B, gives the formulas without the order of roundings.

use crate::{
    grid::Range,
    powers::{LEAST_DECODE, ceil_log2, exp2},
    scale_rule::BlockStatistics,
    scale_storage::{E4M3_MAX, E4M3_NAN, e4m3},
    scaling::{BlockScale, Order, Scaling},
};

impl Scaling {
    /// The f32 scale over the scales of these blocks, if there is one.
    #[must_use]
    pub fn tensor_scale(&self, range: &Range, blocks: &[BlockStatistics]) -> Option<TensorScale> {
        self.tensor.then(|| {
            let measured = blocks.iter().map(|block| block.amax).fold(0.0, f32::max);
            let is_poisoned = blocks.iter().any(|block| self.poisons(block));
            let amax = if is_poisoned { f32::NAN } else { self.amax.unwrap_or(measured) };
            TensorScale::new(self.order, amax, range.target)
        })
    }

    /// The same for a tensor with this largest finite magnitude, none of whose elements poisons it.
    #[must_use]
    pub fn tensor_scale_of_amax(&self, range: &Range, amax: f32) -> Option<TensorScale> {
        self.tensor_scale(range, &[BlockStatistics::of_amax(amax)])
    }

    /// An E4M3 scale, with or without one of the tensor.
    #[inline(always)]
    pub(crate) fn e4m3_scale(
        &self,
        range: &Range,
        block: &BlockStatistics,
        tensor: Option<&TensorScale>,
    ) -> BlockScale {
        if self.poisons(block) || tensor.is_some_and(|tensor| tensor.amax.is_nan()) {
            return BlockScale::nan(Some(E4M3_NAN));
        }
        let amax = if tensor.is_some() { block.amax } else { self.amax.unwrap_or(block.amax) };
        if amax == 0.0 && block.is_infinite() {
            return self.e4m3_of(range, 1.0, tensor);
        }
        self.e4m3_block(range, amax, tensor)
    }

    #[inline(always)]
    fn e4m3_block(&self, range: &Range, amax: f32, tensor: Option<&TensorScale>) -> BlockScale {
        let target = range.target;
        let ratio = match (self.order, tensor) {
            (Order::Encode, None) => amax * (1.0 / target),
            (Order::Encode, Some(tensor)) => amax * (tensor.encode * (1.0 / target)),
            (Order::Decode, None) => amax / target,
            (Order::Decode, Some(tensor)) => amax / target / tensor.decode,
        };
        let least = if amax == 0.0 { 0.0 } else { tensor.map_or(0.0, |tensor| tensor.least_stored) };
        self.e4m3_of(range, ratio.max(least), tensor)
    }

    /// The scale of the E4M3 number nearest to `ratio`.
    #[inline(always)]
    fn e4m3_of(&self, range: &Range, ratio: f32, tensor: Option<&TensorScale>) -> BlockScale {
        let (code, stored) = e4m3(ratio.max(self.floor as f32).min(E4M3_MAX));
        let (encode, decode) = match (self.order, tensor) {
            (_, None) => (1.0 / stored, stored),
            // A tensor of zeros, or a past of zeros, has scale 1.
            (Order::Encode, Some(tensor)) if tensor.amax == 0.0 => (1.0 / stored, stored),
            (Order::Encode, Some(tensor)) => {
                (1.0 / (stored * tensor.decode), tensor.decode_of(stored, E4M3_MAX * range.target))
            }
            (Order::Decode, Some(tensor)) => (tensor.encode / stored, tensor.decode * stored),
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
    amax: f32,
    encode: f32,
    pub(crate) decode: f32,
    /// Stored scales of blocks are at least this power of two: with smaller ones, encode scales would exceed f32.
    least_stored: f32,
}

impl TensorScale {
    fn new(order: Order, amax: f32, target: f32) -> Self {
        let most = E4M3_MAX * target;
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
            Order::Encode => {
                let encode = within(most / amax);
                (encode, within(1.0 / encode))
            }
            Order::Decode => {
                let decode = within(amax / most);
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
