//! Scales that need the whole matrix, against a second implementation in this file: nested scales, MS-EDEN, outer
//! blocks, bf16 products.

use altgrad_casts::{
    Applied, Axis, Block, Cast, Operation, Order, Rounding, ScaleRounding, Scaling, Shape, Storage, ZeroBlock,
};
use altgrad_plugin_api::{PluginError, QuantParams, RandomKey, Rounding as Mode};

use crate::support::{apply, bits, grid, numbers};

/// MS-EDEN of Quartet II (arXiv:2601.22813): the block's largest magnitude is scaled to `6 / (17/16 0.93)`, a little
/// beyond E2M1's 6.
fn eden(block: usize, correction: usize) -> Cast {
    let scaling = Scaling {
        storage: Storage::E4m3,
        tensor: true,
        order: Order::DecodeMost,
        most: Some(255.99),
        target: Some(6.072_106_4),
        zero: ZeroBlock::StoredOne,
        quantize: Operation::Divide,
        dequantize: Operation::Nested,
        round: ScaleRounding::Stochastic,
        correction: Some(correction),
        ..Scaling::default()
    };
    Cast { rounding: Rounding::NearestAway, block: Block::Along(block), scaling, ..Cast::default() }
}

/// A cast to E2M1 whose scales have these random words.
fn with_words(cast: &Cast, values: &[f32], columns: usize, words: impl Iterator<Item = u32>) -> Applied {
    let (grid, key) = (grid("E2M1"), RandomKey::default());
    let shape = Shape { rows: values.len() / columns, columns };
    let prepared = cast.prepare_by(&grid, values, shape, Axis::Rows, &key, words).unwrap();
    let rounder = grid.rounder().unwrap();
    let encode = |scaled: &[f32], rounding: Mode| -> Result<Vec<u16>, PluginError> {
        let mut codes = vec![0; scaled.len()];
        let params = QuantParams { rounding, ..QuantParams::IDENTITY };
        rounder.encode(scaled, &mut codes, &params).map(|()| codes)
    };
    let codes = cast.codes(&grid, prepared.scaled(), &key, encode).unwrap();
    prepared.finish(&grid, codes).unwrap()
}

/// The numbers of E4M3 from 0 on.
fn e4m3() -> Vec<f32> {
    (0..0x7f).map(|code| grid("E4M3").decode(code)).collect()
}

/// The number of the list nearest to `x`, ties to the even code.
fn nearest(list: &[f32], x: f32) -> usize {
    let distance = |code: &usize| (f64::from(list[*code]) - f64::from(x)).abs();
    (0..list.len()).min_by(|a, b| distance(a).total_cmp(&distance(b)).then((a % 2).cmp(&(b % 2)))).unwrap()
}

/// E2M1, ties away from zero.
fn e2m1_away(v: f32) -> f32 {
    let list = [0f32, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    let up = list.iter().zip(&list[1..]).filter(|(a, b)| v.abs() >= (*a + *b) / 2.0).count();
    list[up].copysign(v)
}

fn amax(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |most, x| most.max(x.abs()))
}

/// The definition, step by step: values, corrected scales and the probabilities that these are the upper neighbours.
fn eden_by_steps(
    x: &[f32],
    block: usize,
    correction: usize,
    words: &[u32],
) -> (Vec<f32>, Vec<f32>, Vec<f32>) {
    let (list, target) = (e4m3(), 6.072_106_4f32);
    let tensor = amax(x) / 255.99 / target;
    let stored: Vec<f32> = x
        .chunks(block)
        .map(|block| match list[nearest(&list, amax(block) / target / tensor)] {
            0.0 => 1.0,
            stored => stored,
        })
        .collect();
    let v: Vec<f32> = x.iter().enumerate().map(|(i, x)| x / (stored[i / block] * tensor)).collect();
    let q: Vec<f32> = v.iter().map(|v| e2m1_away(*v)).collect();
    let (mut scales, mut chances) = (Vec::new(), Vec::new());
    for (index, stored) in stored.iter().enumerate() {
        let first = index * block / correction * correction;
        let sum = |other: &[f32]| -> f64 {
            (first..first + correction).map(|i| f64::from(v[i]) * f64::from(other[i])).sum()
        };
        let factor = if sum(&q) == 0.0 { 1.0 } else { (sum(&v) / sum(&q)) as f32 };
        let t = stored * factor;
        let low = list.iter().rposition(|number| *number <= t).unwrap();
        let chance = (t - list[low]) / (list[low + 1] - list[low]);
        let u = (words[index] >> 8) as f32 / (1u32 << 24) as f32;
        scales.push(list[low + usize::from(u < chance)]);
        chances.push(chance);
    }
    let values = q.iter().enumerate().map(|(i, q)| q * scales[i / block] * tensor).collect();
    (values, scales, chances)
}

