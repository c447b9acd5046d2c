//! The kernels of a format on a GPU: the texts of its plugin, or the host's search among its values.

use std::{collections::HashMap, sync::Arc};

use altgrad_base::diagnostic::{Diagnostic, Fault};
use altgrad_loader::FormatPlugin;
use altgrad_plugin_api::{
    BufferRole, ErrorKind, KernelBuffer, KernelOp, KernelTarget, KernelText, PluginError,
    QuantStats as FormatStats, RandomKey, Rounding, ValueGrid, launch_scalars,
};
use burn::backend::{DispatchDevice, TensorMetadata};
use burn::tensor::{DType, Shape};
use burn_cubecl::{ops::numeric::empty_device_contiguous_dtype, tensor::CubeTensor};
use parking_lot::Mutex;

use super::{code_table::CodeTable, table_kernel::TableRounding};
use crate::{
    device::ComputeDevice,
    host_words::step_word,
    kernel_text::{PluginKernel, cubes, target},
    zero_words::zero_words,
};

/// The kernels of one format for one device.
#[derive(Debug)]
pub struct FormatKernels {
    rounding: KernelSource,
    /// The table that finds the codes of rounded values, where there are up to 256.
    codes: Option<CodeTable>,
}

/// What rounds.
#[derive(Debug)]
enum KernelSource {
    Texts(KernelTexts),
    /// The plugin has no texts.
    Table(Box<TableRounding>),
}

/// The kernel texts of a plugin.
#[derive(Debug)]
pub(super) struct KernelTexts {
    target: KernelTarget,
    /// The text that describes the words of a launch and the sums of a cube. All modes and vector widths share them.
    statistics: Arc<PluginKernel>,
    /// The word of a launch that is the largest magnitude.
    amax: usize,
    kernels: Mutex<HashMap<(KernelOp, u32), Arc<PluginKernel>>>,
}

