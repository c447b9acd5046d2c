//! Drawing a token from logits: temperature, the k most likely ones, or simply the most likely one.

use std::cmp::Ordering;

use altgrad_base::diagnostic::Diagnostic;
use rand::{Rng, RngExt};

/// The sampling of a token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Picking {
    /// Logits are divided by this, 0 or more; 0 selects the most likely token.
    pub temperature: f64,
    /// Only this many of the most likely tokens are drawn, at least 1; of equal ones the lower ids. `None`: all.
    pub top_k: Option<usize>,
}

/// Draws an id. Each draw uses one number of the generator.
///
/// # Errors
/// A logit is NaN or infinite (minus infinity is allowed for an impossible id, unless all ids are impossible).
pub fn pick(logits: &[f32], how: &Picking, generator: &mut impl Rng) -> Result<u16, Diagnostic> {
    let uniform: f64 = generator.random();
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if !most.is_finite() || logits.iter().any(|logit| logit.is_nan()) {
        return Err(Diagnostic::run("the model's logits are NaN or infinite")
            .hint("the run diverged before this checkpoint; take an earlier one, such as checkpoints/best"));
    }
    let candidates = candidates(logits, if how.temperature == 0.0 { Some(1) } else { how.top_k });
    // The softmax, without its denominator, in f64, so that the sum over a vocabulary is accurate.
    let weight = |id: usize| ((f64::from(logits[id]) - f64::from(most)) / how.temperature).exp();
    let [rest @ .., last] = candidates.as_slice() else {
        return Err(Diagnostic::run("the model has no token to draw").hint("its vocabulary is empty"));
    };
    let total: f64 = candidates.iter().map(|&id| weight(id)).sum();
    let mut left = uniform * total;
    let drawn = rest.iter().find(|&&id| {
        left -= weight(id);
        left < 0.0
    });
    u16::try_from(*drawn.unwrap_or(last))
        .map_err(|_| Diagnostic::run("the model has more tokens than 16 bits count"))
}

/// The ids to draw from; the most likely first, unless all are candidates.
fn candidates(logits: &[f32], top_k: Option<usize>) -> Vec<usize> {
    let mut ids: Vec<usize> = (0..logits.len()).collect();
    let Some(k) = top_k.filter(|k| (1..logits.len()).contains(k)) else { return ids };
    let likelier = |a: &usize, b: &usize| -> Ordering { logits[*b].total_cmp(&logits[*a]).then(a.cmp(b)) };
    ids.select_nth_unstable_by(k - 1, likelier);
    ids.truncate(k);
    ids.sort_unstable_by(likelier);
    ids
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use altgrad_base::random::{Stream, at};

    const LOGITS: [f32; 6] = [0.5, 2.0, -1.0, 2.0, 0.0, f32::NEG_INFINITY];

    fn draws(how: &Picking, count: u64) -> [u64; 6] {
        let mut counts = [0; 6];
        for index in 0..count {
            counts[usize::from(pick(&LOGITS, how, &mut at(7, Stream::Sampling, index)).unwrap())] += 1;
        }
        counts
    }

    /// Pearson's statistic of counts against probabilities, over the ids that can be drawn.
    fn chi_square(counts: &[u64], probabilities: &[f64]) -> f64 {
        let total: u64 = counts.iter().sum();
        let terms = counts.iter().zip(probabilities).filter(|(_, p)| **p > 0.0);
        terms.map(|(n, p)| (*n as f64 - p * total as f64).powi(2) / (p * total as f64)).sum()
    }

    fn softmax(temperature: f64, keep: &[usize]) -> Vec<f64> {
        let weight =
            |id: usize| if keep.contains(&id) { (f64::from(LOGITS[id]) / temperature).exp() } else { 0.0 };
        let total: f64 = (0..LOGITS.len()).map(weight).sum();
        (0..LOGITS.len()).map(|id| weight(id) / total).collect()
    }

    #[test]
    fn frequencies_follow_the_softmax() {
        // Quantiles at 0.999 of chi-square: 4 degrees of freedom 18.47, 2 degrees 13.82.
        let all = [0, 1, 2, 3, 4];
        for temperature in [1.0, 0.5, 3.0] {
            let counts = draws(&Picking { temperature, top_k: None }, 100_000);
            assert_eq!(counts[5], 0, "impossible ids are never drawn");
            let chi = chi_square(&counts, &softmax(temperature, &all));
            assert!(chi < 18.47, "temperature {temperature}: {chi}, {counts:?}");
            // The test can fail: another temperature is far away.
            assert!(chi_square(&counts, &softmax(temperature * 1.1, &all)) > 18.47);
        }
        let counts = draws(&Picking { temperature: 1.0, top_k: Some(3) }, 100_000);
        assert_eq!(counts[2] + counts[4] + counts[5], 0);
        assert!(chi_square(&counts, &softmax(1.0, &[0, 1, 3])) < 13.82, "{counts:?}");
    }

    #[test]
    fn greedy_is_top_1_and_takes_the_lower_of_equals() {
        for how in [Picking { temperature: 0.0, top_k: None }, Picking { temperature: 1.0, top_k: Some(1) }] {
            assert_eq!(draws(&how, 50), [0, 50, 0, 0, 0, 0]);
        }
        assert_eq!(draws(&Picking { temperature: 0.0, top_k: Some(4) }, 50), [0, 50, 0, 0, 0, 0]);
        // As cold as it gets without being greedy: equals are drawn alike, nothing overflows.
        let cold = draws(&Picking { temperature: 1e-300, top_k: None }, 1000);
        assert_eq!(cold[1] + cold[3], 1000);
        assert!(cold[1].abs_diff(cold[3]) < 150, "{cold:?}");
        assert_eq!(candidates(&LOGITS, Some(99)).len(), 6);
    }

    #[test]
    fn logits_that_are_no_numbers_are_refused() {
        let how = Picking { temperature: 1.0, top_k: None };
        for logits in [[f32::NAN, 1.0], [f32::INFINITY, 1.0], [f32::NEG_INFINITY; 2]] {
            let error = pick(&logits, &how, &mut at(1, Stream::Sampling, 0)).unwrap_err();
            assert_eq!(error.message, "the model's logits are NaN or infinite");
        }
    }
}
