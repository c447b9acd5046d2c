//! Adam's options, and the factors of one update that follow from them.
//!
//! The order of operations is that of PyTorch's `torch.optim.AdamW` for `beta1 > 0.5`; factors are computed in f64 and
//! rounded to f32 once. Refuses beta = 1, where moments never forget and bias correction divides by zero.

use altgrad_plugin_api::{Config, OptionSpec, ParamInfo, PluginError, StateSpec, StepScalars};

use crate::{Decay, Moments, rule::PlainStep};

/// The value of an option for the share of a mean that a step keeps.
///
/// # Errors
/// The value is 1: a mean with this factor never changes.
pub fn memory(config: &Config, name: &str) -> Result<f64, PluginError> {
    let value = config.float(name)?;
    if value < 1.0 {
        return Ok(value);
    }
    Err(PluginError::config(format!("`{name}` must be below 1, found {value}"))
        .with_hint(format!("`{name}` = 1 never forgets; usual values are 0.9 to 0.999")))
}

/// The hyper-parameters; all that changes is in the host's state buffers.
#[derive(Debug, Clone, Copy)]
pub struct Adam {
    beta1: f64,
    beta2: f64,
    eps: f64,
    decay: Decay,
}

impl Adam {
    /// The options, in the order to show them; each alone is below. `eps` is the default of [`Self::eps`].
    #[must_use]
    pub const fn options(eps: f64) -> [OptionSpec; 5] {
        [Self::BETA1, Self::BETA2, Self::eps(eps), Self::WEIGHT_DECAY, Self::DECAY_1D]
    }

    /// The memory of the first moment.
    pub const BETA1: OptionSpec = OptionSpec::float("beta1", 0.9)
        .range(0.0, 1.0)
        .help("Memory of the gradient's mean, a step; below 1");

    /// The memory of the second moment.
    pub const BETA2: OptionSpec = OptionSpec::float("beta2", 0.95).range(0.0, 1.0).help(
        "Memory of the gradient's mean square, a step; below 1. 0.95 as for GPT models, not PyTorch's 0.999",
    );

    /// The usual default of [`Self::eps`], for gradients in weight units.
    pub const EPS: f64 = 1e-8;

    /// The least eps.
    pub const LEAST_EPS: f64 = 1e-30;

    /// The term that keeps the denominator above zero, in f32: with 0, an element without a gradient so far would
    /// become 0/0. `default` is in units of the gradient that goes into the moments.
    #[must_use]
    pub const fn eps(default: f64) -> OptionSpec {
        OptionSpec::float("eps", default).range(Self::LEAST_EPS, 1.0).help(
            "Added to the root of the mean square, in gradient units; keeps tiny gradients from full steps",
        )
    }

    /// Decoupled weight decay.
    pub const WEIGHT_DECAY: OptionSpec = Decay::rate(0.1);

    /// The option that selects the parameters with decay.
    pub const DECAY_1D: OptionSpec = Decay::DECAY_1D;

    /// Reads the options.
    ///
    /// # Errors
    /// A beta of 1.
    pub fn new(config: &Config) -> Result<Self, PluginError> {
        Ok(Self {
            beta1: memory(config, "beta1")?,
            beta2: memory(config, "beta2")?,
            eps: config.float("eps")?,
            decay: Decay::new(config)?,
        })
    }

    /// The same with another `eps`.
    #[must_use]
    pub const fn with_eps(self, eps: f64) -> Self {
        Self { eps, ..self }
    }

    /// The two moments.
    #[must_use]
    pub fn states() -> Vec<StateSpec> {
        vec![StateSpec::zeros("exp_avg"), StateSpec::zeros("exp_avg_sq")]
    }

    /// The factor of decay of this parameter: `1 - lr * weight_decay`, or 1 without decay.
    #[must_use]
    pub fn keep(&self, param: &ParamInfo<'_>, lr: f64) -> f32 {
        self.decay.keep(param, lr)
    }

    /// The moments' factors in update `update`, from 1, with steps of length `lr` in any unit.
    #[must_use]
    pub fn moments(&self, lr: f64, update: u64) -> Moments {
        let t = update as f64;
        Moments {
            mix1: (1.0 - self.beta1) as f32,
            beta2: self.beta2 as f32,
            mix2: (1.0 - self.beta2) as f32,
            correction2_sqrt: (1.0 - self.beta2.powf(t)).sqrt() as f32,
            eps: self.eps as f32,
            step_size: (lr / (1.0 - self.beta1.powf(t))) as f32,
        }
    }

    /// Plain AdamW.
    #[must_use]
    pub fn plain(&self, param: &ParamInfo<'_>, scalars: StepScalars) -> PlainStep {
        PlainStep { keep: self.keep(param, scalars.lr), moments: self.moments(scalars.lr, scalars.update) }
    }
}
