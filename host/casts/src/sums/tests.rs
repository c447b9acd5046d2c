//! Against a model in whole numbers.

use super::*;

/// The sums of products whose exponents are their own.
const PLAIN: LimitedSum =
    LimitedSum { bits: 25, nearest: false, group: 32, promote: None, promote_truncates: false, exact: None };

/// A finite f32 as a whole number times a power of two, and its exponent, at least `lowest`.
pub(super) fn parts(x: f32, lowest: i32) -> (i128, i32, i32) {
    let (bits, exponent) = (x.to_bits(), (x.to_bits() >> 23 & 0xff) as i32);
    let (whole, exponent) = match exponent {
        0 => (i128::from(bits & 0x7f_ffff), -126),
        _ => (i128::from(bits & 0x7f_ffff | 0x80_0000), exponent - 127),
    };
    (if x < 0.0 { -whole } else { whole }, exponent - 23, exponent.max(lowest))
}

/// `x 2^-shift` without its fraction.
pub(super) fn cut(x: i128, shift: i32, nearest: bool) -> i128 {
    let (size, sign) = (x.abs(), x.signum());
    if shift <= 0 {
        return x << -shift;
    }
    if shift > 120 {
        return 0;
    }
    let (kept, rest, half) = (size >> shift, size & ((1 << shift) - 1), 1i128 << (shift - 1));
    sign * (kept + i128::from(nearest && (rest > half || rest == half && kept & 1 == 1)))
}

/// The sum of products by whole numbers.
fn model(sum: &LimitedSum, a: &[f32], b: &[f32], lowest: i32) -> f32 {
    let mut y = 0f32;
    for (a, b) in a.chunks(sum.span(a.len())).zip(b.chunks(sum.span(a.len()))) {
        let mut total = 0f32;
        for (a, b) in a.chunks(sum.group).zip(b.chunks(sum.group)) {
            let mut terms = vec![(parts(total, -126).0, parts(total, -126).1)];
            let mut most = parts(total, -126).2;
            for (&a, &b) in a.iter().zip(b) {
                let ((x, x_unit, x_exponent), (y, y_unit, y_exponent)) = (parts(a, lowest), parts(b, lowest));
                terms.push((x * y, x_unit + y_unit));
                most = most.max(if x * y == 0 { -126 } else { x_exponent + y_exponent });
            }
            let unit = most - sum.bits as i32;
            let added: i128 = terms.into_iter().map(|(x, of)| cut(x, unit - of, sum.nearest)).sum();
            let len = 128 - added.unsigned_abs().leading_zeros() as i32;
            let drop = (len - 1 - sum.bits.min(23) as i32).max(0);
            let kept = cut(added, drop, sum.nearest);
            // Numbers below f32's normal ones.
            let more = (-149 - unit - drop).max(0);
            total = (cut(kept, more, sum.nearest) as f64 * f64::from(unit + drop + more).exp2()) as f32;
        }
        y += total;
    }
    y
}

pub(super) fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// A value of E4M3, or of bf16 with so many exponents below 2^56.
fn value(state: &mut u64, wide: Option<u32>) -> f32 {
    let (word, sign) = (random(state) as u32, (random(state) as u32 & 1) << 31);
    match wide {
        Some(range) => f32::from_bits(sign | (182 - word / 128 % range) << 23 | (word % 128) << 16),
        None => {
            let (exponent, stored) = (word / 8 % 16, (word % 8) as f32);
            let size = if exponent == 0 {
                stored / 512.0
            } else {
                (1.0 + stored / 8.0) * (f64::from(exponent) - 7.0).exp2() as f32
            };
            if sign > 0 { -size } else { size }
        }
    }
}

