//! Paces of the upload: how often, how long, how long to wait after a failure.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

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
        }
    }

    /// How long to wait after so many failures in a row: longer each time, and not the same for everybody.
    pub(crate) fn wait_after(&self, failures: u32) -> Duration {
        let doubled = self.backoff.saturating_mul(1 << failures.min(16));
        doubled.mul_f64(1.0 + jitter()).min(self.backoff_most)
    }
}

/// 0 to 1/4, so that many runs do not come back in the same moment.
fn jitter() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    f64::from(since.subsec_micros() % 1000) / 4000.0
}
