//! The time that a child process takes of its own. On a busy machine a process waits for a processor, which says
//! nothing about the process.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

/// Units of processor time in a second, in files of `/proc` (`proc_pid_stat(5)`).
const UNITS: u32 = 100;

/// Adds the time in which a process ran, or waited for something else than a processor.
#[derive(Debug)]
pub(super) struct OwnTime {
    process: u32,
    looked: Instant,
    /// Processor time at the last look.
    ran: Duration,
    /// Processor time that is not in `passed` yet: the system counts it in units, which are longer than a span.
    left: Duration,
    passed: Duration,
}

/// The threads of a process at a time: their processor time, and whether one could run.
#[derive(Debug, Default, PartialEq, Eq)]
struct Threads {
    ran: Duration,
    is_runnable: bool,
}

impl OwnTime {
    /// Begins now.
    pub(super) fn of(process: u32) -> Self {
        Self {
            process,
            looked: Instant::now(),
            ran: Duration::ZERO,
            left: Duration::ZERO,
            passed: Duration::ZERO,
        }
    }

    /// The time until now. Without `/proc` this is wall time.
    pub(super) fn look(&mut self) -> Duration {
        let now = Instant::now();
        let threads = threads(self.process);
        self.count(now - self.looked, &threads);
        self.looked = now;
        self.passed
    }

    /// Adds a span of wall time: all of it, or if a thread could run, what the threads did run.
    fn count(&mut self, wall: Duration, threads: &Threads) {
        let ran = threads.ran.saturating_sub(self.ran);
        self.ran = self.ran.max(threads.ran);
        self.left += ran;
        let own = if threads.is_runnable { self.left.min(wall) } else { wall };
        self.passed += own;
        // Of several processors' time no more than a unit is kept.
        self.left = self.left.saturating_sub(own).min(Duration::from_secs(1) / UNITS);
    }
}

fn threads(process: u32) -> Threads {
    let stat = |path: PathBuf| fs::read_to_string(path.join("stat")).unwrap_or_default();
    let process = PathBuf::from(format!("/proc/{process}"));
    let tasks = fs::read_dir(process.join("task")).into_iter().flatten().flatten();
    let is_runnable = tasks.map(|task| stat(task.path())).any(|text| fields(&text).next() == Some("R"));
    // Times in user and in system mode are fields 14 and 15, the state is field 3.
    let units = fields(&stat(process)).skip(11).take(2).filter_map(|units| units.parse::<u64>().ok()).sum();
    Threads { ran: Duration::from_secs(units) / UNITS, is_runnable }
}

/// The fields of `id (name) state ...` after the name, which may hold anything.
fn fields(stat: &str) -> impl Iterator<Item = &str> {
    stat.rsplit_once(')').unwrap_or_default().1.split_whitespace()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_a_processor_takes_no_time() {
        let second = Duration::from_secs(1);
        let mut time = OwnTime::of(0);
        let mut count = |ran, is_runnable| {
            time.count(second, &Threads { ran: second / 10 * ran, is_runnable });
            time.passed.as_secs_f64()
        };
        // It could run and did for 0.1 s, slept, could run and did not, ran on four processors.
        let passed =
            [(1, true), (1, false), (1, true), (41, true)].map(|(ran, is_runnable)| count(ran, is_runnable));
        assert_eq!(passed, [0.1, 1.1, 1.1, 2.1]);
    }

    #[test]
    fn a_span_may_be_shorter_than_the_unit_of_processor_time() {
        let mut time = OwnTime::of(0);
        for look in 1..=200 {
            let ran = Duration::from_millis(10) * (look / 2);
            time.count(Duration::from_millis(5), &Threads { ran, is_runnable: true });
        }
        // A whole second of one processor, but for the first span, whose unit came after it.
        assert_eq!(time.passed, Duration::from_millis(995));
    }

    #[test]
    fn this_process_runs() {
        let mut time = OwnTime::of(std::process::id());
        let begun = Instant::now();
        while time.look() < Duration::from_millis(50) {}
        assert!(begun.elapsed() >= Duration::from_millis(50));
        assert!(threads(std::process::id()).is_runnable);
    }
}
