//! Lengths, alignment, element types, and memory beside the destination.

use altgrad_plugin_api::{
    ErrorKind, PluginError, QuantParams, RandomKey, Rounding, Scales, TensorView, TensorViewMut,
    abi::stable::std_types::RSliceMut,
};

use crate::{
    CheckResult, Instance, Subject, Verdict,
    compare::{OneScale, params, same_values, shown},
    inputs::{in_range, mixture},
    oracle::Oracle,
    subject::{UNWRITTEN, said},
};

/// Around every size a loop may be cut into pieces of.
const LENGTHS: [usize; 20] = [0, 1, 2, 3, 5, 7, 8, 9, 15, 17, 31, 33, 63, 65, 127, 511, 512, 513, 1025, 4097];
/// Elements of memory watched before and after a destination.
const MARGIN: usize = 16;
/// In the code destinations: beyond the last code of formats of less than 16 bits.
pub(super) const UNWRITTEN_CODE: u16 = 0xa5a5;
const HUGE: usize = 16 << 20;

/// Values to round that are not NaN and fit: each has a code.
fn ordinary(oracle: &Oracle, count: usize) -> Vec<f32> {
    in_range(oracle, 3.7, count, 51)
}

/// Runs `call` on the middle of a larger buffer, whose rest must stay unchanged; returns the middle.
fn with_canaries<T: Copy + Bits>(
    canary: T,
    start: usize,
    len: usize,
    call: impl FnOnce(&mut [T]) -> Result<(), String>,
) -> Result<Vec<T>, String> {
    let mut buffer = vec![canary; start + len + MARGIN];
    call(&mut buffer[start..start + len])?;
    let untouched = |part: &[T]| part.iter().all(|element| element.bits() == canary.bits());
    if !untouched(&buffer[..start]) || !untouched(&buffer[start + len..]) {
        return Err(format!("memory beside a destination of {len} elements was written"));
    }
    Ok(buffer[start..start + len].to_vec())
}

/// Comparison that NaN does not disturb.
pub(super) trait Bits {
    fn bits(self) -> u32;
}

impl Bits for f32 {
    fn bits(self) -> u32 {
        self.to_bits()
    }
}

impl Bits for u16 {
    fn bits(self) -> u32 {
        self.into()
    }
}

pub(crate) fn shapes(subject: &Subject) -> CheckResult {
    let (instance, oracle) = subject.instance_and_oracle()?;
    let params = params(3.7, Rounding::NEAREST_EVEN);
    let params = params.lend();
    let src = ordinary(&oracle, MARGIN + 4097);
    // Longer slices are compared with calls for single elements.
    let mut single = vec![UNWRITTEN; src.len()];
    let mut single_codes = vec![UNWRITTEN_CODE; src.len()];
    for i in 0..src.len() {
        single[i] = instance.quantized(&src[i..=i], &params)?.0[0];
        single_codes[i] = instance.encoded(&src[i..=i], &params)?[0];
    }
    let decoded = instance.decoded(&single_codes)?;
    for len in LENGTHS {
        for start in [0, 1, 2, 3, 5] {
            let range = start..start + len;
            let what = |call: &str| format!("{call} of {len} elements from element {start}");
            let values = with_canaries(UNWRITTEN, MARGIN - start, len, |dst| {
                let called = instance.fake_quant(&src[range.clone()], dst, &params, &mut []);
                called.map(drop).map_err(|error| said(&what("fake_quant"), &error))
            })?;
            same_values(&what("fake_quant"), &values, &single[range.clone()])?;
            let codes = with_canaries(UNWRITTEN_CODE, MARGIN - start, len, |dst| {
                let called = instance.encode(&src[range.clone()], dst, &params);
                called.map_err(|error| said(&what("encode"), &error))
            })?;
            if let Some(i) = (0..len).find(|&i| codes[i] != single_codes[start + i]) {
                let (got, expected) = (codes[i], single_codes[start + i]);
                return Err(format!("{}: code {i} is {got:#x}, {expected:#x} alone", what("encode")));
            }
            let values = with_canaries(UNWRITTEN, MARGIN - start, len, |dst| {
                let called = instance.decode(&single_codes[range.clone()], dst, &Scales::ONE);
                called.map_err(|error| said(&what("decode"), &error))
            })?;
            same_values(&what("decode"), &values, &decoded[range])?;
        }
    }
    Ok(Verdict::Passed)
}

