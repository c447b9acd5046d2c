//! StiffnessAdamW: AdamW whose steps, or gradients, are scaled with the spacing of the grid each weight is stored on.
//!
//! S is the spacing at a weight, in weight units; s the schedule's amount; m, v Adam's moments.
//! - `post`: `w <- w - s * lr * ulp_per_lr * S * m_hat / (sqrt(v_hat) + eps) - lr * wd * w`.
//! - `power`: AdamW's step times `s * (S / S_bar)^p`, S_bar the parameter's geometric mean. p = 0 is AdamW.
//! - `pre`: AdamW on `s * S * g`, with `pre_eps` for eps. Where S is constant and eps = 0 that is AdamW: an ablation.
//!
//! The option `unquantized` selects the update of a parameter without a grid. Refuses the values that AdamW refuses.

use altgrad_optimizer_kit::{
    Adam, Buffers, Geometry, device,
    grid::{NO_GRID, Unquantized},
    rule::{MeanSpacing, ScaledGradient, ScaledStep, Spacing},
    values::GridGeometry,
};
use altgrad_plugin_api::{
    Config, Descriptor, Grid, KernelOp, KernelTarget, KernelText, Launch, Optimizer, OptionSpec, ParamInfo,
    PluginError, Scales, Scope, StateSpec, Step, StepScalars, kernel::rules::UpdateRule, texts,
};

mod schedule;
#[cfg(test)]
mod tests;

use schedule::Schedule;

/// The use of the spacing.
#[derive(Debug, Clone, Copy)]
enum Placement {
    /// Steps count codes: this many a unit of learning rate.
    Post(f64),
    /// AdamW's steps times a power of the relative spacing.
    Power(f64),
    /// Before the moments, whose gradients are smaller by the spacing, and so is eps.
    Pre(Adam),
}

/// The optimizer.
#[derive(Debug)]
pub struct StiffnessAdamW {
    adam: Adam,
    placement: Placement,
    schedule: Schedule,
    unquantized: Unquantized,
}

impl StiffnessAdamW {
    /// One update on a grid.
    fn step_on<G: Geometry + Copy>(
        &self,
        geometry: G,
        scales: &Scales<'_>,
        step: Step<'_>,
    ) -> Result<(), PluginError> {
        let lr = step.scalars.lr;
        let amount = self.schedule.at(step.scalars.update);
        let keep = self.adam.keep(&step.info, lr);
        let spacing = |[scale, inverse]: [f32; 2]| Spacing { geometry, scale, unit: amount as f32 * inverse };
        let update = step.scalars.update;
        match self.placement {
            Placement::Post(ulp_per_lr) => {
                let moments = self.adam.moments(lr * ulp_per_lr, update);
                let rule = |pair| ScaledStep { keep, moments, factor: spacing(pair) };
                Buffers::of(step)?.update_blocks(scales, rule);
            }
            Placement::Power(p) => {
                let (moments, buffers) = (self.adam.moments(lr, update), Buffers::of(step)?);
                let mean = MeanSpacing::new(geometry, scales, buffers.param());
                let rule = |[scale, _]: [f32; 2]| {
                    let factor = mean.power(scale, p, amount);
                    ScaledStep { keep, moments, factor }
                };
                buffers.update_blocks(scales, rule);
            }
            Placement::Pre(adam) => {
                let moments = adam.moments(lr, update);
                let rule = |pair| ScaledGradient { keep, moments, factor: spacing(pair) };
                Buffers::of(step)?.update_blocks(scales, rule);
            }
        }
        Ok(())
    }
}

