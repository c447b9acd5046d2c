//! A number format on a device.

use std::sync::{Arc, OnceLock};

use altgrad_casts::{Grid, nearest_bf16};
use altgrad_plugin_api::{PluginError, QuantParams, QuantStats as FormatStats, ValueGrid};
use parking_lot::Mutex;

#[cfg(feature = "gpu")]
use super::format_kernels::FormatKernels;
use super::stat_words;
use altgrad_base::diagnostic::{Diagnostic, Fault};
use altgrad_loader::FormatPlugin;

use crate::device::ComputeDevice;

/// Largest magnitude whose products can be added 2^14 times without exceeding f32's largest value.
const LARGEST_FACTOR: f32 = (1u64 << 56) as f32;

/// A format's plugin with its parts for one device: its kernels on a GPU that they support, its CPU function elsewhere.
#[derive(Debug)]
pub struct DeviceFormat {
    plugin: Arc<FormatPlugin>,
    values: ValueGrid,
    /// The value of every code; empty if codes do not determine the rounded values.
    decoded: Vec<f32>,
    /// Its values as casts of whole matrices need them, made at the first.
    grid: OnceLock<Grid>,
    /// True if all of these are exact in bf16, and their products can be added in f32.
    fits_bf16: bool,
    #[cfg(feature = "gpu")]
    kernels: Option<FormatKernels>,
    /// The first failed call since the last reading: tensor operations cannot return an error.
    fault: Mutex<Option<Diagnostic>>,
}

impl DeviceFormat {
    /// The format on a device, with kernels that were not tried yet. [`Self::new`] tries them.
    pub(super) fn untested(plugin: Arc<FormatPlugin>, device: &ComputeDevice) -> Result<Self, Diagnostic> {
        let values = plugin.values()?;
        let decoded = exact_codes(&plugin, &values).unwrap_or_default();
        #[cfg(feature = "gpu")]
        let kernels = FormatKernels::of(&plugin, &values, &decoded, device)?;
        #[cfg(not(feature = "gpu"))]
        let _ = device;
        Ok(Self {
            plugin,
            values,
            fits_bf16: fit_bf16(&decoded),
            decoded,
            grid: OnceLock::new(),
            #[cfg(feature = "gpu")]
            kernels,
            fault: Mutex::default(),
        })
    }

    /// The format without kernels: its CPU function rounds tensors of any device.
    ///
    /// # Errors
    /// The plugin's description is impossible.
    pub fn on_host(plugin: Arc<FormatPlugin>, device: &ComputeDevice) -> Result<Self, Diagnostic> {
        #[cfg_attr(not(feature = "gpu"), allow(unused_mut))]
        let mut format = Self::untested(plugin, device)?;
        #[cfg(feature = "gpu")]
        {
            format.kernels = None;
        }
        Ok(format)
    }

    /// The plugin.
    #[must_use]
    pub fn plugin(&self) -> &FormatPlugin {
        &self.plugin
    }

    /// The plugin, for another device format.
    #[cfg(feature = "gpu")]
    pub(super) fn plugin_handle(&self) -> Arc<FormatPlugin> {
        self.plugin.clone()
    }

    /// Its values and their geometry.
    #[must_use]
    pub fn values(&self) -> &ValueGrid {
        &self.values
    }

    /// The largest finite value.
    #[must_use]
    pub fn max_finite(&self) -> f32 {
        self.values.max_finite()
    }

    /// The target of amax: the declared one, or the largest finite value.
    #[must_use]
    pub fn amax_target(&self) -> f32 {
        self.plugin.conventions.target(&self.values)
    }

    /// The format as casts on the CPU need it, with the plugin's function for magnitudes of blocks.
    ///
    /// # Errors
    /// The plugin's description is impossible.
    pub fn grid(&self) -> Result<&Grid, Diagnostic> {
        if let Some(grid) = self.grid.get() {
            return Ok(grid);
        }
        let made = grid(&self.plugin)?;
        Ok(self.grid.get_or_init(|| made))
    }

    /// The value of every code, by code. Empty if encoding and decoding a rounded value does not return it, as in a
    /// format without codes.
    #[must_use]
    pub fn decoded(&self) -> &[f32] {
        &self.decoded
    }

    /// True if values times their scales can be multiplied as bf16.
    #[must_use]
    pub fn fits_bf16(&self) -> bool {
        self.fits_bf16
    }

    /// The code of zero; 0 for a format without codes.
    pub(super) fn zero_code(&self) -> usize {
        let codes = self.plugin.encode(&[0.0], &QuantParams::IDENTITY);
        codes.map_or(0, |codes| usize::from(codes[0]))
    }

