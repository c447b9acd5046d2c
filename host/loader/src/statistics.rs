//! Plausibility of a call's statistics, in negligible time: the conformance suite recomputes them.

use altgrad_plugin_api::QuantStats;

/// A statistic that no tensor of that many elements can have; rounding errors of sums are allowed. A scale that is NaN
/// makes values and their errors NaN.
pub(crate) fn impossible(stats: &QuantStats, elements: u64, scales: &[[f32; 2]]) -> Option<String> {
    let found = impossible_values(stats, elements)?;
    let is_poisoned = scales.iter().any(|[scale, _]| scale.is_nan());
    let others = QuantStats { sum_err2: 0.0, sum_x_xhat: 0.0, ..*stats };
    if is_poisoned { impossible_values(&others, elements) } else { Some(found) }
}

fn impossible_values(stats: &QuantStats, elements: u64) -> Option<String> {
    let QuantStats { overflow, underflow, nan, nonzero, amax, sum_x2, sum_err2, sum_x_xhat } = *stats;
    let counts = [
        ("overflows", overflow),
        ("underflows", underflow),
        ("NaN", nan),
        ("elements other than 0", nonzero),
    ];
    if let Some((what, count)) = counts.into_iter().find(|(_, count)| *count > elements) {
        return Some(format!("{count} {what} among {elements} elements"));
    }
    if underflow.saturating_add(nan) > nonzero {
        return Some(format!("{underflow} underflows and {nan} NaN among {nonzero} elements other than 0"));
    }
    if !(0.0..f32::INFINITY).contains(&amax) {
        return Some(format!("the largest finite magnitude is {amax}"));
    }
    let sums = [("squares", sum_x2), ("squared errors", sum_err2)];
    if let Some((what, sum)) = sums.into_iter().find(|(_, sum)| *sum < 0.0 || sum.is_nan()) {
        return Some(format!("the sum of {what} is {sum}"));
    }
    let largest = f64::from(amax) * f64::from(amax) * elements as f64;
    (sum_x2 > largest * (1.0 + 1e-5) || sum_x_xhat.is_nan())
        .then(|| format!("the sums are {sum_x2:e} and {sum_x_xhat:e}, with amax {amax:e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_statistics_are_named_and_those_of_real_values_are_possible() {
        let mut real = QuantStats::default();
        for (x, rounded) in
            [(0.0, 0.0), (1e-9, 0.0), (f32::NAN, f32::NAN), (f32::INFINITY, 3.0), (-2.4, -2.0)]
        {
            real.add(x, rounded, x == f32::INFINITY);
        }
        assert_eq!(impossible(&real, 5, &[[1.0, 1.0]]), None);
        assert_eq!(impossible(&QuantStats::default(), 0, &[]), None);
        let mut poisoned = real;
        poisoned.add(1.0, f32::NAN, false);
        assert!(impossible(&poisoned, 6, &[[1.0, 1.0]]).is_some());
        assert_eq!(impossible(&poisoned, 6, &[[1.0, 1.0], [f32::NAN, f32::NAN]]), None);
        type Change = fn(&mut QuantStats);
        let wrong: [(Change, &str); 6] = [
            (|stats| stats.overflow = 6, "6 overflows among 5 elements"),
            (|stats| stats.underflow = 4, "4 underflows and 1 NaN among 4 elements other than 0"),
            (|stats| stats.amax = f32::NAN, "the largest finite magnitude is NaN"),
            (|stats| stats.sum_err2 = -1.0, "the sum of squared errors is -1"),
            (|stats| stats.sum_x2 = f64::NAN, "the sum of squares is NaN"),
            (|stats| stats.sum_x2 = 30.0, "the sums are 3e1 and"),
        ];
        for (change, what) in wrong {
            let mut stats = real;
            change(&mut stats);
            let said = impossible(&stats, 5, &[[1.0, 1.0]]).unwrap_or_default();
            assert!(said.starts_with(what), "{said}");
        }
    }
}
