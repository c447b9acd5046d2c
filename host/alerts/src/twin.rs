//! A run compared with its twin: the baseline's run of the same seed, with the same initial weights and batches.
//!
//! Because batches are the same, most of the noise of the two losses is the same too, and their difference shows long
//! before either loss does anything by itself.

use std::collections::BTreeMap;

/// Steps of a window.
pub const WINDOW: usize = 50;
/// Least excess of the mean loss over the twin's in a window, as a share.
pub const EXCESS: f64 = 0.025;
/// Least mean difference in a window, in units of its standard error.
const ERRORS: f64 = 5.0;

/// A run that is worse than its twin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Worse {
    /// The last step of the first window for which it holds.
    pub step: u64,
    /// Mean loss of that window over the twin's.
    pub ratio: f64,
}

/// The first step at which a run's training loss is worse than its twin's: by more than [`EXCESS`] of the twin's and by
/// more than five standard errors of the paired difference, over [`WINDOW`] common steps. Losses are by step, in
/// ascending order; those that are not finite end the comparison.
#[must_use]
pub fn first_worse(own: &[(u64, f64)], twin: &[(u64, f64)]) -> Option<Worse> {
    let twin: BTreeMap<u64, f64> = twin.iter().copied().collect();
    let pairs = own.iter().map(|(step, loss)| (*step, *loss, twin.get(step).copied()));
    let pairs = pairs.take_while(|(_, loss, _)| loss.is_finite());
    let pairs: Vec<(u64, f64, f64)> = pairs
        .filter_map(|(step, loss, twin)| Some((step, loss, twin.filter(|twin| twin.is_finite())?)))
        .collect();
    pairs.windows(WINDOW).find_map(worse)
}

fn worse(window: &[(u64, f64, f64)]) -> Option<Worse> {
    let count = window.len() as f64;
    let mean = |of: fn(&(u64, f64, f64)) -> f64| window.iter().map(of).sum::<f64>() / count;
    let (own, twin) = (mean(|(_, own, _)| *own), mean(|(_, _, twin)| *twin));
    let difference = own - twin;
    let squares = window.iter().map(|(_, own, twin)| (own - twin - difference).powi(2)).sum::<f64>();
    let error = (squares / (count - 1.0) / count).sqrt();
    let is_worse = difference > EXCESS * twin.abs() && difference > ERRORS * error;
    is_worse.then(|| Worse { step: window[window.len() - 1].0, ratio: own / twin })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Losses around `level`, alike for all runs, with noise of a run's own.
    fn losses(level: impl Fn(u64) -> f64, own_noise: f64) -> Vec<(u64, f64)> {
        let noise = |step: u64| ((step * 2_654_435_761) % 1000) as f64 / 1000.0 - 0.5;
        (0..200).map(|step| (step, level(step) + noise(step) + own_noise * noise(step + 7919))).collect()
    }

    #[test]
    fn a_run_is_worse_where_a_window_is_by_excess_and_by_significance() {
        let twin = losses(|_| 2.0, 0.0);
        assert_eq!(first_worse(&twin, &twin), None);
        // 2 % are not enough, however certain.
        assert_eq!(first_worse(&losses(|_| 2.04, 0.0), &twin), None);
        let worse = first_worse(&losses(|_| 2.1, 0.0), &twin).unwrap_or(Worse { step: 0, ratio: 0.0 });
        assert_eq!(worse.step, 49);
        assert!((worse.ratio - 1.05).abs() < 0.01, "{worse:?}");
        // From step 100 on: 17 of 50 steps make a mean of five standard errors.
        let late = first_worse(&losses(|step| if step < 100 { 2.0 } else { 2.2 }, 0.0), &twin);
        assert!(late.is_some_and(|late| late.step == 116), "{late:?}");
        // Noise as large as twenty times the difference hides it.
        assert_eq!(first_worse(&losses(|_| 2.06, 6.0), &losses(|_| 2.0, 0.0)), None);
        // A better run is not worse.
        assert_eq!(first_worse(&losses(|_| 1.0, 0.0), &twin), None);
    }

    #[test]
    fn steps_of_one_run_only_and_losses_that_are_not_finite_do_not_count() {
        let twin = losses(|_| 2.0, 0.0);
        let own = losses(|_| 3.0, 0.0);
        assert_eq!(first_worse(&own[..49], &twin), None);
        assert_eq!(first_worse(&own, &twin[..49]), None);
        assert_eq!(first_worse(&own[20..], &twin).map(|worse| worse.step), Some(69));
        let mut lost = own;
        lost[30].1 = f64::NAN;
        assert_eq!(first_worse(&lost, &twin), None);
    }
}
