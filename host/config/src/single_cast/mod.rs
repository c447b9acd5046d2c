//! A cast as text: which format, how elements are rounded, what shares a scale and how the scale follows.
//!
//! [`read_cast`] takes one line, as a command line has it. What is refused here is what needs no format: keys, types,
//! and keys without effect. The rest is the cast's own check. Definitions: docs/numerics.md, section 4.5.

mod arithmetic;
mod choices;
mod text;

use std::path::Path;

use altgrad_base::diagnostic::Diagnostic;
use serde::{Deserialize, Serialize};
use serde_path_to_error::Error;
use toml::Value;

pub use choices::{
    CandidatesChoice, CastRoundingChoice, CenterChoice, ErrorChoice, FirstScaleChoice, MicroexponentsChoice,
    NonFiniteChoice, OperationChoice, OverflowChoice, RandomModeChoice, ScaleArithmeticChoice,
    ScaleLimitChoice, ScaleOrderChoice, ScaleRoundingChoice, ScaleRuleChoice, ScaleTypeChoice,
    ScaledBackChoice, SignsChoice, TensorScaleChoice, TransformTypeChoice, UseSourceChoice, ZeroBlockChoice,
};

use super::choices::AmaxChoice;
use super::numbers;
use super::source::{Place, Source};
use super::tables::table;

/// A cast.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CastSection {
    /// The format, `NAME`, `NAME:VARIANT` or `NAME:KEY=VALUE,KEY=VALUE`.
    pub format: String,
    /// Rounding of scaled elements. Default: to nearest, ties to even.
    #[serde(default = "nearest_even")]
    pub rounding: CastRoundingChoice,
    /// Random bits of stochastic rounding, 1 to 32. Default: 32, drawn by the format.
    #[serde(default)]
    pub random_bits: Option<u32>,
    /// The rounding of distances to these bits. Default: `a`.
    #[serde(default = "down")]
    pub random_mode: RandomModeChoice,
    /// The result of elements beyond the largest value. Default: `saturate`.
    #[serde(default = "saturate")]
    pub overflow: OverflowChoice,
    /// Elements that share a scale: `none`, `tensor`, `row`, a number of elements along the contraction, or a tile.
    /// Default: `tensor`.
    #[serde(default)]
    pub block: BlockChoice,
    /// A Hadamard transform before the rounding. Default: none.
    #[serde(default)]
    pub transform: Option<TransformSection>,
    /// The mean that is subtracted before the rounding, and rounded by itself. Default: none.
    #[serde(default = "not_centered")]
    pub center: CenterChoice,
    /// Rule for the scales of blocks.
    #[serde(default, deserialize_with = "table")]
    pub scaling: CastScalingSection,
}

fn nearest_even() -> CastRoundingChoice {
    CastRoundingChoice::NearestEven
}

fn down() -> RandomModeChoice {
    RandomModeChoice::A
}

fn saturate() -> OverflowChoice {
    OverflowChoice::Saturate
}

fn not_centered() -> CenterChoice {
    CenterChoice::None
}

/// The elements that share a scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub enum BlockChoice {
    /// No blocks: elements are rounded as they are.
    None,
    /// All elements.
    #[default]
    Tensor,
    /// The elements of a line along the contraction.
    Row,
    /// This many elements along the contraction.
    Along(u32),
    /// Lines, and elements of each along the contraction.
    Tile([u32; 2]),
}

impl TryFrom<Value> for BlockChoice {
    type Error = &'static str;

    fn try_from(value: Value) -> Result<Self, Self::Error> {
        let extent = |value: &Value| {
            value.as_integer().and_then(|value| u32::try_from(value).ok()).filter(|value| *value > 0)
        };
        let choice = match &value {
            Value::String(text) => match text.as_str() {
                "none" => Some(Self::None),
                "tensor" => Some(Self::Tensor),
                "row" => Some(Self::Row),
                _ => None,
            },
            Value::Array(extents) => match extents.as_slice() {
                [lines, along] => extent(lines).zip(extent(along)).map(|(a, b)| Self::Tile([a, b])),
                _ => None,
            },
            number => extent(number).map(Self::Along),
        };
        choice.ok_or("must be \"none\", \"tensor\", \"row\", an integer above 0, or a tile such as [16, 16]")
    }
}

impl From<BlockChoice> for Value {
    fn from(choice: BlockChoice) -> Self {
        match choice {
            BlockChoice::None => "none".into(),
            BlockChoice::Tensor => "tensor".into(),
            BlockChoice::Row => "row".into(),
            BlockChoice::Along(along) => i64::from(along).into(),
            BlockChoice::Tile(extents) => extents.map(i64::from).to_vec().into(),
        }
    }
}

/// A Hadamard transform along the contraction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransformSection {
    /// Elements of a tile: a power of two from 2 to 256.
    pub hadamard: usize,
    /// Signs that elements are multiplied by before. Default: all positive.
    #[serde(default = "no_signs")]
    pub signs: SignsChoice,
    /// The type to which results are rounded. Default: not rounded.
    #[serde(default = "no_rounding")]
    pub to: TransformTypeChoice,
}

