//! Device against CPU: outputs bit for bit, counts exactly, sums to a millionth.

use altgrad_plugin_api::{
    BufferRole, KernelLanguage, KernelOp, KernelTarget, KernelText, QuantParams, QuantStats, RandomKey,
    Rounding, launch_scalars,
};

use crate::{
    Runner,
    cases::{self, MODES, SCALES},
    formats::Subject,
};

/// Cubes a launch: so few that units stride, and a number that divides nothing.
pub const CUBES: u32 = 7;

/// A device like most.
#[must_use]
pub fn target(language: KernelLanguage, vector: u32) -> KernelTarget {
    let architecture = if language == KernelLanguage::CUDA { 90 } else { 0 };
    KernelTarget {
        language,
        architecture,
        vector,
        plane: [32, 32],
        max_units_per_cube: 256,
        max_shared_bytes: 16 << 10,
    }
}

/// Every operation there is a text for, with its rounding modes.
#[must_use]
pub fn operations() -> Vec<KernelOp> {
    let rounding = [KernelOp::FAKE_QUANT, KernelOp::ENCODE];
    let with_modes = rounding.into_iter().flat_map(|op| MODES.map(|mode| op.with_rounding(mode)));
    with_modes.chain([KernelOp::DECODE, KernelOp::HISTOGRAM]).collect()
}

/// Every text of a format in a language.
#[must_use]
pub fn texts(subject: &Subject, language: KernelLanguage) -> Vec<KernelText> {
    let ops = operations();
    let all = [4, 1].into_iter().flat_map(|vector| ops.iter().map(move |&op| (op, vector)));
    all.map(|(op, vector)| subject.kernel(op, &target(language, vector))).collect()
}

