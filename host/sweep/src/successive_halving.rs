//! The search for the best of some rates: whole runs, or successive halving, in which the worse half ends at each rung.

use serde::Serialize;

use super::outcome::{Outcome, OutcomeState};

/// One trial.
#[derive(Debug, Clone, Serialize)]
pub struct Trial {
    /// The rate.
    pub value: f64,
    /// Steps done.
    pub steps: u64,
    /// Held-out loss then, nats per token.
    pub val_loss: Option<f64>,
    /// True if it was stable up to there.
    pub stable: bool,
}

/// The rate chosen for a group.
#[derive(Debug, Clone, Serialize)]
pub struct Tuned {
    /// The combinations it is for: their names without seeds.
    pub group: String,
    /// The key of the rate.
    pub key: String,
    /// The seed of the trials.
    pub seed: u64,
    /// The value with the lowest held-out loss; missing if no trial had one, or one was interrupted.
    pub chosen: Option<f64>,
    /// True if it lies at an end of the tried values: a better one may lie beyond.
    pub at_edge: bool,
    /// True if a trial failed or was interrupted: the next start of the sweep tries it again.
    pub broken: bool,
    /// The trials.
    pub trials: Vec<Trial>,
}

impl Trial {
    /// The outcome of a run with this value.
    #[must_use]
    pub fn of(value: f64, outcome: &Outcome) -> Self {
        let val_loss = outcome.final_val_loss.filter(|_| outcome.state == OutcomeState::Completed);
        Self { value, steps: outcome.steps, val_loss, stable: outcome.is_stable() }
    }
}

/// Successive halving in one group.
pub(super) struct SuccessiveHalving {
    pub tuned: Tuned,
    grid: Vec<f64>,
    /// The values still in it.
    pub left: Vec<f64>,
}

impl SuccessiveHalving {
    pub fn new(group: &str, key: String, seed: u64, grid: Vec<f64>) -> Self {
        let tuned = Tuned {
            group: group.to_string(),
            key,
            seed,
            chosen: None,
            at_edge: false,
            broken: false,
            trials: Vec::new(),
        };
        Self { tuned, left: grid.clone(), grid }
    }

    /// Compares the outcomes of the remaining configurations, and drops the worse half, or at the end all but the best.
    pub fn judge(&mut self, outcomes: &[Outcome], last: bool) {
        let trials = self.left.iter().zip(outcomes).map(|(value, outcome)| Trial::of(*value, outcome));
        let trials: Vec<Trial> = trials.collect();
        for trial in &trials {
            match self.tuned.trials.iter_mut().find(|known| known.value == trial.value) {
                Some(known) => *known = trial.clone(),
                None => self.tuned.trials.push(trial.clone()),
            }
        }
        if !outcomes.iter().all(Outcome::has_ended) {
            // Without one of them there is no result.
            self.tuned.broken = true;
            self.left.clear();
            return;
        }
        let loss = |trial: &&Trial| trial.val_loss.filter(|loss| loss.is_finite());
        let mut sound: Vec<(f64, f64)> =
            trials.iter().filter_map(|trial| Some((loss(&trial)?, trial.value))).collect();
        sound.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let keep = if last { 1 } else { self.left.len().div_ceil(2) };
        self.left = sound.iter().take(keep).map(|(_, value)| *value).collect();
        self.left.sort_by(f64::total_cmp);
    }

    /// The winner, if there is one.
    pub fn close(self) -> Tuned {
        let chosen = self.left.first().copied();
        let edges = [self.grid.first(), self.grid.last()];
        let at_edge = self.grid.len() > 1 && chosen.is_some_and(|chosen| edges.contains(&Some(&chosen)));
        Tuned { chosen, at_edge, ..self.tuned }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(loss: Option<f64>) -> Outcome {
        let state = if loss.is_some() { OutcomeState::Completed } else { OutcomeState::Diverged };
        Outcome { state, initial_val_loss: Some(5.0), final_val_loss: loss, ..Outcome::default() }
    }

    fn halving(grid: &[f64]) -> SuccessiveHalving {
        SuccessiveHalving::new("a", "train.lr".into(), 1, grid.to_vec())
    }

    #[test]
    fn the_worse_half_is_given_up_and_the_lowest_loss_wins() {
        let grid = [0.1, 0.2, 0.4, 0.8, 1.6];
        let mut halving = halving(&grid);
        let losses = [Some(4.0), Some(2.0), Some(3.0), Some(9.0), None];
        halving.judge(&losses.map(ended), false);
        assert_eq!(halving.left, [0.1, 0.2, 0.4]);
        halving.judge(&[Some(3.0), Some(2.5), Some(2.4)].map(ended), true);
        let tuned = halving.close();
        assert_eq!((tuned.chosen, tuned.at_edge), (Some(0.4), false));
        assert_eq!(tuned.trials.len(), 5);
        assert_eq!(tuned.trials[2].val_loss, Some(2.4));
        assert_eq!(tuned.trials[4].val_loss, None);
    }

    #[test]
    fn a_winner_at_the_end_says_so_and_equal_losses_go_to_the_smaller_rate() {
        let grid = [0.1, 0.2];
        let mut tie = halving(&grid);
        tie.judge(&[Some(2.0), Some(2.0)].map(ended), true);
        let tuned = tie.close();
        assert_eq!((tuned.chosen, tuned.at_edge), (Some(0.1), true));
        let mut none = halving(&grid);
        none.judge(&[None, Some(f64::NAN)].map(ended), true);
        let none = none.close();
        assert_eq!((none.chosen, none.broken), (None, false));
        let mut broken = halving(&grid);
        broken.judge(&[ended(Some(2.0)), Outcome::default()], false);
        assert!(broken.left.is_empty());
        let broken = broken.close();
        assert_eq!((broken.chosen, broken.broken), (None, true));
    }
}
