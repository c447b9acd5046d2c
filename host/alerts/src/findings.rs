//! The condition of each kind of alert, evaluated on one record.

use std::collections::BTreeMap;

use altgrad_config::AlertsSection;
use altgrad_metrics::{
    AlertDefinition, AlertKind, Condition, MetricDefinition, MetricId, MetricRecord, Over, Role, alert,
    families::{gradients::GRAD_NORM_L2, training},
};

use super::{
    evaluation::Evaluation,
    loss_window::{self, LEARNED, Rise},
};

/// The result of evaluating one kind of alert on a record.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Verdict {
    /// Not measured.
    Missing,
    /// All is well.
    Fine,
    /// It is not.
    Bad(Finding),
}

/// The condition that a record meets.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Finding {
    pub(super) place: Option<String>,
    pub(super) value: Option<f64>,
    pub(super) text: String,
}

/// The inputs of thresholds besides the record.
pub(super) struct Thresholds<'a> {
    /// The run file's.
    pub alerts: &'a AlertsSection,
    /// True if the learning rate is high, or unknown.
    pub is_rate_high: bool,
    /// The first values of metrics that have to grow, by name; a first value is written down.
    pub first: &'a mut BTreeMap<String, f64>,
}

impl Thresholds<'_> {
    /// The first value of a metric that has one now.
    fn first(&mut self, measured: &Measured<'_>) -> f64 {
        *self.first.entry(measured.id.to_string()).or_insert(measured.value)
    }
}

/// The metrics that have a threshold, by their worst value in the record.
pub(super) fn beyond_thresholds(
    record: &MetricRecord,
    mut thresholds: Thresholds<'_>,
) -> Vec<(AlertKind, Verdict)> {
    let verdict = |(definition, alert): (&'static MetricDefinition, &AlertDefinition)| {
        let limit = thresholds.alerts.threshold(alert.kind).limit();
        let verdict =
            limit.map_or(Verdict::Missing, |limit| beyond(record, definition, alert, limit, &mut thresholds));
        (alert.kind, verdict)
    };
    alert::thresholds().into_iter().map(verdict).collect()
}

fn beyond(
    record: &MetricRecord,
    definition: &'static MetricDefinition,
    alert: &AlertDefinition,
    limit: f64,
    thresholds: &mut Thresholds<'_>,
) -> Verdict {
    let of_it = record.values.iter().filter(|(id, value)| id.definition() == definition && !value.is_nan());
    let measured = of_it.map(|(id, value)| Measured { id, value: *value, held: *value }).collect();
    let measured = match candidates(record, measured, alert.condition, thresholds) {
        Some(measured) if measured.is_empty() => return Verdict::Fine,
        Some(measured) => measured,
        None => return Verdict::Missing,
    };
    let is_below =
        matches!(alert.condition, Condition::Below | Condition::BelowOfGradient | Condition::BelowFirst);
    let wrong = |value: f64, limit: f64| if is_below { value < limit } else { value > limit };
    // Of equal ones the last: layers come after their sums.
    let worst =
        measured.into_iter().reduce(|worst, next| if wrong(worst.held, next.held) { worst } else { next });
    let Some(Measured { id, value, .. }) = worst.filter(|worst| wrong(worst.held, limit)) else {
        return Verdict::Fine;
    };
    let (unit, finding) = (definition.unit, alert.finding);
    let than = match alert.condition {
        Condition::Below | Condition::BelowOfGradient => format!("less than {}", unit.format(limit)),
        Condition::BelowFirst => format!("less than {limit} times its first value"),
        Condition::Outside => format!("more than {limit} or less than its inverse"),
        _ => format!("more than {}", unit.format(limit)),
    };
    let text = format!("{} {finding} in `{id}`, {than}", unit.format(value));
    Verdict::Bad(Finding { place: Some(id.to_string()), value: Some(value), text })
}

/// A value of a metric.
#[derive(Clone, Copy)]
struct Measured<'a> {
    id: &'a MetricId,
    value: f64,
    /// The value that is compared with the threshold.
    held: f64,
}

