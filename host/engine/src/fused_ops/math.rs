//! Exponential function and normal distribution, without branches, so that loops around them use SIMD registers.

/// Arguments are clamped to these: results are then the smallest and the largest normal numbers.
const LOWEST: f32 = -87.3;
const HIGHEST: f32 = 88.3;
/// `ln 2` in two parts: the first has few bits, so that its multiples are exact.
const LN2_HIGH: f32 = 0.693_359_4;
const LN2_LOW: f32 = -2.121_944_4e-4;
/// Adding this to a number below 2^22 rounds it to an integer, in the low bits of the sum.
const WHOLE: f32 = 12_582_912.0;

/// `e^(x + rest)` for a `rest` far below 1: 2 ULP. Below -87.3 the smallest normal numbers; NaN stays NaN.
#[inline(always)]
pub(super) fn exp_of_sum(x: f32, rest: f32) -> f32 {
    let x = x.clamp(LOWEST, HIGHEST);
    let shifted = x * std::f32::consts::LOG2_E + WHOLE;
    let n = shifted - WHOLE;
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(1f32.to_bits()));
    let t = ((x - n * LN2_HIGH) - n * LN2_LOW) + rest;
    // Taylor's series: the first term left out is below 2e-8. In pairs, which do not wait for each other.
    let square = t * t;
    let [second, fourth, sixth] =
        [[1.0 / 2.0, 1.0 / 6.0], [1.0 / 24.0, 1.0 / 120.0], [1.0 / 720.0, 1.0 / 5040.0]]
            .map(|[a, b]| a + t * b);
    power + power * (t + square * (second + square * (fourth + square * sixth)))
}

/// `e^x`: 2 ULP.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    exp_of_sum(x, 0.0)
}

/// `Phi(-t) e^(t^2/2) / u` with `u = 1/(1 + 0.35 t)`, as a polynomial in u: least squares with Lawson's weights on 400
/// Chebyshev points of t in 0..14, relative error below 3.3e-8.
const TAIL: [f32; 9] = [
    0.139_621_4,
    0.139_861_9,
    0.119_832_71,
    0.105_508_66,
    -0.023_111_418,
    0.159_176_5,
    -0.255_716_32,
    0.143_972_71,
    -0.029_146_14,
];

/// From here on the tails are zero: they are below f32's normal numbers.
const FAR: f32 = 13.2;

/// The normal distribution at x, to 6 ULP where it is above 1e-37: `Phi(x)`, and its density over `Phi`'s slope at 0.
#[inline(always)]
pub(super) fn normal(x: f32) -> (f32, f32) {
    let t = if x.abs() > FAR { FAR } else { x.abs() };
    // t^2 in two parts: the first is exact.
    let high = f32::from_bits(t.to_bits() & 0xffff_f000);
    let bell = exp_of_sum(-0.5 * (high * high), -0.5 * ((t - high) * (t + high)));
    let bell = if t == FAR { 0.0 } else { bell };
    let u = 1.0 / (1.0 + 0.35 * t);
    let tail = TAIL.iter().rev().fold(0.0, |sum, term| sum * u + term) * u * bell;
    (if x < 0.0 { tail } else { 1.0 - tail }, bell)
}

/// `1/sqrt(2 pi)`: the normal density at 0.
pub(super) const DENSITY_AT_ZERO: f32 = 0.398_942_3;

/// GELU: `x Phi(x)`.
#[inline(always)]
pub(super) fn gelu(x: f32) -> f32 {
    x * normal(x).0
}

/// Its derivative: `Phi(x) + x phi(x)`.
#[inline(always)]
pub(super) fn gelu_derivative(x: f32) -> f32 {
    let (phi, bell) = normal(x);
    phi + x * (DENSITY_AT_ZERO * bell)
}

/// The logistic function: `1 / (1 + e^-x)`.
#[inline(always)]
pub(super) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ulps(found: f32, expected: f64) -> f64 {
        let spacing = f64::from((expected as f32).abs().max(f32::MIN_POSITIVE).next_up())
            - f64::from((expected as f32).abs().max(f32::MIN_POSITIVE));
        (f64::from(found) - expected).abs() / spacing
    }

    /// `Phi(-t)` for t >= 0 by a continued fraction or a series, in f64.
    fn lower_tail(t: f64) -> f64 {
        let density = (-0.5 * t * t).exp() / (2.0 * std::f64::consts::PI).sqrt();
        if t < 3.0 {
            // Phi(t) = 1/2 + density * (t + t^3/3 + t^5/15 + ...)
            let (mut term, mut sum) = (t, t);
            for n in 1..200 {
                term *= t * t / f64::from(2 * n + 1);
                sum += term;
            }
            return 0.5 - density * sum;
        }
        density / (1..400).rev().fold(t, |below, n| t + f64::from(n) / below)
    }

    #[test]
    fn exp_is_within_two_ulp() {
        let worst = (-87_000..=88_000).map(|i| i as f32 * 1e-3).map(|x| ulps(exp(x), f64::from(x).exp()));
        assert!(worst.fold(0.0, f64::max) < 2.0);
        assert_eq!(exp(0.0), 1.0);
        assert!(exp(f32::NAN).is_nan());
        assert!(exp(f32::NEG_INFINITY) < 2e-38 && exp(-1e9) < 2e-38);
    }

    #[test]
    fn sigmoid_is_within_three_ulp() {
        let exact = |x: f32| 1.0 / (1.0 + (-f64::from(x)).exp());
        let worst = (-87_000..=88_000).map(|i| i as f32 * 1e-3).map(|x| ulps(sigmoid(x), exact(x)));
        assert!(worst.fold(0.0, f64::max) < 3.0);
        assert!(sigmoid(-1e9) < 1e-37 && sigmoid(1e9) == 1.0 && sigmoid(f32::NAN).is_nan());
    }

    #[test]
    fn phi_is_within_six_ulp_into_its_tails() {
        for i in -12_800..=12_800 {
            let x = i as f32 * 1e-3;
            let tail = lower_tail(f64::from(x.abs()));
            let phi = if x < 0.0 { tail } else { 1.0 - tail };
            let found = normal(x).0;
            assert!(ulps(found, phi) < 6.0, "Phi({x}) = {found}, {phi}");
        }
    }

    #[test]
    fn gelu_at_the_ends() {
        assert_eq!((gelu(0.0), gelu_derivative(0.0)), (0.0, 0.5));
        assert_eq!((gelu(1e30), gelu_derivative(1e4)), (1e30, 1.0));
        assert!(gelu(-1e3).abs() < 1e-34 && gelu_derivative(-1e3).abs() < 1e-34);
        assert!(gelu(f32::NAN).is_nan() && gelu_derivative(f32::NAN).is_nan());
        assert_eq!(gelu(f32::INFINITY), f32::INFINITY);
    }
}
