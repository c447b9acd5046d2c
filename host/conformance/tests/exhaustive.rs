//! Every f32 there is, through every format of the family, in every variant and deterministic mode. Takes minutes:
//!
//! `cargo test --release -p altgrad-conformance --test exhaustive -- --ignored --nocapture`
//!
//! The expected results follow docs/numerics.md, sections 1 and 2, in a second implementation: the values of a format
//! in order, found by walking up all magnitudes, and comparisons with the midpoint of two neighbours. f64 holds each of
//! these numbers exactly. The result of the last run is in EXHAUSTIVE.md.
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    ops::Range,
    thread,
    time::{Duration, Instant},
};

use altgrad_format_kit::MinifloatFormat;
use altgrad_plugin_api::{
    Config, ConfigValue, Domain, ErrorKind, Format, FormatSpec, Minifloat, QuantParams, QuantStats, Rounding,
    overflows,
};
use common::named;

named!(E0M7, Domain::FIN, &[Domain::FIN]);
named!(E0M3, Domain::FIN, &[Domain::FIN]);
named!(E1M6, Domain::FIN, &[Domain::IEEE, Domain::FN, Domain::FIN]);
named!(E2M1, Domain::FIN, &[Domain::IEEE, Domain::FN, Domain::FIN]);
named!(E2M3, Domain::FIN, &[Domain::IEEE, Domain::FN, Domain::FIN]);
named!(E2M5, Domain::FIN, &[Domain::IEEE, Domain::FN, Domain::FIN]);
named!(E3M2, Domain::FIN, &[Domain::IEEE, Domain::FN, Domain::FIN]);
named!(E3M4, Domain::FIN, &[Domain::IEEE, Domain::FN, Domain::FIN]);
named!(E4M3, Domain::FN, &[Domain::IEEE, Domain::FN, Domain::FIN]);
named!(E5M2, Domain::IEEE, &[Domain::IEEE, Domain::FN, Domain::FIN]);
named!(E5M6, Domain::IEEE, &[Domain::IEEE, Domain::FN, Domain::FIN]);
named!(E5M10, Domain::IEEE, &[Domain::IEEE, Domain::FN, Domain::FIN]);
named!(E6M1, Domain::FIN, &[Domain::IEEE, Domain::FN, Domain::FIN]);
named!(E7M0, Domain::FIN, &[Domain::IEEE, Domain::FN, Domain::FIN]);
named!(E8M7, Domain::IEEE, &[Domain::IEEE]);

/// Patterns a call.
const BLOCK: u32 = 1 << 16;
/// Patterns of a magnitude.
const MAGNITUDES: u32 = 1 << 31;
const SIGN: u32 = 1 << 31;
const MODES: [(&str, Rounding); 3] = [
    ("nearest-even", Rounding::NEAREST_EVEN),
    ("nearest-away", Rounding::NEAREST_AWAY),
    ("toward-zero", Rounding::TOWARD_ZERO),
];

/// The properties of a format, from its description alone.
struct Definition {
    /// The finite magnitudes in the order of their codes, which is ascending.
    values: Vec<f64>,
    /// The sign bit of a code.
    sign: u16,
    /// Magnitudes of the codes that are NaN.
    nan: Vec<u16>,
}

impl Definition {
    fn new(Minifloat { exponent_bits: e, significand_bits: m, bias, domain }: Minifloat) -> Self {
        let magnitudes = 1u16 << (e + m);
        let top = ((1 << e) - 1) << m;
        let (finite, nan) = match domain {
            Domain::IEEE => (top, (top + 1..magnitudes).collect()),
            Domain::FN => (magnitudes - 1, vec![magnitudes - 1]),
            _ => (magnitudes, vec![]),
        };
        let value = |code: u16| {
            let (field, stored) =
                (i32::from(code >> m), f64::from(code & ((1 << m) - 1)) / f64::from(1 << m));
            if field == 0 { stored * 2f64.powi(1 - bias) } else { (1.0 + stored) * 2f64.powi(field - bias) }
        };
        Self { values: (0..finite).map(value).collect(), sign: magnitudes, nan }
    }

    fn max(&self) -> f64 {
        self.values[self.values.len() - 1]
    }

    /// The magnitude of the code that `x` rounds to in each mode; `below` is the code at or below it.
    fn codes(&self, x: f64, below: usize) -> [u16; 3] {
        let low = below as u16;
        let Some(next) = self.values.get(below + 1) else { return [low; 3] };
        // Both have few bits, so the sum is exact.
        let twice = self.values[below] + next;
        let (beyond, tie) = (2.0 * x > twice, 2.0 * x == twice);
        [low + u16::from(beyond || (tie && low % 2 == 1)), low + u16::from(beyond || tie), low]
    }
}

