//! What rounding saw: statistics that stay on the device until a step ends.

use std::sync::Arc;

use altgrad_plugin_api::QuantStats;
use burn::tensor::Tensor;

use super::DeviceFormat;
use crate::{
    diagnostic::Diagnostic,
    read_back::{ReadBack, Slot, Values},
};

/// The statistics of one call, not read yet.
#[derive(Debug, Clone)]
pub struct Unread {
    /// The format that rounded.
    pub format: Arc<DeviceFormat>,
    /// Elements rounded.
    pub elements: u64,
    /// u32 words as the bit patterns of f32: `[words]`.
    pub words: Tensor<1>,
    /// f32 sums: `[sums]`.
    pub sums: Tensor<1>,
}

/// The statistics of one call, asked for.
#[derive(Debug)]
pub struct Asked {
    format: Arc<DeviceFormat>,
    elements: u64,
    words: Slot,
    sums: Slot,
}

/// What some calls saw.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Seen {
    /// Elements rounded.
    pub elements: u64,
    /// Statistics over them.
    pub stats: QuantStats,
}

impl Seen {
    /// Adds what other calls saw.
    pub fn merge(&mut self, other: &Self) {
        self.elements += other.elements;
        self.stats.merge(&other.stats);
    }
}

impl Unread {
    /// Asks for the statistics.
    #[must_use]
    pub fn ask(self, read_back: &mut ReadBack) -> Asked {
        let (words, sums) = (read_back.ask(self.words), read_back.ask(self.sums));
        Asked { format: self.format, elements: self.elements, words, sums }
    }

    /// Reads the statistics of this call alone.
    ///
    /// # Errors
    /// The call failed, or the device.
    pub fn read(self) -> Result<Seen, Diagnostic> {
        let mut read_back = ReadBack::default();
        let format = self.format.clone();
        let asked = self.ask(&mut read_back);
        let values = read_back.read();
        format.take_fault().map_or(Ok(()), Err)?;
        asked.seen(&values?)
    }
}

impl Asked {
    /// What the call saw.
    ///
    /// # Errors
    /// The statistics are not what the format promised.
    pub fn seen(&self, values: &Values) -> Result<Seen, Diagnostic> {
        let words: Vec<u32> = values.get(self.words)?.iter().map(|word| word.to_bits()).collect();
        let stats = self.format.read_stats(&words, values.get(self.sums)?)?;
        Ok(Seen { elements: self.elements, stats })
    }
}
