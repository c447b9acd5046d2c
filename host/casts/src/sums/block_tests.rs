//! Sums of scaled blocks, against a model in whole numbers.

use super::{
    tests::{cut, parts, random},
    *,
};

/// NVFP4 and MXFP4 on Blackwell (arXiv:2511.10909).
const FP4: LimitedSum = LimitedSum {
    bits: 35,
    nearest: false,
    group: 64,
    promote: None,
    promote_truncates: false,
    exact: Some(16),
};

/// The model of arXiv:2609.02846: exact sums of 64 products, rounded to f32, are added toward zero.
const EXACT_GROUPS: LimitedSum =
    LimitedSum { bits: 36, nearest: true, promote: Some(64), promote_truncates: true, ..FP4 };

/// Codes of E2M1, and a scale for each block of 16.
#[derive(Debug)]
struct Operand {
    codes: Vec<f32>,
    scales: Vec<f32>,
}

impl Operand {
    fn random(state: &mut u64, blocks: usize, scale: impl Fn(&mut u64) -> f32) -> Self {
        let code = |state: &mut u64| {
            let magnitude = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0][random(state) as usize % 8];
            if random(state).is_multiple_of(2) { magnitude } else { -magnitude }
        };
        let codes = (0..16 * blocks).map(|_| code(state)).collect();
        Self { codes, scales: (0..blocks).map(|_| scale(state)).collect() }
    }

    /// As the crate has it, with a factor of all values.
    fn addends(&self, sum: &LimitedSum, rows: usize, lowest: i32, factor: f32) -> Addends {
        let terms = self.codes.len() / rows;
        let lowest = 2f64.powi(lowest) as f32;
        Addends::of_blocks(sum, [rows, terms], (lowest, factor), |row, term| {
            let at = row * terms + term;
            let stored = self.scales[at / 16];
            // As a cast has them, up to rounding.
            let encode = if stored == 0.0 { f32::MIN_POSITIVE } else { 1.0 / (stored * factor) };
            (self.codes[at] * (stored * factor), [encode, stored])
        })
    }
}

/// A number of E4M3, 0 and subnormals among them.
fn e4m3(state: &mut u64) -> f32 {
    crate::ScaleType::UE4M3.value((random(state) % 0x7f) as u8)
}

/// The significand of a scale in units of 2^-7, and its exponent.
fn split(scale: f32, lowest: i32) -> (i128, i32) {
    if scale == 0.0 {
        return (0, -126);
    }
    let exponent = floor_log2(scale).max(lowest);
    ((f64::from(scale) * 2f64.powi(7 - exponent)) as i128, exponent)
}

/// The exact sum of a block's products, in quarters.
fn dot(a: &[f32], b: &[f32]) -> i128 {
    a.iter().zip(b).map(|(a, b)| (a * b * 4.0) as i128).sum()
}

/// The sum of two rows by whole numbers.
fn model(sum: &LimitedSum, a: &Operand, b: &Operand, lowest: i32) -> f32 {
    let blocks = a.scales.len();
    let mut total = 0f32;
    for from in (0..blocks).step_by(4) {
        let (whole, unit, _) = parts(total, -126);
        let mut terms = vec![(whole, unit)];
        let mut most = parts(total, -126).2;
        for block in from..(from + 4).min(blocks) {
            let of = |x: &Operand| x.codes[16 * block..][..16].to_vec();
            let (x, x_exponent) = split(a.scales[block], lowest);
            let (y, y_exponent) = split(b.scales[block], lowest);
            let exponent = x_exponent + y_exponent;
            terms.push((dot(&of(a), &of(b)) * x * y, exponent - 2 - 14));
            most = most.max(exponent);
        }
        let unit = most - sum.bits as i32;
        let added: i128 = terms.into_iter().map(|(x, of)| cut(x, unit - of, sum.nearest)).sum();
        let len = 128 - added.unsigned_abs().leading_zeros() as i32;
        let drop = (len - 1 - sum.bits.min(23) as i32).max(0);
        let more = (-149 - unit - drop).max(0);
        let kept = cut(cut(added, drop, sum.nearest), more, sum.nearest);
        total = (kept as f64 * f64::from(unit + drop + more).exp2()) as f32;
    }
    total
}

fn sum_of(sum: &LimitedSum, a: &Operand, b: &Operand, lowest: i32) -> f32 {
    let mut y = [0.0];
    sum.multiply(
        &mut y,
        &a.addends(sum, 1, lowest, 1.0),
        0,
        &Panels::new(sum, b.addends(sum, 1, lowest, 1.0)),
    );
    y[0]
}

fn check(a: &Operand, b: &Operand, lowest: i32) {
    for (bits, nearest) in [(35, false), (35, true), (25, false), (14, true), (8, false)] {
        let sum = LimitedSum { bits, nearest, ..FP4 };
        let (y, expected) = (sum_of(&sum, a, b, lowest), model(&sum, a, b, lowest) + 0.0);
        assert_eq!(y.to_bits(), expected.to_bits(), "{sum:?}: {y} and {expected} of {a:?} {b:?}");
    }
}

#[test]
fn random_sums_of_blocks_are_those_of_whole_numbers() {
    let mut state = 5;
    for round in 0..200 {
        // The last group is cut off.
        let blocks = 1 + round % 11;
        let mut operand = || Operand::random(&mut state, blocks, e4m3);
        check(&operand(), &operand(), -6);
        let power = |state: &mut u64| 2f64.powi(random(state) as i32 % 60 - 30) as f32;
        let mut operand = || Operand::random(&mut state, blocks, power);
        check(&operand(), &operand(), -127);
    }
}