fn words(count: usize, seed: u32) -> Vec<u32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state ^ state >> 15
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn ms_eden_is_its_definition() {
    for (seed, correction) in [(1, 16), (2, 32), (3, 128)] {
        let x = numbers(8 * 128, seed, 120..130);
        let words = words(64, seed);
        let applied = with_words(&eden(16, correction), &x, 128, words.iter().copied());
        let (values, scales, _) = eden_by_steps(&x, 16, correction, &words);
        assert_eq!(applied.scales, scales, "{correction}");
        assert_eq!(bits(&applied.values), bits(&values), "{correction}");
    }
    // Zeros, and a block that is small beside the tensor, store 1.
    let mut x = vec![0.0; 48];
    x[16] = 1e-9;
    x[32..].fill(1.0);
    let applied = with_words(&eden(16, 16), &x, 48, std::iter::repeat(u32::MAX));
    assert_eq!((applied.scales[0], applied.values[0]), (1.0, 0.0));
    assert!(applied.scales.iter().all(|scale| *scale > 0.0));
}

/// Of a million scales that are rounded at random the mean is the corrected one, so that the values have the projection
/// of the elements on themselves: `c = sum v^2 / sum v q` of each block.
#[test]
fn ms_eden_is_unbiased_over_a_million_draws() {
    const ROWS: usize = 500_000;
    let row = [0.9f32, -0.31, 0.42, 0.05, -0.77, 0.2, 0.11, -0.63];
    let x = row.repeat(ROWS);
    let drawn = words(2 * ROWS, 7);
    let applied = with_words(&eden(4, 4), &x, 8, drawn.iter().copied());
    let (low, _, _) = eden_by_steps(&row, 4, 4, &[u32::MAX; 2]);
    let (high, _, chances) = eden_by_steps(&row, 4, 4, &[0; 2]);
    let square: f64 = row.iter().map(|x| f64::from(x * x)).sum();
    let mut projection = [0f64; 3];
    for i in 0..8 {
        let [low, high, chance] = [low[i], high[i], chances[i / 4]].map(f64::from);
        let expected = low + chance * (high - low);
        let mean = applied.values.iter().skip(i).step_by(8).map(|value| f64::from(*value)).sum::<f64>()
            / ROWS as f64;
        let error = (chance * (1.0 - chance) / ROWS as f64).sqrt() * (high - low).abs();
        assert!((mean - expected).abs() <= 5.0 * error + 1e-7, "{i}: {mean}, expected {expected} +- {error}");
        let parts = [expected, mean, error].map(|part| part * f64::from(row[i]));
        projection[0] += parts[0];
        projection[1] += parts[1];
        projection[2] += parts[2].abs();
    }
    assert!((projection[0] / square - 1.0).abs() < 1e-6, "{projection:?}, {square}");
    assert!((projection[1] - square).abs() <= 5.0 * projection[2], "{projection:?}, {square}");
}

