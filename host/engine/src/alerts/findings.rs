//! What one record gives reason to worry about: the condition of each kind of alert.

use altgrad_config::{AlertsSection, Threshold};

use super::{Evaluation, Kind};
use crate::metrics::{MetricName, MetricRecord, train};

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

/// A statistic that should stay below a threshold, wherever it is measured.
struct Watched {
    kind: Kind,
    /// The part of a metric's name that names it: `quant/weight/overflow_rate/h.0.attn.c_attn.weight`.
    statistic: &'static str,
    threshold: fn(&AlertsSection) -> Threshold,
    /// What a value and its threshold are said as.
    unit: Unit,
    /// What there is too much of.
    what: &'static str,
}

#[derive(Clone, Copy)]
enum Unit {
    Share,
    Number,
}

impl Unit {
    fn say(self, value: f64) -> String {
        match self {
            Self::Share => format!("{} %", (value * 1e5).round() / 1e3),
            Self::Number => format!("{}", (value * 1e3).round() / 1e3),
        }
    }
}

const WATCHED: [Watched; 5] = [
    Watched {
        kind: Kind::BitStall,
        statistic: "bit_stall_rate",
        threshold: |alerts| alerts.bit_stall_threshold,
        unit: Unit::Share,
        what: "of the elements with a gradient keep their code",
    },
    Watched {
        kind: Kind::Overflow,
        statistic: "overflow_rate",
        threshold: |alerts| alerts.overflow_threshold,
        unit: Unit::Share,
        what: "of the elements are beyond the format's largest value",
    },
    Watched {
        kind: Kind::Underflow,
        statistic: "underflow_rate",
        threshold: |alerts| alerts.underflow_threshold,
        unit: Unit::Share,
        what: "of the non-zero elements become zero",
    },
    Watched {
        kind: Kind::CodeSaturation,
        statistic: "overflow_rate",
        threshold: |alerts| alerts.code_saturation_threshold,
        unit: Unit::Share,
        what: "of the elements share the largest code",
    },
    Watched {
        kind: Kind::Kurtosis,
        statistic: "kurtosis",
        threshold: |alerts| alerts.kurtosis_threshold,
        unit: Unit::Number,
        what: "is the kurtosis",
    },
];

/// The statistics that have a threshold, by their worst value in the record.
pub(super) fn above_thresholds(
    record: &MetricRecord,
    alerts: &AlertsSection,
) -> impl Iterator<Item = (Kind, Verdict)> {
    WATCHED.iter().map(|watched| {
        let limit = (watched.threshold)(alerts).limit();
        let verdict = limit.map_or(Verdict::Missing, |limit| watched.verdict(record, limit));
        (watched.kind, verdict)
    })
}

impl Watched {
    fn verdict(&self, record: &MetricRecord, limit: f64) -> Verdict {
        let Some((name, value)) = worst(record, self.statistic) else { return Verdict::Missing };
        if value <= limit {
            return Verdict::Fine;
        }
        let (unit, what) = (self.unit, self.what);
        let text = format!("{} {what} in `{name}`, more than {}", unit.say(value), unit.say(limit));
        Verdict::Bad(Finding { place: Some(name.to_string()), value: Some(value), text })
    }
}

/// The largest value of a statistic and its metric's name. Of equal ones the last: layers come after their sums.
fn worst<'a>(record: &'a MetricRecord, statistic: &str) -> Option<(&'a str, f64)> {
    let of_it = record.values.iter().filter(|(name, _)| name.name.split('/').any(|part| part == statistic));
    let values = of_it.map(|(name, value)| (name.name.as_ref(), *value)).filter(|(_, value)| !value.is_nan());
    values.max_by(|(_, a), (_, b)| a.total_cmp(b))
}

/// Whether the step's loss and gradients are finite, separately.
pub(super) fn not_finite(record: &MetricRecord) -> [(Kind, Verdict); 2] {
    let verdict = |name: MetricName, what: &str, place: Option<&str>| match value(record, &name) {
        None => Verdict::Missing,
        Some(value) if value.is_finite() => Verdict::Fine,
        Some(value) => {
            let first = place.map_or(String::new(), |place| format!(", the first to show it is `{place}`"));
            let text = format!("{what} is {value}{first}");
            Verdict::Bad(Finding { place: place.map(str::to_string), value: None, text })
        }
    };
    let by_parameter = record.values.iter().find(|(name, value)| {
        name.name.split_once('/').is_some_and(|(family, _)| family == "grad_norm_l2") && !value.is_finite()
    });
    let parameter = by_parameter.map(|(name, _)| name.name.as_ref());
    [
        (Kind::NanLoss, verdict(train::LOSS, "the training loss", None)),
        (Kind::NanGrad, verdict(train::GRAD_NORM, "the norm of the gradients", parameter)),
    ]
}

/// The evaluation in a record.
pub(super) fn held_out_loss(record: &MetricRecord) -> Option<f64> {
    value(record, &train::VAL_LOSS)
}

/// Whether an evaluation is worse than the one before; a loss that is not finite is.
pub(super) fn rising(loss: f64, previous: Option<f64>, best: Option<Evaluation>) -> Verdict {
    if loss.is_finite() && previous.is_none_or(|previous| loss <= previous) {
        return Verdict::Fine;
    }
    let than =
        best.map_or(String::new(), |best| format!(", the best was {:.4} at step {}", best.loss, best.step));
    let text = format!("the validation loss keeps rising: it is {loss:.4} nats/token{than}");
    let place = Some(train::VAL_LOSS.name.into_owned());
    Verdict::Bad(Finding { place, value: Some(loss), text })
}

fn value(record: &MetricRecord, name: &MetricName) -> Option<f64> {
    record.values.iter().find(|(own, _)| own == name).map(|(_, value)| *value)
}
