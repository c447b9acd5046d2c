//! `[quant]` and its tables: what the linear layers round, and how values are brought into the formats' range.

use altgrad_casts::LimitedSum;
use altgrad_metrics::Role;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::accumulate::AccumulateChoice;
use super::cast_fields::{CastTables, TransformChoice};
use super::choices::{MasterWeightsChoice, RoundingChoice, SteChoice, StoredScaleChoice};
use super::depth::BlockCount;
use super::scaling::{ScalingFields, ScalingSection};
use super::single_cast::{
    BlockChoice, CastRoundingChoice, OverflowChoice, RandomModeChoice, UseSourceChoice,
};
use super::tables::table;

mod phase;

pub(super) use phase::alert;
pub use phase::{CastPhase, CastTrigger};

/// `[quant]`: formats, rounding and scales. Formats are written like `E5M2` or `E3M4:ieee`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct QuantSection {
    /// A shipped recipe, such as `mxfp8` (`altgrad-host casts recipes` lists them), or a TOML file with `[quant]` and
    /// `train.precision`, relative to the run file's folder. Keys of the run file override those of the recipe; its
    /// rules by layer come after the recipe's. Resolved value: absent, because the recipe's keys are written out.
    pub recipe: Option<String>,
    /// The name of the recipe whose keys a resolved run file has. Reports label the run with it; it has no other
    /// effect. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_recipe: Option<String>,
    /// Format of the weights, or `none`. Default: unquantized, the baseline.
    pub weight: Option<String>,
    /// Format of the layers' inputs, or `none`. Default: unquantized.
    pub activation: Option<String>,
    /// Format of the gradients of the layers' outputs, or `none`. Default: unquantized.
    pub grad: Option<String>,
    /// Rounding mode. `nearest-even` is unbiased at ties, and hardware uses it.
    pub rounding: RoundingChoice,
    /// Rounding mode of weights only. Default: `rounding`.
    pub weight_rounding: Option<RoundingChoice>,
    /// Rounding mode of activations only. Default: `rounding`.
    pub activation_rounding: Option<RoundingChoice>,
    /// Rounding mode of gradients only. Default: `rounding`.
    pub grad_rounding: Option<RoundingChoice>,
    /// Random bits of stochastic rounding, 1 to 32, as instructions of hardware have them. Default: 32, drawn by the
    /// format.
    pub random_bits: Option<u32>,
    /// The rounding of distances to these bits: `a` down, `b` to nearest with ties up, `c` to even, `odd` to odd.
    /// Default: `a`.
    pub random_mode: Option<RandomModeChoice>,
    /// The result of elements beyond the format's largest value: `saturate`, or `nonfinite`: infinity, or NaN in
    /// formats without infinities. Default: `saturate`.
    pub overflow: Option<OverflowChoice>,
    /// Weights that the optimizer updates. `fp32`: fp32 weights; layers use a rounded copy. `none`: weights are stored
    /// in their formats, without an fp32 copy; each update, weight decay included, ends with one rounding by
    /// `weight_rounding`.
    pub master_weights: MasterWeightsChoice,
    /// Straight-through estimator: the gradient of the rounding of weights and activations. Weights without master
    /// weights are not rounded in the passes and need no estimator.
    pub ste: SteChoice,
    /// Scales that bring values into the formats' range.
    #[serde(deserialize_with = "table")]
    pub scaling: ScalingSection,
    /// Scales of weights without master weights.
    #[serde(deserialize_with = "table")]
    pub stored_scale: StoredScaleSection,
    /// Elements that share a scale: `none`, `tensor`, `row`, a number of elements along the contraction of the product,
    /// or a tile `[lines, elements along the contraction]`. Default: `tensor`.
    pub block: Option<BlockChoice>,
    /// What dgrad and wgrad read of the weight, the input and the gradient: the forward pass's rounded values
    /// (`reuse`), the high-precision tensor (`hp`), or the rounded values rounded again (`dequantized`). Default:
    /// `reuse`.
    pub source: Option<UseSourceChoice>,
    /// A Hadamard transform of both operands of all products, along the contraction:
    /// `{ hadamard = 16, signs = "te", to = "bf16" }`. `hadamard`: elements of a tile, a power of two from 2 to 256.
    /// `signs`: factors of elements before the transform, `none`, `te` (Transformer Engine's 16) or `seed`; default:
    /// `none`. `to`: type of the results, `f32` or `bf16`; default: `f32`. Default: none.
    pub transform: Option<TransformChoice>,
    /// Sums of the products of linear layers both of whose operands have formats: `f32`, or of limited width as on
    /// tensor cores, `{ bits = 13, round = "truncate", group = 32, promote = 128 }`. `bits`: bits kept below the
    /// largest exponent, 4 to 36. `round`: `truncate` or `nearest`; default: `truncate`. `group`: products added at
    /// once. `promote`: products after which a sum goes to an f32 sum; default: never. `promote_round`: rounding of
    /// that addition, `nearest` or `truncate`; default: `nearest`. `exact`: products of a scaled block that are added
    /// exactly and are one term with their scales, whose bytes give the exponent; default: none. Measured units by
    /// name: `hopper_fp8`, `hopper_fp8_promoted`, `ada_fp8`, `blackwell_fp8`, `blackwell_fp4`, `hopper_bf16`,
    /// `ampere_bf16`. CPU only. Default: `f32`.
    pub accumulate: Option<AccumulateChoice>,
    /// Casts of single operands and tensors. Each key is a role; keys that are not set are inherited from `[quant]`.
    #[serde(deserialize_with = "table")]
    pub cast: CastTables,
    /// Glob patterns on weight names, such as `*.attn.*`: matching layers stay unquantized. The head is
    /// `lm_head.weight`, also if it is tied to the embedding.
    pub exclude: Vec<String>,
    /// Transformer blocks at the start that stay unquantized: a number, or a share of all such as `"15%"`, rounded up.
    pub skip_first: BlockCount,
    /// Transformer blocks at the end that stay unquantized, as for `skip_first`. The head is in none: exclude it by
    /// name.
    pub skip_last: BlockCount,
    /// Casts that are left out after all rules, as `ROLE` or `ROLE:PATTERN`, such as `grad:lm_head.weight`. Without
    /// `PATTERN`, the role is left out in all layers. The random bits of all other casts stay the same.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unrounded: Vec<String>,
    /// Formats by layer: rules in order, later ones override.
    pub layer: Vec<LayerRule>,
    /// Casts that change during the run. An entry has a trigger, `at = STEP`, `at = "80%"` (of `train.max_steps`) or
    /// `on = "ALERT"`, and any keys of `[quant]`, which it overrides. With `none = true` it starts from an unquantized
    /// run instead of `[quant]`; with `recipe = "NAME"` it starts from a recipe. `precision` is as in `[train]`. The
    /// entry whose trigger occurred last applies (docs/numerics.md, section 5.7).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub schedule: Vec<CastPhase>,
}

