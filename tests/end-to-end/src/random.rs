//! Random inputs of tests, and random moments at which they kill processes.

use std::time::SystemTime;

/// A linear congruential generator (Knuth's MMIX); its upper bits are random enough to choose by.
#[derive(Debug)]
pub struct Random {
    /// The first seed, printed when a test fails.
    pub seed: u64,
    state: u64,
}

impl Random {
    /// The same numbers in every run.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self { seed, state: seed }
    }

    /// Other numbers in every run.
    #[must_use]
    pub fn from_clock() -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Self::seeded(now.map_or(1, |now| now.as_nanos() as u64))
    }

    /// 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.state
    }

    /// From 0 to 1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 40) as f64 / f64::from(1 << 24)
    }
}
