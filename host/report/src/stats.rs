//! Statistics over seeds: means, spreads, intervals, and significance with correction for the number of tests.
//!
//! Intervals are Student's t at 95 %. Differences are paired: the same seed means the same initial weights and the same
//! batches, so the remaining difference is the configuration's. p-values of many comparisons are corrected by Holm's
//! step-down method (Scandinavian Journal of Statistics 6, 1979).

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Coverage of every interval, and one minus the level of every test.
pub const CONFIDENCE: f64 = 0.95;

/// Numbers of one kind, one a seed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Sample {
    /// The number of values.
    pub n: usize,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation; missing with one.
    pub sd: Option<f64>,
    /// Half the width of the mean's interval; missing with one.
    pub half_width: Option<f64>,
}

impl Sample {
    /// Of finite numbers; `None` without any.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let n = values.len();
        if n == 0 {
            return None;
        }
        // Relative to the first value: a common offset would cancel the digits of the spread.
        let (count, origin) = (n as f64, values[0]);
        let mean = origin + values.iter().map(|value| value - origin).sum::<f64>() / count;
        let square = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        let sd = (n > 1).then(|| (square / (count - 1.0)).sqrt());
        let mut sample = Self { n, mean, sd, half_width: None };
        sample.half_width = sample.half_width_at(1.0 - CONFIDENCE);
        Some(sample)
    }

    /// Half the width of the mean's interval that is wrong with probability `error`; missing with one value.
    #[must_use]
    pub fn half_width_at(&self, error: f64) -> Option<f64> {
        Some(quantile(self.n - 1, error)? * self.sd? / (self.n as f64).sqrt())
    }

    /// Lower and upper end of the interval; missing with one value.
    #[must_use]
    pub fn interval(&self) -> Option<[f64; 2]> {
        self.half_width.map(|half| [self.mean - half, self.mean + half])
    }

    /// Probability of a mean this far from zero, or farther, if it were zero; missing with one value.
    #[must_use]
    pub fn p_value(&self) -> Option<f64> {
        let sd = self.sd?;
        if sd == 0.0 {
            return Some(if self.mean == 0.0 { 1.0 } else { 0.0 });
        }
        let t = self.mean.abs() / (sd / (self.n as f64).sqrt());
        // Numbers of the size of f64's largest have no spread that it can hold.
        if t.is_nan() {
            return None;
        }
        let law = StudentsT::new(0.0, 1.0, (self.n - 1) as f64).ok()?;
        Some((2.0 * law.cdf(-t)).clamp(0.0, 1.0))
    }
}

/// The t that is exceeded on either side with probability `error`, with these degrees of freedom.
fn quantile(freedom: usize, error: f64) -> Option<f64> {
    let law = StudentsT::new(0.0, 1.0, freedom as f64).ok()?;
    Some(law.inverse_cdf(1.0 - error / 2.0))
}

/// Holm's correction: p-values to compare with one minus [`CONFIDENCE`], in the order given.
#[must_use]
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut corrected = vec![0.0; p_values.len()];
    let mut largest: f64 = 0.0;
    for (rank, index) in order.into_iter().enumerate() {
        largest = largest.max(((p_values.len() - rank) as f64 * p_values[index]).min(1.0));
        corrected[index] = largest;
    }
    corrected
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-4 * expected.abs().max(1e-3), "{found}, {expected}");
    }

    /// The 0.975 quantiles of every table of Student's t.
    #[test]
    fn quantiles_of_the_printed_table() {
        let table =
            [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (9, 2.2622), (29, 2.0452), (120, 1.9799)];
        for (freedom, expected) in table {
            close(quantile(freedom, 0.05).unwrap(), expected);
        }
    }

    /// Student's own sleep data (Biometrika 6, 1908), paired: t = 4.0621, p = 0.002833, interval 0.7001 to 2.4599.
    #[test]
    fn the_sleep_data() {
        let hours = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4];
        let sample = Sample::of(&hours).unwrap();
        close(sample.mean, 1.58);
        close(sample.sd.unwrap(), 1.229995);
        let [low, high] = sample.interval().unwrap();
        close(low, 0.700_114);
        close(high, 2.459_886);
        close(sample.p_value().unwrap(), 0.002_833);
    }

    #[test]
    fn one_seed_has_no_spread() {
        let one = Sample::of(&[2.0]).unwrap();
        assert_eq!((one.mean, one.sd, one.interval(), one.p_value()), (2.0, None, None, None));
        assert_eq!(Sample::of(&[]), None);
        assert_eq!(Sample::of(&[0.0, 0.0]).unwrap().p_value(), Some(1.0));
        assert_eq!(Sample::of(&[f64::MAX, -f64::MAX]).unwrap().p_value(), None);
        assert!(Sample::of(&[1.0, 1.0 + 1e-15]).unwrap().p_value().unwrap() < 1e-9);
    }

    /// Worked by hand: 0.01 * 4, then 0.02 * 3, 0.03 * 2, 0.04 * 1 held up to what came before.
    #[test]
    fn holm_by_hand() {
        let found = holm(&[0.04, 0.01, 0.03, 0.02]);
        [0.06, 0.04, 0.06, 0.06].iter().zip(&found).for_each(|(expected, found)| close(*found, *expected));
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }
}
