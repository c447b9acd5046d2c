//! A number format at work on a device: its own kernels where it brings some for it, its CPU function elsewhere.

use std::sync::{Arc, Mutex, PoisonError};

use altgrad_plugin_api::{PluginError, QuantParams, QuantStats, RandomKey, Rounding};
use rayon::prelude::*;

#[cfg(feature = "gpu")]
use super::kernels::Kernels;
use crate::{
    device::ComputeDevice,
    diagnostic::{Diagnostic, Fault},
    plugins::FormatPlugin,
};

/// Elements a call of the CPU function gets. Fixed, so that sums do not depend on the number of threads.
const PART: usize = 1 << 16;
/// Words of the CPU function's statistics: the eight fields of [`QuantStats`], 64 bits each, low word first.
const HOST_WORDS: usize = 16;

/// Rounding mode and random key of one call.
#[derive(Debug, Clone, Copy)]
pub struct RoundingCall {
    /// The mode.
    pub rounding: Rounding,
    /// Where stochastic rounding takes its bits; other modes ignore it.
    pub key: RandomKey,
}

impl RoundingCall {
    /// To nearest, ties to even.
    pub const NEAREST_EVEN: Self =
        Self { rounding: Rounding::NearestEven, key: RandomKey { seed: 0, step: 0, tensor: 0, offset: 0 } };
}

/// A format, ready on one device.
#[derive(Debug)]
pub struct DeviceFormat {
    plugin: Arc<FormatPlugin>,
    #[cfg(feature = "gpu")]
    kernels: Option<Kernels>,
    /// The first call that failed since it was last asked: tensor operations cannot return an error.
    fault: Mutex<Option<Diagnostic>>,
}

impl DeviceFormat {
    /// The format on a device, for some rounding modes. On a GPU its kernels for them are compiled and tried here,
    /// so that a text the device refuses is an error now and not in the middle of a step.
    ///
    /// # Errors
    /// [`Fault::Plugin`]: the plugin refuses its kernels, or the device does.
    pub fn new(
        plugin: Arc<FormatPlugin>,
        device: &ComputeDevice,
        modes: &[Rounding],
    ) -> Result<Arc<Self>, Diagnostic> {
        #[cfg(feature = "gpu")]
        let kernels = Kernels::of(&plugin, device)?;
        #[cfg(not(feature = "gpu"))]
        let _ = (device, modes);
        let format = Arc::new(Self {
            plugin,
            #[cfg(feature = "gpu")]
            kernels,
            fault: Mutex::default(),
        });
        #[cfg(feature = "gpu")]
        super::kernels::try_out(&format, device, modes)?;
        Ok(format)
    }

    /// The plugin.
    #[must_use]
    pub fn plugin(&self) -> &FormatPlugin {
        &self.plugin
    }

    /// Whether rounding runs on the device: always on the CPU; on a GPU if the format brings kernels for it. If not,
    /// tensors go to main memory and back.
    #[must_use]
    pub fn runs_on_device(&self, device: &ComputeDevice) -> bool {
        #[cfg(feature = "gpu")]
        let has_kernels = self.kernels.is_some();
        #[cfg(not(feature = "gpu"))]
        let has_kernels = false;
        has_kernels || device.label == "cpu"
    }

    /// The kernels for the device, if it is a GPU and the format brings some.
    #[cfg(feature = "gpu")]
    pub(super) fn kernels(&self) -> Option<&Kernels> {
        self.kernels.as_ref()
    }

    /// Elements of the statistics of one call over `elements` elements: counts (u32) and sums (f32).
    pub(super) fn statistics_shape(&self, elements: usize) -> [usize; 2] {
        #[cfg(feature = "gpu")]
        if let Some(kernels) = &self.kernels {
            return kernels.statistics_shape(elements);
        }
        let _ = elements;
        [HOST_WORDS, 1]
    }