/// The expected results of a block of consecutive magnitudes, and space for the computed results. NaN come last.
#[derive(Default)]
struct Block {
    /// Codes without sign of all that is not NaN, a mode each.
    due: [Vec<u16>; 3],
    overflow: u64,
    nonzero: u64,
    amax: f32,
    src: Vec<f32>,
    values: Vec<f32>,
    codes: Vec<u16>,
}

impl Block {
    /// `below` is at or below the code of the first magnitude, and moves up with them.
    fn expect(&mut self, definition: &Definition, magnitudes: Range<u32>, below: &mut usize) {
        self.due.iter_mut().for_each(Vec::clear);
        (self.overflow, self.nonzero, self.amax) = (0, 0, 0.0);
        for x in magnitudes.map(f32::from_bits).take_while(|x| !x.is_nan()).map(f64::from) {
            while definition.values.get(*below + 1).is_some_and(|&next| next <= x) {
                *below += 1;
            }
            let codes = definition.codes(x, *below);
            self.due.iter_mut().zip(codes).for_each(|(due, code)| due.push(code));
            self.overflow += u64::from(overflows(x as f32, 0.0, definition.max() as f32));
            self.nonzero += u64::from(x != 0.0);
            self.amax = if x.is_finite() { x as f32 } else { self.amax };
        }
    }

    /// The block with a sign, which is a bit of f32, in one mode.
    fn check<F: Format>(&mut self, format: &F, definition: &Definition, sign: u32, mode: usize) -> Wrong {
        let Self { due, src, values, codes, .. } = self;
        let (params, due) = (QuantParams { rounding: MODES[mode].1, ..QuantParams::IDENTITY }, &due[mode]);
        let numbers = due.len();
        let nan = (src.len() - numbers) as u64;
        let mut wrong = Wrong::default();

        let stats = format.fake_quant(src, values, &params, &mut []).unwrap();
        let bits: Vec<u32> = definition.values.iter().map(|&value| (value as f32).to_bits() | sign).collect();
        let differ = |pair: &(&f32, &u16)| pair.0.to_bits() != bits[usize::from(*pair.1)];
        wrong.values += values.iter().zip(due).filter(differ).count() as u64;
        wrong.values += values[numbers..].iter().filter(|value| !value.is_nan()).count() as u64;
        let zeros = due.iter().filter(|&&code| code == 0).count() as u64;
        let expected = QuantStats {
            amax: self.amax,
            overflow: self.overflow,
            underflow: zeros - (numbers as u64 - self.nonzero),
            nan,
            nonzero: self.nonzero + nan,
            ..stats
        };
        wrong.calls += u64::from(stats != expected);

        let refused = format.encode(src, codes, &params).is_err_and(|error| error.kind == ErrorKind::VALUE);
        wrong.calls += u64::from(refused != (nan > 0 && definition.nan.is_empty()));
        let code_sign = if sign == 0 { 0 } else { definition.sign };
        let differ = |pair: &(&u16, &u16)| *pair.0 != *pair.1 | code_sign;
        wrong.codes += codes.iter().zip(due).filter(differ).count() as u64;
        if !refused {
            let is_nan = |code: &&u16| definition.nan.contains(&(**code & (definition.sign - 1)));
            wrong.codes += codes[numbers..].iter().filter(|code| !is_nan(code)).count() as u64;
        }
        wrong
    }
}

/// Elements, statistics and refusals that are not as they must be.
#[derive(Clone, Copy, Default)]
struct Wrong {
    values: u64,
    codes: u64,
    calls: u64,
}

impl Wrong {
    fn add(&mut self, more: Self) {
        self.values += more.values;
        self.codes += more.codes;
        self.calls += more.calls;
    }
}

/// All patterns whose magnitude is in a range of blocks.
fn check_blocks<F: Format>(format: &F, definition: &Definition, blocks: Range<u32>) -> [Wrong; 3] {
    let (mut wrong, mut below) = ([Wrong::default(); 3], 0);
    let len = BLOCK as usize;
    let mut block = Block { values: vec![0.0; len], codes: vec![0; len], ..Block::default() };
    for first in blocks.map(|block| block * BLOCK) {
        block.expect(definition, first..first + BLOCK, &mut below);
        for sign in [0, SIGN] {
            block.src.clear();
            block.src.extend((first..first + BLOCK).map(|magnitude| f32::from_bits(magnitude | sign)));
            for (mode, wrong) in wrong.iter_mut().enumerate() {
                wrong.add(block.check(format, definition, sign, mode));
            }
        }
    }
    wrong
}

