//! Processes on this machine, some at a time.
//!
//! A process ends as on Ctrl-C, with a checkpoint, when its standard input ends: the sweep closes it to stop, and the
//! system does if the sweep is killed. A process that does not end is killed after 30 s, by its supervising process.

use std::{
    collections::VecDeque,
    env,
    fs::File,
    io,
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use altgrad_base::{diagnostic::Diagnostic, interrupt};

use super::{ended::Ended, gpus::GpuLimit};
use crate::{
    progress::{SweepProgress, log},
    task::Task,
};

/// The time between two polls of the processes.
const POLL: Duration = Duration::from_millis(20);

/// Processes on this machine.
#[derive(Debug)]
pub struct Local {
    /// Processes at a time.
    pub jobs: usize,
    /// Processes at a time on a GPU.
    pub gpus: GpuLimit,
    /// Threads of each.
    pub threads: usize,
    /// The sweep's name, for sinks that support groups of runs.
    pub sweep: String,
    /// No run begins after this time.
    pub deadline: Option<Instant>,
}

/// The variable from which W&B's client, and the sink `wandb`, read a run's group.
const GROUP: &str = "WANDB_RUN_GROUP";

/// A process.
struct Running<'a> {
    task: &'a Task,
    child: Child,
    /// Closed to stop it.
    input: Option<ChildStdin>,
    /// The offset at which its part of the log begins.
    log_from: u64,
}

impl Local {
    pub(super) fn run(&self, tasks: &[Task], progress: &mut SweepProgress) -> Result<Ended, Diagnostic> {
        let mut waiting: VecDeque<&Task> = tasks.iter().filter(|task| !task.is_done()).collect();
        let mut running: Vec<Running<'_>> = Vec::new();
        let mut ended = Ended::default();
        loop {
            if interrupt::requested() {
                ended.stopped = true;
                waiting.clear();
                running.iter_mut().for_each(|running| running.input = None);
            }
            if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                waiting.clear();
            }
            while running.len() < self.jobs
                && let Some(task) = self.gpus.take(&mut waiting, running.iter().map(|process| process.task))
            {
                match self.start(task) {
                    Ok(started) => running.push(started),
                    Err(error) => ended.fail(task, progress, format!("cannot start its process ({error})")),
                }
            }
            if running.is_empty() {
                return Ok(ended);
            }
            thread::sleep(POLL);
            let mut still = Vec::with_capacity(running.len());
            for mut process in running {
                match process.child.try_wait() {
                    Ok(None) => still.push(process),
                    Ok(Some(status)) => process.close(status, &mut ended, progress),
                    Err(error) => {
                        return Err(Diagnostic::run(format!("a run's process cannot be watched ({error})"))
                            .at(process.task.folder.display()));
                    }
                }
            }
            running = still;
            progress.show(running.iter().map(|process| (process.task, process.log_from)));
        }
    }

    fn start<'a>(&self, task: &'a Task) -> io::Result<Running<'a>> {
        let log = File::options().create(true).append(true).open(&task.log)?;
        let log_from = log.metadata()?.len();
        let mut command = Command::new(env::current_exe()?);
        command.args(task.arguments()).arg("--while-input");
        command.env("RAYON_NUM_THREADS", self.threads.to_string());
        if env::var_os(GROUP).is_none() {
            command.env(GROUP, &self.sweep);
        }
        command.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log);
        // A terminal's Ctrl-C is for the sweep, which stops its processes itself.
        command.process_group(0);
        let mut child = command.spawn()?;
        let input = child.stdin.take();
        Ok(Running { task, child, input, log_from })
    }
}

impl Running<'_> {
    /// Records its end.
    fn close(self, status: ExitStatus, ended: &mut Ended, progress: &mut SweepProgress) {
        ended.close(self.task, progress, |outcome| {
            let reason = outcome.error.clone().filter(|_| status.code() == Some(1));
            let said = reason.or_else(|| log::error(&self.task.log, self.log_from));
            said.unwrap_or_else(|| how(status))
        });
    }
}

/// The end of a process that reported none.
fn how(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(9), _) => "its process was killed (SIGKILL), perhaps for its memory".to_string(),
        (Some(signal), _) => format!("its process was ended by signal {signal}"),
        (None, code) => format!("its process ended with exit code {}", code.unwrap_or_default()),
    }
}
