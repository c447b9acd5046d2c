//! The check `speed`: nanoseconds per element, or per row, compared with a shipped plugin's on this machine.

use altgrad_conformance::{
    CheckResult, Subject, Verdict as Outcome, optimizers::OptimizerSubject, sinks::SinkSubject, speed,
};
use altgrad_loader::{LoadedLibrary, own_folder};
use altgrad_plugin_api::{Config, Descriptor, PluginKind, Scope};

/// The check, as reports name it, with its requirement.
pub(super) const SPEED: (&str, &str) =
    ("speed", "an element, or a row, takes less than fifty times as long as that of a shipped plugin");

/// The ratio to a shipped plugin's time above which a plugin is slow.
const RATIO: f64 = 50.0;

pub(super) fn of_format(subject: &Subject) -> CheckResult {
    let own = speed::of_format(subject)?;
    compared(own, "element", (PluginKind::FORMAT, "E4M3"), |library, descriptor| {
        let make = move |config: &Config| library.format_object("E4M3", config);
        speed::of_format(&Subject::new(descriptor, "E4M3", make)?)
    })
}

pub(super) fn of_optimizer(subject: &OptimizerSubject) -> CheckResult {
    let (own, scope) = speed::of_optimizer(subject)?;
    if [Scope::SERVICES, Scope::GROUP].contains(&scope) {
        return Ok(Outcome::Skipped("the host computes its updates".into()));
    }
    compared(own, "element", (PluginKind::OPTIMIZER, "adamw"), |library, descriptor| {
        let make = move |config: &Config| library.optimizer_object("adamw", config);
        speed::of_optimizer(&OptimizerSubject::new(descriptor, make)?).map(|(speed, _)| speed)
    })
}

pub(super) fn of_sink(subject: &SinkSubject) -> CheckResult {
    let own = speed::of_sink(subject)?;
    compared(own, "row", (PluginKind::SINK, "csv"), |library, descriptor| {
        let make = move |config: &Config| library.sink_object("csv", config);
        speed::of_sink(&SinkSubject::new(descriptor, [], 0, make)?)
    })
}

/// Compares nanoseconds with those of a shipped plugin, if the host's folder has it.
fn compared(
    own: f64,
    of: &str,
    (kind, name): (PluginKind, &str),
    measure: impl FnOnce(LoadedLibrary, Descriptor) -> Result<f64, String>,
) -> CheckResult {
    let path = own_folder().map(|folder| folder.join(format!("plugins/{}.so", name.to_lowercase())));
    let library = path.ok().and_then(|path| LoadedLibrary::load(&path, None).ok());
    let found = library.and_then(|library| {
        let descriptor = library.info.find(kind, name).copied();
        descriptor.map(|descriptor| (library, descriptor))
    });
    let Some((library, descriptor)) = found else {
        return Ok(Outcome::Skipped(format!("the host's folder has no {kind} `{name}` to compare with")));
    };
    let shipped = measure(library, descriptor)?;
    if own <= RATIO * shipped {
        return Ok(Outcome::Passed);
    }
    Ok(Outcome::Warned(format!("{own:.0} ns per {of}; the shipped `{name}` takes {shipped:.1}")))
}
