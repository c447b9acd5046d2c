//! The exponential function, without branches, so that loops around it use SIMD registers.

use crate::whole::round;

/// Largest argument: `e^87` is near f32's largest number.
const LIMIT: f32 = 87.0;
/// `ln 2` in two parts: the first has few bits, so that its multiples are exact.
const LN2_HIGH: f32 = 0.693_359_4;
const LN2_LOW: f32 = -2.121_944_4e-4;

/// `n` and `t` with `x = n ln 2 + t`, |t| at most half of `ln 2`: 2^n as bits can be added to, and its exponent. |x| is
/// [`LIMIT`] at most; of NaN, t is NaN.
#[inline(always)]
fn reduced(x: f32) -> (i32, f32) {
    let (n, integer) = round(x * std::f32::consts::LOG2_E);
    (integer, (x - n * LN2_HIGH) - n * LN2_LOW)
}

/// `2^n`, -126 <= n <= 127.
#[inline(always)]
fn power(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

/// `cosh t - 1` and `sinh t` for |t| <= 0.35 by Taylor's series: the first terms left out are below 1e-8 of the sums.
#[inline(always)]
fn even_and_odd(t: f32) -> (f32, f32) {
    let square = t * t;
    let even = square * (1.0 / 2.0 + square * (1.0 / 24.0 + square * (1.0 / 720.0)));
    let odd = square * (1.0 / 6.0 + square * (1.0 / 120.0 + square * (1.0 / 5040.0)));
    (even, t + t * odd)
}

/// `e^x`; exactly 1 at 0. Beyond 87, as at 87.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    let (n, t) = reduced(x.clamp(-LIMIT, LIMIT));
    let (even, odd) = even_and_odd(t);
    let power = power(n);
    power + power * (odd + even)
}

/// `e^x` and `sinh x`; near 0 the latter is as exact as x. |x| is 87 at most.
#[inline(always)]
pub(crate) fn exp_and_sinh(x: f32) -> (f32, f32) {
    let (n, t) = reduced(x);
    let (even, odd) = even_and_odd(t);
    let (up, down) = (power(n), power(-n));
    // sinh(n ln 2) cosh t + cosh(n ln 2) sinh t: the first is exactly zero for n = 0.
    let (sinh, cosh) = (0.5 * (up - down), 0.5 * (up + down));
    (up + up * (odd + even), (sinh + sinh * even) + cosh * odd)
}

/// Up to which |x| there is nothing to reduce; below half of `ln 2`, so that x over ln 2 rounds to 0.
pub(crate) const NEAR: f32 = 0.34;

/// Bit-identical to [`exp_and_sinh`], for |x| <= [`NEAR`] or a little more.
#[inline(always)]
pub(crate) fn exp_and_sinh_near(x: f32) -> (f32, f32) {
    let (even, odd) = even_and_odd(x);
    (1.0 + (odd + even), odd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_standard_library_computes_in_f64() {
        for i in -86_999..=86_999 {
            let x = i as f32 * 1e-3;
            let wide = f64::from(x);
            let (exp, sinh) = exp_and_sinh(x);
            assert_eq!(exp, super::exp(x));
            assert!((f64::from(exp) / wide.exp() - 1.0).abs() < 3e-7, "e^{x}");
            assert!((f64::from(sinh) - wide.sinh()).abs() <= 3e-7 * wide.sinh().abs(), "sinh {x}");
        }
        assert_eq!((exp(0.0), exp_and_sinh(0.0)), (1.0, (1.0, 0.0)));
        assert_eq!(exp_and_sinh(1e-20).1, 1e-20);
        assert!(exp(f32::NAN).is_nan() && exp_and_sinh(f32::NAN).1.is_nan());
    }
}
