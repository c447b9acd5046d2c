//! The option values of a plugin instance.
//!
//! The host checks a run file's table against the declared [`OptionSpec`]s (unknown keys, types, ranges), fills in the
//! defaults and hands the plugin a complete [`Config`]. The plugin checks only conditions that a range cannot express.

use std::{
    ffi::OsStr,
    path::{Component, Path, PathBuf},
};

use crate::stable::{
    StableAbi,
    std_types::{RStr, RString, RVec},
};

use crate::{OptionDefault, OptionSpec, PluginError, options::written};

/// The value of one option.
#[repr(u8)]
#[derive(StableAbi, Debug, Clone, PartialEq)]
pub enum ConfigValue {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// A number; a run file may write it without a point.
    Float(f64),
    /// UTF-8 text.
    Text(RString),
    /// A list of texts.
    TextList(RVec<RString>),
}

impl OptionSpec {
    /// The reason why `value` is not allowed; `None` if it is allowed.
    pub(crate) fn refuses(&self, value: &ConfigValue) -> Option<String> {
        let out_of_range = |number: f64| !(self.min..=self.max).contains(&number);
        match value {
            ConfigValue::Float(number) if out_of_range(*number) => {
                Some(format!("must be {}, found {}", self.range_in_words(), written(*number)))
            }
            ConfigValue::Integer(number) if out_of_range(*number as f64) => {
                Some(format!("must be {}, found {number}", self.range_in_words()))
            }
            ConfigValue::Text(text) if !self.choices.is_empty() && !self.allows(text) => {
                let named: Vec<&str> =
                    self.choices.iter().map(RStr::as_str).filter(|name| !name.is_empty()).collect();
                Some(format!("must be one of {}, found `{text}`", named.join(", ")))
            }
            _ => None,
        }
    }
}

impl From<OptionDefault> for ConfigValue {
    fn from(default: OptionDefault) -> Self {
        match default {
            OptionDefault::Bool(value) => Self::Bool(value),
            OptionDefault::Integer(value) => Self::Integer(value),
            OptionDefault::Float(value) => Self::Float(value),
            OptionDefault::Text(value) => Self::Text(value.into()),
            OptionDefault::TextList(values) => {
                Self::TextList(values.into_iter().map(|&value| value.into()).collect())
            }
        }
    }
}

impl ConfigValue {
    /// The type's name as error messages spell it.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Bool(_) => "a boolean",
            Self::Integer(_) => "an integer",
            Self::Float(_) => "a number",
            Self::Text(_) => "a string",
            Self::TextList(_) => "a list of strings",
        }
    }

    /// The value as `wanted`'s type, if it is one (an integer also passes for a number).
    fn coerce(self, wanted: &Self) -> Result<Self, Self> {
        match (self, wanted) {
            (Self::Integer(value), Self::Float(_)) => Ok(Self::Float(value as f64)),
            (value, wanted) if std::mem::discriminant(&value) == std::mem::discriminant(wanted) => Ok(value),
            (value, _) => Err(value),
        }
    }
}

/// One option's value.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, PartialEq)]
pub struct ConfigEntry {
    /// The option's name.
    pub name: RString,
    /// Its value, of the declared type.
    pub value: ConfigValue,
}

/// A complete, checked set of option values, with one for every declared option.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, PartialEq, Default)]
pub struct Config {
    entries: RVec<ConfigEntry>,
}

/// The reason why a table does not match the declared options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionFault {
    /// The key at fault.
    pub key: String,
    /// The fault: follows the key in a sentence.
    pub message: String,
    /// True if the plugin has no such option.
    pub unknown: bool,
}

