//! The grids against the tabled facts, and their geometry against itself.
// Bit literals are split by field: sign, exponent, significand.
#![allow(clippy::unwrap_used, clippy::unusual_byte_groupings)]

mod common;

use altgrad_conformance::Random;
use altgrad_format_kit::{MinifloatGrid, grid::canonical_bias, minifloat};
use altgrad_plugin_api::{Domain, Minifloat};
use common::DOMAINS;

fn grid(e: u32, m: u32, domain: Domain) -> MinifloatGrid {
    MinifloatGrid::new(minifloat(e, m, domain).unwrap()).unwrap()
}

fn every_grid() -> Vec<MinifloatGrid> {
    let shapes = (0..8).map(|e| (e, 7 - e)).chain([(5, 10), (7, 8), (8, 7)]);
    let all = shapes.flat_map(|(e, m)| DOMAINS.map(|domain| minifloat(e, m, domain)));
    all.filter_map(|spec| MinifloatGrid::new(spec.ok()?).ok()).collect()
}

/// The project's table of formats, plus FP16 (max 65504) and BF16.
#[test]
fn tabled_facts() {
    let p = |n: i32| 2f64.powi(n);
    // E, M, bias, min subnormal, min normal, max of ieee, fn, fin.
    let rows = [
        (0, 7, 0, Some(p(-6)), None, [None, None, Some(1.984_375)]),
        (1, 6, 0, Some(p(-5)), Some(2.0), [Some(1.968_75), Some(3.9375), Some(3.968_75)]),
        (2, 5, 1, Some(p(-5)), Some(1.0), [Some(3.9375), Some(7.75), Some(7.875)]),
        (3, 4, 3, Some(p(-6)), Some(p(-2)), [Some(15.5), Some(30.0), Some(31.0)]),
        (4, 3, 7, Some(p(-9)), Some(p(-6)), [Some(240.0), Some(448.0), Some(480.0)]),
        (5, 2, 15, Some(p(-16)), Some(p(-14)), [Some(57344.0), Some(98304.0), Some(114_688.0)]),
        (6, 1, 31, Some(p(-31)), Some(p(-30)), [Some(1.5 * p(31)), Some(p(32)), Some(1.5 * p(32))]),
        (7, 0, 63, None, Some(p(-62)), [Some(p(63)), Some(p(63)), Some(p(64))]),
        (5, 10, 15, Some(p(-24)), Some(p(-14)), [Some(65504.0), Some(p(17) - 128.0), Some(p(17) - 64.0)]),
        (8, 7, 127, Some(p(-133)), Some(p(-126)), [Some(p(128) - p(120)), None, None]),
    ];
    for (e, m, bias, min_subnormal, min_normal, max) in rows {
        for (domain, max) in DOMAINS.into_iter().zip(max) {
            let Some(max) = max else {
                assert!(minifloat(e, m, domain).is_err(), "E{e}M{m} {domain:?}");
                continue;
            };
            let grid = grid(e, m, domain);
            assert_eq!(grid.spec().bias, bias);
            assert_eq!(f64::from(grid.max_finite()), max, "E{e}M{m} {domain:?}");
            assert_eq!(grid.min_subnormal().map(f64::from), min_subnormal, "E{e}M{m} {domain:?}");
            let no_normals = e == 1 && domain == Domain::IEEE;
            assert_eq!(grid.min_normal().map(f64::from), min_normal.filter(|_| !no_normals));
            assert_eq!(grid.codes(), 1 << (1 + e + m));
        }
    }
}

#[test]
fn codes_that_surprise() {
    let e4m3 = grid(4, 3, Domain::FN);
    assert!(e4m3.decode(0x7f).is_nan() && e4m3.decode(0xff).is_nan());
    assert_eq!((e4m3.decode(0b0_1111_110), e4m3.nan_code()), (448.0, Some(0x7f)));
    let e5m2 = grid(5, 2, Domain::IEEE);
    assert_eq!((e5m2.decode(0b0_11110_11), e5m2.decode(0x7c)), (57344.0, f32::INFINITY));
    assert_eq!(e5m2.decode(0xfc), f32::NEG_INFINITY);
    assert!((0x7d..=0x7f).all(|code| e5m2.decode(code).is_nan()));
    let e7m0 = grid(7, 0, Domain::FIN);
    assert_eq!((e7m0.decode(0), e7m0.decode(1), e7m0.decode(63)), (0.0, 2f32.powi(-62), 1.0));
    let without_nan = grid(7, 0, Domain::IEEE);
    assert!(without_nan.has_inf() && !without_nan.has_nan());
    for grid in every_grid() {
        assert_eq!(grid.decode(grid.sign_bit()).to_bits(), (-0.0f32).to_bits());
    }
    // E1M6 is a linear grid of step 2^-5, twice E0M7's.
    let (e1m6, e0m7) = (grid(1, 6, Domain::FIN), grid(0, 7, Domain::FIN));
    assert!((0..128).all(|code| e1m6.decode(code) == 2.0 * e0m7.decode(code)));
    assert!((0..128).all(|code| e1m6.decode(code) == f32::from(code) / 32.0));
}

