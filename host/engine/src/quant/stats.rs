//! Statistics of rounding, which stay on the device until the end of a step.

use std::sync::Arc;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_plugin_api::QuantStats as FormatStats;
use burn::tensor::Tensor;

use super::DeviceFormat;
use crate::read_back::{ReadBack, Slot, Values};

/// What counted statistics, which gives the form of their words and sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CountedBy {
    /// The format's function or kernel.
    #[default]
    Format,
    /// A kernel of the host.
    #[cfg(feature = "gpu")]
    Host,
}

/// The statistics of one call on the device.
#[derive(Debug, Clone)]
pub struct PendingStats {
    /// The format that rounded.
    pub format: Arc<DeviceFormat>,
    /// What counted.
    pub counted_by: CountedBy,
    /// Elements rounded.
    pub elements: u64,
    /// u32 words as the bit patterns of f32: `[words]`.
    pub words: Tensor<1>,
    /// f32 sums: `[sums]`.
    pub sums: Tensor<1>,
}

/// The statistics of one call, requested in a [`ReadBack`].
#[derive(Debug)]
pub struct RequestedStats {
    format: Arc<DeviceFormat>,
    counted_by: CountedBy,
    elements: u64,
    words: Slot,
    sums: Slot,
}

/// The statistics of some calls.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct QuantStats {
    /// Elements rounded.
    pub elements: u64,
    /// The statistics that the format counts.
    pub stats: FormatStats,
    /// The scale, if there is one for the whole tensor.
    pub scale: Option<f32>,
}

impl QuantStats {
    /// Adds the statistics of other calls.
    pub fn merge(&mut self, other: &Self) {
        self.elements += other.elements;
        self.stats.merge(&other.stats);
    }
}

impl PendingStats {
    /// Requests the statistics.
    #[must_use]
    pub fn request(self, read_back: &mut ReadBack) -> RequestedStats {
        let (words, sums) = (read_back.request(self.words), read_back.request(self.sums));
        let Self { format, counted_by, elements, .. } = self;
        RequestedStats { format, counted_by, elements, words, sums }
    }

    /// Reads the statistics of this call alone.
    ///
    /// # Errors
    /// The call or the device failed.
    pub fn read(self) -> Result<QuantStats, Diagnostic> {
        let mut read_back = ReadBack::default();
        let format = self.format.clone();
        let requested = self.request(&mut read_back);
        let values = read_back.read();
        format.take_fault().map_or(Ok(()), Err)?;
        requested.read(&values?)
    }
}

impl RequestedStats {
    /// The statistics.
    ///
    /// # Errors
    /// The statistics differ in form from those that the format declares.
    pub fn read(&self, values: &Values) -> Result<QuantStats, Diagnostic> {
        let words: Vec<u32> = values.get(self.words)?.iter().map(|word| word.to_bits()).collect();
        let sums = values.get(self.sums)?;
        let stats = match self.counted_by {
            CountedBy::Format => self.format.read_stats(&words, sums)?,
            #[cfg(feature = "gpu")]
            CountedBy::Host => super::tally::read(&words, sums)?,
        };
        Ok(QuantStats { elements: self.elements, stats, scale: None })
    }
}
