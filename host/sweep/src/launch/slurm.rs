//! Processes on a cluster: one array job through `sbatch`, a run an array task.
//!
//! The script has one line per task, so the node needs only the folder and the host. A task that is requeued, or one
//! that a time limit stops (Slurm's SIGTERM makes a checkpoint), resumes. `sbatch` reads its own variables too:
//! `SBATCH_PARTITION`, `SBATCH_TIMELIMIT`, ...

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
    time::Duration,
};

use altgrad_base::{diagnostic::Diagnostic, files, interrupt};

use super::ended::Ended;
use crate::{
    progress::{SweepProgress, log},
    task::Task,
};

/// Between two questions to the controller.
const POLL: Duration = Duration::from_secs(2);
/// The time between two checks for Ctrl-C.
const BLINK: Duration = Duration::from_millis(100);
/// The array job's script.
const SCRIPT: &str = "array.sh";
/// The job that was submitted last.
const JOB: &str = "job";
/// The controller's message about a job that it has forgotten.
const FORGOTTEN: &str = "Invalid job id";

/// Processes on a cluster.
#[derive(Debug)]
pub struct Slurm {
    /// Name of the job.
    pub name: String,
    /// Tasks at a time; if missing, as many as the cluster can run.
    pub jobs: Option<usize>,
    /// Threads of each.
    pub threads: usize,
    /// Further options of `sbatch`.
    pub options: Vec<String>,
    /// The folder of script and outputs.
    pub folder: PathBuf,
    /// True to wait for the job.
    pub wait: bool,
}

impl Slurm {
    pub(super) fn run(&self, tasks: &[Task], progress: &mut SweepProgress) -> Result<Ended, Diagnostic> {
        fs::create_dir_all(&self.folder).map_err(|error| self.failed("its folder cannot be made", &error))?;
        // A job of an earlier start of the sweep may still be running these.
        if let Some(job) = self.earlier().filter(|job| is_running(job)) {
            progress.say(&format!("job {job} of this sweep is under way"));
            if !self.wait {
                return Ok(submitted(job));
            }
            if self.watch(&job, &[], progress)? {
                return Ok(Ended { stopped: true, ..Ended::default() });
            }
        }
        let left: Vec<&Task> = tasks.iter().filter(|task| !task.is_done()).collect();
        if left.is_empty() {
            return Ok(Ended::default());
        }
        let begun: Vec<(&Task, u64)> = left.iter().map(|task| (*task, length(&task.log))).collect();
        let job = self.submit(&left)?;
        progress.say(&format!("submitted {} runs as job {job}: `squeue -j {job}` shows it", left.len()));
        if !self.wait {
            return Ok(submitted(job));
        }
        let stopped = self.watch(&job, &begun, progress)?;
        let mut ended = Ended { stopped, ..Ended::default() };
        for (task, from) in begun {
            ended.close(task, progress, |outcome| {
                let reason = outcome.error.clone().or_else(|| log::error(&task.log, from));
                reason.unwrap_or_else(|| {
                    let folder = self.folder.display();
                    format!("its task of job {job} ended without an error message; see {folder}")
                })
            });
        }
        Ok(ended)
    }

    /// Waits until the job has left the queue; cancels it on Ctrl-C. Whether that came.
    fn watch(
        &self,
        job: &str,
        begun: &[(&Task, u64)],
        progress: &mut SweepProgress,
    ) -> Result<bool, Diagnostic> {
        let mut cancelled = false;
        while is_running(job) {
            if interrupt::requested() && !cancelled {
                cancelled = true;
                call("scancel", &[job.to_string()])?;
            }
            progress.show(begun.iter().copied().filter(|(task, from)| length(&task.log) > *from));
            let mut waited = Duration::ZERO;
            while waited < POLL && (cancelled || !interrupt::requested()) {
                thread::sleep(BLINK);
                waited += BLINK;
            }
        }
        Ok(cancelled || interrupt::requested())
    }

    /// Submits an array job of the tasks: its number.
    fn submit(&self, tasks: &[&Task]) -> Result<String, Diagnostic> {
        let script = self.folder.join(SCRIPT);
        let text = self.script(tasks).map_err(|error| self.failed("its script cannot be made", &error))?;
        files::write(&script, text.as_bytes())
            .map_err(|error| self.failed("its script cannot be written", &error))?;
        let mut arguments = vec!["--parsable".to_string()];
        arguments.extend(self.options.iter().cloned());
        arguments.push(script.display().to_string());
        let output = call("sbatch", &arguments)?;
        let said = String::from_utf8_lossy(&output.stdout).trim().to_string();
        // `number` or `number;cluster`.
        let job = said.split(';').next().unwrap_or_default().to_string();
        if !output.status.success() || job.is_empty() || !job.chars().all(|digit| digit.is_ascii_digit()) {
            let why = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
            return Err(Diagnostic::run(format!("sbatch refused the job: {why}{said}"))
                .at(script.display())
                .hint("`--sbatch OPTION` passes options, such as --sbatch=--partition=short"));
        }
        files::write(&self.folder.join(JOB), job.as_bytes())
            .map_err(|error| self.failed("the job's number cannot be kept", &error))?;
        Ok(job)
    }