#[test]
fn impossible_formats_are_refused() {
    let rows = [
        (0, 7, Domain::IEEE, "without exponent bits"),
        (0, 7, Domain::FN, "without exponent bits"),
        (0, 0, Domain::FIN, "no value but zero"),
        (1, 0, Domain::IEEE, "no value but zero"),
        (9, 2, Domain::FIN, "at most 8 exponent"),
        (4, 11, Domain::FIN, "at most 8 exponent"),
        (8, 8, Domain::IEEE, "16 bits in all"),
        (8, 7, Domain::FIN, "do not fit in f32"),
        (u32::MAX, 7, Domain::FIN, "at most 8 exponent"),
    ];
    for (e, m, domain, expected) in rows {
        let result = std::panic::catch_unwind(|| minifloat(e, m, domain).unwrap_err().to_string());
        assert!(result.is_ok_and(|error| error.contains(expected)), "E{e}M{m} {domain:?}");
    }
    let far = Minifloat { exponent_bits: 4, significand_bits: 3, bias: 500, domain: Domain::FIN };
    assert!(MinifloatGrid::new(far).is_err());
}

#[test]
fn values_ascend_and_phi_is_the_code() {
    for grid in every_grid() {
        let magnitudes: Vec<f32> = (0..=grid.max_code()).map(|code| grid.decode(code)).collect();
        assert!(magnitudes.is_sorted_by(|a, b| a < b), "{grid:?}");
        for (code, &value) in magnitudes.iter().enumerate() {
            let (code, value) = (code as f64, f64::from(value));
            assert_eq!((grid.phi(value), grid.phi(-value)), (code, -code), "{grid:?}");
            assert_eq!((grid.phi_inverse(code), grid.phi_inverse(-code)), (value, -value));
            assert_eq!(grid.decode(code as u16 | grid.sign_bit()), -value as f32);
        }
        for pair in magnitudes.windows(2) {
            let (a, b) = (f64::from(pair[0]), f64::from(pair[1]));
            assert_eq!(grid.spacing(a), b - a, "{grid:?} at {a}");
            assert_eq!(grid.spacing(-f64::midpoint(a, b)), b - a, "{grid:?} above {a}");
        }
    }
}

#[test]
fn phi_has_slope_one_over_spacing_and_an_inverse() {
    let mut random = Random(1);
    for grid in every_grid() {
        for _ in 0..1000 {
            let share = random.next_u32() as f64 / 2f64.powi(32);
            let u = (2.0 * share - 1.0) * f64::from(grid.max_code());
            let w = grid.phi_inverse(u);
            assert!((grid.phi(w) - u).abs() <= 1e-9, "{grid:?} at {u}");
            let (lower, upper) = (u.abs().floor(), u.abs().floor() + 1.0);
            let slope = grid.phi_inverse(upper) - grid.phi_inverse(lower);
            assert_eq!(grid.spacing(w), slope, "{grid:?} at {u}");
        }
        assert!(grid.phi(-0.0).is_sign_negative() && grid.phi_inverse(-0.0).is_sign_negative());
        assert!(grid.phi(f64::NAN).is_nan() && grid.spacing(f64::INFINITY).is_nan());
        assert_eq!(grid.phi(f64::NEG_INFINITY), f64::NEG_INFINITY);
    }
}

#[test]
fn the_bias_may_be_chosen() {
    // E4M3 "fnuz"-like ranges halve every value: bias 8 instead of 7.
    let base = minifloat(4, 3, Domain::FN).unwrap();
    let shifted = MinifloatGrid::new(Minifloat { bias: canonical_bias(4) + 1, ..base }).unwrap();
    assert!((0..127).all(|code| 2.0 * shifted.decode(code) == grid(4, 3, Domain::FN).decode(code)));
}