#[test]
fn adversarial_sums_of_blocks_are_those_of_whole_numbers() {
    let block = |code: f32, scale: f32| (vec![code; 16], scale);
    let operand = |blocks: &[(Vec<f32>, f32)]| Operand {
        codes: blocks.iter().flat_map(|(codes, _)| codes.clone()).collect(),
        scales: blocks.iter().map(|(_, scale)| *scale).collect(),
    };
    let least = 2f32.powi(-9);
    for a in [
        // Cancellation, in a group and between groups; one large block; all equal; scales of zero and subnormal ones.
        vec![block(6.0, 448.0), block(-6.0, 448.0), block(0.5, least), block(1.5, 0.8125)],
        vec![block(6.0, 448.0), block(0.5, 1.0), block(0.5, 1.0), block(0.5, 1.0), block(-6.0, 448.0)],
        vec![block(0.5, least), block(6.0, 448.0), block(-0.5, least), block(0.5, 3.0 * least)],
        vec![block(3.0, 1.875); 9],
        vec![block(6.0, 0.0), block(1.0, least), block(0.0, 448.0), block(-1.5, 7.0 * least)],
        // Exponents of scales count for a block of zeros: the small one is cut off in few bits.
        vec![block(0.0, 448.0), block(0.5, least)],
    ] {
        let ones: Vec<_> = a.iter().map(|(_, scale)| block(1.0, *scale)).collect();
        let (a, ones) = (operand(&a), operand(&ones));
        check(&a, &ones, -6);
        check(&a, &a, -6);
    }
    let sum = LimitedSum { bits: 8, ..FP4 };
    let a = operand(&[block(0.0, 448.0), block(0.5, least)]);
    assert_eq!(sum_of(&sum, &a, &operand(&[block(1.0, 448.0), block(1.0, least)]), -6), 0.0);
}

/// Sums of 64 products are exact for scales of E4M3 in 36 bits; adding them toward zero is division with rest.
#[test]
fn exact_groups_are_added_toward_zero() {
    let mut state = 6;
    for _ in 0..200 {
        let mut operand = || Operand::random(&mut state, 12, e4m3);
        let (a, b) = (operand(), operand());
        let mut expected = 0f64;
        for group in 0..3 {
            let blocks = 4 * group..4 * group + 4;
            // A multiple of 2^-20 below 2^28: exact in f64.
            let of = |block: usize| {
                let [x, y] = [&a, &b].map(|x| &x.codes[16 * block..][..16]);
                dot(x, y) as f64 / 4.0 * f64::from(a.scales[block]) * f64::from(b.scales[block])
            };
            let exact: f64 = blocks.map(of).sum();
            let next = expected + f64::from(exact as f32);
            // Both are multiples of 2^-20 or of a 2^-23rd of the larger: the sum is exact in f64.
            let unit = 2f64.powi((next.abs().max(1e-30).log2().floor() as i32 - 23).max(-149));
            expected = (next / unit).trunc() * unit;
        }
        assert_eq!(f64::from(sum_of(&EXACT_GROUPS, &a, &b, -6)), expected);
    }
    for (a, b, expected) in [
        (1.0, 2f32.powi(-24), 1.0),
        (1.0, -2f32.powi(-24), 1.0f32.next_down()),
        (1.0, -2f32.powi(-60), 1.0f32.next_down()),
        (-1.0, 2f32.powi(-60), -1.0f32.next_down()),
        (16_777_216.0, 1.5, 16_777_216.0),
        (16_777_216.0, 3.5, 16_777_218.0),
        (1.0, 2.0, 3.0),
        (0.0, -0.5, -0.5),
    ] {
        assert_eq!(sum_toward_zero(a, b), expected, "{a} {b}");
        assert_eq!(sum_toward_zero(-a, -b), -expected, "{a} {b}");
    }
}

/// The scale of the tensor comes last; blocks of different scales in one term have no result.
#[test]
fn the_factor_of_all_values_comes_last() {
    let mut state = 7;
    let mut operand = || Operand::random(&mut state, 8, |state| e4m3(state).max(0.25));
    let (a, b) = (operand(), operand());
    let factors = [0.3f32, 7.1];
    let mut y = [0.0];
    let of_b = b.addends(&FP4, 1, -6, factors[1]);
    FP4.multiply(&mut y, &a.addends(&FP4, 1, -6, factors[0]), 0, &Panels::new(&FP4, of_b));
    assert_eq!(y[0], sum_of(&FP4, &a, &b, -6) * (0.3 * 7.1));
    let wide = LimitedSum { exact: Some(32), ..FP4 };
    assert!(sum_of(&wide, &a, &b, -6).is_nan());
    assert!(FP4.fits_blocks([6.0; 2], 0.25) && EXACT_GROUPS.fits_blocks([6.0; 2], 0.25));
    assert!(!FP4.fits_blocks([448.0; 2], 2f64.powi(-18)));
}

/// The time of products of 256 rows, columns and terms on one thread, operands included: the least of 50. The command
/// is that of the test `on_demand_costs`.
#[test]
#[ignore = "on demand: the comment above has the command"]
fn on_demand_costs_of_blocks() {
    const SIDE: usize = 256;
    let operand = Operand::random(&mut 4, SIDE * SIDE / 16, e4m3);
    let mut y = vec![0.0; SIDE * SIDE];
    for sum in [FP4, EXACT_GROUPS] {
        let mut time = || {
            let start = std::time::Instant::now();
            let addends = || operand.addends(&sum, SIDE, -6, 1.0);
            sum.multiply(&mut y, &addends(), 0, &Panels::new(&sum, addends()));
            start.elapsed().as_secs_f64()
        };
        let least = (0..50).map(|_| time()).fold(f64::MAX, f64::min);
        println!("{:.2} ms: {sum:?}", least * 1e3);
    }
}