/// The products of each row of `a` with each of `b` as the crate adds them, in numbers of both types where f32 is wide
/// enough.
fn product(sum: &LimitedSum, a: &[f32], b: &[f32], terms: usize, lowest: i32) -> Vec<f32> {
    let lowest = f64::from(lowest).exp2() as f32;
    let addends = |x: &[f32]| {
        Addends::new(sum, [x.len() / terms, terms], lowest, |row, term| (x[row * terms + term], [1.0; 2]))
    };
    let (left, right) = (addends(a), addends(b));
    let columns = b.len() / terms;
    let is_narrow = sum.is_narrow(&left, &right);
    let panels = Panels::new(sum, right);
    let mut y = vec![0.0; a.len() / terms * columns];
    sum.multiply(&mut y, &left, 0, &panels);
    if is_narrow {
        let mut wide = vec![0.0; y.len()];
        let left = Addends { is_short: false, ..left };
        sum.multiply(&mut wide, &left, 0, &panels);
        assert_eq!(y, wide);
    }
    y
}

fn check(sum: &LimitedSum, a: &[f32], b: &[f32], terms: usize, lowest: i32, what: &str) {
    let y = product(sum, a, b, terms, lowest);
    let pairs = a.chunks(terms).flat_map(|a| b.chunks(terms).map(move |b| (a, b)));
    for (y, (a, b)) in y.iter().zip(pairs) {
        let expected = model(sum, a, b, lowest);
        assert_eq!(
            y.to_bits(),
            (expected + 0.0).to_bits(),
            "{what}, {sum:?}: {y} and {expected} of {a:?} {b:?}"
        );
    }
}

/// All widths, both roundings, with and without promotion.
fn widths() -> impl Iterator<Item = LimitedSum> {
    let widths = (8..=24).chain([25, 35]).flat_map(|bits| [(bits, false), (bits, true)]);
    widths.flat_map(|(bits, nearest)| {
        [(32, None), (16, Some(32)), (5, Some(10)), (1, None)].map(|(group, promote)| LimitedSum {
            bits,
            nearest,
            group,
            promote,
            ..PLAIN
        })
    })
}

#[test]
fn random_sums_are_those_of_whole_numbers() {
    let mut state = 1;
    for sum in widths() {
        for (wide, lowest) in [(None, -6), (Some(20), -126), (Some(180), -126)] {
            let mut numbers =
                |len: usize| -> Vec<f32> { (0..len).map(|_| value(&mut state, wide)).collect() };
            // Two panels, the last with one column.
            let (a, b) = (numbers(2 * 83), numbers(17 * 83));
            check(&sum, &a, &b, 83, lowest, "random");
        }
    }
}

#[test]
fn adversarial_sums_are_those_of_whole_numbers() {
    let mut state = 2;
    for sum in widths() {
        let mut sums: Vec<(Vec<f32>, Vec<f32>)> = Vec::new();
        let mut numbers = |len: usize| -> Vec<f32> { (0..len).map(|_| value(&mut state, None)).collect() };
        // Cancellation: each product and its negative, in the same group and in another.
        let (x, y) = (numbers(32), numbers(32));
        let negative: Vec<f32> = x.iter().map(|x| -x).collect();
        sums.push(([x.clone(), negative.clone()].concat(), [y.clone(), y.clone()].concat()));
        let mixed = x.iter().zip(&negative).flat_map(|(x, negative)| [*x, *negative]);
        sums.push((mixed.collect(), y.iter().flat_map(|y| [*y, *y]).collect()));
        // One large term, first, last and in the middle.
        for at in [0, 31, 63] {
            let mut large = vec![0.0625; 64];
            large[at] = -448.0;
            let mut other = vec![0.015625; 64];
            other[at] = 448.0;
            sums.push((large, other));
        }
        // All equal, subnormals among them, zeros, and ties.
        for x in [1.0, 448.0, 0.001953125, 0.0, 1.75] {
            sums.push((vec![x; 64], vec![-x; 64]));
            sums.push((vec![x; 64], vec![1.125; 64]));
        }
        for (a, b) in sums {
            check(&sum, &a, &b, 64, -6, "adversarial");
        }
    }
}

/// arXiv:2511.10909's examples with the bits of Hopper and Blackwell.
#[test]
fn worked_sums() {
    let sum = |bits| LimitedSum { bits, ..PLAIN };
    let cases: [(&[f32], f32, f32); 2] = [
        (&[256.0, 0.03125, 0.015625], 256.03125, 256.0 + 3.0 / 64.0),
        (&[256.0, -0.015625, -0.015625, -0.015625], 256.0, 256.0 - 3.0 / 64.0),
    ];
    for (terms, hopper, blackwell) in cases {
        let ones = vec![1.0; terms.len()];
        for (bits, expected) in [(13, hopper), (25, blackwell)] {
            assert_eq!(product(&sum(bits), terms, &ones, terms.len(), -6), [expected]);
        }
    }
}