impl Default for QuantSection {
    fn default() -> Self {
        Self {
            recipe: None,
            from_recipe: None,
            weight: None,
            activation: None,
            grad: None,
            rounding: RoundingChoice::NearestEven,
            weight_rounding: None,
            activation_rounding: None,
            grad_rounding: None,
            random_bits: None,
            random_mode: None,
            overflow: None,
            master_weights: MasterWeightsChoice::Fp32,
            ste: SteChoice::Identity,
            scaling: ScalingSection::default(),
            stored_scale: StoredScaleSection::default(),
            block: None,
            source: None,
            transform: None,
            accumulate: None,
            cast: CastTables::default(),
            exclude: Vec::new(),
            skip_first: BlockCount::default(),
            skip_last: BlockCount::default(),
            unrounded: Vec::new(),
            layer: Vec::new(),
            schedule: Vec::new(),
        }
    }
}

impl QuantSection {
    /// True if it names a format anywhere.
    #[must_use]
    pub fn names_a_format(&self) -> bool {
        self.rounds_weights() || self.rounds_values()
    }

    /// True if it names a format of anything but the weights in the forward pass.
    #[must_use]
    pub fn rounds_values(&self) -> bool {
        let named = [&self.activation, &self.grad].into_iter();
        let named = named.chain(self.layer.iter().flat_map(|rule| [&rule.activation, &rule.grad]));
        let others = Role::ALL.into_iter().filter(|role| *role != Role::Weight);
        named.flatten().any(is_on) || others.into_iter().any(|role| self.casts(role).any(is_on))
    }

    /// The formats that casts name for a use.
    fn casts(&self, role: Role) -> impl Iterator<Item = &String> {
        let tables = std::iter::once(&self.cast).chain(self.layer.iter().map(|rule| &rule.cast));
        tables.filter_map(move |tables| tables.of(role)?.format.as_ref())
    }

    /// True if `unrounded` leaves out a role of the layers whose names `matches` accepts.
    #[must_use]
    pub fn is_unrounded(&self, role: Role, matches: impl Fn(&str) -> bool) -> bool {
        let entries = self.unrounded.iter().filter_map(|entry| unrounded_entry(entry));
        entries.into_iter().any(|(of, pattern)| of == role && matches(pattern))
    }

    /// The sums of products, if they are not f32.
    #[must_use]
    pub fn limited_sum(&self) -> Option<LimitedSum> {
        match self.accumulate? {
            AccumulateChoice::F32 => None,
            AccumulateChoice::Limited(section) => Some(section.sum()),
        }
    }