fn words(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

/// Fills the buffers of a launch by their roles. Outputs begin as garbage.
fn buffers(kernel: &KernelText, src: &[u32], scales: &[[f32; 2]], codes: usize) -> Vec<Vec<u32>> {
    const GARBAGE: u32 = 0xdead_beef;
    let fill = |role: BufferRole, reads: bool| match role {
        BufferRole::SOURCE => src.to_vec(),
        BufferRole::CODES if reads => src.to_vec(),
        BufferRole::DESTINATION | BufferRole::CODES => vec![GARBAGE; src.len()],
        BufferRole::PARAMETERS => words(scales.as_flattened()),
        BufferRole::STATISTICS => vec![0; kernel.statistics.len()],
        BufferRole::PARTIAL_SUMS => vec![GARBAGE; kernel.partial_sums.len() * CUBES as usize],
        BufferRole::HISTOGRAM => vec![0; codes],
        role => panic!("no such buffer here: {role:?}"),
    };
    kernel.buffers.iter().map(|buffer| fill(buffer.role, buffer.reads)).collect()
}

/// Runs a kernel with one scale; returns the buffer of a role afterwards, by role.
pub fn launch(
    runner: &dyn Runner,
    kernel: &KernelText,
    src: &[u32],
    params: &QuantParams,
    codes: usize,
) -> impl Fn(BufferRole) -> Vec<u32> + use<> {
    launch_groups(runner, kernel, src, &params.key, &[[params.scale, params.inv_scale]], codes)
}

/// The same with a scale for each of some groups of equal length.
fn launch_groups(
    runner: &dyn Runner,
    kernel: &KernelText,
    src: &[u32],
    key: &RandomKey,
    scales: &[[f32; 2]],
    codes: usize,
) -> impl Fn(BufferRole) -> Vec<u32> + use<> {
    let roles: Vec<BufferRole> = kernel.buffers.iter().map(|buffer| buffer.role).collect();
    let scalars = launch_scalars(key, (src.len() / scales.len()) as u32);
    let after = runner.run(kernel, CUBES, &scalars, buffers(kernel, src, scales, codes));
    move |role| after[roles.iter().position(|&r| r == role).expect("a buffer of that role")].clone()
}

/// A format in its domains: everything for the first; the others share its texts, and only constants can be wrong.
pub fn domains(runner: &dyn Runner, subjects: &[Subject], language: KernelLanguage, random: usize) {
    let [canonical, others @ ..] = subjects else { panic!("a format without a domain") };
    everywhere(runner, canonical, language, &SCALES, random);
    smooth(runner, canonical, language);
    for subject in others {
        everywhere(runner, subject, language, &SCALES[1..2], 0);
    }
}

/// All modes, vectors and kernels on patterns.
fn everywhere(
    runner: &dyn Runner,
    subject: &Subject,
    language: KernelLanguage,
    scales: &[f32],
    random: usize,
) {
    for &scale in scales {
        let x = cases::patterns(&subject.grid, scale, random);
        for vector in [4, 1] {
            // An odd length for the texts that take one element at a time.
            let x = &x[..x.len() - usize::from(vector == 1)];
            let target = target(language, vector);
            for rounding in MODES {
                let params = cases::params(scale, rounding, vector);
                fake_quant(runner, subject, &target, x, &params);
                encode(runner, subject, &target, x, &params);
            }
        }
    }
    groups(runner, subject, language);
    decode(runner, subject, language);
}

/// Sums of data as tensors have them, and of such whose squares leave the range of f32.
fn smooth(runner: &dyn Runner, subject: &Subject, language: KernelLanguage) {
    for (unit, scale) in
        [(1.0, 1.0), (1.0, 100.0), (2f32.powi(-100), 2f32.powi(98)), (2f32.powi(60), 2f32.powi(-60))]
    {
        let x = cases::gaussian(50_000, unit);
        for vector in [4, 1] {
            let params = cases::params(scale, Rounding::NEAREST_EVEN, vector);
            fake_quant(runner, subject, &target(language, vector), &x, &params);
        }
    }
}

/// Fake quantization: values, counts, sums, and the histogram.
fn fake_quant(
    runner: &dyn Runner,
    subject: &Subject,
    target: &KernelTarget,
    x: &[f32],
    params: &QuantParams,
) {
    let what = format!("{} {params:?} vector {}", subject.name, target.vector);
    let mut expected = vec![0.0; x.len()];
    let mut codes = vec![0; subject.grid.codes()];
    let stats = subject.instance.fake_quant(x, &mut expected, params, &mut codes).unwrap();

    let kernel = subject.kernel(KernelOp::FAKE_QUANT.with_rounding(params.rounding), target);
    assert_eq!(kernel.vector, target.vector, "{what}");
    let after = launch(runner, &kernel, &words(x), params, 0);
    same_bits(&what, x, &after(BufferRole::DESTINATION), &words(&expected));
    let sums: Vec<f32> = after(BufferRole::PARTIAL_SUMS).into_iter().map(f32::from_bits).collect();
    let mut found = QuantStats::default();
    kernel.read_stats(&after(BufferRole::STATISTICS), &sums, &mut found).unwrap();
    same_stats(&what, &found, &stats);

    let kernel = subject.kernel(KernelOp::ENCODE.with_rounding(params.rounding), target);
    let encoded = launch(runner, &kernel, &words(x), params, 0)(BufferRole::CODES);
    let kernel = subject.kernel(KernelOp::HISTOGRAM, target);
    let after = launch(runner, &kernel, &encoded, params, codes.len());
    let found: Vec<u64> = after(BufferRole::HISTOGRAM).into_iter().map(u64::from).collect();
    assert_eq!(found, codes, "{what}: histogram");
}

/// Codes, and the count of NaN where the CPU refuses them.
fn encode(runner: &dyn Runner, subject: &Subject, target: &KernelTarget, x: &[f32], params: &QuantParams) {
    let what = format!("{} {params:?} vector {}: encode", subject.name, target.vector);
    let nan = x.iter().filter(|x| x.is_nan()).count() as u32;
    let without_nan: Vec<f32> = x.iter().map(|&x| if x.is_nan() { 0.0 } else { x }).collect();
    let mut expected = vec![0; x.len()];
    let given = if subject.grid.has_nan() { x } else { &without_nan };
    subject.instance.encode(given, &mut expected, params).unwrap();
    let kernel = subject.kernel(KernelOp::ENCODE.with_rounding(params.rounding), target);
    let after = launch(runner, &kernel, &words(x), params, 0);
    assert_eq!(after(BufferRole::STATISTICS), [nan], "{what}: NaN");
    let code =
        |(x, code): (&f32, u16)| if x.is_nan() && !subject.grid.has_nan() { u32::MAX } else { code.into() };
    let expected: Vec<u32> = x.iter().zip(expected).map(code).collect();
    same_bits(&what, x, &after(BufferRole::CODES), &expected);
}

/// Groups of elements with scales of their own, against one call a group: values, codes, counts.
fn groups(runner: &dyn Runner, subject: &Subject, language: KernelLanguage) {
    const GROUP: usize = 32;
    let x = cases::gaussian(40 * GROUP, 1.0);
    let scales: Vec<[f32; 2]> =
        (0..40u8).map(|i| f32::from(i + 1)).map(|scale| [scale, 1.0 / scale]).collect();
    for vector in [4, 1] {
        let target = target(language, vector);
        let what = format!("{} vector {vector}: groups", subject.name);
        let key = cases::params(1.0, Rounding::STOCHASTIC, vector).key;
        let (mut values, mut codes) = (vec![0.0; x.len()], vec![0; x.len()]);
        let mut stats = QuantStats::default();
        for (i, &[scale, inv_scale]) in scales.iter().enumerate() {
            let range = i * GROUP..(i + 1) * GROUP;
            let key = RandomKey { offset: key.offset + range.start as u64, ..key };
            let params = QuantParams { scale, inv_scale, rounding: Rounding::STOCHASTIC, key };
            let (x, values) = (&x[range.clone()], &mut values[range.clone()]);
            stats.merge(&subject.instance.fake_quant(x, values, &params, &mut []).unwrap());
            subject.instance.encode(x, &mut codes[range], &params).unwrap();
        }
        let kernel = subject.kernel(KernelOp::FAKE_QUANT.with_rounding(Rounding::STOCHASTIC), &target);
        let after = launch_groups(runner, &kernel, &words(&x), &key, &scales, 0);
        same_bits(&what, &x, &after(BufferRole::DESTINATION), &words(&values));
        let mut found = QuantStats::default();
        let sums: Vec<f32> = after(BufferRole::PARTIAL_SUMS).into_iter().map(f32::from_bits).collect();
        kernel.read_stats(&after(BufferRole::STATISTICS), &sums, &mut found).unwrap();
        same_stats(&what, &found, &stats);
        let kernel = subject.kernel(KernelOp::ENCODE.with_rounding(Rounding::STOCHASTIC), &target);
        let after = launch_groups(runner, &kernel, &words(&x), &key, &scales, 0);
        let codes: Vec<u32> = codes.into_iter().map(u32::from).collect();
        same_bits(&what, &x, &after(BufferRole::CODES), &codes);
    }
}

/// Every code there is.
fn decode(runner: &dyn Runner, subject: &Subject, language: KernelLanguage) {
    let codes: Vec<u16> = (0..subject.grid.codes()).map(|code| code as u16).collect();
    let mut expected = vec![0.0; codes.len()];
    subject.instance.decode(&codes, &mut expected).unwrap();
    let given: Vec<u32> = codes.iter().map(|&code| code.into()).collect();
    for vector in [4, 1] {
        let kernel = subject.kernel(KernelOp::DECODE, &target(language, vector));
        let after = launch(runner, &kernel, &given, &QuantParams::IDENTITY, 0);
        let what = format!("{} vector {vector}: decode", subject.name);
        let x: Vec<f32> = given.iter().map(|&code| code as f32).collect();
        same_bits(&what, &x, &after(BufferRole::DESTINATION), &words(&expected));
    }
}

/// Words found for inputs, against those expected.
pub fn same_bits(what: &str, x: &[f32], found: &[u32], expected: &[u32]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let wrong: Vec<usize> = (0..x.len()).filter(|&i| found[i] != expected[i]).collect();
    let Some(&i) = wrong.first() else { return };
    let (given, count) = (x[i].to_bits(), wrong.len());
    panic!("{what}: {count} wrong, x[{i}] = {given:#x}: found {:#x}, expected {:#x}", found[i], expected[i]);
}

/// Counts exactly, sums to a millionth.
pub fn same_stats(what: &str, found: &QuantStats, expected: &QuantStats) {
    let counts = |s: &QuantStats| (s.amax.to_bits(), s.overflow, s.underflow, s.nan, s.nonzero);
    assert_eq!(counts(found), counts(expected), "{what}: amax, overflow, underflow, nan, nonzero");
    let sums = |s: &QuantStats| [s.sum_x2, s.sum_err2, s.sum_x_xhat];
    for (found, expected) in sums(found).into_iter().zip(sums(expected)) {
        // Equal also covers infinities and zeros.
        let close = found == expected || (found - expected).abs() <= 1e-6 * expected.abs();
        assert!(close, "{what}: sum {found:e}, expected {expected:e}");
    }
}
