//! A format's kernels on a device: which texts, what they are given, and whether they do what the CPU function does.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use altgrad_plugin_api::{
    BufferRole, ErrorKind, KernelBuffer, KernelOp, KernelTarget, KernelText, PluginError, QuantStats,
    Rounding, launch_scalars,
};
use burn::backend::{DispatchDevice, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{DType, Shape};
use burn_cubecl::{
    CubeBackend, CubeDevice, kernel::into_contiguous, ops::numeric::empty_device_contiguous_dtype,
    tensor::CubeTensor,
};

use super::{Call, DeviceFormat, ScaleRule, op, scale_kernel};
use crate::{
    device::ComputeDevice,
    diagnostic::{Diagnostic, Fault},
    kernel_text::{PluginKernel, cubes, download, target, upload},
    model::params,
    plugins::FormatPlugin,
};

/// The texts of one format for one device.
#[derive(Debug)]
pub struct Kernels {
    target: KernelTarget,
    /// Says the words of a launch and the sums of a cube: the same for all modes and vectors.
    reading: Arc<PluginKernel>,
    texts: Mutex<HashMap<(KernelOp, u32), Arc<PluginKernel>>>,
}

/// Refuses a kernel that leaves out a statistic: what is not counted would read as zero.
fn counts_everything(text: &KernelText) -> Result<(), PluginError> {
    const FIELDS: [&str; 8] =
        ["amax", "overflow", "underflow", "nan", "nonzero", "sum_x2", "sum_err2", "sum_x_xhat"];
    let words = text.statistics.iter().map(|word| word.name.as_str());
    let counted: Vec<&str> = words.chain(text.partial_sums.iter().map(|sum| sum.name.as_str())).collect();
    match FIELDS.iter().find(|field| !counted.contains(field)) {
        None => Ok(()),
        Some(field) => {
            let message = format!("kernel `{}` does not count `{field}`", text.entry);
            Err(PluginError::new(ErrorKind::UNSUPPORTED, message))
        }
    }
}

impl Kernels {
    /// The kernels a format brings for a device; `None` on the CPU, and for a format that brings none.
    pub(super) fn of(plugin: &FormatPlugin, device: &ComputeDevice) -> Result<Option<Self>, Diagnostic> {
        let DispatchDevice::Cube(cube) = device.tensors.as_dispatch() else { return Ok(None) };
        let Some(target) = target(&cube.client()) else { return Ok(None) };
        let refused = |error: PluginError| plugin.identity.failure(Fault::Plugin, &error);
        let reading = plugin.kernel(KernelOp::FAKE_QUANT, &target).map_err(refused)?;
        reading.as_ref().map_or(Ok(()), counts_everything).map_err(refused)?;
        Ok(reading.map(|text| Self {
            target,
            reading: Arc::new(PluginKernel::new(text)),
            texts: Mutex::default(),
        }))
    }

    /// Words and sums of a launch over `elements` elements.
    pub(super) fn statistics_shape(&self, elements: usize) -> [usize; 2] {
        let text = &self.reading.text;
        [text.statistics.len(), text.partial_sums.len() * cubes(elements)]
    }

    /// What the words and sums of a launch say.
    pub(super) fn read_stats(&self, words: &[u32], sums: &[f32]) -> Result<QuantStats, PluginError> {
        let mut stats = QuantStats::default();
        self.reading.text.read_stats(words, sums, &mut stats)?;
        Ok(stats)
    }

    /// The text of an operation, kept after the first time.
    fn get(
        &self,
        plugin: &FormatPlugin,
        op: KernelOp,
        vector: u32,
    ) -> Result<Arc<PluginKernel>, PluginError> {
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kernel) = texts.get(&(op, vector)) {
            return Ok(kernel.clone());
        }
        let target = KernelTarget { vector, ..self.target.clone() };
        let text = plugin.kernel(op, &target)?.ok_or_else(|| {
            PluginError::new(ErrorKind::UNSUPPORTED, format!("it has no kernel for {op:?} on this device"))
        })?;
        if (&text.statistics, &text.partial_sums)
            != (&self.reading.text.statistics, &self.reading.text.partial_sums)
        {
            let message = format!("its kernels for {op:?} and {:?} count differently", KernelOp::FAKE_QUANT);
            return Err(PluginError::new(ErrorKind::UNSUPPORTED, message));
        }
        if text.vector == 0 || !vector.is_multiple_of(text.vector) {
            let message =
                format!("its kernel for {op:?} takes {} elements at once, {vector} fit", text.vector);
            return Err(PluginError::new(ErrorKind::UNSUPPORTED, message));
        }
        let kernel = Arc::new(PluginKernel::new(text));
        texts.insert((op, vector), kernel.clone());
        Ok(kernel)
    }

    /// Launches fake quantization: values, words, sums.
    fn fake_quant(
        &self,
        plugin: &FormatPlugin,
        x: CubeTensor,
        scales: CubeTensor,
        call: &Call,
    ) -> Result<[CubeTensor; 3], PluginError> {
        let (x, scales) = (into_contiguous(x), into_contiguous(scales));
        let elements = x.shape().num_elements();
        let aligned =
            x.handle.offset_start.unwrap_or(0).is_multiple_of(16) && call.key.offset.is_multiple_of(4);
        let group = elements / scales.shape()[0];
        let vector = if aligned && group.is_multiple_of(4) { 4 } else { 1 };
        let kernel = self.get(plugin, KernelOp::FAKE_QUANT.with_rounding(call.rounding), vector)?;
        let [words, sums] = self.statistics_shape(elements);
        let (client, device) = (x.client.clone(), x.device.clone());
        let like = |shape, dtype| empty_device_contiguous_dtype(client.clone(), device.clone(), shape, dtype);
        let y = like(x.shape(), DType::F32);
        let sums = like(Shape::from([sums]), DType::F32);
        let words = upload::<CubeBackend>(&device, Shape::from([words]), vec![0.0; words]);
        let buffer = |wanted: &KernelBuffer| match wanted.role {
            BufferRole::SOURCE => Some(&x),
            BufferRole::DESTINATION => Some(&y),
            BufferRole::PARAMETERS => Some(&scales),
            BufferRole::STATISTICS => Some(&words),
            BufferRole::PARTIAL_SUMS => Some(&sums),
            _ => None,
        };
        kernel.launch(&client, cubes(elements), &launch_scalars(&call.key, group as u32), buffer)?;
        Ok([y, words, sums])
    }
}

