//! One check, all quick checks, or a description of a library, in a separate process: the child's side and its
//! parent's.
//!
//! The verdict is passed in a file, because standard output is reserved: a plugin that writes to it would corrupt the
//! host's output, so any output is a fault.

use std::{
    env, fs,
    io::{self, Read, Seek},
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::ffi;
use altgrad_base::diagnostic::Diagnostic;
use altgrad_conformance::{
    Check, CheckResult, Subject,
    lifecycle::{self, Lifecycle},
    optimizers::{self, OptimizerSubject},
    sinks::{self, SinkSubject},
    subject_names,
};
use altgrad_loader::{LibraryInfo, LoadedLibrary, instance::config_value, notes::Notes};
use altgrad_plugin_api::{Config, ConfigValue, PluginKind};
use clap::Args;

use super::{
    folders::Folders,
    leaks_and_locale,
    protocol::{Asked, Contents, Verdict},
    surroundings::Surroundings,
};

/// The time between two polls of a child.
const POLL: Duration = Duration::from_millis(5);
/// Stands for all quick checks.
const QUICK: &str = "quick";
/// Bytes of output after which a child is stopped.
const MOST_OUTPUT: u64 = 1 << 20;
/// The prefix of the fault of a child that took too long.
pub(super) const HUNG: &str = "hung";
/// Characters of output that are shown.
const SHOWN_OUTPUT: usize = 200;

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
    /// Options of a sink.
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
        Ok(altgrad_conformance::Verdict::Passed) => Verdict::Ok,
        Ok(altgrad_conformance::Verdict::Skipped(why)) => Verdict::Skipped(why),
        Err(fault) => Verdict::Failed(fault),
    }
}

fn put_through(
    library: LoadedLibrary,
    [kind, plugin, check]: [&str; 3],
    args: &OneArgs,
) -> Result<Answer, String> {
    let id = plugin.split(':').next().unwrap_or(plugin).to_string();
    let found =
        library.info.descriptors.iter().find(|found| found.kind.to_string() == kind && found.id == id);
    let descriptor = found.copied().ok_or_else(|| format!("the library has no {kind} `{id}`"))?;
    match descriptor.kind {
        PluginKind::FORMAT => {
            let make = move |config: &Config| library.format_object(&id, config);
            let subject = Subject::new(descriptor, plugin, make)?.with_seed(args.seed);
            answer(
                (altgrad_conformance::checks(), altgrad_conformance::QUICK),
                check,
                &subject,
                lifecycle::of_format,
            )
        }
        PluginKind::OPTIMIZER => {
            let make = move |config: &Config| library.optimizer_object(&id, config);
            let subject = OptimizerSubject::new(descriptor, make)?.with_seed(args.seed);
            answer((optimizers::checks(), optimizers::QUICK), check, &subject, lifecycle::of_optimizer)
        }
        PluginKind::SINK => {
            let options = args.set.iter().map(|set| option(set)).collect::<Result<Vec<_>, String>>()?;
            let make = move |config: &Config| library.sink_object(&id, config);
            let subject = SinkSubject::new(descriptor, options, args.seed, make)?;
            answer((sinks::checks(), sinks::QUICK), check, &subject, lifecycle::of_sink)
        }
        other => Err(format!("there is no suite for plugins of {other}")),
    }
}

