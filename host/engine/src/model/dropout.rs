//! Dropout masks from their own random stream. GPUs draw the same numbers by a kernel.

use std::cell::Cell;

use altgrad_base::random::{self, MASK_BITS, Stream};
use burn::tensor::{Shape, Tensor, TensorData};
use rand::Rng;

#[cfg(feature = "gpu")]
use crate::fused_ops::{dropout_kernel::DropoutMask, is_available};

/// The dropout of one forward pass.
#[derive(Debug)]
pub struct Dropout {
    probability: f32,
    seed: u64,
    /// The step's first micro-batch, and the number of this one within the step.
    micro_batch: (u64, u32),
    /// The number of the next mask.
    next: Cell<u32>,
}

impl Dropout {
    /// No dropout: evaluation, sampling, and training without it.
    #[must_use]
    pub fn off() -> Self {
        Self::train(0.0, 0, (0, 0))
    }

    /// Dropout of a training micro-batch: the number of the step's first one, and its number within the step.
    /// `probability` in 0..1.
    #[must_use]
    pub fn train(probability: f32, seed: u64, micro_batch: (u64, u32)) -> Self {
        Self { probability, seed, micro_batch, next: Cell::new(0) }
    }

    /// Zeroes elements with the given probability and scales the rest by 1/(1-p).
    #[must_use]
    pub fn apply<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        match self.mask(x.shape(), &x) {
            Some(mask) => x * mask,
            None => x,
        }
    }

    /// A mask that [`Self::apply`] would multiply with, on the device of a tensor; `None` without dropout.
    #[must_use]
    pub fn mask<const D: usize, const E: usize>(
        &self,
        shape: Shape,
        beside: &Tensor<E>,
    ) -> Option<Tensor<D>> {
        if self.probability == 0.0 {
            return None;
        }
        let number = self.next.replace(self.next.get() + 1);
        // 32 random bits per element; the threshold is exact to 2^-32.
        let threshold = (f64::from(self.probability) * 2f64.powi(32)) as u32;
        let keep = 1.0 / (1.0 - self.probability);
        let device = beside.device();
        let (first, index) = self.micro_batch;
        #[cfg(feature = "gpu")]
        if !is_available(&device) {
            let mask = DropoutMask { shape, seed: self.seed, first, index, number, threshold, keep };
            return Some(mask.draw(beside));
        }
        let counter = ((first + u64::from(index)) << MASK_BITS) + u64::from(number);
        let mut generator = random::at(self.seed, Stream::Dropout, counter);
        let draw = |_| if generator.next_u32() < threshold { 0.0 } else { keep };
        let mask: Vec<f32> = (0..shape.num_elements()).map(draw).collect();
        Some(Tensor::from_data(TensorData::new(mask, shape), &device))
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
        let dropout = Dropout::train(0.25, 1, (2, 1));
        let (a, b) = (dropout.apply(ones.clone()), dropout.apply(ones.clone()));
        let again = Dropout::train(0.25, 1, (3, 0)).apply(ones);
        let read = |x| tensor::read_f32(x).unwrap_or_default();
        let (a, b, again) = (read(a), read(b), read(again));
        assert_eq!(a, again);
        assert_ne!(a, b);
        let mean = a.iter().map(|x| f64::from(*x)).sum::<f64>() / a.len() as f64;
        // 10,000 draws with p = 1/4: the mean's standard error is 0.6 %.
        assert!((mean - 1.0).abs() < 0.03, "{mean}");
    }
}
