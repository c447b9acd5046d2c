//! Checks that were not done in time: a plugin that hangs is told from one that is slow. And the quick checks, all in
//! one child.

use std::{path::Path, time::Duration};

use altgrad_base::diagnostic::Diagnostic;
use altgrad_plugin_api::PluginKind;

use super::{
    child::{self, HUNG},
    protocol::{Asked, QUICK, Verdict},
    speed::SPEED,
};

/// The prefix of the fault of a plugin that is too slow for a check.
const SLOW: &str = "slow: ";
/// Time for measuring a plugin whose check was not done in time.
const MEASURING: Duration = Duration::from_secs(10);

/// Runs the quick checks on a plugin, with these options if there are any, all in one child; returns the failed check,
/// if there is one.
///
/// # Errors
/// No child can be started.
pub(crate) fn quick(
    path: &Path,
    sha256: &str,
    (kind, name): (PluginKind, &str),
    set: &[String],
    timeout: Duration,
) -> Result<Option<String>, Diagnostic> {
    let asked = Asked { sha256, kind, plugin: name, check: QUICK, set, seed: 0, locale: &[], variables: &[] };
    let ended = child::spawn(path, asked, timeout)?;
    let running = ended.running.as_ref().map(|check| format!("{check}: ")).unwrap_or_default();
    match ended.verdict().0 {
        Verdict::Failed(why) => {
            let why = if_slow(path, &asked, &why)?.unwrap_or(why);
            Ok(Some(running + &why))
        }
        Verdict::Ok | Verdict::Skipped(_) | Verdict::Warned(_) => Ok(None),
    }
}

/// True if a check failed because it was not done in time.
pub(super) fn is_late(why: &str) -> bool {
    [HUNG, SLOW].iter().any(|prefix| why.starts_with(prefix))
}

/// The fault of a check that was not done in time because the plugin is slow; `None` if it hangs, or for other faults.
pub(super) fn if_slow(path: &Path, asked: &Asked<'_>, why: &str) -> Result<Option<String>, Diagnostic> {
    let Some(late) = why.strip_prefix(HUNG) else { return Ok(None) };
    let (verdict, _) = child::spawn(path, Asked { check: SPEED.0, ..*asked }, MEASURING)?.verdict();
    Ok(match verdict {
        Verdict::Warned(speed) => Some(format!("{SLOW}{late}; {speed}")),
        _ => None,
    })
}
