//! `[quant.scaling]` and the `scaling` tables of casts: one list of keys, which a section fills with defaults and a
//! cast inherits.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::choices::AmaxChoice;
use super::single_cast::{
    CandidatesChoice, CastScalingSection, ErrorChoice, FirstScaleChoice, MicroexponentsChoice,
    NonFiniteChoice, OperationChoice, ScaleArithmeticChoice, ScaleLimitChoice, ScaleOrderChoice,
    ScaleRoundingChoice, ScaleRuleChoice, ScaleTypeChoice, ScaledBackChoice, TensorScaleChoice,
    ZeroBlockChoice,
};

/// Declares the section and the fields of casts, which share all keys of the list.
macro_rules! scaling_tables {
    ($($(#[$meta:meta])* $key:ident: $type:ty,)+) => {
        /// `[quant.scaling]`: `stored = round(x * scale)` with `scale = target / (amax * 2^margin)`, unless keys say
        /// otherwise.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        pub struct ScalingSection {
            /// Source of amax. `delayed` and `static` need one scale for the tensor.
            pub amax: AmaxChoice,
            /// Length of the amax history of delayed scaling, in steps.
            pub window: usize,
            /// The amax for `static`. Default: that of the first step.
            pub static_amax: Option<f32>,
            /// Headroom above amax in binades, -32 to 32: divides the encode scale by 2^margin.
            pub margin: i32,
            /// Whether scales of rule `max` are rounded down to powers of two, as in Transformer Engine's block
            /// scaling. Those of OCP MX have `rule = "floor"`.
            pub pow2: bool,
            $($(#[$meta])* pub $key: Option<$type>,)+
        }

        impl Default for ScalingSection {
            fn default() -> Self {
                Self {
                    amax: AmaxChoice::Dynamic,
                    window: 16,
                    static_amax: None,
                    margin: 0,
                    pow2: false,
                    $($key: None,)+
                }
            }
        }

        /// The keys of a cast's scales. A missing key has the value of the cast it inherits from, then of
        /// `[quant.scaling]`.
        #[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        pub struct ScalingFields {
            /// Source of amax.
            pub amax: Option<AmaxChoice>,
            /// Length of the amax history of delayed scaling, in steps.
            pub window: Option<usize>,
            /// The amax for `static`. Default: that of the first step.
            pub static_amax: Option<f32>,
            /// Headroom above amax in binades, -32 to 32: divides the encode scale by 2^margin.
            pub margin: Option<i32>,
            /// Whether scales of rule `max` are rounded down to powers of two.
            pub pow2: Option<bool>,
            $($(#[$meta])* pub $key: Option<$type>,)+
        }

        impl ScalingSection {
            /// The fields that casts inherit.
            #[must_use]
            pub fn fields(&self) -> ScalingFields {
                ScalingFields {
                    amax: Some(self.amax),
                    window: Some(self.window),
                    static_amax: self.static_amax,
                    margin: Some(self.margin),
                    pow2: Some(self.pow2),
                    $($key: self.$key,)+
                }
            }
        }

        impl ScalingFields {
            /// These keys, completed from `parent`.
            #[must_use]
            pub fn or(self, parent: Self) -> Self {
                Self {
                    amax: self.amax.or(parent.amax),
                    window: self.window.or(parent.window),
                    static_amax: self.static_amax.or(parent.static_amax),
                    margin: self.margin.or(parent.margin),
                    pow2: self.pow2.or(parent.pow2),
                    $($key: self.$key.or(parent.$key),)+
                }
            }
        }
    };
}

scaling_tables! {
    /// Type in which scales are stored. Default: `f32`.
    #[serde(rename = "type")]
    storage: ScaleTypeChoice,
    /// Rule for the scale of a block. Default: `max`.
    rule: ScaleRuleChoice,
    /// The scale that is computed by a division; the other scale is its reciprocal. Only for rule `max`. Default:
    /// `encode`.
    order: ScaleOrderChoice,
    /// The scale of the whole tensor, in addition to scales of blocks that are floating-point bytes. Default: `none`.
    tensor: TensorScaleChoice,
    /// The stored scale of the block with the tensor's largest magnitude, under `tensor`. Default: the largest scale of
    /// the type, 448 for `e4m3`. Four over six has 256, so that scales 1.5 times as large can be stored.
    tensor_target: f32,
    /// The magnitude to which the largest of a block is scaled, from 2^-90 to 2^90. Default: the format's target,
    /// mostly its largest value.
    target: f32,
    /// Elements along the contraction, a multiple of `block`, that share a scale in place of that of the whole tensor:
    /// 128 in TetraJet-v2. Needs `tensor`. Default: the whole tensor.
    outer: usize,
    /// Elements along the contraction, a multiple of `block`, whose stored scales are corrected after the rounding of
    /// elements and rounded again: EDEN's correction, in tiles of the transform. With `round = "stochastic"` this is
    /// MS-EDEN of Quartet II. Default: no correction.
    correction: usize,
    /// Rounding of scales that are floating-point bytes. Default: `nearest`.
    round: ScaleRoundingChoice,
    /// The error by which each block chooses among candidate scales, as in four over six (arXiv:2512.02010); for
    /// minifloats. Default: no choice.
    choice: ErrorChoice,
    /// Factors of the candidates' decode scales, two to four; the first wins ties. Default: `[1, 1.5]`.
    candidates: CandidatesChoice,
    /// Sizes of nested sub-blocks in elements along the contraction, at most four, each dividing the one before and the
    /// first `block`. Elements of a sub-block share one more factor of 1 or 2, by which the block's scale is smaller:
    /// `[8, 4]` in HiFloat4, `[2]` in MX4, MX6 and MX9 (arXiv:2302.08007). CPU only. Default: `[]`.
    microexponents: MicroexponentsChoice,
    /// The type to which each operation that computes a scale is rounded, `f32` or `bf16`; for floating-point bytes
    /// without `tensor`. Default: `f32`.
    arithmetic: ScaleArithmeticChoice,
    /// Smallest amax, in units of the elements. For E4M3 scales: smallest scale. Default: 0.
    floor: f64,
    /// Treatment of scales that are not normal f32 numbers; only for rule `max` with type `f32`. Default: `normal`.
    limit: ScaleLimitChoice,
    /// The scale of a block of zeros. Default: `smallest` for E8M0, `one` for f32.
    zero: ZeroBlockChoice,
    /// Effect of NaN and infinities on the scale of their block. Default: `skip`.
    nonfinite: NonFiniteChoice,
    /// Factor applied to the encode scale after all other operations, from 2^-32 to 2^32. Default: 1.
    factor: f32,
    /// Operation that scales elements. Default: `multiply`.
    quantize: OperationChoice,
    /// Operation that scales values back. Default: `multiply`.
    dequantize: ScaledBackChoice,
    /// Standard deviations that rule `rms` scales to the format's largest value. Default: 2.92247856, Quartet's for
    /// E2M1.
    deviations: f64,
    /// The scale of the first step under delayed scaling. Default: `dynamic`.
    first: FirstScaleChoice,
}

impl ScalingFields {
    /// The keys of the arithmetic of single casts, defaults filled in.
    #[must_use]
    pub fn cast_scaling(&self) -> CastScalingSection {
        let plain = CastScalingSection::default();
        CastScalingSection {
            storage: self.storage.unwrap_or(plain.storage),
            rule: self.rule.unwrap_or(plain.rule),
            pow2: self.pow2.unwrap_or(plain.pow2),
            order: self.order.unwrap_or(plain.order),
            tensor: self.tensor.unwrap_or(plain.tensor),
            tensor_target: self.tensor_target,
            target: self.target,
            outer: self.outer,
            correction: self.correction,
            round: self.round.unwrap_or(plain.round),
            choice: self.choice,
            candidates: self.candidates,
            microexponents: self.microexponents.unwrap_or(plain.microexponents),
            arithmetic: self.arithmetic.unwrap_or(plain.arithmetic),
            margin: self.margin.unwrap_or(plain.margin),
            floor: self.floor.unwrap_or(plain.floor),
            limit: self.limit.unwrap_or(plain.limit),
            zero: self.zero.filter(|zero| *zero != ZeroBlockChoice::Keep),
            nonfinite: self.nonfinite.unwrap_or(plain.nonfinite),
            factor: self.factor.unwrap_or(plain.factor),
            quantize: self.quantize.unwrap_or(plain.quantize),
            dequantize: self.dequantize.unwrap_or(plain.dequantize),
            amax: self.amax.unwrap_or(plain.amax),
            static_amax: self.static_amax,
            deviations: self.deviations.unwrap_or(plain.deviations),
        }
    }
}