pub(crate) fn huge(subject: &Subject) -> CheckResult {
    let (instance, oracle) = subject.instance_and_oracle()?;
    let params = params(3.7, Rounding::NEAREST_EVEN);
    let params = params.lend();
    let pattern = ordinary(&oracle, 65_521);
    let (expected, of_one) = instance.quantized(&pattern, &params)?;
    let (expected_codes, rest) = (instance.encoded(&pattern, &params)?, HUGE % pattern.len());
    let of_rest = instance.quantized(&pattern[..rest], &params)?.1;
    let src: Vec<f32> = pattern.iter().copied().cycle().take(HUGE).collect();
    let (values, stats) = instance.quantized(&src, &params)?;
    for (i, values) in values.chunks(pattern.len()).enumerate() {
        let what = format!("part {i} of {HUGE} elements");
        same_values(&what, values, &expected[..values.len()])?;
    }
    drop(values);
    let repeats = (HUGE / pattern.len()) as u64;
    let counts = [
        ("overflow", stats.overflow, of_one.overflow * repeats + of_rest.overflow),
        ("underflow", stats.underflow, of_one.underflow * repeats + of_rest.underflow),
        ("nonzero", stats.nonzero, of_one.nonzero * repeats + of_rest.nonzero),
    ];
    if let Some((name, got, expected)) = counts.into_iter().find(|(_, got, expected)| got != expected) {
        return Err(format!("{name} of {HUGE} elements is {got}, expected {expected}"));
    }
    let codes = instance.encoded(&src, &params)?;
    let wrong = codes.chunks(pattern.len()).position(|codes| codes != &expected_codes[..codes.len()]);
    wrong
        .map_or(Ok(Verdict::Passed), |part| Err(format!("encode of {HUGE} elements is wrong in part {part}")))
}

/// The call must fail as `kind` and leave its destination, and the memory beside it, unchanged.
pub(super) fn refused<T: Copy + Bits>(
    what: &str,
    kind: ErrorKind,
    canary: T,
    len: usize,
    call: impl FnOnce(&mut [T]) -> Result<(), PluginError>,
) -> Result<(), String> {
    let dst = with_canaries(canary, MARGIN, len, |dst| match call(dst) {
        Err(error) if error.kind == kind => Ok(()),
        Err(error) => Err(format!("{what}: {} (kind {})", said("the call", &error), error.kind.0)),
        Ok(()) => Err(format!("{what} is accepted")),
    })?;
    let written = dst.iter().any(|element| element.bits() != canary.bits());
    if written { Err(format!("{what} is refused, but its destination was written")) } else { Ok(()) }
}

pub(crate) fn length_mismatch(subject: &Subject) -> CheckResult {
    let (instance, oracle) = subject.instance_and_oracle()?;
    let (params, kind) = (QuantParams::IDENTITY, ErrorKind::SHAPE);
    for (from, to) in [(8, 5), (8, 11), (1, 0), (0, 1), (1000, 999)] {
        let src = ordinary(&oracle, from);
        let codes = instance.encoded(&src, &params)?;
        let what = |call: &str| format!("{call} of {from} elements to {to}");
        refused(&what("fake_quant"), kind, UNWRITTEN, to, |dst| {
            instance.fake_quant(&src, dst, &params, &mut []).map(drop)
        })?;
        refused(&what("encode"), kind, UNWRITTEN_CODE, to, |dst| instance.encode(&src, dst, &params))?;
        refused(&what("decode"), kind, UNWRITTEN, to, |dst| instance.decode(&codes, dst, &Scales::ONE))?;
    }
    Ok(Verdict::Passed)
}

