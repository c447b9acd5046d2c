//! Numbers small enough to do by hand.

use altgrad_casts::{
    Block, BlockStatistics, Cast, ErrorNorm, Hadamard, Limit, NonFinite, Operation, Order, Overflow, Rule,
    ScaleChoice, Scaling, Signs, Storage, ZeroBlock,
};

use crate::support::{apply, bits, grid};

fn with(block: Block, scaling: Scaling) -> Cast {
    Cast { block, scaling, ..Cast::default() }
}

#[test]
fn mx_rules_part_where_the_largest_is_beside_a_power_of_two() {
    // E4M3: emax 8, largest 448 = 1.75 * 2^8. Exponents of the decode scale for amax = 1, 1.75, 1.76, 1.9375, 1.94.
    let grid = grid("E4M3");
    for (rule, exponents) in [
        (Rule::Floor, [-8, -8, -8, -8, -8]),
        (Rule::Ceil, [-8, -7, -7, -7, -7]),
        // To three significand bits: from 1.9375 on it is 2.
        (Rule::Even, [-8, -8, -8, -7, -7]),
        (Rule::Rceil, [-8, -8, -7, -7, -7]),
    ] {
        let cast = with(Block::Row, Scaling { rule, storage: Storage::E8m0, ..Scaling::default() });
        let applied = apply(&cast, &grid, &[1.0, 1.75, 1.76, 1.9375, 1.94], [5, 1]);
        let expected = exponents.map(|e: i32| (e + 127) as u8);
        assert_eq!(applied.scale_codes.as_deref(), Some(&expected[..]), "{rule:?}");
        // Floor saturates values beyond 448 * 2^-8.
        let first = if rule == Rule::Floor { 1.75 } else { 2.0 };
        assert_eq!(applied.values[4], first, "{rule:?}");
    }
}

/// docs/numerics.md, section 4.5: with rule floor 957 is 478.5 in scaled units, beyond the largest value.
#[test]
fn rule_floor_saturates_where_rceil_does_not() {
    for (rule, value) in [(Rule::Floor, 896.0), (Rule::Rceil, 960.0)] {
        let cast = with(Block::Row, Scaling { rule, storage: Storage::E8m0, ..Scaling::default() });
        assert_eq!(apply(&cast, &grid("E4M3"), &[957.0, 1.0], [1, 2]).values[0], value, "{rule:?}");
    }
}

#[test]
fn powers_of_two_of_the_largest_value_go_the_way_of_their_order() {
    // 448/3 = 149.3: down to 128, or 3/448 up to 1/128: the same.
    for order in [Order::Encode, Order::Decode] {
        let cast = with(Block::Tensor, Scaling { pow2: true, order, ..Scaling::default() });
        let applied = apply(&cast, &grid("E4M3"), &[3.0, -1.0], [1, 2]);
        assert_eq!((applied.scales[0], applied.values[0], applied.scale_codes), (1.0 / 128.0, 3.0, None));
    }
}

#[test]
fn margin_floor_and_factor_change_the_scale() {
    let scale = |scaling: Scaling| {
        let applied = apply(&with(Block::Tensor, scaling), &grid("E2M1"), &[1.5, 0.5], [1, 2]);
        (applied.scales[0], applied.values)
    };
    let plain = Scaling::default();
    assert_eq!(scale(plain), (0.25, vec![1.5, 0.5]));
    assert_eq!(scale(Scaling { margin: 1, ..plain }), (0.5, vec![1.5, 0.5]));
    // amax counts as 6.
    assert_eq!(scale(Scaling { floor: 6.0, ..plain }), (1.0, vec![1.5, 0.5]));
    assert_eq!(scale(Scaling { floor: 6.0, order: Order::Decode, ..plain }), (1.0, vec![1.5, 0.5]));
    assert_eq!(scale(Scaling { amax: Some(3.0), ..plain }), (0.5, vec![1.5, 0.5]));
    // 4 * 3/4 = 3: 4.5 is a tie of 4 and 6, to the even code 4; 1.5 is on the grid.
    let factor = Scaling { factor: 0.75, ..plain };
    let third = 1.0f32 / 3.0;
    assert_eq!(scale(factor), (third, vec![4.0 * third, 1.5 * third]));
    // A byte does not have the factor, the values do: scale 1/4, elements times 3 as before.
    let byte = Scaling { storage: Storage::E8m0, ..factor };
    assert_eq!(scale(byte), (0.25, vec![4.0 * (0.25f32 / 0.75), 1.5 * (0.25f32 / 0.75)]));
}

