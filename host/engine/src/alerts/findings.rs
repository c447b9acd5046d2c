//! What one record gives reason to worry about: the condition of each kind of alert.

use altgrad_config::AlertsSection;
use altgrad_metrics::{
    AlertDefinition, AlertKind, MetricDefinition, MetricId, MetricRecord, alert,
    families::{gradients::GRAD_NORM_L2, training},
};

use super::evaluation::Evaluation;

/// What a record says of one kind of alert.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Verdict {
    /// Nothing: it was not measured.
    Missing,
    /// All is well.
    Fine,
    /// It is not.
    Bad(Finding),
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Finding {
    pub(super) place: Option<String>,
    pub(super) value: Option<f64>,
    pub(super) text: String,
}

/// The metrics that have a threshold, by their worst value in the record.
pub(super) fn above_thresholds(
    record: &MetricRecord,
    alerts: &AlertsSection,
) -> impl Iterator<Item = (AlertKind, Verdict)> {
    alert::thresholds().into_iter().map(|(definition, alert)| {
        let limit = alerts.threshold(alert.kind).limit();
        let verdict = limit.map_or(Verdict::Missing, |limit| above(record, definition, alert, limit));
        (alert.kind, verdict)
    })
}

fn above(
    record: &MetricRecord,
    definition: &'static MetricDefinition,
    alert: &AlertDefinition,
    limit: f64,
) -> Verdict {
    let Some((id, value)) = worst(record, definition) else { return Verdict::Missing };
    if value <= limit {
        return Verdict::Fine;
    }
    let (unit, finding) = (definition.unit, alert.finding);
    let text = format!("{} {finding} in `{id}`, more than {}", unit.format(value), unit.format(limit));
    Verdict::Bad(Finding { place: Some(id.to_string()), value: Some(value), text })
}

/// The largest value of a definition and its metric. Of equal ones the last: layers come after their sums.
fn worst<'a>(record: &'a MetricRecord, definition: &'static MetricDefinition) -> Option<(&'a MetricId, f64)> {
    let of_it = record.values.iter().filter(|(id, _)| id.definition() == definition);
    let values = of_it.map(|(id, value)| (id, *value)).filter(|(_, value)| !value.is_nan());
    values.max_by(|(_, a), (_, b)| a.total_cmp(b))
}

/// Whether the step's loss and gradients are finite, separately.
pub(super) fn not_finite(record: &MetricRecord) -> [(AlertKind, Verdict); 2] {
    let verdict = |metric, what: &str, place: Option<String>| match value(record, metric) {
        None => Verdict::Missing,
        Some(value) if value.is_finite() => Verdict::Fine,
        Some(value) => {
            let first =
                place.as_ref().map_or(String::new(), |place| format!(", the first to show it is `{place}`"));
            let text = format!("{what} is {value}{first}");
            Verdict::Bad(Finding { place, value: None, text })
        }
    };
    let mut norms = record.values.iter().filter(|(id, _)| *id.definition() == GRAD_NORM_L2);
    let parameter = norms.find(|(_, value)| !value.is_finite()).map(|(id, _)| id.to_string());
    [
        (AlertKind::NanLoss, verdict(&training::LOSS, "the training loss", None)),
        (AlertKind::NanGrad, verdict(&training::GRAD_NORM, "the norm of the gradients", parameter)),
    ]
}

/// The evaluation in a record.
pub(super) fn held_out_loss(record: &MetricRecord) -> Option<f64> {
    value(record, &training::VAL_LOSS)
}

/// Whether an evaluation is worse than the one before; a loss that is not finite is.
pub(super) fn rising(loss: f64, previous: Option<f64>, best: Option<Evaluation>) -> Verdict {
    if loss.is_finite() && previous.is_none_or(|previous| loss <= previous) {
        return Verdict::Fine;
    }
    let than =
        best.map_or(String::new(), |best| format!(", the best was {:.4} at step {}", best.loss, best.step));
    let text = format!("the validation loss keeps rising: it is {loss:.4} nats/token{than}");
    let place = Some(training::VAL_LOSS.name.to_string());
    Verdict::Bad(Finding { place, value: Some(loss), text })
}

/// The value over the whole run.
fn value(record: &MetricRecord, definition: &'static MetricDefinition) -> Option<f64> {
    let id = MetricId::from(definition);
    record.values.iter().find(|(own, _)| *own == id).map(|(_, value)| *value)
}
