//! One whole life of a plugin, made, used and dropped, and everything that came out of it as bytes.
//!
//! Two life cycles of one plugin give the same bytes, on every machine and in every environment; a hundred life cycles
//! leave no more memory than one. `altgrad-host plugins check` checks both (`locale`, `leaks`), each in a separate
//! process.

use std::{fs, path::Path};

use altgrad_plugin_api::{AlertLevel, KernelLanguage, RunOutcome};

use crate::{
    Subject,
    checks::kernels,
    compare::params,
    inputs::{NANS, bit_patterns},
    optimizers::{OptimizerSubject, all_steps},
    sinks::SinkSubject,
};

/// The result of a life cycle.
pub type Lifecycle = Result<Vec<u8>, String>;

/// Of a format: description, values, rounded values and codes in every mode it has, kernel texts.
///
/// # Errors
/// A call failed.
pub fn of_format(subject: &Subject) -> Lifecycle {
    let (instance, oracle) = subject.instance_and_oracle()?;
    let mut life = Vec::new();
    let codes: Vec<u16> = (0..oracle.by_code().len()).map(|code| code as u16).collect();
    life.extend(instance.decoded(&codes)?.iter().flat_map(|value| value.to_bits().to_le_bytes()));
    let mut inputs = bit_patterns(500, 5);
    inputs.extend(oracle.values().map(|value| value as f32).take(500));
    let with_nan = [inputs.as_slice(), &NANS].concat();
    for rounding in instance.modes()? {
        let params = params(1.7, rounding);
        let params = params.lend();
        let (values, stats) = instance.quantized(&with_nan, &params)?;
        life.extend(values.iter().flat_map(|value| value.to_bits().to_le_bytes()));
        life.extend(format!("{stats:?}").into_bytes());
        life.extend(instance.encoded(&inputs, &params)?.iter().flat_map(|code| code.to_le_bytes()));
    }
    for language in [KernelLanguage::CUDA, KernelLanguage::WGSL] {
        life.extend(kernels::sources(&instance, language)?.into_bytes());
    }
    Ok(life)
}

/// Of an optimizer: states and parameters after some steps.
///
/// # Errors
/// A call failed.
pub fn of_optimizer(subject: &OptimizerSubject) -> Lifecycle {
    Ok(all_steps(subject)?.iter().flat_map(|bits| bits.to_le_bytes()).collect())
}

/// Of a sink: its state, and the files of its run folder. Of text, runs of digits count as one, because times differ;
/// of anything else, only how long it is.
///
/// # Errors
/// A call failed.
pub fn of_sink(subject: &SinkSubject) -> Lifecycle {
    let scratch = subject.scratch()?;
    let mut sink = subject.opened(&scratch)?;
    for step in 0..8u32 {
        let value = f64::from(step) + 0.25;
        sink.log(step.into(), &[("train/loss", value), ("time/step_ms", 1.5), ("val/loss", -1e-7 * value)])?;
        sink.histogram(step.into(), "weights/hist/wte.weight", &[-0.5, 0.5, 1.5], &[3, u64::from(step)])?;
        sink.alert(step.into(), AlertLevel::WARN, "overflow", "more than 0.5 of it")?;
    }
    let mut life = shown(&sink.state()?);
    sink.summary(&[("final/train_loss", 7.25)])?;
    sink.finish(RunOutcome::COMPLETED)?;
    drop(sink);
    look(&scratch.run(), &mut life).map_err(|error| format!("the run folder cannot be read ({error})"))?;
    Ok(life)
}

fn look(folder: &Path, life: &mut Vec<u8>) -> std::io::Result<()> {
    let mut paths =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            look(&path, life)?;
        } else {
            life.extend(shown(&fs::read(&path)?));
        }
    }
    Ok(())
}

/// The part of some bytes that is equal in every life.
fn shown(bytes: &[u8]) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(bytes) else { return bytes.len().to_string().into_bytes() };
    let mut shown = String::new();
    for c in text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }) {
        if c != '0' || !shown.ends_with('0') {
            shown.push(c);
        }
    }
    shown.into_bytes()
}
