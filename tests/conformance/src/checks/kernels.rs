//! Kernel texts: whether what a plugin hands over can be launched as it says.
//!
//! Whether they compute the right thing needs a device and is not asked here.

use altgrad_plugin_api::{
    BufferRole, ErrorKind, KernelLanguage, KernelOp, KernelTarget, KernelText, QuantStats, RandomKey,
    Rounding,
};

use crate::{Instance, Outcome, Subject, Verdict, subject::said};

const OPS: [(&str, KernelOp); 5] = [
    ("fake_quant", KernelOp::FAKE_QUANT),
    ("fake_quant_mask", KernelOp::FAKE_QUANT_MASK),
    ("encode", KernelOp::ENCODE),
    ("decode", KernelOp::DECODE),
    ("histogram", KernelOp::HISTOGRAM),
];

const MODES: [Rounding; 4] =
    [Rounding::NearestEven, Rounding::NearestAway, Rounding::TowardZero, Rounding::Stochastic];

fn targets() -> Vec<(String, KernelTarget)> {
    let mut targets = Vec::new();
    for (name, language, architecture) in
        [("CUDA", KernelLanguage::CUDA, 90), ("WGSL", KernelLanguage::WGSL, 0)]
    {
        for vector in [1, 4] {
            let target = KernelTarget {
                language,
                architecture,
                vector,
                plane: [32, 32],
                max_units_per_cube: 256,
                max_shared_bytes: 16 << 10,
            };
            targets.push((format!("{name}, vector {vector}"), target));
        }
    }
    targets
}

pub(crate) fn kernels(subject: &Subject) -> Outcome {
    let instance = subject.instance()?;
    let mut texts = 0;
    for (target_name, target) in targets() {
        for (op_name, op) in OPS {
            for mode in MODES {
                let at = |fault: String| format!("{op_name} {mode:?} for {target_name}: {fault}");
                if let Some(text) = asked(&instance, op.with_rounding(mode), &target).map_err(at)? {
                    whole(&text, &target).map_err(at)?;
                    texts += 1;
                }
            }
        }
    }
    unknown_requests(&instance)?;
    if texts == 0 {
        Ok(Verdict::Skipped("the format has no kernel text".into()))
    } else {
        Ok(Verdict::Passed)
    }
}

/// The text, if there is one. That an operation is unsupported may also be said as an error.
fn asked(instance: &Instance, op: KernelOp, target: &KernelTarget) -> Result<Option<KernelText>, String> {
    match instance.kernel(op, target) {
        Ok(text) => Ok(text),
        Err(error) if error.kind == ErrorKind::UNSUPPORTED => Ok(None),
        Err(error) => Err(said("kernel", &error)),
    }
}

/// A later host may ask for what this plugin does not know: it must say no, and not guess.
fn unknown_requests(instance: &Instance) -> Result<(), String> {
    let (_, known) = targets().remove(0);
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

/// Whether a text's own numbers fit together.
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
        (text.buffers.iter().any(|buffer| buffer.dtype.bits == 0), "it has a buffer without an element type"),
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

fn has(text: &KernelText, role: BufferRole) -> bool {
    text.buffers.iter().any(|buffer| buffer.role == role)
}

fn info_block(text: &KernelText) -> Result<(), String> {
    let size = u64::from(text.info_words) * 8;
    for field in &text.info {
        if field.offset % 4 != 0 || u64::from(field.offset) + 4 > size {
            return Err(format!(
                "{field:?} lies outside the info block of {size} bytes, or across its words"
            ));
        }
    }
    let lens = vec![1024; text.buffers.len()];
    text.pack_info(&RandomKey::default().scalars(), &lens)
        .map(drop)
        .map_err(|error| said("filling its info block", &error))
}
