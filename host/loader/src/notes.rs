//! The notes of a library, read from its file without loading it. [`altgrad_plugin_api::note`] defines their format.
//!
//! Refuses notes that are damaged, too large, without build information, or of an incompatible version; a library may
//! have none.

use std::fmt::Display;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_plugin_api::{
    BuildInfo, Descriptor, OptionDefault, OptionSpec, PluginKind, RStr,
    note::{BUILD, DESCRIPTOR, NAME, SECTION},
};
use object::{
    Endianness,
    elf::FileHeader64,
    read::elf::{FileHeader, NoteIterator, SectionHeader},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{refusal::refused, version};

/// More bytes or notes than any library has: a larger count is damage.
const MOST_BYTES: usize = 1 << 20;
const MOST_NOTES: usize = 1 << 12;
/// Characters of a reader's message that are shown.
const SHOWN: usize = 120;

/// The content of a library's notes.
#[derive(Debug, Clone, PartialEq)]
pub struct Notes {
    /// The library's build information.
    pub build: BuildInfo,
    /// Its plugins, sorted by kind and id.
    pub descriptors: Vec<Descriptor>,
}

/// The notes in the bytes of a library's file; `None` if they describe no plugin.
///
/// The texts, at most 1 MiB, are leaked, because those of a loaded library also live for the whole process.
///
/// # Errors
/// [`Fault::Plugin`](altgrad_base::diagnostic::Fault::Plugin): the module's documentation lists the reasons.
pub fn read(library: &[u8]) -> Result<Option<Notes>, Diagnostic> {
    let (mut builds, mut plugins) = (Vec::new(), Vec::new());
    for (kind, text) in texts(library).map_err(damaged)? {
        match kind {
            BUILD => builds.push(text),
            DESCRIPTOR => plugins.push(text),
            _ => {}
        }
    }
    if plugins.is_empty() {
        return Ok(None);
    }
    let [build] = builds.as_slice() else {
        return Err(damaged(format!("{} say how it was built, not one", builds.len())));
    };
    let build: BuildText = parsed(build)?;
    // Checked before the others are read: another version may write them differently.
    version::check(&build.api_version)?;
    let plugins: Vec<PluginText> = plugins.into_iter().map(parsed).collect::<Result<_, _>>()?;
    let mut descriptors: Vec<Descriptor> = plugins.into_iter().map(PluginText::leak).collect();
    descriptors.sort_by_key(|descriptor| (descriptor.kind.0, descriptor.id));
    Ok(Some(Notes { build: build.leak(), descriptors }))
}

impl Notes {
    /// The notes as one JSON text, for storage or another process.
    ///
    /// # Errors
    /// Never in practice: all values have a JSON form.
    pub fn to_json(&self) -> serde_json::Result<String> {
        let plugins = self.descriptors.iter().map(PluginText::of).collect();
        serde_json::to_string(&NotesText { build: BuildText::of(&self.build), plugins })
    }

    /// Notes from such a text; its texts are leaked, as by [`read`].
    ///
    /// # Errors
    /// The text is not a description.
    pub fn from_json(text: &str) -> serde_json::Result<Self> {
        let NotesText { build, plugins } = serde_json::from_str(text)?;
        let descriptors = plugins.into_iter().map(PluginText::leak).collect();
        Ok(Self { build: build.leak(), descriptors })
    }
}

#[derive(Serialize, Deserialize)]
struct NotesText {
    build: BuildText,
    plugins: Vec<PluginText>,
}

fn damaged(what: impl Display) -> Diagnostic {
    refused(format!("its notes are damaged: {what}"), "build it again")
}

/// The types and texts of all notes.
fn texts(library: &[u8]) -> Result<Vec<(u32, &[u8])>, String> {
    let said = |error: object::read::Error| error.to_string();
    let header = FileHeader64::<Endianness>::parse(library).map_err(said)?;
    let endian = header.endian().map_err(said)?;
    let sections = header.sections(endian, library).map_err(said)?;
    let Some((_, section)) = sections.section_by_name(endian, SECTION.as_bytes()) else {
        return Ok(Vec::new());
    };
    let data = section.data(endian, library).map_err(said)?;
    if data.len() > MOST_BYTES {
        return Err(format!("they have {} bytes, {MOST_BYTES} are allowed", data.len()));
    }
    let mut texts = Vec::new();
    for note in NoteIterator::<FileHeader64<Endianness>>::new(endian, 4, data).map_err(said)? {
        let note = note.map_err(said)?;
        if note.name_bytes() != NAME {
            return Err("one has another name".into());
        }
        if texts.len() == MOST_NOTES {
            return Err(format!("there are more than {MOST_NOTES}"));
        }
        texts.push((note.n_type(endian).0, note.desc()));
    }
    Ok(texts)
}

/// The value of a text without its closing zeros.
fn parsed<T: DeserializeOwned>(text: &[u8]) -> Result<T, Diagnostic> {
    let end = text.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    serde_json::from_slice(&text[..end]).map_err(|error| {
        let shown: String = error.to_string().chars().filter(|c| !c.is_control()).take(SHOWN).collect();
        let hint = "build it again; in C, the texts of `ALTGRAD_DESCRIBE_FORMAT` have no quotation marks, backslashes or \
                    control characters";
        refused(format!("its notes are damaged: {shown}"), hint)
    })
}

#[derive(Serialize, Deserialize)]
struct BuildText {
    api_version: String,
    rustc: String,
    target: String,
    cpu_features: String,
}

#[derive(Serialize, Deserialize)]
struct PluginText {
    kind: u32,
    id: String,
    version: String,
    summary: String,
    #[serde(default)]
    options: Vec<OptionText>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    vendor: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    homepage: String,
}

#[derive(Serialize, Deserialize)]
struct OptionText {
    name: String,
    default: DefaultText,
    #[serde(skip_serializing_if = "Option::is_none")]
    min: Option<Bits>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<Bits>,
    #[serde(default)]
    choices: Vec<String>,
    #[serde(default)]
    help: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum DefaultText {
    Bool(bool),
    Integer(i64),
    Float(Bits),
    Text(String),
    TextList(Vec<String>),
}

/// A double as 16 hexadecimal digits.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
struct Bits(f64);

impl From<Bits> for String {
    fn from(Bits(value): Bits) -> Self {
        format!("{:016x}", value.to_bits())
    }
}

impl TryFrom<String> for Bits {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let bits = u64::from_str_radix(&text, 16).ok().filter(|_| text.len() == 16);
        bits.map(|bits| Self(f64::from_bits(bits))).ok_or_else(|| format!("`{text}` is no double"))
    }
}

fn leaked(text: String) -> RStr<'static> {
    RStr::from_str(text.leak())
}

