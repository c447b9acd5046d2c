//! Device against CPU: outputs bit for bit, counts exactly, sums to a millionth.

use altgrad_plugin_api::{
    Blocks, BufferRole, KernelLanguage, KernelOp, KernelTarget, KernelText, QuantParams, QuantStats,
    RandomKey, Rounding, Scales, launch_scalars,
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

/// Every text of a format in a language.
#[must_use]
pub fn texts(subject: &Subject, language: KernelLanguage) -> Vec<KernelText> {
    let all = [4, 1].into_iter().flat_map(|vector| MODES.map(|mode| (mode, vector)));
    all.map(|(mode, vector)| kernel(subject, mode, &target(language, vector))).collect()
}

/// The text of a rounding mode.
fn kernel(subject: &Subject, mode: Rounding, target: &KernelTarget) -> KernelText {
    subject.kernel(KernelOp::FAKE_QUANT.with_rounding(mode), target)
}

fn words(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

/// Fills the buffers of a launch by their roles. Outputs begin as garbage.
fn buffers(kernel: &KernelText, x: &[f32], scales: &[[f32; 2]], key: &RandomKey) -> Vec<Vec<u32>> {
    const GARBAGE: u32 = 0xdead_beef;
    let fill = |role: BufferRole| match role {
        BufferRole::SOURCE => words(x),
        BufferRole::DESTINATION => vec![GARBAGE; x.len()],
        BufferRole::SCALES => words(scales.as_flattened()),
        BufferRole::STATISTICS => vec![0; kernel.statistics.len()],
        BufferRole::PARTIAL_SUMS => vec![GARBAGE; kernel.partial_sums.len() * CUBES as usize],
        BufferRole::STEP => vec![key.step as u32],
        role => panic!("no such buffer here: {role:?}"),
    };
    kernel.buffers.iter().map(|buffer| fill(buffer.role)).collect()
}

/// The result of a launch: the bits of its values, and its counts.
#[derive(Debug)]
pub struct Rounded {
    /// By element.
    pub values: Vec<u32>,
    /// Of all cubes.
    pub stats: QuantStats,
}

/// Runs a kernel with one scale.
pub fn launch(runner: &dyn Runner, kernel: &KernelText, x: &[f32], params: &QuantParams<'_>) -> Rounded {
    launch_groups(runner, kernel, x, &params.key, &params.scales.pairs)
}

/// The same with a scale for each of some groups of equal length.
fn launch_groups(
    runner: &dyn Runner,
    kernel: &KernelText,
    x: &[f32],
    key: &RandomKey,
    scales: &[[f32; 2]],
) -> Rounded {
    let scalars = launch_scalars(key, (x.len() / scales.len()) as u32);
    let after = runner.run(kernel, CUBES, &scalars, buffers(kernel, x, scales, key));
    let of =
        |role| &after[kernel.buffers.iter().position(|b| b.role == role).expect("a buffer of that role")];
    let sums: Vec<f32> = of(BufferRole::PARTIAL_SUMS).iter().map(|&word| f32::from_bits(word)).collect();
    let mut stats = QuantStats::default();
    kernel.read_stats(of(BufferRole::STATISTICS), &sums, &mut stats).unwrap();
    Rounded { values: of(BufferRole::DESTINATION).clone(), stats }
}

/// A format in its domains: everything for the first; in the others only constants can be wrong.
pub fn domains(runner: &dyn Runner, subjects: &[Subject], language: KernelLanguage, random: usize) {
    let [canonical, others @ ..] = subjects else { panic!("a format without a domain") };
    everywhere(runner, canonical, language, &SCALES, random);
    smooth(runner, canonical, language);
    for subject in others {
        everywhere(runner, subject, language, &SCALES[1..2], 0);
    }
}

/// All modes and vectors on patterns.
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
                let pair = [scale, 1.0 / scale];
                let params = cases::params(&pair, rounding, vector);
                fake_quant(runner, subject, &target, x, &params);
            }
        }
    }
    groups(runner, subject, language);
}

/// Sums of data as tensors have them, and of such whose squares leave the range of f32.
fn smooth(runner: &dyn Runner, subject: &Subject, language: KernelLanguage) {
    for (unit, scale) in
        [(1.0, 1.0), (1.0, 100.0), (2f32.powi(-100), 2f32.powi(98)), (2f32.powi(60), 2f32.powi(-60))]
    {
        let x = cases::gaussian(50_000, unit);
        for vector in [4, 1] {
            let pair = [scale, 1.0 / scale];
            let params = cases::params(&pair, Rounding::NEAREST_EVEN, vector);
            fake_quant(runner, subject, &target(language, vector), &x, &params);
        }
    }
}

/// Fake quantization: values, counts, sums.
fn fake_quant(
    runner: &dyn Runner,
    subject: &Subject,
    target: &KernelTarget,
    x: &[f32],
    params: &QuantParams<'_>,
) {
    let what = format!("{} {params:?} vector {}", subject.name, target.vector);
    let mut expected = vec![0.0; x.len()];
    let stats = subject.instance.fake_quant(x, &mut expected, params, &mut []).unwrap();
    let kernel = kernel(subject, params.rounding, target);
    assert_eq!(kernel.vector, target.vector, "{what}");
    let found = launch(runner, &kernel, x, params);
    same_bits(&what, x, &found.values, &words(&expected));
    same_stats(&what, &found.stats, &stats);
}

/// Groups of elements with scales of their own, against one call of the CPU function: values, counts.
fn groups(runner: &dyn Runner, subject: &Subject, language: KernelLanguage) {
    const GROUP: usize = 32;
    let x = cases::gaussian(40 * GROUP, 1.0);
    let scales: Vec<[f32; 2]> =
        (0..40u8).map(|i| f32::from(i + 1)).map(|scale| [scale, 1.0 / scale]).collect();
    for vector in [4, 1] {
        let what = format!("{} vector {vector}: groups", subject.name);
        let key = cases::params(&[1.0; 2], Rounding::STOCHASTIC, vector).key;
        let mut values = vec![0.0; x.len()];
        let blocks = Scales::new(&scales, Blocks::consecutive(GROUP as u64));
        let params = QuantParams { scales: blocks, rounding: Rounding::STOCHASTIC, key };
        let stats = subject.instance.fake_quant(&x, &mut values, &params, &mut []).unwrap();
        let kernel = kernel(subject, Rounding::STOCHASTIC, &target(language, vector));
        let found = launch_groups(runner, &kernel, &x, &key, &scales);
        same_bits(&what, &x, &found.values, &words(&values));
        same_stats(&what, &found.stats, &stats);
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
