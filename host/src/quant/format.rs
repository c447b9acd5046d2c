//! A number format at work on a device: its own kernels where it brings some for it, its CPU function elsewhere.

use std::sync::{Arc, Mutex, PoisonError};

use altgrad_plugin_api::{PluginError, QuantParams, QuantStats, RandomKey, Rounding, ValueGrid};
use rayon::prelude::*;

#[cfg(feature = "gpu")]
use super::kernels::Kernels;
use super::{
    op::Call,
    scale::{self, ScaleRule},
};
use crate::{
    device::ComputeDevice,
    diagnostic::{Diagnostic, Fault},
    plugins::FormatPlugin,
};

/// Elements a call of the CPU function gets. Fixed, so that sums do not depend on the number of threads.
const PART: usize = 1 << 16;
/// Words of the CPU function's statistics: the eight fields of [`QuantStats`], 64 bits each, low word first.
#[cfg(any(feature = "gpu", test))]
const HOST_WORDS: usize = 16;

/// A format, ready on one device.
#[derive(Debug)]
pub struct DeviceFormat {
    plugin: Arc<FormatPlugin>,
    values: ValueGrid,
    /// The value of every code; empty if codes do not say what rounding gives.
    decoded: Vec<f32>,
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
        let values = plugin.values()?;
        let decoded = faithful_codes(&plugin, &values).unwrap_or_default();
        let format = Arc::new(Self {
            plugin,
            values,
            decoded,
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

    /// Its values and the geometry between them.
    #[must_use]
    pub fn values(&self) -> &ValueGrid {
        &self.values
    }

    /// The largest finite value.
    #[must_use]
    pub fn max_finite(&self) -> f32 {
        self.values.max_finite()
    }

    /// The value of every code, by code; empty if codes do not give back what rounding gives, as in a format that has
    /// no codes.
    #[must_use]
    pub fn decoded(&self) -> &[f32] {
        &self.decoded
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

    /// Elements of the statistics of one call over `elements` elements: words and sums.
    #[cfg(feature = "gpu")]
    pub(super) fn statistics_shape(&self, elements: usize) -> [usize; 2] {
        self.kernels.as_ref().map_or([HOST_WORDS, 1], |kernels| kernels.statistics_shape(elements))
    }

    /// What a call's statistics say.
    ///
    /// # Errors
    /// [`Fault::Run`]: they are not what the plugin's kernel promises.
    pub(super) fn read_stats(&self, words: &[u32], sums: &[f32]) -> Result<QuantStats, Diagnostic> {
        #[cfg(feature = "gpu")]
        if let Some(kernels) = &self.kernels {
            return kernels.read_stats(words, sums).map_err(|error| self.failure(&error));
        }
        let _ = sums;
        from_words(words)
            .ok_or_else(|| self.failure(&PluginError::shape(format!("{} words of statistics", words.len()))))
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

    /// Rounds `src` by the CPU function, in parts, on all threads, consecutive elements by each of `scales`: values, and
    /// the statistics' words as bit patterns. Tells the call's watch, if it has one. NaN throughout if a part fails.
    pub(super) fn on_host(&self, src: &[f32], scales: &[[f32; 2]], call: &Call) -> (Vec<f32>, Vec<f32>) {
        if let Some(watch) = &call.watch {
            watch.add_values(src);
        }
        let mut dst = vec![f32::NAN; src.len()];
        let group = (src.len() / scales.len()).max(1);
        let parts: Vec<Result<QuantStats, Diagnostic>> = src
            .par_chunks(group)
            .zip(dst.par_chunks_mut(group))
            .zip(scales)
            .enumerate()
            .with_min_len((PART / group).max(1))
            .map(|(index, ((src, dst), scales))| self.group_on_host(src, dst, *scales, index * group, call))
            .collect();
        if let Some(watch) = call.watch.as_ref().filter(|_| call.filling > 0) {
            let zero = self.plugin.encode(&[0.0], &QuantParams::IDENTITY);
            watch.leave_out_zeros(call.filling, zero.map_or(0, |codes| usize::from(codes[0])));
        }
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
        (dst, to_words(&stats).into_iter().map(f32::from_bits).collect())
    }

    /// Rounds the elements from `first` on, which share a scale.
    fn group_on_host(
        &self,
        src: &[f32],
        dst: &mut [f32],
        [scale, inv_scale]: [f32; 2],
        first: usize,
        call: &Call,
    ) -> Result<QuantStats, Diagnostic> {
        let part = |(index, (src, dst)): (usize, (&[f32], &mut [f32]))| {
            let offset = call.key.offset + (first + index * PART) as u64;
            let key = RandomKey { offset, ..call.key };
            let params = QuantParams { scale, inv_scale, rounding: call.rounding, key };
            let Some(watch) = &call.watch else { return self.plugin.fake_quant(src, dst, &params, &mut []) };
            let mut counters = watch.counters();
            let stats = self.plugin.fake_quant(src, dst, &params, &mut counters)?;
            watch.add_codes(&counters);
            Ok(stats)
        };
        if src.len() <= PART {
            return part((0, (src, dst)));
        }
        let parts: Result<Vec<QuantStats>, Diagnostic> =
            src.par_chunks(PART).zip(dst.par_chunks_mut(PART)).enumerate().map(part).collect();
        let mut stats = QuantStats::default();
        parts?.iter().for_each(|part| stats.merge(part));
        Ok(stats)
    }
}

/// The value of every code, if encoding what rounding gives leads back to it: tried on values between all codes.
fn faithful_codes(plugin: &FormatPlugin, values: &ValueGrid) -> Option<Vec<f32>> {
    let decoded = plugin.decode_all(values).ok()?;
    let between: Vec<f32> = decoded.iter().filter(|x| x.is_finite()).map(|x| x * 1.0625).collect();
    let mut rounded = vec![0.0; between.len()];
    plugin.fake_quant(&between, &mut rounded, &QuantParams::IDENTITY, &mut []).ok()?;
    let codes = plugin.encode(&rounded, &QuantParams::IDENTITY).ok()?;
    let same = |(code, value): (u16, f32)| decoded[usize::from(code)].to_bits() == value.to_bits();
    codes.into_iter().zip(rounded).all(same).then_some(decoded)
}

/// The scale of each group of `values`, with its inverse.
pub(super) fn dynamic_scales(values: &[f32], rule: &ScaleRule) -> Vec<[f32; 2]> {
    let group = rule.group_len(values.len());
    let largest = |values: &[f32]| {
        if values.len() <= PART {
            return scale::amax(values);
        }
        values.par_chunks(PART).map(scale::amax).reduce(|| 0.0, f32::max)
    };
    let groups = values.par_chunks(group).with_min_len((PART / group).max(1));
    groups.map(|group| rule.scale(largest(group))).collect()
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
