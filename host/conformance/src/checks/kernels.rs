//! Kernel texts: consistency of a plugin's text with its recipe.
//!
//! Correctness of the results needs a device and is not checked here.

use std::collections::HashSet;

use altgrad_plugin_api::{
    BufferRole, DType, ErrorKind, KernelBuffer, KernelLanguage, KernelOp, KernelTarget, KernelText,
    QuantStats, RandomKey, Rounding, launch_scalars,
};

use crate::{CheckResult, Instance, Subject, Verdict, compare::mode_name, subject::said};

/// A role, and whether the kernel must read and write it.
type Access = (BufferRole, bool, bool);

/// The buffers that fake quantization cannot do without.
const NEEDED: [Access; 4] = [
    (BufferRole::SOURCE, true, false),
    (BufferRole::DESTINATION, false, true),
    (BufferRole::SCALES, true, false),
    (BufferRole::STATISTICS, false, true),
];

/// The statistics of fake quantization: the fields of [`QuantStats`].
const STATISTICS_NAMES: [&str; 8] =
    ["amax", "overflow", "underflow", "nan", "nonzero", "sum_x2", "sum_err2", "sum_x_xhat"];

const MODES: [Rounding; 4] =
    [Rounding::NEAREST_EVEN, Rounding::NEAREST_AWAY, Rounding::TOWARD_ZERO, Rounding::STOCHASTIC];

const LANGUAGES: [(&str, KernelLanguage); 2] =
    [("CUDA", KernelLanguage::CUDA), ("WGSL", KernelLanguage::WGSL)];

/// A typical device.
fn device(language: KernelLanguage, vector: u32) -> KernelTarget {
    KernelTarget {
        language,
        architecture: if language == KernelLanguage::CUDA { 90 } else { 0 },
        vector,
        plane: [32, 32],
        max_units_per_cube: 256,
        max_shared_bytes: 16 << 10,
    }
}

pub(crate) fn kernels(subject: &Subject) -> CheckResult {
    let instance = subject.instance()?;
    let mut texts = 0;
    for (language_name, language) in LANGUAGES {
        for mode in MODES {
            let at = |fault: String| format!("fake_quant {} for {language_name}, {fault}", mode_name(mode));
            texts += offered(&instance, KernelOp::FAKE_QUANT.with_rounding(mode), language).map_err(at)?;
        }
    }
    unknown_requests(&instance)?;
    if texts == 0 {
        Ok(Verdict::Skipped("the format has no kernel text".into()))
    } else {
        Ok(Verdict::Passed)
    }
}

/// Every text for a typical device, one after the other.
pub(crate) fn sources(instance: &Instance, language: KernelLanguage) -> Result<String, String> {
    let mut sources = String::new();
    for mode in MODES {
        let text = asked(instance, KernelOp::FAKE_QUANT.with_rounding(mode), &device(language, 1))?;
        sources.push_str(text.as_ref().map_or("", |text| text.source.as_str()));
    }
    Ok(sources)
}

/// Checks an operation's texts for several targets, and counts them.
fn offered(instance: &Instance, op: KernelOp, language: KernelLanguage) -> Result<usize, String> {
    let small = KernelTarget { max_units_per_cube: 32, max_shared_bytes: 1 << 10, ..device(language, 4) };
    let mut found = Vec::new();
    for target in [device(language, 1), device(language, 2), device(language, 4), small] {
        let at =
            |fault: String| format!("vector {}, {} units: {fault}", target.vector, target.max_units_per_cube);
        if let Some(text) = asked(instance, op, &target).map_err(at)? {
            whole(&text, &target).and_then(|()| roles(&text)).map_err(at)?;
            found.push(target.vector);
        }
    }
    // A tensor of odd length is launched one element at a time.
    match found.first() {
        Some(vector) if *vector > 1 => {
            Err(format!("vector {vector}: there is a text for it, but none for vector 1"))
        }
        _ => Ok(found.len()),
    }
}

/// The text, if there is one. An unsupported operation may also be reported as an error.
fn asked(instance: &Instance, op: KernelOp, target: &KernelTarget) -> Result<Option<KernelText>, String> {
    match instance.kernel(op, target) {
        Ok(text) => Ok(text),
        Err(error) if error.kind == ErrorKind::UNSUPPORTED => Ok(None),
        Err(error) => Err(said("kernel", &error)),
    }
}

