//! Madam: multiplicative steps of normalised gradients, for logarithmic grids (Bernstein et al., arXiv:2006.14560,
//! algorithm 1; Zhao et al., LNS-Madam, arXiv:2106.13914, section 4).
//!
//! `v <- beta v + (1 - beta) g^2`, `r = clamp(g / sqrt(v / (1 - beta^t)), +-gradient_bound)`; matrices:
//! `w <- w b^(-lr sign(w) r)`, held to `+-bound`. The base `b` is e in the first paper and 2 in the second: there `lr`
//! is in binades, so that a logarithmic grid of `n` values a binade takes steps of `n lr` ULP wherever the weight is.
//! No such step changes a sign or leaves zero. Parameters of rank below 2 begin at zero or one and step additively,
//! `w <- w - lr r`, unless `vectors = "multiplicative"`. Decay and error feedback are `altgrad-optimizer-kit`'s.

use altgrad_optimizer_kit::{
    Decay, ErrorFeedback, adam, buffers,
    one_state::{self, Added, Multiplied, Normalized},
};
use altgrad_plugin_api::{
    Config, Descriptor, Grid, Optimizer, OptionSpec, ParamInfo, PluginError, Scope, StateSpec, Step, texts,
};

#[cfg(test)]
mod tests;

/// The optimizer.
#[derive(Debug)]
pub struct Madam {
    beta: f64,
    /// ln of the base.
    ln_base: f64,
    gradient_bound: f32,
    whole_steps: bool,
    weight_bound: f64,
    /// True if the bound is in multiples of the root mean square of the first weights.
    relative: bool,
    multiplicative_vectors: bool,
    decay: Decay,
    feedback: ErrorFeedback,
}

impl Optimizer for Madam {
    const DESCRIPTOR: Descriptor = Descriptor::optimizer(
        "madam",
        env!("CARGO_PKG_VERSION"),
        "Multiplicative steps of normalised gradients, for logarithmic grids",
    )
    .options(&[
        OptionSpec::float("beta", 0.999)
            .range(0.0, 1.0)
            .help("Memory of the gradient's mean square, a step; below 1"),
        OptionSpec::text("base", "2")
            .choices(texts!["2", "e"])
            .help("Base of the factor: 2 counts the learning rate in binades, e is the first paper's"),
        OptionSpec::float("gradient_bound", 10.0)
            .range(0.0, f64::MAX)
            .help("Largest normalised gradient, in root mean squares"),
        OptionSpec::bool("whole_steps", false)
            .help("Round normalised gradients to whole numbers, so that steps are whole multiples of the learning rate"),
        OptionSpec::float("weight_bound", 3.0)
            .range(0.0, f64::MAX)
            .help("Largest magnitude of a weight that steps multiplicatively; 0 is none"),
        OptionSpec::text("weight_bound_unit", "rms").choices(texts!["rms", "one"]).help(
            "Unit of weight_bound: `rms`, the root mean square of the parameter before the first update, which needs one more state; `one`, 1",
        ),
        OptionSpec::text("vectors", "additive")
            .choices(texts!["additive", "multiplicative"])
            .help("How parameters of rank below 2 step"),
        Decay::rate(0.0),
        Decay::DECAY_1D,
        ErrorFeedback::OPTION,
    ]);

    fn new(config: &Config) -> Result<Self, PluginError> {
        Ok(Self {
            beta: adam::memory(config, "beta")?,
            ln_base: if config.text("base")? == "2" { std::f64::consts::LN_2 } else { 1.0 },
            gradient_bound: config.float("gradient_bound")? as f32,
            whole_steps: config.bool("whole_steps")?,
            weight_bound: config.float("weight_bound")?,
            relative: config.text("weight_bound_unit")? == "rms",
            multiplicative_vectors: config.text("vectors")? == "multiplicative",
            decay: Decay::new(config)?,
            feedback: ErrorFeedback::new(config)?,
        })
    }

    fn states(&self, param: &ParamInfo<'_>) -> Vec<StateSpec> {
        let mut states = vec![StateSpec::zeros("exp_avg_sq")];
        if self.measures(param) {
            states.push(StateSpec::zeros("bound"));
        }
        self.feedback.states(param, states)
    }

    fn scope(&self, param: &ParamInfo<'_>) -> Scope {
        // The first update takes a mean over the parameter.
        if self.measures(param) { Scope::WHOLE } else { Scope::ELEMENTS }
    }

    fn rule(&self, param: &ParamInfo<'_>, _: Option<Grid<'_>>) -> Result<String, PluginError> {
        let rule = if self.multiplies(param) { "multiplicative" } else { "additive" };
        let fed = self.feedback.rule(param, rule);
        Ok(if fed.is_empty() { rule.into() } else { fed })
    }

    fn step(&self, mut step: Step<'_>) -> Result<(), PluginError> {
        self.feedback.apply(&mut step);
        let (info, scalars) = (step.info, step.scalars);
        let normalized = Normalized {
            beta: self.beta as f32,
            mix: (1.0 - self.beta) as f32,
            correction: (1.0 - self.beta.powf(scalars.update as f64)) as f32,
            bound: self.gradient_bound,
            whole: self.whole_steps,
        };
        let keep = self.decay.keep(&info, scalars.lr);
        if !self.multiplies(&info) {
            let (param, grad, [squares]) = buffers::checked(step)?;
            one_state::update(&Added { normalized, keep, lr: scalars.lr as f32 }, param, grad, squares);
            return Ok(());
        }
        let bound = if self.weight_bound == 0.0 { f32::INFINITY } else { self.weight_bound as f32 };
        let mut rule = Multiplied { normalized, keep, lr: (scalars.lr * self.ln_base) as f32, bound };
        if !self.measures(&info) {
            let (param, grad, [squares]) = buffers::checked(step)?;
            one_state::update(&rule, param, grad, squares);
            return Ok(());
        }
        let (param, grad, [squares, bounds]) = buffers::checked(step)?;
        if scalars.update == 1 {
            bounds.fill((self.weight_bound * root_mean_square(param)) as f32);
        }
        rule.bound = bounds.first().copied().unwrap_or_default();
        one_state::update(&rule, param, grad, squares);
        Ok(())
    }
}

impl Madam {
    fn multiplies(&self, param: &ParamInfo<'_>) -> bool {
        self.multiplicative_vectors || param.rank() >= 2
    }

    /// True if a parameter's bound comes from its first weights.
    fn measures(&self, param: &ParamInfo<'_>) -> bool {
        self.relative && self.weight_bound != 0.0 && self.multiplies(param)
    }
}

fn root_mean_square(x: &[f32]) -> f64 {
    let squares: f64 = x.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    (squares / x.len().max(1) as f64).sqrt()
}

altgrad_plugin_api::export_plugin!(optimizer Madam);
