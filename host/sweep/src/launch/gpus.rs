//! The number of runs that compute on a GPU at once.
//!
//! Processes on a GPU take turns (time slicing), which takes longer than one after the other: on an H100 eight took
//! 1.0 s per step each, where one alone took 0.08 s. NVIDIA's Multi-Process Service (MPS) lets kernels of several
//! processes run together. A sweep therefore computes one run on a GPU at a time, unless MPS runs.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    env, fs,
    path::Path,
};

use altgrad_config::DeviceChoice;

use crate::task::Task;

/// The variable that names the folder of MPS's pipes.
const PIPES: &str = "CUDA_MPS_PIPE_DIRECTORY";
/// Their folder without it.
const DEFAULT_PIPES: &str = "/tmp/nvidia-mps";

/// The limit of each GPU.
#[derive(Debug, Clone, Copy)]
pub struct GpuLimit {
    /// The number of runs that the user asked for.
    at_once: Option<usize>,
    /// Whether `auto` is a GPU; asked only for runs on that device, since the answer may open it.
    auto_is_gpu: fn() -> bool,
    /// True if MPS runs.
    mps: bool,
}

/// That of runs that start elsewhere.
impl Default for GpuLimit {
    fn default() -> Self {
        Self { at_once: None, auto_is_gpu: || false, mps: false }
    }
}

impl GpuLimit {
    /// The limit on this machine: `at_once` runs, by default one, and any number where MPS runs. `auto_is_gpu` says
    /// whether the device `auto` is a GPU, and is asked only for runs on that device beside others.
    #[must_use]
    pub fn new(at_once: Option<usize>, auto_is_gpu: fn() -> bool) -> Self {
        let pipes = env::var_os(PIPES).unwrap_or_else(|| DEFAULT_PIPES.into());
        Self { at_once, auto_is_gpu, mps: mps_runs(Path::new(&pipes)) }
    }

    /// The GPU of a device; `None` for the CPU.
    fn gpu(self, device: DeviceChoice) -> Option<DeviceChoice> {
        match device {
            DeviceChoice::Auto => (self.auto_is_gpu)().then_some(DeviceChoice::Cuda(0)),
            DeviceChoice::Cpu => None,
            DeviceChoice::Cuda(_) | DeviceChoice::Wgpu => Some(device),
        }
    }

    /// Runs that compute on a GPU at once.
    fn of(self, gpu: DeviceChoice) -> usize {
        let shared = self.mps && matches!(gpu, DeviceChoice::Cuda(_));
        self.at_once.unwrap_or(if shared { usize::MAX } else { 1 })
    }

    /// Takes the first task whose GPU has room beside the running ones.
    pub(super) fn take<'a>(
        self,
        waiting: &mut VecDeque<&'a Task>,
        running: impl Iterator<Item = &'a Task>,
    ) -> Option<&'a Task> {
        let mut running = running.peekable();
        if running.peek().is_none() {
            return waiting.pop_front();
        }
        let mut busy: BTreeMap<String, usize> = BTreeMap::new();
        for gpu in running.filter_map(|task| self.gpu(task.device)) {
            *busy.entry(gpu.to_string()).or_default() += 1;
        }
        let has_room = |task: &&Task| {
            self.gpu(task.device)
                .is_none_or(|gpu| busy.get(&gpu.to_string()).is_none_or(|runs| *runs < self.of(gpu)))
        };
        let at = waiting.iter().position(has_room)?;
        waiting.remove(at)
    }

    /// What a user is told whose runs at a time are more than one, a line for each GPU among their devices.
    #[must_use]
    pub fn message(self, jobs: usize, devices: impl IntoIterator<Item = DeviceChoice>) -> Option<String> {
        if jobs < 2 || self.at_once.is_some() {
            return None;
        }
        let gpus = devices.into_iter().filter_map(|device| self.gpu(device));
        let lines: BTreeSet<String> = gpus
            .map(|gpu| match self.of(gpu) {
                1 => format!(
                    "{gpu} computes one run at a time, which is faster than several that take turns \
                     (`--jobs-per-gpu` sets another number)"
                ),
                _ => format!("{gpu} computes up to {jobs} runs at a time, because MPS runs"),
            })
            .collect();
        (!lines.is_empty()).then(|| lines.into_iter().collect::<Vec<_>>().join("\n"))
    }
}

