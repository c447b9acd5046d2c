//! Rows with options other than the defaults.

use altgrad_plugin_api::{ConfigValue, ErrorKind};

use super::{SinkSubject, calls::life, resume::resume};
use crate::{CheckResult, Verdict, allowed_values::allowed_values, subject::said};

/// Every choice and limit of an option, the others as the subject has them. A sink may refuse to be made or opened with
/// it.
pub(super) fn choices(subject: &SinkSubject) -> CheckResult {
    if let Some(fault) = life(subject).and_then(|_| resume(subject)).err() {
        return Ok(Verdict::Skipped(format!("it fails without them: {fault}")));
    }
    let is_given = |name: &str| subject.given.iter().any(|(given, _)| given == name);
    for option in subject.descriptor().options.iter().filter(|option| !is_given(option.name.as_str())) {
        let default = ConfigValue::from(option.default);
        for value in allowed_values(option).into_iter().filter(|value| *value != default) {
            let what = format!("with `{}` = {value:?}", option.name);
            let chosen = subject.with_options([(option.name.to_string(), value)])?;
            let scratch = chosen.scratch()?;
            let opened = chosen.try_instance().and_then(|mut sink| sink.try_open(&scratch.run(), None, &[]));
            match opened {
                Err(error) if error.kind == ErrorKind::PANIC => {
                    return Err(format!("{what}: {}", said("open", &error)));
                }
                Err(_) => continue,
                Ok(()) => {}
            }
            life(&chosen).and_then(|_| resume(&chosen)).map_err(|fault| format!("{what}: {fault}"))?;
        }
    }
    Ok(Verdict::Passed)
}
