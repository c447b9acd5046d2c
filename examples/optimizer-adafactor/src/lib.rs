//! States of other shapes than the parameter's: Adafactor (Shazeer and Stern, arXiv:1804.04235), with a given learning
//! rate and without momentum.
//!
//! The second moment of a matrix of R rows and C columns is the product of a state of R numbers and one of C. Other
//! parameters have a second moment for each element.

use altgrad_plugin_api::{
    Config, Descriptor, Optimizer, OptionSpec, ParamInfo, PluginError, StateSpec, Step,
};

/// Added to squared gradients.
const EPS: f64 = 1e-30;

/// The hyper-parameters.
#[derive(Debug)]
pub struct Adafactor {
    decay_exponent: f64,
    clip: f64,
    scale: bool,
    least_scale: f64,
}

impl Optimizer for Adafactor {
    const DESCRIPTOR: Descriptor = Descriptor::optimizer(
        "adafactor",
        env!("CARGO_PKG_VERSION"),
        "Second moments of rows and columns instead of elements",
    )
    .options(&[
        OptionSpec::float("decay_exponent", 0.8)
            .range(0.0, 1.0)
            .help("The second moment's memory in update t is 1 - t^-decay_exponent"),
        OptionSpec::float("clip", 1.0)
            .range(1e-6, 1e6)
            .help("Largest root mean square of an update, before lr"),
        OptionSpec::bool("scale_parameter", true)
            .help("Multiply updates by the root mean square of the parameter, so that lr is relative"),
        OptionSpec::float("least_scale", 1e-3)
            .range(0.0, 1e6)
            .help("Least such factor, so that a parameter can leave zero"),
    ]);

    fn new(config: &Config) -> Result<Self, PluginError> {
        Ok(Self {
            decay_exponent: config.float("decay_exponent")?,
            clip: config.float("clip")?,
            scale: config.bool("scale_parameter")?,
            least_scale: config.float("least_scale")?,
        })
    }

    fn states(&self, param: &ParamInfo<'_>) -> Vec<StateSpec> {
        match *param.shape {
            [rows, columns] => vec![
                StateSpec::zeros("row_second_moment").of_shape(&[rows]),
                StateSpec::zeros("column_second_moment").of_shape(&[columns]),
            ],
            _ => vec![StateSpec::zeros("second_moment")],
        }
    }

    fn step(&self, step: Step<'_>) -> Result<(), PluginError> {
        let Step { info, param, grad, states, scalars, .. } = step;
        if param.is_empty() {
            return Ok(());
        }
        let memory = 1.0 - (scalars.update as f64).powf(-self.decay_exponent);
        let blend = |state: &mut f32, square: f64| {
            *state = (memory * f64::from(*state) + (1.0 - memory) * square) as f32;
        };
        let square = |g: f32| f64::from(g) * f64::from(g) + EPS;
        let direction: Vec<f64> = match states {
            [of_rows, of_columns] => {
                let columns = of_columns.len();
                let rows = grad.chunks(columns);
                for (state, row) in of_rows.iter_mut().zip(rows.clone()) {
                    blend(state, row.iter().map(|&g| square(g)).sum::<f64>() / columns as f64);
                }
                let mut sums = vec![0.0; columns];
                for row in rows.clone() {
                    sums.iter_mut().zip(row).for_each(|(sum, &g)| *sum += square(g));
                }
                let count = of_rows.len() as f64;
                of_columns.iter_mut().zip(sums).for_each(|(state, sum)| blend(state, sum / count));
                let mean = of_rows.iter().map(|&x| f64::from(x)).sum::<f64>() / count;
                let of_row = |(row, &r): (&[f32], &f32)| {
                    let factor = f64::from(r) / mean;
                    let of = row.iter().zip(of_columns.iter());
                    of.map(|(&g, &c)| f64::from(g) / (factor * f64::from(c)).sqrt()).collect::<Vec<f64>>()
                };
                rows.zip(of_rows.iter()).flat_map(of_row).collect()
            }
            [of_elements] => {
                of_elements.iter_mut().zip(grad).for_each(|(state, &g)| blend(state, square(g)));
                let of = of_elements.iter().zip(grad);
                of.map(|(&v, &g)| f64::from(g) / f64::from(v).sqrt()).collect()
            }
            _ => return Err(PluginError::shape(format!("`{}` has other states than declared", info.name))),
        };
        let rms = |sum: f64| (sum / direction.len() as f64).sqrt();
        let length = rms(direction.iter().map(|x| x * x).sum());
        let own = rms(param.iter().map(|&w| f64::from(w) * f64::from(w)).sum());
        let scale = if self.scale { own.max(self.least_scale) } else { 1.0 };
        let factor = scalars.lr * scale / (length / self.clip).max(1.0);
        for (w, x) in param.iter_mut().zip(&direction) {
            *w = (f64::from(*w) - factor * x) as f32;
        }
        Ok(())
    }
}

altgrad_plugin_api::export_plugin!(optimizer Adafactor);

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_plugin_api::StepScalars;

    use super::*;

    /// One update of a parameter without parameter scaling, from states of zeros.
    fn updated(shape: &[u64], grad: &[f32]) -> (Vec<f32>, Vec<Vec<f32>>) {
        let adafactor = Adafactor { decay_exponent: 0.8, clip: 1.0, scale: false, least_scale: 1e-3 };
        let info = ParamInfo::new("w", shape);
        let lengths = adafactor.states(&info).into_iter().map(|state| state.elements(shape).unwrap());
        let mut states: Vec<Vec<f32>> = lengths.map(|length| vec![0.0; length as usize]).collect();
        let mut buffers: Vec<&mut [f32]> = states.iter_mut().map(Vec::as_mut_slice).collect();
        let mut param = vec![0.0; grad.len()];
        let scalars = StepScalars::new(0.5, 1);
        let step = Step { info, param: &mut param, grad, states: &mut buffers, scalars, grid: None };
        adafactor.step(step).unwrap();
        (param, states)
    }

    /// By hand: the first update forgets the zeros, and a gradient of rank 1 has an exact second moment.
    #[test]
    fn rows_and_columns_are_those_of_the_squared_gradient() {
        let (param, states) = updated(&[2, 3], &[1.0, 2.0, -3.0, -2.0, 4.0, 6.0]);
        assert_eq!(states, [vec![14.0 / 3.0, 56.0 / 3.0], vec![2.5, 10.0, 22.5]]);
        for (w, sign) in param.iter().zip([1.0, 1.0, -1.0, -1.0, 1.0, 1.0]) {
            assert!((w + 0.5 * sign).abs() < 1e-6, "{param:?}");
        }
    }

    #[test]
    fn a_vector_has_a_second_moment_of_each_element() {
        let (param, states) = updated(&[2], &[3.0, -0.5]);
        assert_eq!((param, states), (vec![-0.5, 0.5], vec![vec![9.0, 0.25]]));
    }
}
