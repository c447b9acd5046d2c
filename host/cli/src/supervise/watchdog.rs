//! Detection of plugin calls that do not return. Only time counts in which both processes were awake: a suspended
//! process or machine is no stuck call.

use std::{
    collections::{HashMap, HashSet},
    fs,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use altgrad_loader::calls::Mark;

use super::shared::Shared;

/// Times between two samples.
const TICKS: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(1)];
/// Least number of samples within a limit.
const LOOKS: u32 = 4;

/// The action that a call which does not return requires: the call and the exceeded limit.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WatchdogAction {
    /// A warning is due.
    Warn(Mark, Duration),
    /// The process must end.
    End(Mark, Duration),
}

/// A call that was running at the last sample.
#[derive(Debug)]
struct Seen {
    mark: Mark,
    /// Time it was seen running.
    running: Duration,
}

/// Watches the calls of all threads.
#[derive(Debug, Default)]
pub(super) struct Watchdog {
    seen: HashMap<usize, Seen>,
    /// Plugins with a warning: one that is slow in every call gets no other.
    warned: HashSet<usize>,
    looked: Option<Instant>,
}

impl Watchdog {
    /// Time until the next sample.
    pub fn tick(&self, shared: &Shared) -> Duration {
        let limits = limits(shared);
        let least = limits.into_iter().flatten().min().unwrap_or(Duration::MAX);
        (least / LOOKS).clamp(TICKS[0], TICKS[1])
    }

    /// Samples the calls of that process.
    pub fn look(&mut self, shared: &Shared, process: i32) -> Option<WatchdogAction> {
        let now = Instant::now();
        let since = self.looked.replace(now).map_or(Duration::ZERO, |looked| now - looked);
        // If a sample comes much too late, the system delayed this process, and possibly the other one.
        let awake = since.min(2 * self.tick(shared));
        let passed = if is_stopped(process) { Duration::ZERO } else { awake };
        let running: Vec<_> = shared.calls.running().filter(|(_, mark)| mark.call().is_awaited()).collect();
        self.count(&running, passed, limits(shared))
    }

    /// Records the calls that are still running after another `passed`.
    fn count(
        &mut self,
        running: &[(usize, Mark)],
        passed: Duration,
        [warning, end]: [Option<Duration>; 2],
    ) -> Option<WatchdogAction> {
        self.seen.retain(|thread, seen| running.contains(&(*thread, seen.mark)));
        let mut action = None;
        for (thread, mark) in running {
            let new = || Seen { mark: *mark, running: Duration::ZERO };
            let Some(seen) = self.seen.get_mut(thread) else {
                self.seen.insert(*thread, new());
                continue;
            };
            seen.running += passed;
            let over = |limit: Option<Duration>| limit.filter(|limit| seen.running >= *limit);
            if let Some(limit) = over(end) {
                return Some(WatchdogAction::End(*mark, limit));
            }
            if let Some(limit) = over(warning)
                && self.warned.insert(mark.plugin())
            {
                action = Some(WatchdogAction::Warn(*mark, limit));
            }
        }
        action
    }
}

/// The limits that are set.
fn limits(shared: &Shared) -> [Option<Duration>; 2] {
    [0, 1].map(|index| {
        let ms = shared.limits_ms[index].load(Ordering::Relaxed);
        (ms > 0).then(|| Duration::from_millis(ms))
    })
}

/// True if a process is stopped, by a signal or a debugger.
fn is_stopped(process: i32) -> bool {
    // `id (name) state ...`; the name may hold anything.
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with(['T', 't']))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: [Option<Duration>; 2] = [Some(Duration::from_secs(2)), Some(Duration::from_secs(5))];

    fn mark(count: u64) -> Mark {
        Mark::from_bits(count << 32 | 1 << 16 | 4)
    }

    #[test]
    fn a_call_that_stays_is_told_once_and_then_ended() {
        let mut dog = Watchdog::default();
        let said: Vec<_> =
            (0..6).map(|_| dog.count(&[(3, mark(1))], Duration::from_secs(1), LIMITS)).collect();
        let [warn, end] = LIMITS.map(Option::unwrap_or_default);
        let expected = [
            None,
            None,
            Some(WatchdogAction::Warn(mark(1), warn)),
            None,
            None,
            Some(WatchdogAction::End(mark(1), end)),
        ];
        assert_eq!(said, expected);
    }

    #[test]
    fn a_plugin_that_is_slow_in_every_call_is_told_once() {
        let mut dog = Watchdog::default();
        let mut look = |mark| dog.count(&[(3, mark)], Duration::from_secs(1), LIMITS).is_some();
        let told = (0..120).filter(|call| [(); 4].map(|()| look(mark(*call))).contains(&true)).count();
        assert_eq!(told, 1);
    }

    #[test]
    fn calls_that_return_and_time_asleep_are_no_alarm() {
        let mut dog = Watchdog::default();
        for count in 0..100 {
            assert_eq!(dog.count(&[(3, mark(count))], Duration::from_secs(1), LIMITS), None);
            assert_eq!(dog.count(&[(3, mark(1000)), (4, mark(7))], Duration::ZERO, LIMITS), None);
        }
        for _ in 0..100 {
            assert_eq!(dog.count(&[(5, mark(1))], Duration::from_secs(1), [None, None]), None);
        }
    }

    #[test]
    fn a_stopped_process_is_told_from_a_running_one() {
        assert!(!is_stopped(std::process::id().cast_signed()));
        assert!(!is_stopped(-1));
    }
}
