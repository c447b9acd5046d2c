//! Curvature of the loss at the weights.

use super::macros::metrics;
use crate::{
    definition::{Due, FamilyDefinition, MetricDefinition, Scope, ValueRange},
    family::Family,
    report_use::ReportUse,
};

/// The family.
pub static FAMILY: FamilyDefinition = FamilyDefinition {
    title: "Curvature",
    text: "Curvature of the loss at the weights before the step's update, on a fixed sample of the training split. The Hessian is \
           that of the unrounded loss; gradients of sequences are rounded as in training.",
    metrics: METRICS,
};

const CURVATURE: MetricDefinition =
    MetricDefinition { due: Due::Curvature, ..MetricDefinition::new(Family::Curvature) };

metrics! {
    /// Eigenvalue of the Hessian of largest magnitude, by power iteration. Missing if it has not converged after
    /// `curvature.iterations` products.
    LARGEST_EIGENVALUE = { name: "curvature/largest_eigenvalue", report: ReportUse::CURVE, ..CURVATURE };
    /// Trace of the Hessian, or of a parameter's diagonal block of it, by Hutchinson's estimator.
    HESSIAN_TRACE = {
        name: "curvature/hessian_trace",
        scopes: &[Scope::Run, Scope::Layer],
        report: ReportUse::CURVE,
        ..CURVATURE
    };
    /// Standard error of the trace of the Hessian over the random vectors. Missing with `curvature.draws = 1`.
    HESSIAN_TRACE_ERROR = {
        name: "curvature/hessian_trace_error",
        range: ValueRange::AtLeast(0),
        ..CURVATURE
    };
    /// Trace of the empirical Fisher matrix, or of a parameter's diagonal block of it: the mean squared norm of the
    /// gradients of single sequences.
    FISHER_TRACE = {
        name: "curvature/fisher_trace",
        scopes: &[Scope::Run, Scope::Layer],
        range: ValueRange::AtLeast(0),
        report: ReportUse::CURVE,
        ..CURVATURE
    };
    /// Gradient noise scale, in sequences: the batch size at which gradient and noise have equal norms
    /// (arXiv:1812.06162). Missing if the sample's gradient is hidden in its noise.
    NOISE_SCALE = {
        name: "curvature/noise_scale",
        range: ValueRange::AtLeast(0),
        report: ReportUse::CURVE,
        ..CURVATURE
    };
}
