//! The best performance of the device, measured beside the steps: lower bounds of their times.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use altgrad_base::diagnostic::Diagnostic;
use burn::backend::Dispatch;
use burn::tensor::{Device, FloatDType, Tensor};
use rayon::prelude::*;
use serde::Serialize;

use super::statistics::median;
use crate::{
    device_faults::{self, catch_panic},
    quant::{DeviceFormat, FakeQuantParams, QuantPass, Quantizer, fake_quant, product_ops::ProductOps},
    setup::ReadyRun,
    tensor,
    trace::TraceScope,
};

/// f32 values that are copied and rounded: 64 MiB.
const VALUES: usize = 1 << 24;
/// Their read and written bytes, in units of 10^9.
const GB: f64 = 2.0 * 4.0 * VALUES as f64 / 1e9;
/// Rows and columns of the matrices that are multiplied.
const SIDE: usize = 2048;
/// Number of counted rounds, and of the rounds before them.
const ROUNDS: usize = 12;
const WARMUP: usize = 3;
/// Least time of a round: a launch and a wait take tens of microseconds.
const ROUND: Duration = Duration::from_millis(10);

/// Rates of a device. One that could not be measured is missing.
#[derive(Debug, Default, Serialize)]
pub struct Machine {
    /// A copy of 64 MiB: GB/s, read and written bytes.
    pub copy_gb_s: Option<f64>,
    /// The product of two square f32 matrices: GFLOP/s.
    pub matmul_gflop_s: Option<f64>,
    /// The rate for bf16 matrices, where the device multiplies them faster.
    pub matmul_bf16_gflop_s: Option<f64>,
    /// Rounding 64 MiB to a format, to nearest, with all statistics, by format.
    pub fake_quant: BTreeMap<String, Kernel>,
    /// The reason of each failed measurement.
    pub failed: BTreeMap<String, String>,
}

/// The memory throughput of a kernel.
#[derive(Debug, Serialize)]
pub struct Kernel {
    /// Read and written bytes.
    pub gb_s: f64,
    /// The same as a share of the copy.
    pub of_copy: Option<f64>,
}

impl Machine {
    /// Measures the device of some runs, and all formats they round to.
    pub(super) fn measure(runs: &[ReadyRun]) -> Self {
        let compute = &runs[0].setup.device;
        let device = &compute.tensors;
        let mut machine = Self::default();
        machine.copy_gb_s = machine.rate("copy", GB, || copy(device));
        let gflop = product_gflop(SIDE);
        machine.matmul_gflop_s = machine.rate("f32 products", gflop, || f32_product(SIDE, device));
        if compute.multiplies_bf16_fast() {
            machine.matmul_bf16_gflop_s = machine.rate("bf16 products", gflop, || bf16_product(device));
        }
        for (name, format) in formats(runs) {
            let gb_s = machine.rate(&format!("rounding to {name}"), GB, || rounding(&format, device));
            if let Some(gb_s) = gb_s {
                let of_copy = machine.copy_gb_s.map(|copy| gb_s / copy);
                machine.fake_quant.insert(name, Kernel { gb_s, of_copy });
            }
        }
        machine
    }

    /// `amount` over the seconds that `measure` returns. A failure is recorded: the times of the steps are measured by
    /// then.
    fn rate(
        &mut self,
        what: &str,
        amount: f64,
        measure: impl FnOnce() -> Result<f64, Diagnostic>,
    ) -> Option<f64> {
        match catch_panic(|| measure().map_err(|error| error.message)) {
            Ok(seconds) => Some(amount / seconds),
            Err(why) => {
                self.failed.insert(what.to_string(), why);
                None
            }
        }
    }
}

/// The rate of a product of two square f32 matrices, in units of 10^9 multiplications and additions per second.
pub(super) fn product_gflop_s(device: &Device) -> Result<f64, Diagnostic> {
    /// Rows and columns: the time of a product is some milliseconds.
    const SIDE: usize = 768;
    Ok(product_gflop(SIDE) / f32_product(SIDE, device)?)
}

