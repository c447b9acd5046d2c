//! The power of the paired t-test, and the smallest detectable difference.
//!
//! Under a true difference the statistic has a noncentral t distribution; its tail is integrated over the law of the
//! sample's standard deviation (Johnson, Kotz and Balakrishnan, Continuous Univariate Distributions 2, chapter 31).

use statrs::{
    distribution::{ContinuousCDF, Normal, StudentsT},
    function::gamma::ln_gamma,
};

/// Probability with which the smallest detectable difference is found.
pub const POWER: f64 = 0.8;
/// Panels of Simpson's rule; even.
const PANELS: usize = 4000;

/// The smallest true difference that a two-sided paired test of this level finds with probability [`POWER`], for `n`
/// differences of this standard deviation; missing with one, and where it is not finite.
#[must_use]
pub fn detectable(n: usize, sd: f64, level: f64) -> Option<f64> {
    let freedom = n.checked_sub(1).filter(|freedom| *freedom > 0)? as f64;
    let critical = StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(1.0 - level / 2.0);
    let (mut low, mut high) = (0.0, 1.0);
    while power(freedom, high, critical)? < POWER {
        (low, high) = (high, high * 2.0);
        if high > 1e6 {
            return None;
        }
    }
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        match power(freedom, middle, critical)? < POWER {
            true => low = middle,
            false => high = middle,
        }
    }
    Some(high * sd / (n as f64).sqrt()).filter(|found| found.is_finite())
}

/// Probability that |T| exceeds a critical value, T with these degrees of freedom and this noncentrality.
fn power(freedom: f64, noncentrality: f64, critical: f64) -> Option<f64> {
    let normal = Normal::new(0.0, 1.0).ok()?;
    let log_scale = std::f64::consts::LN_2 + freedom / 2.0 * (freedom / 2.0).ln() - ln_gamma(freedom / 2.0);
    // At a sample deviation of `s` times the true one.
    let integrand = |s: f64| {
        let density = match s {
            0.0 if freedom > 1.0 => 0.0,
            0.0 => log_scale.exp(),
            _ => (log_scale + (freedom - 1.0) * s.ln() - freedom * s * s / 2.0).exp(),
        };
        density * (normal.cdf(noncentrality - critical * s) + normal.cdf(-noncentrality - critical * s))
    };
    let end = 1.0 + 12.0 / freedom.sqrt();
    let step = end / PANELS as f64;
    let weight = |index: usize| match index {
        0 | PANELS => 1.0,
        index if index % 2 == 1 => 4.0,
        _ => 2.0,
    };
    let sum: f64 = (0..=PANELS).map(|index| weight(index) * integrand(index as f64 * step)).sum();
    Some(sum * step / 3.0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// R's manual of `power.t.test`: n = 20, delta = 1, sd = 1 has the power 0.8689528; power 0.9 needs n = 22.02110.
    /// Both of two groups, so with 2 n - 2 degrees of freedom and the noncentrality sqrt(n / 2).
    #[test]
    fn power_of_r() {
        for (n, expected) in [(20.0, 0.868_952_8), (22.021_10, 0.9)] {
            let freedom = 2.0 * n - 2.0;
            let critical = StudentsT::new(0.0, 1.0, freedom).unwrap().inverse_cdf(0.975);
            let found = power(freedom, f64::sqrt(n / 2.0), critical).unwrap();
            assert!((found - expected).abs() < 2e-6, "{found}, {expected}");
        }
    }

    /// Without a difference the power is the level.
    #[test]
    fn without_a_difference_the_power_is_the_level() {
        for (freedom, critical) in [(1.0, 12.706_204_7), (2.0, 4.302_652_7), (9.0, 2.262_157_2)] {
            let found = power(freedom, 0.0, critical).unwrap();
            assert!((found - 0.05).abs() < 1e-4, "{freedom}: {found}");
        }
    }

    #[test]
    fn more_seeds_detect_less_and_one_detects_nothing() {
        let found = |n| detectable(n, 0.01, 0.05);
        assert_eq!(found(1), None);
        assert!(found(2) > found(3) && found(3) > found(10));
        // Known deviations would detect (1.96 + 0.84) sd / sqrt(n).
        let many = found(400).unwrap();
        assert!((many - 2.8016 * 0.01 / 20.0).abs() < 1e-5, "{many}");
    }
}
