//! Products of a Hessian with vectors by central differences of gradients: its largest eigenvalue by power iteration,
//! its trace by Hutchinson's estimator.

use std::ops::Range;

use altgrad_base::{
    diagnostic::Diagnostic,
    random::{self, Stream},
};
use rand::RngExt;

use super::estimate::Estimate;

/// Displacement of the weights over 1 + their L2 norm. Truncation grows with its square, the rounding of gradients with
/// its inverse: at 2^-15 both are below 1e-3 of the largest eigenvalue of small GPTs, and truncation is tens of percent
/// at 2^-9.
pub const RELATIVE_STEP: f64 = 1.0 / 32768.0;
/// Relative change of the eigenvalue at which power iteration ends.
const TOLERANCE: f64 = 1e-3;
/// Residual, over the eigenvalue, above which the iteration continues. The change is also small near a smaller
/// eigenvalue if the start was near its direction.
const LARGEST_RESIDUAL: f64 = 1e-2;

/// The eigenvalue of largest magnitude.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Eigenvalue {
    /// Rayleigh quotient of the last direction, with its sign.
    pub value: f64,
    /// |Hv - value v| for that direction, of length 1.
    pub residual: f64,
    /// Number of computed products.
    pub iterations: u32,
    /// True if the last iteration changed the value by at most a thousandth, and the residual is at most a hundredth of
    /// it.
    pub converged: bool,
    /// The value over the one at half the displacement, minus 1: it measures the error of the differences.
    pub sensitivity: f64,
}

/// The Hessian of a loss at given weights.
pub struct Hessian<'a, G> {
    /// Gradient of the loss at any weights, `[n]` to `[n]`.
    gradient: G,
    /// `[n]`.
    weights: &'a [f32],
    /// Length of a displacement.
    step: f64,
}

impl<'a, G: FnMut(&[f32]) -> Result<Vec<f32>, Diagnostic>> Hessian<'a, G> {
    /// The Hessian at `weights`, with displacements of `relative_step` times 1 + their norm.
    pub fn new(gradient: G, weights: &'a [f32], relative_step: f64) -> Self {
        let norm = norm(weights.iter().copied().map(f64::from));
        Self { gradient, weights, step: relative_step * (1.0 + norm) }
    }

    /// `H v`, `[n]`.
    ///
    /// # Errors
    /// The error of the gradient.
    pub fn times(&mut self, v: &[f64]) -> Result<Vec<f64>, Diagnostic> {
        let length = norm(v.iter().copied());
        if length == 0.0 {
            return Ok(vec![0.0; v.len()]);
        }
        let h = self.step / length;
        let mut at = |h: f64| {
            let moved = self.weights.iter().zip(v).map(|(w, v)| (f64::from(*w) + h * v) as f32);
            (self.gradient)(&moved.collect::<Vec<f32>>())
        };
        let (up, down) = (at(h)?, at(-h)?);
        let difference = |(up, down): (&f32, &f32)| (f64::from(*up) - f64::from(*down)) / (2.0 * h);
        Ok(up.iter().zip(&down).map(difference).collect())
    }

    /// The eigenvalue of largest magnitude, from a random direction of `seed`, after at most `most` products; `None` if
    /// gradients are not finite or do not change.
    ///
    /// # Errors
    /// The error of the gradient.
    pub fn largest_eigenvalue(&mut self, seed: u64, most: u32) -> Result<Option<Eigenvalue>, Diagnostic> {
        let mut v = scaled(signs(seed, 0, self.weights.len()), 1.0 / (self.weights.len() as f64).sqrt());
        let mut found: Option<Eigenvalue> = None;
        for iterations in 1..=most {
            let product = self.times(&v)?;
            let value = dot(&v, &product);
            let residual = norm(product.iter().zip(&v).map(|(product, v)| product - value * v));
            let length = norm(product.iter().copied());
            if !length.is_normal() {
                return Ok(None);
            }
            let is_steady = found.is_some_and(|last| (value - last.value).abs() <= TOLERANCE * value.abs());
            let converged = is_steady && residual <= LARGEST_RESIDUAL * value.abs();
            found = Some(Eigenvalue { value, residual, iterations, converged, sensitivity: f64::NAN });
            if converged || iterations == most {
                break;
            }
            v = scaled(product, 1.0 / length);
        }
        let Some(found) = found else { return Ok(None) };
        self.step /= 2.0;
        let nearer = self.times(&v).map(|product| dot(&v, &product));
        self.step *= 2.0;
        Ok(Some(Eigenvalue { sensitivity: found.value / nearer? - 1.0, ..found }))
    }

