//! Sums of the powers of values, and their kurtosis.

/// Sums of powers over finite values.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PowerSums {
    /// Number of finite values.
    pub count: f64,
    /// Sums of x, x^2, x^3, x^4.
    pub sums: [f64; 4],
}

impl PowerSums {
    pub(super) fn of(values: &[f32]) -> Self {
        let mut all = Self::default();
        for &value in values.iter().filter(|value| value.is_finite()) {
            let x = f64::from(value);
            let square = x * x;
            all.add(&Self { count: 1.0, sums: [x, square, square * x, square * square] });
        }
        all
    }

    /// The sums of `count` values, from the sums of the powers of their differences from a center, all in a unit.
    #[cfg(any(feature = "gpu", test))]
    pub(super) fn around(center: f64, count: f64, sums: [f64; 4], unit: f64) -> Self {
        let (c, [d, d2, d3, d4]) = (center, sums);
        let sums = [
            count * c + d,
            (count * c + 2.0 * d) * c + d2,
            ((count * c + 3.0 * d) * c + 3.0 * d2) * c + d3,
            (((count * c + 4.0 * d) * c + 6.0 * d2) * c + 4.0 * d3) * c + d4,
        ];
        Self { count, sums: std::array::from_fn(|i| sums[i] * unit.powi(i as i32 + 1)) }
    }

    pub(super) fn add(&mut self, other: &Self) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_around_a_center_are_those_of_the_values() {
        let values = [1.0, 1.5, -2.0, 0.75];
        let around = |c: f64| {
            let power = |k: i32| values.iter().map(|x| (x / 4.0 - c).powi(k)).sum::<f64>();
            PowerSums::around(c, 4.0, [1, 2, 3, 4].map(power), 4.0)
        };
        let expected = PowerSums::of(&values.map(|x| x as f32));
        for c in [0.0, 0.3, -1.0] {
            let found = around(c);
            assert_eq!(found.count, 4.0);
            for (found, expected) in found.sums.iter().zip(expected.sums) {
                assert!((found - expected).abs() < 1e-12, "{c}: {found}, {expected}");
            }
        }
    }
}
