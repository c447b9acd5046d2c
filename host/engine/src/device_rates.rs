//! Rates of a device, measured: products of matrices, and what they say of a step's time.

use std::time::{Duration, Instant};

use altgrad_base::{diagnostic::Diagnostic, statistics::median};
use altgrad_config::PrecisionChoice;
use burn::backend::Dispatch;
use burn::tensor::{Device, FloatDType, Tensor};

use crate::{
    device_faults::{self, catch_panic},
    fused_ops,
    model::Layout,
    quant::{QuantPass, Quantizer, product_ops::ProductOps},
    setup::RunSetup,
    tensor,
    trace::TraceScope,
};

/// Rows and columns of a product that takes some milliseconds on a CPU.
const SMALL: usize = 768;
/// Those of one that fills a GPU.
pub(crate) const LARGE: usize = 2048;
/// Those of one that a software device computes in less than a second.
const FIRST: usize = 256;
/// Longest time of a large product on a GPU, seconds.
const LONG: f64 = 0.05;
/// Rounds that are counted of a short and of a thorough measurement.
const FEW: usize = 3;
pub(crate) const MANY: usize = 12;
/// Rounds before them.
const WARMUP: usize = 3;
/// Least time of a round: a launch and a wait take tens of microseconds.
const ROUND: Duration = Duration::from_millis(10);

/// The matrix products of a run's steps, and the rate at which its device computes a large one in the precision of
/// training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Products {
    /// Multiplications and additions of a step, in units of 10^9.
    pub gflop: f64,
    /// The rate, in units of 10^9 per second.
    pub gflop_s: f64,
    /// The rate on the data sheet of the device, where it is known.
    pub sheet_gflop_s: Option<f64>,
}

impl Products {
    /// Those of a run, measured in less than a second; `None` if the device fails, which its first step reports.
    #[must_use]
    pub fn measure(setup: &RunSetup, layout: &Layout) -> Option<Self> {
        let device = &setup.device;
        let side = if device.is_cpu() { SMALL } else { LARGE };
        let rate = catch_panic(|| {
            let product = if multiplies_bf16(setup) { bf16_product } else { f32_product };
            product_gflop_s(product, side, FEW, &device.tensors).map_err(|error| error.message)
        });
        Some(Self {
            gflop: step_gflop(setup, layout),
            gflop_s: rate.ok()?,
            sheet_gflop_s: sheet_gflop_s(setup),
        })
    }

    /// Model FLOPs utilization (arXiv:2204.02311, appendix B): the part of `time` that the products of `steps` take at
    /// the measured rate.
    #[must_use]
    pub fn utilization(self, steps: u64, time: Duration) -> f64 {
        steps as f64 * self.gflop / self.gflop_s / time.as_secs_f64()
    }

    /// The same at the data sheet's rate, as the paper defines it; `None` for other devices.
    #[must_use]
    pub fn sheet_utilization(self, steps: u64, time: Duration) -> Option<f64> {
        self.sheet_gflop_s.map(|gflop_s| Self { gflop_s, ..self }.utilization(steps, time))
    }
}

/// The rate of products in the precision of a run on the data sheet of its device.
pub(crate) fn sheet_gflop_s(setup: &RunSetup) -> Option<f64> {
    let rates = setup.device.sheet_rates()?;
    Some(if multiplies_bf16(setup) { rates.bf16_gflop_s } else { rates.f32_gflop_s })
}

/// True if a run's products are those of bf16 matrices.
pub(crate) fn multiplies_bf16(setup: &RunSetup) -> bool {
    setup.config.train.precision == PrecisionChoice::Bf16 && setup.device.multiplies_bf16_fast()
}

