//! SOAP: Adam in the eigenbasis of Shampoo's preconditioner (Vyas et al., arXiv:2409.11321, algorithms 3 and 4).
//!
//! For a gradient G, `L <- b L + (1 - b) G G^T` and `R <- b R + (1 - b) G^T G` (`b` is `shampoo_beta`) have
//! eigenvectors `Q_L` and `Q_R`. Adam's first moment is kept in the parameter's own basis, the second one in the
//! eigenbasis: `w <- keep w - lr Q_L (M' / (sqrt(V) + eps)) Q_R^T`. Bases are found by an eigendecomposition in the
//! first update, and by a step of orthogonal iteration every `update_interval` updates, before which directions and
//! second moments are sorted by eigenvalue as in the authors' code. Axes longer than `max_extent` keep their own basis.
//! What is no matrix, and embeddings and the head, is updated by AdamW. The host's services compute the updates of
//! matrices, on the device of the parameter.

use altgrad_optimizer_kit::{Adam, Buffers, Decay, ErrorFeedback, adam, device};
use altgrad_plugin_api::{
    Config, Descriptor, Grid, KernelOp, KernelTarget, KernelText, Launch, MapOp, Matrix, Optimizer,
    OptionSpec, ParamInfo, PluginError, Scope, ServiceParam, ServiceStep, StateSpec, Step, StepScalars,
    ZipOp, texts,
};

mod basis;
#[cfg(test)]
mod tests;

use basis::FactorAxis;

/// The optimizer.
#[derive(Debug)]
pub struct Soap {
    betas: [f64; 2],
    eps: f64,
    shampoo_beta: f64,
    damping: f64,
    update_interval: u64,
    reset_interval: u64,
    max_extent: u64,
    exclude: Vec<String>,
    adam: Adam,
    decay: Decay,
    feedback: ErrorFeedback,
}

impl Optimizer for Soap {
    const DESCRIPTOR: Descriptor = Descriptor::optimizer(
        "soap",
        env!("CARGO_PKG_VERSION"),
        "Adam in the eigenbasis of Shampoo's preconditioner, AdamW for the rest",
    )
    .options(&[
        Adam::BETA1,
        Adam::BETA2,
        Adam::eps(Adam::EPS),
        OptionSpec::float("shampoo_beta", 0.95)
            .range(0.0, 1.0)
            .help("Memory of the Kronecker factors, a step; below 1"),
        OptionSpec::float("damping", 1e-12).range(0.0, 1.0).help(
            "Added to a factor's diagonal before a step of orthogonal iteration, in its mean eigenvalues",
        ),
        OptionSpec::integer("update_interval", 10)
            .range(1.0, 1e9)
            .help("Updates between two steps of orthogonal iteration"),
        OptionSpec::integer("reset_interval", 0)
            .range(0.0, 1e9)
            .help("Updates between two eigendecompositions from scratch; 0: only in the first update"),
        OptionSpec::integer("max_extent", 512)
            .range(0.0, 2048.0)
            .help("Longest axis that has a factor; its two states have the square of the extent, time grows with the cube"),
        OptionSpec::text_list("exclude", texts!["wte.weight", "wpe.weight", "lm_head.weight"])
            .help("Parameters of rank 2 that AdamW updates: embeddings and the head"),
        Adam::WEIGHT_DECAY,
        Adam::DECAY_1D,
        ErrorFeedback::OPTION,
    ]);

    fn new(config: &Config) -> Result<Self, PluginError> {
        let count = |name: &str| Ok::<_, PluginError>(config.integer(name)?.unsigned_abs());
        Ok(Self {
            betas: [adam::memory(config, "beta1")?, adam::memory(config, "beta2")?],
            eps: config.float("eps")?,
            shampoo_beta: adam::memory(config, "shampoo_beta")?,
            damping: config.float("damping")?,
            update_interval: count("update_interval")?,
            reset_interval: count("reset_interval")?,
            max_extent: count("max_extent")?,
            exclude: config.text_list("exclude")?.iter().map(ToString::to_string).collect(),
            adam: Adam::new(config)?,
            decay: Decay::new(config)?,
            feedback: ErrorFeedback::new(config)?,
        })
    }

    fn states(&self, param: &ParamInfo<'_>) -> Vec<StateSpec> {
        let mut states = Adam::states();
        for axis in self.axes(param) {
            states.extend(axis.states());
        }
        self.feedback.states(param, states)
    }

    fn scope(&self, param: &ParamInfo<'_>) -> Scope {
        if self.axes(param).is_empty() { Scope::ELEMENTS } else { Scope::SERVICES }
    }

    fn rule(&self, param: &ParamInfo<'_>, _: Option<Grid<'_>>) -> Result<String, PluginError> {
        let rule = match self.axes(param).as_slice() {
            [] => "AdamW",
            [_] => "SOAP on one axis",
            _ => "SOAP",
        };
        let fed = self.feedback.rule(param, rule);
        Ok(if fed.is_empty() { rule.into() } else { fed })
    }

