//! The geometry of a minifloat by bit arithmetic: f32's own bits are a code coordinate, only finer.
//!
//! From `2^emin` on, the bits of an f32 count `2^(23-M)` steps a code, so going along the grid is adding integers,
//! exact to the last bit. Up to `2^(emin+1)` on either side of zero the grid is even, and going along it is adding f32
//! numbers. A step goes `2^(8+M) - 1` codes at most: from end to end, unless there are 8 exponent bits.

use altgrad_plugin_api::grid::MinifloatGrid;

use crate::{
    rule::{Chart, Geometry},
    whole::round,
};

/// Bits of an f32 that hold its exponent, its sign, and the value of its lowest exponent bit.
const EXPONENT: u32 = 0x7f80_0000;
pub(crate) const SIGN: u32 = 0x8000_0000;
const BINADE: u32 = 1 << 23;

/// A minifloat whose `emin` f32 has as a normal exponent.
#[derive(Debug, Clone, Copy)]
pub struct Codes {
    /// f32 bits of `2^emin`.
    emin_bits: u32,
    significand_bits: u32,
    /// `2^-M`.
    share: f32,
    /// Spacing below `2^(emin+1)`: `2^(emin-M)`.
    quantum: f32,
    /// `2^(emin+1)`.
    even_end: f32,
    /// Largest finite value.
    max: f32,
    /// Its fine coordinate.
    max_fine: i32,
    /// Fine steps per code: `2^(23-M)`, and its logarithm.
    fine_per_code: f32,
    fine_bits: u32,
    /// Codes a step at most.
    most: f32,
    /// A fine step below `2^(emin+1)`: `2^(emin-23)`.
    fine: f32,
}

/// `2^n`, -149 <= n <= 127.
pub(crate) fn exp2i(n: i32) -> f32 {
    2f64.powi(n) as f32
}

impl Codes {
    /// The geometry of a grid; `None` if `2^emin` is no normal f32.
    #[must_use]
    pub fn new(grid: &MinifloatGrid) -> Option<Self> {
        let (emin, m) = (grid.emin(), grid.spec().significand_bits as i32);
        if !(-126..=126).contains(&emin) {
            return None;
        }
        let mut codes = Self {
            emin_bits: exp2i(emin).to_bits(),
            significand_bits: m as u32,
            share: exp2i(-m),
            quantum: exp2i(emin - m),
            even_end: exp2i(emin + 1),
            max: grid.max_finite(),
            max_fine: 0,
            fine_per_code: exp2i(23 - m),
            fine_bits: 23 - m as u32,
            most: exp2i(8 + m) - 1.0,
            fine: exp2i(emin - 23),
        };
        codes.max_fine = codes.fine_coordinate(codes.max);
        Some(codes)
    }

    /// Fine steps from zero to `magnitude >= 0`.
    #[inline(always)]
    fn fine_coordinate(&self, magnitude: f32) -> i32 {
        let normal = magnitude.to_bits().wrapping_sub(self.emin_bits).wrapping_add(BINADE);
        // Adding 2^emin gives smaller values a binade of their own.
        let below = (magnitude + f32::from_bits(self.emin_bits)).to_bits().wrapping_sub(self.emin_bits);
        (if magnitude.to_bits() < self.emin_bits { below } else { normal }) as i32
    }

    /// The value at a fine coordinate.
    #[inline(always)]
    fn at_fine(&self, fine: i32) -> f32 {
        let steps = fine.unsigned_abs();
        let normal = f32::from_bits(steps.wrapping_add(self.emin_bits).wrapping_sub(BINADE));
        let value = if steps < BINADE { steps as i32 as f32 * self.fine } else { normal };
        f32::from_bits(value.to_bits() | (fine as u32 & SIGN))
    }
}

impl Geometry for Codes {
    #[inline(always)]
    fn spacing(&self, x: f32) -> f32 {
        f32::from_bits((x.to_bits() & EXPONENT).max(self.emin_bits)) * self.share
    }

    #[inline(always)]
    fn log2_spacing(&self, x: f32) -> f32 {
        let exponent = (x.to_bits() & EXPONENT).max(self.emin_bits) >> 23;
        (exponent as i32 - 127 - self.significand_bits as i32) as f32
    }
}

impl Chart for Codes {
    const LONG: bool = true;

    #[inline(always)]
    fn ends(&self) -> (f32, f32) {
        (-self.max, self.max)
    }

    #[inline(always)]
    fn moved(&self, x: f32, codes: f32) -> f32 {
        let moved = self.moved_by(x, codes, |outward| {
            let limited = outward.clamp(-self.most, self.most);
            let (whole, codes_by) = round(limited);
            let (_, fine_by) = round((limited - whole) * self.fine_per_code);
            (codes_by << self.fine_bits).wrapping_add(fine_by)
        });
        // Of a NaN, all of that are numbers.
        if codes.is_nan() { codes } else { moved }
    }

    #[inline(always)]
    fn near(&self) -> f32 {
        0.5
    }

    #[inline(always)]
    fn moved_near(&self, x: f32, codes: f32) -> f32 {
        self.moved_by(x, codes, |outward| round(outward * self.fine_per_code).1)
    }
}

