//! Statistics of the gradients of single sequences: the empirical Fisher trace and the gradient noise scale.
//!
//! An example is a sequence, and its loss the mean over its tokens.

use std::ops::Range;

/// The gradient noise scale (arXiv:1812.06162, appendix A.1), from gradients of one sequence and of all.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NoiseScale {
    /// Estimate of the squared norm of the true gradient; may be negative if there are few sequences.
    pub gradient_square: f64,
    /// Estimate of the trace of the covariance of sequences' gradients.
    pub covariance_trace: f64,
}

impl NoiseScale {
    /// The quotient of trace and squared norm, sequences: the batch size at which noise and gradient are equal in norm.
    /// Unknown if the estimate of the squared norm is not positive.
    #[must_use]
    pub fn sequences(&self) -> Option<f64> {
        (self.gradient_square > 0.0).then(|| self.covariance_trace / self.gradient_square)
    }
}

/// Sums over gradients of sequences, `[n]` each.
#[derive(Debug)]
pub struct SequenceGradients {
    sum: Vec<f64>,
    /// The sum of squared norms of each range.
    squares: Vec<f64>,
    ranges: Vec<Range<usize>>,
    count: u64,
}

impl SequenceGradients {
    /// Empty sums. `ranges` are the parameters whose traces are computed; together they contain all `n` elements.
    #[must_use]
    pub fn new(n: usize, ranges: Vec<Range<usize>>) -> Self {
        Self { sum: vec![0.0; n], squares: vec![0.0; ranges.len()], ranges, count: 0 }
    }

    /// Adds the gradient of a sequence.
    pub fn add(&mut self, gradient: &[f32]) {
        self.count += 1;
        self.sum.iter_mut().zip(gradient).for_each(|(sum, g)| *sum += f64::from(*g));
        for (square, range) in self.squares.iter_mut().zip(&self.ranges) {
            *square += gradient[range.clone()].iter().map(|g| f64::from(*g).powi(2)).sum::<f64>();
        }
    }

    /// Sequences added.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The trace of the empirical Fisher matrix of each range: the mean squared norm of its gradient.
    #[must_use]
    pub fn fisher_traces(&self) -> Vec<f64> {
        self.squares.iter().map(|square| square / self.count as f64).collect()
    }

    /// The noise scale; unknown with fewer than two sequences.
    #[must_use]
    pub fn noise_scale(&self) -> Option<NoiseScale> {
        let n = self.count as f64;
        let single: f64 = self.fisher_traces().iter().sum();
        let all: f64 = self.sum.iter().map(|sum| (sum / n).powi(2)).sum();
        (self.count > 1).then(|| NoiseScale {
            gradient_square: (n * all - single) / (n - 1.0),
            covariance_trace: (single - all) / (1.0 - 1.0 / n),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fisher_trace_and_noise_scale_by_hand() {
        let mut gradients = SequenceGradients::new(2, vec![0..1, 1..2]);
        assert_eq!(gradients.noise_scale(), None);
        gradients.add(&[3.0, 0.0]);
        gradients.add(&[1.0, 2.0]);
        assert_eq!(gradients.fisher_traces(), [5.0, 2.0]);
        // Mean squared norm 7, the mean gradient (2, 1): its square 5. Covariance with n - 1: 2 and 2.
        let noise = gradients.noise_scale();
        assert_eq!(noise, Some(NoiseScale { gradient_square: 3.0, covariance_trace: 4.0 }));
        assert_eq!(noise.and_then(|noise| noise.sequences()), Some(4.0 / 3.0));
        let hidden = NoiseScale { gradient_square: -0.1, covariance_trace: 1.0 };
        assert_eq!(hidden.sequences(), None);
    }
}
