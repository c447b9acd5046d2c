//! The scale of a block: [`Scaling`] applied to its statistics.

use crate::{
    powers::{ceil_log2, exp2, floor_log2},
    range::Range,
    scale_rule::{BlockStatistics, Rule},
    scale_storage::{E8M0_NAN, e8m0},
    scale_type::ScaleType,
    scaling::{BlockScale, Limit, NonFinite, Order, Scaling, Storage, ZeroBlock},
    two_levels::TensorScale,
};

impl Scaling {
    /// The encode and decode scale of a block: elements are multiplied by the first, codes by the second. `tensor` is
    /// [`Self::tensor_scale`] of all blocks.
    #[must_use]
    pub fn pair(&self, range: &Range, block: &BlockStatistics, tensor: Option<&TensorScale>) -> [f32; 2] {
        self.scale(range, block, tensor).pair()
    }

    /// The type of stored scales, if they are floating-point bytes.
    #[must_use]
    pub fn byte_type(&self) -> Option<ScaleType> {
        match self.storage {
            Storage::E4m3 => Some(ScaleType::UE4M3),
            Storage::Minifloat(own) => Some(own),
            Storage::F32 | Storage::E8m0 => None,
        }
    }

    /// [`Self::pair`] of each of some blocks with these largest finite magnitudes, where scales depend on nothing else
    /// ([`Self::needs_amax_only`]). One loop computes common terms once.
    pub fn pairs(&self, range: &Range, amax: &[f32], tensor: Option<&TensorScale>, pairs: &mut [[f32; 2]]) {
        let (scaling, range) = (*self, *range);
        for (pair, &amax) in pairs.iter_mut().zip(amax) {
            *pair = scaling.scale(&range, &BlockStatistics::of_amax(amax), tensor).pair();
        }
    }

    /// True if the scale of a block depends only on its largest finite magnitude.
    #[must_use]
    pub fn needs_amax_only(&self) -> bool {
        self.nonfinite == NonFinite::Skip
            && !matches!(self.rule, Rule::Rms { .. })
            && self.choice.is_none()
            && !self.needs_matrix()
    }

    #[inline(always)]
    fn scale(&self, range: &Range, block: &BlockStatistics, tensor: Option<&TensorScale>) -> BlockScale {
        match self.storage {
            Storage::E4m3 | Storage::Minifloat(_) => self.byte_scale(range, block, tensor, 1.0, 0),
            Storage::F32 | Storage::E8m0 => self.block(range, block),
        }
    }

    /// As [`Self::scale`], with a decode scale that is larger by a factor before it is rounded to its type, at random
    /// by `word`.
    pub(crate) fn scale_by(
        &self,
        range: &Range,
        block: &BlockStatistics,
        tensor: Option<&TensorScale>,
        factor: f32,
        word: u32,
    ) -> BlockScale {
        match self.storage {
            Storage::E4m3 | Storage::Minifloat(_) => self.byte_scale(range, block, tensor, factor, word),
            Storage::F32 | Storage::E8m0 => self.block(range, &block.scaled(factor)),
        }
    }

    /// The scale of a block whose magnitude is another than its largest, without a scale of the tensor.
    pub(crate) fn block_scale_at(
        &self,
        range: &Range,
        block: &BlockStatistics,
        magnitude: f32,
    ) -> BlockScale {
        self.scale(range, &block.at(magnitude), None)
    }

    #[inline(always)]
    pub(crate) fn poisons(&self, block: &BlockStatistics) -> bool {
        self.nonfinite == NonFinite::Poison && self.amax.is_none() && block.nonfinite
    }

