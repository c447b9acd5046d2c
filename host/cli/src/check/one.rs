//! One check, all quick checks, or a description of a library, in a separate process: the child's side.
//!
//! The verdict is passed in a file, because standard output is reserved: a plugin that writes to it would corrupt the
//! host's output, so any output is a fault.

use std::{fs, io, path::PathBuf, process::ExitCode};

use crate::ffi;
use altgrad_base::diagnostic::Diagnostic;
use altgrad_conformance::{
    Check, CheckResult, Subject, Verdict as Outcome,
    lifecycle::{self, Lifecycle},
    optimizers::{self, OptimizerSubject},
    sinks::{self, SinkSubject},
    subject_names,
};
use altgrad_loader::{LibraryInfo, LoadedLibrary, instance::config_value, notes::Notes};
use altgrad_plugin_api::{Config, ConfigValue, ErrorKind, PluginError, PluginKind, format_id};
use clap::Args;

use super::{
    leaks_and_locale,
    protocol::{self, Contents, QUICK, Verdict},
    speed,
    surroundings::Surroundings,
};

/// `altgrad-host plugins check-one`: not for people.
#[derive(Debug, Args)]
pub(crate) struct OneArgs {
    /// The library.
    path: PathBuf,
    /// The file to write the answer to.
    answer: PathBuf,
    /// Kind, plugin and check; without them the library is only loaded.
    #[arg(num_args = 3)]
    check: Vec<String>,
    /// Options of an optimizer or sink.
    #[arg(long)]
    set: Vec<String>,
    /// The first seed of random checks.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Sets the process's locale to what the environment says, as any library in it may.
    #[arg(long)]
    adopt_locale: bool,
    /// The sha256 that the library must have.
    #[arg(long)]
    sha256: Option<String>,
    /// Answers with what the library says about its plugins.
    #[arg(long)]
    describe: bool,
}

/// The child's side.
pub(crate) fn run(args: &OneArgs) -> Result<ExitCode, Diagnostic> {
    if args.adopt_locale {
        ffi::adopt_locale();
    }
    let unseen = |error| Diagnostic::run(format!("cannot inspect the process ({error})"));
    let surroundings = Surroundings::now().map_err(unseen)?;
    let library = LoadedLibrary::load(&args.path, args.sha256.as_deref())?;
    let answer = match args.check.as_slice() {
        _ if args.describe => {
            let LibraryInfo { build, descriptors, .. } = library.info;
            Notes { build, descriptors }.to_json()
        }
        [kind, plugin, check] => {
            let found = put_through(library, [kind, plugin, check], args);
            // A changed environment comes first: it may be the reason of a wrong result.
            match (surroundings.changed(), found) {
                (Some(changed), Ok(Answer::Lifecycle(_))) => {
                    serde_json::to_string(&leaks_and_locale::fingerprint(Err(changed)))
                }
                (Some(changed), _) => serde_json::to_string(&Verdict::Failed(changed)),
                (None, Ok(Answer::Outcome(outcome))) => serde_json::to_string(&verdict(outcome)),
                (None, Ok(Answer::Lifecycle(life))) => {
                    serde_json::to_string(&leaks_and_locale::fingerprint(life))
                }
                (None, Err(fault)) => serde_json::to_string(&Verdict::Failed(fault)),
            }
        }
        _ => match surroundings.changed() {
            Some(changed) => {
                return Err(Diagnostic::plugin(format!("the library {changed} when it was loaded")));
            }
            None => serde_json::to_string(&contents(&library)),
        },
    };
    let written = answer.map_err(io::Error::from).and_then(|answer| fs::write(&args.answer, answer));
    written.map_err(|error| Diagnostic::run(format!("cannot write the answer ({error})")))?;
    Ok(ExitCode::SUCCESS)
}

fn contents(library: &LoadedLibrary) -> Contents {
    let info = &library.info;
    let of = |kind: PluginKind| info.descriptors.iter().filter(move |descriptor| descriptor.kind == kind);
    let ids = |kind: PluginKind| of(kind).map(|descriptor| descriptor.id.to_string()).collect();
    Contents {
        library: info.path.display().to_string(),
        sha256: info.sha256.clone(),
        formats: of(PluginKind::FORMAT).flat_map(subject_names).collect(),
        optimizers: ids(PluginKind::OPTIMIZER),
        sinks: ids(PluginKind::SINK),
    }
}

/// The request to a subject.
enum Answer {
    Outcome(CheckResult),
    Lifecycle(Lifecycle),
}

fn verdict(outcome: CheckResult) -> Verdict {
    match outcome {
        Ok(Outcome::Passed) => Verdict::Ok,
        Ok(Outcome::Skipped(why)) => Verdict::Skipped(why),
        Ok(Outcome::Warned(why)) => Verdict::Warned(why),
        Err(fault) => Verdict::Failed(fault),
    }
}

