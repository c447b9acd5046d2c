//! Values of options that a suite tries.

use altgrad_plugin_api::{ConfigValue, OptionDefault, OptionSpec};

/// The choices and limits of an option.
pub(crate) fn allowed_values(option: &OptionSpec) -> Vec<ConfigValue> {
    let limits = [option.min, option.max].into_iter().filter(|limit| limit.is_finite());
    match option.default {
        OptionDefault::Bool(_) => vec![ConfigValue::Bool(false), ConfigValue::Bool(true)],
        OptionDefault::Integer(_) => limits.map(|limit| ConfigValue::Integer(limit as i64)).collect(),
        OptionDefault::Float(_) => limits.map(ConfigValue::Float).collect(),
        OptionDefault::Text(_) => {
            option.choices.iter().map(|&choice| ConfigValue::Text(choice.into())).collect()
        }
        OptionDefault::TextList(_) => Vec::new(),
    }
}
