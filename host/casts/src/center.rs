//! Mean-residual splitting (arXiv:2603.10444): the mean over the tokens of a matrix, which is rounded by itself, and
//! what is left.
//!
//! Outliers of activations are mostly such a mean. With `X = 1 m + R` the values of the cast are those of `R` plus
//! those of `m`, so that a product with them is that of the rounded residuals plus that of the rounded mean.

use altgrad_plugin_api::RandomKey;

use crate::{Axis, Shape};

/// Element at which the random words of means begin; no tensor has as many elements.
const MEAN_OFFSET: u64 = 1 << 61;

/// A matrix without its mean.
#[derive(Debug, Clone, PartialEq)]
pub struct Centered {
    /// `fl(x - m)`, row-major.
    pub residuals: Vec<f32>,
    /// The mean of each line: of each column for [`Axis::Columns`].
    pub mean: Vec<f32>,
}

impl Centered {
    /// Subtracts the mean of the finite elements of each line along an axis. Sums are f64, element by element.
    #[must_use]
    pub fn new(values: &[f32], shape: Shape, along: Axis) -> Self {
        let mean = means(values, shape, along);
        let mut residuals = values.to_vec();
        Self::change(&mut residuals, &mean, shape, along, |x, m| x - m);
        Self { residuals, mean }
    }

    /// Adds the mean's values to those of the residuals.
    pub fn add(values: &mut [f32], mean: &[f32], shape: Shape, along: Axis) {
        Self::change(values, mean, shape, along, |x, m| x + m);
    }

    /// Combines each element with the mean of its line.
    fn change(values: &mut [f32], mean: &[f32], shape: Shape, along: Axis, of: impl Fn(f32, f32) -> f32) {
        for (row, values) in values.chunks_mut(shape.columns.max(1)).enumerate() {
            match along {
                Axis::Rows => values.iter_mut().for_each(|x| *x = of(*x, mean[row])),
                Axis::Columns => values.iter_mut().zip(mean).for_each(|(x, mean)| *x = of(*x, *mean)),
            }
        }
    }

    /// The key of the random words of the mean's cast, those of the residuals having `key`.
    #[must_use]
    pub fn key_of_mean(key: &RandomKey) -> RandomKey {
        RandomKey { offset: key.offset.wrapping_add(MEAN_OFFSET), ..*key }
    }
}

/// The mean of the finite elements of each line, 0 without any. Each sum is f64, in the order of its elements.
fn means(values: &[f32], shape: Shape, along: Axis) -> Vec<f32> {
    let rows = values.chunks(shape.columns.max(1));
    // A number that is not finite adds 0.
    let part = |x: f32| if x.is_finite() { (f64::from(x), 1) } else { (0.0, 0) };
    let mut sums = vec![(0f64, 0u32); if along == Axis::Rows { shape.rows } else { shape.columns }];
    for (row, values) in rows.enumerate() {
        match along {
            Axis::Rows => {
                let sum = values.iter().map(|x| part(*x));
                sums[row] = sum.fold((0.0, 0), |(sum, count), (x, one)| (sum + x, count + one));
            }
            Axis::Columns => {
                for ((sum, count), (x, one)) in sums.iter_mut().zip(values.iter().map(|x| part(*x))) {
                    (*sum, *count) = (*sum + x, *count + one);
                }
            }
        }
    }
    sums.into_iter().map(|(sum, count)| (sum / f64::from(count.max(1))) as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { rows: 2, columns: 3 };

    #[test]
    fn the_mean_is_that_of_finite_elements_along_the_axis() {
        let x = [1.0, 2.0, f32::INFINITY, 3.0, -2.0, 8.0];
        let over_rows = Centered::new(&x, SHAPE, Axis::Columns);
        assert_eq!(over_rows.mean, [2.0, 0.0, 8.0]);
        assert_eq!(over_rows.residuals, [-1.0, 2.0, f32::INFINITY, 1.0, -2.0, 0.0]);
        let within_rows = Centered::new(&x, SHAPE, Axis::Rows);
        assert_eq!(within_rows.mean, [1.5, 3.0]);
        assert_eq!(within_rows.residuals[3..], [0.0, -5.0, 5.0]);
        for (centered, along) in [(over_rows, Axis::Columns), (within_rows, Axis::Rows)] {
            let mut values = centered.residuals;
            Centered::add(&mut values, &centered.mean, SHAPE, along);
            assert_eq!(values, x);
        }
    }

    /// The two terms of the product of a weight's gradient that vanish: residuals sum to zero over tokens.
    #[test]
    fn residuals_sum_to_zero() {
        let x: Vec<f32> = (0..6).map(|i| (i * i) as f32).collect();
        let Centered { residuals, .. } = Centered::new(&x, SHAPE, Axis::Columns);
        assert!((0..3).all(|column| residuals[column] + residuals[column + 3] == 0.0));
    }
}
