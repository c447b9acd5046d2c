//! Rounding to whole numbers without a conversion: Rust's conversion saturates, which takes longer than the rest of a
//! loop.

/// Added to a small number, it leaves a whole one in the low bits.
const SHIFT: f32 = 1.5 * (1 << 23) as f32;

/// The nearest whole number to `x`, ties to even, as f32 and as integer; |x| <= 2^22. Any number for NaN.
#[inline(always)]
pub(crate) fn round(x: f32) -> (f32, i32) {
    let shifted = x + SHIFT;
    (shifted - SHIFT, shifted.to_bits().wrapping_sub(SHIFT.to_bits()) as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_standard_library_rounds() {
        let near = (-2000..=2000).map(|i| i as f32 * 0.25);
        let far = [4_194_304.0, -4_194_304.0, 4_194_303.5, -4_194_303.5, 1e-30];
        for x in near.chain(far) {
            assert_eq!(round(x), (x.round_ties_even(), x.round_ties_even() as i32), "{x}");
        }
    }
}