fn no_signs() -> SignsChoice {
    SignsChoice::None
}

fn no_rounding() -> TransformTypeChoice {
    TransformTypeChoice::F32
}

/// How the scales of a cast follow from its blocks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CastScalingSection {
    /// The type of stored scales.
    #[serde(rename = "type")]
    pub storage: ScaleTypeChoice,
    /// The rule.
    pub rule: ScaleRuleChoice,
    /// Whether scales of `max` are powers of two.
    pub pow2: bool,
    /// Which scale is divided first.
    pub order: ScaleOrderChoice,
    /// The scale of the tensor, in addition to E4M3 scales.
    pub tensor: TensorScaleChoice,
    /// The stored scale of the block with the tensor's largest magnitude. Default: the largest of the type.
    pub tensor_target: Option<f32>,
    /// The magnitude to which the largest of a block is scaled. Default: the format's target.
    pub target: Option<f32>,
    /// Elements along the contraction that share a scale in place of the tensor's.
    pub outer: Option<usize>,
    /// Elements along the contraction whose stored scales are corrected after the rounding of elements.
    pub correction: Option<usize>,
    /// How scales that are floating-point bytes are rounded.
    pub round: ScaleRoundingChoice,
    /// The error by which blocks choose among candidate scales. Default: there is no choice.
    pub choice: Option<ErrorChoice>,
    /// Factors of the candidates. Default: 1 and 1.5, four over six.
    pub candidates: Option<CandidatesChoice>,
    /// Sizes of nested sub-blocks that share one more factor of 1 or 2 each.
    pub microexponents: MicroexponentsChoice,
    /// The type to which operations that compute scales are rounded.
    pub arithmetic: ScaleArithmeticChoice,
    /// Binades left free above the largest magnitude.
    pub margin: i32,
    /// Lower clamp of the largest magnitude; of the scale, if it is E4M3.
    pub floor: f64,
    /// The limit of scales that are not normal f32 numbers.
    pub limit: ScaleLimitChoice,
    /// The scale of a block of zeros. Default: `smallest` for E8M0, `one` for f32.
    pub zero: Option<ZeroBlockChoice>,
    /// The effect of NaN and infinities.
    pub nonfinite: NonFiniteChoice,
    /// Multiplied into the encode scale.
    pub factor: f32,
    /// How elements are scaled.
    pub quantize: OperationChoice,
    /// How values are scaled back.
    pub dequantize: ScaledBackChoice,
    /// Where the largest magnitude comes from.
    pub amax: AmaxChoice,
    /// That of `static`.
    pub static_amax: Option<f32>,
    /// Standard deviations that `rms` scales to the format's largest value. Default: 2.92247856, Quartet's for E2M1.
    pub deviations: f64,
}

impl CastScalingSection {
    /// True if blocks choose among candidate scales.
    #[must_use]
    pub fn has_choice(&self) -> bool {
        self.choice.is_some_and(|choice| choice != ErrorChoice::None)
    }
}

impl Default for CastScalingSection {
    fn default() -> Self {
        Self {
            storage: ScaleTypeChoice::F32,
            rule: ScaleRuleChoice::Max,
            pow2: false,
            order: ScaleOrderChoice::Encode,
            tensor: TensorScaleChoice::None,
            tensor_target: None,
            target: None,
            outer: None,
            correction: None,
            round: ScaleRoundingChoice::Nearest,
            choice: None,
            candidates: None,
            microexponents: MicroexponentsChoice::default(),
            arithmetic: ScaleArithmeticChoice::F32,
            margin: 0,
            floor: 0.0,
            limit: ScaleLimitChoice::Normal,
            zero: None,
            nonfinite: NonFiniteChoice::Skip,
            factor: 1.0,
            quantize: OperationChoice::Multiply,
            dequantize: ScaledBackChoice::Multiply,
            amax: AmaxChoice::Dynamic,
            static_amax: None,
            deviations: 2.922_478_56,
        }
    }
}

/// Reads a cast that is applied once, by itself: the keys of a cast, separated by commas or lines, in braces or not; or
/// the name of a format alone. Positions name `name` in place of a file. The list has the keys without effect, so that
/// a program may write every key of every cast.
///
/// # Errors
/// Invalid TOML, an unknown key, a wrong type, or an amax that is not there, with its line and column.
pub fn read_cast(name: &str, text: &str) -> Result<(CastSection, Source, Vec<Diagnostic>), Diagnostic> {
    let path = Path::new(name);
    let (table, source) = match text::format_alone(text) {
        Some(format) => {
            let (_, mut source) = Source::parse_shown(path, "", text.to_owned())?;
            let start = text.find(format).unwrap_or(0);
            source.places.insert("format".to_owned(), Place::File { key: start, value: start });
            (toml::Table::from_iter([("format".to_owned(), Value::String(format.to_owned()))]), source)
        }
        None => Source::parse_shown(path, &text::as_document(text), text.to_owned())?,
    };
    numbers::check(&table, &source).map_err(|fault| fault.hint(EXAMPLE))?;
    let cast = serde_path_to_error::deserialize(Value::Table(table.clone()))
        .map_err(|error| explain(&error, &table, &source))?;
    refuse_amax(&cast, &source, "")?;
    let idle = without_effect(&cast, &source, "");
    Ok((cast, source, idle))
}

