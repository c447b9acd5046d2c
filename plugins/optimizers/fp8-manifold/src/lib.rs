//! FP8Manifold: Riemannian Adam on the grid a parameter is stored on, with the metric `1 / S^2` of its spacing S.
//!
//! Metrics in one dimension are flat, so this is plain Adam on the code coordinate `u = phi(w)`, whose gradient is
//! `S * g`: momentum needs no transport, and a step of d is a step of d codes wherever the weight is. Riemannian Adam:
//! Bécigneul & Ganea, arXiv:1810.00760. A coordinate at the largest code stays there and keeps no momentum outward.
//! Weight decay is that of AdamW, in weight units, before the step and after the gradient, whose S is that of the
//! undecayed weight.
//!
//! The option `unquantized` selects the update of a parameter without a grid: AdamW, with AdamW's eps, unless it names
//! a format. Refuses the values that AdamW refuses, and the `asinh` chart where the format is no minifloat.

use altgrad_optimizer_kit::{
    Adam, Buffers, Chart, Moments, device,
    grid::{NO_GRID, Unquantized},
    rule::{Linear, OnChart},
    smooth::Smooth,
    values::GridGeometry,
};
use altgrad_plugin_api::{
    Config, Descriptor, FormatSpec, Grid, KernelOp, KernelTarget, KernelText, Launch, Optimizer, OptionSpec,
    ParamInfo, PluginError, Scales, Scope, StateSpec, Step, StepScalars, grid::MinifloatGrid,
    kernel::rules::UpdateRule, texts,
};

#[cfg(test)]
mod tests;

/// The optimizer.
#[derive(Debug)]
pub struct Fp8Manifold {
    adam: Adam,
    /// Of parameters without a grid, whose gradients are in weight units.
    plain: Adam,
    /// Codes per step and unit of learning rate.
    ulp_per_lr: f64,
    /// First order instead of along the grid.
    linear: bool,
    /// The smooth chart instead of the codes themselves.
    asinh: bool,
    unquantized: Unquantized,
}

/// The asinh chart of a format.
fn smooth(spec: &FormatSpec) -> Result<Smooth, PluginError> {
    let chart = match spec {
        FormatSpec::Minifloat(minifloat) => Smooth::new(&MinifloatGrid::new(*minifloat)?),
        FormatSpec::Table(_) => None,
    };
    chart.ok_or_else(|| {
        PluginError::unsupported("the asinh chart needs a minifloat of up to 7 exponent bits")
            .with_hint("set `chart` to minifloat: it follows the values of any format")
    })
}

impl Fp8Manifold {
    /// One update on a chart.
    fn step_on<C: Chart + Copy>(
        &self,
        chart: C,
        scales: &Scales<'_>,
        step: Step<'_>,
    ) -> Result<(), PluginError> {
        let lr = step.scalars.lr;
        let keep = self.adam.keep(&step.info, lr);
        let moments = self.adam.moments(lr * self.ulp_per_lr, step.scalars.update);
        let buffers = Buffers::of(step)?;
        if self.linear {
            buffers.update_blocks(scales, on_chart(keep, moments, Linear(chart)));
        } else {
            buffers.update_blocks(scales, on_chart(keep, moments, chart));
        }
        Ok(())
    }
}

/// The rule on a chart, by the scale of a block and its inverse.
fn on_chart<C: Chart + Copy>(keep: f32, moments: Moments, chart: C) -> impl Fn([f32; 2]) -> OnChart<C> {
    move |[scale, inv_scale]| OnChart { keep, moments, chart, scale, inv_scale }
}

impl Optimizer for Fp8Manifold {
    const DESCRIPTOR: Descriptor = Descriptor::optimizer(
        "fp8-manifold",
        env!("CARGO_PKG_VERSION"),
        "Riemannian Adam on the grid of each weight: Adam that counts codes",
    )
    .options(&[
        Adam::BETA1,
        Adam::BETA2,
        // Gradients count per code: they are smaller by the spacing, and so must eps be.
        Adam::eps(1e-16).help(
            "Added to the root of the mean square of gradients per code; parameters without a grid have AdamW's 1e-8",
        ),
        Adam::WEIGHT_DECAY,
        Adam::DECAY_1D,
        OptionSpec::float("ulp_per_lr", 100.0).range(0.0, 1e12).help(
            "A step is lr * ulp_per_lr codes (ULP), lr the schedule's at that step; 100 makes lr = 1e-3 steps of 0.1 ULP",
        ),
        OptionSpec::text("retraction", "exp")
            .choices(texts!["exp", "linear"])
            .help("exp: along the grid; linear: codes times the spacing at the start, first order"),
        OptionSpec::text("chart", "minifloat")
            .choices(texts!["minifloat", "asinh"])
            .help("minifloat: the format's codes; asinh: a smooth stand-in for them, also through zero"),
        Unquantized::OPTION,
    ]);

    fn new(config: &Config) -> Result<Self, PluginError> {
        let (unquantized, asinh) = (Unquantized::new(config)?, config.text("chart")? == "asinh");
        let adam = Adam::new(config)?;
        Ok(Self {
            adam,
            plain: adam.with_eps(Adam::EPS),
            ulp_per_lr: config.float("ulp_per_lr")?,
            linear: config.text("retraction")? == "linear",
            asinh,
            unquantized,
        })
    }

    fn states(&self, _: &ParamInfo<'_>) -> Vec<StateSpec> {
        Adam::states()
    }

    fn scope(&self, _: &ParamInfo<'_>) -> Scope {
        Scope::ELEMENTS
    }

    fn rule(&self, _: &ParamInfo<'_>, grid: Option<Grid<'_>>) -> Result<String, PluginError> {
        let Some(grid) = self.unquantized.grid(grid) else { return Ok(NO_GRID.into()) };
        if self.asinh {
            smooth(grid.spec)?;
        }
        let chart = if self.asinh { "asinh" } else { "minifloat" };
        let retraction = if self.linear { "linear" } else { "exp" };
        Ok(format!("{chart} chart, {retraction} retraction"))
    }

    fn step(&self, step: Step<'_>) -> Result<(), PluginError> {
        let Some(Grid { spec, scales }) = self.unquantized.grid(step.grid) else {
            let rule = self.plain.plain(&step.info, step.scalars);
            Buffers::of(step)?.update(&rule);
            return Ok(());
        };
        if self.asinh {
            return self.step_on(smooth(spec)?, &scales, step);
        }
        match GridGeometry::new(spec)? {
            GridGeometry::Codes(codes) => self.step_on(codes, &scales, step),
            GridGeometry::Values(values) => self.step_on(&values, &scales, step),
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
            return Ok(Some(vec![self.plain.plain(param, scalars).launch()]));
        };
        let description = if self.asinh {
            smooth(grid.spec)?;
            device::chart(grid)?
        } else {
            device::codes(grid, 1.0)?
        };
        let rule = match (self.asinh, self.linear) {
            (false, false) => UpdateRule::Exp,
            (false, true) => UpdateRule::Linear,
            (true, false) => UpdateRule::SmoothExp,
            (true, true) => UpdateRule::SmoothLinear,
        };
        let keep = self.adam.keep(param, scalars.lr);
        let moments = self.adam.moments(scalars.lr * self.ulp_per_lr, scalars.update);
        Ok(description.map(|description| vec![device::step(rule, keep, &moments, description)]))
    }
}

altgrad_plugin_api::export_plugin!(optimizer Fp8Manifold);
