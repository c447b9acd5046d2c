//! Histograms of what a site rounds: how often each code occurs, and moments of the values.
//!
//! They are collected on some steps only, because that is slow: the CPU function counts codes, and on a GPU the tensor is read
//! back for it. The codes are those of the step itself: its rounding mode, its scales and, with stochastic rounding, its
//! random bits.

use parking_lot::{Mutex, MutexGuard};
use rayon::prelude::*;

/// Elements of a parallel task. Fixed, so that sums do not depend on the number of threads.
const CHUNK: usize = 1 << 16;

/// The histogram of the values that a site rounded in a step.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SiteHistogram {
    /// Number of elements of each code; empty for a format of more than 256 codes. A NaN is counted under a code that
    /// means NaN, and not at all if there is none.
    pub codes: Vec<u64>,
    /// Sums of powers of the values before rounding.
    pub powers: PowerSums,
}

/// Sums of powers over finite values.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PowerSums {
    /// Number of finite values.
    pub count: f64,
    /// Sums of x, x^2, x^3, x^4.
    pub sums: [f64; 4],
}

impl PowerSums {
    fn of(values: &[f32]) -> Self {
        let mut all = Self::default();
        for &value in values.iter().filter(|value| value.is_finite()) {
            let x = f64::from(value);
            let square = x * x;
            all.add(&Self { count: 1.0, sums: [x, square, square * x, square * square] });
        }
        all
    }

    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.sums.iter_mut().zip(other.sums).for_each(|(own, other)| *own += other);
    }

    /// `E[(x - mean)^4] / E[(x - mean)^2]^2`; 3 for a Gaussian. `None` without spread: no two values differ, or they do
    /// by less than a thousandth of their mean, where these sums have no digits left.
    #[must_use]
    pub fn kurtosis(&self) -> Option<f64> {
        let [mean, square, cube, fourth] = self.sums.map(|sum| sum / self.count);
        let variance = square - mean * mean;
        let central = fourth - 4.0 * mean * cube + 6.0 * mean * mean * square - 3.0 * mean.powi(4);
        (variance > 1e-6 * square).then(|| central / (variance * variance))
    }
}

/// Collects a histogram over the calls of a step.
#[derive(Debug, Default)]
pub struct HistogramCollector(Mutex<SiteHistogram>);

impl HistogramCollector {
    /// For a format of this many codes; more than 256 are not counted.
    #[must_use]
    pub fn new(codes: usize) -> Self {
        let codes = vec![0; if codes <= 256 { codes } else { 0 }];
        Self(Mutex::new(SiteHistogram { codes, ..SiteHistogram::default() }))
    }

    /// Counters for the codes of a call, all zero.
    pub(super) fn counters(&self) -> Vec<u64> {
        vec![0; self.lock().codes.len()]
    }

    /// Adds the counters of a call.
    pub(super) fn add_codes(&self, counters: &[u64]) {
        self.lock().codes.iter_mut().zip(counters).for_each(|(own, counted)| *own += counted);
    }

    /// Adds values that are about to be rounded.
    pub(super) fn add_values(&self, values: &[f32]) {
        let parts: Vec<PowerSums> = values.par_chunks(CHUNK).map(PowerSums::of).collect();
        let mut own = self.lock();
        parts.iter().for_each(|part| own.powers.add(part));
    }

    /// Subtracts zeros that pad rows; their code is `code`.
    pub(super) fn subtract_zeros(&self, zeros: usize, code: usize) {
        let mut own = self.lock();
        own.powers.count -= zeros as f64;
        if let Some(counter) = own.codes.get_mut(code) {
            *counter = counter.saturating_sub(zeros as u64);
        }
    }

    /// The histogram so far.
    #[must_use]
    pub fn histogram(&self) -> SiteHistogram {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, SiteHistogram> {
        self.0.lock()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Two passes over the values, as the definition reads.
    fn kurtosis(values: &[f32]) -> f64 {
        let values: Vec<f64> = values.iter().copied().filter(|x| x.is_finite()).map(f64::from).collect();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let moment = |power| values.iter().map(|x| (x - mean).powi(power)).sum::<f64>() / n;
        moment(4) / moment(2).powi(2)
    }

    fn collected(values: &[f32]) -> Option<f64> {
        let collector = HistogramCollector::new(0);
        let (first, second) = values.split_at(values.len() / 3);
        collector.add_values(first);
        collector.add_values(second);
        collector.histogram().powers.kurtosis()
    }

    #[test]
    fn kurtosis_is_that_of_the_definition() {
        // Two values alike often: the least there is. One in ten: (0.9^4 + 9 * 0.1^4) * 0.1 / 0.09^2.
        assert_eq!(collected(&[-1.0, 1.0, 1.0, -1.0]), Some(1.0));
        let rare = collected(&[1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]).unwrap();
        assert!((rare - 0.0657 / 0.0081).abs() < 1e-12, "{rare}");
        let values: Vec<f32> =
            (0..200_000).map(|i| ((i as f32) * 0.37).sin().powi(3) * 1e-6 + 2e-6).collect();
        let found = collected(&values).unwrap();
        assert!((found / kurtosis(&values) - 1.0).abs() < 1e-9, "{found}");
        let mut with_faults = values.clone();
        with_faults.extend([f32::NAN, f32::INFINITY]);
        assert!((collected(&with_faults).unwrap() - found).abs() < 1e-9);
    }

    #[test]
    fn kurtosis_is_absent_without_variance() {
        assert_eq!(collected(&[0.1; 100]), None);
        assert_eq!(collected(&[]), None);
        assert_eq!(collected(&[f32::NAN, 1.0]), None);
    }

    #[test]
    fn codes_are_counted_only_of_formats_up_to_256() {
        assert!(HistogramCollector::new(1 << 16).counters().is_empty());
        let collector = HistogramCollector::new(4);
        collector.add_codes(&[1, 0, 0, 2]);
        collector.add_codes(&[1, 0, 1, 0]);
        assert_eq!(collector.histogram().codes, [2, 0, 1, 2]);
    }
}
