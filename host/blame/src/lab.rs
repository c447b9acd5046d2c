//! Losses of settings, each made once, and their differences over seeds.

use std::collections::BTreeMap;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_report::stats::Sample;
use serde::Serialize;

use crate::{Options, trial::Setting};

/// The probability of a false cause in the whole search.
const LEVEL: f64 = 0.05;
/// The smallest part of the total difference that counts as an effect.
pub const MATERIAL: f64 = 0.1;

/// The reason why a search ends early.
#[derive(Debug)]
pub enum Halt {
    /// The user stopped it.
    Stopped,
    /// The next runs would exceed the budget.
    Budget,
    /// Runs cannot be made.
    Fault(Diagnostic),
}

/// Who makes runs.
pub trait Losses {
    /// The held-out losses at the end of runs, nats per token. A run that diverged has the loss of its initial weights.
    /// `None`: its run file is refused.
    ///
    /// # Errors
    /// The runs cannot be made, or the user stopped them.
    fn losses(&mut self, trials: &[(Setting, u64)]) -> Result<Vec<Option<f64>>, Halt>;
}

/// A difference of losses over seeds, nats per token.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Effect {
    /// The mean.
    pub mean: f64,
    /// Half the width of its interval, corrected for the number of tests; infinite for one seed.
    pub half_width: f64,
}

impl Effect {
    /// True if the interval is above zero.
    #[must_use]
    pub fn is_positive(&self) -> bool {
        self.mean - self.half_width > 0.0
    }

    /// True if it is positive and at least [`MATERIAL`] of the total.
    #[must_use]
    pub fn is_material(&self, total: Self) -> bool {
        self.is_positive() && self.mean >= MATERIAL * total.mean
    }
}

/// The seeds of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// The run's own and those after it.
    First,
    /// Twice as many, for a difference that the first look leaves open.
    Second,
    /// Seeds of no earlier look.
    Fresh,
}

/// The runs of a search.
pub struct Lab<'a> {
    seed: u64,
    /// The options of the search.
    pub options: Options,
    runs: &'a mut dyn Losses,
    known: BTreeMap<(Setting, u64), Option<f64>>,
}

impl<'a> Lab<'a> {
    /// Runs with this seed and those after it.
    pub fn new(seed: u64, options: Options, runs: &'a mut dyn Losses) -> Self {
        Self { seed, options, runs, known: BTreeMap::new() }
    }

    /// The number of runs.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.known.len()
    }

    fn seeds(&self, look: Look) -> std::ops::Range<u64> {
        let (first, n) = (self.seed, self.options.seeds);
        match look {
            Look::First => first..first + n,
            Look::Second => first..first + 2 * n,
            Look::Fresh => first + 2 * n..first + 3 * n,
        }
    }

    /// Makes the missing runs of these settings.
    ///
    /// # Errors
    /// See [`Halt`].
    pub fn make(&mut self, settings: &[Setting], look: Look) -> Result<(), Halt> {
        let mut missing: Vec<(Setting, u64)> = Vec::new();
        for setting in settings {
            for seed in self.seeds(look) {
                let trial = (setting.clone(), seed);
                if !self.known.contains_key(&trial) && !missing.contains(&trial) {
                    missing.push(trial);
                }
            }
        }
        if self.known.len() + missing.len() > self.options.budget {
            return Err(Halt::Budget);
        }
        if !missing.is_empty() {
            let losses = self.runs.losses(&missing)?;
            self.known.extend(missing.into_iter().zip(losses));
        }
        Ok(())
    }

    /// The mean difference `a - b` as one of `tests` tests of a family; `None` if one of the settings is refused.
    ///
    /// # Errors
    /// See [`Halt`].
    pub fn difference(
        &mut self,
        a: &Setting,
        b: &Setting,
        tests: usize,
        look: Look,
    ) -> Result<Option<Effect>, Halt> {
        self.make(&[a.clone(), b.clone()], look)?;
        let loss = |setting: &Setting, seed| self.known.get(&(setting.clone(), seed)).copied().flatten();
        let differences: Option<Vec<f64>> =
            self.seeds(look).map(|seed| Some(loss(a, seed)? - loss(b, seed)?)).collect();
        let Some(sample) = differences.and_then(|differences| Sample::of(&differences)) else {
            return Ok(None);
        };
        let half_width = sample.half_width_at(LEVEL / tests.max(1) as f64).unwrap_or(f64::INFINITY);
        Ok(Some(Effect { mean: sample.mean, half_width }))
    }
}

impl Lab<'_> {
    /// [`Self::difference`] of settings that only undo causes. If the first look finds a difference of at least `least`
    /// that is not significant, the second decides; each has half of the error.
    ///
    /// # Errors
    /// See [`Halt`].
    pub fn decided(&mut self, a: &Setting, b: &Setting, tests: usize, least: f64) -> Result<Effect, Halt> {
        let refused = || {
            let message = "a run with fewer casts is refused, though the run itself is not";
            Halt::Fault(Diagnostic::config(message))
        };
        let first = self.difference(a, b, 2 * tests, Look::First)?.ok_or_else(refused)?;
        if first.is_positive() || first.mean < least {
            return Ok(first);
        }
        self.difference(a, b, 2 * tests, Look::Second)?.ok_or_else(refused)
    }
}

impl std::fmt::Debug for Lab<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lab")
            .field("seed", &self.seed)
            .field("runs", &self.known.len())
            .finish_non_exhaustive()
    }
}