pub(crate) fn wrong_dtype(subject: &Subject) -> CheckResult {
    let instance = subject.instance()?;
    let object = instance.object();
    let (params, shape, kind) = (QuantParams::IDENTITY, [4u64], ErrorKind::DTYPE);
    let (floats, codes) = ([1f32; 4], [0u16; 4]);
    let histogram = || RSliceMut::from_mut_slice(&mut []);
    refused("fake_quant of u16 elements", kind, UNWRITTEN, 4, |dst| {
        let (src, dst) = (TensorView::new(&codes, &shape)?, TensorViewMut::new(dst, &shape)?);
        object.fake_quant(src, dst, &params, histogram()).into_result().map(drop)
    })?;
    refused("fake_quant to u16 elements", kind, UNWRITTEN_CODE, 4, |dst| {
        let (src, dst) = (TensorView::new(&floats, &shape)?, TensorViewMut::new(dst, &shape)?);
        object.fake_quant(src, dst, &params, histogram()).into_result().map(drop)
    })?;
    refused("encode of u16 elements", kind, UNWRITTEN_CODE, 4, |dst| {
        let (src, dst) = (TensorView::new(&codes, &shape)?, TensorViewMut::new(dst, &shape)?);
        object.encode(src, dst, &params).into_result()
    })?;
    refused("encode to f32 elements", kind, UNWRITTEN, 4, |dst| {
        let (src, dst) = (TensorView::new(&floats, &shape)?, TensorViewMut::new(dst, &shape)?);
        object.encode(src, dst, &params).into_result()
    })?;
    refused("decode of f32 elements", kind, UNWRITTEN, 4, |dst| {
        let (src, dst) = (TensorView::new(&floats, &shape)?, TensorViewMut::new(dst, &shape)?);
        object.decode(src, dst, &Scales::ONE).into_result()
    })?;
    refused("decode to u16 elements", kind, UNWRITTEN_CODE, 4, |dst| {
        let (src, dst) = (TensorView::new(&codes, &shape)?, TensorViewMut::new(dst, &shape)?);
        object.decode(src, dst, &Scales::ONE).into_result()
    })?;
    Ok(Verdict::Passed)
}

pub(crate) fn strange_arguments(subject: &Subject) -> CheckResult {
    let (instance, oracle) = subject.instance_and_oracle()?;
    let src = mixture(&oracle, 1.0, 61);
    let sane = params(1.0, Rounding::NEAREST_EVEN);
    let sane = sane.lend();
    let (before, _) = instance.quantized(&src, &sane)?;
    for rounding in instance.modes()? {
        for scale in [0.0, -1.0, f32::NAN, f32::INFINITY, f32::MAX, f32::from_bits(1)] {
            strange(&instance, &src, &params(scale, rounding).lend(), 0, &format!("scale {scale:e}"))?;
        }
        for (seed, step, offset) in
            [(u64::MAX, u64::MAX, u64::MAX), (0, 1 << 40, u64::MAX - 5), (0, 0, u64::MAX / 4)]
        {
            let key = RandomKey { seed, step, tensor: step, offset };
            let params = OneScale { key, ..params(1.0, rounding) };
            strange(&instance, &src, &params.lend(), 0, &format!("{key:?}"))?;
        }
        for counters in [1, 3, oracle.by_code().len() - 1, oracle.by_code().len() + 1] {
            let what = format!("a histogram of {counters} counters");
            strange(&instance, &src, &params(1.0, rounding).lend(), counters, &what)?;
        }
    }
    let (after, _) = instance.quantized(&src, &sane)?;
    same_values("an ordinary call after strange ones", &after, &before)?;
    Ok(Verdict::Passed)
}

/// Any result will do, but for a panic.
fn strange(
    instance: &Instance,
    src: &[f32],
    params: &QuantParams<'_>,
    counters: usize,
    what: &str,
) -> Result<(), String> {
    let mut histogram = vec![0; counters];
    let dst = &mut vec![UNWRITTEN; src.len()];
    let quantized = instance.fake_quant(src, dst, params, &mut histogram).map(drop);
    let encoded = instance.encode(src, &mut vec![UNWRITTEN_CODE; src.len()], params);
    for (call, result) in [("fake_quant", quantized), ("encode", encoded)] {
        if let Err(error) = result
            && [ErrorKind::PANIC, ErrorKind::POISONED].contains(&error.kind)
        {
            return Err(format!(
                "with {what}, {} first {}: {}",
                src.len(),
                shown(src[0]),
                said(call, &error)
            ));
        }
    }
    Ok(())
}