#[test]
fn zeros_stay_zeros_at_the_ends_of_the_range_of_scales() {
    let plain = Scaling { limit: Limit::F32, ..Scaling::default() };
    let e4m3 = Scaling { storage: Storage::E4m3, ..plain };
    let divide = |scaling| Scaling { quantize: Operation::Divide, dequantize: Operation::Divide, ..scaling };
    for scaling in [
        Scaling { factor: 1.0625, ..e4m3 },
        Scaling { factor: 2.0, storage: Storage::E8m0, zero: ZeroBlock::Smallest, ..plain },
        Scaling { factor: 2.0, ..plain },
        Scaling { factor: 2f32.powi(-32), order: Order::Decode, ..plain },
        divide(e4m3),
        divide(Scaling { order: Order::Decode, ..plain }),
    ] {
        let matrix = [0.0, -0.0, 1e-45, 0.0, f32::MAX, -0.0];
        let values = apply(&with(Block::Row, scaling), &grid("E2M1"), &matrix, [3, 2]).values;
        let zeros: Vec<u32> = [0, 1, 3, 5].map(|i: usize| values[i].to_bits()).into();
        assert_eq!(zeros, [0.0f32, -0.0, 0.0, -0.0].map(f32::to_bits), "{scaling:?}: {values:?}");
        assert!(values.iter().all(|x| x.is_finite()), "{scaling:?}: {values:?}");
    }
    // Scale 0: elements become 0, with their signs.
    let cast = with(Block::Tensor, divide(e4m3));
    assert_eq!(apply(&cast, &grid("E2M1"), &[-1e-3, 1e-3], [1, 2]).values, [-0.0, 0.0]);
}

#[test]
fn deviations_replace_the_largest() {
    // Mean 0, standard deviation 2; 2 * 2.92247856/6 = 0.97: scale 1/2. Scaled 4 and -4: on the grid.
    let rule = Rule::Rms { deviations: 2.922_478_56 };
    let cast = with(Block::Tensor, Scaling { rule, ..Scaling::default() });
    let applied = apply(&cast, &grid("E2M1"), &[2.0, -2.0, 2.0, -2.0], [2, 2]);
    assert_eq!((applied.scales[0], &applied.values[..]), (0.5, &[2.0, -2.0, 2.0, -2.0][..]));
    // About the mean: a constant block has none, and 1e-8 is between 2^-27 and 2^-26.
    let applied = apply(&cast, &grid("E2M1"), &[2.0; 4], [2, 2]);
    assert_eq!((applied.scales[0], applied.values[0]), (2f32.powi(-27), 6.0 * 2f32.powi(-27)));
}

#[test]
fn a_block_of_zeros_has_the_scale_that_is_chosen() {
    for (storage, zero, scale, code) in [
        (Storage::F32, ZeroBlock::One, 1.0, None),
        (Storage::E8m0, ZeroBlock::One, 1.0, Some(127)),
        (Storage::E8m0, ZeroBlock::Smallest, 2f32.powi(-127), Some(0)),
        (Storage::E8m0, ZeroBlock::MinNormal, 2f32.powi(-127), Some(0)),
        // No smallest scale: 0 itself.
        (Storage::E4m3, ZeroBlock::One, 0.0, Some(0)),
    ] {
        let cast = with(Block::Along(2), Scaling { storage, zero, ..Scaling::default() });
        let applied = apply(&cast, &grid("E2M1"), &[0.0, -0.0, 6.0, 1.0], [1, 4]);
        assert_eq!(applied.scales, [scale, 1.0], "{storage:?} {zero:?}");
        assert_eq!(applied.scale_codes.map(|codes| codes[0]), code);
        assert_eq!(bits(&applied.values), bits(&[0.0, -0.0, 6.0, 1.0]));
    }
    // MX's INT8 has emax 0: 2^-126 fits a byte.
    let scaling = Scaling {
        rule: Rule::Floor,
        storage: Storage::E8m0,
        zero: ZeroBlock::MinNormal,
        ..Scaling::default()
    };
    assert_eq!(apply(&with(Block::Row, scaling), &grid("INT8"), &[0.0], [1, 1]).scale_codes, Some(vec![1]));
}

