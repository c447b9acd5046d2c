//! NVFP4's scales: E4M3 numbers, alone or under an f32 scale of the whole tensor.
//!
//! Encode first is Transformer Engine's order (its kernel and its reference agree), decode first torchao's `nvfp4_quantize`;
//! arXiv:2509.25149, appendix B, gives the formulas without the order of roundings.

use crate::{
    grid::Range,
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
        let (code, stored) = e4m3(ratio.max(self.floor as f32).min(E4M3_MAX));
        let (encode, decode) = match (self.order, tensor) {
            (_, None) => (1.0 / stored, stored),
            // A tensor of zeros, or a past of zeros, has scale 1.
            (Order::Encode, Some(tensor)) if tensor.amax == 0.0 => (1.0 / stored, stored),
            (Order::Encode, Some(tensor)) => {
                (1.0 / (stored * tensor.decode), stored * tensor.amax * (1.0 / (E4M3_MAX * target)))
            }
            (Order::Decode, Some(tensor)) => (1.0 / tensor.decode / stored, tensor.decode * stored),
        };
        let scale = BlockScale::finite(encode.min(f32::MAX) * self.factor, decode / self.factor);
        BlockScale { stored, code: Some(code), ..scale }
    }
}

/// The scale of a tensor whose blocks have E4M3 scales: 448 times the format's target is its largest value.
#[derive(Debug, Clone, Copy)]
pub struct TensorScale {
    amax: f32,
    encode: f32,
    pub(crate) decode: f32,
}

impl TensorScale {
    fn new(order: Order, amax: f32, target: f32) -> Self {
        let most = E4M3_MAX * target;
        let (encode, decode) = match order {
            Order::Encode => {
                let encode = (most / amax).min(f32::MAX);
                let encode = if amax == 0.0 || encode == 0.0 { 1.0 } else { encode };
                (encode, 1.0 / encode)
            }
            Order::Decode => {
                let decode = if amax == 0.0 { 1.0 } else { amax / most };
                (1.0 / decode, decode)
            }
        };
        // `min` returns the number if the other operand is NaN.
        if amax.is_nan() { Self { amax, encode: amax, decode: amax } } else { Self { amax, encode, decode } }
    }
}
