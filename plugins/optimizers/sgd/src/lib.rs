//! SGD: stochastic gradient descent with momentum, as PyTorch's `torch.optim.SGD` (Sutskever et al., ICML 2013).
//!
//! `v <- momentum v + (1 - dampening) g`, but `v = g` in the first update; `w <- w - lr v`, with Nesterov's momentum
//! `w <- w - lr (g + momentum v)`. Weight decay is decoupled by default, as in the other optimizers;
//! `decay = "coupled"` adds `weight_decay w` to the gradient, as PyTorch does. Refuses Nesterov's momentum without
//! momentum or with dampening, and dampening without momentum, where PyTorch ignores it. Error feedback is
//! `altgrad-optimizer-kit`'s.

use altgrad_optimizer_kit::{
    Decay, ErrorFeedback, adam, buffers,
    one_state::{self, Momentum},
};
use altgrad_plugin_api::{
    Config, Descriptor, Grid, Optimizer, OptionSpec, ParamInfo, PluginError, Scope, StateSpec, Step, texts,
};

#[cfg(test)]
mod tests;

/// The optimizer.
#[derive(Debug)]
pub struct Sgd {
    momentum: f64,
    dampening: f64,
    nesterov: bool,
    decay: Decay,
    coupled: bool,
    feedback: ErrorFeedback,
}

impl Optimizer for Sgd {
    const DESCRIPTOR: Descriptor = Descriptor::optimizer(
        "sgd",
        env!("CARGO_PKG_VERSION"),
        "Stochastic gradient descent with momentum",
    )
    .options(&[
        OptionSpec::float("momentum", 0.9)
            .range(0.0, 1.0)
            .help("Share of the last step that the next one keeps; below 1; 0 needs no state"),
        OptionSpec::float("dampening", 0.0)
            .range(0.0, 1.0)
            .help("Share of a gradient that momentum leaves out, after the first update; below 1; needs momentum"),
        OptionSpec::bool("nesterov", false)
            .help("Step along the gradient plus the momentum that follows; needs momentum and no dampening"),
        Decay::rate(0.0),
        Decay::DECAY_1D,
        OptionSpec::text("decay", "decoupled")
            .choices(texts!["decoupled", "coupled"])
            .help("`decoupled`: as AdamW; `coupled`: weight_decay times the weight is added to the gradient, as PyTorch"),
        ErrorFeedback::OPTION,
    ]);

    fn new(config: &Config) -> Result<Self, PluginError> {
        let sgd = Self {
            momentum: adam::memory(config, "momentum")?,
            dampening: adam::memory(config, "dampening")?,
            nesterov: config.bool("nesterov")?,
            decay: Decay::new(config)?,
            coupled: config.text("decay")? == "coupled",
            feedback: ErrorFeedback::new(config)?,
        };
        if sgd.nesterov && (sgd.momentum == 0.0 || sgd.dampening != 0.0) {
            return Err(PluginError::config("`nesterov` needs a `momentum` above 0 and a `dampening` of 0"));
        }
        if sgd.momentum == 0.0 && sgd.dampening != 0.0 {
            return Err(PluginError::config("`dampening` needs a `momentum` above 0"));
        }
        Ok(sgd)
    }

    fn states(&self, param: &ParamInfo<'_>) -> Vec<StateSpec> {
        let momentum = (self.momentum != 0.0).then(|| StateSpec::zeros("momentum"));
        self.feedback.states(param, momentum.into_iter().collect())
    }

    fn scope(&self, _: &ParamInfo<'_>) -> Scope {
        Scope::ELEMENTS
    }

    fn rule(&self, param: &ParamInfo<'_>, _: Option<Grid<'_>>) -> Result<String, PluginError> {
        Ok(self.feedback.rule(param, "SGD"))
    }

    fn step(&self, mut step: Step<'_>) -> Result<(), PluginError> {
        self.feedback.apply(&mut step);
        let decay = self.decay.of(&step.info);
        let rule = Momentum {
            lr: step.scalars.lr as f32,
            momentum: self.momentum as f32,
            // The first gradient is the momentum.
            mix: if step.scalars.update == 1 { 1.0 } else { (1.0 - self.dampening) as f32 },
            nesterov: self.nesterov,
            keep: if self.coupled { 1.0 } else { self.decay.keep(&step.info, step.scalars.lr) },
            coupled: if self.coupled { decay as f32 } else { 0.0 },
        };
        if self.momentum == 0.0 {
            let (param, grad, []) = buffers::checked(step)?;
            for (w, &g) in param.iter_mut().zip(grad) {
                *w = rule.keep * *w - rule.lr * (g + rule.coupled * *w);
            }
        } else {
            let (param, grad, [momentum]) = buffers::checked(step)?;
            one_state::update(&rule, param, grad, momentum);
        }
        Ok(())
    }
}

altgrad_plugin_api::export_plugin!(optimizer Sgd);
