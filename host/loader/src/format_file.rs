//! Formats described by a file: the values of codes, or the parameters of a floating-point format, in TOML or JSON.
//!
//! Such a file has no code: the host rounds by the values, as for a C library without functions. Refuses files that are
//! no TOML or JSON, too large, or describe an impossible format, with line and column.

use std::{fmt, path::Path};

use altgrad_base::diagnostic::Diagnostic;
use altgrad_config::{line_and_column, too_many_brackets};
use altgrad_plugin_api::{
    CodeLayout, CodebookChoice, Conventions, FormatSpec, InfinityCode, NanCode, PluginError, ValueGrid,
};
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor, value::MapAccessDeserializer},
};

use crate::ffi::c_table::{CFormat, CFunctions, CLibrary, CSpec};

/// More bytes than 2^16 values need: a larger file is something else.
const MOST_BYTES: usize = 4 << 20;
/// Characters of a reader's message that are shown.
const SHOWN: usize = 300;
const HINT: &str = "docs/plugins.md, section \"Formats as files\", lists the keys";

/// True if the name of a file is that of a file of formats.
#[must_use]
pub fn is_format_file(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "toml" || extension == "json")
}

/// The formats in the bytes of a file, whose path says whether they are TOML or JSON. Their texts, at most those of the
/// file, are leaked, because those of a loaded library also live for the whole process.
///
/// # Errors
/// [`Fault::Plugin`](altgrad_base::diagnostic::Fault::Plugin) with line and column: the module's documentation lists
/// the reasons.
pub fn read(path: &Path, bytes: &[u8]) -> Result<Formats, Diagnostic> {
    let refused = |what: String| Diagnostic::plugin(format!("file of formats refused: {what}")).hint(HINT);
    if bytes.len() > MOST_BYTES {
        return Err(refused(format!("it has {} bytes, {MOST_BYTES} are allowed", bytes.len())));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
        let (line, column) = line_and_column(&valid, valid.len());
        refused("it is not UTF-8".into()).at(format!("{}:{line}:{column}", path.display()))
    })?;
    let read = if path.extension().is_some_and(|extension| extension == "json") {
        serde_json::from_str(text).map_err(|error| {
            let said = error.to_string();
            let what = said.split(" at line ").next().unwrap_or_default().to_owned();
            (what, error.line().max(1), error.column().max(1))
        })
    } else if let Some(brackets) = too_many_brackets(text) {
        Err((brackets, 1, 1))
    } else {
        toml::from_str(text).map_err(|error| {
            let (line, column) = line_and_column(text, error.span().map_or(0, |span| span.start));
            (error.message().to_owned(), line, column)
        })
    };
    read.map_err(|(what, line, column)| {
        let what: String = what.trim().replace(char::is_control, " ").chars().take(SHOWN).collect();
        refused(what).at(format!("{}:{line}:{column}", path.display())).showing(text, line, column)
    })
}

/// The formats of a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Formats {
    format: Vec<Described>,
}

impl Formats {
    /// The same as a C library without functions.
    pub(crate) fn library(self) -> CLibrary {
        let formats = self.format.into_iter().map(|Described(format)| format).collect();
        CLibrary {
            version: [0, 0],
            compiler: "",
            cpu_features: "",
            formats,
            optimizers: Vec::new(),
            sinks: Vec::new(),
        }
    }
}

/// A format that can be.
struct Described(CFormat);

/// One table of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    name: String,
    #[serde(default)]
    version: Option<String>,
    #[serde(default)]
    summary: Option<String>,
    #[serde(default)]
    values: Option<Vec<Number>>,
    #[serde(default)]
    exponent_bits: Option<u32>,
    #[serde(default)]
    significand_bits: Option<u32>,
    #[serde(default)]
    bias: Option<i32>,
    #[serde(default)]
    signed: Option<bool>,
    #[serde(default)]
    subnormals: Option<bool>,
    #[serde(default)]
    zero: Option<bool>,
    #[serde(default)]
    nan: Option<Nan>,
    #[serde(default)]
    infinity: Option<Infinity>,
    #[serde(default)]
    amax_target: Option<Number>,
    #[serde(default)]
    thresholds: Option<Vec<Number>>,
    #[serde(default)]
    codebooks: Option<Vec<Vec<Number>>>,
    #[serde(default)]
    choice: Option<Choice>,
    #[serde(default)]
    zero_points: Option<Vec<Number>>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
enum Choice {
    LeastError,
    LargestScale,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
enum Nan {
    None,
    AllOnes,
    NegativeZero,
    Ieee,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
enum Infinity {
    None,
    Last,
    Ieee,
}

/// An f32: a number, or one of the texts `nan`, `inf` and `-inf`, because JSON has no such numbers.
#[derive(Clone, Copy)]
struct Number(f32);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrText;

        impl Visitor<'_> for NumberOrText {
            type Value = Number;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, or \"nan\", \"inf\" or \"-inf\"")
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Number, E> {
                let narrow = value as f32;
                if narrow.is_infinite() && value.is_finite() {
                    return Err(E::custom(format!("{value:e} exceeds f32")));
                }
                Ok(Number(narrow))
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Number, E> {
                self.visit_f64(value as f64)
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Number, E> {
                self.visit_f64(value as f64)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Number, E> {
                match text {
                    "nan" => Ok(Number(f32::NAN)),
                    "inf" => Ok(Number(f32::INFINITY)),
                    "-inf" => Ok(Number(f32::NEG_INFINITY)),
                    _ => Err(E::custom(format!("{text:?} is no number: write \"nan\", \"inf\" or \"-inf\""))),
                }
            }
        }

        deserializer.deserialize_any(NumberOrText)
    }
}

/// By hand: an error within the visitor has the place of the table.
impl<'de> Deserialize<'de> for Described {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneTable;

