//! The kernels of a step: their launches, counted where the tensor library issues them, and their time on the device.
//!
//! A step on the CPU launches none. Observed steps are not among the timed ones: the measurement of each kernel delays
//! the next one.

use std::collections::BTreeMap;

use altgrad_base::diagnostic::Diagnostic;
use serde::Serialize;

use super::{
    case::{self, BenchSpec},
    step::take_step,
};
use crate::{
    fused_ops,
    profile::launches::{KernelLaunch, LaunchRecorder},
    setup::ReadyRun,
};

/// The kernels of one step of a case.
#[derive(Debug, Serialize)]
pub struct StepKernels {
    /// The case.
    pub case: String,
    /// The device.
    pub device: String,
    /// Launches of all kernels.
    pub launches: usize,
    /// The kernels, the most often launched first.
    pub kernels: Vec<KernelUse>,
}

/// A kernel in a step. Kernels of one type that were compiled for several shapes or types are one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KernelUse {
    /// The name of its type, or of the entry of a plugin's text.
    pub kernel: String,
    /// The module that defines it; `plugin` for a plugin's text.
    pub source: String,
    /// Number of launches.
    pub launches: usize,
    /// Milliseconds of all launches on the device; `None` if the device does not measure them.
    pub device_ms: Option<f64>,
}

/// The kernels of one step of each case, after `spec.warmup` steps.
///
/// # Errors
/// A case cannot be run.
pub fn measure(spec: &BenchSpec) -> Result<Vec<StepKernels>, Diagnostic> {
    let folder = case::tokens_folder(spec)?;
    let kernels = |case: &String| {
        let mut run = case::build(folder.path(), spec, case)?;
        for number in 0..spec.warmup {
            take_step(&mut run, number)?;
        }
        let launched = observed_step(&mut run, spec.warmup, true)?;
        Ok(StepKernels {
            case: case.clone(),
            device: run.setup.device.label.clone(),
            launches: launched.len(),
            kernels: by_kernel(&launched),
        })
    };
    spec.cases.iter().map(kernels).collect()
}

/// The number of launches of a step, which is taken for it on a GPU.
pub(super) fn launches(run: &mut ReadyRun, number: u64) -> Result<usize, Diagnostic> {
    if fused_ops::is_available(&run.setup.device.tensors) {
        return Ok(0);
    }
    Ok(observed_step(run, number, false)?.len())
}

/// The launches of a step in order, with their times on the device if `timed`.
fn observed_step(run: &mut ReadyRun, number: u64, timed: bool) -> Result<Vec<KernelLaunch>, Diagnostic> {
    let recorder = LaunchRecorder::start(timed);
    take_step(run, number)?;
    Ok(recorder.end())
}

/// Adds up the launches of each kernel.
fn by_kernel(launched: &[KernelLaunch]) -> Vec<KernelUse> {
    let mut uses: BTreeMap<(&str, &str), (usize, Option<f64>)> = BTreeMap::new();
    for launch in launched {
        let (launches, total) = uses.entry(parts(launch.kernel)).or_insert((0, Some(0.0)));
        *launches += 1;
        let ms = launch.duration.map(|duration| duration.as_secs_f64() * 1e3);
        *total = total.zip(ms).map(|(total, ms)| total + ms);
    }
    let mut kernels: Vec<KernelUse> = uses
        .into_iter()
        .map(|((source, kernel), (launches, device_ms))| KernelUse {
            kernel: kernel.to_string(),
            source: source.to_string(),
            launches,
            device_ms,
        })
        .collect();
    kernels.sort_by_key(|kernel| std::cmp::Reverse(kernel.launches));
    kernels
}

/// The module and the last name of a type such as `a::b::Kernel<c::D>`. A module that is named like the kernel is the
/// kernel's own.
fn parts(name: &str) -> (&str, &str) {
    let path = name.split('<').next().unwrap_or(name);
    let (module, kernel) = path.rsplit_once("::").unwrap_or(("", path));
    let alike = |name: &str| name.replace('_', "").eq_ignore_ascii_case(kernel);
    match module.rsplit_once("::") {
        Some((outer, own)) if alike(own) => (outer, kernel),
        _ => (module, kernel),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn launches_are_added_up_by_kernel() {
        let launched = [
            ("engine::sums::moments::Moments", Some(1.0)),
            ("library::binary::KernelBinop<library::MulOp<f32>>", None),
            ("library::binary::KernelBinop<library::AddOp<f32>>", Some(3.0)),
            ("plugin::fake_quant_n_4", Some(0.5)),
            ("engine::sums::moments::Moments", Some(2.0)),
            ("library::binary::KernelBinop<library::AddOp<f32>>", Some(3.0)),
        ];
        let launch = |(kernel, ms): (&'static str, Option<f64>)| KernelLaunch {
            kernel,
            issued: Instant::now(),
            began: None,
            duration: ms.map(|ms| Duration::from_secs_f64(ms / 1e3)),
        };
        let found: Vec<_> = by_kernel(&launched.map(launch))
            .into_iter()
            .map(|kernel| (kernel.source, kernel.kernel, kernel.launches, kernel.device_ms))
            .collect();
        let expected = [
            ("library::binary", "KernelBinop", 3, None),
            ("engine::sums", "Moments", 2, Some(3.0)),
            ("plugin", "fake_quant_n_4", 1, Some(0.5)),
        ];
        assert_eq!(found, expected.map(|(a, b, n, ms)| (a.to_string(), b.to_string(), n, ms)));
    }
}