    /// A scale in f32 or E8M0.
    #[inline(always)]
    fn block(&self, range: &Range, block: &BlockStatistics) -> BlockScale {
        let nan = BlockScale::nan((self.storage == Storage::E8m0).then_some(E8M0_NAN));
        if self.poisons(block) {
            return nan;
        }
        let mut amax = self.amax.unwrap_or(block.amax);
        if amax == 0.0 && self.floor == 0.0 && block.is_infinite() {
            return self.power(range, 0);
        }
        if f64::from(amax) < self.floor && self.rule != Rule::Max {
            amax = self.floor as f32;
        }
        if amax == 0.0 && self.floor == 0.0 && !matches!(self.rule, Rule::Rms { .. }) {
            match self.zero {
                ZeroBlock::One | ZeroBlock::StoredOne | ZeroBlock::StoredSmallest => {
                    return self.power(range, 0);
                }
                ZeroBlock::Smallest => return self.power(range, -127),
                ZeroBlock::MinNormal => amax = f32::MIN_POSITIVE,
            }
        }
        match self.rule {
            Rule::Max => match (self.order, self.pow2 || self.storage == Storage::E8m0) {
                (Order::Encode | Order::Amax | Order::Product, true) => {
                    self.power(range, -floor_log2(self.encode(range, amax)))
                }
                // DeepGEMM keeps the exponent byte from 1 to 254; a byte of its own may be 0.
                (_, true) => {
                    let least = if self.storage == Storage::E8m0 { -127 } else { -126 };
                    let decode = self.decode(range, amax);
                    self.power(range, if decode == 0.0 { least } else { ceil_log2(decode).max(least) })
                }
                (Order::Encode | Order::Amax | Order::Product, false) => {
                    let encode = self.encode(range, amax) * self.factor;
                    self.within(range, encode, 1.0 / encode.min(f32::MAX))
                }
                (_, false) => {
                    let decode = (self.decode(range, amax) / self.factor).min(f32::MAX);
                    self.within(range, 1.0 / decode, decode)
                }
            },
            rule => match rule.exponent(range, amax, block, self.margin) {
                Some(e) => self.power(range, e),
                None if self.nonfinite == NonFinite::Poison => nan,
                None => self.power(range, 128 - range.emax() + self.margin),
            },
        }
    }

    /// These scales, by which no value becomes infinite unless sources have it so.
    #[inline(always)]
    pub(crate) fn within(&self, range: &Range, encode: f32, decode: f32) -> BlockScale {
        if self.nonfinite == NonFinite::Skip && encode < range.least_encode {
            return BlockScale::finite(range.least_encode, 1.0 / range.least_encode);
        }
        BlockScale::finite(encode, decode)
    }

    /// The decode scale `2^e`, as near as it can be stored.
    #[inline(always)]
    fn power(&self, range: &Range, e: i32) -> BlockScale {
        let most = if self.nonfinite == NonFinite::Skip { range.most_exponent } else { 127 };
        let (code, power) = e8m0(e.min(most));
        let scale = self.within(range, exp2(127 - i32::from(code)) * self.factor, power / self.factor);
        match self.storage {
            Storage::E8m0 => BlockScale { stored: power, code: Some(code), ..scale },
            _ => scale,
        }
    }

    /// `target * 2^-margin`, at most the largest f32.
    #[inline(always)]
    fn numerator(&self, range: &Range) -> f32 {
        ((f64::from(range.target) * 2f64.powi(-self.margin)) as f32).min(f32::MAX)
    }

    /// `fl(target / amax)`, within limits.
    #[inline(always)]
    fn encode(&self, range: &Range, amax: f32) -> f32 {
        let numerator = self.numerator(range);
        let encode = if f64::from(amax) >= self.floor {
            numerator / amax
        } else {
            (f64::from(numerator) / self.floor) as f32
        };
        self.limited(encode.min(f32::MAX))
    }

    /// `fl(amax / target)`, within limits.
    #[inline(always)]
    fn decode(&self, range: &Range, amax: f32) -> f32 {
        self.limited(amax.max(self.floor as f32) / self.numerator(range))
    }

    #[inline(always)]
    fn limited(&self, scale: f32) -> f32 {
        if self.limit == Limit::Normal && self.storage == Storage::F32 {
            scale.clamp(exp2(-126), exp2(126))
        } else {
            scale
        }
    }
}
