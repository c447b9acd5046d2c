//! Gradients by parameter, and how close they are to the unquantized ones.
//!
//! Definitions: NUMERICS sections 5 and 6. Everything is computed where the gradients are; a step reads a few numbers
//! a parameter.

use altgrad_base::diagnostic::Diagnostic;
use burn::tensor::Tensor;

use super::{MetricName, MetricRecord, ops};
use crate::{
    model::Layout,
    read_back::{ReadBack, Slot, Values},
};

/// What is said of each parameter's gradient before clipping: L2 norm, largest magnitude, |mean|/(std + 1e-10), share
/// below 1e-8.
const BY_PARAMETER: [&str; 4] = ["grad_norm_l2", "grad_norm_linf", "grad_snr", "dead_frac"];
/// What is said of a gradient beside its unquantized shadow: cosine, quotient of norms, share of equal signs.
const FIDELITY: [&str; 3] = ["grad_cos_sim", "grad_norm_ratio", "grad_sign_agree"];

/// Sums of one parameter's gradient.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moments {
    elements: f64,
    mean: f64,
    mean_square: f64,
    dead: f64,
    largest: f64,
}

impl Moments {
    /// Sum of squares.
    #[must_use]
    pub fn square(&self) -> f64 {
        self.elements * self.mean_square
    }

    /// Whether every element is finite, and so is their sum of squares.
    #[must_use]
    pub fn is_finite(&self) -> bool {
        self.mean.is_finite() && self.largest.is_finite() && self.mean_square.is_finite()
    }

    /// The values of [`BY_PARAMETER`].
    fn values(&self) -> [f64; 4] {
        let deviation = (self.mean_square - self.mean * self.mean).max(0.0).sqrt();
        [self.square().sqrt(), self.largest, self.mean.abs() / (deviation + 1e-10), self.dead]
    }
}

/// What was asked of some tensors: elements of each, and where its sums will be.
pub type Asked = Vec<(f64, Slot)>;

/// Asks for the moments of every parameter's gradient, `[n]` each.
#[must_use]
pub fn ask_moments(grads: &[Tensor<1>], read_back: &mut ReadBack) -> Asked {
    grads.iter().map(|grad| (elements(grad), read_back.ask(ops::moments(grad)))).collect()
}

/// The moments that were asked for.
///
/// # Errors
/// The device returned something else.
pub fn moments(asked: &Asked, values: &Values) -> Result<Vec<Moments>, Diagnostic> {
    let moments = asked.iter().map(|&(elements, slot)| {
        let [mean, mean_square, dead, largest] = values.array(slot)?;
        Ok(Moments { elements, mean, mean_square, dead, largest })
    });
    moments.collect()
}

fn elements(tensor: &Tensor<1>) -> f64 {
    tensor.shape().num_elements() as f64
}

/// Sums over a gradient and its shadow.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Agreement {
    product: f64,
    own_square: f64,
    shadow_square: f64,
    equal_signs: f64,
    elements: f64,
}

impl Agreement {
    fn add(self, other: &Self) -> Self {
        Self {
            product: self.product + other.product,
            own_square: self.own_square + other.own_square,
            shadow_square: self.shadow_square + other.shadow_square,
            equal_signs: self.equal_signs + other.equal_signs,
            elements: self.elements + other.elements,
        }
    }

    /// The values of [`FIDELITY`]; `None` if a norm is zero.
    fn values(&self) -> Option<[f64; 3]> {
        let (own, shadow) = (self.own_square.sqrt(), self.shadow_square.sqrt());
        (own != 0.0 && shadow != 0.0)
            .then(|| [self.product / (own * shadow), own / shadow, self.equal_signs / self.elements])
    }
}

/// Asks how every gradient agrees with its shadow, `[n]` each.
#[must_use]
pub fn ask_agreement(grads: &[Tensor<1>], shadow: &[Tensor<1>], read_back: &mut ReadBack) -> Asked {
    let pairs = grads.iter().zip(shadow);
    pairs.map(|(grad, shadow)| (elements(grad), read_back.ask(ops::agreement(grad, shadow)))).collect()
}

/// The agreement that was asked for.
///
/// # Errors
/// The device returned something else.
pub fn agreement(asked: &Asked, values: &Values) -> Result<Vec<Agreement>, Diagnostic> {
    let agreement = asked.iter().map(|&(elements, slot)| {
        let means: [f64; 4] = values.array(slot)?;
        let [product, own_square, shadow_square, equal_signs] = means.map(|mean| mean * elements);
        Ok(Agreement { product, own_square, shadow_square, equal_signs, elements })
    });
    agreement.collect()
}

/// Names of the metrics by parameter.
#[must_use]
pub fn names(layout: &Layout) -> Vec<MetricName> {
    let of = |statistic: &'static str| {
        layout.specs.iter().map(move |spec| MetricName::value(format!("{statistic}/{}", spec.name)))
    };
    BY_PARAMETER.into_iter().flat_map(of).collect()
}

