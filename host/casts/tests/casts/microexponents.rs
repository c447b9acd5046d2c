//! Shared microexponents against the definitions of their sources, in f64 and whole numbers: HiFloat4
//! (arXiv:2602.11287) and Microsoft's MX (arXiv:2302.08007).

use altgrad_casts::{Block, Cast, Microexponents, Rounding, Rule, ScaleType, Scaling, Storage, ZeroBlock};
use half::bf16;

use crate::support::{apply, bits, grid, numbers};

fn hifloat4() -> Cast {
    let scaling = Scaling {
        storage: Storage::Minifloat(ScaleType::E6M2),
        microexponents: Microexponents::new(&[8, 4]).unwrap(),
        in_bf16: true,
        ..Scaling::default()
    };
    Cast { rounding: Rounding::NearestAway, block: Block::Along(64), scaling, ..Cast::default() }
}

fn amax(x: &[f32]) -> f32 {
    x.iter().filter(|x| x.is_finite()).fold(0.0, |most, x| most.max(x.abs()))
}

fn to_bf16(x: f32) -> f32 {
    bf16::from_f32(x).to_f32()
}

/// A block of HiFloat4 by the paper's steps: the values, the scale, and the exponents of groups of 4.
fn hifloat4_by_steps(x: &[f32]) -> (Vec<f32>, f32, Vec<u8>) {
    let scale = to_bf16(amax(x) * to_bf16(1.0 / 7.0)).clamp(2f32.powi(-48), 49152.0);
    let unit = 2f64.powi(f64::from(scale).log2().floor() as i32 - 2);
    let scale = ((f64::from(scale) / unit).round_ties_even() * unit) as f32;
    let inverse = to_bf16(1.0 / scale);
    let mut values = Vec::new();
    let mut exponents = Vec::new();
    for eight in x.chunks(8) {
        let first = i32::from(amax(eight) * inverse >= 4.0);
        for four in eight.chunks(4) {
            let exponent = first + i32::from(amax(four) * inverse * 0.5f32.powi(first) >= 2.0);
            exponents.push(exponent as u8);
            values.extend(four.iter().map(|x| {
                let quarters = f64::from(x.abs() * inverse) * 2f64.powi(2 - exponent);
                let element = ((quarters + 0.5).floor() / 4.0).min(1.75);
                (element * 2f64.powi(exponent) * f64::from(scale)) as f32 * 1f32.copysign(*x)
            }));
        }
    }
    (values, scale, exponents)
}

fn check_hifloat4(x: &[f32], what: &str) {
    let applied = apply(&hifloat4(), &grid("INT4"), x, [1, x.len()]);
    let exponents = applied.microexponents.unwrap();
    for (index, block) in x.chunks(64).enumerate() {
        let (values, scale, of_fours) = hifloat4_by_steps(block);
        let of_block = &applied.values[64 * index..][..block.len()];
        assert_eq!(bits(of_block), bits(&values), "{what}: {block:?}");
        assert_eq!(applied.scales[index], scale, "{what}");
        assert_eq!(exponents[16 * index..][..of_fours.len()], of_fours, "{what}");
        // E6M2: the exponent plus 48, and two bits.
        let code = (scale.to_bits() >> 21) as i32 - (127 - 48) * 4;
        assert_eq!(i32::from(applied.scale_codes.as_ref().unwrap()[index]), code, "{what}");
    }
}

#[test]
fn random_blocks_of_hifloat4_are_those_of_its_steps() {
    for seed in 0..40 {
        for exponents in [126..128, 120..130, 100..140, 70..80, 139..145] {
            let mut x = numbers(200, seed, exponents.clone());
            x[7] = 0.0;
            check_hifloat4(&x, "f32");
            // The paper's elements are bf16: products with the inverse scale are exact.
            x.iter_mut().for_each(|x| *x = to_bf16(*x));
            check_hifloat4(&x, "bf16");
        }
    }
}