/// Refuses a kernel that leaves out a statistic, which would be read as zero.
fn check_statistics(text: &KernelText) -> Result<(), PluginError> {
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

impl FormatKernels {
    /// The kernels of a format for a device; `None` on the CPU. `decoded` are the values of its codes, if they
    /// determine rounded values.
    pub(super) fn of(
        plugin: &FormatPlugin,
        values: &ValueGrid,
        decoded: &[f32],
        device: &ComputeDevice,
    ) -> Result<Option<Self>, Diagnostic> {
        let DispatchDevice::Cube(cube) = device.tensors.as_dispatch() else { return Ok(None) };
        let Some(target) = target(&cube.client()) else { return Ok(None) };
        let refused = |error: PluginError| plugin.identity.failure(Fault::Plugin, &error);
        let text = plugin.kernel(KernelOp::FAKE_QUANT, &target).map_err(refused)?;
        text.as_ref().map_or(Ok(()), check_statistics).map_err(refused)?;
        let rounding = match text {
            Some(text) => KernelSource::Texts(KernelTexts {
                target,
                amax: text.statistics.iter().position(|word| word.name == "amax").unwrap_or_default(),
                statistics: Arc::new(PluginKernel::new(text)),
                kernels: Mutex::default(),
            }),
            None => KernelSource::Table(Box::new(TableRounding::of(plugin, values).map_err(refused)?)),
        };
        Ok(Some(Self { rounding, codes: CodeTable::of(plugin, decoded) }))
    }

    /// The plugin's texts, unless it has none and the host rounds by the format's values.
    pub(super) fn texts(&self) -> Option<&KernelTexts> {
        match &self.rounding {
            KernelSource::Texts(texts) => Some(texts),
            KernelSource::Table(_) => None,
        }
    }

    /// Scaled elements rounded; `one` is the scale 1.
    pub(super) fn rounded(
        &self,
        plugin: &FormatPlugin,
        [scaled, one]: [&CubeTensor; 2],
        rounding: Rounding,
        key: &RandomKey,
    ) -> Result<CubeTensor, PluginError> {
        match &self.rounding {
            KernelSource::Texts(texts) => {
                texts.fake_quant(plugin, scaled, one, rounding, key).map(|[rounded, _, _]| rounded)
            }
            KernelSource::Table(table) => table.round(scaled, rounding, key),
        }
    }

    /// True if stochastic kernels read the step of their key from memory, so that replays draw other bits.
    pub(super) fn read_step(&self, plugin: &FormatPlugin) -> bool {
        let op = KernelOp::FAKE_QUANT.with_rounding(Rounding::STOCHASTIC);
        match &self.rounding {
            KernelSource::Texts(texts) => {
                texts.get(plugin, op, 1).is_ok_and(|kernel| kernel.has(BufferRole::STEP))
            }
            KernelSource::Table(_) => true,
        }
    }

    /// The table that finds the codes of rounded values, if there is one.
    pub(super) fn code_table(&self) -> Option<&CodeTable> {
        self.codes.as_ref()
    }
}

impl KernelTexts {
    /// Numbers of words and sums of a launch over `elements` elements.
    pub(super) fn statistics_shape(&self, elements: usize) -> [usize; 2] {
        let text = &self.statistics.text;
        [text.statistics.len(), text.partial_sums.len() * cubes(elements)]
    }

    /// The statistics of a launch, from its words and sums.
    pub(super) fn read_stats(&self, words: &[u32], sums: &[f32]) -> Result<FormatStats, PluginError> {
        let mut stats = FormatStats::default();
        self.statistics.text.read_stats(words, sums, &mut stats)?;
        Ok(stats)
    }

    /// The kernel of an operation, stored after the first request.
    fn get(
        &self,
        plugin: &FormatPlugin,
        op: KernelOp,
        vector: u32,
    ) -> Result<Arc<PluginKernel>, PluginError> {
        let mut kernels = self.kernels.lock();
        if let Some(kernel) = kernels.get(&(op, vector)) {
            return Ok(kernel.clone());
        }
        let target = KernelTarget { vector, ..self.target.clone() };
        let text = plugin.kernel(op, &target)?.ok_or_else(|| {
            PluginError::new(ErrorKind::UNSUPPORTED, format!("it has no kernel for {op:?} on this device"))
        })?;
        if (&text.statistics, &text.partial_sums)
            != (&self.statistics.text.statistics, &self.statistics.text.partial_sums)
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
        kernels.insert((op, vector), kernel.clone());
        Ok(kernel)
    }

    /// Launches fake quantization of contiguous values: values, words, sums.
    pub(super) fn fake_quant(
        &self,
        plugin: &FormatPlugin,
        x: &CubeTensor,
        scales: &CubeTensor,
        rounding: Rounding,
        random: &RandomKey,
    ) -> Result<[CubeTensor; 3], PluginError> {
        let elements = x.shape().num_elements();
        let aligned =
            x.handle.offset_start.unwrap_or(0).is_multiple_of(16) && random.offset.is_multiple_of(4);
        let group = elements / scales.shape()[0];
        let vector = if aligned && group.is_multiple_of(4) { 4 } else { 1 };
        let kernel = self.get(plugin, KernelOp::FAKE_QUANT.with_rounding(rounding), vector)?;
        let [words, sums] = self.statistics_shape(elements);
        let (client, device) = (x.client.clone(), x.device.clone());
        let like = |shape, dtype| empty_device_contiguous_dtype(client.clone(), device.clone(), shape, dtype);
        let y = like(x.shape(), DType::F32);
        let sums = like(Shape::from([sums]), DType::F32);
        let words = zero_words(&device, words);
        let step = kernel.has(BufferRole::STEP).then(|| step_word(&device, random.step));
        let buffer = |wanted: &KernelBuffer| match wanted.role {
            BufferRole::SOURCE => Some(x),
            BufferRole::DESTINATION => Some(&y),
            BufferRole::SCALES => Some(scales),
            BufferRole::STATISTICS => Some(&words),
            BufferRole::PARTIAL_SUMS => Some(&sums),
            BufferRole::STEP => step.as_ref(),
            _ => None,
        };
        kernel.launch(&client, cubes(elements), &launch_scalars(random, group as u32), buffer)?;
        Ok([y, words, sums])
    }

    /// The word of a launch that is the largest magnitude.
    pub(super) fn amax(&self) -> usize {
        self.amax
    }
}
