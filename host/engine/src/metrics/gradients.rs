//! Gradients by parameter. They are summed on their device; a step reads a few numbers per parameter.

use altgrad_base::diagnostic::Diagnostic;
use altgrad_metrics::{MetricId, MetricRecord, Statistic, families};
use burn::tensor::Tensor;

use super::{
    family::{self, Formula, MetricFamily, MetricSetup},
    ops,
};
use crate::{
    read_back::{ReadBack, Slot, Values},
    tensor::batch::MOST,
};

/// Statistics of each parameter's gradient before clipping.
static STATISTICS: &[Formula<GradientSums, Option<f64>>] = &[
    (&families::gradients::GRAD_NORM_L2, |moments| Some(moments.square().sqrt())),
    (&families::gradients::GRAD_NORM_LINF, |moments| Some(moments.largest)),
    (&families::gradients::GRAD_MEAN_OVER_STD, GradientSums::mean_over_deviation),
    (&families::gradients::DEAD_FRAC, |moments| moments.is_finite().then_some(moments.dead)),
];

/// The family.
pub struct GradientsFamily;

impl MetricFamily for GradientsFamily {
    /// Sums of each parameter's gradient, on the steps that record them.
    type Inputs<'a> = Option<&'a [GradientSums]>;

    fn ids(setup: &MetricSetup<'_>) -> Vec<MetricId> {
        let of = |definition| family::ids_of(definition, setup.parameters.iter());
        STATISTICS.iter().flat_map(|(definition, _)| of(definition)).collect()
    }

    fn record(setup: &MetricSetup<'_>, moments: Option<&[GradientSums]>, record: &mut MetricRecord) {
        let Some(moments) = moments else { return };
        for (definition, value) in STATISTICS {
            for (layer, moments) in setup.parameters.iter().zip(moments) {
                record.push_some(Statistic::new(definition).of_layer(layer), value(moments));
            }
        }
    }
}

/// Sums of one parameter's gradient.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GradientSums {
    elements: f64,
    mean: f64,
    mean_square: f64,
    dead: f64,
    largest: f64,
}

impl GradientSums {
    /// Sum of squares.
    #[must_use]
    pub fn square(&self) -> f64 {
        self.elements * self.mean_square
    }

    /// Largest magnitude.
    #[must_use]
    pub fn largest(&self) -> f64 {
        self.largest
    }

    /// True if every element is finite, and so is their sum of squares.
    #[must_use]
    pub fn is_finite(&self) -> bool {
        self.mean.is_finite() && self.largest.is_finite() && self.mean_square.is_finite()
    }

    /// |mean| / (standard deviation + 1e-10); `None` if an element is not finite.
    fn mean_over_deviation(&self) -> Option<f64> {
        let deviation = (self.mean_square - self.mean * self.mean).max(0.0).sqrt();
        self.is_finite().then(|| self.mean.abs() / (deviation + 1e-10))
    }
}

/// The requested sums: the number of elements of each tensor, and the place of its sums.
pub type RequestedSums = Vec<(f64, Slot)>;

/// The requested moments of a batch of tensors: the place of its sums, and the number of elements and of slots of each
/// tensor.
pub type RequestedMoments = Vec<(Slot, Vec<(f64, usize)>)>;

/// Requests the moments of every parameter's gradient, `[n]` each.
#[must_use]
pub fn request_moments(grads: &[Tensor<1>], read_back: &mut ReadBack) -> RequestedMoments {
    let batches = grads.chunks(MOST).map(|grads| {
        let tensors = grads.iter().map(|grad| (elements(grad), ops::slots(grad)));
        (read_back.request(ops::moments(grads)), tensors.collect())
    });
    batches.collect()
}

/// The requested moments.
///
/// # Errors
/// The device returned another number of values.
pub fn moments(requested: &RequestedMoments, values: &Values) -> Result<Vec<GradientSums>, Diagnostic> {
    let mut moments = Vec::new();
    for (slot, tensors) in requested {
        let mut rest = values.rows(*slot)?;
        for &(elements, len) in tensors {
            let (slots, others) = rest.split_at_checked(len).ok_or_else(|| {
                Diagnostic::run(format!("the device returned {} sums of gradients, not {len}", rest.len()))
            })?;
            let [mean, mean_square, dead, _] = ops::means(slots);
            moments.push(GradientSums { elements, mean, mean_square, dead, largest: ops::largest(slots) });
            rest = others;
        }
    }
    Ok(moments)
}

pub(super) fn elements(tensor: &Tensor<1>) -> f64 {
    tensor.shape().num_elements() as f64
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use altgrad_config::MetricsSection;

    use super::{
        super::testing::{flat, layout, value},
        *,
    };
    use crate::quant::QuantPlan;

    #[test]
    fn by_parameter_by_hand() {
        let mut row = MetricRecord::new(0);
        let grads = [flat(&[3.0, -4.0]), flat(&[1.0, 0.0, 1.0, 0.0])];
        let mut read_back = ReadBack::default();
        let requested = request_moments(&grads, &mut read_back);
        let (layout, quant) = (layout(), QuantPlan::off());
        let setup = MetricSetup::new(&layout, &quant, MetricsSection::default(), true);
        let sums = moments(&requested, &read_back.read().unwrap()).unwrap();
        GradientsFamily::record(&setup, Some(&sums), &mut row);
        let expected = [
            ("grad_norm_l2/wte.weight", 5.0),
            ("grad_norm_l2/wpe.weight", 2f64.sqrt()),
            ("grad_norm_linf/wte.weight", 4.0),
            // Mean -1/2, standard deviation 7/2.
            ("grad_mean_over_std/wte.weight", 0.5 / (3.5 + 1e-10)),
            ("dead_frac/wpe.weight", 0.5),
        ];
        for (name, expected) in expected {
            let found = value(&row, name).unwrap();
            assert!((found - expected).abs() < 1e-6, "{name}: {found}");
        }
        assert_eq!(row.values.len(), GradientsFamily::ids(&setup).len());
        // Norms show what is not finite; the others have no value.
        let mut read_back = ReadBack::default();
        let asked = request_moments(&[flat(&[f32::NAN, 1.0]), flat(&[f32::INFINITY; 4])], &mut read_back);
        let sums = moments(&asked, &read_back.read().unwrap()).unwrap();
        let mut row = MetricRecord::new(0);
        GradientsFamily::record(&setup, Some(&sums), &mut row);
        assert!(row.values.iter().all(|(id, value)| id.to_string().contains("norm") && !value.is_finite()));
        assert_eq!(row.values.len(), 4);
    }
}