#[test]
fn a_scale_of_e4m3_may_underflow_or_be_clamped() {
    let scaling = Scaling { storage: Storage::E4m3, tensor: true, ..Scaling::default() };
    let x = [6.0 * 448.0, 0.0, 1e-3, -1e-4];
    let applied = apply(&with(Block::Along(2), scaling), &grid("E2M1"), &x, [2, 2]);
    // S = 1. The second block: 1e-3/6 is less than half of 2^-9, so 0, and all of it becomes 0.
    assert_eq!((applied.tensor_scale, &applied.scales[..]), (Some(1.0), &[448.0, 0.0][..]));
    assert_eq!(bits(&applied.values), bits(&[2688.0, 0.0, 0.0, -0.0]));
    let floored = Scaling { floor: f64::from(2f32.powi(-6)), order: Order::Decode, ..scaling };
    let applied = apply(&with(Block::Along(2), floored), &grid("E2M1"), &x, [2, 2]);
    assert_eq!((applied.scales[1], applied.scale_codes.unwrap()[1]), (2f32.powi(-6), 8));
}

#[test]
fn a_transform_comes_before_scales_and_stays() {
    let transform = Some(Hadamard { size: 2, signs: Signs::None, to_bf16: false });
    let cast = Cast { transform, ..with(Block::Row, Scaling::default()) };
    // (3, 1) becomes (4, 2)/sqrt 2; the largest is scaled to 6, the other to 3.
    let applied = apply(&cast, &grid("E2M1"), &[3.0, 1.0], [1, 2]);
    assert_eq!(applied.codes, [7, 5]);
    assert!((applied.values[0] - 8f32.sqrt()).abs() < 1e-6);
}

#[test]
fn scales_end_where_the_limit_says() {
    let tiny = [f32::from_bits(1)];
    let scale = |limit, pow2| {
        let cast = with(Block::Tensor, Scaling { limit, pow2, ..Scaling::default() });
        apply(&cast, &grid("E4M3"), &tiny, [1, 1]).scales[0]
    };
    assert_eq!(scale(Limit::Normal, false), 2f32.powi(-126));
    assert_eq!(scale(Limit::Normal, true), 2f32.powi(-126));
    // The largest f32, whose reciprocal is a subnormal; 2^127 as a power of two.
    assert_eq!(scale(Limit::F32, false), 1.0 / f32::MAX);
    assert_eq!(scale(Limit::F32, true), 2f32.powi(-127));
}

#[test]
fn what_is_not_finite_is_skipped_or_poisons() {
    let x = [1.0, f32::NAN, -f32::INFINITY, 0.5, 1.0, 0.5];
    for (name, nan_code) in [("E4M3", 0x7f), ("E5M2", 0x7f), ("E2M1", 3), ("INT8", 96)] {
        let grid = grid(name);
        let most = grid.range().target;
        let scaling = Scaling { rule: Rule::Floor, storage: Storage::E8m0, ..Scaling::default() };
        let skip = apply(&with(Block::Row, scaling), &grid, &x, [2, 3]);
        assert_eq!(skip.values[0], 1.0, "{name}");
        assert!(skip.values[1].is_nan());
        assert_eq!((skip.codes[1], skip.values[2]), (nan_code, -most * skip.scales[0]), "{name}");
        let poison = Scaling { nonfinite: NonFinite::Poison, ..scaling };
        let poisoned = apply(&with(Block::Row, poison), &grid, &x, [2, 3]);
        assert!(poisoned.values[..3].iter().all(|y| y.is_nan()) && poisoned.scales[0].is_nan());
        assert_eq!(
            (&poisoned.codes[..3], poisoned.scale_codes.as_ref().unwrap()[0]),
            (&[nan_code; 3][..], 255)
        );
        assert_eq!(poisoned.values[3..], skip.values[3..]);
    }
    // One scale of the tensor is poisoned as a whole.
    let scaling =
        Scaling { storage: Storage::E4m3, tensor: true, nonfinite: NonFinite::Poison, ..Scaling::default() };
    let poisoned = apply(&with(Block::Row, scaling), &grid("E2M1"), &x, [2, 3]);
    assert!(poisoned.values.iter().chain(&poisoned.scales).all(|y| y.is_nan()));
    assert_eq!(poisoned.scale_codes, Some(vec![0x7f; 2]));
    assert!(poisoned.tensor_scale.unwrap().is_nan());
}

