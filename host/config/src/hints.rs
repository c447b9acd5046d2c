//! A hint for refusals without one: the default of the key they are about.

use altgrad_base::diagnostic::Diagnostic;
use toml::Value;

use super::schema::{RunConfig, SinkSection};
/// The same error with a hint. Messages about a key name it first, in backticks.
pub(super) fn with_hint(error: Diagnostic) -> Diagnostic {
    let default = error.message.split('`').nth(1).and_then(|key| Some((key.to_owned(), default_of(key)?)));
    error.hint(match default {
        Some((key, value)) => format!("leave `{key}` out for its default, {value}"),
        None => "docs/run-file.md lists the allowed values; configs/exp.toml is a valid example".to_owned(),
    })
}

/// The default of a dotted key as a run file spells it; `None` if there is none.
fn default_of(key: &str) -> Option<Value> {
    let (defaults, key) = match key.strip_prefix("sink.").and_then(|rest| rest.split_once('.')) {
        Some((_, key)) => (Value::try_from(toml::from_str::<SinkSection>("name = ''").ok()?), key),
        None => (Value::try_from(RunConfig::default()), key),
    };
    let defaults = defaults.ok()?;
    let value = key.split('.').try_fold(&defaults, |value, part| value.get(part))?;
    (!value.is_table() && value.as_str() != Some("")).then(|| value.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_with_a_default_names_it() {
        let hint = |message: &str| with_hint(Diagnostic::config(message)).hint;
        assert_eq!(
            hint("`train.lr` must be positive, found -1.0").as_deref(),
            Some("leave `train.lr` out for its default, 0.001")
        );
        assert_eq!(
            hint("`sink.1.queue` must be between 1 and 1000000, found 0").as_deref(),
            Some("leave `sink.1.queue` out for its default, 4096")
        );
        let fallback = Some("docs/run-file.md lists the allowed values; configs/exp.toml is a valid example");
        assert_eq!(hint("`quant.weight` must not be empty").as_deref(), fallback);
        assert_eq!(hint("not valid TOML: unclosed string").as_deref(), fallback);
    }
}
