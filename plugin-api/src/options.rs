//! Options of a plugin: what it declares, and the checked values it is made with.
//!
//! A plugin lists its options in its [`Descriptor`](crate::Descriptor). The host checks a run
//! file's table against that list (unknown keys, types, ranges), fills in the defaults and hands the
//! plugin a complete [`Config`]; the plugin checks only what a range cannot say.

use std::path::{Component, Path, PathBuf};

use abi_stable::{
    StableAbi,
    std_types::{RString, RVec},
};

use crate::PluginError;

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

/// One option: its name, type, default, range and meaning.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, PartialEq)]
pub struct OptionSpec {
    /// The key in the run file.
    pub name: RString,
    /// The default, which also fixes the type.
    pub default: ConfigValue,
    /// Least value allowed (numbers only; minus infinity: none).
    pub min: f64,
    /// Greatest value allowed (numbers only; infinity: none).
    pub max: f64,
    /// The allowed texts (texts only; empty: any).
    pub choices: RVec<RString>,
    /// Meaning, unit, why this default.
    pub help: RString,
}

impl OptionSpec {
    fn new(name: &str, default: ConfigValue) -> Self {
        Self {
            name: name.into(),
            default,
            min: f64::NEG_INFINITY,
            max: f64::INFINITY,
            choices: RVec::new(),
            help: RString::new(),
        }
    }

    /// A number.
    #[must_use]
    pub fn float(name: &str, default: f64) -> Self {
        Self::new(name, ConfigValue::Float(default))
    }

    /// A whole number.
    #[must_use]
    pub fn integer(name: &str, default: i64) -> Self {
        Self::new(name, ConfigValue::Integer(default))
    }

    /// `true` or `false`.
    #[must_use]
    pub fn bool(name: &str, default: bool) -> Self {
        Self::new(name, ConfigValue::Bool(default))
    }

    /// A text.
    #[must_use]
    pub fn text(name: &str, default: &str) -> Self {
        Self::new(name, ConfigValue::Text(default.into()))
    }

    /// A list of texts.
    #[must_use]
    pub fn text_list(name: &str, default: &[&str]) -> Self {
        Self::new(name, ConfigValue::TextList(default.iter().map(|&text| RString::from(text)).collect()))
    }

    /// Both ends belong to the range.
    #[must_use]
    pub fn range(mut self, min: f64, max: f64) -> Self {
        (self.min, self.max) = (min, max);
        self
    }

    /// The only texts allowed.
    #[must_use]
    pub fn choices(mut self, choices: &[&str]) -> Self {
        self.choices = choices.iter().map(|&choice| RString::from(choice)).collect();
        self
    }

    /// Meaning, unit, why this default.
    #[must_use]
    pub fn help(mut self, help: &str) -> Self {
        self.help = help.into();
        self
    }

    /// Why `value` is not allowed, if it is not.
    fn refuses(&self, value: &ConfigValue) -> Option<String> {
        let out_of_range = |number: f64| !(self.min..=self.max).contains(&number);
        match value {
            ConfigValue::Float(number) if out_of_range(*number) => {
                Some(format!("must be between {} and {}, is {number}", self.min, self.max))
            }
            ConfigValue::Integer(number) if out_of_range(*number as f64) => {
                Some(format!("must be between {} and {}, is {number}", self.min, self.max))
            }
            ConfigValue::Text(text) if !self.choices.is_empty() && !self.choices.contains(text) => {
                let named: Vec<&str> =
                    self.choices.iter().map(RString::as_str).filter(|name| !name.is_empty()).collect();
                Some(format!("must be one of {}, is `{text}`", named.join(", ")))
            }
            _ => None,
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

/// A complete, checked set of option values: every declared option is in it.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, PartialEq, Default)]
pub struct Config {
    entries: RVec<ConfigEntry>,
}

/// Why a table does not fit the declared options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionFault {
    /// The key at fault.
    pub key: String,
    /// What is wrong with it: follows the key in a sentence.
    pub message: String,
    /// Whether the key is none of the plugin's options.
    pub unknown: bool,
}

impl Config {
    /// Checks `given` against `options` and fills in what it leaves out.
    ///
    /// # Errors
    /// The first key that is unknown, of the wrong type or out of range.
    pub fn resolve(
        options: &[OptionSpec],
        given: impl IntoIterator<Item = (String, ConfigValue)>,
    ) -> Result<Self, OptionFault> {
        let mut entries: RVec<ConfigEntry> = options
            .iter()
            .map(|option| ConfigEntry { name: option.name.clone(), value: option.default.clone() })
            .collect();
        for (key, value) in given {
            let fault = |message: String, unknown| OptionFault { key: key.clone(), message, unknown };
            let Some(index) = options.iter().position(|option| option.name == key.as_str()) else {
                return Err(fault("is not an option of this plugin".into(), true));
            };
            let option = &options[index];
            let value = value.coerce(&option.default).map_err(|value| {
                fault(format!("must be {}, is {}", option.default.type_name(), value.type_name()), false)
            })?;
            if let Some(message) = option.refuses(&value) {
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

    /// The value of a text option as a path below a folder of the host's; empty for the folder itself (`.`).
    ///
    /// # Errors
    /// [`ErrorKind::CONFIG`](crate::ErrorKind::CONFIG) if it is absolute or has a `..`, or no such option was declared.
    pub fn path_inside(&self, name: &str) -> Result<PathBuf, PluginError> {
        let text = self.text(name)?;
        let mut path = PathBuf::new();
        for component in Path::new(text).components() {
            match component {
                Component::Normal(name) => path.push(name),
                Component::CurDir => {}
                _ => {
                    let what = "must stay inside the run folder: no absolute path, no `..`";
                    return Err(PluginError::config(format!("`{name}` {what}, is `{text}`")));
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

fn wrong_type(name: &str, wanted: &str, found: &ConfigValue) -> PluginError {
    PluginError::config(format!("option `{name}` was declared as {}, not {wanted}", found.type_name()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn options() -> Vec<OptionSpec> {
        vec![
            OptionSpec::float("beta1", 0.9).range(0.0, 1.0),
            OptionSpec::integer("window", 16).range(1.0, 1e6),
            OptionSpec::text("placement", "post").choices(&["post", "power"]),
        ]
    }

    fn resolve(key: &str, value: ConfigValue) -> Result<Config, String> {
        Config::resolve(&options(), [(key.to_string(), value)])
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
            ("beta1", ConfigValue::Float(1.5), "beta1 must be between 0 and 1, is 1.5"),
            ("beta1", ConfigValue::Float(f64::NAN), "beta1 must be between 0 and 1, is NaN"),
            ("beta1", ConfigValue::Text("x".into()), "beta1 must be a number, is a string"),
            ("window", ConfigValue::Integer(0), "window must be between 1 and 1000000, is 0"),
            ("placement", ConfigValue::Text("pre".into()), "placement must be one of post, power, is `pre`"),
        ];
        for (key, value, expected) in rows {
            assert_eq!(resolve(key, value).unwrap_err(), expected);
        }
    }
}
