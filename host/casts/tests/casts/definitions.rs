//! Every scale rule against its definition, over random matrices.

use altgrad_casts::{Axis, Block, Cast, Grid, Limit, Operation, Order, Rule, Scaling, Storage, ZeroBlock};

use crate::support::{FORMATS, apply, apply_along, grid, numbers};

/// Most exponents of f32, by f32's exponent bits: tiny, small, ordinary, huge.
const RANGES: [std::ops::Range<u32>; 4] = [0..12, 90..110, 120..131, 235..255];

fn mx(rule: Rule) -> Cast {
    let scaling = Scaling { rule, storage: Storage::E8m0, zero: ZeroBlock::Smallest, ..Scaling::default() };
    Cast { block: Block::Along(8), scaling, ..Cast::default() }
}

fn largest(block: &[f32]) -> f32 {
    block.iter().fold(0.0, |most: f32, x| most.max(x.abs()))
}

/// The nearest value of the grid to a scaled number by trying all of them; ties to the even code.
fn nearest(grid: &Grid, x: f64) -> f64 {
    let codes = (0..1u32 << grid.bits()).map(|code| (code, f64::from(grid.decode(code as u16))));
    let finite = codes.filter(|(_, value)| value.is_finite());
    let near = finite.min_by(|(a_code, a), (b_code, b)| {
        let by_distance = (a - x).abs().total_cmp(&(b - x).abs());
        by_distance.then((a_code % 2).cmp(&(b_code % 2)))
    });
    near.unwrap().1
}

/// The exponent of the power of two that MX's rules take, by counting up from the smallest.
fn exponent(grid: &Grid, rule: Rule, amax: f32) -> i32 {
    let power = |e: i32| 2f64.powi(e);
    let floor = |x: f64| (-149..129).rev().find(|e| power(*e) <= x).unwrap();
    let ceil = |x: f64| (-149..129).find(|e| power(*e) >= x).unwrap();
    let emax = floor(f64::from(grid.range().target));
    let wide = f64::from(amax);
    let e = match rule {
        Rule::Floor => floor(wide) - emax,
        Rule::Ceil => ceil(wide) - emax,
        Rule::Even => {
            // To significand bits, halves up.
            let unit = power(floor(wide).max(-126) - grid.range().significand_bits.unwrap() as i32);
            floor((wide / unit + 0.5).floor() * unit) - emax
        }
        // One rounding to f32 of the product with a reciprocal rounded to f32.
        _ => ceil(f64::from(amax * (1.0 / grid.range().target)).max(power(-149))),
    };
    // The largest value is finite.
    e.clamp(-127, 127 - emax)
}

#[test]
fn mx_scales_are_the_powers_of_two_of_their_definitions() {
    for (name, rule) in FORMATS
        .iter()
        .flat_map(|name| [Rule::Floor, Rule::Ceil, Rule::Even, Rule::Rceil].map(|rule| (*name, rule)))
    {
        if (name, rule) == ("INT8", Rule::Even) {
            continue;
        }
        let grid = grid(name);
        for (seed, range) in RANGES.into_iter().enumerate() {
            let x = numbers(48 * 8, seed as u32 + 1, range);
            let applied = apply(&mx(rule), &grid, &x, [12, 32]);
            for (i, block) in x.chunks(8).enumerate() {
                let e = exponent(&grid, rule, largest(block));
                assert_eq!(
                    applied.scale_codes.as_ref().unwrap()[i],
                    (e + 127) as u8,
                    "{name} {rule:?} {block:?}"
                );
                assert_eq!(f64::from(applied.scales[i]), 2f64.powi(e));
                for (x, y) in block.iter().zip(&applied.values[8 * i..]) {
                    // Scaling is exact except at the ends of f32's range, and so is the inverse.
                    let scaled = (f64::from(*x) * 2f64.powi(-e)) as f32;
                    let expected = (nearest(&grid, f64::from(scaled)) * 2f64.powi(e)) as f32;
                    assert_eq!(*y, expected, "{name} {rule:?} {x:e}");
                    assert_eq!(y.is_sign_negative(), x.is_sign_negative());
                }
            }
        }
    }
}

