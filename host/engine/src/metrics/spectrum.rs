//! The update-survival spectrum: the number of codes (ULP) that elements moved, on a logarithmic axis.
//!
//! Bins are fixed, so spectra of all parameters, parts and steps can be added: eight equal ones in each octave from
//! 2^-24 to 2^16 ULP, and one below for everything smaller, zero included. A percentile is defined by them:
//! interpolated within its bin, it is off the order statistic by at most an eighth of its octave's start, 12.5 %. Below
//! 2^-24 ULP it is 0; the last bin holds everything beyond, and gives values between 61440 and 2^16. A device counts
//! the same bins and reads back nothing else; order statistics would need the elements.

/// log2 of the bins per octave: the top three significand bits of f32.
const LOG2_BINS: u32 = 3;
/// The lower end of the first octave, log2 ULP.
const LOWEST: i32 = -24;
/// Octaves.
const OCTAVES: usize = 40;
/// Bins, the one below included.
pub(super) const BINS: usize = 1 + (OCTAVES << LOG2_BINS);
/// Bits of an f32 that a bin ignores.
pub(super) const IGNORED: u32 = 23 - LOG2_BINS;
/// Bin number of an f32's pattern, minus the bins' own numbers.
pub(super) const OFFSET: u32 = (((LOWEST + 127) as u32) << LOG2_BINS) - 1;

/// Counts of distances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spectrum {
    counts: Vec<u64>,
}

impl Default for Spectrum {
    fn default() -> Self {
        Self { counts: vec![0; BINS] }
    }
}

impl Spectrum {
    /// Counts distances, not negative; NaN counts as the largest.
    pub fn add(&mut self, distances: &[f32]) {
        // Two tables, so that successive equal bins do not wait for each other.
        let mut tables = [[0u32; BINS]; 2];
        for (i, distance) in distances.iter().enumerate() {
            let bin = (distance.to_bits() >> IGNORED).saturating_sub(OFFSET) as usize;
            tables[i % 2][bin.min(BINS - 1)] += 1;
        }
        for (i, count) in self.counts.iter_mut().enumerate() {
            *count += u64::from(tables[0][i]) + u64::from(tables[1][i]);
        }
    }

    /// Counts by bin, made elsewhere; missing ones are 0.
    #[must_use]
    pub fn from_counts(counts: &[u32]) -> Self {
        let mut all = Self::default();
        all.counts.iter_mut().zip(counts).for_each(|(own, &count)| *own = count.into());
        all
    }

    /// Adds another spectrum.
    pub fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(own, other)| *own += other);
    }

    /// The distance that a `share` of all elements do not exceed, ULP; `None` if there are no elements.
    #[must_use]
    pub fn percentile(&self, share: f64) -> Option<f64> {
        let total: u64 = self.counts.iter().sum();
        let target = share * total as f64;
        let mut below = 0.0;
        for (bin, &count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = count as f64;
            if below + count >= target {
                let (low, high) = (edge(bin), edge(bin + 1));
                let within = ((target - below) / count).clamp(0.0, 1.0);
                return Some(if bin == 0 { 0.0 } else { low + within * (high - low) });
            }
            below += count;
        }
        None
    }

    /// Edges of the bins, ULP: one more than [`Self::counts`].
    #[must_use]
    pub fn edges() -> Vec<f64> {
        (0..=BINS).map(edge).collect()
    }

    /// Elements by bin.
    #[must_use]
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }
}

/// Lower edge of a bin.
fn edge(bin: usize) -> f64 {
    if bin == 0 { 0.0 } else { f32::from_bits((bin as u32 + OFFSET) << IGNORED).into() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_eight_an_octave() {
        let edges = Spectrum::edges();
        assert_eq!((edges[0], edges[1], edges[9]), (0.0, 2f64.powi(-24), 2f64.powi(-23)));
        assert_eq!((edges[2] / edges[1], edges.len()), (1.125, BINS + 1));
        assert_eq!(edges.last(), Some(&2f64.powi(16)));
        assert!(edges.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn every_distance_lies_in_its_bin() {
        let edges = Spectrum::edges();
        for distance in [0.0, 1e-30, 6e-8, 0.1, 0.4999, 0.5, 1.0, 1.124, 1.125, 127.0, 65535.0] {
            let mut spectrum = Spectrum::default();
            spectrum.add(&[distance]);
            let bin = spectrum.counts.iter().position(|count| *count == 1).unwrap();
            assert!((edges[bin]..edges[bin + 1]).contains(&f64::from(distance)), "{distance}: bin {bin}");
        }
        let mut spectrum = Spectrum::default();
        spectrum.add(&[1e9, f32::INFINITY, f32::NAN]);
        assert_eq!(spectrum.counts[BINS - 1], 3);
    }

    /// Against sorting.
    #[test]
    fn percentiles_are_within_an_eighth() {
        let mut distances: Vec<f32> =
            (0..4000).map(|i| 2f32.powf((i * 37 % 4000) as f32 / 200.0 - 12.0)).collect();
        let mut spectrum = Spectrum::default();
        let (first, second) = distances.split_at(1234);
        spectrum.add(first);
        let mut other = Spectrum::default();
        other.add(second);
        spectrum.merge(&other);
        distances.sort_by(f32::total_cmp);
        for share in [0.01, 0.25, 0.5, 0.9, 0.99] {
            let exact = f64::from(distances[(share * 4000.0) as usize - 1]);
            let found = spectrum.percentile(share).unwrap();
            assert!((found / exact - 1.0).abs() < 0.125, "{share}: {found}, {exact}");
        }
        assert_eq!(Spectrum::default().percentile(0.5), None);
        let mut still = Spectrum::default();
        still.add(&[0.0, 0.0, 1.0]);
        assert_eq!(still.percentile(0.5), Some(0.0));
    }
}
