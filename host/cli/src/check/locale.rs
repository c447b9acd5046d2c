//! The parent's side of the check `locale`: life cycles under other locales compared with one without a locale.

use std::{path::Path, time::Duration};

use altgrad_base::diagnostic::Diagnostic;

use super::{
    child,
    leaks_and_locale::{LIFE, NAME},
    protocol::{Asked, Verdict},
};

/// The variables that ask for the locale: for programs that set all categories, or read the environment themselves, and
/// for numbers alone.
const SETTINGS: [&[&str]; 2] = [&["LC_ALL", "LANG", "LC_NUMERIC"], &["LC_NUMERIC"]];

/// Checks that the plugin's results are equal under other locales; returns the seconds that took.
pub(super) fn locale(
    path: &Path,
    asked: &Asked<'_>,
    timeout: Duration,
) -> Result<(Verdict, f64), Diagnostic> {
    let mut seconds = 0.0;
    let mut life = |locale: &'static [&'static str]| -> Result<Result<String, String>, Diagnostic> {
        let (life, took) = child::spawn(path, Asked { check: LIFE, locale, ..*asked }, timeout)?.life();
        seconds += took;
        Ok(life)
    };
    let plain = life(&[])?;
    let mut verdict = plain.clone().map_or_else(Verdict::Failed, |_| Verdict::Ok);
    for variables in SETTINGS {
        let other = life(variables)?;
        if verdict != Verdict::Ok || other == plain {
            continue;
        }
        let settings: Vec<String> = variables.iter().map(|name| format!("{name}={NAME}")).collect();
        let what = match &other {
            Ok(_) => "its results differ".to_string(),
            Err(fault) => fault.clone(),
        };
        verdict = if life(&[])? == plain {
            Verdict::Failed(format!(
                "depends on the locale: {what} with {}, where decimals have commas",
                settings.join(" ")
            ))
        } else {
            Verdict::Skipped("its results differ between two processes in the same environment".into())
        };
    }
    Ok((verdict, seconds))
}
