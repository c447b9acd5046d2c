//! Random inputs of tests, and random moments at which they kill processes.

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

    /// The numbers of the seed `ALTGRAD_SEED`, 1 by default.
    ///
    /// # Panics
    /// The variable is no number.
    #[must_use]
    pub fn of_run() -> Self {
        Self::seeded(crate::size("ALTGRAD_SEED", 1).into())
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

/// Inputs of rounding, the same in every run: every binade with both signs, special values, and bit patterns at random,
/// half of them of ordinary size, where rounding has something to decide. The first `len` of them.
#[must_use]
pub fn floats(len: usize) -> Vec<f32> {
    let mut bits: Vec<u32> = (0..512).map(|top| top << 23).collect();
    bits.extend((0..512).map(|top| top << 23 | 0x0040_0000));
    bits.extend([0x7fc0_0000, 0xffc1_2345, 1, 0x8000_0001, 0x7f7f_ffff]);
    let mut random = Random::seeded(1);
    while bits.len() < len {
        bits.push((random.bits() >> 32) as u32);
    }
    let ordinary = |(i, bits): (usize, u32)| {
        if i % 2 == 1 && i > 1100 { bits & 0xbfff_ffff | 0x3000_0000 } else { bits }
    };
    bits.into_iter().take(len).enumerate().map(ordinary).map(f32::from_bits).collect()
}
