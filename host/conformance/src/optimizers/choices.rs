//! Steps with options other than the defaults.

use altgrad_plugin_api::ConfigValue;

use super::{WITH_OPTIONS, checks, subject::OptimizerSubject};
use crate::{CheckResult, Verdict, allowed_values::allowed_values, run_named};

/// Checks of updates by a choice that an author declares.
const OF_CHOICES: &[&str] =
    &["states", "scope", "rule", "finite", "repeatable", "parts", "group", "not_finite", "shapes"];

/// Every choice of an option, the others as the subject has them: it passes what it passes without the choice. Limits
/// of numbers may make values that are not finite.
pub(super) fn choices(subject: &OptimizerSubject) -> CheckResult {
    let is_passed = |name: &&str| run_named(checks(), &[name], subject, |_| {}).is_ok();
    let passed: Vec<&str> = OF_CHOICES.iter().copied().filter(is_passed).collect();
    let is_given = |name: &str| subject.given.iter().any(|(given, _)| given == name);
    for option in subject.descriptor.options.iter().filter(|option| !is_given(option.name.as_str())) {
        let default = ConfigValue::from(option.default);
        for value in allowed_values(option).into_iter().filter(|value| *value != default) {
            let is_number = matches!(value, ConfigValue::Integer(_) | ConfigValue::Float(_));
            let judged = |name: &&str| !is_number || WITH_OPTIONS.contains(name);
            let names: Vec<&str> = passed.iter().copied().filter(judged).collect();
            let what = format!("with `{}` = {value:?}", option.name);
            let chosen = subject.with_options([(option.name.to_string(), value)])?;
            // The check `options` judges constructors.
            if chosen.try_out().is_err() {
                continue;
            }
            run_named(checks(), &names, &chosen, |_| {}).map_err(|fault| format!("{what}: {fault}"))?;
        }
    }
    Ok(Verdict::Passed)
}
