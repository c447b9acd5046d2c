//! What rounding saw: statistics that stay on the device until a step ends, then come back in one read.

use std::sync::Arc;

use altgrad_plugin_api::QuantStats;
use burn::tensor::{Tensor, Transaction};

use super::DeviceFormat;
use crate::diagnostic::Diagnostic;

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

/// Reads the statistics of several calls, in their order, with one synchronisation.
///
/// # Errors
/// The first fault of the calls' formats, or the device's.
pub fn read(unread: Vec<Unread>) -> Result<Vec<Seen>, Diagnostic> {
    let formats: Vec<(Arc<DeviceFormat>, u64)> =
        unread.iter().map(|call| (call.format.clone(), call.elements)).collect();
    let mut transaction = Transaction::default();
    for call in unread {
        transaction = transaction.register(call.words).register(call.sums);
    }
    let data = transaction.try_execute().map_err(|error| {
        Diagnostic::run(format!("the device failed while the statistics of a step were read: {error}"))
    });
    // A plugin's own fault says more than the device's complaint about it.
    for (format, _) in &formats {
        format.take_fault().map_or(Ok(()), Err)?;
    }
    let data = data?;
    let (pairs, _) = data.as_chunks::<2>();
    let seen = formats.into_iter().zip(pairs).map(|((format, elements), [words, sums])| {
        let unreadable = |error| Diagnostic::run(format!("statistics are not what was asked for: {error:?}"));
        let words = words.as_slice::<f32>().map_err(unreadable)?;
        let words: Vec<u32> = words.iter().map(|word| word.to_bits()).collect();
        let sums = sums.as_slice::<f32>().map_err(unreadable)?;
        Ok(Seen { elements, stats: format.read_stats(&words, sums)? })
    });
    seen.collect()
}
