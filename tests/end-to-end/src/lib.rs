//! The bench the end-to-end tests share: a staged host in a scratch folder, and the outcome of a run of it.
//!
//! Tests find the staged host through `ALTGRAD_STAGE`, which `cargo xtask test` sets; without it they fail with a
//! message.

// A test bench: failing loudly is its job.
#![allow(clippy::expect_used, clippy::panic)]

pub mod browser;
pub mod devtools;
pub mod hints;
mod pages;
mod places;
mod random;
mod runs;

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

pub use places::{built, fixture, plugin, root, stage};
pub use random::{Random, floats};
pub use runs::{assert_same_run, difference, events};

/// A scratch folder with run files and plugins of its own, deleted at the end.
#[derive(Debug)]
pub struct Bench {
    folder: TempDir,
}

/// The outcome of a run of the host.
#[derive(Debug)]
pub struct Outcome {
    /// Exit code.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Commands that load libraries which files name.
const TRUSTING: [&str; 8] =
    ["run", "check", "sweep", "diff", "evaluate", "sample", "wandb-upload", "weights"];

/// Smallest run that goes through every part: one tiny block on a small text, no sink.
pub const TINY: &str = r#"
[run]
name = "tiny"
device = "cpu"
[data]
dataset = "text:corpus.txt"
tokenizer = "char"
block_size = 8
batch_size = 2
[model]
n_layer = 1
n_head = 2
n_embd = 8
[train]
max_steps = 6
lr = 0.01
min_lr = 0.001
warmup_steps = 2
eval_interval = 2
eval_batches = 2
[optimizer]
name = "adamw"
[quant]
weight = "E5M2"
"#;

impl Bench {
    /// A scratch folder with `corpus.txt`.
    #[must_use]
    pub fn new() -> Self {
        let bench = Self { folder: tempfile::tempdir().expect("a temporary folder") };
        bench.write("corpus.txt", &"the quick brown fox jumps over the lazy dog\n".repeat(20));
        bench
    }

    /// A path in the scratch folder.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file of the scratch folder.
    pub fn write(&self, name: &str, contents: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders can be made");
        fs::write(path, contents).expect("files can be written");
    }

    /// Reads a file of the scratch folder.
    #[must_use]
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Copies a library, given by its path, into the scratch folder's `plugins`.
    pub fn add_plugin(&self, library: &Path) -> PathBuf {
        let name = library.file_name().expect("a file name");
        let to = self.path("plugins").join(name);
        fs::create_dir_all(self.path("plugins")).expect("folders can be made");
        fs::copy(library, &to).unwrap_or_else(|error| panic!("{}: {error}", library.display()));
        to
    }

    /// Runs the staged host here and waits for it.
    #[must_use]
    pub fn host(&self, args: &[&str]) -> Outcome {
        self.host_with(args, &[])
    }

    /// The same with environment variables.
    #[must_use]
    pub fn host_with(&self, args: &[&str], env: &[(&str, &str)]) -> Outcome {
        let output = self.command(args).envs(env.iter().copied()).output().expect("the host starts");
        Outcome::from(output)
    }

    /// The command, not started. The scratch folder's plugins are trusted, and checked once for all tests.
    #[must_use]
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.distrustful(args);
        command.env("XDG_STATE_HOME", stage().join("state"));
        if self.path("plugins").is_dir() && args.first().is_some_and(|name| TRUSTING.contains(name)) {
            command.arg("--trust");
        }
        command
    }

    /// The command of a user who has never trusted a library: the records of libraries are in the scratch folder's
    /// `state`, compiled kernels in its `cache`. What a software Vulkan device compiles is kept for all tests: it takes
    /// most of a short run. Settings in the environment of the tests are removed.
    #[must_use]
    pub fn distrustful(&self, args: &[&str]) -> Command {
        let mut command = Command::new(stage().join("altgrad-host"));
        command.current_dir(self.folder.path()).args(args);
        command.env("XDG_STATE_HOME", self.path("state")).env("XDG_CACHE_HOME", self.path("cache"));
        command.env("MESA_SHADER_CACHE_DIR", stage().join("shaders"));
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_setting(name)) {
            command.env_remove(name);
        }
        command
    }

    /// The metrics that a run's CSV sink wrote, by name: one cell per step that trained, empty where missing. `step` is
    /// one of them; of the metrics by layer, those with a value. The row of the final evaluation is left out.
    #[must_use]
    pub fn metrics(&self, run: &str) -> BTreeMap<String, Vec<String>> {
        let (header, mut rows) = self.records(&format!("{run}/metrics.csv"));
        if let Some(loss) = header.iter().position(|name| name == "train/loss") {
            rows.retain(|row| !row[loss].is_empty());
        }
        let column = |index: usize| rows.iter().map(|row| row[index].to_string()).collect();
        let mut metrics: BTreeMap<String, Vec<String>> =
            header.iter().enumerate().map(|(index, name)| (name.to_string(), column(index))).collect();
        let steps: Vec<String> = column(0);
        for row in self.records(&format!("{run}/layers.csv")).1 {
            let index = steps.iter().position(|step| *step == row[0]).expect("a step of metrics.csv");
            let cells = metrics.entry(format!("{}/{}", &row[2], &row[1]));
            cells.or_insert_with(|| vec![String::new(); steps.len()])[index] = row[3].to_string();
        }
        metrics
    }

    fn records(&self, file: &str) -> (csv::StringRecord, Vec<csv::StringRecord>) {
        let mut reader = csv::Reader::from_path(self.path(file)).expect("the csv sink's file");
        let header = reader.headers().expect("a header").clone();
        (header, reader.records().map(|row| row.expect("a row")).collect())
    }

    /// Names of everything in the scratch folder, sorted: the files that a run left.
    #[must_use]
    pub fn contents(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.folder.path())
            .expect("the scratch folder")
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