const EXAMPLE: &str =
    "a cast is keys such as format = \"E4M3\", block = 32, scaling = { type = \"e8m0\", rule = \"rceil\" }";

/// serde's complaint in the terms of a cast.
fn explain(error: &Error<toml::de::Error>, table: &toml::Table, source: &Source) -> Diagnostic {
    if error.inner().message().starts_with("missing field `format`") {
        return Diagnostic::config("the cast has no `format`").at(source.path().display()).hint(EXAMPLE);
    }
    let mut diagnostic = super::explain::explain(error, table, source).hint(EXAMPLE);
    // The top-level tables of a run file are called sections.
    diagnostic.hint = diagnostic.hint.map(|hint| hint.replace("known sections:", "known keys:"));
    diagnostic
}

/// The keys that have no effect. `table` is the prefix of the keys: empty, or `observe.`.
pub(super) fn without_effect(cast: &CastSection, source: &Source, table: &str) -> Vec<Diagnostic> {
    use ScaleRuleChoice::{Max, Rms};
    let scaling = &cast.scaling;
    let (max, rms) = (scaling.rule == Max, scaling.rule == Rms);
    let (f32, e4m3) = (scaling.storage == ScaleTypeChoice::F32, scaling.storage.is_minifloat());
    let stored = scaling.zero.is_some_and(ZeroBlockChoice::is_stored);
    let fixed = scaling.amax == AmaxChoice::Static;
    let keys = [
        ("order", max, "only rule max divides; leave it out"),
        ("pow2", max && f32, "only rule = \"max\" with type = \"f32\" uses it; leave it out"),
        ("limit", max && f32, "it holds for rule max with type f32; leave it out"),
        ("zero", scaling.zero != Some(ZeroBlockChoice::Keep), "a single cast has no history of amax"),
        (
            "zero",
            stored || !e4m3 && !rms && scaling.floor == 0.0,
            "such a block has a scale without it; leave it out",
        ),
        ("floor", !rms, "rule rms does not use the largest magnitude; leave it out"),
        ("margin", !rms, "rule rms does not use the largest magnitude; leave it out"),
        ("amax", !rms, "rule rms does not use the largest magnitude; leave it out"),
        ("static_amax", fixed, "set amax = \"static\""),
        ("deviations", rms, "set rule = \"rms\""),
        ("candidates", scaling.has_choice(), "set choice = \"mse\""),
    ];
    let stochastic = cast.rounding == CastRoundingChoice::Stochastic;
    let keys_of_cast = [
        ("random_bits", stochastic, "set rounding = \"stochastic\""),
        (
            "random_mode",
            stochastic && cast.random_bits.is_some(),
            "set rounding = \"stochastic\" and random_bits",
        ),
    ];
    let idle_of_cast =
        keys_of_cast.into_iter().filter(|(key, has_effect, _)| !has_effect && source.is_written(key));
    let idle_of_cast = idle_of_cast.map(|(key, _, needed)| {
        Diagnostic::config(format!("`{key}` has no effect here")).at(source.locate_key(key)).hint(needed)
    });
    let key = format!("{table}scaling");
    if cast.block == BlockChoice::None {
        let diagnostic = Diagnostic::config(format!("`{key}` has no effect with block none"))
            .at(source.locate_key(&key))
            .hint("leave it out, or set block to tensor, row, a number or a tile");
        return idle_of_cast.chain(source.is_written(&key).then_some(diagnostic)).collect();
    }
    let idle = keys.into_iter().filter(|(_, has_effect, _)| !has_effect);
    let written = idle.filter_map(|(key, _, needed)| {
        let dotted = format!("{table}scaling.{key}");
        let diagnostic = Diagnostic::config(format!("`{dotted}` has no effect here"))
            .at(source.locate_key(&dotted))
            .hint(needed);
        source.is_written(&dotted).then_some(diagnostic)
    });
    idle_of_cast.chain(written).collect()
}

/// Refuses an amax of the past, and a static one that is not given.
pub(super) fn refuse_amax(cast: &CastSection, source: &Source, table: &str) -> Result<(), Diagnostic> {
    let scaling = &cast.scaling;
    let key = format!("{table}scaling.amax");
    let amax = |what: &str, hint: &str| {
        Err(Diagnostic::config(format!("`{key}` is {what}")).at(source.locate(&key)).hint(hint))
    };
    if scaling.amax == AmaxChoice::Delayed {
        return amax(
            "delayed, but a single cast has no history of amax",
            "give the past amax: amax = \"static\", static_amax = 3.5",
        );
    }
    if scaling.amax == AmaxChoice::Static && scaling.static_amax.is_none() {
        return amax("static, but no amax is given", "add static_amax = 3.5");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
