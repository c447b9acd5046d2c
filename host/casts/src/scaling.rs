//! The scales of blocks: the factors of elements before rounding (*encode*) and of codes afterwards (*decode*).
//!
//! `fl` is one rounding to f32. Sources: Transformer Engine (encode first), DeepGEMM and torchao's optimizers (decode
//! first), OCP MX v1.0, arXiv:2509.25149 appendix B (NVFP4). A fused or reordered operation would change last bits and
//! flip ties.

use crate::{
    CastError, Microexponents, ScaleChoice, ScaleRounding, ScaleType, grid::Grid, powers::LEAST_DECODE,
    range::Range, scale_rule::Rule,
};

/// The storage type of a scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Storage {
    /// f32.
    #[default]
    F32,
    /// A byte `e + 127` for `2^e`, 255 for NaN: OCP MX v1.0 section 5.4.1. Implies a power of two.
    E8m0,
    /// A byte, E4M3 without sign: NVFP4.
    E4m3,
    /// A byte of another floating-point type without sign.
    Minifloat(ScaleType),
}

/// The scale that is computed by a division. The other is its reciprocal, rounded again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Order {
    /// `encode = fl(target / amax)`, `decode = fl(1 / encode)`. Powers of two are rounded down.
    #[default]
    Encode,
    /// `decode = fl(amax / target)`, `encode = fl(1 / decode)`. Powers of two are rounded up.
    Decode,
    /// For scales of floating-point bytes: as `Encode`, but the ratio that is stored is `fl(fl(amax / target) S)` under
    /// the tensor's encode scale `S`: four over six (arXiv:2512.02010).
    Amax,
    /// For scales of floating-point bytes: as `Encode`, but values are scaled back by `fl(stored D)`, `D = fl(1 / S)`:
    /// arXiv:2609.02846.
    Product,
    /// For scales of floating-point bytes: as `Decode`, with the tensor's decode scale `fl(fl(A / most) / target)`:
    /// Quartet II (arXiv:2601.22813).
    DecodeMost,
    /// As `DecodeMost`, with the stored ratio `fl(fl(amax / D) / target)` under the tensor's decode scale `D`:
    /// TetraJet-v2 (arXiv:2510.27527).
    DecodeTensor,
    /// For scales of floating-point bytes: as `Decode`, with the tensor's decode scale `fl(fl(A / target) / most)`:
    /// arXiv:2510.25602.
    DecodeTarget,
}

impl Order {
    /// True if the scale of the tensor follows from its encode scale.
    #[must_use]
    pub fn is_encode(self) -> bool {
        matches!(self, Self::Encode | Self::Amax | Self::Product)
    }

    /// True if stored ratios are computed from the tensor's encode scale last: four over six.
    #[must_use]
    pub fn divides_amax(self) -> bool {
        self == Self::Amax
    }

    fn needs_bytes(self) -> bool {
        !matches!(self, Self::Encode | Self::Decode)
    }
}

/// The treatment of a scale beyond f32's normal numbers, for [`Rule::Max`] with f32 scales.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Limit {
    /// Scales are kept from `2^-126` to `2^126`, so that both are normal numbers: this project's.
    #[default]
    Normal,
    /// An infinite encode scale becomes the largest f32, or `2^127` as a power of two: Transformer Engine's.
    F32,
}

/// The scale of a block whose amax is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ZeroBlock {
    /// 1.
    #[default]
    One,
    /// `2^-127`, E8M0's code 0: torchao, Transformer Engine.
    Smallest,
    /// As if amax were `2^-126`: microxcaling.
    MinNormal,
    /// For scales of floating-point bytes, of which 0 is one: 1 is stored in its place, also for blocks of small
    /// numbers. Quartet II, arXiv:2609.02846.
    StoredOne,
    /// For scales of floating-point bytes: the smallest number above 0 is stored in place of 0. TetraJet-v2.
    StoredSmallest,
}

/// The effect of NaN and infinities in a block on its scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NonFinite {
    /// Nothing: amax is that of the finite elements. NaN stays NaN, infinities saturate.
    #[default]
    Skip,
    /// The scale is NaN, and so is every element of the block (torchao): of the tensor, if it has a scale.
    Poison,
}

/// The operation that applies a scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Operation {
    /// By a multiplication: elements with the encode scale, values with the decode scale.
    #[default]
    Multiply,
    /// By a division: elements by the decode scale, values by the encode scale.
    Divide,
    /// For values under a scale of the tensor: by the stored scale, then by that of the tensor, in the order of
    /// multiplications that four over six and MS-EDEN have ([`crate::Cast`] alone computes it).
    Nested,
}

