//! Values of the run file that are picked from a few: names, devices, datasets.
//!
//! Each parses from the string a user writes and prints as that same string;
//! anything else is an [`InvalidChoice`] that lists what there is. Whether the
//! chosen device or folder exists is not asked here.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A string that is none of the choices; reads on from the key's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be {choices}, found {given:?}")]
pub struct InvalidChoice {
    /// The choices in backticks, as prose.
    choices: String,
    /// The invalid text.
    given: String,
}

impl InvalidChoice {
    pub(super) fn new(given: &str, choices: &[&str]) -> Self {
        let quoted: Vec<String> = choices.iter().map(|name| format!("`{name}`")).collect();
        let choices = match quoted.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
            _ => quoted.join(""),
        };
        Self { choices, given: given.to_owned() }
    }
}

/// serde by way of the string: `try_from` for reading, `into` for writing.
macro_rules! through_string {
    ($type:ident) => {
        impl TryFrom<String> for $type {
            type Error = InvalidChoice;
            fn try_from(text: String) -> Result<Self, InvalidChoice> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(choice: $type) -> Self {
                choice.to_string()
            }
        }
    };
}

/// A JSON schema of strings, where they are read as one: the type has no name of its own in it.
macro_rules! string_schema {
    ($type:ident, $schema:tt) => {
        impl JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}

/// An enum whose variants are fixed names.
macro_rules! named_choice {
    ($(#[$doc:meta])* $type:ident {
        $($(#[doc = $variant_doc:literal])* $variant:ident = $name:literal,)+
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub enum $type {
            $($(#[doc = $variant_doc])* $variant,)+
        }

        string_schema!($type, {
            "oneOf": [$({ "const": $name, "description": concat!($($variant_doc),*).trim() }),+]
        });

        impl $type {
            /// Every name that can be written, in the order of the documentation.
            pub const NAMES: &[&str] = &[$($name),+];

            /// The name in the run file.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }

        impl FromStr for $type {
            type Err = InvalidChoice;
            fn from_str(text: &str) -> Result<Self, InvalidChoice> {
                match text {
                    $($name => Ok(Self::$variant),)+
                    _ => Err(InvalidChoice::new(text, Self::NAMES)),
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        through_string!($type);
    };
}

pub(super) use {named_choice, string_schema, through_string};

named_choice! {
    /// How text becomes token ids.
    TokenizerChoice {
        /// One token per byte: 256 ids, accepts every text.
        Byte = "byte",
        /// One token for each character that occurs in the corpus.
        Char = "char",
        /// GPT-2's BPE, 50257 ids.
        Gpt2 = "gpt2",
        /// None: ids of token bins whose description names no tokenizer.
        Ids = "ids",
    }
}

named_choice! {
    /// Checks that a plugin must pass before a run uses it.
    PluginCheckChoice {
        /// The quick checks of `plugins check`, in a process of their own, once for each build of a library and of the
        /// host.
        Quick = "quick",
        /// No checks.
        None = "none",
    }
}

// The macro has no place for the derive's attribute.
#[allow(clippy::derivable_impls)]
impl Default for PluginCheckChoice {
    fn default() -> Self {
        Self::Quick
    }
}

named_choice! {
    /// The operands of matrix products; sums and everything else are f32.
    PrecisionChoice {
        /// f32.
        Fp32 = "fp32",
        /// Operands rounded to bf16.
        Bf16 = "bf16",
    }
}

named_choice! {
    /// The learning rate after the linear warm-up.
    ScheduleChoice {
        /// Half a cosine from `lr` to `min_lr`, then `min_lr`.
        Cosine = "cosine",
        /// `lr`, then a linear decrease to `min_lr` over the last `cooldown_steps`.
        Trapezoidal = "trapezoidal",
        /// Always `lr`; `min_lr` must not be set.
        Constant = "constant",
    }
}

named_choice! {
    /// Evaluations that predict the whole validation split instead of a sample.
    FullEvalChoice {
        /// The last evaluation, if the split has fewer than 5 % of the training tokens, so that it takes little time.
        Auto = "auto",
        /// None.
        Never = "never",
        /// The last one.
        End = "end",
        /// All evaluations. `val/loss` is then the loss of the whole split.
        Always = "always",
    }
}

named_choice! {
    /// Rounding of a value between two codes.
    RoundingChoice {
        /// To the nearer code; ties go to the even code.
        NearestEven = "nearest-even",
        /// To the nearer code; ties go away from zero.
        NearestAway = "nearest-away",
        /// To the code nearer zero.
        TowardZero = "toward-zero",
        /// Up or down at random, so that the expected result is the value. Random bits depend on `run.seed`.
        Stochastic = "stochastic",
    }
}

named_choice! {
    /// The source of amax, the largest magnitude from which a scale is computed.
    AmaxChoice {
        /// Current scaling: the amax of the tensor at hand.
        Dynamic = "dynamic",
        /// Delayed scaling: the largest amax of the history, the last `window` steps.
        Delayed = "delayed",
        /// `static_amax`; without it, the first step.
        Static = "static",
    }
}

named_choice! {
    /// The weights that the optimizer updates.
    MasterWeightsChoice {
        /// Weights in fp32.
        Fp32 = "fp32",
        /// Weights stored in their formats, without an fp32 copy.
        None = "none",
    }
}

named_choice! {
    /// The rule by which the scale of a weight without master weights changes.
    StoredScaleChoice {
        /// A power of two. The scale decreases if the largest weight reaches the format's largest value. It increases
        /// if it could be four times as large.
        PowerOfTwo = "power_of_two",
        /// The scale is set from the initial weights and never changes. Weights that grow beyond the margin saturate.
        Fixed = "fixed",
        /// The scale follows the largest weight at every update. An update below half a code then multiplies all
        /// weights of the block by the same factor.
        Dynamic = "dynamic",
    }
}

named_choice! {
    /// The gradient of a rounding (straight-through estimator).
    SteChoice {
        /// The gradient passes unchanged.
        Identity = "identity",
        /// The gradient passes except where the value saturated.
        Clipped = "clipped",
        /// The gradient passes except where the value is not positive.
        Relu = "relu",
    }
}

named_choice! {
    /// The MLP's activation function.
    GeluChoice {
        /// `x Phi(x)`, computed with erf, as in nanoGPT.
        Erf = "erf",
        /// An approximation with tanh that differs by up to 5e-4, as in GPT-2 (`gelu_new` at Hugging Face).
        Tanh = "tanh",
    }
}

named_choice! {
    /// The norm before attention, before the MLP and before the output layer.
    NormChoice {
        /// LayerNorm, as in GPT-2: subtracts the mean and divides by the standard deviation.
        LayerNorm = "layernorm",
        /// RMSNorm (arXiv:1910.07467): divides by the root mean square. It subtracts no mean and never has a bias.
        RmsNorm = "rmsnorm",
    }
}

named_choice! {
    /// How a token's position enters the model.
    PositionsChoice {
        /// A learned vector per position, added to the token's embedding, as in GPT-2.
        Learned = "learned",
        /// Rotary positions (arXiv:2104.09864) with base 10000: attention rotates queries and keys, and nothing is
        /// learned. Elements i and i + d/2 of a head of width d are a pair, as in GPT-NeoX and Llama at Hugging Face.
        Rotary = "rotary",
    }
}

named_choice! {
    /// The two linear layers after attention, and the function between them.
    MlpChoice {
        /// GELU of `4 n_embd` channels, as in GPT-2.
        Gelu = "gelu",
        /// SwiGLU (arXiv:2002.05202): `silu(gate) * linear`. The hidden width is 8/3 `n_embd`, rounded up to a multiple
        /// of 16. `mlp.c_fc` holds the rows of the gate and then those of the linear half, so that its input is rounded
        /// once and one product computes both halves.
        Swiglu = "swiglu",
        /// Smooth-SwiGLU (arXiv:2409.12517), per token: SwiGLU whose linear half is divided by its largest magnitude
        /// before `mlp.c_proj` rounds its input. The output of `mlp.c_proj` is multiplied by this magnitude.
        SmoothSwiglu = "smooth_swiglu",
    }
}

named_choice! {
    /// A known model size.
    Preset {
        /// 4 layers, 4 heads, width 128; trains in minutes on a CPU.
        GptTiny = "gpt-tiny",
        /// 6 layers, 6 heads, width 384: nanoGPT's character model.
        Seed10m = "seed-10m",
        /// 12 layers, 12 heads, width 768: GPT-2 small.
        Gpt2Small = "gpt2-124m",
    }
}

impl Preset {
    /// `(n_layer, n_head, n_embd)`.
    #[must_use]
    pub fn shape(self) -> (usize, usize, usize) {
        match self {
            Self::GptTiny => (4, 4, 128),
            Self::Seed10m => (6, 6, 384),
            Self::Gpt2Small => (12, 12, 768),
        }
    }
}

/// Where the run computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum DeviceChoice {
    /// The best device that both the build and the machine have.
    Auto,
    /// The CPU.
    Cpu,
    /// The CUDA device of this index.
    Cuda(u32),
    /// The default WebGPU adapter.
    Wgpu,
}

impl FromStr for DeviceChoice {
    type Err = InvalidChoice;
    fn from_str(text: &str) -> Result<Self, InvalidChoice> {
        match text {
            "auto" => return Ok(Self::Auto),
            "cpu" => return Ok(Self::Cpu),
            "wgpu" => return Ok(Self::Wgpu),
            _ => {}
        }
        text.strip_prefix("cuda:")
            // `parse` alone would also take `+1`.
            .filter(|index| index.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|index| index.parse().ok())
            .map(Self::Cuda)
            .ok_or_else(|| InvalidChoice::new(text, &["auto", "cpu", "cuda:N", "wgpu"]))
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(index) => write!(f, "cuda:{index}"),
            Self::Wgpu => f.write_str("wgpu"),
        }
    }
}

through_string!(DeviceChoice);
string_schema!(DeviceChoice, { "type": "string", "pattern": "^(auto|cpu|wgpu|cuda:[0-9]+)$" });

/// The data of the run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum DatasetChoice {
    /// The built-in generated corpus: nothing to download, the same everywhere.
    Lawgen,
    /// A folder of token bins in nanoGPT's layout.
    Bins(PathBuf),
    /// A plain text file, tokenized at the start of the run.
    Text(PathBuf),
}

impl FromStr for DatasetChoice {
    type Err = InvalidChoice;
    fn from_str(text: &str) -> Result<Self, InvalidChoice> {
        match text.split_once(':') {
            None if text == "lawgen" => Ok(Self::Lawgen),
            Some(("bins", dir)) if !dir.is_empty() => Ok(Self::Bins(dir.into())),
            Some(("text", file)) if !file.is_empty() => Ok(Self::Text(file.into())),
            _ => Err(InvalidChoice::new(text, &["lawgen", "bins:DIR", "text:FILE"])),
        }
    }
}

impl fmt::Display for DatasetChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lawgen => f.write_str("lawgen"),
            Self::Bins(dir) => write!(f, "bins:{}", dir.display()),
            Self::Text(file) => write!(f, "text:{}", file.display()),
        }
    }
}

through_string!(DatasetChoice);
string_schema!(DatasetChoice, { "type": "string", "pattern": "^(lawgen|bins:.+|text:.+)$" });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_print_as_they_are_written() {
        for text in ["auto", "cpu", "cuda:0", "cuda:4294967295", "wgpu"] {
            assert_eq!(text.parse::<DeviceChoice>().map(|device| device.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "cuda", "cuda:", "cuda:+1", "cuda:-1", "cuda:4294967296", "CPU", "cuda:0 "] {
            assert!(text.parse::<DeviceChoice>().is_err(), "{text}");
        }
    }

    #[test]
    fn datasets_print_as_they_are_written() {
        for text in ["lawgen", "bins:data/owt", "text:C:/book.txt"] {
            assert_eq!(text.parse::<DatasetChoice>().map(|data| data.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "lawgen:", "bins:", "text:", "bins", "url:x"] {
            assert!(text.parse::<DatasetChoice>().is_err(), "{text}");
        }
    }

    #[test]
    fn refusals_are_one_line_and_list_the_choices() {
        let refusal = "a\nb".parse::<TokenizerChoice>().map_err(|error| error.to_string());
        assert_eq!(refusal, Err("must be `byte`, `char`, `gpt2` or `ids`, found \"a\\nb\"".to_owned()));
    }
}
