//! Parameter values: one flat tensor per parameter.
//!
//! Values are flat `[n]` for parameters of any rank, so that code for all parameters (gradients, clipping, the
//! optimizer, files) needs no rank in its types. The forward pass reshapes them without copying.

use altgrad_base::diagnostic::Diagnostic;
use altgrad_base::random::{self, Stream};
use burn::tensor::{Device, Tensor};
use rand::RngExt;
use rand_distr::StandardNormal;

use super::layout::{Init, Layout, ParamSpec};
use crate::tensor::{flat, read_f32};

/// The parameters of a model, in the layout's order.
#[derive(Debug)]
pub struct Params {
    /// The table.
    pub layout: Layout,
    /// `[n]` each, not tracked by autodiff.
    pub values: Vec<Tensor<1>>,
}

impl Params {
    /// Initial values: each parameter draws from its own place in the stream, so two runs with one seed start from the
    /// same weights with any formats.
    #[must_use]
    pub fn init(layout: Layout, seed: u64, device: &Device) -> Self {
        let values = layout
            .specs
            .iter()
            .enumerate()
            .map(|(index, spec)| flat(initial_values(spec, seed, index as u64), device))
            .collect();
        Self { layout, values }
    }

    /// The values, in the layout's order. Reads the device.
    ///
    /// # Errors
    /// The device failed.
    pub fn read(&self) -> Result<Vec<Vec<f32>>, Diagnostic> {
        self.values.iter().map(|value| read_f32(value.clone())).collect()
    }
}

/// The values that a seed draws for parameter number `index`.
#[must_use]
pub fn initial_values(spec: &ParamSpec, seed: u64, index: u64) -> Vec<f32> {
    match spec.init {
        Init::Ones => vec![1.0; spec.len()],
        Init::Zeros => vec![0.0; spec.len()],
        Init::Normal(deviation) => {
            let mut generator = random::at(seed, Stream::Init, index);
            (0..spec.len()).map(|_| (deviation * generator.sample::<f64, _>(StandardNormal)) as f32).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initial_weights_have_their_deviation() {
        let spec = |init| ParamSpec { name: "w".into(), shape: vec![200, 100], init, attention_heads: None };
        let values = initial_values(&spec(Init::Normal(0.02)), 1, 0);
        let variance =
            values.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>() / values.len() as f64;
        // 20,000 draws: the deviation's own standard error is 0.5 %.
        assert!((variance.sqrt() / 0.02 - 1.0).abs() < 0.02, "{}", variance.sqrt());
        assert_ne!(values, initial_values(&spec(Init::Normal(0.02)), 1, 1));
        assert!(initial_values(&spec(Init::Ones), 1, 0).iter().all(|value| *value == 1.0));
    }
}