    /// The job's script: a line a task.
    fn script(&self, tasks: &[&Task]) -> io::Result<String> {
        let (host, here) = (env::current_exe()?, env::current_dir()?);
        let outputs = std::path::absolute(&self.folder)?.join("%A_%a.out");
        let most = self.jobs.map_or(String::new(), |jobs| format!("%{jobs}"));
        let mut lines = vec![
            "#!/bin/sh".to_string(),
            format!("#SBATCH --job-name={}", self.name),
            format!("#SBATCH --array=0-{}{most}", tasks.len() - 1),
            format!("#SBATCH --cpus-per-task={}", self.threads),
            format!("#SBATCH --output={}", quoted(&outputs.to_string_lossy())),
            "#SBATCH --open-mode=append".to_string(),
            "#SBATCH --requeue".to_string(),
            format!("cd {} || exit 1", quoted(&here.to_string_lossy())),
            format!("export RAYON_NUM_THREADS={}", self.threads),
            "case \"$SLURM_ARRAY_TASK_ID\" in".to_string(),
        ];
        for (index, task) in tasks.iter().enumerate() {
            let arguments = task.arguments();
            let words =
                [host.as_os_str()].into_iter().chain(arguments.iter().map(|argument| argument.as_os_str()));
            let words: Vec<String> = words.map(|word| quoted(&word.to_string_lossy())).collect();
            let log = quoted(&task.log.to_string_lossy());
            // The shell is replaced, so that Slurm's signals reach the run.
            lines.push(format!("{index}) exec {} >>{log} 2>&1 ;;", words.join(" ")));
        }
        lines.push("esac".to_string());
        Ok(lines.join("\n") + "\n")
    }

    fn earlier(&self) -> Option<String> {
        let bytes = files::read(&self.folder.join(JOB)).ok()?;
        String::from_utf8(bytes).ok().filter(|job| !job.is_empty() && job.chars().all(|c| c.is_ascii_digit()))
    }

    fn failed(&self, what: &str, error: &io::Error) -> Diagnostic {
        Diagnostic::run(format!("cannot submit to Slurm: {what} ({error})"))
            .at(self.folder.display())
            .hint("is the disk full, or the folder read-only?")
    }
}

fn submitted(job: String) -> Ended {
    Ended { submitted: Some(job), ..Ended::default() }
}

/// True if a job is waiting or running. If the controller does not answer, the job counts as running.
fn is_running(job: &str) -> bool {
    match Command::new("squeue").args(["--noheader", "--jobs", job]).output() {
        Ok(output) if output.status.success() => !output.stdout.trim_ascii().is_empty(),
        Ok(output) => !String::from_utf8_lossy(&output.stderr).contains(FORGOTTEN),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

fn call(program: &str, arguments: &[String]) -> Result<Output, Diagnostic> {
    Command::new(program).args(arguments).output().map_err(|error| {
        Diagnostic::run(format!("cannot start `{program}` ({error})")).hint(
            "the launcher `slurm` needs Slurm's commands on this machine; `--launcher local` does without",
        )
    })
}

/// A word as the shell takes it.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_config::DeviceChoice;

    use super::*;

    #[test]
    fn the_script_has_a_line_a_task_that_any_shell_reads() {
        let task = |name: &str, until| Task {
            name: name.into(),
            config: format!("runs/{name}.toml").into(),
            folder: "f".into(),
            log: format!("it's/{name}.log").into(),
            until,
            steps: 9,
            fork: None,
            device: DeviceChoice::Auto,
        };
        let slurm = Slurm {
            name: "m".into(),
            jobs: Some(2),
            threads: 3,
            options: Vec::new(),
            folder: "my sweep".into(),
            wait: true,
        };
        let (first, second) = (task("a", 9), task("b", 4));
        let script = slurm.script(&[&first, &second]).unwrap();
        assert!(script.contains("#SBATCH --array=0-1%2\n#SBATCH --cpus-per-task=3\n"), "{script}");
        assert!(script.contains(
            r"'run' 'runs/a.toml' '--resume=auto' '--progress=json' '--guard' 'it'\''s/a.log' >>'it'\''s/a.log' 2>&1 ;;"
        ));
        assert!(script.contains("'--max-steps' '4' >>"), "{script}");
        let output = script.lines().find(|line| line.starts_with("#SBATCH --output=")).unwrap();
        assert!(
            output.starts_with("#SBATCH --output='/") && output.ends_with("/my sweep/%A_%a.out'"),
            "{output}"
        );
    }
}
