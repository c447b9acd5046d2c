//! Scales and values at the ends of f32.
//!
//! The numbers are those of the definitions in exact fractions; `python/tests/test_extremes.py` has them as a program.

use altgrad_casts::{
    Applied, Block, Cast, Limit, NonFinite, Operation, Order, Rule, Scaling, Storage, ZeroBlock,
};

use crate::support::{FORMATS, apply, bits, grid, numbers};

fn value(name: &str, scaling: Scaling, x: f32) -> f32 {
    let cast = Cast { block: Block::Along(16), scaling, ..Cast::default() };
    apply(&cast, &grid(name), &[x], [1, 1]).values[0]
}

#[test]
fn two_levels_of_scales_are_inverses_at_the_ends() {
    for (order, numbers) in [
        (
            Order::Encode,
            [
                (f32::MAX, 0x7f7f_ffff),
                (8e35, 0x7b1a_130c),
                (1e-35, 0x0554_ad2e),
                (1e-36, 0x03a8_0002),
                (5e-37, 0x0328_0002),
                (1e-37, 0x0204_0001),
                (1e-38, 0x0060_0000),
            ],
        ),
        (
            Order::Decode,
            [
                (f32::MAX, 0x7f7f_ffff),
                (8e35, 0x7b1a_130c),
                (1e-35, 0x0554_ad2f),
                (1e-36, 0x03a8_0000),
                (5e-37, 0x0328_0000),
                (1e-37, 0x0204_0000),
                (1e-38, 0x0060_0000),
            ],
        ),
    ] {
        let scaling = Scaling { storage: Storage::E4m3, tensor: true, order, ..Scaling::default() };
        for (x, expected) in numbers {
            let found = value("E2M1", scaling, x);
            assert_eq!(found.to_bits(), expected, "{order:?} of {x:e} is {found:e}");
        }
        // Zeros stay zeros beside the smallest numbers.
        let cast = Cast { block: Block::Along(2), scaling, ..Cast::default() };
        let applied = apply(&cast, &grid("E2M1"), &[0.0, 1e-45, -0.0, 0.0], [2, 2]);
        assert_eq!(bits(&applied.values), bits(&[0.0, 0.0, -0.0, 0.0]), "{order:?}");
    }
}

#[test]
fn a_decode_scale_that_is_divided_first_has_an_inverse() {
    for order in [Order::Encode, Order::Decode] {
        let scaling = Scaling { order, limit: Limit::F32, ..Scaling::default() };
        for (name, x, expected) in
            [("E5M2", 1e-35, 0x0560_0000), ("E4M3", 1e-37, 0x0210_0000), ("E2M1", f32::MAX, 0x7f7f_ffff)]
        {
            let found = value(name, scaling, x);
            assert_eq!(found.to_bits(), expected, "{name} {order:?} of {x:e} is {found:e}");
        }
    }
}

/// The largest element saturates below f32's largest, and is counted; with infinities as torchao has them it does not.
#[test]
fn powers_of_two_leave_the_largest_value_finite() {
    for rule in [Rule::Floor, Rule::Ceil, Rule::Even, Rule::Rceil] {
        let scaling = Scaling { rule, storage: Storage::E8m0, ..Scaling::default() };
        let cast = |nonfinite| Cast { scaling: Scaling { nonfinite, ..scaling }, ..Cast::default() };
        let x = [3.4e38, -1e38];
        let Applied { values, scale_codes, overflow, .. } =
            apply(&cast(NonFinite::Skip), &grid("E4M3"), &x, [1, 2]);
        assert_eq!((values[0], overflow), (448.0 * 2f32.powi(119), 1), "{rule:?}");
        assert_eq!(scale_codes.unwrap(), [119 + 127]);
        if matches!(rule, Rule::Ceil | Rule::Rceil) {
            let poisoned = apply(&cast(NonFinite::Poison), &grid("E4M3"), &x, [1, 2]);
            assert_eq!((poisoned.values[0], poisoned.scale_codes.unwrap()[0]), (f32::INFINITY, 120 + 127));
        }
    }
}

