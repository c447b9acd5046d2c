//! The spacing histogram: the number of weights at each spacing of the grid.
//!
//! One bin per power of two, around `log2 S` of docs/numerics.md, section 3.1: in a minifloat every weight of a binade
//! is in the middle of its bin, and every weight below `2^emin` in that of the subnormal spacing. Edges are log2 of
//! weight units; from the narrowest spacing that occurs to the widest.

/// Bins: f32's spacings, from 2^-149 to 2^127, and room for rounding.
const BINS: usize = 288;
/// The bin of a spacing of 1, in stored units.
const ONE: i32 = 152;

/// Counts of weights by spacing in stored units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spacings(Vec<u64>);

impl Default for Spacings {
    fn default() -> Self {
        Self(vec![0; BINS])
    }
}

impl Spacings {
    /// Counts a weight where log2 of the spacing, in stored units, is this; not if that is NaN.
    pub fn add(&mut self, log2_spacing: f64) {
        let bin = log2_spacing.round() as i32 + ONE;
        if !log2_spacing.is_nan() {
            self.0[bin.clamp(0, BINS as i32 - 1) as usize] += 1;
        }
    }

    /// Adds another part.
    pub fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own += other);
    }

    /// Edges, log2 of weight units of a parameter stored with that scale, and counts; `None` if nothing was counted.
    #[must_use]
    pub fn histogram(&self, log2_scale: f64) -> Option<(Vec<f64>, Vec<u64>)> {
        let first = self.0.iter().position(|count| *count > 0)?;
        let last = self.0.iter().rposition(|count| *count > 0)?;
        let edges = first..=last + 1;
        let edge = |bin: usize| f64::from(bin as i32 - ONE) - 0.5 - log2_scale;
        Some((edges.map(edge).collect(), self.0[first..=last].to_vec()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn bins_by_hand() {
        let mut spacings = Spacings::default();
        [-9.0, -3.0, -3.0, -2.4, f64::NAN].into_iter().for_each(|log2| spacings.add(log2));
        let (edges, counts) = spacings.histogram(2.0).unwrap();
        assert_eq!(counts, [1, 0, 0, 0, 0, 0, 2, 1]);
        assert_eq!((edges[0], edges[1], edges[8]), (-11.5, -10.5, -3.5));
        let mut twice = spacings.clone();
        twice.merge(&spacings);
        assert_eq!(twice.histogram(0.0).unwrap().1, [2, 0, 0, 0, 0, 0, 4, 2]);
        assert_eq!(Spacings::default().histogram(0.0), None);
    }
}
