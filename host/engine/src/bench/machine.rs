//! The best performance of the device, measured beside the steps: lower bounds of their times.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use altgrad_base::diagnostic::Diagnostic;
use burn::tensor::{Device, FloatDType, Tensor};
use rayon::prelude::*;
use serde::Serialize;

use super::statistics::median;
use crate::{
    cpu_ops,
    quant::{DeviceFormat, FakeQuantParams, QuantContext, fake_quant},
    setup::ReadyRun,
    tensor,
    trace::TraceScope,
};

/// f32 values that are copied and rounded: 64 MiB.
const VALUES: usize = 1 << 24;
/// Rows and columns of the matrices that are multiplied.
const SIDE: usize = 2048;
/// Number of repetitions; the first ones do not count.
const ROUNDS: usize = 12;
const WARMUP: usize = 3;

/// Rates of a device.
#[derive(Debug, Serialize)]
pub struct Machine {
    /// A copy of 64 MiB: GB/s, read and written bytes.
    pub copy_gb_s: f64,
    /// The product of two square f32 matrices: GFLOP/s.
    pub matmul_gflop_s: f64,
    /// The rate for bf16 matrices, where the device multiplies them faster.
    pub matmul_bf16_gflop_s: Option<f64>,
    /// Rounding 64 MiB to a format, to nearest, with all statistics, by format.
    pub fake_quant: BTreeMap<String, Kernel>,
}

/// The memory throughput of a kernel.
#[derive(Debug, Serialize)]
pub struct Kernel {
    /// Read and written bytes.
    pub gb_s: f64,
    /// The same as a share of the copy.
    pub of_copy: f64,
}

impl Machine {
    /// Measures the device of some runs, and all formats they round to.
    ///
    /// # Errors
    /// The device failed.
    pub(super) fn measure(runs: &[ReadyRun]) -> Result<Self, Diagnostic> {
        let compute = &runs[0].setup.device;
        let device = &compute.tensors;
        let values = Tensor::from_inner(tensor::flat(spread(VALUES), device)).inner();
        let gb = 2.0 * 4.0 * VALUES as f64 / 1e9;
        let copy_gb_s = gb / copy(&values, device)?;
        let matrix = tensor::flat(spread(SIDE * SIDE), device).reshape([SIDE, SIDE]);
        let gflop = 2.0 * (SIDE as f64).powi(3) / 1e9;
        let quant = QuantContext::off();
        let f32_product =
            || drop(quant.linear(usize::MAX, matrix.clone(), matrix.clone(), 0, TraceScope::OFF));
        let matmul_gflop_s = gflop / seconds(device, f32_product)?;
        let narrow = matrix.clone().cast(FloatDType::BF16);
        let bf16_product = || drop(narrow.clone().matmul(narrow.clone().transpose()));
        let fast = compute.multiplies_bf16_fast();
        let matmul_bf16_gflop_s =
            fast.then(|| seconds(device, bf16_product)).transpose()?.map(|time| gflop / time);
        let mut fake_quant = BTreeMap::new();
        for (name, format) in formats(runs) {
            let round =
                || drop(fake_quant::fake_quant(values.clone(), FakeQuantParams::unscaled(format.clone())));
            let gb_s = gb / seconds(device, round)?;
            fake_quant.insert(name, Kernel { gb_s, of_copy: gb_s / copy_gb_s });
        }
        Ok(Self { copy_gb_s, matmul_gflop_s, matmul_bf16_gflop_s, fake_quant })
    }
}

/// The rate of a product of two square f32 matrices, in units of 10^9 multiplications and additions per second.
pub(super) fn product_gflop_s(device: &Device) -> Result<f64, Diagnostic> {
    /// Rows and columns: the time of a product is some milliseconds.
    const SIDE: usize = 768;
    let matrix = tensor::flat(spread(SIDE * SIDE), device).reshape([SIDE, SIDE]);
    let quant = QuantContext::off();
    let product = || drop(quant.linear(usize::MAX, matrix.clone(), matrix.clone(), 0, TraceScope::OFF));
    Ok(2.0 * (SIDE as f64).powi(3) / 1e9 / seconds(device, product)?)
}

/// Numbers of all sizes that weights have.
fn spread(len: usize) -> Vec<f32> {
    (0..len).map(|at| (at.wrapping_mul(0x9e37_79b9) as u32 as f32 / 2f32.powi(31) - 1.0) * 0.1).collect()
}

/// The formats of all runs, by name.
fn formats(runs: &[ReadyRun]) -> BTreeMap<String, Arc<DeviceFormat>> {
    let sites = runs.iter().flat_map(|run| run.state.quant.sites());
    sites.map(|site| (site.format.plugin().identity.name.to_string(), site.format.clone())).collect()
}

/// Seconds of a copy of `values`.
fn copy(values: &Tensor<1>, device: &Device) -> Result<f64, Diagnostic> {
    if !cpu_ops::is_available(device) {
        // Nothing simpler is written to new memory.
        return seconds(device, || drop(values.clone().add_scalar(1.0)));
    }
    let from = tensor::read_f32(values.clone())?;
    let mut to = vec![0f32; from.len()];
    let part = from.len().div_ceil(rayon::current_num_threads());
    seconds(device, || {
        to.par_chunks_mut(part).zip(from.par_chunks(part)).for_each(|(to, from)| to.copy_from_slice(from));
        std::hint::black_box(&to);
    })
}

/// The median time of `work`, including the wait for its end.
fn seconds(device: &Device, mut work: impl FnMut()) -> Result<f64, Diagnostic> {
    let mut times = Vec::with_capacity(ROUNDS);
    for round in 0..WARMUP + ROUNDS {
        let start = Instant::now();
        work();
        wait(device)?;
        if round >= WARMUP {
            times.push(start.elapsed().max(Duration::from_nanos(1)).as_secs_f64());
        }
    }
    Ok(median(&times))
}

/// Waits for the end of the device's work.
pub(super) fn wait(device: &Device) -> Result<(), Diagnostic> {
    device.sync().map_err(|error| Diagnostic::run(format!("the device failed: {error}")))
}

/// Multiplications and additions of a step's matrix products, forward and backward, in units of 10^9: linear layers and
/// causal attention.
pub(super) fn gflop(run: &ReadyRun) -> f64 {
    let ReadyRun { setup, state, .. } = run;
    let layout = &state.params.layout;
    let size = |id: usize| layout.specs[id].shape.iter().product::<usize>() as f64;
    let blocks = layout.blocks.iter().flat_map(|block| {
        [block.c_attn, block.attn_proj, block.c_fc, block.mlp_proj].map(|layer| size(layer.weight))
    });
    let linear = blocks.sum::<f64>() + size(layout.head);
    let tokens = setup.tokens_per_step() as f64;
    let shape = &setup.model.gpt.shape;
    // Two products of each position with itself and the earlier ones, on average half of all positions.
    let attention = 2.0 * (shape.n_layer * shape.n_embd) as f64 * setup.config.data.block_size as f64 / 2.0;
    3.0 * 2.0 * tokens * (linear + attention) / 1e9
}
