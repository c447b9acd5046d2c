//! Gradients by parameter, and how close they are to the unquantized ones.
//!
//! Definitions: NUMERICS sections 5 and 6. Everything is computed where the gradients are; a step reads a few numbers
//! a parameter.

use burn::tensor::{Tensor, Transaction};

use super::{MetricName, MetricRecord, ops};
use crate::{diagnostic::Diagnostic, model::Layout};

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

    /// The values of [`BY_PARAMETER`].
    fn values(&self) -> [f64; 4] {
        let deviation = (self.mean_square - self.mean * self.mean).max(0.0).sqrt();
        [self.square().sqrt(), self.largest, self.mean.abs() / (deviation + 1e-10), self.dead]
    }
}

/// Reads the moments of every parameter's gradient, `[n]` each: one synchronisation.
///
/// # Errors
/// The device failed.
pub fn moments(grads: &[Tensor<1>]) -> Result<Vec<Moments>, Diagnostic> {
    let rows = read(grads.iter().map(ops::moments))?;
    let moments = grads.iter().zip(rows).map(|(grad, [mean, mean_square, dead, largest])| {
        let elements = grad.shape().num_elements() as f64;
        Moments { elements, mean, mean_square, dead, largest }
    });
    Ok(moments.collect())
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
///
/// # Errors
/// The device failed.
pub fn record_fidelity(
    record: &mut MetricRecord,
    layout: &Layout,
    grads: &[Tensor<1>],
    shadow: &[Tensor<1>],
) -> Result<(), Diagnostic> {
    let rows = read(grads.iter().zip(shadow).map(|(grad, shadow)| ops::agreement(grad, shadow)))?;
    let sums: Vec<[f64; 5]> = grads
        .iter()
        .zip(rows)
        .map(|(grad, row)| {
            let elements = grad.shape().num_elements() as f64;
            let [product, own, shadow, signs] = row.map(|mean| mean * elements);
            [product, own, shadow, signs, elements]
        })
        .collect();
    let total = sums.iter().fold([0.0; 5], |total, row| std::array::from_fn(|i| total[i] + row[i]));
    let (all, each) = (fidelity(total), sums.into_iter().map(fidelity).collect::<Vec<_>>());
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
    Ok(())
}

/// Cosine, quotient of norms and share of equal signs; `None` if a norm is zero.
fn fidelity([product, own, shadow, signs, elements]: [f64; 5]) -> Option<[f64; 3]> {
    let (own, shadow) = (own.sqrt(), shadow.sqrt());
    (own != 0.0 && shadow != 0.0).then(|| [product / (own * shadow), own / shadow, signs / elements])
}

/// Four numbers a tensor, read together.
fn read(tensors: impl Iterator<Item = Tensor<1>>) -> Result<Vec<[f64; 4]>, Diagnostic> {
    let transaction = tensors.fold(Transaction::default(), Transaction::register);
    let failed =
        |error: String| Diagnostic::run(format!("the device failed while metrics were read: {error}"));
    let data = transaction.try_execute().map_err(|error| failed(error.to_string()))?;
    let rows = data.iter().map(|data| match data.as_slice::<f32>() {
        Ok(&[a, b, c, d]) => Ok([a, b, c, d].map(f64::from)),
        other => Err(failed(format!("four numbers became {other:?}"))),
    });
    rows.collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{
        config::ModelSection,
        device::ComputeDevice,
        model::{GptShape, params},
    };

    fn layout() -> Layout {
        let mut layout = Layout::new(&GptShape::new(&ModelSection::default(), 8, 10));
        layout.specs.truncate(2);
        layout
    }

    fn flat(values: &[f32]) -> Tensor<1> {
        params::flat(values.to_vec(), &ComputeDevice::cpu().tensors)
    }

    fn value(row: &MetricRecord, name: &str) -> Option<f64> {
        row.values.iter().find(|(metric, _)| metric.name == name).map(|(_, value)| *value)
    }

    #[test]
    fn by_parameter_by_hand() {
        let mut row = MetricRecord::new(0);
        let grads = [flat(&[3.0, -4.0]), flat(&[1.0, 0.0, 1.0, 0.0])];
        record(&mut row, &layout(), &moments(&grads).unwrap());
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
        record_fidelity(&mut row, &layout(), &grads, &shadow).unwrap();
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
