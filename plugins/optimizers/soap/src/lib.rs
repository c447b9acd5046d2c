//! SOAP: Adam in the eigenbasis of Shampoo's preconditioner (Vyas et al., arXiv:2409.11321, algorithms 3 and 4).
//!
//! For a gradient G, `L <- b L + (1 - b) G G^T` and `R <- b R + (1 - b) G^T G` (`b` is `shampoo_beta`) have
//! eigenvectors `Q_L` and `Q_R`. Adam's first moment is kept in the parameter's own basis, the second one in the
//! eigenbasis: `w <- keep w - lr Q_L (M' / (sqrt(V) + eps)) Q_R^T`. Bases are found by an eigendecomposition in the
//! first update, and by a step of orthogonal iteration every `update_interval` updates, before which directions and
//! second moments are sorted by eigenvalue as in the authors' code. Axes longer than `max_extent` keep their own basis.
//! What is no matrix, and embeddings and the head, is updated by AdamW. All is computed in main memory, in f64, a
//! parameter on one thread; AdamW has kernels for devices. See also: the module `basis` for the factors, and `square`
//! for the linear algebra.

use altgrad_optimizer_kit::{Adam, Buffers, Decay, ErrorFeedback, adam, device};
use altgrad_plugin_api::{
    Config, Descriptor, Grid, KernelOp, KernelTarget, KernelText, Launch, Optimizer, OptionSpec, ParamInfo,
    PluginError, Scope, StateSpec, Step, StepScalars, texts,
};

mod basis;
mod square;
#[cfg(test)]
mod tests;

use basis::{FactorAxis, Refresh};
use square::Dense;

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
        if self.axes(param).is_empty() { Scope::ELEMENTS } else { Scope::WHOLE }
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

    fn step(&self, mut step: Step<'_>) -> Result<(), PluginError> {
        self.feedback.apply(&mut step);
        let axes = self.axes(&step.info);
        if axes.is_empty() {
            let rule = self.adam.plain(&step.info, step.scalars);
            Buffers::of(step)?.update(&rule);
            return Ok(());
        }
        self.precondition(step, &axes)
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
        let axes = [FactorAxis::rows(rows), FactorAxis::columns(columns)];
        axes.into_iter().filter(|axis| (2..=self.max_extent).contains(&(axis.extent as u64))).collect()
    }

    /// The change of the bases in an update.
    fn refresh(&self, update: u64) -> Refresh {
        let due = |interval: u64| interval != 0 && update.is_multiple_of(interval);
        if update == 1 {
            Refresh::First
        } else if due(self.reset_interval) {
            Refresh::Decompose
        } else if due(self.update_interval) {
            Refresh::Iterate { damping: self.damping }
        } else {
            Refresh::None
        }
    }

    /// An update of a matrix that has at least one factor.
    fn precondition(&self, step: Step<'_>, axes: &[FactorAxis]) -> Result<(), PluginError> {
        let (info, scalars) = (step.info, step.scalars);
        basis::check(&step, axes)?;
        let Step { param, grad, states, .. } = step;
        let [mean, square, factors @ ..] = states else {
            return Err(PluginError::shape("two moments are due"));
        };
        let [rows, columns] = [info.shape[0], info.shape[1]].map(|extent| extent as usize);
        let wide = |x: &[f32]| Dense::from_numbers(rows, columns, x.iter().map(|&x| f64::from(x)));

        let gradient = wide(grad);
        let (refresh, mut used) = (self.refresh(scalars.update), Vec::new());
        for (axis, states) in axes.iter().zip(factors.as_chunks_mut().0) {
            let [gram, basis] = states;
            used.push((axis, axis.updated(gram, basis, &gradient, self.shampoo_beta, refresh)?));
        }
        let rotated = |x: Dense| used.iter().fold(x, |x, (axis, used)| axis.rotated(&x, &used.basis));
        let back = |x: Dense| used.iter().fold(x, |x, (axis, used)| axis.rotated_back(&x, &used.basis));

        let [beta1, beta2] = self.betas;
        for (m, g) in mean.iter_mut().zip(&gradient.values) {
            *m = (beta1 * f64::from(*m) + (1.0 - beta1) * g) as f32;
        }
        let turned = rotated(gradient);
        for (v, g) in square.iter_mut().zip(&turned.values) {
            *v = (beta2 * f64::from(*v) + (1.0 - beta2) * g * g) as f32;
        }
        let [correction1, correction2] = self.betas.map(|beta| 1.0 - beta.powf(scalars.update as f64));
        let mut direction = rotated(wide(mean));
        for (x, &v) in direction.values.iter_mut().zip(square.iter()) {
            *x = *x / correction1 / ((f64::from(v) / correction2).sqrt() + self.eps);
        }
        let keep = f64::from(self.decay.keep(&info, scalars.lr));
        for (w, x) in param.iter_mut().zip(back(direction).values) {
            *w = (keep * f64::from(*w) - scalars.lr * x) as f32;
        }
        for (axis, used) in &used {
            if let Some(order) = &used.order {
                axis.reorder(square, order);
            }
        }
        Ok(())
    }
}

altgrad_plugin_api::export_plugin!(optimizer Soap);