fn put_through(
    library: LoadedLibrary,
    [kind, plugin, check]: [&str; 3],
    args: &OneArgs,
) -> Result<Answer, String> {
    let id = format_id(plugin).to_string();
    let found =
        library.info.descriptors.iter().find(|found| found.kind.to_string() == kind && found.id == id);
    let descriptor = found.copied().ok_or_else(|| format!("the library has no {kind} `{id}`"))?;
    let options = args.set.iter().map(|set| option(set)).collect::<Result<Vec<_>, String>>()?;
    match descriptor.kind {
        PluginKind::FORMAT => {
            let make = move |config: &Config| library.format_object(&id, config);
            let subject = Subject::new(descriptor, plugin, make)?.with_seed(args.seed);
            if let Some(why) = subject.refused_limit().filter(|_| !["descriptor", "options"].contains(&check))
            {
                return Ok(match check {
                    leaks_and_locale::LIFE => Answer::Lifecycle(Ok(why.into_bytes())),
                    _ => Answer::Outcome(Ok(Outcome::Skipped(why))),
                });
            }
            let suite = Suite {
                checks: altgrad_conformance::checks(),
                quick: altgrad_conformance::QUICK,
                life: lifecycle::of_format,
                speed: speed::of_format,
                try_out: Subject::try_out,
            };
            suite.answer(check, &subject, args)
        }
        PluginKind::OPTIMIZER => {
            let make = move |config: &Config| library.optimizer_object(&id, config);
            let subject =
                OptimizerSubject::new(descriptor, make)?.with_seed(args.seed).with_options(options)?;
            let suite = Suite {
                checks: optimizers::checks(),
                quick: if args.set.is_empty() { optimizers::QUICK } else { optimizers::WITH_OPTIONS },
                life: lifecycle::of_optimizer,
                speed: speed::of_optimizer,
                try_out: OptimizerSubject::try_out,
            };
            suite.answer(check, &subject, args)
        }
        PluginKind::SINK => {
            let make = move |config: &Config| library.sink_object(&id, config);
            let subject = SinkSubject::new(descriptor, options, args.seed, make)?;
            let suite = Suite {
                checks: sinks::checks(),
                quick: if args.set.is_empty() { sinks::QUICK } else { &[] },
                life: lifecycle::of_sink,
                speed: speed::of_sink,
                try_out: SinkSubject::try_out,
            };
            suite.answer(check, &subject, args)
        }
        other => Err(format!("there is no suite for plugins of {other}")),
    }
}

/// The checks of a kind.
struct Suite<S: 'static> {
    checks: &'static [Check<S>],
    quick: &'static [&'static str],
    life: fn(&S) -> Lifecycle,
    speed: fn(&S) -> CheckResult,
    try_out: fn(&S) -> Result<(), PluginError>,
}

impl<S: 'static> Suite<S> {
    fn answer(&self, name: &str, subject: &S, args: &OneArgs) -> Result<Answer, String> {
        Ok(match self.checks.iter().find(|check| check.name == name) {
            Some(check) => Answer::Outcome((check.run)(subject)),
            None if name == QUICK => Answer::Outcome(self.run_quick(subject, args)),
            None if name == leaks_and_locale::LIFE => Answer::Lifecycle((self.life)(subject)),
            None if name == leaks_and_locale::LEAKS.0 => {
                Answer::Outcome(leaks_and_locale::leaks(|| (self.life)(subject)))
            }
            None if name == speed::SPEED.0 => Answer::Outcome((self.speed)(subject)),
            None => return Err(format!("there is no check `{name}`")),
        })
    }

    /// The quick checks; a file names the running one. Options that the plugin refuses are the user's fault.
    fn run_quick(&self, subject: &S, args: &OneArgs) -> CheckResult {
        let running = protocol::running(&args.answer);
        let begins = |check| drop(fs::write(&running, check));
        if !args.set.is_empty() {
            begins("new");
            match (self.try_out)(subject) {
                Err(refused) if refused.kind == ErrorKind::CONFIG => {
                    return Ok(Outcome::Skipped(refused.message.into()));
                }
                _ => {}
            }
        }
        let result = altgrad_conformance::run_named(self.checks, self.quick, subject, begins);
        drop(fs::remove_file(&running));
        result
    }
}

/// An option from `KEY=VALUE`, the value TOML or a bare word.
fn option(text: &str) -> Result<(String, ConfigValue), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("`--set {text}` is not KEY=VALUE"))?;
    let parsed: Option<toml::Table> = toml::from_str(&format!("value = {value}")).ok();
    let parsed = parsed.and_then(|mut table| table.remove("value"));
    let value = parsed.unwrap_or_else(|| toml::Value::String(value.into()));
    let value = config_value(&value).ok_or_else(|| format!("`--set {text}`: no option is of that type"))?;
    Ok((key.to_string(), value))
}
