//! An optimizer over all parameters: Prodigy (Mishchenko and Defazio, arXiv:2306.06101), Adam that estimates its
//! learning rate. `train.lr` is a factor of the estimate, 1 in the paper.
//!
//! The estimate `d` and its parts are states of the whole optimizer, so that checkpoints have them and the run records
//! `optimizer/d`. All is computed with the host's services, on the parameters' device; nothing waits for it.

use altgrad_plugin_api::{
    Axes, Config, Descriptor, MapOp, Matrix, Optimizer, OptionSpec, ParamInfo, PluginError, ReduceOp, Scope,
    ServiceParam, ServiceStep, StateSpec, Step, ZipOp,
};

/// The least sum of magnitudes that is divided by.
const LEAST: f32 = 1e-30;

/// The hyper-parameters.
#[derive(Debug)]
pub struct Prodigy {
    betas: [f32; 2],
    eps: f32,
    d0: f32,
    weight_decay: f64,
}

impl Optimizer for Prodigy {
    const DESCRIPTOR: Descriptor =
        Descriptor::optimizer("prodigy", env!("CARGO_PKG_VERSION"), "Adam that estimates its learning rate")
            .options(&[
                OptionSpec::float("beta1", 0.9).range(0.0, 0.9999).help("Memory of the first moment, a step"),
                OptionSpec::float("beta2", 0.999).range(0.0, 0.999_999).help("Memory of the second moment"),
                OptionSpec::float("eps", 1e-8)
                    .range(1e-30, 1.0)
                    .help("Added to the root of the second moment"),
                OptionSpec::float("d0", 1e-6).range(1e-12, 1.0).help("First estimate; it only grows"),
                OptionSpec::float("weight_decay", 0.0).range(0.0, 1.0).help("Decoupled decay of matrices"),
            ]);

    fn new(config: &Config) -> Result<Self, PluginError> {
        let number = |name: &str| Ok::<_, PluginError>(config.float(name)? as f32);
        Ok(Self {
            betas: [number("beta1")?, number("beta2")?],
            eps: number("eps")?,
            d0: number("d0")?,
            weight_decay: config.float("weight_decay")?,
        })
    }

    fn states(&self, _: &ParamInfo<'_>) -> Vec<StateSpec> {
        ["exp_avg", "exp_avg_sq", "weighted_gradients", "first"].map(StateSpec::zeros).into()
    }

    fn shared_states(&self) -> Vec<StateSpec> {
        let d = StateSpec { initial: self.d0.into(), ..StateSpec::zeros("d") };
        vec![d.of_shape(&[]), StateSpec::zeros("d_numerator").of_shape(&[])]
    }

    fn scope(&self, _: &ParamInfo<'_>) -> Scope {
        Scope::GROUP
    }

    fn step(&self, _: Step<'_>) -> Result<(), PluginError> {
        Err(PluginError::unsupported("all parameters are updated together"))
    }

    fn step_with_services(&self, step: ServiceStep<'_>) -> Result<(), PluginError> {
        let [d, numerator] = step.shared.as_slice() else {
            return Err(PluginError::shape("two states of the whole optimizer are due"));
        };
        let beta3 = self.betas[1].sqrt();
        let old = d.affine(1.0, 0.0)?;
        let mut sum = numerator.affine(beta3, 0.0)?;
        let mut magnitudes = step.services.full([1, 1], 0.0)?;
        for param in &step.params {
            let [dot, size] = self.gather(param, &old, beta3)?;
            sum = sum.blend(1.0, &dot, 1.0)?;
            magnitudes = magnitudes.blend(1.0, &size, 1.0)?;
        }
        numerator.assign(&sum)?;
        let least = step.services.full([1, 1], LEAST)?;
        let estimate = sum.zip(ZipOp::DIV, &magnitudes.zip(ZipOp::MAX, &least)?)?;
        d.assign(&old.zip(ZipOp::MAX, &estimate)?)?;
        step.params.iter().try_for_each(|param| self.update(param, [&old, d]))
    }
}

/// The four states of a parameter.
fn states<'a, 'b>(param: &'b ServiceParam<'a>) -> Result<[&'b Matrix<'a>; 4], PluginError> {
    let [mean, square, weighted, first] = param.states.as_slice() else {
        return Err(PluginError::shape(format!("`{}` needs 4 states", param.info.name)));
    };
    Ok([mean, square, weighted, first])
}

