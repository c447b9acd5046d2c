//! Kernel texts under test, and tools to run them without a GPU.
//!
//! [`formats`] has the subjects, [`cases`] the inputs, [`check`] the comparisons, and [`updates`] all of them for
//! optimizers; [`cuda`] runs CUDA text on the CPU, [`wgsl`] runs WGSL on a Vulkan device. A missing tool is reported as
//! `SKIPPED: reason`, and no test passes silently.
#![allow(clippy::unwrap_used, clippy::expect_used)]

pub mod cases;
pub mod check;
pub mod cuda;
pub mod formats;
pub mod updates;
pub mod wgsl;

use altgrad_plugin_api::KernelText;

/// Something that runs kernel texts.
pub trait Runner {
    /// Runs one launch of `cubes` cubes. Buffers are u32 words, in the kernel's order, and come back as it left them.
    fn run(&self, kernel: &KernelText, cubes: u32, scalars: &[u32], buffers: Vec<Vec<u32>>) -> Vec<Vec<u32>>;
}

/// The info block of a launch.
#[must_use]
pub fn info(kernel: &KernelText, scalars: &[u32], buffers: &[Vec<u32>]) -> Vec<u64> {
    let lens: Vec<u64> = buffers.iter().map(|words| words.len() as u64).collect();
    kernel.pack_info(scalars, &lens).unwrap()
}