impl Operation {
    /// An element scaled for rounding. Where the decode scale is 0, elements become 0.
    #[inline(always)]
    #[must_use]
    pub fn quantize(self, x: f32, [encode, decode]: [f32; 2]) -> f32 {
        match self {
            Self::Multiply | Self::Nested => x * encode,
            Self::Divide if decode == 0.0 && !x.is_nan() => 0f32.copysign(x),
            Self::Divide => x / decode,
        }
    }

    /// [`Self::quantize`] of each element.
    #[inline(always)]
    pub fn quantize_all(self, values: &mut [f32], [encode, decode]: [f32; 2]) {
        match self {
            Self::Multiply | Self::Nested => {
                for x in values {
                    *x *= encode;
                }
            }
            Self::Divide if decode == 0.0 => {
                values.iter_mut().for_each(|x| *x = self.quantize(*x, [encode, decode]));
            }
            Self::Divide => {
                for x in values {
                    *x /= decode;
                }
            }
        }
    }

    /// [`Self::dequantize`] of each element.
    #[inline(always)]
    pub fn dequantize_all(self, values: &mut [f32], [encode, decode]: [f32; 2]) {
        match self {
            Self::Multiply | Self::Nested => {
                for y in values {
                    *y *= decode;
                }
            }
            Self::Divide if decode == 0.0 => {
                values.iter_mut().for_each(|y| *y = self.dequantize(*y, [encode, decode]));
            }
            Self::Divide => {
                for y in values {
                    *y /= encode;
                }
            }
        }
    }

    /// A rounded element scaled back. Where the decode scale is 0, it is 0.
    #[inline(always)]
    #[must_use]
    pub fn dequantize(self, y: f32, [encode, decode]: [f32; 2]) -> f32 {
        match self {
            Self::Multiply | Self::Nested => y * decode,
            Self::Divide if decode == 0.0 && !y.is_nan() => 0f32.copysign(y),
            Self::Divide => y / encode,
        }
    }
}

/// The derivation of the scales of a cast from its blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scaling {
    /// The rule.
    pub rule: Rule,
    /// The storage type of scales.
    pub storage: Storage,
    /// True if scales of [`Rule::Max`] are rounded to powers of two; all other rules produce powers of two.
    pub pow2: bool,
    /// The scale that is divided first; only for [`Rule::Max`].
    pub order: Order,
    /// True if scales of floating-point bytes are relative to an f32 scale of the whole tensor.
    pub tensor: bool,
    /// The stored scale of the block with the tensor's largest magnitude, under a scale of the tensor. `None`: the
    /// largest that can be stored, 448 for E4M3. Four over six has 256, so that a scale 1.5 times as large can be
    /// stored.
    pub most: Option<f32>,
    /// The magnitude to which the largest of a block is scaled, in place of the format's: `2^-90` to `2^90`.
    pub target: Option<f32>,
    /// Elements along the axis that share an f32 scale in place of that of the tensor; a multiple of the block's.
    pub outer: Option<usize>,
    /// True if the scale of the tensor, and its products with stored scales, are rounded to bf16.
    pub to_bf16: bool,
    /// The rounding of scales that are floating-point bytes. With a correction, that of the corrected ones; others go
    /// to nearest.
    pub round: ScaleRounding,
    /// Elements along the axis, a multiple of the block's, whose stored scales are multiplied after the rounding of
    /// elements by `fl(sum v^2 / sum v q)` of scaled elements `v` and their codes' values `q`, and rounded again:
    /// EDEN's correction, which makes MS-EDEN of Quartet II unbiased.
    pub correction: Option<usize>,
    /// The choice among several scales.
    pub choice: Option<ScaleChoice>,
    /// Sub-blocks that share one more factor of 1 or 2 each. The block's scale leaves room for all factors: the target
    /// is that of the format times `2^levels`.
    pub microexponents: Microexponents,
    /// True if each operation that computes scales of floating-point bytes, without a scale of the tensor, is rounded
    /// to bf16: HiFloat4.
    pub in_bf16: bool,
    /// Binades left free above amax, -32 to 32.
    pub margin: i32,
    /// Lower clamp of amax, in units of the elements; for E4M3 scales that of the scale itself. 0: none. It is f64
    /// because torchao divides by its 1e-12 in f64; where `decode` is divided first, it is rounded to f32.
    pub floor: f64,
    /// The treatment of scales that are not normal numbers.
    pub limit: Limit,
    /// The scale of a block of zeros.
    pub zero: ZeroBlock,
    /// The effect of NaN and infinities.
    pub nonfinite: NonFinite,
    /// Multiplied into the encode scale after all else, above 0; the stored byte does not have it. 3/4 in the backward
    /// pass of Quartet (arXiv:2505.14669), 16/17 in Quartet II.
    pub factor: f32,
    /// The operation that scales elements.
    pub quantize: Operation,
    /// The operation that scales values back.
    pub dequantize: Operation,
    /// The amax of each block, or of the tensor under E4M3 scales, if it does not come from the tensor: past steps
    /// (delayed scaling) or a constant. Finite and above 0; 0 stands for a past of zeros, with a scale of 1. `None`:
    /// the elements of the current tensor.
    pub amax: Option<f32>,
}