#[test]
fn f32_scales_divide_in_the_order_that_is_asked_for() {
    let orders = [Order::Encode, Order::Decode];
    let operations = [Operation::Multiply, Operation::Divide];
    for (order, quantize, dequantize) in orders
        .into_iter()
        .flat_map(|order| operations.into_iter().flat_map(move |a| operations.map(move |b| (order, a, b))))
    {
        let scaling = Scaling { order, quantize, dequantize, limit: Limit::F32, ..Scaling::default() };
        let cast = Cast { block: Block::Row, scaling, ..Cast::default() };
        for name in ["E4M3", "E2M1"] {
            let grid = grid(name);
            for (seed, range) in [90..110, 120..131].into_iter().enumerate() {
                let x = numbers(40 * 16, seed as u32 + 9, range);
                let applied = apply(&cast, &grid, &x, [40, 16]);
                for (i, row) in x.chunks(16).enumerate() {
                    let (most, target) = (f64::from(largest(row)), f64::from(grid.range().target));
                    // Ratios of two f32 in f64, rounded to f32: one rounding.
                    let (encode, decode) = match order {
                        Order::Encode => {
                            let encode = (target / most) as f32;
                            (encode, (1.0 / f64::from(encode)) as f32)
                        }
                        _ => {
                            let decode = (most / target) as f32;
                            ((1.0 / f64::from(decode)) as f32, decode)
                        }
                    };
                    assert_eq!(applied.scales[i], decode);
                    for (x, y) in row.iter().zip(&applied.values[16 * i..]) {
                        let (x, e, d) = (f64::from(*x), f64::from(encode), f64::from(decode));
                        let scaled = if quantize == Operation::Multiply { x * e } else { x / d };
                        let point = nearest(&grid, f64::from(scaled as f32));
                        let back = if dequantize == Operation::Multiply { point * d } else { point / e };
                        assert_eq!(*y, back as f32, "{name} {order:?} {quantize:?} {dequantize:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn two_levels_multiply_as_transformer_engine_and_torchao_do() {
    let grid = grid("E2M1");
    let fl = |x: f64| x as f32;
    for order in [
        Order::Encode,
        Order::Decode,
        Order::Amax,
        Order::Product,
        Order::DecodeMost,
        Order::DecodeTensor,
        Order::DecodeTarget,
    ] {
        let scaling = Scaling { storage: Storage::E4m3, tensor: true, order, ..Scaling::default() };
        let cast = Cast { block: Block::Along(16), scaling, ..Cast::default() };
        let x = numbers(64 * 16, 77, 110..131);
        let applied = apply(&cast, &grid, &x, [64, 16]);
        let most = f64::from(largest(&x));
        let sixth = fl(1.0 / 6.0);
        for (i, block) in x.chunks(16).enumerate() {
            let a = f64::from(largest(block));
            // One line a rounding, each of two f32.
            let (ratio, tensor) = match order {
                Order::Encode | Order::Product => {
                    let s = fl(2688.0 / most);
                    let scaled = fl(f64::from(s) * f64::from(sixth));
                    (fl(a * f64::from(scaled)), fl(1.0 / f64::from(s)))
                }
                Order::Amax => {
                    let s = fl(2688.0 / most);
                    (fl(f64::from(fl(a / 6.0)) * f64::from(s)), fl(1.0 / f64::from(s)))
                }
                Order::Decode | Order::DecodeMost | Order::DecodeTensor | Order::DecodeTarget => {
                    let p = match order {
                        Order::Decode => fl(most / 2688.0),
                        Order::DecodeMost | Order::DecodeTensor => fl(f64::from(fl(most / 448.0)) / 6.0),
                        _ => fl(f64::from(fl(most / 6.0)) / 448.0),
                    };
                    let ratio = match order {
                        Order::DecodeTensor => fl(f64::from(fl(a / f64::from(p))) / 6.0),
                        _ => fl(f64::from(fl(a / 6.0)) / f64::from(p)),
                    };
                    (ratio, p)
                }
            };
            let stored = nearest(&crate::support::grid("E4M3"), f64::from(ratio).min(448.0));
            assert_eq!((f64::from(applied.scales[i]), applied.tensor_scale), (stored, Some(tensor)));
            let (encode, decode) = match order {
                Order::Encode | Order::Amax => (
                    fl(1.0 / f64::from(fl(stored * f64::from(tensor)))).min(f32::MAX),
                    fl(f64::from(fl(stored * most)) * f64::from(fl(1.0 / 2688.0))),
                ),
                Order::Product => (
                    fl(1.0 / f64::from(fl(stored * f64::from(tensor)))).min(f32::MAX),
                    fl(stored * f64::from(tensor)),
                ),
                _ => (
                    fl(f64::from(fl(1.0 / f64::from(tensor))) / stored).min(f32::MAX),
                    fl(f64::from(tensor) * stored),
                ),
            };
            for (x, y) in block.iter().zip(&applied.values[16 * i..]) {
                let scaled = fl(f64::from(*x) * f64::from(encode));
                let expected = fl(nearest(&grid, f64::from(scaled)) * f64::from(decode));
                assert_eq!(*y, expected, "{order:?}: {x:e}");
            }
        }
    }
}

#[test]
fn columns_are_rows_of_the_transposed_matrix() {
    let x = numbers(24 * 10, 5, 118..131);
    let transposed: Vec<f32> = (0..240).map(|i| x[i % 24 * 10 + i / 24]).collect();
    for block in [Block::Tensor, Block::Row, Block::Along(8), Block::Tile([3, 16])] {
        let cast = Cast { block, ..mx(Rule::Rceil) };
        let grid = grid("E4M3");
        let down = apply_along(&cast, &grid, &x, [24, 10], Axis::Columns).unwrap();
        let along = apply_along(&cast, &grid, &transposed, [10, 24], Axis::Rows).unwrap();
        assert!((0..240).all(|i| down.values[i % 24 * 10 + i / 24] == along.values[i]), "{block:?}");
        let [rows, columns] = down.layout.counts();
        assert_eq!(along.layout.counts(), [columns, rows]);
        assert!(
            (0..rows * columns).all(|i| down.scales[i] == along.scales[i % columns * rows + i / columns])
        );
    }
}