    /// What a call's statistics say.
    ///
    /// # Errors
    /// [`Fault::Run`]: they are not what the plugin's kernel promises.
    pub(super) fn read_stats(&self, counts: &[u32], sums: &[f32]) -> Result<QuantStats, Diagnostic> {
        #[cfg(feature = "gpu")]
        if let Some(kernels) = &self.kernels {
            return kernels.read_stats(counts, sums).map_err(|error| self.failure(&error));
        }
        let _ = sums;
        from_words(counts)
            .ok_or_else(|| self.failure(&PluginError::shape(format!("{} words of statistics", counts.len()))))
    }

    /// Remembers a failed call.
    pub(super) fn set_fault(&self, fault: Diagnostic) {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(fault);
    }

    /// The first call that failed since this was last asked.
    pub fn take_fault(&self) -> Option<Diagnostic> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn failure(&self, error: &PluginError) -> Diagnostic {
        self.plugin.identity.failure(Fault::Run, error)
    }

    /// Rounds `src` by the CPU function, in parts, on all threads: values, and the statistics' words. NaN throughout
    /// if a part fails.
    pub(super) fn on_host(&self, src: &[f32], scales: [f32; 2], call: RoundingCall) -> (Vec<f32>, Vec<u32>) {
        let mut dst = vec![f32::NAN; src.len()];
        let parts: Vec<Result<QuantStats, Diagnostic>> = src
            .par_chunks(PART)
            .zip(dst.par_chunks_mut(PART))
            .enumerate()
            .map(|(part, (src, dst))| {
                let key = RandomKey { offset: call.key.offset + (part * PART) as u64, ..call.key };
                let [scale, inv_scale] = scales;
                let params = QuantParams { scale, inv_scale, rounding: call.rounding, key };
                self.plugin.fake_quant(src, dst, &params, &mut [])
            })
            .collect();
        let mut stats = QuantStats::default();
        for part in parts {
            match part {
                Ok(part) => stats.merge(&part),
                Err(fault) => {
                    self.set_fault(fault);
                    dst.fill(f32::NAN);
                }
            }
        }
        (dst, to_words(&stats))
    }
}

fn to_words(stats: &QuantStats) -> Vec<u32> {
    let &QuantStats { amax, overflow, underflow, nan, nonzero, sum_x2, sum_err2, sum_x_xhat } = stats;
    let fields = [
        u64::from(amax.to_bits()),
        overflow,
        underflow,
        nan,
        nonzero,
        sum_x2.to_bits(),
        sum_err2.to_bits(),
        sum_x_xhat.to_bits(),
    ];
    fields.iter().flat_map(|&field| [field as u32, (field >> 32) as u32]).collect()
}

fn from_words(words: &[u32]) -> Option<QuantStats> {
    let (pairs, []) = words.as_chunks::<2>() else { return None };
    let fields: Vec<u64> = pairs.iter().map(|&[low, high]| u64::from(low) | u64::from(high) << 32).collect();
    let &[amax, overflow, underflow, nan, nonzero, sum_x2, sum_err2, sum_x_xhat] = fields.as_slice() else {
        return None;
    };
    let [sum_x2, sum_err2, sum_x_xhat] = [sum_x2, sum_err2, sum_x_xhat].map(f64::from_bits);
    let amax = f32::from_bits(amax as u32);
    Some(QuantStats { amax, overflow, underflow, nan, nonzero, sum_x2, sum_err2, sum_x_xhat })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_survive_their_words() {
        let stats = QuantStats {
            amax: 1.5,
            overflow: 1 << 40,
            underflow: 2,
            nan: 3,
            nonzero: 4,
            sum_x2: 1e300,
            sum_err2: -0.1,
            sum_x_xhat: 7.0,
        };
        assert_eq!(to_words(&stats).len(), HOST_WORDS);
        assert_eq!(from_words(&to_words(&stats)), Some(stats));
        assert_eq!(from_words(&[0; 15]), None);
    }
}
