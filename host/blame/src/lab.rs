//! Losses of settings, each made once, and their differences over seeds.

use std::collections::BTreeMap;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_report::{power, stats::Sample};
use serde::Serialize;

use crate::{Options, trial::Setting};

/// The probability of a false cause in the whole search.
const LEVEL: f64 = 0.05;
/// The smallest part of the total difference that counts as an effect.
pub const MATERIAL: f64 = 0.1;

/// The reason why a search ends early.
#[derive(Debug)]
pub enum Halt {
    /// Runs are missing: the user stopped the search, or its budget is spent.
    Unfinished,
    /// Runs cannot be made.
    Fault(Diagnostic),
}

/// The loss of a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TrialLoss {
    /// Held out, at the end of the run, nats per token. A run that diverged has the loss of its initial weights.
    Known(f64),
    /// Its run file is refused.
    Refused,
    /// The run is not done, because the search was stopped or its time is over.
    Missing,
}

/// Who makes runs.
pub trait Losses {
    /// The loss of each trial.
    ///
    /// # Errors
    /// Runs cannot be made.
    fn losses(&mut self, trials: &[(Setting, u64)]) -> Result<Vec<TrialLoss>, Diagnostic>;
}

/// A difference of losses over seeds, nats per token.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Effect {
    /// The mean.
    pub mean: f64,
    /// Half the width of its interval (Student's t), corrected for the number of tests; infinite for one seed.
    pub half_width: f64,
    /// Seeds.
    pub seeds: usize,
    /// Standard deviation over seeds; missing for one.
    pub sd: Option<f64>,
    /// The level of its test: one minus the interval's confidence.
    pub level: f64,
    /// True if its test finds it above zero.
    pub is_positive: bool,
}

impl Effect {
    /// The smallest true difference that its test finds with a probability of 80 %.
    #[must_use]
    pub fn detectable(&self) -> Option<f64> {
        power::detectable(self.seeds, self.sd?, self.level)
    }

    /// True if the sign-flip test finds it and its interval includes zero: few seeds supply most of the spread.
    pub(crate) fn is_found_by_signs(self) -> bool {
        self.is_positive && self.half_width >= self.mean
    }

    /// True if it is positive and at least [`MATERIAL`] of the total.
    #[must_use]
    pub fn is_material(&self, total: Self) -> bool {
        self.is_positive && self.mean >= MATERIAL * total.mean
    }
}

/// The seeds of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// The run's own and those after it.
    First,
    /// Twice as many, for a difference that the first look leaves open.
    Second,
    /// Four times as many, for a difference that most seeds of the second look have.
    Third,
    /// Seeds of no earlier look.
    Fresh,
}

/// The runs of a search.
pub struct Lab<'a> {
    seed: u64,
    /// The options of the search.
    pub options: Options,
    runs: &'a mut dyn Losses,
    /// `None`: the run file is refused.
    known: BTreeMap<(Setting, u64), Option<f64>>,
    /// True if no more runs are made.
    is_over: bool,
}