fn answer<S>(
    (checks, quick): (&[Check<S>], &[&str]),
    name: &str,
    subject: &S,
    life: fn(&S) -> Lifecycle,
) -> Result<Answer, String> {
    Ok(match checks.iter().find(|check| check.name == name) {
        Some(check) => Answer::Outcome((check.run)(subject)),
        None if name == QUICK => Answer::Outcome(altgrad_conformance::run_named(checks, quick, subject)),
        None if name == leaks_and_locale::LIFE => Answer::Lifecycle(life(subject)),
        None if name == leaks_and_locale::LEAKS.0 => {
            Answer::Outcome(leaks_and_locale::leaks(|| life(subject)))
        }
        None => return Err(format!("there is no check `{name}`")),
    })
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

/// The end of a child process.
#[derive(Debug)]
pub(super) struct Ended {
    /// The contents of its file, if it wrote one.
    pub answer: Option<String>,
    /// Wall time.
    pub seconds: f64,
    stopped: Option<String>,
    /// Files that it left in its folders.
    left: Option<String>,
    status: ExitStatus,
    stdout: String,
    stderr: String,
}

/// A library's description of its plugins, as [`Notes::to_json`] writes it.
///
/// # Errors
/// The library is refused, or no child can be started.
pub(crate) fn describe(path: &Path, sha256: &str, timeout: Duration) -> Result<String, Diagnostic> {
    let ended = spawn_with(path, &["--describe", "--sha256", sha256], None, timeout)?;
    match (ended.fault(), &ended.answer) {
        (None, Some(answer)) => Ok(answer.clone()),
        (None, None) => Err(ended.refused()),
        (Some(fault), _) => Err(Diagnostic::plugin(format!("plugin library refused: {fault}"))
            .hint("remove the file, or build it again; `altgrad-host plugins check` says more")),
    }
}

/// Runs the quick checks on a plugin, all in one child; returns the failed check, if there is one.
///
/// # Errors
/// No child can be started.
pub(crate) fn quick(
    path: &Path,
    sha256: &str,
    kind: PluginKind,
    name: &str,
    timeout: Duration,
) -> Result<Option<String>, Diagnostic> {
    let asked =
        Asked { sha256, kind, plugin: name, check: QUICK, set: &[], seed: 0, locale: &[], variables: &[] };
    let (verdict, _) = spawn(path, asked, timeout)?.verdict();
    Ok(match verdict {
        Verdict::Failed(why) => Some(why),
        Verdict::Ok | Verdict::Skipped(_) => None,
    })
}

/// Loads the library, whose sha256 must be `sha256` if one is given, in a child.
pub(super) fn load(path: &Path, sha256: Option<&str>, timeout: Duration) -> Result<Ended, Diagnostic> {
    let pin: Vec<&str> = sha256.into_iter().flat_map(|sha256| ["--sha256", sha256]).collect();
    spawn_with(path, &pin, None, timeout)
}

/// The parent's side: runs a child to its end, or to its time limit.
pub(super) fn spawn(path: &Path, asked: Asked<'_>, timeout: Duration) -> Result<Ended, Diagnostic> {
    spawn_with(path, &[], Some(asked), timeout)
}

fn spawn_with(
    path: &Path,
    options: &[&str],
    asked: Option<Asked<'_>>,
    timeout: Duration,
) -> Result<Ended, Diagnostic> {
    let folders = Folders::new().map_err(|error| cannot_run(&error))?;
    start(path, options, asked, timeout, &folders)
}

fn cannot_run(error: &io::Error) -> Diagnostic {
    Diagnostic::run(format!("cannot run a check in a process of its own ({error})"))
}

/// The same in these folders.
pub(super) fn spawn_in(
    path: &Path,
    asked: Asked<'_>,
    timeout: Duration,
    folders: &Folders,
) -> Result<Ended, Diagnostic> {
    start(path, &[], Some(asked), timeout, folders)
}

fn start(
    path: &Path,
    options: &[&str],
    asked: Option<Asked<'_>>,
    timeout: Duration,
    folders: &Folders,
) -> Result<Ended, Diagnostic> {
    let run = || -> io::Result<Ended> {
        let answer = folders.beside().join("answer");
        fs::write(&answer, "")?;
        let (mut stdout, mut stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
        let mut command = Command::new(env::current_exe()?);
        command.args(["plugins", "check-one"]).args(options);
        command.arg(std::path::absolute(path)?).arg(&answer);
        // A check must not find the user's keys, nor write into the user's working directory.
        let kept = env::vars_os().filter(|(name, _)| is_kept(&name.to_string_lossy()));
        command.env_clear().envs(kept).envs(folders.variables()).current_dir(folders.work());
        if let Some(Asked { sha256, kind, plugin, check, set, seed, locale, variables }) = asked {
            command.args([kind.to_string().as_str(), plugin, check, "--seed", seed.to_string().as_str()]);
            command.args(["--sha256", sha256]);
            command.args(set.iter().map(|set| format!("--set={set}")));
            if check == leaks_and_locale::LEAKS.0 {
                command.env(leaks_and_locale::EXACT_HEAP.0, leaks_and_locale::EXACT_HEAP.1);
            }
            if !locale.is_empty() {
                command.arg("--adopt-locale").envs(leaks_and_locale::environment(folders.beside(), locale)?);
            }
            for (name, value) in variables {
                match value {
                    Some(value) => command.env(name, value),
                    None => command.env_remove(name),
                };
            }
        }
        command.stdin(Stdio::null()).stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
        let begun = Instant::now();
        let mut child = command.spawn()?;
        let stopped = watch(&mut child, &[&stdout, &stderr], begun, timeout)?;
        let status = child.wait()?;
        let seconds = begun.elapsed().as_secs_f64();
        let answer = Some(fs::read_to_string(&answer)?).filter(|answer| !answer.is_empty());
        let (stdout, stderr) = (output(&mut stdout)?, output(&mut stderr)?);
        Ok(Ended { answer, seconds, stopped, left: folders.left()?, status, stdout, stderr })
    };
    run().map_err(|error| cannot_run(&error))
}

/// True if a child keeps a variable of the environment: those needed to load libraries and find files, and our own.
fn is_kept(name: &str) -> bool {
    const KEPT: [&str; 3] = ["PATH", "LD_LIBRARY_PATH", "RUST_BACKTRACE"];
    KEPT.contains(&name) || name.starts_with("ALTGRAD_")
}

/// Waits for the child; stops it, and reports the reason, if it takes too long or writes without end.
fn watch(
    child: &mut Child,
    output: &[&fs::File],
    begun: Instant,
    timeout: Duration,
) -> io::Result<Option<String>> {
    loop {
        if child.try_wait()?.is_some() {
            return Ok(None);
        }
        let mut flooded = false;
        for file in output {
            flooded |= file.metadata()?.len() > MOST_OUTPUT;
        }
        if flooded || begun.elapsed() >= timeout {
            child.kill()?;
            return Ok(Some(if flooded {
                format!("wrote more than {} MiB of output", MOST_OUTPUT >> 20)
            } else {
                format!("{HUNG}: not done after {} s", timeout.as_secs())
            }));
        }
        thread::sleep(POLL);
    }
}

/// The output, without the rest of a flood after it was detected.
fn output(file: &mut fs::File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(MOST_OUTPUT).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

impl Ended {
    /// Forbidden acts of the process, independent of its answer.
    pub(super) fn fault(&self) -> Option<String> {
        if let Some(stopped) = &self.stopped {
            return Some(stopped.clone());
        }
        if !self.stdout.is_empty() {
            let shown: String = self.stdout.chars().take(SHOWN_OUTPUT).collect();
            return Some(format!("wrote to standard output: {shown:?}"));
        }
        let how = match (self.status.signal(), self.status.code()) {
            (Some(signal), _) => format!("crashed, {}", signal_name(signal)),
            (None, Some(0)) if self.answer.is_some() => return self.left.clone(),
            // The library was refused: an ordinary end without an answer.
            (None, Some(_)) if self.answer.is_none() && self.diagnostic().is_some() => return None,
            (None, code) => format!("ended the process with exit code {}", code.unwrap_or_default()),
        };
        let when = if self.answer.is_some() { "after the check" } else { "before the check was done" };
        let last = self.stderr.lines().rev().find(|line| !line.trim().is_empty());
        let last: String = last.unwrap_or_default().chars().take(SHOWN_OUTPUT).collect();
        Some(if last.is_empty() { format!("{how}, {when}") } else { format!("{how}, {when}: {last}") })
    }

    /// The host's own diagnostic, if it ended with one.
    fn diagnostic(&self) -> Option<&str> {
        const HEAD: &str = "error: ";
        let begin = if self.stderr.starts_with(HEAD) { 0 } else { self.stderr.find("\nerror: ")? + 1 };
        Some(&self.stderr[begin + HEAD.len()..])
    }

    /// The refusal that it ended with.
    fn refused(&self) -> Diagnostic {
        let mut lines = self.diagnostic().unwrap_or("it gave no answer").lines();
        let refusal = Diagnostic::plugin(lines.next().unwrap_or_default());
        match lines.find_map(|line| line.strip_prefix("hint: ")) {
            Some(hint) => refusal.hint(hint),
            None => refusal,
        }
    }

    /// The reason why the library was refused, in one line.
    pub(super) fn refusal(&self) -> Verdict {
        let lines = self.diagnostic().unwrap_or("it gave no answer").lines().map(str::trim_start);
        Verdict::Failed(lines.filter(|line| !line.starts_with("-->")).collect::<Vec<&str>>().join("; "))
    }

    /// The fingerprint of a life cycle or its fault, and its duration in seconds.
    pub(super) fn life(self) -> (Result<String, String>, f64) {
        let answer = self.answer.as_ref().and_then(|answer| serde_json::from_str(answer).ok());
        let life = match (self.fault(), answer) {
            (Some(fault), _) => Err(fault),
            (None, answer) => answer.unwrap_or_else(|| Err("it gave no answer".into())),
        };
        (life, self.seconds)
    }

    /// The result of a check, and its time in seconds.
    pub(super) fn verdict(self) -> (Verdict, f64) {
        let answered = self.answer.as_ref().and_then(|answer| serde_json::from_str(answer).ok());
        let verdict = match (self.fault(), answered) {
            (Some(fault), _) => Verdict::Failed(fault),
            (None, Some(verdict)) => verdict,
            (None, None) => self.refusal(),
        };
        (verdict, self.seconds)
    }
}

/// The signals with which a plugin can end its process, by name.
fn signal_name(signal: i32) -> String {
    match signal {
        4 => "illegal instruction (SIGILL)".into(),
        6 => "aborted (SIGABRT)".into(),
        7 => "bus error (SIGBUS)".into(),
        8 => "arithmetic fault (SIGFPE)".into(),
        9 => "killed (SIGKILL), perhaps for its memory".into(),
        11 => "segmentation fault (SIGSEGV)".into(),
        other => format!("signal {other}"),
    }
}
