//! The three sums of a call against slow ones, on data that f32 products can and cannot hold.
#![allow(clippy::unwrap_used)]

mod common;

use altgrad_conformance::Random;
use altgrad_format_kit::{cpu, round::Rounder};
use altgrad_plugin_api::{Domain, QuantParams, QuantStats, RandomKey, Rounding, Scales};

/// Each term is exact or off by 2^-53, and none is negative.
fn expected(src: &[f32], dst: &[f32]) -> [f64; 3] {
    let finite = src.iter().zip(dst).filter(|(x, _)| x.is_finite());
    finite
        .map(|(&x, &y)| (f64::from(x), f64::from(y)))
        .fold([0.0; 3], |[x2, err2, x_xhat], (x, y)| [x2 + x * x, err2 + (y - x) * (y - x), x_xhat + x * y])
}

fn check<const E: u32, const M: u32>(what: &str, src: &[f32], scale: f32) {
    let rounder = Rounder::<E, M>::new(Domain::IEEE).or_else(|_| Rounder::new(Domain::FIN)).unwrap();
    for rounding in Rounding::ALL {
        let key = RandomKey { seed: 1, step: 2, tensor: 3, offset: 1 };
        let pair = [scale, 1.0 / scale];
        let params = QuantParams { scales: Scales::whole(&pair), rounding, key };
        let mut dst = vec![0.0; src.len()];
        let stats = cpu::fake_quant(&rounder, src, &mut dst, &params, &mut []).unwrap();
        let QuantStats { sum_x2, sum_err2, sum_x_xhat, .. } = stats;
        for (got, expected) in [sum_x2, sum_err2, sum_x_xhat].into_iter().zip(expected(src, &dst)) {
            let close = got == expected || (got - expected).abs() <= 1e-6 * expected;
            assert!(
                close,
                "E{E}M{M} {rounding:?}, {what} with scale {scale:e}: {got:e}, expected {expected:e}"
            );
        }
    }
}

fn check_all(what: &str, src: &[f32]) {
    let amax = src.iter().filter(|x| x.is_finite()).fold(0f32, |amax, x| amax.max(x.abs()));
    for scale in [1.0, 3.7, (16.0 / amax).clamp(1e-30, 1e30)] {
        check::<5, 2>(what, src, scale);
        check::<4, 3>(what, src, scale);
        check::<1, 6>(what, src, scale);
        check::<0, 7>(what, src, scale);
        check::<7, 0>(what, src, scale);
        check::<8, 7>(what, src, scale);
    }
}

#[test]
fn sums_of_any_magnitude_are_right() {
    let mut random = Random(11);
    for exponent in (-148..127).step_by(11) {
        for count in [1, 15, 16, 100, 5000] {
            let src: Vec<f32> = (0..count).map(|_| random.gaussian() as f32 * 2f32.powi(exponent)).collect();
            check_all(&format!("{count} around 2^{exponent}"), &src);
        }
    }
}

#[test]
fn sums_of_mixed_magnitudes_are_right() {
    let mut random = Random(12);
    let any: Vec<f32> = (0..20_000).map(|_| f32::from_bits(random.next_u32())).collect();
    check_all("any bits", &any);
    let wide: Vec<f32> =
        any.iter().map(|x| f32::from_bits((x.to_bits() & 0x9fff_ffff) + (0x30 << 23))).collect();
    check_all("ordinary magnitudes", &wide);
}

/// One error among results that are exact, too small to be squared in f32.
#[test]
fn small_errors_are_not_lost() {
    for exponent in [-20, -60, -70, -100, -140] {
        for exact in [0.0, 1.0, -0.5] {
            let mut src = vec![exact; 3000];
            src[1234] = 1.3 * 2f32.powi(exponent);
            check_all(&format!("2^{exponent} among {exact}"), &src);
        }
    }
}

/// The worst for sums in f32: every addition is rounded in the same direction.
#[test]
fn sums_that_are_always_rounded_down_are_right() {
    for significand in 0..2000 {
        let src = [f32::from_bits(0x3f80_0000 + significand * 4099); 2048];
        check::<4, 3>("equal numbers", &src, 1.0);
    }
}