impl Config {
    /// Checks `given` against `options` and fills in the missing ones.
    ///
    /// # Errors
    /// The first key that is unknown, of the wrong type or out of range.
    pub fn resolve(
        options: &[OptionSpec],
        given: impl IntoIterator<Item = (String, ConfigValue)>,
    ) -> Result<Self, OptionFault> {
        let mut entries: RVec<ConfigEntry> = options
            .iter()
            .map(|option| ConfigEntry { name: option.name.into(), value: option.default.into() })
            .collect();
        for (key, value) in given {
            let fault = |message: String, unknown| OptionFault { key: key.clone(), message, unknown };
            let Some(index) = options.iter().position(|option| option.name == key.as_str()) else {
                return Err(fault("is not an option of this plugin".into(), true));
            };
            let declared = &entries[index].value;
            let value = value.coerce(declared).map_err(|value| {
                fault(format!("must be {}, found {}", declared.type_name(), value.type_name()), false)
            })?;
            if let Some(message) = options[index].refuses(&value) {
                return Err(fault(message, false));
            }
            entries[index].value = value;
        }
        Ok(Self { entries })
    }

    /// All options, in declared order.
    #[must_use]
    pub fn entries(&self) -> &[ConfigEntry] {
        &self.entries
    }

    fn get(&self, name: &str, wanted: &str) -> Result<&ConfigValue, PluginError> {
        self.entries
            .iter()
            .find(|entry| entry.name == name)
            .map(|entry| &entry.value)
            .ok_or_else(|| PluginError::config(format!("option `{name}` ({wanted}) was never declared")))
    }

    /// The value of a number option.
    ///
    /// # Errors
    /// [`ErrorKind::CONFIG`](crate::ErrorKind::CONFIG) if no such option was declared.
    pub fn float(&self, name: &str) -> Result<f64, PluginError> {
        match self.get(name, "a number")? {
            ConfigValue::Float(value) => Ok(*value),
            other => Err(wrong_type(name, "a number", other)),
        }
    }

    /// The value of a whole-number option.
    ///
    /// # Errors
    /// [`ErrorKind::CONFIG`](crate::ErrorKind::CONFIG) if no such option was declared.
    pub fn integer(&self, name: &str) -> Result<i64, PluginError> {
        match self.get(name, "an integer")? {
            ConfigValue::Integer(value) => Ok(*value),
            other => Err(wrong_type(name, "an integer", other)),
        }
    }

    /// The value of a boolean option.
    ///
    /// # Errors
    /// [`ErrorKind::CONFIG`](crate::ErrorKind::CONFIG) if no such option was declared.
    pub fn bool(&self, name: &str) -> Result<bool, PluginError> {
        match self.get(name, "a boolean")? {
            ConfigValue::Bool(value) => Ok(*value),
            other => Err(wrong_type(name, "a boolean", other)),
        }
    }

    /// The value of a text option.
    ///
    /// # Errors
    /// [`ErrorKind::CONFIG`](crate::ErrorKind::CONFIG) if no such option was declared.
    pub fn text(&self, name: &str) -> Result<&str, PluginError> {
        match self.get(name, "a string")? {
            ConfigValue::Text(value) => Ok(value),
            other => Err(wrong_type(name, "a string", other)),
        }
    }

    /// The value of a text option as a path below a host folder; empty for the folder itself (`.`).
    ///
    /// # Errors
    /// [`ErrorKind::CONFIG`](crate::ErrorKind::CONFIG) if it is absolute, has a `..`, or begins with a name of
    /// [`HOST_NAMES`], or no such option was declared.
    pub fn path_inside(&self, name: &str) -> Result<PathBuf, PluginError> {
        let text = self.text(name)?;
        let mut path = PathBuf::new();
        for component in Path::new(text).components() {
            match component {
                Component::Normal(part) if path.as_os_str().is_empty() && is_of_the_host(part) => {
                    let part = part.display();
                    let message = format!("`{name}` names `{part}`, which the host writes, found `{text}`");
                    return Err(PluginError::config(message).with_hint("use another name in the run folder"));
                }
                Component::Normal(part) => path.push(part),
                Component::CurDir => {}
                _ => {
                    let what = "must stay inside the run folder: no absolute path, no `..`";
                    return Err(PluginError::config(format!("`{name}` {what}, found `{text}`")));
                }
            }
        }
        Ok(path)
    }

    /// The values of a text-list option.
    ///
    /// # Errors
    /// [`ErrorKind::CONFIG`](crate::ErrorKind::CONFIG) if no such option was declared.
    pub fn text_list(&self, name: &str) -> Result<&[RString], PluginError> {
        match self.get(name, "a list of strings")? {
            ConfigValue::TextList(values) => Ok(values),
            other => Err(wrong_type(name, "a list of strings", other)),
        }
    }
}

