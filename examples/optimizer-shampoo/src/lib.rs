//! Factors as states, and eigenvectors from the host: Shampoo (Gupta, Koren and Singer, arXiv:1802.09568).
//!
//! For a matrix with gradient G, `L <- L + G G^T`, `R <- R + G^T G`, `w <- w - lr L^-1/4 G R^-1/4`. The roots are
//! states too, computed every `interval` updates. A matrix with a longer axis than `max_extent`, and what is no matrix,
//! is updated by AdaGrad.

use altgrad_plugin_api::{
    Config, Descriptor, MapOp, Matrix, Optimizer, OptionSpec, ParamInfo, PluginError, Scope, ServiceParam,
    ServiceStep, StateSpec, Step, ZipOp,
};

/// The hyper-parameters.
#[derive(Debug)]
pub struct Shampoo {
    eps: f32,
    interval: u64,
    max_extent: u64,
}

impl Optimizer for Shampoo {
    const DESCRIPTOR: Descriptor = Descriptor::optimizer(
        "shampoo",
        env!("CARGO_PKG_VERSION"),
        "Gradients preconditioned by roots of their second moments on both sides",
    )
    .options(&[
        OptionSpec::float("eps", 1e-4)
            .range(1e-12, 1.0)
            .help("Added to eigenvalues, and to AdaGrad's squares"),
        OptionSpec::integer("interval", 5)
            .range(1.0, 1e9)
            .help("Updates between two computations of the roots"),
        OptionSpec::integer("max_extent", 256).range(1.0, 2048.0).help("Longest axis that has a factor"),
    ]);

    fn new(config: &Config) -> Result<Self, PluginError> {
        Ok(Self {
            eps: config.float("eps")? as f32,
            interval: config.integer("interval")?.unsigned_abs(),
            max_extent: config.integer("max_extent")?.unsigned_abs(),
        })
    }

    fn states(&self, param: &ParamInfo<'_>) -> Vec<StateSpec> {
        let Some([rows, columns]) = self.matrix(param) else { return vec![StateSpec::zeros("squares")] };
        let square = |name: &str, n: u64| StateSpec::zeros(name).of_shape(&[n, n]);
        vec![
            square("left", rows),
            square("right", columns),
            square("left_root", rows),
            square("right_root", columns),
        ]
    }

    fn scope(&self, param: &ParamInfo<'_>) -> Scope {
        if self.matrix(param).is_some() { Scope::SERVICES } else { Scope::ELEMENTS }
    }

    fn rule(
        &self,
        param: &ParamInfo<'_>,
        _: Option<altgrad_plugin_api::Grid<'_>>,
    ) -> Result<String, PluginError> {
        Ok(if self.matrix(param).is_some() { "Shampoo" } else { "AdaGrad" }.into())
    }

    fn step(&self, step: Step<'_>) -> Result<(), PluginError> {
        let lr = step.scalars.lr as f32;
        let Some(squares) = step.states.first_mut() else {
            return Err(PluginError::shape("one state is due"));
        };
        for ((w, &g), s) in step.param.iter_mut().zip(step.grad).zip(squares.iter_mut()) {
            *s += g * g;
            *w -= lr * g / (*s + self.eps).sqrt();
        }
        Ok(())
    }

    fn step_with_services(&self, step: ServiceStep<'_>) -> Result<(), PluginError> {
        let ServiceParam { info, param, grad, states, scalars, .. } = step.single()?;
        let [left, right, left_root, right_root] = states.as_slice() else {
            return Err(PluginError::shape(format!("`{}` needs 4 states", info.name)));
        };
        left.assign(&left.blend(1.0, &grad.matmul_transposed(&grad)?, 1.0)?)?;
        right.assign(&right.blend(1.0, &grad.transposed_matmul(&grad)?, 1.0)?)?;
        if scalars.update % self.interval == 1 % self.interval {
            left_root.assign(&self.root(left)?)?;
            right_root.assign(&self.root(right)?)?;
        }
        let direction = left_root.matmul(&grad)?.matmul(right_root)?;
        param.assign(&param.blend(1.0, &direction, -scalars.lr as f32)?)
    }
}

impl Shampoo {
    /// Rows and columns of a parameter that has factors.
    fn matrix(&self, param: &ParamInfo<'_>) -> Option<[u64; 2]> {
        match *param.shape {
            [rows, columns]
                if (1..=self.max_extent).contains(&rows.max(columns)) && rows.min(columns) > 0 =>
            {
                Some([rows, columns])
            }
            _ => None,
        }
    }

    /// `(x + eps)^-1/4` of a symmetric matrix without negative eigenvalues.
    fn root<'a>(&self, x: &Matrix<'a>) -> Result<Matrix<'a>, PluginError> {
        let [values, vectors] = x.eigen()?;
        // Rounding may leave eigenvalues slightly below zero.
        let roots = values.map(MapOp::ABS)?.affine(1.0, self.eps)?.map(MapOp::SQRT)?.map(MapOp::SQRT)?;
        vectors.zip(ZipOp::DIV, &roots)?.matmul_transposed(&vectors)
    }
}

altgrad_plugin_api::export_plugin!(optimizer Shampoo);

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_plugin_api::{
        StepScalars,
        services::plain::{self, PlainMatrix, PlainParam},
    };

    use super::*;

    /// By hand: a diagonal gradient with the entries a and b becomes a / sqrt(a^2 + eps).
    #[test]
    fn a_diagonal_gradient_becomes_its_sign() {
        let shampoo = Shampoo { eps: 1e-12, interval: 1, max_extent: 8 };
        let square = |values: [f32; 4]| PlainMatrix { shape: [2, 2], values: values.into() };
        let mut params = [PlainParam {
            name: "w",
            value: square([0.0; 4]),
            grad: square([3.0, 0.0, 0.0, -0.5]),
            states: vec![square([0.0; 4]); 4],
            scalars: StepScalars::new(0.5, 1),
            grid: None,
        }];
        plain::step(|step| shampoo.step_with_services(step), &mut params, &mut [], 1).unwrap();
        for (found, expected) in params[0].value.values.iter().zip([-0.5, 0.0, 0.0, 0.5]) {
            assert!((found - expected).abs() < 1e-4, "{:?}", params[0].value);
        }
        assert_eq!(params[0].states[0], square([9.0, 0.0, 0.0, 0.25]));
    }
}
