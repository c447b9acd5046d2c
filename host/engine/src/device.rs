//! The compute device of a run, chosen at run time from the devices that the build supports and the machine has.

use altgrad_base::{
    diagnostic::{Diagnostic, Fault},
    memory,
};
use altgrad_config::DeviceChoice;
use altgrad_run_folder::record::KernelFile;
use burn::tensor::Device;

use crate::data_sheets::SheetRates;

#[cfg(feature = "cuda")]
use {crate::kernel_cache::KernelCache, std::sync::Arc};

/// The label of the CPU.
const CPU: &str = "cpu";

/// A device and its name in `run.json`.
#[derive(Debug, Clone)]
pub struct ComputeDevice {
    /// The device of the tensors.
    pub tensors: Device,
    /// `cpu`, `cuda:0`, `wgpu`.
    pub label: String,
    /// Its compiled kernels, if a file keeps them.
    #[cfg(feature = "cuda")]
    kernels: Option<Arc<KernelCache>>,
}

impl ComputeDevice {
    /// The CPU, which every build has.
    #[must_use]
    pub fn cpu() -> Self {
        Self::new(Device::flex(), CPU)
    }

    fn new(tensors: Device, label: &str) -> Self {
        Self {
            tensors,
            label: label.into(),
            #[cfg(feature = "cuda")]
            kernels: None,
        }
    }

    /// The chosen device. `auto` is the first CUDA device if the build has CUDA and the device works, else the CPU. A
    /// GPU computes a few values first.
    ///
    /// # Errors
    /// [`Fault::Device`]: the build or the machine lacks the device, or it does not work.
    pub fn open(choice: DeviceChoice) -> Result<Self, Diagnostic> {
        match choice {
            DeviceChoice::Cpu => Ok(Self::cpu()),
            DeviceChoice::Auto if cuda_devices() == 0 => Ok(Self::cpu()),
            DeviceChoice::Auto => Ok(cuda(0).unwrap_or_else(|error| {
                tracing::warn!("{}: the CPU is used", error.message);
                Self::cpu()
            })),
            DeviceChoice::Cuda(index) => cuda(index),
            DeviceChoice::Wgpu => wgpu(),
        }
    }
}

impl ComputeDevice {
    /// True if the device is the CPU.
    #[must_use]
    pub fn is_cpu(&self) -> bool {
        self.label == CPU
    }

    /// Writes the file of compiled kernels if the device has compiled others. The end of the device's use does so too.
    pub(crate) fn store_kernels(&self) {
        #[cfg(feature = "cuda")]
        if let Some(kernels) = &self.kernels {
            kernels.store();
        }
    }

    /// The file of compiled kernels, and what was taken from it; `None` without one.
    #[must_use]
    pub fn kernel_file(&self) -> Option<KernelFile> {
        #[cfg(feature = "cuda")]
        return self.kernels.as_ref().map(|kernels| kernels.record());
        #[cfg(not(feature = "cuda"))]
        None
    }

    /// The rates of products on the data sheet of its GPU; `None` on the CPU and for GPUs that are not in the table.
    #[must_use]
    pub fn sheet_rates(&self) -> Option<SheetRates> {
        #[cfg(feature = "gpu")]
        if let burn::backend::DispatchDevice::Cube(cube) = self.tensors.as_dispatch() {
            return SheetRates::of(&cube.client().properties().identity.name);
        }
        None
    }

    /// Bytes that a run has taken from a GPU's memory so far, those kept for later tensors included; on the CPU the
    /// resident memory of the process. `None` where the system does not report it.
    #[must_use]
    pub fn memory(&self) -> Option<u64> {
        #[cfg(feature = "gpu")]
        if let burn::backend::DispatchDevice::Cube(cube) = self.tensors.as_dispatch() {
            let report = cube.client().memory_report(cubecl_runtime::memory_management::MemoryScope::Device);
            return Some(report.usage().bytes_reserved);
        }
        memory::rss()
    }

