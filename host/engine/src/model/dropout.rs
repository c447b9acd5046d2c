//! Dropout masks, drawn on the host from their own random stream.

use std::cell::Cell;

use altgrad_base::random::{self, Stream};
use burn::tensor::{Device, Shape, Tensor, TensorData};
use rand::Rng;

/// Masks of one micro-batch never reach this number, so that micro-batches do not share counters.
const MASKS_A_MICRO_BATCH: u64 = 1 << 16;

/// The dropout of one forward pass.
#[derive(Debug)]
pub struct Dropout {
    probability: f32,
    seed: u64,
    /// The next mask's place in the stream.
    counter: Cell<u64>,
}

impl Dropout {
    /// No dropout: evaluation, sampling, and training without it.
    #[must_use]
    pub fn off() -> Self {
        Self { probability: 0.0, seed: 0, counter: Cell::new(0) }
    }

    /// Dropout of training micro-batch number `micro_batch`; `probability` in 0..1.
    #[must_use]
    pub fn train(probability: f32, seed: u64, micro_batch: u64) -> Self {
        Self { probability, seed, counter: Cell::new(micro_batch * MASKS_A_MICRO_BATCH) }
    }

    /// Zeroes elements with the given probability and scales the rest by 1/(1-p).
    #[must_use]
    pub fn apply<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        match self.mask(x.shape(), &x.device()) {
            Some(mask) => x * mask,
            None => x,
        }
    }

    /// The mask that [`Self::apply`] multiplies with; `None` without dropout.
    #[must_use]
    pub fn mask<const D: usize>(&self, shape: Shape, device: &Device) -> Option<Tensor<D>> {
        if self.probability == 0.0 {
            return None;
        }
        let counter = self.counter.replace(self.counter.get() + 1);
        let mut generator = random::at(self.seed, Stream::Dropout, counter);
        // 32 random bits per element; the threshold is exact to 2^-32.
        let threshold = (f64::from(self.probability) * 2f64.powi(32)) as u32;
        let keep = 1.0 / (1.0 - self.probability);
        let mask: Vec<f32> = (0..shape.num_elements())
            .map(|_| if generator.next_u32() < threshold { 0.0 } else { keep })
            .collect();
        Some(Tensor::from_data(TensorData::new(mask, shape), device))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{device::ComputeDevice, tensor};

    #[test]
    fn masks_keep_the_mean_and_differ_from_each_other() {
        let device = ComputeDevice::cpu().tensors;
        let ones = tensor::flat(vec![1.0; 10_000], &device);
        let dropout = Dropout::train(0.25, 1, 3);
        let (a, b) = (dropout.apply(ones.clone()), dropout.apply(ones.clone()));
        let again = Dropout::train(0.25, 1, 3).apply(ones);
        let read = |x| tensor::read_f32(x).unwrap_or_default();
        let (a, b, again) = (read(a), read(b), read(again));
        assert_eq!(a, again);
        assert_ne!(a, b);
        let mean = a.iter().map(|x| f64::from(*x)).sum::<f64>() / a.len() as f64;
        // 10,000 draws with p = 1/4: the mean's standard error is 0.6 %.
        assert!((mean - 1.0).abs() < 0.03, "{mean}");
    }
}
