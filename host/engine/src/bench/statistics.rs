//! Medians and minima of times.

/// NaN without a time.
pub(super) fn median(times: &[f64]) -> f64 {
    altgrad_base::statistics::median(times.iter().copied()).unwrap_or(f64::NAN)
}

pub(super) fn least(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
}
