//! Deterministic rounding against search among the decoded values, format by format.
#![allow(clippy::unwrap_used)]

mod common;

use altgrad_conformance::Random;
use altgrad_format_kit::round::{Mode, NearestAway, NearestEven, Rounder, TowardZero};
use altgrad_plugin_api::{Domain, Rounding};
use common::{DOMAINS, Reference};

/// `x` and the f32 on either side of it, with both signs.
fn around(x: f32) -> [f32; 6] {
    let (below, above) = (x.next_down(), x.next_up());
    [x, below, above, -x, -below, -above]
}

/// Every grid point and midpoint with their neighbours, the edge of saturation, and the special values.
fn critical_inputs(reference: &Reference) -> Vec<f32> {
    let values = &reference.values;
    let mut inputs: Vec<f32> = values.iter().flat_map(|&value| around(value as f32)).collect();
    for pair in values.windows(2) {
        inputs.extend(around(f64::midpoint(pair[0], pair[1]) as f32));
    }
    let (max, last_step) = (values[values.len() - 1], values[values.len() - 1] - values[values.len() - 2]);
    for edge in [max + last_step / 2.0, max + last_step, max * 2.0] {
        inputs.extend(around(edge as f32));
    }
    inputs.extend(around(f32::MIN_POSITIVE));
    inputs.extend([f32::MAX, f32::INFINITY, 0.0, 1e-40, f32::from_bits(1), f32::NAN].map(|x| -x));
    inputs.extend([f32::MAX, f32::INFINITY, 0.0, 1e-40, f32::from_bits(1), f32::NAN]);
    inputs.push(f32::from_bits(0x7f80_0001));
    inputs
}

/// Any bits, and bits whose exponent lies around the format's range.
fn random_inputs(reference: &Reference, count: usize) -> Vec<f32> {
    let mut random = Random(7);
    let lowest = (reference.values[1] as f32).to_bits().saturating_sub(3 << 23);
    let span = (reference.values[reference.values.len() - 1] as f32).to_bits() - lowest + (1 << 23);
    let near = |bits: u32| f32::from_bits(lowest + ((u64::from(bits) * u64::from(span)) >> 32) as u32);
    (0..count).flat_map(|_| [f32::from_bits(random.next_u32()), near(random.next_u32())]).collect()
}

fn check_mode<R: Mode, const E: u32, const M: u32>(domain: Domain, rounding: Rounding) {
    let Ok(rounder) = Rounder::<E, M>::new(domain) else { return };
    let (grid, reference) = (rounder.grid(), Reference::new(&rounder.grid()));
    let mut inputs = critical_inputs(&reference);
    inputs.extend(random_inputs(&reference, 100_000));
    for x in inputs {
        let (got, expected) = (rounder.value::<R>(x, 0), reference.value_bits(x, rounding, 0));
        assert_eq!(got.to_bits(), expected, "E{E}M{M} {domain:?} {rounding:?}: {x:e} gave {got:e}");
        let code = rounder.code::<R>(x, u32::MAX);
        if x.is_nan() {
            assert_eq!(code.is_some(), grid.has_nan());
            assert!(code.is_none_or(|code| grid.decode(code).is_nan()));
        } else {
            assert_eq!(grid.decode(code.unwrap()).to_bits(), expected, "E{E}M{M} {domain:?}: code of {x:e}");
        }
    }
}

fn check<const E: u32, const M: u32>() {
    for domain in DOMAINS {
        check_mode::<NearestEven, E, M>(domain, Rounding::NEAREST_EVEN);
        check_mode::<NearestAway, E, M>(domain, Rounding::NEAREST_AWAY);
        check_mode::<TowardZero, E, M>(domain, Rounding::TOWARD_ZERO);
    }
}

#[test]
fn every_mode_agrees_with_search_among_the_values() {
    for_all_formats!(check);
}

/// Formats at the limits of the rounding loops: f32's own exponents, with and without significand bits, and 16
/// bits of fewer.
#[test]
fn so_do_unusual_formats() {
    check::<8, 0>();
    check::<8, 1>();
    check::<7, 8>();
    check::<6, 0>();
    check::<1, 10>();
}

fn check_codes<const E: u32, const M: u32>() {
    for domain in DOMAINS {
        let Ok(rounder) = Rounder::<E, M>::new(domain) else { continue };
        let grid = rounder.grid();
        for code in 0..=u16::MAX >> (15 - E - M) {
            let value = grid.decode(code);
            let encoded = rounder.code::<NearestEven>(value, 0);
            if value.is_finite() {
                assert_eq!(encoded, Some(code), "E{E}M{M} {domain:?}");
            } else if value.is_infinite() {
                assert_eq!(encoded, Some(code - 1), "infinity saturates to the code before it");
            } else {
                assert!(grid.decode(encoded.unwrap()).is_nan());
            }
        }
    }
}

#[test]
fn encoding_a_decoded_code_gives_the_code() {
    for_all_formats!(check_codes);
}

#[test]
fn ties_go_to_the_even_code_without_significand_bits() {
    let e7m0 = Rounder::<7, 0>::new(Domain::FIN).unwrap();
    let half = 2f32.powi(-63);
    let rows = [
        (1.0, 1.0),
        (1.5, 2.0),
        (3.0, 2.0),
        (6.0, 8.0),
        (12.0, 8.0),
        (0.75, 0.5),
        (half, 0.0),
        (half.next_up(), 2.0 * half),
        (1.5 * half, 2.0 * half),
        (3.0 * half, 4.0 * half),
        (f32::MAX, 2f32.powi(64)),
    ];
    for (x, expected) in rows {
        assert_eq!(e7m0.value::<NearestEven>(x, 0), expected, "{x:e}");
        assert_eq!(e7m0.value::<NearestEven>(-x, 0), -expected, "{x:e}");
    }
}

/// The usual trick for f32 to bf16: add half and the last kept bit, then cut. It overflows to infinity.
#[test]
fn bf16_is_the_usual_bit_trick() {
    let bf16 = Rounder::<8, 7>::new(Domain::IEEE).unwrap();
    let mut random = Random(3);
    for _ in 0..1_000_000 {
        let x = f32::from_bits(random.next_u32());
        let bits = x.to_bits();
        let rounded = (bits.wrapping_add(0x7fff + ((bits >> 16) & 1))) & 0xffff_0000;
        let expected = if x.is_nan() {
            x.to_bits()
        } else if f32::from_bits(rounded).is_infinite() {
            0x7f7f_0000 | (rounded & 0x8000_0000)
        } else {
            rounded
        };
        assert_eq!(bf16.value::<NearestEven>(x, 0).to_bits(), expected, "{x:e}");
    }
}

fn check_laws<const E: u32, const M: u32>() {
    for domain in DOMAINS {
        let Ok(rounder) = Rounder::<E, M>::new(domain) else { continue };
        let reference = Reference::new(&rounder.grid());
        let mut inputs = random_inputs(&reference, 10_000);
        inputs.retain(|x| !x.is_nan());
        inputs.sort_by(f32::total_cmp);
        let round = |x: f32| rounder.value::<NearestEven>(x, 0);
        let rounded: Vec<f32> = inputs.iter().map(|&x| round(x)).collect();
        assert!(rounded.is_sorted(), "rounding keeps the order");
        assert!(rounded.iter().all(|&y| round(y).to_bits() == y.to_bits()), "rounding twice changes nothing");
        assert!(inputs.iter().all(|&x| round(-x).to_bits() == (-round(x)).to_bits()), "signs are symmetric");
    }
}

#[test]
fn rounding_is_monotone_idempotent_and_symmetric() {
    for_all_formats!(check_laws);
}
