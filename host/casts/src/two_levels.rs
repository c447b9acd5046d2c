//! NVFP4's scales: E4M3 numbers, alone or under an f32 scale of the whole tensor.
//!
//! Encode first is Transformer Engine's order (its kernel and its reference agree), decode first torchao's `nvfp4_quantize`;
//! arXiv:2509.25149, appendix B, gives the formulas without the order of roundings.

use crate::{
    Grid, Order, Scaling,
    scale_rule::Statistics,
    scale_storage::{E4M3_MAX, E4M3_NAN, e4m3},
    scaling::BlockScale,
};

impl Scaling {
    /// E4M3 scales, with or without one of the tensor.
    pub(crate) fn two_levels(&self, grid: &Grid, blocks: &[Statistics]) -> (Vec<BlockScale>, Option<f32>) {
        let measured = blocks.iter().map(|block| block.amax).fold(0.0, f32::max);
        let poisoned = self.tensor && blocks.iter().any(|block| self.poisons(block));
        let amax = if poisoned { f32::NAN } else { self.amax.unwrap_or(measured) };
        let tensor = self.tensor.then(|| Tensor::new(self.order, amax, grid.target()));
        let scales = blocks.iter().map(|block| {
            if poisoned || self.poisons(block) {
                return BlockScale::nan(Some(E4M3_NAN));
            }
            let amax = if self.tensor { block.amax } else { self.amax.unwrap_or(block.amax) };
            self.e4m3_block(grid, amax, tensor.as_ref())
        });
        (scales.collect(), tensor.map(|tensor| tensor.decode))
    }

    fn e4m3_block(&self, grid: &Grid, amax: f32, tensor: Option<&Tensor>) -> BlockScale {
        let target = grid.target();
        let ratio = match (self.order, tensor) {
            (Order::Encode, None) => amax * (1.0 / target),
            (Order::Encode, Some(tensor)) => amax * (tensor.encode * (1.0 / target)),
            (Order::Decode, None) => amax / target,
            (Order::Decode, Some(tensor)) => amax / target / tensor.decode,
        };
        let (code, stored) = e4m3(ratio.max(self.floor as f32).min(E4M3_MAX));
        let (encode, decode) = match (self.order, tensor) {
            (_, None) => (1.0 / stored, stored),
            (Order::Encode, Some(tensor)) => {
                (1.0 / (stored * tensor.decode), stored * tensor.amax * (1.0 / (E4M3_MAX * target)))
            }
            (Order::Decode, Some(tensor)) => (1.0 / tensor.decode / stored, tensor.decode * stored),
        };
        BlockScale {
            encode: encode.min(f32::MAX) * self.factor,
            decode: decode / self.factor,
            stored,
            code: Some(code),
        }
    }
}

/// The scale of a tensor whose blocks have E4M3 scales: 448 times the format's target is its largest value.
#[derive(Debug, Clone, Copy)]
struct Tensor {
    amax: f32,
    encode: f32,
    decode: f32,
}

impl Tensor {
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
        // `min` takes the number beside NaN.
        if amax.is_nan() { Self { amax, encode: amax, decode: amax } } else { Self { amax, encode, decode } }
    }
}