/// Without a correction the first scale itself is rounded at random.
#[test]
fn scales_are_rounded_at_random() {
    let scaling = Scaling { storage: Storage::E4m3, round: ScaleRounding::Stochastic, ..Scaling::default() };
    let cast = Cast { block: Block::Along(1), scaling, ..Cast::default() };
    // 6.6/6 is at 0.8 of the distance from 1 to 1.125.
    let applied = with_words(&cast, &[6.6; 4], 4, [0, 0xcc << 24, 0xcd << 24, u32::MAX].into_iter());
    assert_eq!(applied.scales, [1.125, 1.125, 1.0, 1.0]);
    let many = apply(&cast, &grid("E2M1"), &[6.6; 20_000], [1, 20_000]).scales;
    let share = many.iter().filter(|scale| **scale == 1.125).count() as f64 / 20_000.0;
    assert!((share - 0.8).abs() < 0.015, "{share}");
}

/// Four over six in the order of its sources: `fl(fl(fl(q b) G) / 1536)`, exact products rounded one by one.
#[test]
fn nested_values_are_multiplied_one_by_one() {
    let x = numbers(4 * 64, 5, 120..130);
    let plain = Scaling {
        storage: Storage::E4m3,
        tensor: true,
        order: Order::Amax,
        most: Some(256.0),
        ..Scaling::default()
    };
    let mut differing = 0;
    for (order, block) in [(Order::Amax, Block::Along(16)), (Order::Decode, Block::Tile([2, 16]))] {
        let of = |dequantize| {
            let scaling = Scaling { order, dequantize, ..plain };
            apply(&Cast { block, scaling, ..Cast::default() }, &grid("E2M1"), &x, [4, 64])
        };
        let (nested, multiplied) = (of(Operation::Nested), of(Operation::Multiply));
        assert_eq!((&nested.codes, &nested.scales), (&multiplied.codes, &multiplied.scales));
        for i in 0..x.len() {
            let [rows, columns] = nested.layout.block;
            let scale = nested.scales[i / 64 / rows * (64 / columns) + i % 64 / columns];
            // At most 8 and 24 bits: exact in f64.
            let product = f64::from(grid("E2M1").decode(nested.codes[i]) * scale);
            let expected = match order {
                Order::Amax => (product * f64::from(amax(&x))) as f32 / 1536.0,
                _ => (product * f64::from(nested.tensor_scale.unwrap())) as f32,
            };
            assert_eq!(nested.values[i], expected, "{order:?} {i}");
            differing += usize::from(nested.values[i] != multiplied.values[i]);
        }
    }
    assert!(differing > 0);
    // No finite element becomes infinite.
    let cast = Cast {
        block: Block::Along(16),
        scaling: Scaling { dequantize: Operation::Nested, ..plain },
        ..Cast::default()
    };
    let values = apply(&cast, &grid("E2M1"), &[f32::MAX, 1.0, f32::NAN, f32::MIN], [1, 4]).values;
    assert!(values[0] > 1e38 && values[0].is_finite() && values[2].is_nan() && values[3] == -values[0]);
    let values = apply(&cast, &grid("E2M1"), &[0.0, -0.0], [1, 2]).values;
    assert_eq!(bits(&values), bits(&[0.0, -0.0]));
}

/// TetraJet-v2 (arXiv:2510.27527): an f32 scale per outer block, E4M3 scales relative to it, never 0.
#[test]
fn outer_blocks_have_scales_in_place_of_the_tensors() {
    let mut x = numbers(3 * 64, 9, 118..130);
    x[..16].fill(0.0);
    x[16] = 1e-9;
    x[64..96].fill(0.0);
    let scaling = Scaling {
        storage: Storage::E4m3,
        tensor: true,
        outer: Some(32),
        order: Order::DecodeTensor,
        zero: ZeroBlock::StoredSmallest,
        quantize: Operation::Divide,
        ..Scaling::default()
    };
    let cast = Cast { block: Block::Along(16), scaling, ..Cast::default() };
    let applied = apply(&cast, &grid("E2M1"), &x, [3, 64]);
    assert_eq!(applied.tensor_scale, None);
    let (list, outer) = (e4m3(), applied.outer_scales.unwrap());
    assert_eq!(outer.len(), 6);
    for (index, part) in x.chunks(32).enumerate() {
        let expected = if amax(part) == 0.0 { 1.0 } else { amax(part) / 448.0 / 6.0 };
        assert_eq!(outer[index], expected, "{index}");
        for (inner, block) in part.chunks(16).enumerate() {
            let stored = nearest(&list, amax(block) / expected / 6.0).max(1);
            assert_eq!(applied.scales[2 * index + inner], list[stored]);
            for (i, x) in block.iter().enumerate() {
                let i = 32 * index + 16 * inner + i;
                let scale = list[stored] * expected;
                let [even, scaled] = [grid("E2M1").decode(applied.codes[i]), x / scale];
                assert!((even - scaled).abs() <= if scaled.abs() > 4.0 { 1.0 } else { 0.5 });
                assert_eq!(applied.values[i], even * scale);
            }
        }
    }
    // Alone, an outer block has the values that it has among others.
    let alone = apply(&cast, &grid("E2M1"), &x[128..160], [1, 32]);
    assert_eq!(alone.values, applied.values[128..160]);
}

