//! The check `environment`: life cycles in other environments compared with one in the usual environment, from the
//! parent's side.

use std::{path::Path, time::Duration};

use altgrad_base::diagnostic::Diagnostic;

use super::{
    child,
    folders::Folders,
    leaks_and_locale::LIFE,
    protocol::{Asked, Variable, Verdict},
};

/// The check, as reports name it, with its requirement.
pub(super) const ENVIRONMENT: (&str, &str) =
    ("environment", "results do not depend on the home folder or on other environment variables");

/// Environments that give nothing else. Values are such as people have.
const SETTINGS: [&[Variable]; 3] = [
    &[("HOME", Some("/nowhere"))],
    &[("HOME", None), ("TMPDIR", None)],
    &[
        ("USER", Some("somebody")),
        ("LOGNAME", Some("somebody")),
        ("HOSTNAME", Some("somewhere")),
        ("SHELL", Some("/bin/false")),
        ("TERM", Some("xterm-256color")),
        ("COLUMNS", Some("37")),
        ("TZ", Some("Asia/Kathmandu")),
        ("LANGUAGE", Some("de")),
        ("DEBUG", Some("1")),
        ("CI", Some("true")),
        ("RUST_LOG", Some("trace")),
        ("OMP_NUM_THREADS", Some("3")),
        ("RAYON_NUM_THREADS", Some("3")),
        ("XDG_CONFIG_HOME", Some("/nowhere/config")),
        ("XDG_CACHE_HOME", Some("/nowhere/cache")),
    ],
];

/// Checks that the plugin's results are equal in other environments; returns the seconds that took.
pub(super) fn environment(
    path: &Path,
    asked: &Asked<'_>,
    timeout: Duration,
) -> Result<(Verdict, f64), Diagnostic> {
    let mut seconds = 0.0;
    let folders = Folders::new()
        .map_err(|error| Diagnostic::run(format!("no folder for a check can be made ({error})")))?;
    // All life cycles use the same folders, because a life cycle may report their paths.
    let mut life = |variables: &'static [Variable]| -> Result<Result<String, String>, Diagnostic> {
        let asked = Asked { check: LIFE, variables, ..*asked };
        let (life, took) = child::spawn_in(path, asked, timeout, &folders)?.life();
        seconds += took;
        Ok(life)
    };
    let plain = life(&[])?;
    let mut verdict = plain.clone().map_or_else(Verdict::Failed, |_| Verdict::Ok);
    for variables in SETTINGS {
        if verdict != Verdict::Ok {
            break;
        }
        let other = life(variables)?;
        if other == plain {
            continue;
        }
        let what = other.err().unwrap_or_else(|| "its results differ".into());
        verdict = if life(&[])? == plain {
            let settings: Vec<String> = variables.iter().map(said).collect();
            Verdict::Failed(format!("depends on the environment: {what} with {}", settings.join(" ")))
        } else {
            Verdict::Skipped("its results differ between two processes in the same environment".into())
        };
    }
    Ok((verdict, seconds))
}

fn said(&(name, value): &Variable) -> String {
    value.map_or_else(|| format!("{name} unset"), |value| format!("{name}={value}"))
}
