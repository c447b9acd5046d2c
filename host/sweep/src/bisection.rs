//! The largest stable rate: a bisection on a logarithmic scale. It assumes that rates above an unstable one are
//! unstable.

use serde::Serialize;

use super::{
    outcome::Outcome,
    rates::{StableSection, rounded},
    successive_halving::Trial,
};

/// The largest stable rate of a group: training is stable if it is completed with a held-out loss that is finite and
/// below that of the initial weights, and was not found to diverge.
#[derive(Debug, Clone, Serialize)]
pub struct Stable {
    /// As in [`super::successive_halving::Tuned`].
    pub group: String,
    /// The key of the rate.
    pub key: String,
    /// The seed of the trials.
    pub seed: u64,
    /// The largest value that was found stable; missing if the lower end was not.
    pub largest_stable: Option<f64>,
    /// The smallest value above it that was found not to be; missing if the upper end was stable.
    pub smallest_unstable: Option<f64>,
    /// The trials.
    pub trials: Vec<Trial>,
    /// True if a trial was interrupted, or its stability is unknown: this is not the final answer, and the next start
    /// of the sweep continues.
    pub broken: bool,
}

/// A bisection on a logarithmic scale in one group.
pub(super) struct Bisection {
    pub stable: Stable,
    range: (f64, f64),
    ratio: f64,
}

impl Bisection {
    pub fn new(group: &str, section: &StableSection, seed: u64) -> Self {
        let stable = Stable {
            group: group.to_string(),
            key: section.key.clone(),
            seed,
            largest_stable: None,
            smallest_unstable: None,
            trials: Vec::new(),
            broken: false,
        };
        Self { stable, range: (section.from, section.to), ratio: section.ratio }
    }

    fn tried(&self, value: f64) -> bool {
        self.stable.trials.iter().any(|trial| trial.value == value)
    }

    /// The values to try next; none when it is found.
    pub fn next(&self) -> Vec<f64> {
        let (from, to) = self.range;
        if self.stable.broken {
            return Vec::new();
        }
        if !self.tried(from) {
            return vec![from, to];
        }
        match (self.stable.largest_stable, self.stable.smallest_unstable) {
            (Some(low), Some(high)) if high / low > self.ratio => {
                let middle = rounded((low * high).sqrt());
                // Between neighbours of few digits there is nothing.
                if self.tried(middle) { Vec::new() } else { vec![middle] }
            }
            _ => Vec::new(),
        }
    }

    pub fn judge(&mut self, value: f64, outcome: &Outcome) {
        if !outcome.has_ended() || outcome.unjudged().is_some() {
            self.stable.broken = true;
            return;
        }
        let trial = Trial::of(value, outcome);
        let (low, high) = (&mut self.stable.largest_stable, &mut self.stable.smallest_unstable);
        if trial.stable {
            *low = Some(low.map_or(value, |low| low.max(value)));
        } else {
            *high = Some(high.map_or(value, |high| high.min(value)));
        }
        // The lower end decides: a stable rate above an unstable one is ignored.
        if let (Some(stable), Some(unstable)) = (*low, *high)
            && unstable < stable
        {
            *low = None;
        }
        self.stable.trials.push(trial);
    }
}

#[cfg(test)]
mod tests {
    use super::{super::outcome::OutcomeState, *};

    fn ended(loss: Option<f64>) -> Outcome {
        let state = if loss.is_some() { OutcomeState::Completed } else { OutcomeState::Diverged };
        Outcome { state, initial_val_loss: Some(5.0), final_val_loss: loss, ..Outcome::default() }
    }

    /// The bounds of a training that is stable up to `limit`, and the number of trials.
    fn bisect(limit: f64) -> (Option<f64>, Option<f64>, usize) {
        let mut bisection = Bisection::new("a", &StableSection::default(), 1);
        loop {
            let next = bisection.next();
            if next.is_empty() {
                let Stable { largest_stable, smallest_unstable, trials, .. } = bisection.stable;
                return (largest_stable, smallest_unstable, trials.len());
            }
            for value in next {
                bisection.judge(value, &ended((value <= limit).then_some(2.0)));
            }
        }
    }

    #[test]
    fn a_trial_without_its_initial_loss_is_no_unstable_one() {
        let mut bisection = Bisection::new("a", &StableSection::default(), 1);
        bisection.judge(0.1, &Outcome { initial_val_loss: None, ..ended(Some(2.0)) });
        assert!(bisection.stable.broken && bisection.stable.trials.is_empty());
        assert_eq!(bisection.stable.smallest_unstable, None);
    }

    #[test]
    fn the_bounds_close_around_the_limit() {
        for limit in [2e-4, 3.3e-3, 0.05, 0.9] {
            let (low, high, trials) = bisect(limit);
            let (low, high) = (low.unwrap_or_default(), high.unwrap_or_default());
            assert!(low <= limit && limit < high && high / low <= 1.25, "{low} {high}");
            assert!(trials <= 9, "{trials} trials");
        }
        assert_eq!(bisect(2.0), (Some(1.0), None, 2));
        assert_eq!(bisect(1e-5), (None, Some(1e-4), 2));
    }
}
