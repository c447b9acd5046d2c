//! The rank of a weight matrix: stable and effective rank.
//!
//! Both from its singular values s: `sum s^2 / max s^2`, and the exponential of the entropy of `s / sum s` (Roy and
//! Vetterli, "The effective rank", 2007). Between 1 and the smaller extent. Missing for a zero matrix, for NaN, and
//! where the decomposition fails.

use altgrad_metrics::{
    MetricDefinition, MetricId, MetricRecord, Statistic,
    families::ranks::{EFFECTIVE_RANK, STABLE_RANK},
};

use super::{
    family::{self, MetricFamily, MetricSetup},
    singular::singular_values,
};

/// The results of [`ranks`].
static STATISTICS: [&MetricDefinition; 2] = [&STABLE_RANK, &EFFECTIVE_RANK];

/// The family: of each parameter of rank 2.
pub struct RanksFamily;

impl MetricFamily for RanksFamily {
    /// The ranks, one entry per parameter.
    type Inputs<'a> = &'a [Option<[f64; 2]>];

    fn ids(setup: &MetricSetup<'_>) -> Vec<MetricId> {
        let specs = || setup.parameters.iter().zip(&setup.layout.specs);
        let matrices = || specs().filter(|(_, spec)| spec.shape.len() == 2).map(|(layer, _)| layer);
        STATISTICS.into_iter().flat_map(|definition| family::ids_of(definition, matrices())).collect()
    }

    fn record(setup: &MetricSetup<'_>, ranks: &[Option<[f64; 2]>], record: &mut MetricRecord) {
        for (column, definition) in STATISTICS.into_iter().enumerate() {
            for (layer, ranks) in setup.parameters.iter().zip(ranks) {
                let id = Statistic::new(definition).of_layer(layer);
                record.push_some(id, ranks.map(|ranks| ranks[column]));
            }
        }
    }
}

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