/// The values that a condition holds against its threshold; `None` if nothing was measured that it needs.
fn candidates<'a>(
    record: &MetricRecord,
    mut values: Vec<Measured<'a>>,
    condition: Condition,
    thresholds: &mut Thresholds<'_>,
) -> Option<Vec<Measured<'a>>> {
    if matches!(condition, Condition::AboveAtHighRate) && !thresholds.is_rate_high {
        return None;
    }
    if matches!(
        condition,
        Condition::AboveAtHighRate | Condition::AboveAndDoubled | Condition::Below | Condition::Outside
    ) {
        values.retain(|measured| measured.id.over == Over::All);
    }
    match condition {
        Condition::Above | Condition::AboveAtHighRate | Condition::Below => {}
        Condition::AboveOverRole => {
            values.retain(|measured| measured.id.over == Over::All && measured.id.statistic.role.is_some())
        }
        Condition::BelowOfGradient => {
            values.retain(|measured| measured.id.statistic.role.is_some_and(Role::is_gradient));
        }
        Condition::Outside => {
            values.iter_mut().for_each(|measured| measured.held = measured.value.max(measured.value.recip()));
        }
        Condition::AboveWithNoise(sqnr) => {
            if let Some(least) = thresholds.alerts.sqnr_threshold.limit() {
                let known =
                    |measured: Measured<'a>| Some((sqnr_at(record, measured.id, sqnr)? < least, measured));
                let known: Vec<_> = values.into_iter().filter_map(known).collect();
                let noisy = known.iter().filter(|(noisy, _)| *noisy).map(|(_, measured)| *measured).collect();
                return (!known.is_empty()).then_some(noisy);
            }
        }
        Condition::AboveAndGrown | Condition::AboveAndDoubled => {
            let is_doubled = matches!(condition, Condition::AboveAndDoubled);
            let growth = if is_doubled { 2.0 } else { thresholds.alerts.kurtosis_growth };
            let grown = |measured: &Measured<'a>| measured.value >= thresholds.first(measured) * growth;
            let grown = values.iter().copied().filter(grown).collect();
            return (!values.is_empty()).then_some(grown);
        }
        Condition::BelowFirst => {
            values
                .iter_mut()
                .for_each(|measured| measured.held = measured.value / thresholds.first(measured));
        }
    }
    (!values.is_empty()).then_some(values)
}

/// The signal to noise in dB at a metric's role and layer.
fn sqnr_at(record: &MetricRecord, at: &MetricId, sqnr: &'static MetricDefinition) -> Option<f64> {
    let same = |id: &MetricId| {
        id.definition() == sqnr && id.over == at.over && id.statistic.role == at.statistic.role
    };
    record.values.iter().find(|(id, value)| same(id) && !value.is_nan()).map(|(_, value)| *value)
}

/// The learning rate of a step.
pub(super) fn learning_rate(record: &MetricRecord) -> Option<f64> {
    value(record, &training::LR)
}

/// The training loss of a step.
pub(super) fn training_loss(record: &MetricRecord) -> Option<f64> {
    value(record, &training::LOSS)
}

/// The verdict on a training loss that rose and stays high.
pub(super) fn rose(rise: Option<Rise>) -> Verdict {
    let Some(Rise { median, steps, lowest, since }) = rise else { return Verdict::Fine };
    let text = format!(
        "the training loss rose and stays there: its median over {steps} steps is {median:.4} nats/token, after {lowest:.4} at step {since}"
    );
    let place = Some(training::LOSS.name.to_string());
    Verdict::Bad(Finding { place, value: Some(median), text })
}

/// True if a model knows more than the frequencies of tokens: its training loss is below the unigram entropy of the
/// corpus, both in nats per token, or close to 0.
#[must_use]
pub fn has_learned(loss: f64, entropy: f64) -> bool {
    loss < entropy.max(LEARNED)
}

/// The verdict on the median of the training loss, compared with the unigram entropy of the corpus in nats
/// per token.
pub(super) fn learned_nothing(median: f64, entropy: f64) -> Verdict {
    if has_learned(median, entropy) {
        return Verdict::Fine;
    }
    let text = format!(
        "the model has learned nothing: the training loss, {median:.4} nats/token, is not below the corpus's unigram entropy, \
         {entropy:.4}"
    );
    let place = Some(training::LOSS.name.to_string());
    Verdict::Bad(Finding { place, value: Some(median), text })
}

/// Verdicts on non-finite values: of the step's loss, and of its gradients.
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

/// The verdict on an evaluation: its loss is higher than the previous one, and has risen above the best; a loss that is
/// not finite counts as higher.
pub(super) fn rising(loss: f64, previous: Option<f64>, best: Option<Evaluation>) -> Verdict {
    let is_higher = previous.is_some_and(|previous| loss > previous)
        && best.is_none_or(|best| loss_window::has_risen(loss, best.loss));
    if loss.is_finite() && !is_higher {
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