    /// The largest [`Self::memory`] so far. A GPU's is what its allocator holds, which it seldom gives back.
    #[must_use]
    pub fn peak_memory(&self) -> Option<u64> {
        if self.is_cpu() { memory::peak_rss() } else { self.memory() }
    }

    /// True if the device multiplies bf16 much faster than f32: NVIDIA GPUs of compute capability 8.0 and above.
    #[must_use]
    pub fn multiplies_bf16_fast(&self) -> bool {
        #[cfg(feature = "cuda")]
        if let burn::backend::DispatchDevice::Cube(cube) = self.tensors.as_dispatch() {
            let client = cube.client();
            let architecture = client.properties().identity.fingerprint.strip_prefix("ptx_sm");
            let number = architecture.and_then(|number| number.trim_start_matches('_').parse::<u32>().ok());
            return number.is_some_and(|number| number >= 80);
        }
        false
    }
}

fn unavailable(device: &str, why: &str, hint: &str) -> Diagnostic {
    Diagnostic::new(Fault::Device, format!("device `{device}` is not available: {why}")).hint(hint)
}

/// A device that computes right; else why it is not available.
#[cfg(feature = "gpu")]
fn working(device: ComputeDevice, hint: &str) -> Result<ComputeDevice, Diagnostic> {
    crate::device_faults::record();
    match crate::probe::check(&device.tensors, device.multiplies_bf16_fast()) {
        Ok(()) => Ok(device),
        Err(why) => Err(unavailable(&device.label, &why, hint)),
    }
}

/// Number of CUDA devices. Asking first matters: `Device::cuda` is lazy, and its first operation panics where there is
/// none.
fn cuda_devices() -> usize {
    #[cfg(feature = "cuda")]
    {
        crate::kernel_cache::enable();
        Device::enumerate(burn::tensor::DeviceType::Cuda).into_vec().len()
    }
    #[cfg(not(feature = "cuda"))]
    0
}

#[cfg(feature = "cuda")]
fn cuda(index: u32) -> Result<ComputeDevice, Diagnostic> {
    let (found, label) = (cuda_devices(), format!("cuda:{index}"));
    if (index as usize) < found {
        let device = ComputeDevice::new(Device::cuda(index as usize), &label);
        let device = working(
            device,
            "libnvrtc of CUDA 13, not newer than the driver, must be on the loader's search path (LD_LIBRARY_PATH), CUDA_PATH must name a folder with its include/, and the GPU must have free memory; or use device = \"cpu\"",
        )?;
        // The libraries whose versions decide are loaded now.
        let facts = crate::gpu_facts::of(&device.tensors);
        let kernels = facts.and_then(|gpu| {
            KernelCache::open(&gpu.target, gpu.driver.as_deref(), gpu.nvrtc.as_deref()).map(Arc::new)
        });
        return Ok(ComputeDevice { kernels, ..device });
    }
    Err(unavailable(
        &label,
        &format!("{found} CUDA devices answer"),
        "check the driver and CUDA_PATH, or use device = \"cpu\"",
    ))
}

#[cfg(not(feature = "cuda"))]
fn cuda(index: u32) -> Result<ComputeDevice, Diagnostic> {
    Err(unavailable(
        &format!("cuda:{index}"),
        "this build has no CUDA",
        "build with `--features cuda`, or use device = \"cpu\"",
    ))
}

#[cfg(feature = "wgpu")]
fn wgpu() -> Result<ComputeDevice, Diagnostic> {
    if Device::enumerate(burn::tensor::DeviceType::Wgpu).into_vec().is_empty() {
        return Err(unavailable(
            "wgpu",
            "no graphics adapter answers",
            "install a driver, or use device = \"cpu\"",
        ));
    }
    let tensors = Device::wgpu(burn::tensor::DeviceKind::DefaultDevice);
    working(ComputeDevice::new(tensors, "wgpu"), "check the driver, or use device = \"cpu\"")
}

#[cfg(not(feature = "wgpu"))]
fn wgpu() -> Result<ComputeDevice, Diagnostic> {
    Err(unavailable(
        "wgpu",
        "this build has no wgpu",
        "build with `--features wgpu`, or use device = \"cpu\"",
    ))
}