/// Factors that are no powers of two are left out of the sums; those of powers of two belong to the values.
#[test]
fn codes_are_added() {
    let sum = LimitedSum { bits: 13, promote: Some(64), ..PLAIN };
    let mut state = 3;
    let codes: Vec<f32> = (0..256).map(|_| value(&mut state, None)).collect();
    let factors = [0.3f32, 7.1];
    let scaled = |codes: &[f32], span: usize| {
        let pair = move |at: usize| [1.0 / factors[at / span % 2], factors[at / span % 2]];
        let values: Vec<f32> = codes.iter().enumerate().map(|(at, code)| code * pair(at)[1]).collect();
        Addends::new(&sum, [1, 128], 2f32.powi(-6), move |_, at| (values[at], pair(at)))
    };
    let plain = |codes: &[f32]| {
        let codes = codes.to_vec();
        Addends::new(&sum, [1, 64], 2f32.powi(-6), move |_, at| (codes[at], [1.0; 2]))
    };
    let of = |a: Addends, b: Addends| {
        let mut y = [0.0];
        sum.multiply(&mut y, &a, 0, &Panels::new(&sum, b));
        y[0]
    };
    let (a, b) = codes.split_at(128);
    let y = of(scaled(a, 64), scaled(b, 64));
    let part = |from: usize| of(plain(&a[from..from + 64]), plain(&b[from..from + 64]));
    let expected = part(0) * (0.3f32 * 0.3) + part(64) * (7.1f32 * 7.1);
    assert_eq!(y, expected);
    assert!(of(scaled(a, 16), scaled(b, 64)).is_nan());
    let twice = Addends::new(&sum, [1, 64], 2f32.powi(-6), |_, at| (4.0 * a[at], [0.25, 4.0]));
    assert_eq!(of(twice, plain(&b[..64])), 4.0 * part(0));
}

/// `cargo test --release -p altgrad-casts on_demand_costs -- --ignored --nocapture`: the times of products of 256 rows,
/// columns and terms on one thread, operands included; each is the least of 50. Sums of blocks have
/// a test of that name too.
#[test]
#[ignore = "on demand: the comment above has the command"]
fn on_demand_costs() {
    const SIDE: usize = 256;
    let mut state = 4;
    let x: Vec<f32> = (0..SIDE * SIDE).map(|_| value(&mut state, None)).collect();
    let mut y = vec![0.0; SIDE * SIDE];
    let widths = [8, 10, 14, 20, 24].into_iter().flat_map(|bits| [(bits, 32, false), (bits, 32, true)]);
    let units = [(13, 32), (13, 16), (25, 32), (25, 16), (24, 8)].map(|(bits, group)| (bits, group, false));
    let small = [(10, 4), (10, 1), (24, 4), (24, 1)].map(|(bits, group)| (bits, group, false));
    let all = widths.chain(units).chain(small).flat_map(|sum| [(sum, None), (sum, Some(128))]);
    let of = |((bits, group, nearest), promote)| LimitedSum { bits, nearest, group, promote, ..PLAIN };
    let mut sums: Vec<_> = all.map(|sum| (of(sum), f64::MAX)).collect();
    // In turn, so that other work on the machine concerns all alike.
    for _ in 0..50 {
        for (sum, least) in &mut sums {
            let start = std::time::Instant::now();
            let element = |row: usize, term: usize| (x[row * SIDE + term], [1.0; 2]);
            let addends = || Addends::new(sum, [SIDE; 2], 2f32.powi(-6), element);
            sum.multiply(&mut y, &addends(), 0, &Panels::new(sum, addends()));
            *least = least.min(start.elapsed().as_secs_f64());
        }
    }
    for (sum, time) in sums {
        println!("{:.2} ms: {sum:?}", time * 1e3);
    }
}
