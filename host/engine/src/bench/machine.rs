//! The best performance of the device, measured beside the steps: lower bounds of their times.

use std::{collections::BTreeMap, sync::Arc};

use altgrad_base::diagnostic::Diagnostic;
use burn::tensor::Device;
use rayon::prelude::*;
use serde::Serialize;

use crate::{
    data_sheets::SheetRates,
    device_faults::catch_panic,
    device_rates::{
        LARGE, MANY, bf16_product, f32_product, multiplies_bf16, product_gflop_s, seconds, spread, wait,
    },
    quant::{DeviceFormat, FakeQuantParams, fake_quant},
    setup::{ReadyRun, RunSetup},
    tensor,
};

/// f32 values that are copied and rounded: 64 MiB.
const VALUES: usize = 1 << 24;
/// Their read and written bytes, in units of 10^9.
const GB: f64 = 2.0 * 4.0 * VALUES as f64 / 1e9;

/// Rates of a device. One that could not be measured is missing.
#[derive(Debug, Default, Serialize)]
pub struct Machine {
    /// A copy of 64 MiB: GB/s, read and written bytes.
    pub copy_gb_s: Option<f64>,
    /// The product of two square f32 matrices: GFLOP/s.
    pub matmul_gflop_s: Option<f64>,
    /// The rate for bf16 matrices, where the device multiplies them faster.
    pub matmul_bf16_gflop_s: Option<f64>,
    /// The rates on the data sheet of the device, if it is known.
    pub data_sheet: Option<SheetRates>,
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
        let mut machine = Self { data_sheet: compute.sheet_rates(), ..Self::default() };
        machine.copy_gb_s = machine.rate("copy", || Ok(GB / copy(device)?));
        machine.matmul_gflop_s =
            machine.rate("f32 products", || product_gflop_s(f32_product, LARGE, MANY, device));
        if compute.multiplies_bf16_fast() {
            machine.matmul_bf16_gflop_s =
                machine.rate("bf16 products", || product_gflop_s(bf16_product, LARGE, MANY, device));
        }
        for (name, format) in formats(runs) {
            let gb_s = machine.rate(&format!("rounding to {name}"), || Ok(GB / rounding(&format, device)?));
            if let Some(gb_s) = gb_s {
                let of_copy = machine.copy_gb_s.map(|copy| gb_s / copy);
                machine.fake_quant.insert(name, Kernel { gb_s, of_copy });
            }
        }
        machine
    }

    /// The rate of products in the precision of a run.
    pub(super) fn product_gflop_s(&self, setup: &RunSetup) -> Option<f64> {
        if multiplies_bf16(setup) { self.matmul_bf16_gflop_s } else { self.matmul_gflop_s }
    }

    /// The rate that `measure` returns. A failure is recorded: the times of the steps are measured by then.
    fn rate(&mut self, what: &str, measure: impl FnOnce() -> Result<f64, Diagnostic>) -> Option<f64> {
        match catch_panic(|| measure().map_err(|error| error.message)) {
            Ok(rate) => Some(rate),
            Err(why) => {
                self.failed.insert(what.to_string(), why);
                None
            }
        }
    }
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
    seconds(MANY, copy, || wait(device))
}

/// Seconds of adding a number: nothing simpler is written to new memory. The backend adds without fusion, which leaves
/// out an operation whose result is never read, and reads once for several additions.
#[cfg(feature = "gpu")]
fn copy_on_gpu(device: &Device) -> Result<f64, Diagnostic> {
    use burn::backend::{Backend as _, DispatchDevice, ops::FloatTensorOps as _};
    use burn_cubecl::CubeBackend;

    use crate::{
        device_rates::{check, failed},
        kernel_text::{download, upload},
    };

    let DispatchDevice::Cube(cube) = device.as_dispatch() else {
        return Err(Diagnostic::run("the device has no memory of its own"));
    };
    let values = spread(VALUES);
    let expected = values[0] + 1.0;
    let x = upload::<CubeBackend>(cube, [VALUES].into(), values);
    let add = || CubeBackend::float_add_scalar(x.clone(), 1.0f32.into());
    check(&download::<CubeBackend>(add()).map_err(Diagnostic::run)?, expected)?;
    // The backend's own wait: fusion computes on another stream.
    seconds(MANY, || drop(add()), || CubeBackend::sync(cube).map_err(failed))
}

/// Seconds of rounding to a format.
fn rounding(format: &Arc<DeviceFormat>, device: &Device) -> Result<f64, Diagnostic> {
    let values = tensor::flat(spread(VALUES), device);
    let round = || fake_quant::fake_quant(values.clone(), FakeQuantParams::unscaled(format.clone()));
    round().stats.read()?;
    seconds(MANY, || drop(round()), || wait(device))
}

#[cfg(test)]
#[allow(clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_that_fails_leaves_the_others_and_its_reason() {
        let mut machine = Machine::default();
        assert_eq!(machine.rate("copy", || Err(Diagnostic::run("no device"))), None);
        assert_eq!(machine.rate("bf16 products", || panic!("cannot be set up\nmore")), None);
        assert_eq!(machine.rate("f32 products", || Ok(2.0)), Some(2.0));
        let failed: Vec<(&str, &str)> =
            machine.failed.iter().map(|(what, why)| (what.as_str(), why.as_str())).collect();
        assert_eq!(failed, [("bf16 products", "cannot be set up"), ("copy", "no device")]);
    }
}