/// Both the scale of the tensor and its product with a stored scale have bf16's 8 bits.
#[test]
fn products_of_scales_can_be_bf16() {
    let x = numbers(2 * 32, 4, 120..128);
    let scaling = Scaling {
        storage: Storage::E4m3,
        tensor: true,
        to_bf16: true,
        order: Order::DecodeTarget,
        quantize: Operation::Divide,
        ..Scaling::default()
    };
    let cast = Cast { block: Block::Along(16), scaling, ..Cast::default() };
    let applied = apply(&cast, &grid("E2M1"), &x, [2, 32]);
    let to_bf16 = |x: f32| {
        let rounded = x.to_bits() + 0x7fff + (x.to_bits() >> 16 & 1);
        f32::from_bits(rounded & 0xffff_0000)
    };
    let tensor = to_bf16(amax(&x) / 6.0 / 448.0);
    assert_eq!(applied.tensor_scale, Some(tensor));
    for i in 0..x.len() {
        let point = grid("E2M1").decode(applied.codes[i]);
        assert_eq!(applied.values[i], point * to_bf16(tensor * applied.scales[i / 16]));
    }
}

#[test]
fn scales_of_the_matrix_are_refused_where_they_have_no_meaning() {
    let good = eden(16, 32);
    assert!(good.check(&grid("E2M1")).is_ok());
    let with = |change: fn(&mut Cast)| {
        let mut cast = good;
        change(&mut cast);
        cast.check(&grid("E2M1")).unwrap_err().to_string()
    };
    for (text, change) in [
        ("`scaling.correction` needs blocks", (|cast| cast.scaling.correction = Some(24)) as fn(&mut Cast)),
        ("`scaling.correction` needs blocks", |cast| cast.scaling.correction = Some(0)),
        ("`scaling.correction` needs blocks", |cast| cast.block = Block::Tile([16, 16])),
        ("`scaling.outer` needs blocks", |cast| cast.scaling.outer = Some(8)),
        ("`scaling.outer` needs `scaling.tensor`", |cast| {
            (cast.scaling.outer, cast.scaling.tensor, cast.scaling.most) = (Some(32), false, None);
            cast.scaling.dequantize = Operation::Multiply;
        }),
        ("`scaling.dequantize` is nested, which needs", |cast| {
            (cast.scaling.tensor, cast.scaling.most) = (false, None);
        }),
        ("`scaling.quantize` is nested", |cast| cast.scaling.quantize = Operation::Nested),
        ("`scaling.target` must be", |cast| cast.scaling.target = Some(0.0)),
        ("`scaling` has a stochastic round or a nested", |cast| {
            (cast.block, cast.scaling.correction) = (Block::Tensor, None);
        }),
        ("`scaling.amax` = \"static\" needs one scale", |cast| {
            (cast.scaling.outer, cast.scaling.amax) = (Some(32), Some(1.0));
        }),
        ("`center` excludes a transform", |cast| {
            (cast.center, cast.scaling.amax) = (Some(Axis::Columns), Some(1.0));
        }),
    ] {
        assert!(with(change).starts_with(text), "{text}: {}", with(change));
    }
}