        impl<'de> Visitor<'de> for OneTable {
            type Value = Described;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table with the keys of a format")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Described, A::Error> {
                let table = Table::deserialize(MapAccessDeserializer::new(map))?;
                table.format().map(Described).map_err(A::Error::custom)
            }
        }

        deserializer.deserialize_map(OneTable)
    }
}

impl Table {
    fn format(self) -> Result<CFormat, String> {
        let named = |what: String| format!("format `{}`: {what}", self.name.escape_debug());
        if self.name.is_empty() || !self.name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        {
            return Err(named("a name has letters, digits, `-`, `_` and `.`".into()));
        }
        let spec = self.spec().map_err(named)?;
        let scaled = match self.amax_target {
            Some(Number(target)) => Conventions::default().scaled_to(target),
            None => Conventions::default(),
        };
        let thresholds = self.thresholds.iter().flatten().map(|Number(threshold)| *threshold);
        let conventions = self.with_tables(scaled.turning_at(thresholds.collect()), &spec).map_err(named)?;
        let checked = ValueGrid::new(&spec).and_then(|grid| conventions.check(&grid));
        checked.map_err(|error: PluginError| named(error.message.into()))?;
        let (spec, by) = match spec {
            FormatSpec::Minifloat(minifloat) => (CSpec::Minifloat(minifloat), "parameters"),
            FormatSpec::Table(values) => {
                let by = if self.values.is_some() { "values" } else { "parameters" };
                (CSpec::Table(values.len().ilog2(), Some(values.into_vec())), by)
            }
        };
        let leaked = |text: Option<String>, default: &str| &*text.unwrap_or(default.into()).leak();
        Ok(CFormat {
            id: self.name.leak(),
            version: leaked(self.version, "1"),
            summary: leaked(self.summary, &format!("Described by its {by} in a file")),
            spec,
            conventions,
            functions: CFunctions::NONE,
            magnitude: None,
            kernels: Vec::new(),
            options: &[],
            described: None,
        })
    }

    /// The conventions with the tables that blocks choose from.
    fn with_tables(&self, conventions: Conventions, spec: &FormatSpec) -> Result<Conventions, String> {
        let numbers = |numbers: &[Number]| numbers.iter().map(|Number(number)| *number).collect::<Vec<f32>>();
        match (&self.codebooks, &self.zero_points, self.choice) {
            (None, None, None) => Ok(conventions),
            (Some(tables), None, choice) => {
                let choice = match choice {
                    None | Some(Choice::LeastError) => CodebookChoice::LEAST_ERROR,
                    Some(Choice::LargestScale) => CodebookChoice::LARGEST_SCALE,
                };
                Ok(conventions.choosing(choice, tables.iter().map(|table| numbers(table))))
            }
            (None, Some(zeros), None) => {
                let grid = ValueGrid::new(spec).map_err(|error| String::from(error.message))?;
                let values: Vec<f32> = (0..grid.codes()).map(|code| grid.decode(code as u16)).collect();
                Ok(conventions.shifted_by(&values, numbers(zeros)))
            }
            (Some(_), Some(_), _) => Err("`codebooks` and `zero_points` exclude each other".into()),
            (None, _, Some(_)) => Err("`choice` needs `codebooks`".into()),
        }
    }

    fn spec(&self) -> Result<FormatSpec, String> {
        let parameters = [
            ("exponent_bits", self.exponent_bits.is_some()),
            ("significand_bits", self.significand_bits.is_some()),
            ("bias", self.bias.is_some()),
            ("signed", self.signed.is_some()),
            ("subnormals", self.subnormals.is_some()),
            ("zero", self.zero.is_some()),
            ("nan", self.nan.is_some()),
            ("infinity", self.infinity.is_some()),
        ];
        if let Some(values) = &self.values {
            if let Some((key, _)) = parameters.iter().find(|(_, given)| *given) {
                return Err(format!("`values` and `{key}` exclude each other"));
            }
            return Ok(FormatSpec::Table(values.iter().map(|Number(value)| *value).collect()));
        }
        let (Some(exponent_bits), Some(significand_bits)) = (self.exponent_bits, self.significand_bits)
        else {
            return Err("it needs `values`, or `exponent_bits` and `significand_bits`".into());
        };
        let default = CodeLayout::new(exponent_bits, significand_bits);
        let layout = CodeLayout {
            bias: self.bias.unwrap_or(default.bias),
            signed: self.signed.unwrap_or(true),
            subnormals: self.subnormals.unwrap_or(true),
            zero: self.zero.unwrap_or(true),
            nan: match self.nan {
                None | Some(Nan::None) => NanCode::None,
                Some(Nan::AllOnes) => NanCode::AllOnes,
                Some(Nan::NegativeZero) => NanCode::NegativeZero,
                Some(Nan::Ieee) => NanCode::Ieee,
            },
            infinity: match self.infinity {
                None | Some(Infinity::None) => InfinityCode::None,
                Some(Infinity::Last) => InfinityCode::Last,
                Some(Infinity::Ieee) => InfinityCode::Ieee,
            },
            ..default
        };
        layout.spec().map_err(|error| error.message.into())
    }
}
