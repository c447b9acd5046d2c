//! Medians, quartiles and minima of times.

/// NaN without a time.
pub(super) fn median(times: &[f64]) -> f64 {
    altgrad_base::statistics::median(times.iter().copied()).unwrap_or(f64::NAN)
}

/// The medians of the lower and of the upper half; the middle one of an odd count belongs to both.
pub(super) fn quartiles(times: &[f64]) -> [f64; 2] {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len().div_ceil(2);
    [median(&sorted[..half]), median(&sorted[sorted.len() - half..])]
}

pub(super) fn least(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_the_medians_of_the_halves() {
        assert_eq!(quartiles(&[4.0, 1.0, 3.0, 2.0]), [1.5, 3.5]);
        assert_eq!(quartiles(&[5.0, 4.0, 1.0, 3.0, 2.0]), [2.0, 4.0]);
        assert_eq!(quartiles(&[7.0]), [7.0, 7.0]);
        assert!(quartiles(&[]).iter().all(|time| time.is_nan()));
    }
}