fn all_leaked(texts: Vec<String>) -> &'static [RStr<'static>] {
    texts.into_iter().map(leaked).collect::<Vec<_>>().leak()
}

impl BuildText {
    fn of(build: &BuildInfo) -> Self {
        Self {
            api_version: build.api_version.to_string(),
            rustc: build.rustc.to_string(),
            target: build.target.to_string(),
            cpu_features: build.cpu_features.to_string(),
        }
    }

    fn leak(self) -> BuildInfo {
        BuildInfo {
            api_version: leaked(self.api_version),
            rustc: leaked(self.rustc),
            target: leaked(self.target),
            cpu_features: leaked(self.cpu_features),
        }
    }
}

impl PluginText {
    fn of(descriptor: &Descriptor) -> Self {
        Self {
            kind: descriptor.kind.0,
            id: descriptor.id.to_string(),
            version: descriptor.version.to_string(),
            summary: descriptor.summary.to_string(),
            options: descriptor.options.iter().map(OptionText::of).collect(),
            vendor: descriptor.vendor.to_string(),
            homepage: descriptor.homepage.to_string(),
        }
    }

    fn leak(self) -> Descriptor {
        let options: Vec<OptionSpec> = self.options.into_iter().map(OptionText::leak).collect();
        Descriptor {
            kind: PluginKind(self.kind),
            id: leaked(self.id),
            version: leaked(self.version),
            summary: leaked(self.summary),
            options: (&*options.leak()).into(),
            vendor: leaked(self.vendor),
            homepage: leaked(self.homepage),
        }
    }
}

impl OptionText {
    fn of(option: &OptionSpec) -> Self {
        let texts = |texts: &[RStr<'_>]| texts.iter().map(ToString::to_string).collect();
        Self {
            name: option.name.to_string(),
            default: match option.default {
                OptionDefault::Bool(value) => DefaultText::Bool(value),
                OptionDefault::Integer(value) => DefaultText::Integer(value),
                OptionDefault::Float(value) => DefaultText::Float(Bits(value)),
                OptionDefault::Text(value) => DefaultText::Text(value.to_string()),
                OptionDefault::TextList(values) => DefaultText::TextList(texts(values.as_slice())),
            },
            min: (option.min > f64::NEG_INFINITY).then_some(Bits(option.min)),
            max: (option.max < f64::INFINITY).then_some(Bits(option.max)),
            choices: texts(option.choices.as_slice()),
            help: option.help.to_string(),
        }
    }

    fn leak(self) -> OptionSpec {
        OptionSpec {
            name: leaked(self.name),
            default: match self.default {
                DefaultText::Bool(value) => OptionDefault::Bool(value),
                DefaultText::Integer(value) => OptionDefault::Integer(value),
                DefaultText::Float(Bits(value)) => OptionDefault::Float(value),
                DefaultText::Text(text) => OptionDefault::Text(leaked(text)),
                DefaultText::TextList(texts) => OptionDefault::TextList(all_leaked(texts).into()),
            },
            min: self.min.map_or(f64::NEG_INFINITY, |Bits(min)| min),
            max: self.max.map_or(f64::INFINITY, |Bits(max)| max),
            choices: all_leaked(self.choices).into(),
            help: leaked(self.help),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
