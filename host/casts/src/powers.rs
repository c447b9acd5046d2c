//! Powers of two as f32, and logarithms to base 2, exact.

/// `2^-128`: the least decode scale whose reciprocal is finite but for rounding, which is the largest f32.
pub(crate) const LEAST_DECODE: f32 = f32::from_bits(1 << 21);

/// `floor(log2 |x|)` of a finite number that is not 0, subnormals included.
#[inline(always)]
pub(crate) fn floor_log2(x: f32) -> i32 {
    // Exact: every f32 but 0 is a normal f64.
    (f64::from(x).to_bits() >> 52 & 0x7ff) as i32 - 1023
}

/// `ceil(log2 x)` of a finite number above 0.
#[inline(always)]
pub(crate) fn ceil_log2(x: f32) -> i32 {
    let is_power = f64::from(x).to_bits() & ((1 << 52) - 1) == 0;
    floor_log2(x) + i32::from(!is_power)
}

/// `2^e` for `-1022 <= e <= 1023`.
#[inline(always)]
pub(crate) fn wide_exp2(e: i32) -> f64 {
    f64::from_bits(((e + 1023) as u64) << 52)
}

/// `2^e` for `-149 <= e <= 127`, subnormals included.
#[inline(always)]
pub(crate) fn exp2(e: i32) -> f32 {
    f64::from_bits(((e + 1023) as u64) << 52) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_exact_beside_powers_of_two() {
        for e in -149..=127 {
            let power = exp2(e);
            assert_eq!((floor_log2(power), ceil_log2(power)), (e, e));
            if e > -126 {
                let below = f32::from_bits(power.to_bits() - 1);
                let above = f32::from_bits(power.to_bits() + 1);
                assert_eq!((floor_log2(below), ceil_log2(below)), (e - 1, e));
                assert_eq!((floor_log2(above), ceil_log2(above)), (e, e + 1));
            }
        }
        assert_eq!(exp2(-127).to_bits(), 0x0040_0000);
        assert_eq!((floor_log2(-3.0), ceil_log2(f32::from_bits(3))), (1, -147));
    }
}
