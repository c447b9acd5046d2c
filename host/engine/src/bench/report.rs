//! The results of a benchmark.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{machine::Machine, other_trainer::Beside};

/// The measurements of a case.
#[derive(Debug, Serialize)]
pub struct Timing {
    /// The case.
    pub case: String,
    /// Median milliseconds per step.
    pub median_ms: f64,
    /// Milliseconds per step: first and third quartile.
    pub quartiles_ms: [f64; 2],
    /// Milliseconds of the fastest step.
    pub least_ms: f64,
    /// Ratio of the median to the first case's.
    pub median_ratio: f64,
    /// Ratio of the least time to the first case's.
    pub least_ratio: f64,
    /// Training tokens per second, by the median.
    pub tokens_per_s: f64,
    /// Multiplications and additions of its matrix products, in units of 10^9.
    pub gflop: f64,
    /// Milliseconds they would take at the rate of one large f32 product, if that was measured.
    pub floor_ms: Option<f64>,
    /// Model FLOPs utilization: the same for products in the precision of training, as a share of the median.
    pub mfu: Option<f64>,
    /// The same at the rate of the device's data sheet, if it is known.
    pub mfu_data_sheet: Option<f64>,
    /// Kernels that a step launches; 0 on the CPU.
    pub launches: usize,
    /// Milliseconds of a step's parts: medians; empty on a GPU, where parts overlap.
    pub phases_ms: BTreeMap<&'static str, f64>,
    /// The comparison with another trainer, if it has the mode.
    pub other: Option<Beside>,
}

/// The whole report.
#[derive(Debug, Serialize)]
pub struct BenchReport {
    /// The size's name.
    pub size: String,
    /// Layers, heads, width, block, batch, ids.
    pub shape: [usize; 6],
    /// The device.
    pub device: String,
    /// Threads it computed with.
    pub threads: usize,
    /// Counted steps per case.
    pub steps: u64,
    /// The host's version.
    pub host_version: &'static str,
    /// Peak memory of this process over all cases, MB; `None` where the system does not report it.
    pub peak_rss_mb: Option<f64>,
    /// The most memory that all cases have taken from a GPU, MB, with what is kept for later tensors; `None` on the
    /// CPU.
    pub device_memory_mb: Option<f64>,
    /// Resident memory after each tenth of the steps, MB; growth indicates a leak.
    pub rss_mb: Vec<f64>,
    /// The best performance of the device.
    pub machine: Machine,
    /// The cases, in the requested order.
    pub cases: Vec<Timing>,
}
