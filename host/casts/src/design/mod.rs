//! Tables of values for observed distributions: those of the least expected error, and those at quantiles.
//!
//! Elements are rounded to the nearest value of a table. The expected squared error is least where each value is the
//! mean of the elements that are rounded to it (Lloyd, 1957; Max, 1960, "Quantizing for minimum distortion"). The best
//! table of a distribution in bins is found by dynamic programming over the bins, and then moved to that condition. The
//! objective of gradients also counts the bias of rounding, and is lowered one value at a time from there.

mod best;
mod distribution;
mod log_grid;

pub use distribution::{Distribution, Grade};
pub use log_grid::LogGrid;

use best::{lloyd_max, lower, partition};

/// What a table minimizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableObjective {
    /// Noise over signal: the expected squared error over the expected square.
    Sqnr,
    /// Noise over signal, plus the squared share of magnitude in elements that become zero, plus the squared mean error
    /// of magnitudes over their mean.
    Gradient,
}

impl TableObjective {
    /// The value that is minimized.
    #[must_use]
    pub fn of(self, grade: &Grade) -> f64 {
        match self {
            Self::Sqnr => grade.noise,
            Self::Gradient => grade.noise + grade.zeroed * grade.zeroed + grade.shrinkage * grade.shrinkage,
        }
    }
}

/// The form of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// Bits of a code.
    pub bits: u32,
    /// True if each value has its negative. The table then has `2^(bits-1)` magnitudes, and zero, if it is one, two
    /// codes.
    pub symmetric: bool,
    /// True if zero is a value.
    pub zero: bool,
}

/// The values of the best table of a form, ascending; magnitudes, if it is symmetric.
#[must_use]
pub fn design(distribution: &Distribution, form: Form, objective: TableObjective) -> Vec<f64> {
    let folded;
    let (of, count) = if form.symmetric {
        folded = distribution.folded();
        (&folded, 1usize << (form.bits - 1))
    } else {
        (distribution, 1usize << form.bits)
    };
    let mut values = partition(of, count);
    lloyd_max(of, &mut values, form.zero);
    if objective != TableObjective::Sqnr {
        lower(of, &mut values, form.zero, objective);
    }
    values
}

/// The value of each code: sign and magnitude if the table is symmetric.
#[must_use]
pub fn codes(values: &[f64], form: Form) -> Vec<f32> {
    let positive = values.iter().map(|value| *value as f32);
    if form.symmetric {
        positive.clone().chain(positive.map(|value| -value)).collect()
    } else {
        positive.collect()
    }
}

/// Values at these quantiles of a distribution, ascending, divided by the largest magnitude; zero at one half.
/// NormalFloat has quantiles of the Gaussian that are evenly spaced on each side of zero (arXiv:2305.14314).
#[must_use]
pub fn at_quantiles(distribution: &Distribution, probabilities: &[f64]) -> Vec<f64> {
    let quantile = |p: &f64| if *p == 0.5 { 0.0 } else { distribution.quantile(*p) };
    let values: Vec<f64> = probabilities.iter().map(quantile).collect();
    let most = values.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
    values.iter().map(|value| value / most).collect()
}

/// The probabilities of NormalFloat with this many bits: from half of a step beyond the outermost of `2^(bits-1) - 1`
/// and `2^(bits-1)` even steps to one half, which is zero.
#[must_use]
pub fn normal_float(bits: u32) -> Vec<f64> {
    let half = 1usize << (bits - 1);
    // The mean of 1 - 1/(2 (2 half - 1)) and 1 - 1/(4 half), as the authors' code has it: 0.9677083 for four bits.
    let outer = 1.0 - (1.0 / (2.0 * (2.0 * half as f64 - 1.0)) + 1.0 / (4.0 * half as f64)) / 2.0;
    let side =
        |steps: usize| (0..steps).map(move |step| (outer - 0.5) * (steps - step) as f64 / steps as f64);
    let mut below: Vec<f64> = side(half - 1).map(|distance| 0.5 - distance).collect();
    below.push(0.5);
    let mut above: Vec<f64> = side(half).map(|distance| 0.5 + distance).collect();
    above.reverse();
    below.extend(above);
    below
}

#[cfg(test)]
mod tests;
