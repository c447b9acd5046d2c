//! The options that a plugin declares, as constants.
//!
//! A plugin lists them in its [`Descriptor`](crate::Descriptor), where they can be read without running the plugin. An
//! instance is made with a [`Config`](crate::Config): values from a run file, and the defaults here.

use crate::stable::{
    StableAbi,
    std_types::{RSlice, RStr},
};

/// A list of constant texts: `texts!["post", "power"]`, for [`OptionSpec::choices`] and [`OptionSpec::text_list`].
#[macro_export]
macro_rules! texts {
    ($($text:expr),* $(,)?) => {
        const {
            const TEXTS: &[$crate::RStr<'static>] = &[$($crate::RStr::from_str($text)),*];
            TEXTS
        }
    };
}

/// The default of an option, which also fixes its type. A [`ConfigValue`](crate::ConfigValue) is made from it.
#[repr(u8)]
#[derive(StableAbi, Debug, Clone, Copy, PartialEq)]
pub enum OptionDefault {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// A number.
    Float(f64),
    /// UTF-8 text.
    Text(RStr<'static>),
    /// A list of texts.
    TextList(RSlice<'static, RStr<'static>>),
}

/// One option: its name, type, default, range and meaning.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy, PartialEq)]
pub struct OptionSpec {
    /// The key in the run file.
    pub name: RStr<'static>,
    /// The default, which also fixes the type.
    pub default: OptionDefault,
    /// Least value allowed (numbers only; minus infinity: none).
    pub min: f64,
    /// Greatest value allowed (numbers only; infinity: none).
    pub max: f64,
    /// The allowed texts (texts only; empty: any).
    pub choices: RSlice<'static, RStr<'static>>,
    /// Meaning, unit, and reason for the default.
    pub help: RStr<'static>,
}

impl OptionSpec {
    const fn new(name: &'static str, default: OptionDefault) -> Self {
        Self {
            name: RStr::from_str(name),
            default,
            min: f64::NEG_INFINITY,
            max: f64::INFINITY,
            choices: RSlice::from_slice(&[]),
            help: RStr::from_str(""),
        }
    }

    /// A number.
    ///
    /// # Panics
    /// The default is NaN; in a constant, the code does not compile.
    #[must_use]
    pub const fn float(name: &'static str, default: f64) -> Self {
        assert!(!default.is_nan(), "the default of an option is NaN, which no range allows");
        Self::new(name, OptionDefault::Float(default))
    }

    /// A whole number.
    #[must_use]
    pub const fn integer(name: &'static str, default: i64) -> Self {
        Self::new(name, OptionDefault::Integer(default))
    }

    /// `true` or `false`.
    #[must_use]
    pub const fn bool(name: &'static str, default: bool) -> Self {
        Self::new(name, OptionDefault::Bool(default))
    }

    /// A text.
    #[must_use]
    pub const fn text(name: &'static str, default: &'static str) -> Self {
        Self::new(name, OptionDefault::Text(RStr::from_str(default)))
    }

    /// A list of texts, made with [`texts!`](crate::texts).
    #[must_use]
    pub const fn text_list(name: &'static str, default: &'static [RStr<'static>]) -> Self {
        Self::new(name, OptionDefault::TextList(RSlice::from_slice(default)))
    }

    /// Sets the allowed range, both ends included.
    #[must_use]
    pub const fn range(mut self, min: f64, max: f64) -> Self {
        (self.min, self.max) = (min, max);
        self
    }

    /// The only texts allowed, made with [`texts!`](crate::texts).
    #[must_use]
    pub const fn choices(mut self, choices: &'static [RStr<'static>]) -> Self {
        self.choices = RSlice::from_slice(choices);
        self
    }

    /// Meaning, unit, and reason for the default.
    #[must_use]
    pub const fn help(mut self, help: &'static str) -> Self {
        self.help = RStr::from_str(help);
        self
    }

    /// The allowed range: "between 0 and 1". The largest number as a limit only excludes infinity.
    pub(crate) fn range_in_words(&self) -> String {
        let is_bound = |limit: f64| limit.abs() < f64::MAX;
        let [min, max] = [self.min, self.max].map(written);
        match (is_bound(self.min), is_bound(self.max)) {
            (true, true) => format!("between {min} and {max}"),
            (true, false) if self.max.is_finite() => format!("at least {min} and finite"),
            (true, false) => format!("at least {min}"),
            (false, true) if self.min.is_finite() => format!("at most {max} and finite"),
            (false, true) => format!("at most {max}"),
            (false, false) => "finite".into(),
        }
    }

    /// True if a text is one of the choices.
    pub(crate) fn allows(&self, text: &str) -> bool {
        self.choices.iter().any(|choice| choice == text)
    }
}

/// A number as a person writes it: 1000000, 1e-30.
pub(crate) fn written(number: f64) -> String {
    let is_plain = number == 0.0 || !number.is_finite() || (1e-4..1e9).contains(&number.abs());
    if is_plain { number.to_string() } else { format!("{number:e}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "the default of an option is NaN")]
    fn a_default_is_a_number() {
        let _ = OptionSpec::float("x", f64::NAN);
    }
}