impl Codes {
    /// `fine_steps` is the distance along the grid's normal numbers for this many codes.
    #[inline(always)]
    fn moved_by(&self, x: f32, codes: f32, fine_steps: impl Fn(f32) -> i32) -> f32 {
        let sign = x.to_bits() & SIGN;
        let magnitude = f32::from_bits(x.to_bits() & !SIGN);
        let outward = f32::from_bits(codes.to_bits() ^ sign);
        let even = magnitude + outward * self.quantum;
        let from = self.fine_coordinate(magnitude).min(self.max_fine);
        let by = fine_steps(outward);
        let curved = self.at_fine(from.wrapping_add(by.min(self.max_fine - from)).max(-self.max_fine));
        let is_even = magnitude <= self.even_end && even.abs() <= self.even_end;
        let to = if is_even { even.min(self.max).max(-self.max) } else { curved };
        f32::from_bits(to.to_bits() ^ sign)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_plugin_api::{Domain, Minifloat, grid::minifloat};

    use super::*;

    /// The eight formats, two of 16 bits, and a bias of its own.
    fn grids() -> Vec<MinifloatGrid> {
        let eight = (0..=7).map(|e| minifloat(e, 7 - e, Domain::FIN).unwrap());
        let wide = [(5, 10), (8, 7)].map(|(e, m)| minifloat(e, m, Domain::IEEE).unwrap());
        let moved = Minifloat { exponent_bits: 4, significand_bits: 3, bias: 20, domain: Domain::FN };
        eight.chain(wide).chain([moved]).map(|spec| MinifloatGrid::new(spec).unwrap()).collect()
    }

    /// Magnitudes from far below the smallest value to the largest, grid values and their neighbours in f32 included.
    fn magnitudes(grid: &MinifloatGrid) -> Vec<f32> {
        let max = grid.max_finite();
        let mut all = vec![0.0, 1e-30f32.min(max), max];
        for code in (1..grid.max_code()).step_by(1 + usize::from(grid.max_code()) / 300) {
            let value = grid.decode(code);
            all.extend([value, value.next_up(), value.next_down(), value * 1.3, value * 0.77]);
        }
        all.retain(|x| *x <= max);
        all
    }

    #[test]
    fn spacing_is_the_grids() {
        for grid in grids() {
            let codes = Codes::new(&grid).unwrap();
            for x in magnitudes(&grid).into_iter().flat_map(|x| [x, -x]) {
                let expected = grid.spacing(x.into());
                assert_eq!(f64::from(codes.spacing(x)), expected, "{:?} at {x:e}", grid.spec());
                assert_eq!(f64::from(codes.log2_spacing(x)), expected.log2(), "{:?} at {x:e}", grid.spec());
            }
        }
    }

    /// Compared with phi and its inverse in f64; only the rounding of the result to f32 may differ.
    #[test]
    fn ways_along_the_grid_are_those_of_the_code_coordinate() {
        for grid in grids() {
            let codes = Codes::new(&grid).unwrap();
            let top = f64::from(grid.max_code());
            let most = codes.most;
            for x in magnitudes(&grid).into_iter().flat_map(|x| [x, -x]) {
                for step in [0f32, 1e-6, 0.1, 0.5, 1.0, 2.7, 40.0, 300.0, 1e9] {
                    for step in [step.min(most), -step.min(most)] {
                        let u = (grid.phi(x.into()) + f64::from(step)).clamp(-top, top);
                        let (expected, got) = (grid.phi_inverse(u), f64::from(codes.moved(x, step)));
                        // A binade has 2^23 f32 numbers at both ends of the way.
                        let ulp = expected.abs().max(f64::from(x.abs())).max(2f64.powi(grid.emin()))
                            * 2f64.powi(-23);
                        let exact = step == 0.0 || u.abs() == top;
                        let allowed = if exact { 0.0 } else { ulp };
                        let near = (got - expected).abs() <= allowed;
                        assert!(near, "{:?}: {x:e} by {step}: {got:e}, expected {expected:e}", grid.spec());
                    }
                }
            }
        }
    }

    #[test]
    fn the_short_way_gives_the_same_bits() {
        for grid in grids() {
            crate::rule::assert_short_ways(&Codes::new(&grid).unwrap(), grid.max_finite());
        }
    }

    #[test]
    fn nan_steps_give_nan_and_what_is_beyond_the_end_comes_back() {
        for grid in grids() {
            let (codes, max) = (Codes::new(&grid).unwrap(), grid.max_finite());
            assert!([0.0, max].iter().all(|&x| codes.moved(x, f32::NAN).is_nan()));
            assert_eq!(codes.moved(max, f32::INFINITY), max);
            assert_eq!(codes.moved(0.0, f32::NEG_INFINITY), -max);
            assert_eq!(codes.moved(max.next_up().min(f32::MAX), 0.0), max);
            assert_eq!(codes.moved(-0.0, 0.0).to_bits(), (-0f32).to_bits());
        }
    }

    #[test]
    fn grids_below_f32s_normal_numbers_are_left_to_others() {
        let spec = Minifloat { exponent_bits: 4, significand_bits: 3, bias: 130, domain: Domain::FIN };
        assert!(Codes::new(&MinifloatGrid::new(spec).unwrap()).is_none());
    }
}
