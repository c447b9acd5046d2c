//! The workspace's tests. Cargo runs one test binary after the other, and each ends with a test that keeps one core
//! busy; here as many binaries run at a time as there are cores.

use std::{
    collections::VecDeque,
    env,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::Instant,
};

use serde_json::Value;

use crate::{DEV, cargo, code, stage, target_dir};

/// Test threads for each core: runs wait for the disk more than half of their time.
const THREADS_PER_CORE: usize = 3;

/// The tests of every change. With `--all` also ignored ones whose reason begins with `--all`, but not those on demand,
/// as many damaged inputs as a release needs, and the examples of the documentation. Arguments of cargo that choose
/// tests leave the rest to cargo.
pub fn run(args: &[String]) -> Result<u8, io::Error> {
    let all = args.iter().any(|arg| arg == "--all");
    let args: Vec<&String> = args.iter().filter(|arg| *arg != "--all").collect();
    let (of_cargo, of_tests) = args.split_at(args.iter().position(|arg| *arg == "--").unwrap_or(args.len()));
    let mut of_tests: Vec<&str> = of_tests.iter().skip(1).map(|arg| arg.as_str()).collect();
    let mut variables = vec![("ALTGRAD_STAGE", stage(&DEV, &[])?.display().to_string())];
    if all {
        of_tests.extend(["--include-ignored", "--skip", "on_demand"]);
        variables.push(("ALTGRAD_ALL", "1".into()));
        if env::var_os("ALTGRAD_FUZZ_CASES").is_none() {
            variables.push(("ALTGRAD_FUZZ_CASES", "1000".into()));
        }
    }
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let set_threads = |variables: &mut Vec<_>, threads: usize| {
        if env::var_os("RUST_TEST_THREADS").is_none() {
            variables.push(("RUST_TEST_THREADS", threads.to_string()));
        }
    };
    let mut tests = cargo();
    tests.args(["test", "--workspace"]).args(of_cargo);
    let default = ["--lib", "--bins", "--tests"];
    if of_cargo.iter().any(|arg| *arg != "--locked") {
        if !all && !of_cargo.iter().any(|arg| SELECTIONS.contains(&arg.as_str())) {
            tests.args(default);
        }
        set_threads(&mut variables, THREADS_PER_CORE * cores);
        return Ok(code(tests.arg("--").args(of_tests).envs(variables).status()?));
    }
    let binaries = match built(tests.args(default).envs(variables.clone()))? {
        Ok(binaries) => binaries,
        Err(status) => return Ok(code(status)),
    };
    set_threads(&mut variables, THREADS_PER_CORE);
    let failed = run_all(binaries, cores, |binary| binary.command(&of_tests, &variables))?;
    let mut examples = 0;
    if all {
        let mut tests = cargo();
        tests.args(["test", "--workspace", "--doc"]).args(of_cargo).arg("--").args(of_tests).envs(variables);
        examples = code(tests.status()?);
    }
    // Once more and last: of a long output the end is what one sees.
    for (name, said) in &failed {
        eprintln!("{}\nerror: tests of `{name}` failed", failures(said));
    }
    Ok(if failed.is_empty() { examples } else { 101 })
}

/// Cargo's options that choose among targets.
const SELECTIONS: [&str; 8] =
    ["--lib", "--bins", "--bin", "--tests", "--test", "--examples", "--example", "--doc"];

/// Builds the tests that a command of cargo would run; else how it ended.
pub fn built(tests: &mut Command) -> Result<Result<Vec<Binary>, ExitStatus>, io::Error> {
    tests.args(["--no-run", "--message-format=json-render-diagnostics"]);
    let built = tests.stderr(Stdio::inherit()).output()?;
    let of_messages = || Binary::of(&String::from_utf8_lossy(&built.stdout));
    Ok(if built.status.success() { Ok(of_messages()) } else { Err(built.status) })
}

/// A test binary.
#[derive(Debug)]
pub struct Binary {
    pub executable: PathBuf,
    folder: PathBuf,
    package: String,
}

impl Binary {
    /// Those that cargo's messages name: first the end-to-end tests, which take longest.
    fn of(messages: &str) -> Vec<Self> {
        let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut found: Vec<Self> = messages
            .filter(|message| message["profile"]["test"] == true)
            .filter_map(|message| {
                let executable = message["executable"].as_str()?.into();
                let folder: PathBuf = Path::new(message["manifest_path"].as_str()?).parent()?.into();
                // `path+file:///FOLDER#NAME@VERSION`; without NAME where the folder has it.
                let (_, id) = message["package_id"].as_str()?.rsplit_once('#')?;
                let package =
                    id.split_once('@').map_or(folder.file_name()?.to_str()?, |(name, _)| name).into();
                Some(Self { executable, folder, package })
            })
            .collect();
        found.sort_by_key(|binary| binary.package != "altgrad-end-to-end");
        found
    }

    fn name(&self) -> String {
        self.executable.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The name of its target, which cargo follows by a hash.
    pub fn target(&self) -> String {
        let name = self.name();
        name.rsplit_once('-').map_or(name.clone(), |(target, _)| target.into())
    }

    /// Starts the tests where cargo starts them, with the variables that tests read from it.
    pub fn command(&self, args: &[&str], variables: &[(&str, String)]) -> Command {
        let mut command = Command::new(&self.executable);
        command.args(args).envs(variables.iter().cloned()).current_dir(&self.folder);
        command.env("CARGO_MANIFEST_DIR", &self.folder).env("CARGO_PKG_NAME", &self.package);
        command
    }
}

/// What the test harness says of the tests that failed; all of the output if it does not come that far.
fn failures(said: &str) -> &str {
    said.find("\nfailures:\n").map_or(said, |at| &said[at..])
}

/// Runs all binaries, `at_once` at a time. The output of each is printed when it ends. Returns the names of those that
/// failed, with their output.
fn run_all(
    binaries: Vec<Binary>,
    at_once: usize,
    command: impl Fn(&Binary) -> Command + Sync,
) -> Result<Vec<(String, String)>, io::Error> {
    let logs = target_dir().join("tests/logs");
    let _ = fs::remove_dir_all(&logs);
    fs::create_dir_all(&logs)?;
    let (waiting, failed) = (Mutex::new(VecDeque::from(binaries)), Mutex::new(Vec::new()));
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let work = || -> Result<(), io::Error> {
        while let Some(binary) = next() {
            let (name, begun) = (binary.name(), Instant::now());
            let file = logs.join(&name);
            let log = File::create(&file)?;
            let ended =
                command(&binary).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).status()?;
            let said = String::from_utf8_lossy(&fs::read(&file)?).into_owned();
            let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
            eprintln!("\n== {name} ({:.0} s)\n{said}", begun.elapsed().as_secs_f64());
            if !ended.success() {
                failed.push((name, said));
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or_else(|_| Err(io::Error::other("a panic"))))
    })?;
    Ok(failed.into_inner().unwrap_or_else(PoisonError::into_inner))
}