/// True if the folder has the pipe of MPS's control daemon, and the daemon whose id is beside it lives.
fn mps_runs(pipes: &Path) -> bool {
    let id = fs::read_to_string(pipes.join("nvidia-cuda-mps-control.pid"));
    let lives = |id: String| Path::new("/proc").join(id.trim()).exists();
    pipes.join("control").exists() && id.map_or(true, lives)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const ONE: GpuLimit = GpuLimit { at_once: None, auto_is_gpu: || true, mps: false };
    const MPS: GpuLimit = GpuLimit { mps: true, ..ONE };
    const TWO: GpuLimit = GpuLimit { at_once: Some(2), ..MPS };

    fn task(name: &str, device: DeviceChoice) -> Task {
        Task {
            name: name.into(),
            config: "".into(),
            folder: "".into(),
            log: "".into(),
            until: 1,
            steps: 1,
            fork: None,
            device,
        }
    }

    /// The names of the tasks that start, in order, if none ends.
    fn started(limit: GpuLimit, tasks: &[Task]) -> String {
        let mut waiting: VecDeque<&Task> = tasks.iter().collect();
        let mut running: Vec<&Task> = Vec::new();
        while let Some(task) = limit.take(&mut waiting, running.iter().copied()) {
            running.push(task);
        }
        running.iter().map(|task| task.name.as_str()).collect()
    }

    #[test]
    fn a_gpu_has_one_run_at_a_time_unless_mps_runs() {
        use DeviceChoice::{Auto, Cpu, Cuda, Wgpu};
        let devices = [Auto, Cuda(0), Cuda(1), Cpu, Cuda(0), Cpu, Wgpu, Wgpu];
        let tasks: Vec<Task> =
            "abcdefgh".chars().zip(devices).map(|(name, device)| task(&name.to_string(), device)).collect();
        assert_eq!(started(ONE, &tasks), "acdfg");
        assert_eq!(started(MPS, &tasks), "abcdefg", "MPS is CUDA's");
        assert_eq!(started(TWO, &tasks), "abcdfgh");
        assert_eq!(started(GpuLimit { auto_is_gpu: || false, ..ONE }, &tasks), "abcdfg");
    }

    #[test]
    fn the_user_is_told_of_several_runs_on_a_gpu_only() {
        use DeviceChoice::{Cpu, Cuda};
        let said = ONE.message(2, [Cuda(0), Cpu, Cuda(0)]).unwrap();
        assert_eq!(said.lines().count(), 1);
        assert!(said.starts_with("cuda:0 computes one run at a time"), "{said}");
        assert_eq!(
            MPS.message(3, [Cuda(1)]).unwrap(),
            "cuda:1 computes up to 3 runs at a time, because MPS runs"
        );
        for (limit, jobs, device) in [(ONE, 1, Cuda(0)), (TWO, 2, Cuda(0)), (ONE, 2, Cpu)] {
            assert_eq!(limit.message(jobs, [device]), None);
        }
    }

    #[test]
    fn mps_runs_if_its_daemon_lives() {
        let folder = tempfile::tempdir().unwrap();
        let pipes = folder.path();
        assert!(!mps_runs(pipes));
        fs::write(pipes.join("control"), "").unwrap();
        assert!(mps_runs(pipes));
        let id = |id: &str| fs::write(pipes.join("nvidia-cuda-mps-control.pid"), id).unwrap();
        id(&format!("{}\n", std::process::id()));
        assert!(mps_runs(pipes));
        // Above the largest id of a process on Linux.
        id("4194305");
        assert!(!mps_runs(pipes));
    }
}
