//! AdamW: Adam with decoupled weight decay (Loshchilov & Hutter, arXiv:1711.05101).
//!
//! The order of operations is that of PyTorch's `torch.optim.AdamW`, decay first; scalars are computed in f64
//! and rounded to f32 once. Refuses beta = 1, where moments never forget and bias correction divides by zero.
//! Clipping, accumulation and the learning-rate schedule belong to the host.

use altgrad_plugin_api::{
    Config, Descriptor, Optimizer, OptionSpec, ParamInfo, PluginError, StateSpec, Step, StepScalars,
};

#[cfg(test)]
mod tests;

/// The hyper-parameters; all that changes is in the host's state buffers.
#[derive(Debug, Clone, Copy)]
pub struct AdamW {
    beta1: f64,
    beta2: f64,
    eps: f64,
    weight_decay: f64,
    decay_1d: bool,
}

/// Everything of one update that is the same for all elements of a parameter.
#[derive(Debug, Clone, Copy)]
struct Factors {
    /// `1 - lr * weight_decay`.
    keep: f32,
    /// `1 - beta1`.
    mix1: f32,
    beta2: f32,
    /// `1 - beta2`.
    mix2: f32,
    /// `sqrt(1 - beta2^t)`.
    correction2_sqrt: f32,
    eps: f32,
    /// `lr / (1 - beta1^t)`.
    step_size: f32,
}

impl AdamW {
    fn factors(&self, param: &ParamInfo<'_>, scalars: StepScalars) -> Factors {
        let decays = self.decay_1d || param.rank() >= 2;
        let decay = if decays { self.weight_decay } else { 0.0 };
        let t = scalars.update as f64;
        Factors {
            keep: (1.0 - scalars.lr * decay) as f32,
            mix1: (1.0 - self.beta1) as f32,
            beta2: self.beta2 as f32,
            mix2: (1.0 - self.beta2) as f32,
            correction2_sqrt: (1.0 - self.beta2.powf(t)).sqrt() as f32,
            eps: self.eps as f32,
            step_size: (scalars.lr / (1.0 - self.beta1.powf(t))) as f32,
        }
    }
}

impl Optimizer for AdamW {
    fn descriptor() -> Descriptor {
        Descriptor::optimizer("adamw", env!("CARGO_PKG_VERSION"), "Adam with decoupled weight decay")
            .option(
                OptionSpec::float("beta1", 0.9)
                    .range(0.0, 1.0)
                    .help("Memory of the gradient's mean, a step; below 1"),
            )
            .option(OptionSpec::float("beta2", 0.95).range(0.0, 1.0).help(
                "Memory of the gradient's mean square, a step; below 1. 0.95 as for GPT models, not PyTorch's 0.999",
            ))
            .option(
                OptionSpec::float("eps", 1e-8)
                    .range(0.0, 1.0)
                    .help("Added to the root of the mean square, in gradient units; keeps tiny gradients from full steps"),
            )
            .option(
                OptionSpec::float("weight_decay", 0.1)
                    .range(0.0, f64::MAX)
                    .help("Share of a weight lost a step, times the learning rate"),
            )
            .option(
                OptionSpec::bool("decay_1d", false)
                    .help("Also decay parameters of rank below 2: biases and normalisation gains"),
            )
    }

    fn new(config: &Config) -> Result<Self, PluginError> {
        let beta = |name: &str| {
            let value = config.float(name)?;
            if value < 1.0 {
                return Ok(value);
            }
            Err(PluginError::config(format!("`{name}` must be below 1, is {value}"))
                .with_hint(format!("`{name}` = 1 never forgets; usual values are 0.9 to 0.999")))
        };
        Ok(Self {
            beta1: beta("beta1")?,
            beta2: beta("beta2")?,
            eps: config.float("eps")?,
            weight_decay: config.float("weight_decay")?,
            decay_1d: config.bool("decay_1d")?,
        })
    }

    fn states(&self, _: &ParamInfo<'_>) -> Vec<StateSpec> {
        vec![StateSpec::zeros("exp_avg"), StateSpec::zeros("exp_avg_sq")]
    }

    fn step(&self, step: Step<'_>) -> Result<(), PluginError> {
        let Step { info, param, grad, states, scalars, .. } = step;
        if scalars.update == 0 {
            return Err(PluginError::config("updates count from 1, this one is 0"));
        }
        let [exp_avg, exp_avg_sq] = states else {
            return Err(PluginError::shape(format!("`{}` needs 2 states, has {}", info.name, states.len())));
        };
        let lens = [grad.len(), exp_avg.len(), exp_avg_sq.len()];
        if lens != [param.len(); 3] {
            let message =
                format!("`{}` has {} elements, gradient and states {lens:?}", info.name, param.len());
            return Err(PluginError::shape(message));
        }
        update(self.factors(&info, scalars), param, grad, exp_avg, exp_avg_sq);
        Ok(())
    }
}

/// One pass over a parameter. Shapes: all `[n]` f32. Gradients that are not finite spread into the states.
fn update(factors: Factors, param: &mut [f32], grad: &[f32], exp_avg: &mut [f32], exp_avg_sq: &mut [f32]) {
    let Factors { keep, mix1, beta2, mix2, correction2_sqrt, eps, step_size } = factors;
    for (((w, &g), m), v) in param.iter_mut().zip(grad).zip(exp_avg).zip(exp_avg_sq) {
        *m += mix1 * (g - *m); // = beta1 m + (1 - beta1) g, as PyTorch's lerp_ rounds it.
        *v = beta2 * *v + mix2 * g * g;
        let denominator = v.sqrt() / correction2_sqrt + eps;
        *w = keep * *w - step_size * *m / denominator;
    }
}

altgrad_plugin_api::export_plugin!(optimizer AdamW);
