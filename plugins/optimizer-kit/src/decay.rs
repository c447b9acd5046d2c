//! Decoupled weight decay (Loshchilov & Hutter, arXiv:1711.05101): the same factor in all optimizers.

use altgrad_plugin_api::{Config, OptionSpec, ParamInfo, PluginError};

/// The rate of weight decay, and the parameters it applies to.
#[derive(Debug, Clone, Copy)]
pub struct Decay {
    rate: f64,
    all: bool,
}

impl Decay {
    /// The option for the rate, with its default.
    #[must_use]
    pub const fn rate(default: f64) -> OptionSpec {
        OptionSpec::float("weight_decay", default)
            .range(0.0, f64::MAX)
            .help("Share of a weight lost a step, times the learning rate")
    }

    /// The option for the parameters that decay.
    pub const DECAY_1D: OptionSpec = OptionSpec::bool("decay_1d", false)
        .help("Also decay parameters of rank below 2: biases and normalisation gains");

    /// Reads both options.
    ///
    /// # Errors
    /// The options are not declared.
    pub fn new(config: &Config) -> Result<Self, PluginError> {
        Ok(Self { rate: config.float("weight_decay")?, all: config.bool("decay_1d")? })
    }

    /// The rate of a parameter: 0 where no decay is due.
    #[must_use]
    pub fn of(&self, param: &ParamInfo<'_>) -> f64 {
        if self.all || param.rank() >= 2 { self.rate } else { 0.0 }
    }

    /// The factor of decay of this parameter: `1 - lr * weight_decay`, or 1 without decay.
    #[must_use]
    pub fn keep(&self, param: &ParamInfo<'_>, lr: f64) -> f32 {
        (1.0 - lr * self.of(param)) as f32
    }
}
