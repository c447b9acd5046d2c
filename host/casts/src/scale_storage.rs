//! Scales as bytes: E8M0, and E4M3 under a scale of the whole tensor.

use crate::powers::exp2;

/// Largest finite E4M3 number (OCP OFP8 section 5.2).
pub(crate) const E4M3_MAX: f32 = 448.0;

/// The code of NaN as E8M0 (OCP MX v1.0 section 5.4.1).
pub(crate) const E8M0_NAN: u8 = 255;

/// The code of NaN as E4M3.
pub(crate) const E4M3_NAN: u8 = 0x7f;

/// The E8M0 code of `2^e`, `e` being clamped to -127 to 127, and its value. `2^-127` is an f32 subnormal.
#[inline(always)]
pub(crate) fn e8m0(e: i32) -> (u8, f32) {
    let e = e.clamp(-127, 127);
    ((e + 127) as u8, exp2(e))
}

/// The E4M3 code nearest to a number from 0 to 448, ties to even, and its value. Subnormals down to `2^-9` and 0 are
/// kept.
#[inline(always)]
pub(crate) fn e4m3(x: f32) -> (u8, f32) {
    /// `1 - bias`: exponent of the smallest normal number.
    const EMIN: i32 = -6;
    /// Added to a number from 0 to 16 it leaves a whole number, ties to even. Many CPUs have no instruction that rounds
    /// so.
    const WHOLE: f32 = (1u64 << 23) as f32;
    let x = x.clamp(0.0, E4M3_MAX);
    let exponent = ((x.to_bits() >> 23) as i32 - 127).max(EMIN);
    // Multiplying by a power of two is exact; the whole numbers below 16 are significands.
    let steps = x * exp2(3 - exponent) + WHOLE - WHOLE;
    // Steps carry into the next binade: 16 steps of one are 8 of the next, and codes count on.
    let code = (exponent - EMIN) * 8 + steps as i32;
    (code as u8, steps * exp2(exponent - 3))
}

#[cfg(test)]
mod tests {
    use altgrad_plugin_api::{Domain, QuantParams, Tabulated, grid};

    use super::*;

    #[test]
    fn e8m0_is_clamped_to_its_codes() {
        assert_eq!(e8m0(0), (127, 1.0));
        assert_eq!(e8m0(-200), (0, f32::from_bits(0x0040_0000)));
        assert_eq!(e8m0(200), (254, 2f32.powi(127)));
        assert_eq!(e8m0(-126), (1, f32::MIN_POSITIVE));
    }

    #[test]
    fn e4m3_is_the_nearest_of_the_formats_codes() {
        let spec = grid::minifloat(4, 3, Domain::FN).unwrap();
        let grid = grid::MinifloatGrid::new(spec).unwrap();
        let table = Tabulated::new((0..256).map(|code| grid.decode(code))).unwrap();
        let mut state = 1u32;
        let random = (0..20_000).map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // Exponents from 2^-14 to 2^8.
            f32::from_bits((113 << 23) + state % (22 << 23))
        });
        // Values, the middles between them, and their neighbours.
        let edges = (0..0x7e).flat_map(|code| {
            let (a, b) = (grid.decode(code), grid.decode(code + 1));
            [a, (a + b) / 2.0, ((a + b) / 2.0).next_up(), ((a + b) / 2.0).next_down(), b]
        });
        for x in random.chain(edges).filter(|x| *x <= 448.0) {
            let mut code = [0];
            table.encode(&[x], &mut code, &QuantParams::IDENTITY).unwrap();
            assert_eq!(e4m3(x), (code[0] as u8, grid.decode(code[0])), "{x:e}");
        }
        assert_eq!((e4m3(0.0), e4m3(1e9)), ((0, 0.0), (0x7e, 448.0)));
    }
}
