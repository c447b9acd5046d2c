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
use crate::{fused_ops, setup::ReadyRun};

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

/// A launch: the name of the kernel, as the library gives it, and its milliseconds.
type Launched = (&'static str, Option<f64>);

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
fn observed_step(run: &mut ReadyRun, number: u64, timed: bool) -> Result<Vec<Launched>, Diagnostic> {
    let step = || take_step(run, number).map(drop);
    observer::observe(step, timed)
}

/// Adds up the launches of each kernel.
fn by_kernel(launched: &[Launched]) -> Vec<KernelUse> {
    let mut uses: BTreeMap<(&str, &str), (usize, Option<f64>)> = BTreeMap::new();
    for (name, ms) in launched {
        let (launches, total) = uses.entry(parts(name)).or_insert((0, Some(0.0)));
        *launches += 1;
        *total = total.zip(*ms).map(|(total, ms)| total + ms);
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

#[cfg(not(feature = "gpu"))]
mod observer {
    use altgrad_base::diagnostic::Diagnostic;

    use super::Launched;

    /// The launches of `work`: none.
    pub(super) fn observe(
        work: impl FnOnce() -> Result<(), Diagnostic>,
        _: bool,
    ) -> Result<Vec<Launched>, Diagnostic> {
        work().map(|()| Vec::new())
    }
}

#[cfg(feature = "gpu")]
mod observer {
    use std::sync::Arc;

    use altgrad_base::diagnostic::Diagnostic;
    use cubecl::future::block_on;
    use cubecl_runtime::logging::{
        Duration, LaunchObservation, LaunchObserver, ProfileDuration, TimingMethod, TimingRequest,
    };
    use parking_lot::Mutex;

    use super::Launched;

    /// The launches so far, and the times that are not read yet.
    struct Recorder {
        timed: bool,
        launched: Mutex<Vec<(&'static str, Time)>>,
    }

    /// The time of a launch.
    enum Time {
        Unknown,
        Unread(ProfileDuration),
        Known(Duration),
    }

    impl Recorder {
        /// Sets the time of a launch. Launches of several threads may alternate: it is the first of this kernel without
        /// one.
        fn set(&self, kernel: &'static str, time: Time) {
            let mut launched = self.launched.lock();
            let unknown =
                |(name, time): &&mut (&'static str, Time)| *name == kernel && matches!(time, Time::Unknown);
            if let Some((_, place)) = launched.iter_mut().rev().find(unknown) {
                *place = time;
            }
        }
    }

    impl LaunchObserver for Recorder {
        fn launched(&self, kernel: &'static str) {
            self.launched.lock().push((kernel, Time::Unknown));
        }

        fn timing(&self) -> TimingRequest {
            if self.timed { TimingRequest::Deferred } else { TimingRequest::None }
        }

        // A time that is not the device's includes the launch and the compilation of the kernel.
        fn profiled(&self, kernel: &'static str, profile: ProfileDuration) {
            if profile.timing_method() == TimingMethod::Device {
                self.set(kernel, Time::Unread(profile));
            }
        }

        fn timed(&self, kernel: &'static str, duration: Duration, method: TimingMethod) {
            if method == TimingMethod::Device {
                self.set(kernel, Time::Known(duration));
            }
        }
    }

    /// The launches of `work`, which ends when the device has computed all of them.
    pub(super) fn observe(
        work: impl FnOnce() -> Result<(), Diagnostic>,
        timed: bool,
    ) -> Result<Vec<Launched>, Diagnostic> {
        let recorder = Arc::new(Recorder { timed, launched: Mutex::default() });
        let observation = LaunchObservation::new(recorder.clone());
        let result = work();
        drop(observation);
        result?;
        let launched = std::mem::take(&mut *recorder.launched.lock());
        let read = |(kernel, time)| {
            let duration = match time {
                Time::Unknown => None,
                Time::Unread(profile) => block_on(profile.resolve()).map(|ticks| ticks.duration()),
                Time::Known(duration) => Some(duration),
            };
            (kernel, duration.map(|duration| duration.as_secs_f64() * 1e3))
        };
        Ok(launched.into_iter().map(read).collect())
    }
}

#[cfg(test)]
mod tests {
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
        let found: Vec<_> = by_kernel(&launched)
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
