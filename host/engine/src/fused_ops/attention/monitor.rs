//! Measurements of attention's softmax in the passes of a step: its entropy and its largest score, by layer.
//!
//! The fused operation of the CPU measures rows where it computes them; elsewhere tensor operations do. Results stay on
//! the device until the step's reading.

use std::cell::RefCell;

use altgrad_base::diagnostic::Diagnostic;
use burn::tensor::Tensor;

use crate::{
    read_back::{ReadBack, Slot, Values},
    tensor,
};

/// Collects the attention of each layer in the passes of a step.
#[derive(Debug, Clone, Default)]
pub struct AttentionMonitor {
    /// Measurements `[heads + 1]` by layer (the number of its weight) and micro-batch: the entropy of each head and the
    /// largest score.
    measured: RefCell<Vec<(usize, Tensor<1>)>>,
}

/// The attention of a layer over the micro-batches of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttentionStats {
    /// Entropy of a query's softmax over that of a uniform one, mean over queries and heads.
    pub entropy: f64,
    /// The entropy of the head with the least entropy.
    pub least_entropy: f64,
    /// Largest score; NaN if a softmax is not finite.
    pub largest_score: f64,
}

/// The requested measurements of a step's attention.
#[derive(Debug)]
pub struct RequestedAttention(Vec<(usize, Slot)>);

impl AttentionMonitor {
    /// Records a layer of a micro-batch: `[heads + 1]`, outside of any autodiff graph.
    pub fn record(&self, layer: usize, stats: Tensor<1>) {
        self.measured.borrow_mut().push((layer, stats));
    }

    /// All recorded measurements.
    #[cfg(feature = "gpu")]
    #[must_use]
    pub fn tensors(&self) -> Vec<Tensor<1>> {
        self.measured.borrow().iter().map(|(_, stats)| stats.clone()).collect()
    }

    /// Requests all recorded measurements.
    #[must_use]
    pub fn request(self, read_back: &mut ReadBack) -> RequestedAttention {
        RequestedAttention(
            self.measured
                .into_inner()
                .into_iter()
                .map(|(layer, stats)| (layer, read_back.request(stats)))
                .collect(),
        )
    }
}

impl RequestedAttention {
    /// The attention of each recorded layer, in the order of their parameters.
    ///
    /// # Errors
    /// The device failed.
    pub fn read(&self, values: &Values) -> Result<Vec<(usize, AttentionStats)>, Diagnostic> {
        let mut layers: Vec<(usize, Vec<&[f32]>)> = Vec::new();
        for (layer, slot) in &self.0 {
            let stats = values.get(*slot)?;
            match layers.iter_mut().find(|(known, _)| known == layer) {
                Some((_, all)) => all.push(stats),
                None => layers.push((*layer, vec![stats])),
            }
        }
        let stats = layers.into_iter().filter_map(|(layer, all)| Some((layer, summary(&all)?)));
        let mut stats: Vec<_> = stats.collect();
        stats.sort_by_key(|(layer, _)| *layer);
        Ok(stats)
    }
}

/// Means over micro-batches, and the largest score of all; `None` without a head.
fn summary(micro_batches: &[&[f32]]) -> Option<AttentionStats> {
    let heads = micro_batches.first()?.len().checked_sub(1).filter(|heads| *heads > 0)?;
    let mean = |head: usize| {
        let sum: f64 = micro_batches.iter().map(|stats| f64::from(stats[head])).sum();
        sum / micro_batches.len() as f64
    };
    let entropies: Vec<f64> = (0..heads).map(mean).collect();
    // NaN is kept: a step with scores that are not finite has no other values.
    let either_nan =
        |a: f64, b: f64, of: fn(f64, f64) -> f64| if (a + b).is_nan() { f64::NAN } else { of(a, b) };
    let largest = micro_batches.iter().map(|stats| f64::from(stats[heads]));
    Some(AttentionStats {
        entropy: entropies.iter().sum::<f64>() / heads as f64,
        least_entropy: entropies.iter().copied().fold(f64::INFINITY, |a, b| either_nan(a, b, f64::min)),
        largest_score: largest.fold(f64::NEG_INFINITY, |a, b| either_nan(a, b, f64::max)),
    })
}

/// The input of [`AttentionMonitor::record`], from scores with -inf in the future and their softmax, both
/// `[batch, heads, block, block]`.
#[must_use]
pub fn measure(scores: Tensor<4>, softmax: Tensor<4>) -> Tensor<1> {
    let [batch, heads, block, _] = softmax.dims();
    let device = softmax.device();
    // A query with one key has an entropy of zero.
    let weights: Vec<f32> = (0..block).map(|row| query_weight(row, batch * (block - 1))).collect();
    let weights = tensor::flat(weights, &device).reshape([1, 1, block, 1]);
    let logarithms = softmax.clone().clamp_min(f32::MIN_POSITIVE).log();
    let entropy = (softmax * logarithms).sum_dim(3).neg() * weights;
    let entropy = entropy.sum_dim(0).sum_dim(2).reshape([heads]);
    // The largest element of a tensor may leave NaN out, a sum does not.
    let lost = entropy.clone().sum_dim(0).mul_scalar(0.0);
    Tensor::cat(vec![entropy, scores.max() + lost], 0)
}

/// The weight of the entropy of query `row` in the mean over `queries`: the inverse of the entropy of a uniform softmax
/// over its keys.
#[must_use]
pub fn query_weight(row: usize, queries: usize) -> f32 {
    if row == 0 { 0.0 } else { (1.0 / (((row + 1) as f64).ln() * queries as f64)) as f32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_a_mean_over_micro_batches_and_the_least_head() {
        let stats = summary(&[&[0.5, 1.0, 3.0], &[0.25, 1.0, 7.0]]);
        assert_eq!(stats, Some(AttentionStats { entropy: 0.6875, least_entropy: 0.375, largest_score: 7.0 }));
        assert_eq!(summary(&[]), None);
        assert_eq!(summary(&[&[1.0]]), None);
        let lost = summary(&[&[f32::NAN, 1.0, 3.0]]);
        assert!(lost.is_some_and(|stats| stats.entropy.is_nan() && stats.least_entropy.is_nan()));
    }
}
