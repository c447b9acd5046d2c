//! The curvature of the loss, on the steps that measure it; [`crate::curvature`] computes it.

use altgrad_metrics::{
    MetricDefinition, MetricId, MetricRecord, Statistic,
    families::curvature::{
        FISHER_TRACE, HESSIAN_TRACE, HESSIAN_TRACE_ERROR, LARGEST_EIGENVALUE, NOISE_SCALE,
    },
};

use super::family::{self, Formula, MetricFamily, MetricSetup};
use crate::curvature::{Curvature, LayerCurvature};

/// Values of the whole model.
static WHOLE: &[Formula<Curvature, Option<f64>>] = &[
    (&LARGEST_EIGENVALUE, |of| Some(of.largest_eigenvalue.filter(|found| found.converged)?.value)),
    (&HESSIAN_TRACE, |of| Some(of.trace.mean)),
    (&HESSIAN_TRACE_ERROR, |of| of.trace.standard_error),
    (&FISHER_TRACE, |of| Some(of.fisher_trace)),
    (&NOISE_SCALE, |of| of.noise_scale?.sequences()),
];

/// Values of a parameter.
static LAYERS: &[Formula<LayerCurvature, f64>] =
    &[(&HESSIAN_TRACE, |of| of.trace.mean), (&FISHER_TRACE, |of| of.fisher_trace)];

/// The family.
pub struct CurvatureFamily;

impl MetricFamily for CurvatureFamily {
    /// The measurement, on the steps that make one.
    type Inputs<'a> = Option<&'a Curvature>;

    fn ids(setup: &MetricSetup<'_>) -> Vec<MetricId> {
        let of = |definition: &'static MetricDefinition| family::ids_of(definition, setup.parameters.iter());
        WHOLE.iter().flat_map(|(definition, _)| of(definition)).collect()
    }

    fn record(setup: &MetricSetup<'_>, curvature: Option<&Curvature>, record: &mut MetricRecord) {
        let Some(curvature) = curvature else { return };
        for (definition, value) in WHOLE {
            record.push_some(Statistic::new(definition), value(curvature));
        }
        for (definition, value) in LAYERS {
            for (layer, of) in setup.parameters.iter().zip(&curvature.layers) {
                record.push(Statistic::new(definition).of_layer(layer), value(of));
            }
        }
    }
}
