//! The exponential function, without branches, so that loops around it use SIMD registers.

use crate::whole::round;

/// Largest argument: `e^87` is near f32's largest number.
const LIMIT: f32 = 87.0;
/// `ln 2` in two parts: the first has few bits, so that its multiples are exact.
const LN2_HIGH: f32 = 0.693_359_4;
const LN2_LOW: f32 = -2.121_944_4e-4;

/// `p` and `r` with `e^x = p * (1 + r)`, p a power of two and r between -0.3 and 0.42, exact to a few units in the last
/// place. |x| is [`LIMIT`] at most; NaN has r = NaN.
#[inline(always)]
fn parts(x: f32) -> (f32, f32) {
    let (n, integer) = round(x * std::f32::consts::LOG2_E);
    let t = (x - n * LN2_HIGH) - n * LN2_LOW;
    // Taylor's series of e^t - 1: the first term left out is below 2e-8 of the sum. In pairs, which do not wait for each other.
    let [second, fourth, sixth] =
        [[1.0 / 2.0, 1.0 / 6.0], [1.0 / 24.0, 1.0 / 120.0], [1.0 / 720.0, 1.0 / 5040.0]]
            .map(|[a, b]| a + t * b);
    let square = t * t;
    let r = t + square * (second + square * (fourth + square * sixth));
    (f32::from_bits((integer.wrapping_add(127) as u32) << 23), r)
}

/// `e^x`; exactly 1 at 0. Beyond 87, as at 87.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    let (power, r) = parts(x.clamp(-LIMIT, LIMIT));
    power + power * r
}

/// `e^x` and `e^x - 1`; near 0 the latter is as exact as x. |x| is 87 at most.
#[inline(always)]
pub(crate) fn exp_and_exp_m1(x: f32) -> (f32, f32) {
    let (power, r) = parts(x);
    (power + power * r, power * r + (power - 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_standard_library_computes_in_f64() {
        for i in -86_999..=86_999 {
            let x = i as f32 * 1e-3;
            let wide = f64::from(x);
            let (exp, exp_m1) = exp_and_exp_m1(x);
            assert!((f64::from(exp) / wide.exp() - 1.0).abs() < 3e-7, "e^{x}");
            assert!((f64::from(exp_m1) - wide.exp_m1()).abs() <= 3e-7 * wide.exp_m1().abs(), "e^{x} - 1");
        }
        assert_eq!((exp(0.0), exp_and_exp_m1(0.0)), (1.0, (1.0, 0.0)));
        assert_eq!(exp_and_exp_m1(1e-20).1, 1e-20);
        assert!(exp(f32::NAN).is_nan() && exp_and_exp_m1(f32::NAN).1.is_nan());
    }
}
