//! The similarity of each gradient to the unquantized gradient of the same batch and weights.

use altgrad_base::diagnostic::Diagnostic;
use altgrad_metrics::{
    MetricDefinition, MetricId, MetricRecord, Over, Statistic,
    families::fidelity::{GRAD_COS_SIM, GRAD_NORM_RATIO, GRAD_SIGN_AGREE, GRAD_SIGNAL_TO_NOISE},
};
use burn::tensor::Tensor;

use super::{
    family::{self, MetricFamily, MetricSetup},
    gradients::{RequestedSums, elements},
    ops,
};
use crate::read_back::{ReadBack, Values};

/// A statistic of the sums over a gradient and its shadow, and of their L2 norms, own and shadow; `None` where it has
/// no value.
type Formula = fn(&Agreement, f64, f64) -> Option<f64>;

/// Smallest resolved squared norm of a difference, over that of the gradient.
const RESOLVED: f64 = 1e-5;

/// Statistics of all parameters together, as mean and minimum over parameters, and of each
/// parameter.
static STATISTICS: &[(&MetricDefinition, Formula)] = &[
    (&GRAD_COS_SIM, |sums, own, shadow| Some(sums.product / (own * shadow))),
    (&GRAD_NORM_RATIO, |_, own, shadow| Some(own / shadow)),
    (&GRAD_SIGN_AGREE, |sums, _, _| Some(sums.equal_signs / sums.elements)),
    (&GRAD_SIGNAL_TO_NOISE, |sums, _, shadow| sums.noise().map(|noise| shadow / noise)),
];

/// The family.
pub struct FidelityFamily;

impl MetricFamily for FidelityFamily {
    /// The agreement of each parameter's gradient with its shadow, on shadow steps.
    type Inputs<'a> = Option<&'a [Agreement]>;

    fn ids(setup: &MetricSetup<'_>) -> Vec<MetricId> {
        let of = |definition| family::ids_of(definition, setup.parameters.iter());
        STATISTICS.iter().flat_map(|(definition, _)| of(definition)).collect()
    }

    /// No value where a gradient or its shadow is zero or not finite.
    fn record(setup: &MetricSetup<'_>, agreement: Option<&[Agreement]>, record: &mut MetricRecord) {
        let Some(agreement) = agreement else { return };
        let all = agreement.iter().fold(Agreement::default(), Agreement::add);
        for &(definition, formula) in STATISTICS {
            let statistic = Statistic::new(definition);
            let each: Vec<Option<f64>> = agreement.iter().map(|sums| sums.value(formula)).collect();
            let values: Vec<f64> = each.iter().flatten().copied().collect();
            let mean = (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
            let least = values.iter().copied().reduce(f64::min);
            record.push_some(statistic, all.value(formula));
            record.push_some(statistic.over(Over::MeanOfLayers), mean);
            record.push_some(statistic.over(Over::LeastOfLayers), least);
            for (layer, value) in setup.parameters.iter().zip(each) {
                record.push_some(statistic.of_layer(layer), value);
            }
        }
    }
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

    /// The value of a statistic, which is given the two norms; `None` if one is zero or not finite.
    fn value(&self, statistic: Formula) -> Option<f64> {
        let norms = [self.own_square.sqrt(), self.shadow_square.sqrt()];
        let [own, shadow] = norms;
        if norms.iter().all(|norm| norm.is_normal()) { statistic(self, own, shadow) } else { None }
    }

    /// The L2 norm of the difference of the two; `None` if the sums, which are of f32 accuracy, do not resolve it.
    fn noise(&self) -> Option<f64> {
        let square = self.own_square + self.shadow_square - 2.0 * self.product;
        (square > RESOLVED * self.shadow_square).then(|| square.sqrt())
    }
}

/// Requests the agreement of every gradient with its shadow, `[n]` each.
#[must_use]
pub fn request_agreement(
    grads: &[Tensor<1>],
    shadow: &[Tensor<1>],
    read_back: &mut ReadBack,
) -> RequestedSums {
    let pairs = grads.iter().zip(shadow);
    pairs.map(|(grad, shadow)| (elements(grad), read_back.request(ops::agreement(grad, shadow)))).collect()
}

/// The requested agreement.
///
/// # Errors
/// The device returned another number of values.
pub fn agreement(requested: &RequestedSums, values: &Values) -> Result<Vec<Agreement>, Diagnostic> {
    let agreement = requested.iter().map(|&(elements, slot)| {
        let means = ops::means(values.rows(slot)?);
        let [product, own_square, shadow_square, equal_signs] = means.map(|mean| mean * elements);
        Ok(Agreement { product, own_square, shadow_square, equal_signs, elements })
    });
    agreement.collect()
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
    fn fidelity_by_hand() {
        let mut row = MetricRecord::new(0);
        let (grads, shadow) = ([flat(&[1.0, 1.0]), flat(&[0.0])], [flat(&[2.0, 0.0]), flat(&[5.0])]);
        let mut read_back = ReadBack::default();
        let requested = request_agreement(&grads, &shadow, &mut read_back);
        let (layout, quant) = (layout(), QuantPlan::off());
        let setup = MetricSetup::new(&layout, &quant, MetricsSection::default(), true);
        let sums = agreement(&requested, &read_back.read().unwrap()).unwrap();
        FidelityFamily::record(&setup, Some(&sums), &mut row);
        let cosine = 0.5f64.sqrt();
        let expected = [
            ("grad_cos_sim/wte.weight", Some(cosine)),
            ("grad_norm_ratio/wte.weight", Some(cosine)),
            ("grad_sign_agree/wte.weight", Some(0.5)),
            // |(2, 0)| over |(1, 1) - (2, 0)|.
            ("grad_signal_to_noise/wte.weight", Some(2f64.sqrt())),
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

    #[test]
    fn gradients_that_are_not_finite_agree_with_nothing() {
        let recorded = |grad: [f32; 2], shadow: [f32; 2]| {
            let mut read_back = ReadBack::default();
            let asked = request_agreement(&[flat(&grad)], &[flat(&shadow)], &mut read_back);
            let (layout, quant) = (layout(), QuantPlan::off());
            let setup = MetricSetup::new(&layout, &quant, MetricsSection::default(), true);
            let sums = agreement(&asked, &read_back.read().unwrap()).unwrap();
            let mut row = MetricRecord::new(0);
            FidelityFamily::record(&setup, Some(&sums), &mut row);
            row.values.len()
        };
        let (nan, infinity) = ([f32::NAN; 2], [f32::INFINITY, 1.0]);
        assert!(recorded([1.0, 2.0], [1.0, 3.0]) > 0);
        for (grad, shadow) in [(nan, nan), (nan, [1.0, 2.0]), ([1.0, 2.0], nan), (infinity, infinity)] {
            assert_eq!(recorded(grad, shadow), 0, "{grad:?} {shadow:?}");
        }
    }

    #[test]
    fn equal_gradients_have_no_noise_to_divide_by() {
        let mut read_back = ReadBack::default();
        let grads = [flat(&[0.1, -3.0, 7.0])];
        let requested = request_agreement(&grads, &grads.clone(), &mut read_back);
        let sums = agreement(&requested, &read_back.read().unwrap()).unwrap();
        assert_eq!(sums[0].noise(), None);
    }
}
