//! The compute device of a run, chosen at run time from the devices that the build supports and the machine has.

use altgrad_base::diagnostic::{Diagnostic, Fault};
use altgrad_config::DeviceChoice;
use burn::tensor::Device;

/// A device and its name in `run.json`.
#[derive(Debug, Clone)]
pub struct ComputeDevice {
    /// The device of the tensors.
    pub tensors: Device,
    /// `cpu`, `cuda:0`, `wgpu`.
    pub label: String,
}

impl ComputeDevice {
    /// The CPU, which every build has.
    #[must_use]
    pub fn cpu() -> Self {
        Self { tensors: Device::flex(), label: "cpu".into() }
    }

    /// The chosen device. `auto` is the first CUDA device if the build has CUDA and one answers, else the CPU.
    ///
    /// # Errors
    /// [`Fault::Device`]: the build or the machine lacks the device.
    pub fn open(choice: DeviceChoice) -> Result<Self, Diagnostic> {
        match choice {
            DeviceChoice::Cpu => Ok(Self::cpu()),
            DeviceChoice::Auto => Ok(cuda(0).unwrap_or_else(|_| Self::cpu())),
            DeviceChoice::Cuda(index) => cuda(index),
            DeviceChoice::Wgpu => wgpu(),
        }
    }
}

impl ComputeDevice {
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

#[cfg(feature = "cuda")]
fn cuda(index: u32) -> Result<ComputeDevice, Diagnostic> {
    // Asking first matters: `Device::cuda` is lazy, and its first operation panics where there is none.
    let found = Device::enumerate(burn::tensor::DeviceType::Cuda).into_vec().len();
    if (index as usize) < found {
        return Ok(ComputeDevice { tensors: Device::cuda(index as usize), label: format!("cuda:{index}") });
    }
    Err(unavailable(
        &format!("cuda:{index}"),
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
    Ok(ComputeDevice { tensors: Device::wgpu(burn::tensor::DeviceKind::DefaultDevice), label: "wgpu".into() })
}

#[cfg(not(feature = "wgpu"))]
fn wgpu() -> Result<ComputeDevice, Diagnostic> {
    Err(unavailable(
        "wgpu",
        "this build has no wgpu",
        "build with `--features wgpu`, or use device = \"cpu\"",
    ))
}