    /// The trace of each of the diagonal blocks `ranges`, and of all: means of `v' H v` over `draws` vectors of random
    /// signs.
    ///
    /// # Errors
    /// The error of the gradient.
    pub fn traces(
        &mut self,
        seed: u64,
        draws: u32,
        ranges: &[Range<usize>],
    ) -> Result<(Vec<Estimate>, Estimate), Diagnostic> {
        let (mut blocks, mut whole) = (vec![Vec::new(); ranges.len()], Vec::new());
        for draw in 1..=u64::from(draws) {
            let v = signs(seed, draw, self.weights.len());
            let product = self.times(&v)?;
            for (block, range) in blocks.iter_mut().zip(ranges) {
                block.push(dot(&v[range.clone()], &product[range.clone()]));
            }
            whole.push(dot(&v, &product));
        }
        Ok((blocks.iter().map(|draws| Estimate::of(draws)).collect(), Estimate::of(&whole)))
    }
}

/// Random signs, `[n]`.
fn signs(seed: u64, draw: u64, n: usize) -> Vec<f64> {
    let mut generator = random::at(seed, Stream::Curvature, draw);
    (0..n).map(|_| if generator.random::<bool>() { 1.0 } else { -1.0 }).collect()
}

fn scaled(mut v: Vec<f64>, factor: f64) -> Vec<f64> {
    v.iter_mut().for_each(|x| *x *= factor);
    v
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn norm(v: impl Iterator<Item = f64>) -> f64 {
    v.map(|x| x * x).sum::<f64>().sqrt()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Differences of gradients of a quadratic are exact at any displacement, and a large one hides their rounding.
    const LARGE: f64 = 1.0 / 1024.0;

    /// Gradient of `w' A w / 2` with `A = R diag(spectrum) R`, where R reflects at the plane across `u`.
    fn quadratic(spectrum: &[f64]) -> impl Fn(&[f32]) -> Result<Vec<f32>, Diagnostic> {
        let n = spectrum.len();
        let u: Vec<f64> = (0..n).map(|i| (1.0 + i as f64).sin()).collect();
        let reflect = move |x: &[f64]| -> Vec<f64> {
            let factor = 2.0 * dot(&u, x) / dot(&u, &u);
            x.iter().zip(&u).map(|(x, u)| x - factor * u).collect()
        };
        let spectrum = spectrum.to_vec();
        move |w| {
            let inner = reflect(&w.iter().copied().map(f64::from).collect::<Vec<_>>());
            let inner: Vec<f64> = inner.iter().zip(&spectrum).map(|(x, value)| x * value).collect();
            Ok(reflect(&inner).into_iter().map(|x| x as f32).collect())
        }
    }

    #[test]
    fn eigenvalue_and_trace_of_a_quadratic_are_those_of_its_spectrum() {
        let spectrum: Vec<f64> = (0..60).map(|i| 0.5 * f64::from(i) / 59.0).chain([-9.0, 4.0]).collect();
        let weights: Vec<f32> = (0..spectrum.len()).map(|i| (i as f32).cos()).collect();
        let mut hessian = Hessian::new(quadratic(&spectrum), &weights, LARGE);
        let found = hessian.largest_eigenvalue(1, 100).unwrap().unwrap();
        assert!((found.value / -9.0 - 1.0).abs() < 2e-3 && found.converged, "{found:?}");
        assert!(found.sensitivity.abs() < 1e-4 && found.residual < 0.5, "{found:?}");
        let n = spectrum.len();
        let (blocks, whole) = hessian.traces(1, 400, &[0..n / 2, n / 2..n]).unwrap();
        let trace: f64 = spectrum.iter().sum();
        let error = whole.standard_error.unwrap();
        assert!((whole.mean - trace).abs() < 4.0 * error, "{whole:?}, {trace}");
        // Variance of a draw: 2 (|H|^2 - the squares of the diagonal), at most 2 |H|^2.
        let bound = (2.0 * dot(&spectrum, &spectrum) / 400.0).sqrt();
        assert!(error < 1.2 * bound, "{error} {bound}");
        assert!((blocks[0].mean + blocks[1].mean - whole.mean).abs() < 1e-9);
    }

    #[test]
    fn a_loss_without_curvature_has_no_eigenvalue() {
        let mut flat = Hessian::new(|w: &[f32]| Ok(vec![1.0; w.len()]), &[1.0, 2.0], LARGE);
        assert_eq!(flat.largest_eigenvalue(1, 5).unwrap(), None);
        assert_eq!(flat.times(&[0.0, 0.0]).unwrap(), [0.0, 0.0]);
        let mut broken = Hessian::new(|_: &[f32]| Ok(vec![f32::NAN; 2]), &[1.0, 2.0], LARGE);
        assert_eq!(broken.largest_eigenvalue(1, 5).unwrap(), None);
    }
}
