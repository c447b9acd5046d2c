//! An optimizer in one file: gradient descent with momentum, as in `torch.optim.SGD`.
//!
//! The host owns the momentum buffer, checkpoints it, and clips gradients before the call; the plugin only
//! declares the buffer and updates it. A bigger example is `plugins/optimizers/adamw`.

use altgrad_plugin_api::{
    Config, Descriptor, Optimizer, OptionSpec, ParamInfo, PluginError, StateSpec, Step,
};

/// The one hyper-parameter.
#[derive(Debug)]
pub struct Sgd {
    momentum: f32,
}

impl Optimizer for Sgd {
    const DESCRIPTOR: Descriptor =
        Descriptor::optimizer("sgd", env!("CARGO_PKG_VERSION"), "Gradient descent with momentum").options(&[
            OptionSpec::float("momentum", 0.9)
                .range(0.0, 1.0)
                .help("Share of the last step that the next one keeps; 0 needs no state"),
        ]);

    fn new(config: &Config) -> Result<Self, PluginError> {
        Ok(Self { momentum: config.float("momentum")? as f32 })
    }

    fn states(&self, _: &ParamInfo<'_>) -> Vec<StateSpec> {
        if self.momentum == 0.0 { Vec::new() } else { vec![StateSpec::zeros("momentum")] }
    }

    fn step(&self, step: Step<'_>) -> Result<(), PluginError> {
        let lr = step.scalars.lr as f32;
        match step.states {
            [] => {
                for (w, g) in step.param.iter_mut().zip(step.grad) {
                    *w -= lr * g;
                }
            }
            [velocity, ..] => {
                for ((w, g), v) in step.param.iter_mut().zip(step.grad).zip(velocity.iter_mut()) {
                    *v = self.momentum * *v + g;
                    *w -= lr * *v;
                }
            }
        }
        Ok(())
    }
}

altgrad_plugin_api::export_plugin!(optimizer Sgd);

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_plugin_api::StepScalars;

    use super::*;

    fn after_two_steps(momentum: f32) -> f32 {
        let sgd = Sgd { momentum };
        let info = ParamInfo::new("w", &[1u64]);
        let (mut param, mut velocity) = ([1.0], [0.0]);
        for update in 1..=2 {
            let buffers = &mut [velocity.as_mut_slice()];
            let states = &mut buffers[..sgd.states(&info).len()];
            let scalars = StepScalars::new(0.5, update);
            sgd.step(Step { info, param: &mut param, grad: &[2.0], states, scalars, grid: None }).unwrap();
        }
        param[0]
    }

    #[test]
    fn steps_add_up_as_in_the_formula() {
        assert_eq!(after_two_steps(0.0), 1.0 - 2.0 * 0.5 * 2.0);
        assert_eq!(after_two_steps(0.5), 1.0 - 0.5 * 2.0 - 0.5 * (0.5 * 2.0 + 2.0));
    }
}
