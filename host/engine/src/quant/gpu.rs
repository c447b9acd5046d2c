//! Fake quantization on a GPU: by the kernels of a format, which are compared with its CPU function first.

use std::sync::Arc;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_loader::rounding_name;
use altgrad_plugin_api::{PluginError, Rounding};
use burn::backend::{TensorMetadata, tensor::FloatTensor};
use burn::tensor::Shape;
use burn_cubecl::{CubeBackend, CubeDevice, kernel::into_contiguous, tensor::CubeTensor};

use super::{
    DeviceFormat, FakeQuantParams, Rotation, ScaleRule, SiteId, arithmetic_kernel,
    cast::CastOps,
    cpu::{self, Buffers},
    fake_quant::{FakeQuantOps, fake_quant},
    histogram_kernel, rotation_kernel,
    scale::scale_pairs,
    scale_kernel,
};
use crate::{
    device::ComputeDevice,
    device_faults,
    host_words::scale_pair,
    kernel_text::{download, upload},
    tensor,
};

impl FakeQuantOps for CubeBackend {
    fn fake_quant(
        x: FloatTensor<Self>,
        scales: FloatTensor<Self>,
        params: Arc<FakeQuantParams>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let (format, device, shape) = (&params.format, x.device(), x.shape());
        let Some(kernels) = format.kernels() else { return through_main_memory(x, scales, &params) };
        let (x, scales) = (into_contiguous(x), into_contiguous(scales));
        let texts = kernels.texts().filter(|_| params.arithmetic.is_the_formats());
        let Some(texts) = texts else {
            return match arithmetic_kernel::fake_quant(kernels, &x, &scales, &params) {
                Ok([y, words, sums]) => (y, words, sums),
                Err(error) => failed(&device, shape, &params, &error),
            };
        };
        match texts.fake_quant(format.plugin(), &x, &scales, params.rounding, &params.key) {
            Ok([y, words, sums]) => {
                if let Some(histogram) = &params.histogram {
                    let zeros = (params.padding_elements, format.zero_code());
                    let tensors = [x, y.clone(), scales];
                    let table = kernels.code_table();
                    histogram.add_on_device(histogram_kernel::count(
                        tensors,
                        (&words, texts.amax()),
                        table,
                        zeros,
                    ));
                }
                (y, words, sums)
            }
            Err(error) => failed(&device, shape, &params, &error),
        }
    }

    fn fixed_scale(x: FloatTensor<Self>, pair: [f32; 2], site: Option<SiteId>) -> FloatTensor<Self> {
        scale_pair(&x.device(), pair, site)
    }

    fn scales(x: FloatTensor<Self>, rule: ScaleRule) -> FloatTensor<Self> {
        if let Some(scales) = scale_kernel::scales(x.clone(), &rule) {
            return scales;
        }
        let device = x.device();
        let elements = x.shape().num_elements();
        let groups = elements / rule.group_len(elements);
        let scales = match download::<Self>(into_contiguous(x)) {
            Ok(x) => cpu::dynamic_scales(&x, &rule).into_flattened(),
            // The rounding that follows fails in the same way, and reports it.
            Err(_) => vec![f32::NAN; 2 * groups],
        };
        upload::<Self>(&device, Shape::from([groups, 2]), scales)
    }
}

impl CastOps for CubeBackend {
    fn rotate(x: FloatTensor<Self>, rotation: Rotation, back: bool) -> FloatTensor<Self> {
        rotation_kernel::rotate(x, rotation, back)
    }
}

/// NaN in all results, and the error in the format.
fn failed(
    device: &CubeDevice,
    shape: Shape,
    params: &FakeQuantParams,
    error: &PluginError,
) -> (CubeTensor, CubeTensor, CubeTensor) {
    params.format.set_fault(params.format.failure(error));
    let elements = shape.num_elements();
    let [words, sums] = params.statistics_shape(elements);
    results(device, shape, vec![f32::NAN; elements], vec![0.0; words], vec![0.0; sums])
}

fn not_read(why: &str) -> Diagnostic {
    device_faults::failed("a tensor to be rounded was not read", why)
}

/// A tensor and its scales, in main memory.
fn download_both(x: CubeTensor, scales: CubeTensor) -> Result<(Vec<f32>, Vec<f32>), String> {
    let read = |x: CubeTensor| download::<CubeBackend>(into_contiguous(x));
    Ok((read(x)?, read(scales)?))
}

