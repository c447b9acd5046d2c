//! A mean over random draws with its standard error.

/// The mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Mean over the draws; NaN without any.
    pub mean: f64,
    /// Its standard error; unknown with fewer than two draws.
    pub standard_error: Option<f64>,
}

impl Estimate {
    /// The estimate from independent draws.
    #[must_use]
    pub fn of(draws: &[f64]) -> Self {
        let n = draws.len() as f64;
        let mean = draws.iter().sum::<f64>() / n;
        let squares: f64 = draws.iter().map(|draw| (draw - mean).powi(2)).sum();
        Self { mean, standard_error: (n > 1.0).then(|| (squares / (n * (n - 1.0))).sqrt()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_standard_error_by_hand() {
        assert_eq!(
            Estimate::of(&[1.0, 2.0, 3.0, 6.0]),
            Estimate { mean: 3.0, standard_error: Some(f64::sqrt(14.0 / 12.0)) }
        );
        assert_eq!(Estimate::of(&[5.0]), Estimate { mean: 5.0, standard_error: None });
        assert!(Estimate::of(&[]).mean.is_nan());
    }
}