    /// AdamW, for parameters without factors.
    fn step(&self, mut step: Step<'_>) -> Result<(), PluginError> {
        self.feedback.apply(&mut step);
        let rule = self.adam.plain(&step.info, step.scalars);
        Buffers::of(step)?.update(&rule);
        Ok(())
    }

    fn step_with_services(&self, step: ServiceStep<'_>) -> Result<(), PluginError> {
        let mut step = step.single()?;
        self.feedback.apply_with_services(&mut step)?;
        let ServiceParam { info, param, grad, states, scalars, .. } = step;
        let axes = self.axes(&info);
        let [mean, square, factors @ ..] = states.as_slice() else {
            return Err(PluginError::shape(format!("`{}` needs two moments", info.name)));
        };
        if factors.len() != 2 * axes.len() {
            let message =
                format!("`{}` needs {} states, has {}", info.name, 2 + 2 * axes.len(), states.len());
            return Err(PluginError::shape(message));
        }
        if scalars.update == 0 {
            return Err(PluginError::config("updates count from 1, this one is 0"));
        }
        let axes: Vec<_> = axes.iter().zip(factors.as_chunks::<2>().0).collect();
        let memory = self.shampoo_beta as f32;
        for (axis, [factor, basis]) in &axes {
            factor.assign(&factor.blend(memory, &axis.gram(&grad)?, (1.0 - self.shampoo_beta) as f32)?)?;
            if scalars.update == 1 {
                basis.assign(&basis::eigenvectors(factor)?)?;
            }
        }
        let direction = self.direction(&axes, [mean, square, &grad], scalars.update)?;
        let keep = self.decay.keep(&info, scalars.lr);
        param.assign(&param.blend(keep, &direction, -scalars.lr as f32)?)?;
        if let Some(damping) = self.refresh(scalars.update) {
            for (axis, [factor, basis]) in &axes {
                let [next, order] = basis::next(factor, basis, damping)?;
                basis.assign(&next)?;
                square.assign(&axis.reordered(square, &order)?)?;
            }
        }
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
        let known = self.axes(param).is_empty() && !self.feedback.is_due(param);
        Ok(known.then(|| vec![self.adam.plain(param, scalars).launch()]))
    }
}

impl Soap {
    /// The axes of a parameter that have a factor, rows first.
    fn axes(&self, param: &ParamInfo<'_>) -> Vec<FactorAxis> {
        let &[rows, columns] = param.shape.as_slice() else { return Vec::new() };
        let excluded = self.exclude.iter().any(|name| param.name.as_str() == name);
        if excluded || rows == 0 || columns == 0 {
            return Vec::new();
        }
        let axes = [FactorAxis::Rows(rows), FactorAxis::Columns(columns)];
        axes.into_iter().filter(|axis| (2..=self.max_extent).contains(&axis.extent())).collect()
    }

    /// How an update changes the bases for the next one: `None`, not at all; else as [`basis::next`] has it.
    fn refresh(&self, update: u64) -> Option<Option<f32>> {
        let due = |interval: u64| update > 1 && interval != 0 && update.is_multiple_of(interval);
        let iterates = due(self.update_interval).then_some(Some(self.damping as f32));
        if due(self.reset_interval) { Some(None) } else { iterates }
    }

    /// Adam's direction in the bases of the axes, in the parameter's own. The moments take in the gradient.
    fn direction<'a>(
        &self,
        axes: &[(&FactorAxis, &[Matrix<'a>; 2])],
        [mean, square, grad]: [&Matrix<'a>; 3],
        update: u64,
    ) -> Result<Matrix<'a>, PluginError> {
        let rotated = |x: &Matrix<'a>| {
            let turn =
                |x: Matrix<'a>, (axis, [_, basis]): &(&FactorAxis, &[Matrix<'a>; 2])| axis.rotated(&x, basis);
            axes.iter().try_fold(x.affine(1.0, 0.0)?, turn)
        };
        let [(beta1, rest1), (beta2, rest2)] = self.betas.map(|beta| (beta as f32, (1.0 - beta) as f32));
        mean.assign(&mean.blend(beta1, grad, rest1)?)?;
        let turned = rotated(grad)?;
        square.assign(&square.blend(beta2, &turned.zip(ZipOp::MUL, &turned)?, rest2)?)?;
        let [correction1, correction2] =
            self.betas.map(|beta| (1.0 / (1.0 - beta.powf(update as f64))) as f32);
        let root = square.affine(correction2, 0.0)?.map(MapOp::SQRT)?.affine(1.0, self.eps as f32)?;
        let direction = rotated(mean)?.affine(correction1, 0.0)?.zip(ZipOp::DIV, &root)?;
        axes.iter().try_fold(direction, |x, (axis, [_, basis])| axis.rotated_back(&x, basis))
    }
}

altgrad_plugin_api::export_plugin!(optimizer Soap);