impl Default for Scaling {
    fn default() -> Self {
        Self {
            rule: Rule::Max,
            storage: Storage::F32,
            pow2: false,
            order: Order::Encode,
            tensor: false,
            most: None,
            target: None,
            outer: None,
            to_bf16: false,
            round: ScaleRounding::Nearest,
            correction: None,
            choice: None,
            microexponents: Microexponents::default(),
            in_bf16: false,
            margin: 0,
            floor: 0.0,
            limit: Limit::Normal,
            zero: ZeroBlock::One,
            nonfinite: NonFinite::Skip,
            factor: 1.0,
            quantize: Operation::Multiply,
            dequantize: Operation::Multiply,
            amax: None,
        }
    }
}

/// The scale of one block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct BlockScale {
    pub(crate) encode: f32,
    pub(crate) decode: f32,
    /// The stored scale, and its code.
    pub(crate) stored: f32,
    pub(crate) code: Option<u8>,
}

impl BlockScale {
    /// Scale 1.
    pub(crate) const ONE: Self = Self { encode: 1.0, decode: 1.0, stored: 1.0, code: None };

    /// Scales within f32: 0 times infinity would be NaN, and an encode scale that stops at the largest f32 needs a
    /// decode scale that is its inverse.
    #[inline(always)]
    pub(crate) fn finite(encode: f32, decode: f32) -> Self {
        let (encode, decode) = (encode.min(f32::MAX), decode.clamp(LEAST_DECODE, f32::MAX));
        Self { encode, decode, stored: decode, code: None }
    }

    /// The encode and decode scale for fake quantization. Where the decode scale is 0, all elements become 0; an encode
    /// scale of 1 / 0 would count them as overflow.
    #[inline(always)]
    pub(crate) fn pair(self) -> [f32; 2] {
        [if self.decode == 0.0 { f32::MIN_POSITIVE } else { self.encode }, self.decode]
    }

    pub(crate) fn nan(code: Option<u8>) -> Self {
        Self { encode: f32::NAN, decode: f32::NAN, stored: f32::NAN, code }
    }
}