/// The names in a run folder that are the host's. So are those that begin with `.altgrad-`.
pub const HOST_NAMES: [&str; 7] = [
    "run.json",
    "config.toml",
    "events.jsonl",
    "weights.safetensors",
    "profile.json",
    "checkpoints",
    ".lock",
];

fn is_of_the_host(name: &OsStr) -> bool {
    HOST_NAMES.iter().any(|own| name == *own) || name.as_encoded_bytes().starts_with(b".altgrad-")
}

fn wrong_type(name: &str, wanted: &str, found: &ConfigValue) -> PluginError {
    PluginError::config(format!("option `{name}` was declared as {}, not {wanted}", found.type_name()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::texts;

    const OPTIONS: [OptionSpec; 4] = [
        OptionSpec::float("beta1", 0.9).range(0.0, 1.0),
        OptionSpec::integer("window", 16).range(1.0, 1e6),
        OptionSpec::float("decay", 0.1).range(0.0, f64::MAX),
        OptionSpec::text("placement", "post").choices(texts!["post", "power"]),
    ];

    fn resolve(key: &str, value: ConfigValue) -> Result<Config, String> {
        Config::resolve(&OPTIONS, [(key.to_string(), value)])
            .map_err(|fault| format!("{} {}", fault.key, fault.message))
    }

    #[test]
    fn defaults_fill_what_is_left_out() {
        let config = resolve("beta1", ConfigValue::Integer(1)).unwrap();
        assert_eq!(config.float("beta1").unwrap(), 1.0);
        assert_eq!(config.integer("window").unwrap(), 16);
        assert_eq!(config.text("placement").unwrap(), "post");
    }

    #[test]
    fn each_fault_names_its_key() {
        let rows = [
            ("beta3", ConfigValue::Float(0.5), "beta3 is not an option of this plugin"),
            ("beta1", ConfigValue::Float(1.5), "beta1 must be between 0 and 1, found 1.5"),
            ("beta1", ConfigValue::Float(f64::NAN), "beta1 must be between 0 and 1, found NaN"),
            ("beta1", ConfigValue::Text("x".into()), "beta1 must be a number, found a string"),
            ("window", ConfigValue::Integer(0), "window must be between 1 and 1000000, found 0"),
            ("decay", ConfigValue::Float(-1.0), "decay must be at least 0 and finite, found -1"),
            ("decay", ConfigValue::Float(f64::INFINITY), "decay must be at least 0 and finite, found inf"),
            (
                "placement",
                ConfigValue::Text("pre".into()),
                "placement must be one of post, power, found `pre`",
            ),
        ];
        for (key, value, expected) in rows {
            assert_eq!(resolve(key, value).unwrap_err(), expected);
        }
    }

    #[test]
    fn a_path_inside_stays_in_the_run_folder_and_off_the_host_s_files() {
        let options = [OptionSpec::text("path", "")];
        let path = |text: &str| {
            let given = [("path".to_string(), ConfigValue::Text(text.into()))];
            Config::resolve(&options, given).unwrap().path_inside("path")
        };
        for (text, inside) in [("metrics.csv", "metrics.csv"), ("./a/run.json", "a/run.json"), (".", "")] {
            assert_eq!(path(text).unwrap(), Path::new(inside));
        }
        let of_the_host = HOST_NAMES.iter().flat_map(|name| [name.to_string(), format!("./{name}/x")]);
        let more = ["../x", "/x", "a/../../x", ".altgrad-reserve"].map(str::to_string);
        for text in of_the_host.chain(more) {
            assert!(path(&text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_of_many_digits_are_written_with_an_exponent() {
        let option = OptionSpec::float("eps", 1e-8).range(1e-30, 1.0);
        let refusal = option.refuses(&ConfigValue::Float(0.0));
        assert_eq!(refusal.as_deref(), Some("must be between 1e-30 and 1, found 0"));
        let refusal = option.refuses(&ConfigValue::Float(1e36));
        assert_eq!(refusal.as_deref(), Some("must be between 1e-30 and 1, found 1e36"));
    }
}