    /// True if weights are stored on the grids of their formats, without master weights.
    #[must_use]
    pub fn stores_weights(&self) -> bool {
        self.master_weights == MasterWeightsChoice::None && self.rounds_weights()
    }

    /// True if they are stored with scales.
    #[must_use]
    pub fn has_stored_scales(&self) -> bool {
        self.stores_weights() && self.block != Some(BlockChoice::None)
    }

    /// True if it names a format of weights anywhere.
    #[must_use]
    pub fn rounds_weights(&self) -> bool {
        let rules = self.layer.iter().map(|rule| &rule.weight);
        let mut named = [&self.weight].into_iter().chain(rules).flatten();
        named.any(is_on) || self.casts(Role::Weight).any(is_on)
    }
}

/// The role and the pattern of an entry of `quant.unrounded`; `None` for an unknown role.
#[must_use]
pub fn unrounded_entry(entry: &str) -> Option<(Role, &str)> {
    let (name, pattern) = entry.split_once(':').unwrap_or((entry, "*"));
    Some((Role::ALL.into_iter().find(|role| role.name() == name)?, pattern))
}

/// True if a format rounds.
fn is_on(format: &String) -> bool {
    format != LayerRule::OFF
}

/// One `[[quant.layer]]`: casts of the layers whose weight's name it matches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LayerRule {
    /// Glob pattern on the name of the layer's weight, such as `*.mlp.*` or `h.0.*`. Block 0 has
    /// `h.0.attn.c_attn.weight` (qkv), `h.0.attn.c_proj.weight` (attention output), `h.0.mlp.c_fc.weight` (MLP up) and
    /// `h.0.mlp.c_proj.weight` (MLP down). The head is `lm_head.weight`, tied or not.
    #[serde(rename = "match")]
    pub pattern: String,
    /// Removes what these layers would inherit: the keys below begin from a shipped recipe or a recipe's file, or from
    /// `none`, an unquantized run. Resolved value: `none`, because the recipe's keys are written out.
    #[serde(default)]
    pub recipe: Option<String>,
    /// Format of the weight; `none` switches it off. Default: that of earlier rules.
    #[serde(default)]
    pub weight: Option<String>,
    /// Format of the input; likewise.
    #[serde(default)]
    pub activation: Option<String>,
    /// Format of the output's gradient; likewise.
    #[serde(default)]
    pub grad: Option<String>,
    /// As `quant.rounding`, for these layers; so are the keys below.
    #[serde(default)]
    pub rounding: Option<CastRoundingChoice>,
    /// Random bits of stochastic rounding, 1 to 32, as instructions of hardware have them. Default: 32, drawn by the
    /// format.
    #[serde(default)]
    pub random_bits: Option<u32>,
    /// The rounding of distances to these bits: `a` down, `b` to nearest with ties up, `c` to even, `odd` to odd.
    /// Default: `a`.
    #[serde(default)]
    pub random_mode: Option<RandomModeChoice>,
    /// The result of elements beyond the format's largest value: `saturate`, or `nonfinite`: infinity, or NaN in
    /// formats without infinities. Default: `saturate`.
    #[serde(default)]
    pub overflow: Option<OverflowChoice>,
    /// The elements that share a scale.
    #[serde(default)]
    pub block: Option<BlockChoice>,
    /// What dgrad and wgrad read, as `quant.source`.
    #[serde(default)]
    pub source: Option<UseSourceChoice>,
    /// A Hadamard transform, or `none`; a table as in `[quant]`.
    #[serde(default)]
    pub transform: Option<TransformChoice>,
    /// Straight-through estimator.
    #[serde(default)]
    pub ste: Option<SteChoice>,
    /// Rule for the scales of blocks.
    #[serde(default)]
    pub scaling: Option<ScalingFields>,
    /// Casts of single operands and tensors of these layers, as in `[quant.cast]`.
    #[serde(default, deserialize_with = "table")]
    pub cast: CastTables,
}

impl LayerRule {
    /// The value that switches a format off.
    pub const OFF: &'static str = "none";
}

/// `[quant.stored_scale]`: scales of weights without master weights. They are part of the training state: a change of
/// scale changes the weights. `quant.scaling` does not apply to these weights, `quant.block` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StoredScaleSection {
    /// Rule by which a scale changes.
    pub rule: StoredScaleChoice,
    /// Binades left free above the largest weight when a scale is set. Resolved value: 2 for `fixed`, 0 for
    /// `power_of_two`, 1 for `dynamic` if not given.
    pub margin: Option<i32>,
}

impl Default for StoredScaleSection {
    fn default() -> Self {
        Self { rule: StoredScaleChoice::PowerOfTwo, margin: None }
    }
}