impl Scaling {
    /// Refuses fields that exclude each other or are out of range.
    ///
    /// # Errors
    /// [`CastError::Fields`].
    pub fn check(&self, grid: &Grid) -> Result<(), CastError> {
        let bytes = self.byte_type().is_some();
        refuse(
            bytes && (self.rule != Rule::Max || self.pow2 || self.margin != 0),
            "`scaling.type` is a floating-point byte, which needs rule max without pow2 and margin",
            "use e8m0 or f32 for powers of two",
        )?;
        refuse(
            self.tensor && !bytes,
            "`scaling.tensor` = f32 needs block scales of type e4m3",
            "set type = \"e4m3\", or leave tensor out",
        )?;
        refuse(
            self.tensor && (self.most_stored() * self.range(grid.range()).target).is_infinite(),
            "`scaling.tensor` is f32, but 448 times the format's target exceeds f32",
            "leave tensor out, or use another format",
        )?;
        refuse(
            self.order.needs_bytes() && !bytes,
            "`scaling.order` is one of scales that are floating-point bytes",
            "set type = \"e4m3\", or use order encode or decode",
        )?;
        refuse(
            matches!(self.zero, ZeroBlock::StoredOne | ZeroBlock::StoredSmallest) && !bytes,
            "`scaling.zero` is one of stored scales, which needs scales that are floating-point bytes",
            "set type = \"e4m3\", or use zero = \"one\"",
        )?;
        refuse(
            self.round != ScaleRounding::Nearest && !bytes,
            "`scaling.round` needs scales that are floating-point bytes",
            "leave round out; rule rceil rounds powers of two up",
        )?;
        refuse(
            self.target.is_some_and(|target| !(target >= 2f32.powi(-90) && target <= 2f32.powi(90))),
            "`scaling.target` must be from 2^-90 to 2^90",
            "leave it out for the format's largest value; MS-EDEN has 6.0721064 for E2M1",
        )?;
        self.check_of_matrix()?;
        refuse(
            self.most.is_some_and(|most| {
                !(self.tensor && most >= 1.0 && most <= self.byte_type().map_or(0.0, ScaleType::largest))
            }),
            "`scaling.tensor_target` needs `scaling.tensor` = f32, and is from 1 to the largest scale of its type",
            "448 is the largest of e4m3; four over six has 256",
        )?;
        refuse(
            self.choice.is_some() && grid.range().significand_bits.is_none(),
            "`scaling.choice` compares the errors of minifloats, but the format is a list of values",
            "leave choice out for this format",
        )?;
        refuse(
            self.choice.is_some() && matches!(self.rule, Rule::Rms { .. }),
            "`scaling.choice` does not combine with rule rms",
            "use rule max",
        )?;
        refuse(
            !self.microexponents.is_empty() && (self.choice.is_some() || self.correction.is_some()),
            "`scaling.microexponents` excludes a choice and a correction",
            "leave choice and correction out, or microexponents",
        )?;
        refuse(
            self.in_bf16
                && (!bytes
                    || self.tensor
                    || self.choice.is_some()
                    || self.correction.is_some()
                    || !matches!(self.order, Order::Encode | Order::Decode)),
            "`scaling.arithmetic` is bf16, which is for floating-point bytes without a scale of the tensor",
            "set type to e6m2 or e4m3, and leave tensor, choice and correction out; or use arithmetic = \"f32\"",
        )?;
        refuse(
            self.rule == Rule::Even && grid.range().significand_bits.is_none(),
            "`scaling.rule` is even, but the format has no significand bits to round to",
            "use floor, ceil or rceil for this format",
        )?;
        refuse(
            matches!(self.rule, Rule::Rms { deviations } if !(deviations > 0.0 && deviations.is_finite())),
            "`scaling.deviations` must be a finite number above 0",
            "Quartet has 2.92247856 for E2M1",
        )?;
        refuse(
            !(-32..=32).contains(&self.margin),
            "`scaling.margin` must be from -32 to 32",
            "it counts binades",
        )?;
        refuse(
            !(self.floor >= 0.0 && self.floor <= f64::from(f32::MAX)),
            "`scaling.floor` must be a finite number, 0 or more",
            "0 clamps nothing",
        )?;
        refuse(
            !(self.factor >= 2f32.powi(-32) && self.factor <= 2f32.powi(32)),
            "`scaling.factor` must be from 2^-32 to 2^32",
            "1 changes nothing; Quartet's backward pass has 0.75",
        )?;
        refuse(
            self.amax.is_some_and(|amax| !(amax.is_finite() && amax > 0.0)),
            "`scaling.static_amax` must be above 0 and at most 3.4028235e38",
            "give the magnitude, such as static_amax = 3.5; or set amax = \"dynamic\" without it",
        )
    }

    /// Refuses fields of scales that depend on more than a block and the tensor.
    fn check_of_matrix(&self) -> Result<(), CastError> {
        refuse(
            self.quantize == Operation::Nested,
            "`scaling.quantize` is nested, which scales values back",
            "use multiply or divide, and set dequantize = \"nested\"",
        )?;
        refuse(
            self.dequantize == Operation::Nested && !self.tensor,
            "`scaling.dequantize` is nested, which needs `scaling.tensor`",
            "set tensor = \"f32\", or use dequantize = \"multiply\"",
        )?;
        refuse(
            self.outer.is_some() && !self.tensor,
            "`scaling.outer` needs `scaling.tensor`: its blocks have scales in place of the tensor's",
            "set type = \"e4m3\" and tensor = \"f32\", or leave outer out",
        )?;
        refuse(
            self.outer.is_some() && self.amax.is_some(),
            "`scaling.amax` = \"static\" needs one scale for the tensor, but `scaling.outer` has several",
            "leave amax or outer out",
        )?;
        refuse(
            self.correction.is_some() && self.byte_type().is_none(),
            "`scaling.correction` needs scales that are floating-point bytes",
            "set type = \"e4m3\", or leave correction out",
        )
    }

    /// True if scales or values need the whole matrix: more than each block's statistics, the tensor's scale, and a
    /// factor of codes.
    #[must_use]
    pub fn needs_matrix(&self) -> bool {
        self.dequantize == Operation::Nested
            || self.round == ScaleRounding::Stochastic
            || self.correction.is_some()
            || self.outer.is_some()
            || !self.microexponents.is_empty()
    }

    /// The properties of a format with the target of this scaling, and with the factors of its microexponents.
    #[must_use]
    pub fn range(&self, range: &Range) -> Range {
        let (factor, levels) = (self.microexponents.largest(), self.microexponents.levels() as i32);
        Range {
            target: self.target.unwrap_or(range.target * factor),
            largest: range.largest * factor,
            least_encode: range.least_encode * factor,
            most_exponent: range.most_exponent - levels,
            ..*range
        }
    }
}

fn refuse(is: bool, message: &str, hint: &'static str) -> Result<(), CastError> {
    if is { Err(CastError::fields(message, hint)) } else { Ok(()) }
}
