//! Optimal tables of the Gaussian and the Laplace distribution, and NormalFloat.
#![allow(clippy::unwrap_used)]

use super::*;

/// A density in the bins of an observation, 1 being `most` of its units.
fn binned(most: f64, density: impl Fn(f64) -> f64) -> Distribution {
    let edges: Vec<f64> = LogGrid::edges().into_iter().map(|edge| edge * most).collect();
    // Simpson's rule in each bin.
    let mass = |ends: &[f64]| {
        let [a, b] = [ends[0], ends[1]];
        (b - a) / 6.0 * (density(a) + 4.0 * density(f64::midpoint(a, b)) + density(b))
    };
    let masses: Vec<f64> = edges.windows(2).map(mass).collect();
    Distribution::new(edges, &masses)
}

fn gaussian() -> Distribution {
    binned(8.0, |x| (-x * x / 2.0).exp())
}

fn laplace() -> Distribution {
    binned(24.0, |x| (-x.abs() * 2f64.sqrt()).exp())
}

/// Positive values for unit variance. J. Max, Quantizing for minimum distortion, IRE Trans. Inform. Theory 6 (1960),
/// table I, has four digits of the Gaussian ones. These are from the fixed points of Lloyd's condition with closed
/// forms of the moments.
#[test]
fn tables_of_the_gaussian_and_the_laplace_distribution_are_those_of_the_literature() {
    let gauss: [&[f64]; 3] = [
        &[0.452_780_0, 1.510_417_6],
        &[0.245_094_2, 0.756_005_3, 1.343_909_3, 2.151_945_7],
        &[
            0.128_395_0,
            0.388_048_3,
            0.656_759_1,
            0.942_340_5,
            1.256_231_2,
            1.618_046_4,
            2.069_017_2,
            2.732_589_6,
        ],
    ];
    let exponential: [&[f64]; 3] = [
        &[0.419_755_7, 1.833_969_3],
        &[0.233_400_9, 0.832_961_8, 1.672_473_3, 3.086_686_8],
        &[
            0.123_986_0,
            0.404_839_2,
            0.728_650_3,
            1.110_984_1,
            1.577_785_9,
            2.177_346_8,
            3.016_858_2,
            4.431_071_8,
        ],
    ];
    for (distribution, tables) in [(gaussian(), gauss), (laplace(), exponential)] {
        for (bits, expected) in (2..).zip(tables) {
            // Moving all values of a Laplace distribution alike changes the error least: its table is that of
            // magnitudes.
            for symmetric in
                [true, false].into_iter().take(if expected == exponential[bits as usize - 2] { 1 } else { 2 })
            {
                let values =
                    design(&distribution, Form { bits, symmetric, zero: false }, TableObjective::Sqnr);
                let positive = &values[values.len() - expected.len()..];
                for (value, expected) in positive.iter().zip(expected) {
                    assert!(
                        (value - expected).abs() < 1e-4,
                        "{bits} bits, symmetric {symmetric}: {values:?}"
                    );
                }
            }
        }
    }
}

/// The table of the authors' code (bitsandbytes, arXiv:2305.14314, appendix E).
#[test]
fn normal_float_is_the_table_at_quantiles_of_the_gaussian() {
    let expected = [
        -1.0,
        -0.696_192_8,
        -0.525_073_05,
        -0.394_917_5,
        -0.284_441_38,
        -0.184_773_43,
        -0.091_050_036,
        0.0,
        0.079_580_3,
        0.160_930_2,
        0.246_112_3,
        0.337_915_24,
        0.440_709_83,
        0.562_617,
        0.722_956_84,
        1.0,
    ];
    let values = at_quantiles(&gaussian(), &normal_float(4));
    assert_eq!(values.len(), 16);
    for (value, expected) in values.iter().zip(expected) {
        assert!((value - expected).abs() < 1e-4, "{values:?}");
    }
}

#[test]
fn the_objective_of_gradients_loses_noise_and_gains_bias() {
    let form = Form { bits: 3, symmetric: true, zero: true };
    let of = |objective| laplace().folded().grade(&design(&laplace(), form, objective));
    let (plain, unbiased) = (of(TableObjective::Sqnr), of(TableObjective::Gradient));
    assert!(unbiased.noise >= plain.noise, "{plain:?} {unbiased:?}");
    assert!(
        TableObjective::Gradient.of(&unbiased) < TableObjective::Gradient.of(&plain),
        "{plain:?} {unbiased:?}"
    );
    assert!(unbiased.zeroed < plain.zeroed, "{plain:?} {unbiased:?}");
    let values = codes(&design(&laplace(), form, TableObjective::Sqnr), form);
    assert_eq!((values.len(), values[0], values[4]), (8, 0.0, -0.0));
}
