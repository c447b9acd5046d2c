//! A multiplicative optimizer in one file: Madam (Bernstein et al., arXiv:2006.14560), made for logarithmic number formats.
//!
//! Matrices: `w <- w * exp(-lr * sign(w) * g / rms(g))`, so a step has the same length in binades wherever the weight is, and no weight
//! changes its sign or leaves zero. Parameters of rank below 2 often start at zero, so they step additively, `w <- w - lr * g / rms(g)`.

use altgrad_plugin_api::{
    Config, Descriptor, Optimizer, OptionSpec, ParamInfo, PluginError, Scope, StateSpec, Step,
};

/// The hyper-parameters.
#[derive(Debug)]
pub struct Madam {
    beta: f64,
    gradient_bound: f32,
    weight_bound: f32,
}

impl Optimizer for Madam {
    const DESCRIPTOR: Descriptor = Descriptor::optimizer(
        "madam",
        env!("CARGO_PKG_VERSION"),
        "Multiplicative steps of normalised gradients",
    )
    .options(&[
        OptionSpec::float("beta", 0.999)
            .range(0.0, 0.999_999)
            .help("Memory of the gradient's mean square, a step"),
        OptionSpec::float("gradient_bound", 10.0)
            .range(0.0, f64::MAX)
            .help("Largest |g / rms(g)| that counts"),
        OptionSpec::float("weight_bound", 1.0)
            .range(0.0, f64::MAX)
            .help("Largest magnitude of a weight of a matrix: multiplicative steps could grow without end"),
    ]);

    fn new(config: &Config) -> Result<Self, PluginError> {
        Ok(Self {
            beta: config.float("beta")?,
            gradient_bound: config.float("gradient_bound")? as f32,
            weight_bound: config.float("weight_bound")? as f32,
        })
    }

    fn states(&self, _: &ParamInfo<'_>) -> Vec<StateSpec> {
        vec![StateSpec::zeros("mean_square")]
    }

    fn scope(&self, _: &ParamInfo<'_>) -> Scope {
        Scope::ELEMENTS
    }

    fn step(&self, step: Step<'_>) -> Result<(), PluginError> {
        let Step { info, param, grad, states: [mean_square], scalars, .. } = step else {
            return Err(PluginError::shape("madam needs one state a parameter"));
        };
        let (lr, beta, mix) = (scalars.lr as f32, self.beta as f32, (1.0 - self.beta) as f32);
        let correction = (1.0 - self.beta.powf(scalars.update as f64)) as f32;
        let multiplicative = info.rank() >= 2;
        for ((w, &g), square) in param.iter_mut().zip(grad).zip(mean_square.iter_mut()) {
            *square = beta * *square + mix * g * g;
            // Where every gradient was zero, there is nothing to follow.
            let normed = if *square == 0.0 { 0.0 } else { g / (*square / correction).sqrt() };
            let step = lr * normed.clamp(-self.gradient_bound, self.gradient_bound);
            *w = if multiplicative {
                (*w * (-step * w.signum()).exp()).clamp(-self.weight_bound, self.weight_bound)
            } else {
                *w - step
            };
        }
        Ok(())
    }
}

altgrad_plugin_api::export_plugin!(optimizer Madam);

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_plugin_api::StepScalars;

    use super::*;

    /// One weight after two steps.
    fn stepped(shape: &[u64], from: f32, grads: [f32; 2]) -> f32 {
        let madam = Madam::new(&Config::resolve(&Madam::DESCRIPTOR.options, []).unwrap()).unwrap();
        let (mut param, mut square) = ([from], [0.0]);
        for (update, g) in (1..).zip(grads) {
            let info = ParamInfo::new("w", shape);
            let (states, scalars) = (&mut [square.as_mut_slice()], StepScalars { lr: 0.1, update });
            madam.step(Step { info, param: &mut param, grad: &[g], states, scalars, grid: None }).unwrap();
        }
        param[0]
    }

    #[test]
    fn steps_are_factors_for_matrices_and_terms_for_vectors() {
        // Equal gradients have a normalised length of 1.
        for (from, g, expected) in [
            (0.5, 3.0, 0.5 * (-0.2f32).exp()),
            (0.5, -3.0, 0.5 * 0.2f32.exp()),
            (-0.5, 1e-3, -0.5 * 0.2f32.exp()),
            (0.95, -1.0, 1.0),
            (0.0, 1.0, 0.0),
        ] {
            assert!((stepped(&[1, 1], from, [g, g]) - expected).abs() < 1e-5, "{from}, gradient {g}");
        }
        assert!((stepped(&[1], 0.0, [2.0, 2.0]) + 0.2).abs() < 1e-5);
    }

    #[test]
    fn no_gradient_is_no_step_and_a_nan_is_not_hidden() {
        assert_eq!(stepped(&[1, 1], 0.3, [0.0, 0.0]), 0.3);
        assert!(stepped(&[1, 1], 0.3, [f32::NAN, 1.0]).is_nan());
    }
}
