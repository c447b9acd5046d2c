//! Options of formats: a run file gives them in the name of the format, since formats have no table of their own.
//!
//! `NAME:KEY=VALUE,KEY=VALUE` sets options, and `NAME:TEXT` is short for `NAME:variant=TEXT`. Refuses a key that is
//! given twice, and what [`Config::resolve`] refuses.

use crate::{Config, ConfigValue, OptionDefault, OptionFault, OptionSpec};

/// The option that a name may set without its key.
const VARIANT: &str = "variant";

/// The format's id in a run file's name of it: what stands before the first colon.
#[must_use]
pub fn format_id(name: &str) -> &str {
    name.split(':').next().unwrap_or(name)
}

/// The options that a run file's name of a format gives, checked against `options`, defaults filled in.
///
/// # Errors
/// The first key that is unknown, given twice, of the wrong type or out of range.
pub fn format_config(options: &[OptionSpec], name: &str) -> Result<Config, OptionFault> {
    let given = name.split_once(':').map(|(_, given)| given);
    let mut values: Vec<(String, ConfigValue)> = Vec::new();
    for part in given.into_iter().flat_map(|given| given.split(',')) {
        let (key, text) = part.split_once('=').unwrap_or((VARIANT, part));
        if values.iter().any(|(other, _)| other == key) {
            return Err(OptionFault { key: key.into(), message: "is given twice".into(), unknown: false });
        }
        let option = options.iter().find(|option| option.name == key);
        values.push((key.into(), value(option, text)));
    }
    Config::resolve(options, values)
}

/// The text as a value of the option's type; as a text if it is none, so that the refusal names both types.
fn value(option: Option<&OptionSpec>, text: &str) -> ConfigValue {
    let parsed = option.and_then(|option| match option.default {
        OptionDefault::Bool(_) => text.parse().ok().map(ConfigValue::Bool),
        OptionDefault::Integer(_) => text.parse().ok().map(ConfigValue::Integer),
        OptionDefault::Float(_) => text.parse().ok().map(ConfigValue::Float),
        OptionDefault::Text(_) | OptionDefault::TextList(_) => None,
    });
    parsed.unwrap_or_else(|| ConfigValue::Text(text.into()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::texts;

    const OPTIONS: [OptionSpec; 4] = [
        OptionSpec::text("variant", "").choices(texts!["", "fin"]),
        OptionSpec::integer("bits", 4).range(2.0, 8.0),
        OptionSpec::float("tail", 0.5).range(0.0, 1.0),
        OptionSpec::bool("zero", false),
    ];

    #[test]
    fn a_name_sets_any_number_of_options() {
        let read = |name: &str| {
            let config = format_config(&OPTIONS, name).unwrap();
            let variant = config.text("variant").unwrap().to_owned();
            (
                variant,
                config.integer("bits").unwrap(),
                config.float("tail").unwrap(),
                config.bool("zero").unwrap(),
            )
        };
        assert_eq!(read("F"), (String::new(), 4, 0.5, false));
        assert_eq!(read("F:fin"), ("fin".into(), 4, 0.5, false));
        assert_eq!(read("F:zero=true,bits=5"), (String::new(), 5, 0.5, true));
        assert_eq!(read("F:fin,tail=1"), ("fin".into(), 4, 1.0, false));
        assert_eq!((format_id("F:fin,bits=5"), format_id("F")), ("F", "F"));
    }

    #[test]
    fn each_fault_names_its_key() {
        for (name, expected) in [
            ("F:bits=9", "bits must be between 2 and 8, found 9"),
            ("F:bits=many", "bits must be an integer, found a string"),
            ("F:zero=yes", "zero must be a boolean, found a string"),
            ("F:bits=4,bits=4", "bits is given twice"),
            ("F:width=4", "width is not an option of this plugin"),
            ("F:ieee", "variant must be one of fin, found `ieee`"),
        ] {
            let fault = format_config(&OPTIONS, name).unwrap_err();
            assert_eq!(format!("{} {}", fault.key, fault.message), expected);
        }
    }
}
