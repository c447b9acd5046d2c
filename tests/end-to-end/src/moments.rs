//! Random moments at which tests kill processes.

use std::time::SystemTime;

/// Numbers that look random enough to choose moments by.
#[derive(Debug)]
pub struct Moments {
    /// The first seed, printed when a test fails.
    pub seed: u64,
    state: u64,
}

impl Moments {
    /// Others each time.
    #[must_use]
    pub fn new() -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let seed = now.map_or(1, |now| now.as_nanos() as u64);
        Self { seed, state: seed }
    }

    /// From 0 to 1.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> f64 {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 40) as f64 / f64::from(1 << 24)
    }
}

impl Default for Moments {
    fn default() -> Self {
        Self::new()
    }
}