/// One format in one variant: prints one line per mode; returns whether there was no fault.
fn check_variant<F: Format>(name: &str, variant: &str) -> bool {
    let given = [("variant".to_string(), ConfigValue::Text(variant.into()))];
    let format = F::new(&Config::resolve(&F::DESCRIPTOR.options, given).unwrap()).unwrap();
    let FormatSpec::Minifloat(spec) = format.spec() else { unreachable!("they are minifloats") };
    let definition = Definition::new(spec);
    let threads = thread::available_parallelism().unwrap().get() as u32;
    let share = (MAGNITUDES / BLOCK).div_ceil(threads);
    let mut wrong = [Wrong::default(); 3];
    thread::scope(|scope| {
        let run = |thread: u32| {
            (thread * share).min(MAGNITUDES / BLOCK)..((thread + 1) * share).min(MAGNITUDES / BLOCK)
        };
        let (format, definition) = (&format, &definition);
        let parts: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || check_blocks(format, definition, run(thread))))
            .collect();
        for part in parts {
            wrong.iter_mut().zip(part.join().unwrap()).for_each(|(sum, part)| sum.add(part));
        }
    });
    for ((mode, _), Wrong { values, codes, calls }) in MODES.iter().zip(wrong) {
        let patterns = u64::from(MAGNITUDES) * 2;
        println!("| {name} | {variant:4} | {mode:12} | {patterns} | {values} | {codes} | {calls} |");
    }
    wrong.iter().all(|wrong| wrong.values + wrong.codes + wrong.calls == 0)
}

fn check_format<F: Format>() -> bool {
    let descriptor = F::DESCRIPTOR;
    let names = altgrad_conformance::subject_names(&descriptor);
    let variants = names.iter().filter_map(|name| name.split_once(':'));
    // All of them, even if one is wrong.
    variants.filter(|(name, variant)| !check_variant::<F>(name, variant)).count() == 0
}

/// 240 to 512 in E4M3: beyond the largest value of one variant, within another.
#[test]
fn a_wrong_value_is_found() {
    let format = MinifloatFormat::<E4M3, 4, 3>::new(
        &Config::resolve(&MinifloatFormat::<E4M3, 4, 3>::DESCRIPTOR.options, []).unwrap(),
    )
    .unwrap();
    let spec = Minifloat { exponent_bits: 4, significand_bits: 3, bias: 7, domain: Domain::FN };
    let wrong = |domain: Domain| {
        check_blocks(&format, &Definition::new(Minifloat { domain, ..spec }), 0x4370..0x4400)[0]
    };
    let Wrong { values, codes, calls } = wrong(Domain::FN);
    assert_eq!((values, codes, calls), (0, 0, 0));
    let Wrong { values, codes, calls } = wrong(Domain::IEEE);
    assert!(values > 0 && codes > 0 && calls > 0);
}

#[test]
#[ignore = "on demand: CONTRIBUTING.md has the command"]
fn on_demand_every_f32_is_rounded_as_defined() {
    let start = Instant::now();
    println!(
        "| format | variant | mode | patterns | wrong values | wrong codes | wrong statistics and refusals |"
    );
    println!("|---|---|---|---|---|---|---|");
    let right = [
        check_format::<MinifloatFormat<E0M7, 0, 7>>(),
        check_format::<MinifloatFormat<E0M3, 0, 3>>(),
        check_format::<MinifloatFormat<E1M6, 1, 6>>(),
        check_format::<MinifloatFormat<E2M1, 2, 1>>(),
        check_format::<MinifloatFormat<E2M3, 2, 3>>(),
        check_format::<MinifloatFormat<E2M5, 2, 5>>(),
        check_format::<MinifloatFormat<E3M2, 3, 2>>(),
        check_format::<MinifloatFormat<E3M4, 3, 4>>(),
        check_format::<MinifloatFormat<E4M3, 4, 3>>(),
        check_format::<MinifloatFormat<E5M2, 5, 2>>(),
        check_format::<MinifloatFormat<E5M6, 5, 6>>(),
        check_format::<MinifloatFormat<E5M10, 5, 10>>(),
        check_format::<MinifloatFormat<E6M1, 6, 1>>(),
        check_format::<MinifloatFormat<E7M0, 7, 0>>(),
        check_format::<MinifloatFormat<E8M7, 8, 7>>(),
    ];
    println!("\n{:.0?} in all", Duration::from_secs(start.elapsed().as_secs()));
    assert!(right.iter().all(|&right| right));
}