impl Prodigy {
    /// Updates the states of a parameter. Returns its parts of the estimate's numerator and denominator.
    fn gather<'a>(
        &self,
        param: &ServiceParam<'a>,
        d: &Matrix<'a>,
        beta3: f32,
    ) -> Result<[Matrix<'a>; 2], PluginError> {
        let [mean, square, weighted, first] = states(param)?;
        let ([beta1, beta2], grad) = (self.betas, &param.grad);
        if param.scalars.update == 1 {
            first.assign(&param.param)?;
        }
        // d / d0 times the learning rate of the step.
        let weight = d.zip(ZipOp::MUL, d)?.affine((param.scalars.lr / f64::from(self.d0)) as f32, 0.0)?;
        let moved = first.blend(1.0, &param.param, -1.0)?;
        let dot = grad.dot(&moved)?.zip(ZipOp::MUL, &weight)?;
        let scaled = grad.zip(ZipOp::MUL, d)?;
        mean.assign(&mean.blend(beta1, &scaled, 1.0 - beta1)?)?;
        square.assign(&square.blend(beta2, &scaled.zip(ZipOp::MUL, &scaled)?, 1.0 - beta2)?)?;
        weighted.assign(&weighted.blend(beta3, &grad.zip(ZipOp::MUL, &weight)?, 1.0)?)?;
        let size = weighted.map(MapOp::ABS)?.reduce(ReduceOp::SUM, Axes::ALL)?;
        Ok([dot, size])
    }

    /// Steps with the old estimate; `eps` is in units of the new one.
    fn update<'a>(&self, param: &ServiceParam<'a>, [old, new]: [&Matrix<'a>; 2]) -> Result<(), PluginError> {
        let [mean, square, ..] = states(param)?;
        let root = square.map(MapOp::SQRT)?.zip(ZipOp::ADD, &new.affine(self.eps, 0.0)?)?;
        let rate = old.affine(param.scalars.lr as f32, 0.0)?;
        let decay = if param.info.rank() >= 2 { self.weight_decay } else { 0.0 };
        let keep = rate.affine(-decay as f32, 1.0)?;
        let kept = param.param.zip(ZipOp::MUL, &keep)?;
        let direction = mean.zip(ZipOp::DIV, &root)?.zip(ZipOp::MUL, &rate)?;
        param.param.assign(&kept.blend(1.0, &direction, -1.0)?)
    }
}

altgrad_plugin_api::export_plugin!(optimizer Prodigy);

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_plugin_api::{
        StepScalars,
        services::plain::{self, PlainMatrix, PlainParam},
    };

    use super::*;

    /// The algorithm in f64, on a parameter in two parts, as its authors' code has it.
    #[test]
    fn updates_are_those_of_the_algorithm() {
        let prodigy = Prodigy { betas: [0.9, 0.999], eps: 1e-8, d0: 1e-3, weight_decay: 0.1 };
        let row = |values: Vec<f32>| PlainMatrix { shape: [1, values.len()], values };
        let start = [vec![0.5f32, -0.25], vec![1.0f32]];
        let mut params: Vec<PlainParam<'_>> = start
            .iter()
            .map(|values| PlainParam {
                name: "w",
                value: row(values.clone()),
                grad: row(vec![0.0; values.len()]),
                states: vec![row(vec![0.0; values.len()]); 4],
                scalars: StepScalars::new(1.0, 1),
                grid: None,
            })
            .collect();
        let mut shared = [row(vec![1e-3]), row(vec![0.0])];

        let (mut d, mut numerator, beta3) = (1e-3f64, 0.0f64, 0.999f64.sqrt());
        let first: Vec<f64> = start.concat().iter().map(|&w| f64::from(w)).collect();
        let mut w = first.clone();
        let [mut m, mut v, mut s] = [vec![0.0; 3], vec![0.0; 3], vec![0.0; 3]];
        for update in 1..=30 {
            // The gradient of the squares' sum.
            for param in &mut params {
                param.grad = row(param.value.values.iter().map(|w| 2.0 * w).collect());
                param.scalars = StepScalars::new(1.0, update);
            }
            plain::step(|step| prodigy.step_with_services(step), &mut params, &mut shared, 1).unwrap();

            let g: Vec<f64> = w.iter().map(|w| 2.0 * w).collect();
            numerator *= beta3;
            for i in 0..3 {
                numerator += d / 1e-3 * d * g[i] * (first[i] - w[i]);
                m[i] = 0.9 * m[i] + 0.1 * d * g[i];
                v[i] = 0.999 * v[i] + 0.001 * d * d * g[i] * g[i];
                s[i] = beta3 * s[i] + d / 1e-3 * d * g[i];
            }
            let old = d;
            d = d.max(numerator / s.iter().map(|s: &f64| s.abs()).sum::<f64>());
            for i in 0..3 {
                // Services have no vectors: every row is a matrix.
                w[i] = (1.0 - 0.1 * old) * w[i] - old * m[i] / (v[i].sqrt() + d * 1e-8);
            }
        }
        let found: Vec<f32> = params.iter().flat_map(|param| param.value.values.clone()).collect();
        for (found, expected) in found.iter().zip(&w) {
            assert!((f64::from(*found) - expected).abs() < 1e-4, "{found}, expected {expected}");
        }
        assert!(d > 2e-3, "the estimate grows: {d}");
        assert!((f64::from(shared[0].values[0]) / d - 1.0).abs() < 1e-3, "{} {d}", shared[0].values[0]);
    }
}
