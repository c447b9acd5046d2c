//! Muon: momentum made nearly orthogonal, for matrices (Jordan et al., "Muon: An optimizer for hidden layers in neural
//! networks", 2024, kellerjordan.github.io/posts/muon).
//!
//! `m <- momentum m + (1 - momentum) g`; `u = momentum m + (1 - momentum) g` (Nesterov) or `u = m`; `U` is `u` made
//! orthogonal; `w <- (1 - lr weight_decay) w - lr s U`, where `scale` names the factor s. Everything else, parameters
//! of other rank than 2, embeddings and the head, is updated by AdamW at the rate `adam_lr lr`. AdamW, decay and error
//! feedback are `altgrad-optimizer-kit`'s; matrices are the host's, wherever they are.

use altgrad_optimizer_kit::{Adam, Buffers, Decay, ErrorFeedback, adam, device};
use altgrad_plugin_api::{
    Config, Descriptor, Grid, KernelOp, KernelTarget, KernelText, Launch, Optimizer, OptionSpec, ParamInfo,
    PluginError, Scope, ServiceParam, ServiceStep, StateSpec, Step, StepScalars, texts,
};

mod orthogonal;
#[cfg(test)]
mod tests;

use orthogonal::orthogonal;

/// AdamW's root mean square of a step, in learning rates (Liu et al., arXiv:2502.16982, section 2.2).
const RMS: f64 = 0.2;

/// The factor of a step.
#[derive(Debug, Clone, Copy)]
enum Scale {
    /// `0.2 sqrt(max(rows, columns))`: a step has the root mean square of AdamW's.
    Rms,
    /// `sqrt(max(1, rows / columns))`: the blog post's.
    Spectral,
    /// 1.
    None,
}

/// The optimizer.
#[derive(Debug)]
pub struct Muon {
    momentum: f64,
    nesterov: bool,
    steps: i64,
    scale: Scale,
    exclude: Vec<String>,
    adam_lr: f64,
    adam: Adam,
    decay: Decay,
    feedback: ErrorFeedback,
}

impl Optimizer for Muon {
    const DESCRIPTOR: Descriptor = Descriptor::optimizer(
        "muon",
        env!("CARGO_PKG_VERSION"),
        "Orthogonalized momentum for matrices, AdamW for the rest",
    )
    .options(&[
        OptionSpec::float("momentum", 0.95)
            .range(0.0, 1.0)
            .help("Memory of a matrix' gradient, a step; below 1"),
        OptionSpec::bool("nesterov", true)
            .help("Step along a mean of momentum and gradient, not along momentum alone"),
        OptionSpec::integer("newton_schulz_steps", 5)
            .range(1.0, 100.0)
            .help("Steps towards an orthogonal matrix; each costs three products of matrices"),
        OptionSpec::text("scale", "rms").choices(texts!["rms", "spectral", "none"]).help(
            "Factor of a step: `rms`, 0.2 sqrt(max(rows, columns)), as long as AdamW's; `spectral`, sqrt(max(1, rows/columns)); `none`, 1",
        ),
        OptionSpec::text_list("exclude", texts!["wte.weight", "wpe.weight", "lm_head.weight"])
            .help("Parameters of rank 2 that AdamW updates: embeddings and the head"),
        OptionSpec::float("adam_lr", 1.0)
            .range(0.0, f64::MAX)
            .help("AdamW's learning rate, in learning rates; 1 suits `scale = \"rms\"`"),
        Adam::BETA1,
        Adam::BETA2,
        Adam::eps(Adam::EPS),
        Adam::WEIGHT_DECAY,
        Adam::DECAY_1D,
        ErrorFeedback::OPTION,
    ]);

