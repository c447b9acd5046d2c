//! Counts of elements relative to the largest magnitude of their block, on a fine logarithmic grid.

use super::Distribution;

/// Bins of a binade, of equal width.
const PER_BINADE: usize = 64;
/// Binades below 1. Smaller magnitudes count as zero: all formats of 8 bits with more than a few significand bits take
/// them there.
const BINADES: usize = 24;
/// Bins of a sign: those of the binades, and the last, of the largest magnitude itself.
const SIDE: usize = PER_BINADE * BINADES + 1;
/// Width of the bins of zero and of the largest magnitude.
const POINT: f64 = 1.0 / (1u64 << 40) as f64;

/// Counts by relative value, from -1 to 1; 25 kB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogGrid {
    counts: Vec<u64>,
}

impl Default for LogGrid {
    fn default() -> Self {
        Self { counts: vec![0; 2 * SIDE + 1] }
    }
}

impl LogGrid {
    /// The bin of a relative value: magnitudes above 1 count as 1.
    fn index(relative: f32) -> usize {
        let least = (127 - BINADES as u32) << 23;
        let bits = relative.abs().min(1.0).to_bits();
        let magnitude = (bits.saturating_sub(least) >> (23 - PER_BINADE.ilog2())) as usize;
        if bits < least {
            SIDE
        } else if relative < 0.0 {
            SIDE - 1 - magnitude
        } else {
            SIDE + 1 + magnitude
        }
    }

    /// Counts the finite elements of a matrix with rows of `columns` elements, whose tiles of these rows and columns
    /// share a scale. Blocks of zeros do not count.
    pub fn add_matrix(&mut self, values: &[f32], columns: usize, [high, wide]: [usize; 2]) {
        let (columns, high, wide) = (columns.max(1), high.max(1), wide.max(1));
        for rows in values.chunks(columns.saturating_mul(high)) {
            let mut amax = vec![0f32; columns.div_ceil(wide)];
            let block = |index: usize| index % columns / wide;
            for (index, x) in rows.iter().enumerate().filter(|(_, x)| x.is_finite()) {
                amax[block(index)] = amax[block(index)].max(x.abs());
            }
            for (index, x) in rows.iter().enumerate().filter(|(_, x)| x.is_finite()) {
                if amax[block(index)] > 0.0 {
                    self.counts[Self::index(x / amax[block(index)])] += 1;
                }
            }
        }
    }

    /// Adds other counts.
    pub fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(own, other)| *own += other);
    }

    /// The ends of all bins, ascending.
    #[must_use]
    pub fn edges() -> Vec<f64> {
        let magnitude = |bin: usize| {
            let (binade, part) = (bin / PER_BINADE, bin % PER_BINADE);
            2f64.powi(binade as i32 - BINADES as i32) * (1.0 + part as f64 / PER_BINADE as f64)
        };
        let mut side: Vec<f64> = (0..SIDE).map(magnitude).collect();
        side.push(1.0 + POINT);
        side.iter().rev().map(|edge| -edge).chain(side.iter().copied()).collect()
    }

    /// The count of each bin.
    #[must_use]
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// The distribution of counts in bins with [`Self::edges`].
    #[must_use]
    pub fn distribution_of(counts: &[u64]) -> Distribution {
        Self::distribution_by(&counts.iter().map(|count| *count as f64).collect::<Vec<f64>>())
    }

    /// The distribution of weights in these bins.
    #[must_use]
    pub fn distribution_by(masses: &[f64]) -> Distribution {
        let mut edges = Self::edges();
        // All that is smaller counts as zero.
        (edges[SIDE], edges[SIDE + 1]) = (-POINT, POINT);
        Distribution::new(edges, masses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_element_is_in_the_bin_around_it() {
        let edges = LogGrid::edges();
        assert_eq!(edges.len(), 2 * SIDE + 2);
        assert!(edges.windows(2).all(|ends| ends[0] < ends[1]));
        for x in [1.0, 0.999, 0.5, 0.3, 0.1234, 2f32.powi(-24), 2f32.powi(-25), 0.0] {
            for x in [x, -x] {
                let bin = LogGrid::index(x);
                let [low, high] = [edges[bin], edges[bin + 1]].map(|edge| edge as f32);
                assert!(low <= x && x <= high, "{x}: {low}..{high}");
            }
        }
        let mut grid = LogGrid::default();
        // Two tiles of two by two: the second has zeros only.
        grid.add_matrix(&[2.0, -1.0, 0.0, 0.0, 0.0, f32::NAN, 0.0, 0.0], 4, [2, 2]);
        assert_eq!(grid.counts().iter().sum::<u64>(), 3);
        assert_eq!(
            (grid.counts()[2 * SIDE], grid.counts()[SIDE], grid.counts()[LogGrid::index(-0.5)]),
            (1, 1, 1)
        );
    }
}
