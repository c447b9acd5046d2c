//! `plugins check`: checks a library against the contract of plugins, so that its users do not find the faults.
//!
//! No code of the library runs in this process. Loading it, with every refusal, and each check of each of its plugins
//! (of formats, with each choice of options) are separate child processes ([`child`]), so that a crash, a hang, an exit
//! or output is caught and attributed. The checks are those of `altgrad-conformance`, and four more
//! ([`leaks_and_locale`], [`mod@environment`], [`speed`]). [`surroundings`] and [`folders`] define the state that a
//! check must not change.

pub(super) mod child;
mod environment;
mod folders;
pub(super) mod late;
mod leaks_and_locale;
mod locale;
mod one;
mod own_time;
mod protocol;
mod report;
mod speed;
mod surroundings;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use altgrad_base::{
    diagnostic::{Diagnostic, Fault},
    interrupt,
    print::word,
};
use altgrad_conformance::{Check, checks, optimizers, sinks};
use altgrad_plugin_api::PluginKind;
use clap::Args;

use environment::ENVIRONMENT;
pub(super) use one::{OneArgs, run as run_one};
use protocol::{Asked, Contents, Verdict};
use report::{Line, Report};

/// The first check of every library.
const LOAD: &str = "load";
/// Seconds a check may take, by default.
const TIMEOUT_S: u64 = 60;
/// Checks that are not done in time before the others are skipped: a plugin that always hangs would use the time of
/// all.
const MOST_LATE: usize = 3;

/// `altgrad-host plugins check`.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// The library.
    path: PathBuf,
    /// Writes one JSON object instead of lines.
    #[arg(long)]
    json: bool,
    /// Seconds after which a check counts as hanging, without those in which it waits for a processor.
    #[arg(long, value_name = "SECONDS", default_value_t = TIMEOUT_S, value_parser = clap::value_parser!(u64).range(1..))]
    timeout_s: u64,
    /// Runs only checks whose names contain this text.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Option of the library's optimizers and sinks, a TOML value or a bare word: `--set mode=offline`; may be
    /// repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// First seed of the random checks. A failure names its seed, and the command that repeats the check.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

/// A kind, its plugins, and the name and meaning of each check that they must pass.
type Suite<'a> = (PluginKind, &'a [String], Vec<(&'static str, &'static str)>);

impl Contents {
    fn suites(&self) -> [Suite<'_>; 3] {
        fn said<S>(checks: &'static [Check<S>]) -> Vec<(&'static str, &'static str)> {
            let named = checks.iter().map(|check| (check.name, check.what));
            named
                .chain([leaks_and_locale::LEAKS, leaks_and_locale::LOCALE, ENVIRONMENT, speed::SPEED])
                .collect()
        }
        [
            (PluginKind::FORMAT, &self.formats, said(checks())),
            (PluginKind::OPTIMIZER, &self.optimizers, said(optimizers::checks())),
            (PluginKind::SINK, &self.sinks, said(sinks::checks())),
        ]
    }
}

impl CheckArgs {
    /// Messages about a library.
    pub(super) fn of(path: &Path) -> Self {
        Self { path: path.into(), json: false, timeout_s: TIMEOUT_S, only: None, set: Vec::new(), seed: 0 }
    }

    fn runs(&self, check: &str) -> bool {
        self.only.as_ref().is_none_or(|only| check.contains(only))
    }

    /// Refuses a filter that leaves no check of these plugins: a misspelt one would pass.
    fn is_known(&self, contents: &Contents) -> Result<(), Diagnostic> {
        let Some(only) = self.only.as_ref().filter(|only| !LOAD.contains(only.as_str())) else {
            return Ok(());
        };
        let suites = contents.suites();
        let of_plugins = suites.iter().filter(|(_, plugins, _)| !plugins.is_empty());
        let names: BTreeSet<&str> =
            of_plugins.flat_map(|(.., checks)| checks.iter().map(|(name, _)| *name)).collect();
        if names.iter().any(|name| self.runs(name)) {
            return Ok(());
        }
        let names: Vec<&str> = names.into_iter().collect();
        Err(Diagnostic::config(format!("no check's name contains `{only}`"))
            .at(self.path.display())
            .hint(format!("its checks: {}", names.join(", "))))
    }

    /// Refuses options that no plugin of the library gets.
    fn has_use_for_options(&self, contents: &Contents) -> Result<(), Diagnostic> {
        if self.set.is_empty() || !(contents.sinks.is_empty() && contents.optimizers.is_empty()) {
            return Ok(());
        }
        Err(Diagnostic::config("`--set` sets options of optimizers and sinks, and the library has none")
            .at(self.path.display())
            .hint("leave it out: formats are checked with each choice of their options"))
    }

