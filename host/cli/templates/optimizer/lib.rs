//! {{ id }}: an optimizer for altgrad.
//!
//! An optimizer is one function that updates a parameter in place: change [`Optimizer::step`] to define your
//! own. This example is gradient descent by signs with momentum: each weight moves by the learning rate, against the
//! sign of its mean gradient.

use altgrad_plugin_api::{
    Config, Descriptor, Optimizer, OptionSpec, ParamInfo, PluginError, Scope, StateSpec, Step,
};

/// The name in run files.
const NAME: &str = "{{ id }}";

/// The hyper-parameters. State that changes from step to step is in buffers that the host owns and checkpoints.
#[derive(Debug)]
pub struct MyOptimizer {
    momentum: f32,
}

impl Optimizer for MyOptimizer {
    /// Name, version, a line for `plugins list`, and the options with their ranges.
    const DESCRIPTOR: Descriptor = Descriptor::optimizer(
        NAME,
        env!("CARGO_PKG_VERSION"),
        "Gradient descent by signs, with momentum",
    )
    .options(&[OptionSpec::float("momentum", 0.9)
        .range(0.0, 0.9999)
        .help("Share of the mean gradient that a step keeps")]);

    /// The host has checked the options against the descriptor and filled in the defaults.
    fn new(config: &Config) -> Result<Self, PluginError> {
        let momentum = config.float("momentum")? as f32;
        Ok(Self { momentum })
    }

    /// The buffers of a parameter, each of the parameter's shape.
    fn states(&self, _: &ParamInfo<'_>) -> Vec<StateSpec> {
        vec![StateSpec::zeros("mean_gradient")]
    }

    /// A step computes each element independently, so the host may call it with parts on several threads.
    fn scope(&self, _: &ParamInfo<'_>) -> Scope {
        Scope::ELEMENTS
    }

    /// One update: parameter and states in place. Gradients come clipped.
    fn step(&self, step: Step<'_>) -> Result<(), PluginError> {
        let [mean] = step.states else {
            return Err(PluginError::shape("one state a parameter is expected"));
        };
        let lr = step.scalars.lr as f32;
        for ((w, &g), m) in step.param.iter_mut().zip(step.grad).zip(mean.iter_mut()) {
            *m = self.momentum * *m + (1.0 - self.momentum) * g;
            // Zero has a sign in floating point, but no direction. NaN stays NaN: a broken run must show.
            let direction = if *m == 0.0 { 0.0 } else { m.signum() };
            *w -= lr * direction;
        }
        Ok(())
    }
}

// The one line that makes this crate a plugin library.
altgrad_plugin_api::export_plugin!(optimizer MyOptimizer);

#[cfg(test)]
mod tests {
    use altgrad_plugin_api::StepScalars;

    use super::*;

    #[test]
    fn a_step_goes_against_the_sign_of_the_mean_gradient() {
        let optimizer = MyOptimizer { momentum: 0.5 };
        let (mut param, mut mean) = ([1.0, 1.0, 1.0], [0.0, -8.0, 0.0]);
        let step = Step {
            info: ParamInfo::new("w", &[3]),
            param: &mut param,
            grad: &[3.0, 2.0, 0.0],
            states: &mut [mean.as_mut_slice()],
            scalars: StepScalars::new(0.25, 1),
            grid: None,
        };
        optimizer.step(step).unwrap();
        assert_eq!(param, [0.75, 1.25, 1.0]);
        assert_eq!(mean, [1.5, -3.0, 0.0]);
    }
}