/// Multiplications and additions of a step's matrix products, forward and backward, in units of 10^9: linear layers and
/// causal attention.
pub(crate) fn step_gflop(setup: &RunSetup, layout: &Layout) -> f64 {
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

/// Multiplications and additions of a product of two square matrices with `side` rows, in units of 10^9.
fn product_gflop(side: usize) -> f64 {
    2.0 * (side as f64).powi(3) / 1e9
}

/// Seconds of a product of two square matrices with so many rows, as the median of so many rounds.
type Product = fn(usize, usize, &Device) -> Result<f64, Diagnostic>;

/// The rate of a product of two square f32 matrices, in units of 10^9 multiplications and additions per second.
pub(crate) fn small_product_gflop_s(device: &Device) -> Result<f64, Diagnostic> {
    product_gflop_s(f32_product, SMALL, MANY, device)
}

/// The rate of products with `side` rows, in units of 10^9 multiplications and additions per second; of smaller ones on
/// a GPU that takes long for these, such as a software device.
pub(crate) fn product_gflop_s(
    product: Product,
    side: usize,
    rounds: usize,
    device: &Device,
) -> Result<f64, Diagnostic> {
    let seconds = |side, rounds| product(side, rounds, device);
    if fused_ops::is_available(device) {
        return Ok(product_gflop(side) / seconds(side, rounds)?);
    }
    gpu_product_gflop_s(seconds, side, rounds)
}

/// The same on a GPU, with the function that measures products of a number of rows in a number of rounds.
fn gpu_product_gflop_s(
    seconds: impl Fn(usize, usize) -> Result<f64, Diagnostic>,
    side: usize,
    rounds: usize,
) -> Result<f64, Diagnostic> {
    let first = product_gflop(FIRST) / seconds(FIRST, FEW)?;
    if product_gflop(side) / first > LONG {
        return Ok(first);
    }
    Ok(product_gflop(side) / seconds(side, rounds)?)
}

/// Seconds of a product of two square f32 matrices with `side` rows.
pub(crate) fn f32_product(side: usize, rounds: usize, device: &Device) -> Result<f64, Diagnostic> {
    let values = spread(side * side);
    let expected = square(&values[..side]);
    let matrix: Tensor<2> = tensor::flat(values, device).reshape([side, side]);
    let quant = Quantizer::off();
    let product =
        || QuantPass::new(&quant).linear(usize::MAX, matrix.clone(), matrix.clone(), 0, TraceScope::OFF);
    check(&tensor::read_f32(product().reshape([-1]))?, expected)?;
    seconds(rounds, || drop(product()), || wait(device))
}

/// Seconds of a product of two square bf16 matrices with `side` rows, as training multiplies them.
pub(crate) fn bf16_product(side: usize, rounds: usize, device: &Device) -> Result<f64, Diagnostic> {
    let values = spread(side * side);
    let expected = square(&values[..side]);
    let matrix: Tensor<2> = tensor::flat(values, device).reshape([side, side]);
    let matrix = matrix.cast(FloatDType::BF16);
    let [a, b] = [matrix.clone(), matrix.transpose()].map(|matrix| matrix.into_dispatch());
    let product = || Tensor::<2>::from_dispatch(<Dispatch as ProductOps>::bf16_matmul(a.clone(), b.clone()));
    check(&tensor::read_f32(product().reshape([-1]))?, expected)?;
    seconds(rounds, || drop(product()), || wait(device))
}

/// Numbers of all sizes that weights have.
pub(crate) fn spread(len: usize) -> Vec<f32> {
    (0..len).map(|at| (at.wrapping_mul(0x9e37_79b9) as u32 as f32 / 2f32.powi(31) - 1.0) * 0.1).collect()
}

/// The first element of a matrix times its own transpose.
fn square(row: &[f32]) -> f32 {
    row.iter().map(|x| x * x).sum()
}

/// Checks the first value of a result: where a kernel does not run, nothing else shows it.
pub(crate) fn check(found: &[f32], expected: f32) -> Result<(), Diagnostic> {
    let first = found.first().copied().unwrap_or(f32::NAN);
    if (first - expected).abs() <= 0.02 * expected.abs() {
        return Ok(());
    }
    Err(Diagnostic::run(format!("the first value is {first}, not {expected}")))
}

/// The median time of `work`: it is repeated between two waits until a round is long enough.
pub(crate) fn seconds(
    rounds: usize,
    mut work: impl FnMut(),
    wait: impl Fn() -> Result<(), Diagnostic>,
) -> Result<f64, Diagnostic> {
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
        (0..rounds).map(|_| Ok(round(repeats)?.as_secs_f64() / f64::from(repeats))).collect();
    Ok(median(times?).unwrap_or(f64::NAN))
}

/// Waits for the end of the device's work.
pub(crate) fn wait(device: &Device) -> Result<(), Diagnostic> {
    device.sync().map_err(failed)?;
    device_faults::check()
}

pub(crate) fn failed(error: impl std::fmt::Display) -> Diagnostic {
    device_faults::failed("waiting for it", error)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    #[test]
    fn utilization_is_the_time_of_the_products_over_that_of_the_steps() {
        let products = Products { gflop: 3.0, gflop_s: 30.0, sheet_gflop_s: Some(300.0) };
        let time = Duration::from_secs(2);
        assert_eq!(products.utilization(4, time), 0.2);
        assert_eq!(products.sheet_utilization(4, time), Some(0.02));
        assert_eq!(Products { sheet_gflop_s: None, ..products }.sheet_utilization(4, time), None);
    }

    #[test]
    fn a_round_repeats_short_work_between_two_waits() {
        let (calls, rounds) = (Cell::new(0u32), RefCell::new(Vec::new()));
        let wait = || {
            rounds.borrow_mut().push(calls.take());
            Ok(())
        };
        let start = Instant::now();
        let time = seconds(MANY, || calls.set(calls.get() + 1), wait).unwrap();
        assert!(start.elapsed() >= ROUND && time > 0.0);
        let rounds = rounds.into_inner();
        let counted = &rounds[rounds.len() - MANY..];
        assert!(counted.iter().all(|repeats| *repeats == counted[0]), "{rounds:?}");
        assert!(seconds(FEW, || (), || Err(Diagnostic::run("lost"))).is_err());
    }

    #[test]
    fn only_a_fast_gpu_computes_large_products() {
        let rate_at = |gflop_s: f64| {
            let sides = RefCell::new(Vec::new());
            let seconds = |side, _| {
                sides.borrow_mut().push(side);
                Ok(product_gflop(side) / gflop_s)
            };
            let rate = gpu_product_gflop_s(seconds, LARGE, MANY).unwrap();
            assert!((rate / gflop_s - 1.0).abs() < 1e-9);
            sides.into_inner()
        };
        assert_eq!(rate_at(50_000.0), [FIRST, LARGE]);
        // Software Vulkan on two cores.
        assert_eq!(rate_at(0.6), [FIRST]);
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