/// A later host may request an operation that is unknown to this plugin: the plugin must refuse it.
fn unknown_requests(instance: &Instance) -> Result<(), String> {
    let known = device(KernelLanguage::CUDA, 1);
    let strange = KernelTarget { language: KernelLanguage(99), ..known.clone() };
    for (what, op, target) in [
        ("an unknown language", KernelOp::FAKE_QUANT, &strange),
        ("an unknown operation", KernelOp(200), &known),
        ("an unknown rounding mode", KernelOp(KernelOp::FAKE_QUANT.0 | 77 << 8), &known),
    ] {
        match instance.kernel(op, target) {
            Ok(None) => {}
            Ok(Some(text)) => return Err(format!("asked for {what} it hands over `{}`", text.entry)),
            Err(error) if error.kind == ErrorKind::PANIC => {
                return Err(format!("{what}: {}", said("kernel", &error)));
            }
            Err(_) => {}
        }
    }
    Ok(())
}

/// Checks that a text's own numbers are consistent.
fn whole(text: &KernelText, target: &KernelTarget) -> Result<(), String> {
    let units = text.cube_dim.iter().map(|&extent| u64::from(extent)).product::<u64>();
    let rows = [
        (text.language != target.language, "its language is not the one asked for"),
        (text.entry.is_empty(), "it has no entry"),
        (!text.source.contains(text.entry.as_str()), "its source does not contain its entry"),
        (units == 0, "its cube has no units"),
        (units > u64::from(target.max_units_per_cube), "its cube has more units than the target allows"),
        (text.vector == 0 || text.vector > target.vector, "its vector is not between 1 and the target's"),
        (text.buffers.is_empty(), "it has no buffers"),
        (!text.buffers.iter().any(|buffer| buffer.writes), "it writes nothing"),
        (text.buffers.iter().any(|buffer| !buffer.reads && !buffer.writes), "it has a buffer for nothing"),
        (
            has(text, BufferRole::STATISTICS) == text.statistics.is_empty(),
            "its statistics buffer and its list of statistics do not go together",
        ),
        (
            has(text, BufferRole::PARTIAL_SUMS) == text.partial_sums.is_empty(),
            "its buffer and its list of partial sums do not go together",
        ),
    ];
    if let Some((_, fault)) = rows.iter().find(|(wrong, _)| *wrong) {
        return Err((*fault).to_string());
    }
    info_block(text)?;
    let words = vec![0; text.statistics.len()];
    text.read_stats(&words, &vec![0.0; text.partial_sums.len()], &mut QuantStats::default())
        .map_err(|error| said("reading its statistics", &error))
}

/// Checks that a text's buffers are those that the host fills for fake quantization, and that it has the promised
/// statistics.
fn roles(text: &KernelText) -> Result<(), String> {
    for (role, reads, writes) in NEEDED {
        let fits = |buffer: &&KernelBuffer| {
            buffer.role == role && (buffer.reads || !reads) && (buffer.writes || !writes)
        };
        if !text.buffers.iter().any(|buffer| fits(&buffer)) {
            return Err(format!("it lacks a buffer {role:?} with reads {reads}, writes {writes}"));
        }
    }
    let mut seen = HashSet::new();
    for buffer in &text.buffers {
        let mut known =
            NEEDED.iter().map(|(role, ..)| *role).chain([BufferRole::PARTIAL_SUMS, BufferRole::STEP]);
        if !known.any(|role| role == buffer.role) || !seen.insert(buffer.role) {
            return Err(format!("the operation has no such buffer, or not twice: {buffer:?}"));
        }
        let has_words = [BufferRole::STATISTICS, BufferRole::STEP].contains(&buffer.role);
        let dtype = if has_words { DType::U32 } else { DType::F32 };
        if buffer.dtype != dtype {
            return Err(format!("elements are {dtype:?}, not those of {buffer:?}"));
        }
    }
    let sums = text.partial_sums.iter().map(|sum| sum.name.as_str());
    let given: HashSet<&str> = text.statistics.iter().map(|word| word.name.as_str()).chain(sums).collect();
    match STATISTICS_NAMES.iter().find(|name| !given.contains(*name)) {
        Some(name) => Err(format!("it does not count `{name}`")),
        None => Ok(()),
    }
}

fn has(text: &KernelText, role: BufferRole) -> bool {
    text.buffers.iter().any(|buffer| buffer.role == role)
}

fn info_block(text: &KernelText) -> Result<(), String> {
    let size = u64::from(text.info_words) * 8;
    let mut taken = HashSet::new();
    for field in &text.info {
        if !taken.insert(field.offset) {
            return Err(format!("{field:?}: two fields lie there"));
        }
        if field.offset % 4 != 0 || u64::from(field.offset) + 4 > size {
            return Err(format!(
                "{field:?} lies outside the info block of {size} bytes, or across its words"
            ));
        }
    }
    let lens = vec![1024; text.buffers.len()];
    text.pack_info(&launch_scalars(&RandomKey::default(), 1024), &lens)
        .map(drop)
        .map_err(|error| said("filling its info block", &error))
}
