//! A check, all quick checks, or a description of a library, in a separate process: the parent's side.

use std::{
    env, fs,
    io::{self, Read, Seek},
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use altgrad_base::diagnostic::Diagnostic;

use super::{
    folders::Folders,
    leaks_and_locale,
    own_time::OwnTime,
    protocol::{self, Asked, Verdict},
};

/// The time between two polls of a child.
const POLL: Duration = Duration::from_millis(5);
/// Bytes of output after which a child is stopped.
const MOST_OUTPUT: u64 = 1 << 20;
/// The prefix of the fault of a child that took too long.
pub(super) const HUNG: &str = "hung: ";
/// Characters of output that are shown.
const SHOWN_OUTPUT: usize = 200;

/// The end of a child process.
#[derive(Debug)]
pub(super) struct Ended {
    /// The contents of its file, if it wrote one.
    pub answer: Option<String>,
    /// Wall time.
    pub seconds: f64,
    stopped: Option<String>,
    /// The quick check that was running at its end.
    pub(super) running: Option<String>,
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
        let running = protocol::running(&answer);
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
        let stopped = watch(&mut child, &[&stdout, &stderr], timeout)?;
        let status = child.wait()?;
        let seconds = begun.elapsed().as_secs_f64();
        let answer = Some(fs::read_to_string(&answer)?).filter(|answer| !answer.is_empty());
        let running = fs::read_to_string(&running).ok();
        let (stdout, stderr) = (output(&mut stdout)?, output(&mut stderr)?);
        Ok(Ended { answer, seconds, stopped, running, left: folders.left()?, status, stdout, stderr })
    };
    run().map_err(|error| cannot_run(&error))
}

/// True if a child keeps a variable of the environment: those needed to load libraries and find files, and our own.
fn is_kept(name: &str) -> bool {
    const KEPT: [&str; 3] = ["PATH", "LD_LIBRARY_PATH", "RUST_BACKTRACE"];
    KEPT.contains(&name) || name.starts_with("ALTGRAD_")
}

/// Waits for the child; stops it, and reports the reason, if it takes too much time of its own or writes without end.
fn watch(child: &mut Child, output: &[&fs::File], timeout: Duration) -> io::Result<Option<String>> {
    let mut time = OwnTime::of(child.id());
    loop {
        if child.try_wait()?.is_some() {
            return Ok(None);
        }
        let mut flooded = false;
        for file in output {
            flooded |= file.metadata()?.len() > MOST_OUTPUT;
        }
        if flooded || time.look() >= timeout {
            child.kill()?;
            return Ok(Some(if flooded {
                format!("wrote more than {} MiB of output", MOST_OUTPUT >> 20)
            } else {
                format!("{HUNG}not done after {} s", timeout.as_secs())
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