    /// One check of one plugin.
    fn line(
        &self,
        sha256: &str,
        (kind, plugin): (PluginKind, &str),
        (check, what): (&'static str, &'static str),
        timeout: Duration,
    ) -> Result<Line, Diagnostic> {
        let (set, seed) = (self.set.as_slice(), self.seed);
        let asked = Asked { sha256, kind, plugin, check, set, seed, locale: &[], variables: &[] };
        let (verdict, seconds) = if check == leaks_and_locale::LOCALE.0 {
            locale::locale(&self.path, &asked, timeout)?
        } else if check == ENVIRONMENT.0 {
            environment::environment(&self.path, &asked, timeout)?
        } else {
            child::spawn(&self.path, asked, timeout)?.verdict()
        };
        let verdict = match verdict {
            Verdict::Failed(why) => Verdict::Failed(late::if_slow(&self.path, &asked, &why)?.unwrap_or(why)),
            verdict => verdict,
        };
        let replay = self.replay(check, &verdict);
        let plugin = match kind {
            PluginKind::FORMAT => plugin.to_string(),
            _ => format!("{kind} {plugin}"),
        };
        Ok(Line { plugin: Some(plugin), check, what, verdict, seconds, replay })
    }

    /// The command that runs this check again, from the seed at which it failed.
    fn replay(&self, check: &str, verdict: &Verdict) -> Option<String> {
        let Verdict::Failed(why) = verdict else { return None };
        let named = why.strip_prefix("seed ").and_then(|rest| rest.split(':').next()?.parse().ok());
        let path = self.path.to_string_lossy();
        let mut command = format!("altgrad-host plugins check {} --only {check}", word(&path));
        for set in &self.set {
            command += &format!(" --set {}", word(set));
        }
        let seed: u64 = named.unwrap_or(self.seed);
        Some(if seed == 0 { command } else { format!("{command} --seed {seed}") })
    }
}

pub(super) fn run(args: &CheckArgs) -> Result<ExitCode, Diagnostic> {
    interrupt::end_at_once()?;
    Ok(if passes(args, None)? { ExitCode::SUCCESS } else { ExitCode::from(Fault::Plugin.exit_code()) })
}

/// Runs the checks on a library, whose sha256 must be `sha256` if one is given, and prints their results; returns
/// whether none failed.
pub(super) fn passes(args: &CheckArgs, sha256: Option<&str>) -> Result<bool, Diagnostic> {
    let timeout = Duration::from_secs(args.timeout_s);
    let mut report = Report::new(args.json);
    if let Some(contents) = load(&args.path, sha256, timeout, &mut report)? {
        args.is_known(&contents)?;
        args.has_use_for_options(&contents)?;
        report.opens(&contents);
        let mut overdue = 0;
        let every = contents.suites().into_iter().flat_map(|(kind, plugins, checks)| {
            let of_plugin = move |plugin| checks.clone().into_iter().map(move |check| (kind, plugin, check));
            plugins.iter().flat_map(of_plugin)
        });
        let mut every = every.filter(|(.., (check, _))| args.runs(check));
        for (kind, plugin, (check, what)) in every.by_ref() {
            let line = args.line(&contents.sha256, (kind, plugin), (check, what), timeout)?;
            overdue += usize::from(matches!(&line.verdict, Verdict::Failed(why) if late::is_late(why)));
            report.add(line);
            if overdue == MOST_LATE {
                break;
            }
        }
        report.stopped(every.count());
    }
    Ok(!report.close()?)
}

/// Loads the library in a child; nothing if that already fails.
fn load(
    path: &Path,
    sha256: Option<&str>,
    timeout: Duration,
    report: &mut Report,
) -> Result<Option<Contents>, Diagnostic> {
    let ended = child::load(path, sha256, timeout)?;
    let contents = ended.answer.as_ref().and_then(|answer| serde_json::from_str::<Contents>(answer).ok());
    let verdict = match ended.fault() {
        Some(fault) => Verdict::Failed(fault),
        None if contents.is_some() => Verdict::Ok,
        None => ended.refusal(),
    };
    let contents = contents.filter(|_| verdict == Verdict::Ok);
    let what = "the file is a sound library for this host, and its plugins describe themselves";
    report.add(Line { plugin: None, check: LOAD, what, verdict, seconds: ended.seconds, replay: None });
    Ok(contents)
}