impl Optimizer for StiffnessAdamW {
    const DESCRIPTOR: Descriptor = Descriptor::optimizer(
        "stiffness-adamw",
        env!("CARGO_PKG_VERSION"),
        "AdamW scaled with the spacing of each weight's grid",
    )
    .options(&[
        Adam::BETA1,
        Adam::BETA2,
        Adam::eps(Adam::EPS),
        Adam::WEIGHT_DECAY,
        Adam::DECAY_1D,
        OptionSpec::text("placement", "post").choices(texts!["post", "power", "pre"]).help(
            "post: steps count codes; power: AdamW's step times (S / mean S)^power; pre: gradients times S, for ablations",
        ),
        OptionSpec::float("ulp_per_lr", 100.0).range(0.0, 1e12).help(
            "For `post`: a step is lr * ulp_per_lr codes (ULP), lr the schedule's at that step; 100 makes lr = 1e-3 steps of 0.1 ULP",
        ),
        OptionSpec::float("power", 1.0)
            .range(-4.0, 4.0)
            .help("Exponent of the relative spacing, for `power`; 0 is AdamW, 1 steps in proportion to spacing"),
        OptionSpec::float("pre_eps", 1e-16).range(Adam::LEAST_EPS, 1.0).help(
            "For `pre`: in place of eps on a grid, because gradients times the spacing are smaller than gradients",
        ),
        Schedule::SHAPE,
        Schedule::UPDATES,
        Schedule::END,
        Unquantized::OPTION,
    ]);

    fn new(config: &Config) -> Result<Self, PluginError> {
        let adam = Adam::new(config)?;
        let placement = match config.text("placement")? {
            "power" => Placement::Power(config.float("power")?),
            "pre" => Placement::Pre(adam.with_eps(config.float("pre_eps")?)),
            _ => Placement::Post(config.float("ulp_per_lr")?),
        };
        Ok(Self { adam, placement, schedule: Schedule::new(config)?, unquantized: Unquantized::new(config)? })
    }

    fn states(&self, _: &ParamInfo<'_>) -> Vec<StateSpec> {
        Adam::states()
    }

    fn scope(&self, _: &ParamInfo<'_>) -> Scope {
        match self.placement {
            // The mean spacing is the whole parameter's.
            Placement::Power(_) => Scope::WHOLE,
            Placement::Post(_) | Placement::Pre(_) => Scope::ELEMENTS,
        }
    }

    fn rule(&self, _: &ParamInfo<'_>, grid: Option<Grid<'_>>) -> Result<String, PluginError> {
        Ok(match (self.unquantized.grid(grid), self.placement) {
            (None, _) => NO_GRID.into(),
            (Some(_), Placement::Post(_)) => "post: steps in ULP".into(),
            (Some(_), Placement::Power(p)) => format!("power {p} of the relative spacing"),
            (Some(_), Placement::Pre(_)) => "pre: gradients times the spacing".into(),
        })
    }

    fn step(&self, step: Step<'_>) -> Result<(), PluginError> {
        let Some(grid) = self.unquantized.grid(step.grid) else {
            let rule = self.adam.plain(&step.info, step.scalars);
            Buffers::of(step)?.update(&rule);
            return Ok(());
        };
        match GridGeometry::new(grid.spec)? {
            GridGeometry::Codes(codes) => self.step_on(codes, &grid.scales, step),
            GridGeometry::Values(values) => self.step_on(&values, &grid.scales, step),
        }
    }

    fn kernel(&self, op: KernelOp, target: &KernelTarget) -> Result<Option<KernelText>, PluginError> {
        device::kernel(op, target)
    }

    fn launches(
        &self,
        param: &ParamInfo<'_>,
        scalars: StepScalars,
        grid: Option<Grid<'_>>,
    ) -> Result<Option<Vec<Launch>>, PluginError> {
        let Some(grid) = self.unquantized.grid(grid) else {
            return Ok(Some(vec![self.adam.plain(param, scalars).launch()]));
        };
        let (amount, keep) = (self.schedule.at(scalars.update), self.adam.keep(param, scalars.lr));
        let (rule, adam, lr) = match self.placement {
            Placement::Post(ulp_per_lr) => (UpdateRule::Steps, self.adam, scalars.lr * ulp_per_lr),
            Placement::Pre(adam) => (UpdateRule::Gradients, adam, scalars.lr),
            Placement::Power(p) => {
                let moments = self.adam.moments(scalars.lr, scalars.update);
                return device::power(param, grid, (p, amount), keep, &moments);
            }
        };
        let moments = adam.moments(lr, scalars.update);
        let step = |description| vec![device::step(rule, keep, &moments, description)];
        Ok(device::codes(grid, amount as f32)?.map(step))
    }
}

altgrad_plugin_api::export_plugin!(optimizer StiffnessAdamW);