/// Every finite matrix has finite values, in all scalings.
#[test]
fn no_scaling_makes_an_infinity() {
    let plain = Scaling::default();
    let decode = Scaling { order: Order::Decode, ..plain };
    let e8m0 = Scaling { storage: Storage::E8m0, ..plain };
    let e4m3 = Scaling { storage: Storage::E4m3, ..plain };
    let scalings = [
        plain,
        decode,
        Scaling { limit: Limit::F32, ..plain },
        Scaling { limit: Limit::F32, ..decode },
        Scaling { pow2: true, ..plain },
        Scaling { pow2: true, margin: 3, ..decode },
        Scaling { margin: 20, ..plain },
        Scaling { factor: 0.75, ..plain },
        Scaling { rule: Rule::Floor, factor: 0.75, ..e8m0 },
        Scaling { rule: Rule::Ceil, ..e8m0 },
        Scaling { rule: Rule::Rceil, margin: 2, ..e8m0 },
        Scaling { rule: Rule::Rms { deviations: 2.9 }, ..e8m0 },
        e4m3,
        Scaling { tensor: true, ..e4m3 },
        Scaling { tensor: true, order: Order::Decode, factor: 0.9, ..e4m3 },
    ];
    for name in FORMATS {
        let grid = grid(name);
        for scaling in scalings {
            for (quantize, dequantize) in
                [(Operation::Multiply, Operation::Multiply), (Operation::Divide, Operation::Divide)]
            {
                let scaling = Scaling { quantize, dequantize, ..scaling };
                let cast = Cast { block: Block::Along(4), scaling, ..Cast::default() };
                for (seed, range) in [0..4, 0..40, 120..135, 215..255, 252..255].into_iter().enumerate() {
                    let x = numbers(64, seed as u32 + 5, range);
                    let x: Vec<f32> =
                        x.into_iter().chain([f32::MAX, -f32::MAX, f32::MIN_POSITIVE, 0.0]).collect();
                    let values = apply(&cast, &grid, &x, [1, x.len()]).values;
                    assert!(values.iter().all(|value| value.is_finite()), "{name} {scaling:?}: {values:?}");
                }
            }
        }
    }
}

#[test]
fn an_infinity_among_zeros_saturates_at_scale_1() {
    let x = [0.0, f32::INFINITY, f32::NEG_INFINITY, -0.0];
    for (storage, zero, rule) in [
        (Storage::F32, ZeroBlock::One, Rule::Max),
        (Storage::F32, ZeroBlock::Smallest, Rule::Max),
        (Storage::E8m0, ZeroBlock::Smallest, Rule::Floor),
        (Storage::E8m0, ZeroBlock::MinNormal, Rule::Rceil),
        (Storage::E8m0, ZeroBlock::Smallest, Rule::Rms { deviations: 2.9 }),
        (Storage::E4m3, ZeroBlock::One, Rule::Max),
    ] {
        let scaling = Scaling { storage, zero, rule, ..Scaling::default() };
        let applied =
            apply(&Cast { block: Block::Row, scaling, ..Cast::default() }, &grid("E2M1"), &x, [1, 4]);
        assert_eq!(bits(&applied.values), bits(&[0.0, 6.0, -6.0, -0.0]), "{scaling:?}");
        assert_eq!((applied.scales[0], applied.overflow), (1.0, 2));
    }
}

#[test]
fn equal_values_under_their_deviation_are_counted() {
    let scaling = Scaling { rule: Rule::Rms { deviations: 2.922_478_56 }, ..Scaling::default() };
    let cast = Cast { block: Block::Row, scaling, ..Cast::default() };
    let applied = apply(&cast, &grid("E2M1"), &[1.0, 1.0, 1.0, -2.0, 0.0, 0.0], [3, 2]);
    assert_eq!((applied.collapsed, applied.overflow), (1, 2));
}
