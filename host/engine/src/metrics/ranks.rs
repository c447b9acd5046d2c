//! How many directions a weight matrix uses: stable and effective rank.
//!
//! Both from its singular values s: `sum s^2 / max s^2`, and the exponential of the entropy of `s / sum s` (Roy and
//! Vetterli, "The effective rank", 2007). Between 1 and the smaller extent. Missing for a zero matrix, for NaN, and where
//! the decomposition fails.

use super::{MetricName, MetricRecord, singular::singular_values};
use crate::model::Layout;

const STATISTICS: [&str; 2] = ["weights/stable_rank", "weights/effective_rank"];

/// The two ranks of a matrix given row by row; `None` where they are missing.
#[must_use]
pub fn ranks(matrix: &[f32], rows: usize, columns: usize) -> Option<[f64; 2]> {
    let values = singular_values(matrix, rows, columns)?;
    let largest = values.iter().copied().fold(0.0, f64::max);
    if largest == 0.0 {
        return None;
    }
    let sum: f64 = values.iter().sum();
    let shares = values.iter().map(|value| value / sum).filter(|share| *share > 0.0);
    let entropy: f64 = shares.map(|share| -share * share.ln()).sum();
    Some([values.iter().map(|value| (value / largest).powi(2)).sum(), entropy.exp()])
}

/// Every metric of the family: of each parameter of rank 2.
#[must_use]
pub fn names(layout: &Layout) -> Vec<MetricName> {
    let matrices = || layout.specs.iter().filter(|spec| spec.shape.len() == 2);
    let of = |statistic: &'static str| {
        matrices().map(move |spec| MetricName::value(format!("{statistic}/{}", spec.name)))
    };
    STATISTICS.into_iter().flat_map(of).collect()
}

/// Records the ranks, one entry a parameter.
pub fn record(record: &mut MetricRecord, layout: &Layout, ranks: &[Option<[f64; 2]>]) {
    for (column, statistic) in STATISTICS.into_iter().enumerate() {
        for (spec, ranks) in layout.specs.iter().zip(ranks) {
            let name = MetricName::value(format!("{statistic}/{}", spec.name));
            record.push_some(name, ranks.map(|ranks| ranks[column]));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn ranks_by_hand() {
        let close = |found: Option<[f64; 2]>, expected: [f64; 2]| {
            let found = found.unwrap();
            assert!((0..2).all(|i| (found[i] - expected[i]).abs() < 1e-6), "{found:?}, {expected:?}");
        };
        // The identity uses every direction, a product of two vectors one.
        close(ranks(&[1.0, 0.0, 0.0, 1.0], 2, 2), [2.0, 2.0]);
        close(ranks(&[1.0, 2.0, 2.0, 4.0, 3.0, 6.0], 3, 2), [1.0, 1.0]);
        // Values 3 and 1: 10/9; shares 3/4 and 1/4.
        let entropy = 0.75 * (4.0f64 / 3.0).ln() + 0.25 * 4f64.ln();
        close(ranks(&[0.0, 3.0, -1.0, 0.0], 2, 2), [10.0 / 9.0, entropy.exp()]);
    }

    #[test]
    fn no_direction_no_rank() {
        assert_eq!(ranks(&[0.0; 4], 2, 2), None);
        assert_eq!(ranks(&[1.0, f32::NAN, 0.0, 1.0], 2, 2), None);
    }
}
