//! Madam: multiplicative steps of normalised gradients, for logarithmic grids (Bernstein et al., arXiv:2006.14560, algorithm 1; Zhao et al.,
//! LNS-Madam, arXiv:2106.13914, section 4).
//!
//! `v <- beta v + (1 - beta) g^2`, `r = clamp(g / sqrt(v / (1 - beta^t)), +-gradient_bound)`; matrices: `w <- w b^(-lr sign(w) r)`, held to
//! `+-bound`. The base `b` is e in the first paper and 2 in the second: there `lr` is in binades, so that a logarithmic grid of `n` values a binade takes
//! steps of `n lr` ULP wherever the weight is. No such step changes a sign or leaves zero. Parameters of rank below 2 begin at zero or one and step
//! additively, `w <- w - lr r`, unless `vectors = "multiplicative"`. Decay and error feedback are `altgrad-optimizer-kit`'s.

use altgrad_optimizer_kit::{Decay, ErrorFeedback, adam, buffers};
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
    /// Whether the bound is in multiples of the root mean square of the first weights.
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
        let rule = Rule {
            step: Normalised {
                beta: self.beta as f32,
                mix: (1.0 - self.beta) as f32,
                correction: (1.0 - self.beta.powf(scalars.update as f64)) as f32,
                bound: self.gradient_bound,
                whole: self.whole_steps,
            },
            keep: self.decay.keep(&info, scalars.lr),
            lr: (scalars.lr * if self.multiplies(&info) { self.ln_base } else { 1.0 }) as f32,
        };
        if self.measures(&info) {
            let (param, grad, [squares, bounds]) = buffers::checked(step)?;
            if scalars.update == 1 {
                bounds.fill((self.weight_bound * root_mean_square(param)) as f32);
            }
            let bound = bounds.first().copied().unwrap_or_default();
            rule.multiply(param, grad, squares, bound);
            return Ok(());
        }
        let (param, grad, [squares]) = buffers::checked(step)?;
        if self.multiplies(&info) {
            let bound = if self.weight_bound == 0.0 { f32::INFINITY } else { self.weight_bound as f32 };
            rule.multiply(param, grad, squares, bound);
        } else {
            rule.add(param, grad, squares);
        }
        Ok(())
    }
}

impl Madam {
    fn multiplies(&self, param: &ParamInfo<'_>) -> bool {
        self.multiplicative_vectors || param.rank() >= 2
    }

    /// Whether a parameter's bound comes from its first weights.
    fn measures(&self, param: &ParamInfo<'_>) -> bool {
        self.relative && self.weight_bound != 0.0 && self.multiplies(param)
    }
}

/// `w` within `+-bound`; a NaN stays one, and a bound that is NaN, of weights that are, holds nothing.
#[inline(always)]
fn held(w: f32, bound: f32) -> f32 {
    if w > bound {
        bound
    } else if w < -bound {
        -bound
    } else {
        w
    }
}

fn root_mean_square(x: &[f32]) -> f64 {
    let squares: f64 = x.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    (squares / x.len().max(1) as f64).sqrt()
}

/// A gradient over the root of its mean square.
#[derive(Debug, Clone, Copy)]
struct Normalised {
    beta: f32,
    mix: f32,
    correction: f32,
    bound: f32,
    whole: bool,
}

impl Normalised {
    #[inline(always)]
    fn step(self, g: f32, square: &mut f32) -> f32 {
        *square = self.beta * *square + self.mix * g * g;
        // Where every gradient was zero, there is nothing to follow.
        let normed = if *square == 0.0 { 0.0 } else { g / (*square / self.correction).sqrt() };
        let normed = normed.clamp(-self.bound, self.bound);
        if self.whole { normed.round_ties_even() } else { normed }
    }
}

/// The numbers of one update.
#[derive(Debug, Clone, Copy)]
struct Rule {
    step: Normalised,
    keep: f32,
    /// In units of the natural logarithm where steps are factors.
    lr: f32,
}

impl Rule {
    fn multiply(self, param: &mut [f32], grad: &[f32], squares: &mut [f32], bound: f32) {
        for ((w, &g), square) in param.iter_mut().zip(grad).zip(squares) {
            let step = self.lr * self.step.step(g, square);
            *w = held(self.keep * *w * (-step * w.signum()).exp(), bound);
        }
    }

    fn add(self, param: &mut [f32], grad: &[f32], squares: &mut [f32]) {
        for ((w, &g), square) in param.iter_mut().zip(grad).zip(squares) {
            *w = self.keep * *w - self.lr * self.step.step(g, square);
        }
    }
}

altgrad_plugin_api::export_plugin!(optimizer Madam);