impl<'a> Lab<'a> {
    /// Runs with this seed and those after it.
    pub fn new(seed: u64, options: Options, runs: &'a mut dyn Losses) -> Self {
        Self { seed, options, runs, known: BTreeMap::new(), is_over: false }
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
            Look::Third => first..first + 4 * n,
            Look::Fresh => first + 4 * n..first + 5 * n,
        }
    }

    /// Makes the missing runs of these settings, as many as the budget has left.
    ///
    /// # Errors
    /// See [`Halt`]: runs are still missing, or cannot be made.
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
        if missing.is_empty() {
            return Ok(());
        }
        if self.is_over {
            return Err(Halt::Unfinished);
        }
        let left = self.options.budget.saturating_sub(self.known.len());
        self.is_over = left < missing.len();
        missing.truncate(left);
        let losses = self.runs.losses(&missing).map_err(Halt::Fault)?;
        for (trial, loss) in missing.into_iter().zip(losses) {
            match loss {
                TrialLoss::Known(loss) => drop(self.known.insert(trial, Some(loss))),
                TrialLoss::Refused => drop(self.known.insert(trial, None)),
                TrialLoss::Missing => self.is_over = true,
            }
        }
        if self.is_over { Err(Halt::Unfinished) } else { Ok(()) }
    }

    /// The differences `a - b` by seed; `None` if one of the settings is refused.
    fn differences(&mut self, a: &Setting, b: &Setting, look: Look) -> Result<Option<Vec<f64>>, Halt> {
        self.make(&[a.clone(), b.clone()], look)?;
        let loss = |setting: &Setting, seed| self.known.get(&(setting.clone(), seed)).copied().flatten();
        Ok(self.seeds(look).map(|seed| Some(loss(a, seed)? - loss(b, seed)?)).collect())
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
        let differences = self.differences(a, b, look)?;
        let Some((values, sample)) =
            differences.and_then(|values| Sample::of(&values).map(|of| (values, of)))
        else {
            return Ok(None);
        };
        let level = LEVEL / tests.max(1) as f64;
        let half_width = sample.half_width_at(level).unwrap_or(f64::INFINITY);
        // One seed in which a run nearly diverges widens the interval without end; the signs do not depend on it.
        let by_signs = (look == Look::Third).then(|| sign_flip(&values)).flatten();
        let is_positive = match by_signs {
            Some(probability) => probability <= level / 2.0,
            None => sample.mean - half_width > 0.0,
        };
        Ok(Some(Effect { mean: sample.mean, half_width, seeds: sample.n, sd: sample.sd, level, is_positive }))
    }

    /// [`Self::difference`] of settings that only undo causes. If a look finds a difference of at least `least` that is
    /// not significant, the next decides: the second always follows, the third if four of five seeds have it. The
    /// first has half of the error, the others a quarter each.
    ///
    /// # Errors
    /// See [`Halt`].
    pub fn decided(&mut self, a: &Setting, b: &Setting, tests: usize, least: f64) -> Result<Effect, Halt> {
        let refused = || {
            let message = "a run with fewer casts is refused, though the run itself is not";
            Halt::Fault(Diagnostic::config(message))
        };
        let first = self.difference(a, b, 2 * tests, Look::First)?.ok_or_else(refused)?;
        let is_open = |effect: Effect| !effect.is_positive && effect.mean >= least;
        if !is_open(first) {
            return Ok(first);
        }
        let second = self.difference(a, b, 4 * tests, Look::Second)?.ok_or_else(refused)?;
        let differences = self.differences(a, b, Look::Second)?.unwrap_or_default();
        let positive = differences.iter().filter(|difference| **difference > 0.0).count();
        if !is_open(second) || 5 * positive < 4 * differences.len() {
            return Ok(second);
        }
        self.difference(a, b, 4 * tests, Look::Third)?.ok_or_else(refused)
    }
}

/// Seeds up to which all signs are tried.
const MOST_FLIPPED: usize = 20;

/// The exact one-sided sign-flip test (Fisher 1935): the part of all choices of signs whose sum is at least that of the
/// differences. `None` for too many of them.
fn sign_flip(differences: &[f64]) -> Option<f64> {
    if differences.len() > MOST_FLIPPED {
        return None;
    }
    let sum: f64 = differences.iter().sum();
    // Rounding must not separate equal sums.
    let least = sum - 1e-12 * differences.iter().map(|difference| difference.abs()).sum::<f64>();
    let all = 1u32 << differences.len();
    let flipped = |signs: u32| -> f64 {
        let signed = differences.iter().enumerate();
        signed.map(|(index, value)| if (signs >> index) & 1 == 1 { -value } else { *value }).sum()
    };
    let as_large = (0..all).filter(|signs| flipped(*signs) >= least).count();
    Some(as_large as f64 / f64::from(all))
}

impl std::fmt::Debug for Lab<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lab")
            .field("seed", &self.seed)
            .field("runs", &self.known.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_are_counted_exactly() {
        // Of eight choices of signs, 1 + 2 + 3, and with -1 its sum 4, and with -2 2, and with -3 or -1 and -2 0.
        assert_eq!(sign_flip(&[1.0, 2.0, 3.0]), Some(1.0 / 8.0));
        assert_eq!(sign_flip(&[-1.0, 2.0, 3.0]), Some(2.0 / 8.0));
        assert_eq!(sign_flip(&[1.0, 2.0, -3.0]), Some(5.0 / 8.0));
        assert_eq!(sign_flip(&[0.0, 0.0]), Some(1.0));
        assert_eq!(sign_flip(&[1.0; MOST_FLIPPED + 1]), None);
    }

    /// A run that loses 0.1 in each seed, and 5 more in one.
    struct Outlier;

    impl Losses for Outlier {
        fn losses(&mut self, trials: &[(Setting, u64)]) -> Result<Vec<TrialLoss>, Diagnostic> {
            let loss = |(setting, seed): &(Setting, u64)| match setting.undone.is_empty() {
                true => 2.1 + 0.001 * *seed as f64 + if *seed == 2 { 5.0 } else { 0.0 },
                false => 2.0,
            };
            Ok(trials.iter().map(|trial| TrialLoss::Known(loss(trial))).collect())
        }
    }

    #[test]
    fn one_seed_cannot_hide_what_all_have() {
        let mut runs = Outlier;
        let options = Options { seeds: 5, from: 0, steps: 100, budget: 1000 };
        let mut lab = Lab::new(1, options, &mut runs);
        let (run, baseline) = (Setting::default(), Setting::without([0]));
        let effect = lab.decided(&run, &baseline, 1, 0.0).unwrap();
        assert!(effect.is_found_by_signs(), "{effect:?}");
        assert_eq!(lab.runs(), 40);
    }
}
