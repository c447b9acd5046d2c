//! The rounding modes, with ties and random bits.

use altgrad_casts::{Block, Cast, Rounding};
use altgrad_plugin_api::{RandomKey, random::Words};

use crate::support::{apply, grid, numbers};

fn unscaled(rounding: Rounding) -> Cast {
    Cast { rounding, block: Block::None, ..Cast::default() }
}

#[test]
fn ties_go_where_the_mode_says() {
    // E2M1: 0, .5, 1, 1.5, 2, 3, 4, 6. Codes 0, 2, 4, 6 are even: 0, 1, 2, 4.
    let x = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, -5.0, -0.25, 5.001, 7.0];
    for (rounding, expected) in [
        (Rounding::NearestEven, [0.0, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0, -4.0, -0.0, 6.0, 6.0]),
        (Rounding::NearestAway, [0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -6.0, -0.5, 6.0, 6.0]),
        (Rounding::NearestZero, [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, -4.0, -0.0, 6.0, 6.0]),
        (Rounding::NearestUp, [0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -4.0, -0.0, 6.0, 6.0]),
        (Rounding::TowardZero, [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, -4.0, -0.0, 4.0, 6.0]),
    ] {
        let applied = apply(&unscaled(rounding), &grid("E2M1"), &x, [1, 11]);
        assert_eq!(applied.values, expected, "{rounding:?}");
        assert!(applied.values[8].is_sign_negative());
        assert_eq!(
            (&applied.scales[..], applied.scale_codes, applied.tensor_scale),
            (&[1.0][..], None, None)
        );
    }
}

#[test]
fn ties_toward_zero_are_nearest_otherwise() {
    for name in ["E4M3", "E2M3", "INT8"] {
        let grid = grid(name);
        let x = numbers(4000, 11, 118..136);
        let [even, zero] = [Rounding::NearestEven, Rounding::NearestZero]
            .map(|mode| apply(&unscaled(mode), &grid, &x, [1, 4000]));
        for (i, x) in x.iter().enumerate() {
            let (even, zero) = (even.values[i], zero.values[i]);
            let distance = |y: f32| (f64::from(y) - f64::from(*x)).abs();
            assert_eq!(distance(even), distance(zero), "{name} {x}");
            assert!(zero.abs() <= even.abs());
        }
    }
}

#[test]
fn random_bits_are_those_of_seed_and_index() {
    // A quarter of the way from 2 to 3: up where the word is below 2^30.
    let x = [2.25; 200];
    let applied = apply(&unscaled(Rounding::Stochastic), &grid("E2M1"), &x, [4, 50]);
    let words = Words::new(&RandomKey { seed: 3, ..RandomKey::default() });
    let expected: Vec<f32> = words.take(200).map(|word| if word < 1 << 30 { 3.0 } else { 2.0 }).collect();
    assert_eq!(applied.values, expected);
    assert!(expected.contains(&3.0));
}
