//! Lion: the sign of a momentum that looks ahead (Chen et al., arXiv:2302.06675, algorithm 2).
//!
//! `c = beta1 m + (1 - beta1) g`, `w <- (1 - lr weight_decay) w - lr sign(c)`, `m <- beta2 m + (1 - beta2) g`. Every
//! step has the length of the learning rate, so the paper (section 5) advises a rate 3 to 10 times smaller than AdamW's
//! and a weight decay larger by as much. Where `c` is zero, only decay moves the weight. Decay and error feedback are
//! `altgrad-optimizer-kit`'s.

use altgrad_optimizer_kit::{
    Decay, ErrorFeedback, adam, buffers,
    one_state::{self, Sign},
};
use altgrad_plugin_api::{
    Config, Descriptor, Grid, Optimizer, OptionSpec, ParamInfo, PluginError, Scope, StateSpec, Step,
};

#[cfg(test)]
mod tests;

/// The optimizer.
#[derive(Debug)]
pub struct Lion {
    beta1: f64,
    beta2: f64,
    decay: Decay,
    feedback: ErrorFeedback,
}

impl Optimizer for Lion {
    const DESCRIPTOR: Descriptor = Descriptor::optimizer(
        "lion",
        env!("CARGO_PKG_VERSION"),
        "The sign of momentum, one state",
    )
    .options(&[
        OptionSpec::float("beta1", 0.9)
            .range(0.0, 1.0)
            .help("Share of the momentum in a step's direction, the gradient has the rest; below 1"),
        OptionSpec::float("beta2", 0.99).range(0.0, 1.0).help("Memory of the momentum, a step; below 1"),
        Decay::rate(0.1),
        Decay::DECAY_1D,
        ErrorFeedback::OPTION,
    ]);

    fn new(config: &Config) -> Result<Self, PluginError> {
        Ok(Self {
            beta1: adam::memory(config, "beta1")?,
            beta2: adam::memory(config, "beta2")?,
            decay: Decay::new(config)?,
            feedback: ErrorFeedback::new(config)?,
        })
    }

    fn states(&self, param: &ParamInfo<'_>) -> Vec<StateSpec> {
        self.feedback.states(param, vec![StateSpec::zeros("exp_avg")])
    }

    fn scope(&self, _: &ParamInfo<'_>) -> Scope {
        Scope::ELEMENTS
    }

    fn rule(&self, param: &ParamInfo<'_>, _: Option<Grid<'_>>) -> Result<String, PluginError> {
        Ok(self.feedback.rule(param, "Lion"))
    }

    fn step(&self, mut step: Step<'_>) -> Result<(), PluginError> {
        self.feedback.apply(&mut step);
        let rule = Sign {
            lr: step.scalars.lr as f32,
            keep: self.decay.keep(&step.info, step.scalars.lr),
            direction: [self.beta1 as f32, (1.0 - self.beta1) as f32],
            memory: [self.beta2 as f32, (1.0 - self.beta2) as f32],
        };
        let (param, grad, [momentum]) = buffers::checked(step)?;
        one_state::update(&rule, param, grad, momentum);
        Ok(())
    }
}

altgrad_plugin_api::export_plugin!(optimizer Lion);