/// The ratio of this block to its tensor is below half of E4M3's smallest value, 2^-9.
#[test]
fn a_block_whose_stored_scale_is_zero_becomes_zero_without_overflow() {
    let scaling = Scaling { storage: Storage::E4m3, tensor: true, ..Scaling::default() };
    let grid = grid("E2M1");
    let range = grid.range();
    let tensor = scaling.tensor_scale_of_amax(range, 1.0);
    let [encode, decode] = scaling.pair(range, &BlockStatistics::of_amax(1e-7), tensor.as_ref());
    assert_eq!(decode, 0.0);
    assert!(1e-7 * encode < 0.25, "it lies below half of E2M1's smallest value");
    let mut pairs = [[1.0; 2]];
    scaling.pairs(range, &[1e-7], tensor.as_ref(), &mut pairs);
    assert_eq!(pairs, [[encode, decode]]);
    let applied = apply(&with(Block::Row, scaling), &grid, &[1.0, 1e-7], [2, 1]);
    assert!((applied.values[0] - 1.0).abs() < 1e-6 && applied.values[1] == 0.0, "{:?}", applied.values);
}

/// The second block lies on 4, 3, 2 and 1 times 0.2: with its largest at 6, 3 becomes 4.5 and 2 becomes 3. Under a
/// tensor of 6 and a target of 256 the scale for 6 is 0.8/6 * 256, nearest 36, and that for 4 is 1.5 times as large,
/// nearest 52.
#[test]
fn four_over_six_takes_the_scale_with_the_smaller_error() {
    let near_five: Vec<f32> =
        [4, 3, 3, 2, 4, 3, -3, 2, 1, 1, 2, 3, -4, 3, 2, 1].map(|k: i8| 0.2 * f32::from(k)).to_vec();
    let mut x = vec![6.0; 16];
    x.extend(&near_five);
    let scaling = |norm| {
        let choice = Some(ScaleChoice { norm, factors: ScaleChoice::FOUR_OVER_SIX, ties_away: false });
        let (storage, order) = (Storage::E4m3, Order::Amax);
        Scaling { storage, order, tensor: true, most: Some(256.0), choice, ..Scaling::default() }
    };
    for norm in [ErrorNorm::Squares, ErrorNorm::Magnitudes] {
        let applied = apply(&with(Block::Along(16), scaling(norm)), &grid("E2M1"), &x, [1, 32]);
        // 256 is exact for both, and the first wins; 52 is code 0x65.
        assert_eq!(applied.choices.as_deref(), Some(&[0, 1][..]), "{norm:?}");
        assert_eq!(applied.scales, [256.0, 52.0]);
        assert_eq!(applied.scale_codes.as_deref(), Some(&[0x78, 0x65][..]));
        // 4, 3 and 2 times 52 * 6/1536.
        assert_eq!(applied.values[16..20], [0.8125, 0.609_375, 0.609_375, 0.40625]);
    }
    let without = Scaling { choice: None, ..scaling(ErrorNorm::Squares) };
    let applied = apply(&with(Block::Along(16), without), &grid("E2M1"), &x, [1, 32]);
    assert_eq!((applied.scales, applied.choices), (vec![256.0, 36.0], None));
}

/// Quartet II stores 1 in place of 0, also for a block that is small beside the tensor.
#[test]
fn a_scale_of_zero_can_be_stored_as_one() {
    let mut x = vec![1.0; 16];
    x.extend([1e-9; 16]);
    x.extend([0.0; 16]);
    let scaling = Scaling { storage: Storage::E4m3, tensor: true, ..Scaling::default() };
    let zeros = apply(&with(Block::Along(16), scaling), &grid("E2M1"), &x, [1, 48]);
    assert_eq!(zeros.scale_codes.as_deref(), Some(&[0x7e, 0, 0][..]));
    let scaling = Scaling { zero: ZeroBlock::StoredOne, ..scaling };
    let ones = apply(&with(Block::Along(16), scaling), &grid("E2M1"), &x, [1, 48]);
    assert_eq!(ones.scale_codes.as_deref(), Some(&[0x7e, 0x38, 0x38][..]));
}

#[test]
fn overflow_becomes_infinity_or_nan() {
    let cast = Cast { block: Block::None, overflow: Overflow::NonFinite, ..Cast::default() };
    let with = |scaling| Cast { scaling, ..cast };
    let x = [464.0, 465.0, -1e9, f32::INFINITY, 1.0];
    let values = apply(&with(Scaling::default()), &grid("E4M3"), &x, [1, 5]).values;
    assert_eq!((values[0], values[4]), (448.0, 1.0));
    assert!(values[1..4].iter().all(|value| value.is_nan()));
    let values = apply(&cast, &grid("E5M2"), &[61440.0, -61439.0], [1, 2]).values;
    assert_eq!(values, [f32::INFINITY, -57344.0]);
    assert!(cast.check(&grid("E2M1")).is_err());
}
