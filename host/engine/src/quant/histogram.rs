//! Histograms of the values that a site rounds: the count of each code, and moments of the values.
//!
//! They are collected on some steps only, because this is slow: the CPU function counts codes, and on a GPU each call
//! runs two more kernels (`histogram_kernel`). The codes are those of the step itself: its rounding mode, its scales
//! and, with stochastic rounding, its random bits.

use altgrad_base::diagnostic::Diagnostic;
use parking_lot::{Mutex, MutexGuard};
use rayon::prelude::*;

#[cfg(feature = "gpu")]
use super::histogram_kernel::{self, DeviceCounts};
use super::power_sums::PowerSums;

/// Elements per parallel task. The number is fixed, so that sums do not depend on the number of threads.
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

/// Collects a histogram over the calls of a step.
#[derive(Debug, Default)]
pub struct HistogramCollector {
    counted: Mutex<SiteHistogram>,
    /// Counts of calls on a GPU, not read yet.
    #[cfg(feature = "gpu")]
    on_device: Mutex<Vec<DeviceCounts>>,
}

impl HistogramCollector {
    /// A collector for a format of this many codes; more than 256 are not counted.
    #[must_use]
    pub fn new(codes: usize) -> Self {
        let codes = vec![0; if codes <= 256 { codes } else { 0 }];
        Self {
            counted: Mutex::new(SiteHistogram { codes, ..SiteHistogram::default() }),
            #[cfg(feature = "gpu")]
            on_device: Mutex::default(),
        }
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

    /// Adds a device's counts of a call; it is read with the histogram.
    #[cfg(feature = "gpu")]
    pub fn add_on_device(&self, counts: DeviceCounts) {
        self.on_device.lock().push(counts);
    }

    /// Subtracts zeros that pad rows; their code is `code`.
    pub(super) fn subtract_zeros(&self, zeros: usize, code: usize) {
        let mut own = self.lock();
        own.powers.count -= zeros as f64;
        if let Some(counter) = own.codes.get_mut(code) {
            *counter = counter.saturating_sub(zeros as u64);
        }
    }

    /// The histogram so far. Reads the device's counts, once.
    ///
    /// # Errors
    /// [`Fault::Device`](altgrad_base::diagnostic::Fault::Device): the device failed.
    pub fn histogram(&self) -> Result<SiteHistogram, Diagnostic> {
        #[cfg(feature = "gpu")]
        for call in histogram_kernel::read(std::mem::take(&mut *self.on_device.lock()))? {
            self.add_codes(&call.codes);
            call.powers.iter().for_each(|powers| self.lock().powers.add(powers));
            let (zeros, code) = call.zeros;
            self.subtract_zeros(zeros, code);
        }
        Ok(self.lock().clone())
    }

    fn lock(&self) -> MutexGuard<'_, SiteHistogram> {
        self.counted.lock()
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
        collector.histogram().unwrap().powers.kurtosis()
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
        assert_eq!(collector.histogram().unwrap().codes, [2, 0, 1, 2]);
    }
}