/// Multiplications and additions of a product of two square matrices with `side` rows, in units of 10^9.
fn product_gflop(side: usize) -> f64 {
    2.0 * (side as f64).powi(3) / 1e9
}

/// Numbers of all sizes that weights have.
fn spread(len: usize) -> Vec<f32> {
    (0..len).map(|at| (at.wrapping_mul(0x9e37_79b9) as u32 as f32 / 2f32.powi(31) - 1.0) * 0.1).collect()
}

/// The formats of all runs, by name.
fn formats(runs: &[ReadyRun]) -> BTreeMap<String, Arc<DeviceFormat>> {
    let sites = runs.iter().flat_map(|run| run.state.quant.plan.sites());
    sites.map(|site| (site.format.plugin().identity.name.to_string(), site.format.clone())).collect()
}

/// Seconds of a copy.
fn copy(device: &Device) -> Result<f64, Diagnostic> {
    #[cfg(feature = "gpu")]
    if !crate::fused_ops::is_available(device) {
        return copy_on_gpu(device);
    }
    let from = spread(VALUES);
    let mut to = vec![0f32; from.len()];
    let part = from.len().div_ceil(rayon::current_num_threads());
    let copy = || {
        to.par_chunks_mut(part).zip(from.par_chunks(part)).for_each(|(to, from)| to.copy_from_slice(from));
        std::hint::black_box(&to);
    };
    seconds(copy, || wait(device))
}

/// Seconds of adding a number: nothing simpler is written to new memory. The backend adds without fusion, which leaves
/// out an operation whose result is never read, and reads once for several additions.
#[cfg(feature = "gpu")]
fn copy_on_gpu(device: &Device) -> Result<f64, Diagnostic> {
    use burn::backend::{Backend as _, DispatchDevice, ops::FloatTensorOps as _};
    use burn_cubecl::CubeBackend;

    use crate::kernel_text::{download, upload};

    let DispatchDevice::Cube(cube) = device.as_dispatch() else {
        return Err(Diagnostic::run("the device has no memory of its own"));
    };
    let values = spread(VALUES);
    let expected = values[0] + 1.0;
    let x = upload::<CubeBackend>(cube, [VALUES].into(), values);
    let add = || CubeBackend::float_add_scalar(x.clone(), 1.0f32.into());
    check(&download::<CubeBackend>(add()).map_err(Diagnostic::run)?, expected)?;
    // The backend's own wait: fusion computes on another stream.
    seconds(|| drop(add()), || CubeBackend::sync(cube).map_err(failed))
}

/// Seconds of a product of two square f32 matrices with `side` rows.
fn f32_product(side: usize, device: &Device) -> Result<f64, Diagnostic> {
    let values = spread(side * side);
    let expected = square(&values[..side]);
    let matrix: Tensor<2> = tensor::flat(values, device).reshape([side, side]);
    let quant = Quantizer::off();
    let product =
        || QuantPass::new(&quant).linear(usize::MAX, matrix.clone(), matrix.clone(), 0, TraceScope::OFF);
    check(&tensor::read_f32(product().reshape([-1]))?, expected)?;
    seconds(|| drop(product()), || wait(device))
}

/// Seconds of a product of two square bf16 matrices, as training multiplies them.
fn bf16_product(device: &Device) -> Result<f64, Diagnostic> {
    let values = spread(SIDE * SIDE);
    let expected = square(&values[..SIDE]);
    let matrix: Tensor<2> = tensor::flat(values, device).reshape([SIDE, SIDE]);
    let matrix = matrix.cast(FloatDType::BF16);
    let [a, b] = [matrix.clone(), matrix.transpose()].map(|matrix| matrix.into_dispatch());
    let product = || Tensor::<2>::from_dispatch(<Dispatch as ProductOps>::bf16_matmul(a.clone(), b.clone()));
    check(&tensor::read_f32(product().reshape([-1]))?, expected)?;
    seconds(|| drop(product()), || wait(device))
}