    /// True if rounding runs on the device: always on the CPU; on a GPU by kernels of the plugin, or of the host where
    /// these give the plugin's values. Otherwise tensors are copied to main memory and back.
    #[must_use]
    pub fn runs_on_device(&self, device: &ComputeDevice) -> bool {
        #[cfg(feature = "gpu")]
        let has_kernels = self.kernels.is_some();
        #[cfg(not(feature = "gpu"))]
        let has_kernels = false;
        has_kernels || device.label == "cpu"
    }

    /// The kernels for the device, if it is a GPU and the format has kernels for it.
    #[cfg(feature = "gpu")]
    pub(super) fn kernels(&self) -> Option<&FormatKernels> {
        self.kernels.as_ref()
    }

    /// True if kernels that round stochastically read the step of their key from memory.
    #[cfg(feature = "gpu")]
    pub(super) fn reads_step(&self) -> bool {
        self.kernels.as_ref().is_some_and(|kernels| kernels.read_step(&self.plugin))
    }

    /// Lengths of the statistics of a call over `elements` elements: words and sums.
    #[cfg(feature = "gpu")]
    pub(super) fn statistics_shape(&self, elements: usize) -> [usize; 2] {
        let texts = self.kernels.as_ref().and_then(FormatKernels::texts);
        texts.map_or([stat_words::WORDS, 1], |texts| texts.statistics_shape(elements))
    }

    /// The statistics of a call, from its words and sums.
    ///
    /// # Errors
    /// [`Fault::Run`]: the statistics differ in form from those that the plugin's kernel declares.
    pub(super) fn read_stats(&self, words: &[u32], sums: &[f32]) -> Result<FormatStats, Diagnostic> {
        #[cfg(feature = "gpu")]
        if let Some(texts) = self.kernels.as_ref().and_then(FormatKernels::texts) {
            return texts.read_stats(words, sums).map_err(|error| self.failure(&error));
        }
        let _ = sums;
        stat_words::from_words(words)
            .ok_or_else(|| self.failure(&PluginError::shape(format!("{} words of statistics", words.len()))))
    }

    /// Stores a failed call, unless an earlier one is stored.
    pub(super) fn set_fault(&self, fault: Diagnostic) {
        self.fault.lock().get_or_insert(fault);
    }

    /// The first failed call since the last call of this function.
    pub fn take_fault(&self) -> Option<Diagnostic> {
        self.fault.lock().take()
    }

    /// An error of the plugin as a diagnostic.
    pub(super) fn failure(&self, error: &PluginError) -> Diagnostic {
        self.plugin.identity.failure(Fault::Run, error)
    }
}

/// The format of a plugin as casts on the CPU need it, with the plugin's function for magnitudes of blocks.
///
/// # Errors
/// The plugin's description is impossible.
pub fn grid(plugin: &Arc<FormatPlugin>) -> Result<Grid, Diagnostic> {
    let grid = Grid::new(&plugin.spec, &plugin.conventions)
        .map_err(|error| plugin.identity.failure(Fault::Plugin, &error))?;
    let plugin = plugin.clone();
    let magnitude = move |block: &[f32]| plugin.magnitude(block).map_err(|error| error.message);
    Ok(grid.with_magnitude(Arc::new(magnitude)))
}

/// The value of every code, if encoding a rounded value and decoding it returns the value: tested on values between all
/// codes. Values that were scaled and scaled back are off by some last bits, so those must return it too: they do not
/// where a threshold of rounding lies beside the value.
fn exact_codes(plugin: &FormatPlugin, values: &ValueGrid) -> Option<Vec<f32>> {
    /// Eight units in the last place at most.
    const NUDGE: f32 = 4.0 * f32::EPSILON;
    let decoded = plugin.decode_all(values).ok()?;
    let between: Vec<f32> = decoded.iter().filter(|x| x.is_finite()).map(|x| x * 1.0625).collect();
    let mut rounded = vec![0.0; between.len()];
    plugin.fake_quant(&between, &mut rounded, &QuantParams::IDENTITY, &mut []).ok()?;
    let returns = |factor: f32| {
        let nudged: Vec<f32> = rounded.iter().map(|x| x * factor).collect();
        let codes = plugin.encode(&nudged, &QuantParams::IDENTITY).ok()?;
        let value = |code: u16| decoded.get(usize::from(code)).map(|value| value.to_bits());
        Some(codes.into_iter().map(value).eq(rounded.iter().map(|x| Some(x.to_bits()))))
    };
    [1.0, 1.0 - NUDGE, 1.0 + NUDGE].into_iter().all(|factor| returns(factor) == Some(true)).then_some(decoded)
}

/// True if all finite values, at least one, are exact in bf16 and no larger than [`LARGEST_FACTOR`].
fn fit_bf16(values: &[f32]) -> bool {
    let fits = |value: &f32| nearest_bf16(*value) == *value && value.abs() <= LARGEST_FACTOR;
    let mut finite = values.iter().filter(|value| value.is_finite()).peekable();
    finite.peek().is_some() && finite.all(fits)
}
