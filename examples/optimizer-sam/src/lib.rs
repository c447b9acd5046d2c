//! A second gradient evaluation for each update: sharpness-aware minimization (Foret et al., arXiv:2010.01412), over
//! gradient descent with momentum.
//!
//! After the first evaluation the parameters move by `rho` along the gradient of all of them, and the host evaluates
//! the gradient there, at the same data. The update begins at the parameters before.

use altgrad_plugin_api::{
    Config, Descriptor, MapOp, Optimizer, OptionSpec, ParamInfo, PluginError, Scope, ServiceParam,
    ServiceStep, StateSpec, Step, ZipOp,
};

/// Added to the norm of the gradient.
const EPS: f32 = 1e-12;

/// The hyper-parameters.
#[derive(Debug)]
pub struct Sam {
    rho: f32,
    momentum: f32,
}

impl Optimizer for Sam {
    const DESCRIPTOR: Descriptor = Descriptor::optimizer(
        "sam",
        env!("CARGO_PKG_VERSION"),
        "Gradient descent at the sharpest point nearby",
    )
    .options(&[
        OptionSpec::float("rho", 0.05).range(0.0, 100.0).help("Distance of the second evaluation"),
        OptionSpec::float("momentum", 0.9).range(0.0, 1.0).help("Share of the last step that is kept"),
    ]);

    fn new(config: &Config) -> Result<Self, PluginError> {
        Ok(Self { rho: config.float("rho")? as f32, momentum: config.float("momentum")? as f32 })
    }

    fn states(&self, _: &ParamInfo<'_>) -> Vec<StateSpec> {
        ["momentum", "original"].map(StateSpec::zeros).into()
    }

    fn scope(&self, _: &ParamInfo<'_>) -> Scope {
        Scope::GROUP
    }

    fn evaluations(&self) -> u32 {
        2
    }

    fn step(&self, _: Step<'_>) -> Result<(), PluginError> {
        Err(PluginError::unsupported("all parameters are updated together"))
    }

    fn step_with_services(&self, step: ServiceStep<'_>) -> Result<(), PluginError> {
        if step.evaluation == 1 { self.climb(&step) } else { self.descend(&step.params) }
    }
}

impl Sam {
    /// Moves all parameters by `rho` along their gradient.
    fn climb(&self, step: &ServiceStep<'_>) -> Result<(), PluginError> {
        let mut square = step.services.full([1, 1], 0.0)?;
        for param in &step.params {
            square = square.blend(1.0, &param.grad.dot(&param.grad)?, 1.0)?;
        }
        let length = square.map(MapOp::SQRT)?.affine(1.0, EPS)?;
        let factor = length.map(MapOp::RECIPROCAL)?.affine(self.rho, 0.0)?;
        for ServiceParam { param, grad, states, .. } in &step.params {
            if let [_, original] = states.as_slice() {
                original.assign(param)?;
            }
            param.assign(&param.blend(1.0, &grad.zip(ZipOp::MUL, &factor)?, 1.0)?)?;
        }
        Ok(())
    }

    /// Steps from the parameters before, with the gradient from there.
    fn descend(&self, params: &[ServiceParam<'_>]) -> Result<(), PluginError> {
        for ServiceParam { info, param, grad, states, scalars, .. } in params {
            let [momentum, original] = states.as_slice() else {
                return Err(PluginError::shape(format!("`{}` needs 2 states", info.name)));
            };
            momentum.assign(&momentum.blend(self.momentum, grad, 1.0)?)?;
            param.assign(&original.blend(1.0, momentum, -scalars.lr as f32)?)?;
        }
        Ok(())
    }
}

altgrad_plugin_api::export_plugin!(optimizer Sam);

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_plugin_api::{
        StepScalars,
        services::plain::{self, PlainMatrix, PlainParam},
    };

    use super::*;

    /// By hand, with the gradient `w` of half the square: from (3, 4) by 5 along (0.6, 0.8) to (6, 8), and back.
    #[test]
    fn the_update_has_the_gradient_of_the_point_above() {
        let sam = Sam { rho: 5.0, momentum: 0.5 };
        let one = |value: f32| PlainMatrix { shape: [1, 1], values: vec![value] };
        let param = |value| PlainParam {
            name: "w",
            value: one(value),
            grad: one(value),
            states: vec![one(0.0), one(0.0)],
            scalars: StepScalars::new(0.25, 1),
            grid: None,
        };
        let mut params = [param(3.0), param(4.0)];
        plain::step(|step| sam.step_with_services(step), &mut params, &mut [], 1).unwrap();
        let moved: Vec<f32> = params.iter().map(|param| param.value.values[0]).collect();
        assert!((moved[0] - 6.0).abs() < 1e-5 && (moved[1] - 8.0).abs() < 1e-5, "{moved:?}");
        for param in &mut params {
            param.grad = param.value.clone();
        }
        plain::step(|step| sam.step_with_services(step), &mut params, &mut [], 2).unwrap();
        let stepped: Vec<f32> = params.iter().map(|param| param.value.values[0]).collect();
        assert!((stepped[0] - 1.5).abs() < 1e-5 && (stepped[1] - 2.0).abs() < 1e-5, "{stepped:?}");
    }
}
