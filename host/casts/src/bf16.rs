//! Rounding to bf16.

/// The nearest bf16 value, ties to even. A NaN becomes quiet and keeps its sign and the upper bits of its payload.
#[inline(always)]
#[must_use]
pub fn nearest_bf16(x: f32) -> f32 {
    let bits = x.to_bits();
    let is_nan = bits & 0x7fff_ffff > 0x7f80_0000;
    let rounded = if is_nan { bits | 0x0040_0000 } else { bits + 0x7fff + (bits >> 16 & 1) };
    f32::from_bits(rounded & 0xffff_0000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_go_to_even_and_nan_stays() {
        let cases = [
            (1.0, 1.0),
            (-0.0, -0.0),
            // One and half a step of 2^-7: to even; and a little more: up.
            (1.0 + 2f32.powi(-8), 1.0),
            (-1.0 - 3.0 * 2f32.powi(-8), -1.0 - 2f32.powi(-6)),
            (1.0 + 2f32.powi(-8) + 2f32.powi(-20), 1.0 + 2f32.powi(-7)),
            (f32::MAX, f32::INFINITY),
            (f32::NEG_INFINITY, f32::NEG_INFINITY),
            // Half of the smallest value, and one and a half of it.
            (f32::from_bits(0x0000_8000), 0.0),
            (f32::from_bits(0x0001_8000), f32::from_bits(0x0002_0000)),
        ];
        for (x, expected) in cases {
            assert_eq!(nearest_bf16(x).to_bits(), expected.to_bits(), "{x}");
        }
        // Quiet, and none of the bits that bf16 lacks.
        assert_eq!(nearest_bf16(f32::from_bits(0x7f80_0001)).to_bits(), 0x7fc0_0000);
        assert_eq!(nearest_bf16(f32::from_bits(0xffff_ffff)).to_bits(), 0xffff_0000);
    }

    /// Every upper half of an f32 and the lower halves around the tie: among them all infinities and NaNs, quiet and
    /// signalling.
    #[test]
    fn the_bits_are_those_of_another_implementation() {
        let expected = |bits: u32| half::bf16::from_f32(f32::from_bits(bits)).to_f32().to_bits();
        for high in 0..=0xffff_u32 {
            for low in [0, 1, 0x4000, 0x7fff, 0x8000, 0x8001, 0xc000, 0xffff] {
                let bits = high << 16 | low;
                assert_eq!(nearest_bf16(f32::from_bits(bits)).to_bits(), expected(bits), "{bits:08x}");
            }
        }
    }
}
