//! The spacing of a grid, and its sum over a parameter.

use multiversion::multiversion;

/// The spacing of a set of values. Arguments are in stored units.
pub trait Geometry {
    /// S(x): the gap to the next value away from zero.
    fn spacing(&self, x: f32) -> f32;
    /// log2 of [`Self::spacing`].
    fn log2_spacing(&self, x: f32) -> f32;
}

/// Partial sums: element i goes to sum `i % LANES`, and they are added in order.
const LANES: usize = 16;
/// Elements after which partial sums are added up: whole numbers up to 2^16 stay exact in f32.
const BLOCK: usize = LANES << 8;

/// Sum of `log2 S(scale * w)` over a parameter.
#[multiversion(targets(
    "x86_64+avx2+avx512f+avx512bw+avx512cd+avx512dq+avx512vl+bmi1+bmi2+fma",
    "x86_64+avx2+bmi1+bmi2+fma"
))]
pub(crate) fn sum_log2_spacing<G: Geometry>(geometry: &G, scale: f32, param: &[f32]) -> f64 {
    let mut sum = 0.0;
    for block in param.chunks(BLOCK) {
        let (groups, rest) = block.as_chunks::<LANES>();
        let mut lanes = [0f32; LANES];
        for group in groups {
            let logs = group.map(|w| geometry.log2_spacing(scale * w));
            for (lane, log) in lanes.iter_mut().zip(logs) {
                *lane += log;
            }
        }
        for (lane, w) in lanes.iter_mut().zip(rest) {
            *lane += geometry.log2_spacing(scale * w);
        }
        sum += lanes.iter().map(|&lane| f64::from(lane)).sum::<f64>();
    }
    sum
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_plugin_api::{
        Domain,
        grid::{MinifloatGrid, minifloat},
    };

    use super::*;
    use crate::{codes::Codes, testing::numbers};

    #[test]
    fn the_mean_spacing_is_that_of_exponents() {
        let grid = MinifloatGrid::new(minifloat(4, 3, Domain::FN).unwrap()).unwrap();
        let param = numbers(9, 100_001);
        let expected: f64 = param.iter().map(|&w| grid.spacing(f64::from(w * 7.3)).log2()).sum();
        assert_eq!(sum_log2_spacing(&Codes::new(&grid).unwrap(), 7.3, &param), expected);
    }
}