/// Seconds of rounding to a format.
fn rounding(format: &Arc<DeviceFormat>, device: &Device) -> Result<f64, Diagnostic> {
    let values = tensor::flat(spread(VALUES), device);
    let round = || fake_quant::fake_quant(values.clone(), FakeQuantParams::unscaled(format.clone()));
    round().stats.read()?;
    seconds(|| drop(round()), || wait(device))
}

/// The first element of a matrix times its own transpose.
fn square(row: &[f32]) -> f32 {
    row.iter().map(|x| x * x).sum()
}

/// Checks the first value of a result: where a kernel does not run, nothing else shows it.
fn check(found: &[f32], expected: f32) -> Result<(), Diagnostic> {
    let first = found.first().copied().unwrap_or(f32::NAN);
    if (first - expected).abs() <= 0.02 * expected.abs() {
        return Ok(());
    }
    Err(Diagnostic::run(format!("the first value is {first}, not {expected}")))
}

/// The median time of `work`: it is repeated between two waits until a round is long enough.
fn seconds(mut work: impl FnMut(), wait: impl Fn() -> Result<(), Diagnostic>) -> Result<f64, Diagnostic> {
    let mut round = |repeats: u32| -> Result<Duration, Diagnostic> {
        let start = Instant::now();
        (0..repeats).for_each(|_| work());
        wait()?;
        Ok(start.elapsed().max(Duration::from_nanos(1)))
    };
    for _ in 0..WARMUP {
        round(1)?;
    }
    let mut repeats = 1;
    while round(repeats)? < ROUND {
        repeats *= 2;
    }
    let times: Result<Vec<f64>, Diagnostic> =
        (0..ROUNDS).map(|_| Ok(round(repeats)?.as_secs_f64() / f64::from(repeats))).collect();
    Ok(median(&times?))
}

/// Waits for the end of the device's work.
pub(super) fn wait(device: &Device) -> Result<(), Diagnostic> {
    device.sync().map_err(failed)?;
    device_faults::check()
}

fn failed(error: impl std::fmt::Display) -> Diagnostic {
    device_faults::failed("waiting for it", error)
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

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    #[test]
    fn a_round_repeats_short_work_between_two_waits() {
        let (calls, rounds) = (Cell::new(0u32), RefCell::new(Vec::new()));
        let wait = || {
            rounds.borrow_mut().push(calls.take());
            Ok(())
        };
        let start = Instant::now();
        let time = seconds(|| calls.set(calls.get() + 1), wait).unwrap();
        assert!(start.elapsed() >= ROUND && time > 0.0);
        let rounds = rounds.into_inner();
        let counted = &rounds[rounds.len() - ROUNDS..];
        assert!(counted.iter().all(|repeats| *repeats == counted[0]), "{rounds:?}");
        assert!(seconds(|| (), || Err(Diagnostic::run("lost"))).is_err());
    }

    #[test]
    fn a_rate_that_fails_leaves_the_others_and_its_reason() {
        let mut machine = Machine::default();
        assert_eq!(machine.rate("copy", 1.0, || Err(Diagnostic::run("no device"))), None);
        assert_eq!(machine.rate("bf16 products", 1.0, || panic!("cannot be set up\nmore")), None);
        assert_eq!(machine.rate("f32 products", 1.0, || Ok(0.5)), Some(2.0));
        let failed: Vec<(&str, &str)> =
            machine.failed.iter().map(|(what, why)| (what.as_str(), why.as_str())).collect();
        assert_eq!(failed, [("bf16 products", "cannot be set up"), ("copy", "no device")]);
    }

    #[test]
    fn a_wrong_first_value_is_a_failure() {
        assert!(check(&[1.01, 7.0], 1.0).is_ok());
        let wrong: [&[f32]; 3] = [&[1.1], &[f32::NAN], &[]];
        for wrong in wrong {
            assert!(check(wrong, 1.0).is_err(), "{wrong:?}");
        }
    }
}
