//! An optimizer that multiplies matrices, on whatever device they are: Muon (Jordan et al., "Muon: An optimizer for hidden layers in
//! neural networks", 2024, kellerjordan.github.io/posts/muon; reference code github.com/KellerJordan/Muon).
//!
//! Matrices step along their momentum made nearly orthogonal: `m <- beta m + (1 - beta) g`, `u = (1 - beta) g + beta m` (Nesterov), `U` the
//! result of Newton-Schulz steps on `u`, `w <- (1 - lr * wd) w - lr * s * U`. The factor s = 0.2 sqrt(max(rows, columns)) gives steps the
//! root mean square of AdamW's (Liu et al., arXiv:2502.16982, section 2.2), so that both take the same learning rate. Everything else is
//! updated by AdamW: parameters of rank below 2, and embeddings, as the authors advise.
//!
//! Try it: `cargo build --release -p altgrad-example-muon`, copy `target/release/libaltgrad_example_muon.so` into the host's `plugins` folder, and
//! write `[optimizer] name = "muon"` into a run file; `train.lr` is AdamW's.
//!
//! Matrices are the host's: this file asks its services for products and norms. Where to go next: `altgrad_plugin_api::services`.

use altgrad_plugin_api::{
    Axes, Config, Descriptor, MapOp, Matrix, Optimizer, OptionSpec, ParamInfo, PluginError, ReduceOp, Scope,
    ServiceStep, StateSpec, Step, ZipOp, texts,
};

/// Coefficients of a Newton-Schulz step `a x + (b (x x^T) + c (x x^T)^2) x`: the reference code's. They trade exactness for speed: after
/// five steps singular values lie between 0.7 and 1.2, unless they began below about a hundredth of the norm.
const COEFFICIENTS: [f32; 3] = [3.4445, -4.7750, 2.0315];
/// Keeps a zero matrix from being divided by its norm, as in the reference code.
const TINY: f32 = 1e-7;
/// AdamW's root mean square of a step, in learning rates.
const RMS: f64 = 0.2;
/// AdamW's memories and `eps`, for what is no matrix.
const BETAS: [f64; 2] = [0.9, 0.95];
const EPS: f32 = 1e-8;

/// The hyper-parameters.
#[derive(Debug)]
pub struct Muon {
    momentum: f32,
    steps: i64,
    weight_decay: f64,
    exclude: Vec<String>,
}

impl Muon {
    /// Whether a parameter is stepped by Muon.
    fn is_matrix(&self, param: &ParamInfo<'_>) -> bool {
        param.rank() == 2 && !self.exclude.iter().any(|name| param.name.as_str() == name)
    }
}

/// A matrix nearly orthogonal: as `x`'s singular vectors, singular values around 1. The product is made on the shorter side.
fn orthogonalized<'a>(x: &Matrix<'a>, steps: i64) -> Result<Matrix<'a>, PluginError> {
    let [a, b, c] = COEFFICIENTS;
    let [rows, columns] = x.shape();
    let norm = x.reduce(ReduceOp::SUM_SQUARES, Axes::ALL)?.map(MapOp::SQRT)?.affine(1.0, TINY)?;
    let mut x = x.zip(ZipOp::DIV, &norm)?;
    for _ in 0..steps {
        let gram = if rows <= columns { x.matmul_transposed(&x)? } else { x.transposed_matmul(&x)? };
        let mix = gram.blend(b, &gram.matmul(&gram)?, c)?;
        let turned = if rows <= columns { mix.matmul(&x)? } else { x.matmul(&mix)? };
        x = x.blend(a, &turned, 1.0)?;
    }
    Ok(x)
}

impl Optimizer for Muon {
    const DESCRIPTOR: Descriptor = Descriptor::optimizer(
        "muon",
        env!("CARGO_PKG_VERSION"),
        "Orthogonalized momentum for matrices, AdamW for the rest",
    )
    .options(&[
        OptionSpec::float("momentum", 0.95)
            .range(0.0, 0.999_999)
            .help("Memory of a matrix' gradient, a step"),
        OptionSpec::integer("newton_schulz_steps", 5)
            .range(1.0, 100.0)
            .help("Steps towards an orthogonal matrix; each costs three products"),
        OptionSpec::float("weight_decay", 0.1)
            .range(0.0, f64::MAX)
            .help("Share of a weight of rank 2 lost a step, times the learning rate"),
        OptionSpec::text_list("exclude", texts!["wte.weight", "wpe.weight"])
            .help("Parameters of rank 2 that AdamW updates"),
    ]);

    fn new(config: &Config) -> Result<Self, PluginError> {
        Ok(Self {
            momentum: config.float("momentum")? as f32,
            steps: config.integer("newton_schulz_steps")?,
            weight_decay: config.float("weight_decay")?,
            exclude: config.text_list("exclude")?.iter().map(ToString::to_string).collect(),
        })
    }

    fn states(&self, param: &ParamInfo<'_>) -> Vec<StateSpec> {
        if self.is_matrix(param) {
            return vec![StateSpec::zeros("momentum")];
        }
        vec![StateSpec::zeros("exp_avg"), StateSpec::zeros("exp_avg_sq")]
    }

    fn scope(&self, param: &ParamInfo<'_>) -> Scope {
        if self.is_matrix(param) { Scope::SERVICES } else { Scope::ELEMENTS }
    }

    fn step_with_services(&self, step: ServiceStep<'_>) -> Result<(), PluginError> {
        let ServiceStep { param, grad, states, scalars, .. } = step;
        let [momentum] = states.as_slice() else {
            return Err(PluginError::shape("muon needs one state a matrix"));
        };
        let beta = self.momentum;
        momentum.assign(&momentum.blend(beta, &grad, 1.0 - beta)?)?;
        let ahead = grad.blend(1.0 - beta, momentum, beta)?;
        let step = orthogonalized(&ahead, self.steps)?;
        let [rows, columns] = param.shape();
        let length = scalars.lr * RMS * (rows.max(columns) as f64).sqrt();
        let keep = 1.0 - scalars.lr * self.weight_decay;
        param.assign(&param.blend(keep as f32, &step, -length as f32)?)
    }

    /// AdamW, for what is no matrix of Muon's.
    fn step(&self, step: Step<'_>) -> Result<(), PluginError> {
        let Step { info, param, grad, states: [mean, square], scalars, .. } = step else {
            return Err(PluginError::shape("AdamW needs two states a parameter"));
        };
        let [mix1, mix2] = BETAS.map(|beta| (1.0 - beta) as f32);
        let [correction1, correction2] = BETAS.map(|beta| 1.0 - beta.powf(scalars.update as f64));
        let (length, root) = ((scalars.lr / correction1) as f32, correction2.sqrt() as f32);
        let decay = if info.rank() == 2 { self.weight_decay } else { 0.0 };
        let keep = (1.0 - scalars.lr * decay) as f32;
        for (((w, &g), m), v) in param.iter_mut().zip(grad).zip(mean.iter_mut()).zip(square.iter_mut()) {
            *m += mix1 * (g - *m);
            *v += mix2 * (g * g - *v);
            *w = keep * *w - length * *m / (v.sqrt() / root + EPS);
        }
        Ok(())
    }
}

altgrad_plugin_api::export_plugin!(optimizer Muon);

#[cfg(test)]
mod tests;