/// Records the moments of a step's gradients.
pub fn record(record: &mut MetricRecord, layout: &Layout, moments: &[Moments]) {
    let rows: Vec<[f64; 4]> = moments.iter().map(Moments::values).collect();
    for (column, statistic) in BY_PARAMETER.into_iter().enumerate() {
        for (spec, row) in layout.specs.iter().zip(&rows) {
            record.push(MetricName::value(format!("{statistic}/{}", spec.name)), row[column]);
        }
    }
}

/// Names of the metrics of shadow steps: over all parameters together, their mean and least, and each.
#[must_use]
pub fn fidelity_names(layout: &Layout) -> Vec<MetricName> {
    let of = |statistic: &'static str| {
        let totals = ["", "/mean", "/min"].map(|suffix| format!("{statistic}{suffix}"));
        let each = layout.specs.iter().map(move |spec| format!("{statistic}/{}", spec.name));
        totals.into_iter().chain(each).map(MetricName::value)
    };
    FIDELITY.into_iter().flat_map(of).collect()
}

/// Records how close the gradients are to their shadows; no value where one of the two is zero.
pub fn record_fidelity(record: &mut MetricRecord, layout: &Layout, agreement: &[Agreement]) {
    let all = agreement.iter().fold(Agreement::default(), Agreement::add).values();
    let each: Vec<Option<[f64; 3]>> = agreement.iter().map(Agreement::values).collect();
    for (column, statistic) in FIDELITY.into_iter().enumerate() {
        let values: Vec<f64> = each.iter().flatten().map(|row| row[column]).collect();
        let mean = (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
        let least = values.iter().copied().reduce(|a, b| if a.is_nan() || a <= b { a } else { b });
        record.push_some(MetricName::constant(statistic), all.map(|row| row[column]));
        record.push_some(MetricName::value(format!("{statistic}/mean")), mean);
        record.push_some(MetricName::value(format!("{statistic}/min")), least);
        for (spec, row) in layout.specs.iter().zip(&each) {
            record.push_some(
                MetricName::value(format!("{statistic}/{}", spec.name)),
                row.map(|row| row[column]),
            );
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use altgrad_config::ModelSection;

    use crate::{device::ComputeDevice, model::GptShape, tensor};

    fn layout() -> Layout {
        let mut layout = Layout::new(&GptShape::new(&ModelSection::default(), 8, 10));
        layout.specs.truncate(2);
        layout
    }

    fn flat(values: &[f32]) -> Tensor<1> {
        tensor::flat(values.to_vec(), &ComputeDevice::cpu().tensors)
    }

    fn value(row: &MetricRecord, name: &str) -> Option<f64> {
        row.values.iter().find(|(metric, _)| metric.name == name).map(|(_, value)| *value)
    }

    #[test]
    fn by_parameter_by_hand() {
        let mut row = MetricRecord::new(0);
        let grads = [flat(&[3.0, -4.0]), flat(&[1.0, 0.0, 1.0, 0.0])];
        let mut read_back = ReadBack::default();
        let asked = ask_moments(&grads, &mut read_back);
        record(&mut row, &layout(), &moments(&asked, &read_back.read().unwrap()).unwrap());
        let expected = [
            ("grad_norm_l2/wte.weight", 5.0),
            ("grad_norm_l2/wpe.weight", 2f64.sqrt()),
            ("grad_norm_linf/wte.weight", 4.0),
            // Mean -1/2, standard deviation 7/2.
            ("grad_snr/wte.weight", 0.5 / (3.5 + 1e-10)),
            ("dead_frac/wpe.weight", 0.5),
        ];
        for (name, expected) in expected {
            let found = value(&row, name).unwrap();
            assert!((found - expected).abs() < 1e-6, "{name}: {found}");
        }
        assert_eq!(row.values.len(), names(&layout()).len());
    }

    #[test]
    fn fidelity_by_hand() {
        let mut row = MetricRecord::new(0);
        let (grads, shadow) = ([flat(&[1.0, 1.0]), flat(&[0.0])], [flat(&[2.0, 0.0]), flat(&[5.0])]);
        let mut read_back = ReadBack::default();
        let asked = ask_agreement(&grads, &shadow, &mut read_back);
        record_fidelity(&mut row, &layout(), &agreement(&asked, &read_back.read().unwrap()).unwrap());
        let cosine = 0.5f64.sqrt();
        let expected = [
            ("grad_cos_sim/wte.weight", Some(cosine)),
            ("grad_norm_ratio/wte.weight", Some(cosine)),
            ("grad_sign_agree/wte.weight", Some(0.5)),
            // The other gradient is zero: it has no direction.
            ("grad_cos_sim/wpe.weight", None),
            ("grad_cos_sim/mean", Some(cosine)),
            ("grad_cos_sim/min", Some(cosine)),
            ("grad_cos_sim", Some(2.0 / (2f64 * 29.0).sqrt())),
        ];
        for (name, expected) in expected {
            let found = value(&row, name);
            assert_eq!(found.is_some(), expected.is_some(), "{name}");
            assert!((found.unwrap_or(0.0) - expected.unwrap_or(0.0)).abs() < 1e-6, "{name}: {found:?}");
        }
    }
}
