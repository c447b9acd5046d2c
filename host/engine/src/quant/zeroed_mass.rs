//! The mass that rounding makes zero: the share of a tensor's magnitudes that is in such elements (docs/numerics.md,
//! section 7.4.1).
//!
//! A count of zeroed elements does not tell many small ones from a few large ones. At the head the mass is that of the
//! tokens whose probability no longer lowers their logits.

use rayon::prelude::*;

/// Elements of a parallel task. The number is fixed, so that sums do not depend on the number of threads.
const CHUNK: usize = 1 << 16;

/// Sums of the magnitudes of finite elements.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ZeroedMass {
    /// Of all elements.
    pub all: f64,
    /// Of those that become zero.
    pub zeroed: f64,
}

impl ZeroedMass {
    /// The sums of a tensor and its rounded values, which have one length.
    #[must_use]
    pub fn of(values: &[f32], rounded: &[f32]) -> Self {
        let part = |(values, rounded): (&[f32], &[f32])| {
            let mut sums = Self::default();
            for (x, y) in values.iter().zip(rounded).filter(|(x, _)| x.is_finite()) {
                let magnitude = f64::from(x.abs());
                sums.all += magnitude;
                sums.zeroed += if *y == 0.0 { magnitude } else { 0.0 };
            }
            sums
        };
        let parts: Vec<Self> = values.par_chunks(CHUNK).zip(rounded.par_chunks(CHUNK)).map(part).collect();
        parts.iter().fold(Self::default(), |mut sums, part| {
            sums.add(part);
            sums
        })
    }

    /// Adds the sums of other tensors.
    pub fn add(&mut self, other: &Self) {
        self.all += other.all;
        self.zeroed += other.zeroed;
    }

    /// The share; `None` if all elements are zero.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        (self.all > 0.0).then(|| self.zeroed / self.all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_that_of_finite_magnitudes() {
        let (x, y) = ([0.5, -0.25, f32::NAN, 0.0, 1.0, f32::INFINITY], [0.0, -0.0, f32::NAN, 0.0, 1.0, 6.0]);
        assert_eq!(ZeroedMass::of(&x, &y), ZeroedMass { all: 1.75, zeroed: 0.75 });
        assert_eq!(ZeroedMass::of(&x, &y).share(), Some(0.75 / 1.75));
        assert_eq!(ZeroedMass::of(&[0.0, f32::NAN], &[0.0, f32::NAN]).share(), None);
    }

    /// Probabilities of three tokens of a vocabulary of four; the first is the target. With one scale, the largest
    /// magnitude 0.75 becomes 6, and probabilities up to half of the smallest value 0.5, that is 0.25 / 8, become zero.
    #[test]
    fn at_the_head_twice_the_share_is_the_zeroed_part_of_the_other_tokens_probability() {
        let probabilities: [[f32; 4]; 3] =
            [[0.25, 0.7, 0.02, 0.03], [0.5, 0.25, 0.01, 0.24], [0.375, 0.3125, 0.3125, 0.0]];
        let gradient = probabilities.map(|[target, a, b, c]| [target - 1.0, a, b, c]).concat();
        let below = |p: &f32| *p <= 0.25 / 8.0;
        let rounded: Vec<f32> = gradient.iter().map(|x| if below(&x.abs()) { 0.0 } else { *x }).collect();
        let others = || probabilities.iter().flat_map(|token| &token[1..]);
        let of = |sum: f32| f64::from(sum);
        let definition = of(others().filter(|p| below(p)).sum()) / of(others().sum());
        let share = ZeroedMass::of(&gradient, &rounded).share();
        assert!(
            share.is_some_and(|share| (2.0 * share - definition).abs() < 1e-6),
            "{share:?}, {definition}"
        );
        assert!((definition - 0.06 / 1.875).abs() < 1e-6);
    }
}