    fn new(config: &Config) -> Result<Self, PluginError> {
        Ok(Self {
            momentum: adam::memory(config, "momentum")?,
            nesterov: config.bool("nesterov")?,
            steps: config.integer("newton_schulz_steps")?,
            scale: match config.text("scale")? {
                "rms" => Scale::Rms,
                "spectral" => Scale::Spectral,
                _ => Scale::None,
            },
            exclude: config.text_list("exclude")?.iter().map(ToString::to_string).collect(),
            adam_lr: config.float("adam_lr")?,
            adam: Adam::new(config)?,
            decay: Decay::new(config)?,
            feedback: ErrorFeedback::new(config)?,
        })
    }

    fn states(&self, param: &ParamInfo<'_>) -> Vec<StateSpec> {
        let states = if self.is_matrix(param) { vec![StateSpec::zeros("momentum")] } else { Adam::states() };
        self.feedback.states(param, states)
    }

    fn scope(&self, param: &ParamInfo<'_>) -> Scope {
        if self.is_matrix(param) { Scope::SERVICES } else { Scope::ELEMENTS }
    }

    fn rule(&self, param: &ParamInfo<'_>, _: Option<Grid<'_>>) -> Result<String, PluginError> {
        let rule = if self.is_matrix(param) { "Muon" } else { "AdamW" };
        let fed = self.feedback.rule(param, rule);
        Ok(if fed.is_empty() { rule.into() } else { fed })
    }

    fn step_with_services(&self, step: ServiceStep<'_>) -> Result<(), PluginError> {
        let mut step = step.single()?;
        self.feedback.apply_with_services(&mut step)?;
        let ServiceParam { info, param, grad, states, scalars, .. } = step;
        let [momentum] = states.as_slice() else {
            let message = format!("`{}` needs 1 state, has {}", info.name, states.len());
            return Err(PluginError::shape(message));
        };
        let (memory, mix) = (self.momentum as f32, (1.0 - self.momentum) as f32);
        momentum.assign(&momentum.blend(memory, &grad, mix)?)?;
        let direction = if self.nesterov {
            orthogonal(&momentum.blend(memory, &grad, mix)?, self.steps)?
        } else {
            orthogonal(momentum, self.steps)?
        };
        let length = scalars.lr * self.scale.of(param.shape());
        param.assign(&param.blend(self.decay.keep(&info, scalars.lr), &direction, -length as f32)?)
    }

    /// AdamW, for parameters that Muon does not update.
    fn step(&self, mut step: Step<'_>) -> Result<(), PluginError> {
        self.feedback.apply(&mut step);
        let rule = self.adam.plain(&step.info, self.of_adam(step.scalars));
        Buffers::of(step)?.update(&rule);
        Ok(())
    }

    fn kernel(&self, op: KernelOp, target: &KernelTarget) -> Result<Option<KernelText>, PluginError> {
        device::kernel(op, target)
    }

    fn launches(
        &self,
        param: &ParamInfo<'_>,
        scalars: StepScalars,
        _: Option<Grid<'_>>,
    ) -> Result<Option<Vec<Launch>>, PluginError> {
        // The kernels support AdamW's two states only.
        let known = !self.is_matrix(param) && !self.feedback.is_due(param);
        Ok(known.then(|| vec![self.adam.plain(param, self.of_adam(scalars)).launch()]))
    }
}

impl Muon {
    /// True if Muon updates a parameter.
    fn is_matrix(&self, param: &ParamInfo<'_>) -> bool {
        param.rank() == 2 && !self.exclude.iter().any(|name| param.name.as_str() == name)
    }

    /// The scalars of AdamW's parameters.
    fn of_adam(&self, scalars: StepScalars) -> StepScalars {
        StepScalars { lr: scalars.lr * self.adam_lr, ..scalars }
    }
}

impl Scale {
    fn of(self, [rows, columns]: [u64; 2]) -> f64 {
        match self {
            Self::Rms => RMS * (rows.max(columns) as f64).sqrt(),
            Self::Spectral => (rows as f64 / columns.max(1) as f64).max(1.0).sqrt(),
            Self::None => 1.0,
        }
    }
}

altgrad_plugin_api::export_plugin!(optimizer Muon);
