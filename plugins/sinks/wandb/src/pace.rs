//! Paces of the upload: intervals, time limits, and waits after failures.

use std::time::{Duration, Instant};

use crate::journal::now;

/// Shortest wait after a failure.
const SHORTEST: Duration = Duration::from_millis(20);

/// Paces of the protocol. Tests make them short.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// Between requests with rows, during the run.
    pub interval: Duration,
    /// Between any two requests to the file stream: servers take two a second.
    pub gap: Duration,
    /// From the last request to a sign of life.
    pub heartbeat: Duration,
    /// Longest a request may take.
    pub limit: Duration,
    /// First wait after a failure; each further one is twice as long.
    pub backoff: Duration,
    /// Longest wait after a failure.
    pub backoff_most: Duration,
    /// Longest wait after a failure once the run has ended.
    pub backoff_last: Duration,
    /// Least limit of a request then.
    pub limit_last: Duration,
}

impl Pace {
    /// As the official client has it.
    pub(crate) fn usual(interval: Duration) -> Self {
        let seconds = Duration::from_secs;
        Self {
            interval,
            gap: Duration::from_millis(500),
            heartbeat: seconds(30),
            limit: seconds(60),
            backoff: seconds(2),
            backoff_most: seconds(60),
            backoff_last: seconds(1),
            limit_last: Duration::from_millis(500),
        }
    }

    /// The wait after so many failures in a row: longer each time, with a random part.
    pub(crate) fn wait_after(&self, failures: u32) -> Duration {
        let doubled = self.backoff.saturating_mul(1 << failures.min(16));
        doubled.mul_f64(1.0 + jitter()).min(self.backoff_most)
    }

    /// The time limit of a request: half of the remaining time, so that a request that hangs leaves room for others.
    pub(crate) fn limit_before(&self, by: Instant) -> Duration {
        let left = by.saturating_duration_since(Instant::now());
        (left / 2).max(self.limit_last).min(left).clamp(Duration::from_millis(100), self.limit)
    }

    /// The wait after a failure once the run has ended: a part of the time that is left, so that a server which is back
    /// shortly before the end gets all; or as long as the server wants if time is left for other requests then.
    pub(crate) fn wait_before(&self, by: Instant, wanted: Option<Duration>) -> Duration {
        let left = by.saturating_duration_since(Instant::now());
        let short = (left / 8).clamp(SHORTEST, self.backoff_last);
        wanted.map_or(short, |wanted| wanted.min(left.saturating_sub(2 * self.backoff_last)).max(short))
    }
}

/// 0 to 1/4, so that many runs do not come back in the same moment.
fn jitter() -> f64 {
    (now() * 1e3).fract() / 4.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_leaves_room_for_further_requests() {
        let pace = Pace::usual(Duration::from_secs(15));
        let by = Instant::now() + Duration::from_secs(20);
        let seconds = |time: Duration| time.as_secs_f64().round();
        assert_eq!(seconds(pace.limit_before(by)), 10.0);
        assert_eq!(pace.wait_before(by, None), Duration::from_secs(1));
        assert_eq!(seconds(pace.wait_before(by, Some(Duration::from_secs(5)))), 5.0);
        assert_eq!(seconds(pace.wait_before(by, Some(Duration::from_secs(60)))), 18.0);
        let over = Instant::now();
        assert_eq!(pace.wait_before(over, Some(Duration::from_secs(60))), SHORTEST);
        assert!(pace.limit_before(over) >= Duration::from_millis(100));
        let long = Instant::now() + Duration::from_secs(3600);
        assert_eq!(pace.limit_before(long), pace.limit);
    }
}