impl op::FormatOps for CubeBackend {
    fn fake_quant(
        x: FloatTensor<Self>,
        scales: FloatTensor<Self>,
        call: Arc<Call>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let (format, device, shape) = (&call.format, x.device(), x.shape());
        let Some(kernels) = format.kernels() else { return through_memory(x, scales, &call) };
        if call.watch.is_some() {
            watched(x.clone(), scales.clone(), &call);
        }
        match kernels.fake_quant(format.plugin(), x, scales, &call) {
            Ok([y, words, sums]) => (y, words, sums),
            Err(error) => {
                format.set_fault(format.failure(&error));
                let [words, sums] = format.statistics_shape(shape.num_elements());
                let nan = vec![f32::NAN; shape.num_elements()];
                results(&device, shape, nan, vec![0.0; words], vec![0.0; sums])
            }
        }
    }

    fn scales(x: FloatTensor<Self>, rule: ScaleRule) -> FloatTensor<Self> {
        scale_kernel::scales(x, rule)
    }
}

/// Tells the call's watch what is rounded: reads the tensor back and lets the CPU function count.
fn watched(x: CubeTensor, scales: CubeTensor, call: &Call) {
    match both(x, scales) {
        Ok((x, scales)) => drop(call.format.on_host(&x, op::pairs(&scales), call)),
        Err(why) => call.format.set_fault(not_read(&why)),
    }
}

fn not_read(why: &str) -> Diagnostic {
    Diagnostic::run(format!("a tensor to be rounded cannot be read back: {why}"))
}

/// A tensor and its scales, in main memory.
fn both(x: CubeTensor, scales: CubeTensor) -> Result<(Vec<f32>, Vec<f32>), String> {
    let read = |x: CubeTensor| download::<CubeBackend>(into_contiguous(x));
    Ok((read(x)?, read(scales)?))
}

/// For a format without kernels: to main memory, the CPU function, and back.
fn through_memory(x: CubeTensor, scales: CubeTensor, call: &Call) -> (CubeTensor, CubeTensor, CubeTensor) {
    let (device, shape) = (x.device(), x.shape());
    match both(x, scales) {
        Ok((x, scales)) => {
            let (values, words) = call.format.on_host(&x, op::pairs(&scales), call);
            results(&device, shape, values, words, vec![0.0])
        }
        Err(why) => {
            call.format.set_fault(not_read(&why));
            let [words, sums] = call.format.statistics_shape(0);
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

/// Runs the kernels of some modes once, with and without vectors, on a handful of values: they must do what the CPU
/// function does.
pub(super) fn try_out(
    format: &Arc<DeviceFormat>,
    device: &ComputeDevice,
    modes: &[Rounding],
) -> Result<(), Diagnostic> {
    const VALUES: [f32; 8] = [0.0, -0.1, 0.3, 1.0, -1.7, 3.1, 100.0, -1e30];
    if format.kernels().is_none() {
        return Ok(());
    }
    let refused = |why: String| {
        let message = format!(
            "format plugin `{}`: its kernels do not run on device {}: {why}",
            format.plugin().identity.name,
            device.label
        );
        Diagnostic::plugin(message).at(&format.plugin().identity.library)
    };
    for &rounding in modes {
        for x in [&VALUES[..], &VALUES[1..]] {
            let call = Call { rounding, ..Call::plain(format.clone()) };
            let (expected, _) = format.on_host(x, &[[1.0, 1.0]], &call);
            let rounded = op::fake_quant(params::flat(x.to_vec(), &device.tensors), call);
            let found = rounded.seen.read().and_then(|_| params::read_f32(rounded.values));
            let found = found.map_err(|error| refused(error.message))?;
            if let Some(i) = (0..x.len()).find(|&i| found[i].to_bits() != expected[i].to_bits()) {
                let what = format!("{rounding:?} of {} is {}, on the CPU {}", x[i], found[i], expected[i]);
                return Err(refused(what));
            }
        }
    }
    format.take_fault().map_or(Ok(()), |fault| Err(refused(fault.message)))
}