#[test]
fn adversarial_blocks_of_hifloat4_are_those_of_its_steps() {
    let one = |at: usize, x: f32, rest: f32| {
        let mut block = vec![rest; 64];
        block[at] = x;
        block
    };
    let mut blocks = vec![vec![0.0; 64], vec![1.0; 64], vec![-0.0; 64], vec![f32::MAX; 64]];
    for at in [0, 5, 63] {
        blocks.extend([7.0, -7.0, 6.99, 1.75, 3.5, 1e-20, 1e30].map(|x| one(at, x, 0.0)));
        blocks.extend([0.125, 0.375, 1.0, 1.75, 1.875, 2.0, 3.5, 3.75, 4.0].map(|x| one(at, 7.0, x)));
    }
    // Around the thresholds of both factors, and ties of elements.
    for x in [2.0f32, 4.0, 1.875, 0.875, 0.125, 0.625] {
        blocks.extend([x.next_down(), x, x.next_up()].map(|x| one(60, 7.0, -x)));
    }
    // Cut off within a sub-block.
    blocks.push(vec![3.0, -1.0, 0.1]);
    blocks.iter().for_each(|block| check_hifloat4(block, "adversarial"));
    // Neither infinities nor NaN change a scale or a factor.
    let mut block = one(0, 7.0, 0.5);
    (block[20], block[21]) = (f32::NEG_INFINITY, f32::NAN);
    let applied = apply(&hifloat4(), &grid("INT4"), &block, [1, 64]);
    assert_eq!((applied.scales[0], applied.values[20]), (1.0, -1.75));
    assert!(applied.values[21].is_nan() && applied.microexponents.unwrap()[5] == 0);
}

/// Scale E = floor(log2 amax), a pair of elements one binade below it if its largest is; 7 bits and a sign: MX9.
#[test]
fn blocks_of_mx9_are_those_of_its_definition() {
    let scaling = Scaling {
        rule: Rule::Floor,
        storage: Storage::E8m0,
        zero: ZeroBlock::Smallest,
        microexponents: Microexponents::new(&[2]).unwrap(),
        ..Scaling::default()
    };
    let cast = Cast { block: Block::Along(16), scaling, ..Cast::default() };
    let exponent = |x: f32| f64::from(x).log2().floor() as i32;
    for seed in 0..60 {
        let x = numbers(16 * 9, seed, [126..128, 110..130][seed as usize % 2].clone());
        let applied = apply(&cast, &grid("INT8"), &x, [3, 48]);
        for (block, values) in x.chunks(16).zip(applied.values.chunks(16)) {
            let of_block = exponent(amax(block));
            for (pair, values) in block.chunks(2).zip(values.chunks(2)) {
                let unit = 2f64.powi(of_block - i32::from(exponent(amax(pair)) < of_block) - 6);
                for (x, value) in pair.iter().zip(values) {
                    let whole = (f64::from(*x) / unit).round_ties_even().clamp(-127.0, 127.0);
                    assert_eq!(f64::from(*value), whole * unit, "{x} of {block:?}");
                }
            }
        }
    }
}

/// A scale of the tensor, few levels and many: values are codes times powers of two times scales, and no level changes
/// a block whose elements all need the largest factor.
#[test]
fn factors_are_powers_of_two_that_the_scale_leaves_room_for() {
    let x = numbers(256, 9, 110..128);
    for (sizes, storage, tensor) in
        [(&[16, 4][..], Storage::E4m3, true), (&[4, 4, 4], Storage::F32, false), (&[8], Storage::E4m3, false)]
    {
        let microexponents = Microexponents::new(sizes).unwrap();
        let scaling = Scaling { storage, tensor, microexponents, ..Scaling::default() };
        let cast = Cast { block: Block::Along(16), scaling, ..Cast::default() };
        let applied = apply(&cast, &grid("E2M1"), &x, [4, 64]);
        let smallest = usize::from(sizes[sizes.len() - 1]);
        let exponents = applied.microexponents.unwrap();
        assert!(
            exponents.iter().any(|k| *k != exponents[0])
                && exponents.iter().all(|k| usize::from(*k) <= sizes.len())
        );
        for (index, value) in applied.values.iter().enumerate() {
            let point =
                grid("E2M1").decode(applied.codes[index]) * 2f32.powi(exponents[index / smallest].into());
            let scale = applied.scales[index / 16] * applied.tensor_scale.unwrap_or(1.0);
            assert!((value - point * scale).abs() <= value.abs() * 4.0 * f32::EPSILON, "{index}");
        }
        let equal = apply(&cast, &grid("E2M1"), &[6.0; 64], [1, 64]);
        assert!(equal.values.iter().all(|value| (value - 6.0).abs() < 0.4), "{:?}", equal.values);
        assert!(equal.microexponents.unwrap().iter().all(|k| usize::from(*k) == sizes.len()));
    }
}