/// Fake quantization for a format without kernels: copies to main memory, applies the CPU function, and copies back.
fn through_main_memory(
    x: CubeTensor,
    scales: CubeTensor,
    params: &FakeQuantParams,
) -> (CubeTensor, CubeTensor, CubeTensor) {
    let (device, shape) = (x.device(), x.shape());
    match download_both(x, scales) {
        Ok((x, scales)) => {
            let mut values = x;
            let words = cpu::fake_quant(Buffers::InPlace(&mut values), scale_pairs(&scales), params);
            results(&device, shape, values, words, vec![0.0])
        }
        Err(why) => {
            params.format.set_fault(not_read(&why));
            let [words, sums] = params.format.statistics_shape(0);
            let nan = vec![f32::NAN; shape.num_elements()];
            results(&device, shape, nan, vec![0.0; words], vec![0.0; sums])
        }
    }
}

/// The operation's three results, from main memory.
fn results(
    device: &CubeDevice,
    shape: Shape,
    values: Vec<f32>,
    words: Vec<f32>,
    sums: Vec<f32>,
) -> (CubeTensor, CubeTensor, CubeTensor) {
    let flat = |values: Vec<f32>| upload::<CubeBackend>(device, Shape::from([values.len()]), values);
    (upload::<CubeBackend>(device, shape, values), flat(words), flat(sums))
}

/// What decides the rounding of a format that the host rounds itself: every value, and between any two the middle, the
/// declared threshold and their neighbours in f32, and two more that random bits take up and down.
fn all_turns(format: &DeviceFormat) -> Vec<f32> {
    let values = format.values().finite_values();
    let thresholds = &format.plugin().conventions.thresholds;
    let between = values.windows(2).flat_map(|pair| {
        let at = |part: f64| (f64::from(pair[0]) * (1.0 - part) + f64::from(pair[1]) * part) as f32;
        let middle = at(0.5);
        [at(0.25), middle.next_down(), middle, middle.next_up(), at(0.75)]
    });
    let declared = thresholds.iter().flat_map(|turn| [turn.next_down(), *turn, turn.next_up()]);
    let ends = [f32::NEG_INFINITY, f32::MIN, f32::MAX, f32::INFINITY];
    ends.into_iter().chain(values.iter().copied()).chain(between).chain(declared).collect()
}

/// Runs the kernels of some modes once, with and without vectors, on a few values, those of the host on all that
/// decide the format's rounding. Their results must be those of the CPU function.
pub(super) fn try_kernels(
    format: &Arc<DeviceFormat>,
    device: &ComputeDevice,
    modes: &[Rounding],
) -> Result<(), Diagnostic> {
    const VALUES: [f32; 8] = [0.0, -0.1, 0.3, 1.0, -1.7, 3.1, 100.0, -1e30];
    let Some(kernels) = format.kernels() else { return Ok(()) };
    let (of_format, what) = match kernels.texts() {
        Some(_) => (Vec::new(), "its kernels do not run"),
        None => (all_turns(format), "the host's search among its values cannot be used"),
    };
    let values = [&VALUES[..], &of_format].concat();
    let refused = |why: String| {
        let message = format!(
            "format plugin `{}`: {what} on device {}: {why}",
            format.plugin().identity.name,
            device.label
        );
        Diagnostic::plugin(message).at(&format.plugin().identity.library)
    };
    for &rounding in modes {
        for x in [&values[..], &values[1..]] {
            let params = FakeQuantParams { rounding, ..FakeQuantParams::unscaled(format.clone()) };
            let mut expected = x.to_vec();
            cpu::fake_quant(Buffers::InPlace(&mut expected), &[[1.0, 1.0]], &params);
            let rounded = fake_quant(tensor::flat(x.to_vec(), &device.tensors), params);
            let found = rounded.stats.read().and_then(|_| tensor::read_f32(rounded.values));
            let found = found.map_err(|error| refused(error.message))?;
            if let Some(i) = (0..x.len()).find(|&i| found[i].to_bits() != expected[i].to_bits()) {
                let mode = rounding_name(rounding);
                let what = format!("{mode} of {} is {}, on the CPU {}", x[i], found[i], expected[i]);
                return Err(refused(what));
            }
        }
    }
    format.take_fault().map_or(Ok(()), |fault| Err(refused(fault.message)))
}
