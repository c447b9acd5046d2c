//! `[quant]` and its tables: what the linear layers round, and how values are brought into the formats' range.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::choices::{
    AmaxChoice, GranularityChoice, MasterWeightsChoice, RoundingChoice, SteChoice, StoredScaleChoice,
};
use super::tables::table;

/// `[quant]`: what the linear layers round. Formats are written like `E5M2` or `E3M4:ieee`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct QuantSection {
    /// Format of the weights, or `none`. Default: unquantized, the baseline.
    pub weight: Option<String>,
    /// Format of the layers' inputs, or `none`. Default: unquantized.
    pub activation: Option<String>,
    /// Format of the gradients of the layers' outputs, or `none`. Default: unquantized.
    pub grad: Option<String>,
    /// How values are rounded to the format. Ties to even is unbiased and what hardware does.
    pub rounding: RoundingChoice,
    /// The same for weights only. Default: `rounding`.
    pub weight_rounding: Option<RoundingChoice>,
    /// The same for activations only. Default: `rounding`.
    pub activation_rounding: Option<RoundingChoice>,
    /// The same for gradients only. Default: `rounding`.
    pub grad_rounding: Option<RoundingChoice>,
    /// What the optimizer updates: `fp32` weights of which layers use a rounded copy, or `none`: the weights lie on
    /// their formats' grids and each update, weight decay included, ends with one rounding by `weight_rounding`.
    pub master_weights: MasterWeightsChoice,
    /// The gradient past the rounding of weights and activations; weights without master weights have no rounding to
    /// pass.
    pub ste: SteChoice,
    /// How values are brought into the formats' range.
    #[serde(deserialize_with = "table")]
    pub scaling: ScalingSection,
    /// How the scales of weights without master weights change.
    #[serde(deserialize_with = "table")]
    pub stored_scale: StoredScaleSection,
    /// Glob patterns on the names of the layers' weights, such as `*.attn.*`, that stay unquantized.
    pub exclude: Vec<String>,
    /// Blocks at the start that stay unquantized.
    pub skip_first: usize,
    /// Blocks at the end that stay unquantized. The head is no block: exclude it by name.
    pub skip_last: usize,
    /// Formats by layer: rules in order, later ones override.
    pub layer: Vec<LayerRule>,
}

impl Default for QuantSection {
    fn default() -> Self {
        Self {
            weight: None,
            activation: None,
            grad: None,
            rounding: RoundingChoice::NearestEven,
            weight_rounding: None,
            activation_rounding: None,
            grad_rounding: None,
            master_weights: MasterWeightsChoice::Fp32,
            ste: SteChoice::Identity,
            scaling: ScalingSection::default(),
            stored_scale: StoredScaleSection::default(),
            exclude: Vec::new(),
            skip_first: 0,
            skip_last: 0,
            layer: Vec::new(),
        }
    }
}

impl QuantSection {
    /// Whether it names a format anywhere.
    #[must_use]
    pub fn names_a_format(&self) -> bool {
        self.rounds_weights() || self.rounds_values()
    }

    /// Whether it names a format of activations or gradients anywhere.
    #[must_use]
    pub fn rounds_values(&self) -> bool {
        let rules = self.layer.iter().flat_map(|rule| [&rule.activation, &rule.grad]);
        let values = [&self.activation, &self.grad].into_iter().chain(rules);
        values.flatten().any(|format| format != LayerRule::OFF)
    }

    /// Whether weights are stored on the grids of their formats, without master weights.
    #[must_use]
    pub fn stores_weights(&self) -> bool {
        self.master_weights == MasterWeightsChoice::None && self.rounds_weights()
    }

    /// Whether they are stored with scales.
    #[must_use]
    pub fn has_stored_scales(&self) -> bool {
        self.stores_weights() && self.scaling.granularity != GranularityChoice::None
    }

    /// Whether it names a format of weights anywhere.
    #[must_use]
    pub fn rounds_weights(&self) -> bool {
        let rules = self.layer.iter().map(|rule| &rule.weight);
        [&self.weight].into_iter().chain(rules).flatten().any(|format| format != LayerRule::OFF)
    }
}

/// One `[[quant.layer]]`: formats of the layers whose weight's name it matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LayerRule {
    /// Glob pattern on the name of the layer's weight, such as `*.mlp.*` or `h.0.*`.
    #[serde(rename = "match")]
    pub pattern: String,
    /// Format of the weight; `none` switches it off. Default: what earlier rules say.
    #[serde(default)]
    pub weight: Option<String>,
    /// Format of the input; likewise.
    #[serde(default)]
    pub activation: Option<String>,
    /// Format of the output's gradient; likewise.
    #[serde(default)]
    pub grad: Option<String>,
}

impl LayerRule {
    /// What switches a format off.
    pub const OFF: &'static str = "none";
}

/// `[quant.scaling]`: `stored = round(x * scale)` with `scale = target / (amax * 2^margin)`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ScalingSection {
    /// How many elements share a scale.
    pub granularity: GranularityChoice,
    /// Elements per block, along the reduction dimension; the last block of a row may be shorter. Only for `block`.
    pub block: usize,
    /// Where amax comes from. `delayed` and `static` need granularity `tensor`.
    pub amax: AmaxChoice,
    /// Steps `delayed` looks back.
    pub window: usize,
    /// The amax of `static`. Default: the first step's.
    pub static_amax: Option<f32>,
    /// Binades left free above amax.
    pub margin: i32,
    /// Whether scales are rounded down to powers of two, as in microscaling formats.
    pub pow2: bool,
}

impl Default for ScalingSection {
    fn default() -> Self {
        Self {
            granularity: GranularityChoice::Tensor,
            block: 32,
            amax: AmaxChoice::Dynamic,
            window: 16,
            static_amax: None,
            margin: 0,
            pow2: false,
        }
    }
}

/// `[quant.stored_scale]`: how the scales of weights without master weights change. Such scales are state: what a weight
/// is worth changes with them. Of `quant.scaling` only `granularity` and `block` apply to these weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StoredScaleSection {
    /// When a scale changes.
    pub rule: StoredScaleChoice,
    /// Binades left free above the largest weight where a scale is set. After load: 2 for `fixed`, 0 for
    /// `power_of_two`, 1 for `dynamic` if not given.
    pub margin: Option<i32>,
}

impl Default for StoredScaleSection {
    fn default() -> Self {
        Self { rule: StoredScaleChoice::PowerOfTwo, margin: None }
    }
}