/// True for a variable that changes the host's behaviour: a test sets those that it needs.
fn is_setting(name: &OsStr) -> bool {
    let settings = ["ALTGRAD_DATA_MIRROR", "ALTGRAD_LOG", "HF_ENDPOINT"];
    settings.iter().any(|setting| name == *setting) || name.as_encoded_bytes().starts_with(b"WANDB_")
}

impl Default for Bench {
    fn default() -> Self {
        Self::new()
    }
}

impl From<Output> for Outcome {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Compiles a library in C against `altgrad_plugin.h`, with every warning an error.
///
/// # Errors
/// There is no C compiler: the reason for skipping a test.
///
/// # Panics
/// It does not compile.
pub fn compile_c(source: &Path, library: &Path) -> Result<(), String> {
    compile_c_with(source, library, &[])
}

/// The same with macros defined: `NAME` or `NAME=VALUE`.
///
/// # Errors
/// As [`compile_c`].
///
/// # Panics
/// As [`compile_c`].
pub fn compile_c_with(source: &Path, library: &Path, defines: &[&str]) -> Result<(), String> {
    let include = root().join("plugin-api/include");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic", "-shared", "-fPIC", "-I"]);
    let defines = defines.iter().map(|define| format!("-D{define}"));
    let output = compiler.arg(include).args(defines).arg("-o").arg(library).arg(source).arg("-lm").output();
    let output = output.map_err(|error| format!("cc cannot be started: {error}"))?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// A command that another program starts: `env`, `sh -c SCRIPT sh`.
#[must_use]
pub fn started_by(starter: &[&str], command: &Command) -> Command {
    let mut started = Command::new(starter[0]);
    started.args(&starter[1..]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => started.env(name, value),
            None => started.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        started.current_dir(folder);
    }
    started
}

/// The longest wait for anything: far more than a busy machine needs, so that only what hangs takes as long.
pub const HANG: Duration = Duration::from_secs(600);

/// Waits until something is true.
///
/// # Panics
/// It still is not after [`HANG`].
#[track_caller]
pub fn wait(mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < HANG, "still not after {HANG:?}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Reports a skipped test by name, past the test harness's capture, so that it is seen in a green run too.
pub fn skipped(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why}");
}

/// True in `cargo xtask test --all`: tests of random inputs then take more of them.
#[must_use]
pub fn is_thorough() -> bool {
    std::env::var_os("ALTGRAD_ALL").is_some()
}

/// The GPUs that tests try: those that `ALTGRAD_DEVICES` lists, separated by commas, else all that a build may have.
#[must_use]
pub fn gpu_devices() -> Vec<&'static str> {
    let asked = std::env::var("ALTGRAD_DEVICES").unwrap_or_else(|_| "wgpu,cuda:0".into());
    asked.leak().split(',').collect()
}

/// The size of a test that an environment variable sets.
///
/// # Panics
/// The variable is no number: the default would pass as the size that was asked for.
#[must_use]
pub fn size(variable: &str, default: u32) -> u32 {
    let Some(text) = std::env::var_os(variable) else { return default };
    let size = text.to_str().and_then(|text| text.parse().ok());
    size.unwrap_or_else(|| panic!("{variable} is no number: {text:?}"))
}

/// The content of a folder that TensorBoard's own readers find, as JSON (described in `fixtures/read_tensorboard.py`),
/// read by the Python that `ALTGRAD_PYTHON` names.
///
/// # Errors
/// There is no such Python, or it has no TensorBoard.
pub fn tensorboard(folder: &Path) -> Result<String, String> {
    let python = std::env::var("ALTGRAD_PYTHON").map_err(|_| "ALTGRAD_PYTHON is not set".to_string())?;
    let run = |args: &[&OsStr]| Command::new(&python).args(args).output();
    let found = run(&["-c".as_ref(), "import tensorboard".as_ref()]).map_err(|e| format!("{python}: {e}"))?;
    if !found.status.success() {
        return Err(format!("{python} has no tensorboard"));
    }
    let script = fixture("read_tensorboard.py");
    let output = run(&[script.as_os_str(), folder.as_os_str()]).expect("it was just started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn a_size_that_is_not_set_is_the_default() {
        assert_eq!(size("ALTGRAD_NO_SUCH_SIZE", 7), 7);
    }

    #[test]
    #[should_panic(expected = "PATH is no number: ")]
    fn a_size_that_is_no_number_is_refused() {
        let _ = size("PATH", 7);
    }
}
