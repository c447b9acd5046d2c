//! Alerts: conditions on a run's metrics that need attention.
//!
//! [`Alerts`] receives each step's record and the time; it has no other input and changes no state of the run. A kind
//! of alert fires when its condition held for enough measurements in a row, and not again before its cooldown is over.
//! What is missing from a record neither fires nor counts. The conditions are in the module `findings`.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod evaluation;
mod findings;
mod loss_window;
mod state;
#[cfg(test)]
mod tests;
pub mod twin;

use std::time::Duration;

use altgrad_config::AlertsSection;
pub use altgrad_metrics::{AlertKind, alert::Severity};
use altgrad_metrics::{MetricRecord, alert::HIGH_RATE};
use altgrad_plugin_api::AlertLevel;
use altgrad_run_folder::events::Event;

pub use evaluation::Evaluation;
pub use findings::has_learned;
use findings::{Finding, Thresholds, Verdict};
pub use state::AlertState;

/// One alert.
#[derive(Debug, Clone, PartialEq)]
pub struct Alert {
    /// The step of the record that gave rise to it.
    pub step: u64,
    /// The kind of alert.
    pub kind: AlertKind,
    /// The metric with the worst value; the name ends in the layer where one is responsible.
    pub place: Option<String>,
    /// The measured value of that metric.
    pub value: Option<f64>,
    /// One sentence.
    pub text: String,
}

impl From<Alert> for Event {
    fn from(alert: Alert) -> Self {
        let Alert { step, kind, place, value, text } = alert;
        let level = match kind.severity() {
            Severity::Information => AlertLevel::INFO,
            Severity::Warning => AlertLevel::WARN,
            Severity::Error => AlertLevel::ERROR,
        };
        Self { step, level, kind: kind.name(), text, place, value }
    }
}

/// Facts of a run that alerts need besides its records.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct AlertFacts {
    /// Steps until the learning rate has its full value.
    pub warmup_steps: u64,
    /// Unigram entropy of the corpus in nats per token: the loss of a model that uses only token frequencies.
    pub unigram_entropy: Option<f64>,
}

/// The alerts of a run.
#[derive(Debug, Clone, Default)]
pub struct Alerts {
    config: AlertsSection,
    facts: AlertFacts,
    state: AlertState,
}

impl Alerts {
    /// The alerts of a run that begins.
    #[must_use]
    pub fn new(config: AlertsSection) -> Self {
        Self { config, ..Self::default() }
    }

    /// The alerts of a resumed run.
    #[must_use]
    pub fn resumed(config: AlertsSection, state: AlertState) -> Self {
        Self { config, state, ..Self::default() }
    }

    /// The same alerts with facts of the run.
    #[must_use]
    pub fn with_facts(self, facts: AlertFacts) -> Self {
        Self { facts, ..self }
    }

    /// The facts of the run besides its records.
    #[must_use]
    pub fn facts(&self) -> AlertFacts {
        self.facts
    }

    /// The state of all kinds.
    #[must_use]
    pub fn state(&self) -> &AlertState {
        &self.state
    }

    /// The alerts that a record triggers, `now` after the run's start. Records come in the order of their steps.
    pub fn see(&mut self, record: &MetricRecord, now: Duration) -> Vec<Alert> {
        let config = self.config;
        let not_finite = findings::not_finite(record);
        self.count_nan(not_finite.each_ref().map(|(_, verdict)| verdict));
        let [rise, learning] = self.training_loss(record);
        let findings = not_finite.into_iter().chain([(AlertKind::Divergence, self.evaluation(record))]);
        let is_rate_high = self.is_rate_high(record);
        let thresholds = Thresholds { alerts: &config, is_rate_high, first: &mut self.state.first };
        let findings = findings.chain(findings::beyond_thresholds(record, thresholds));
        let findings = findings.chain([(AlertKind::LossRise, rise), (AlertKind::NoLearning, learning)]);
        let fired = findings.filter_map(|(kind, verdict)| {
            let Finding { place, value, text } = self.weigh(kind, verdict, now)?;
            Some(Alert { step: record.step, kind, place, value, text })
        });
        let fired = fired.collect();
        if self.run_is_lost() || self.loss_keeps_rising() {
            self.state.diverged_at.get_or_insert(record.step);
        }
        fired
    }

    /// True if loss or gradients were NaN or infinite for so many steps that the run is lost.
    #[must_use]
    pub fn run_is_lost(&self) -> bool {
        self.config.nan_patience > 0 && self.state.nan_steps >= self.config.nan_patience
    }

    /// The step at which the run was found to diverge, or was lost to NaN.
    #[must_use]
    pub fn diverged_at(&self) -> Option<u64> {
        self.state.diverged_at
    }

    /// Steps in a row, up to the last record, whose loss or gradients were NaN or infinite.
    #[must_use]
    pub fn nan_steps(&self) -> u64 {
        self.state.nan_steps
    }

    /// The lowest held-out loss so far. NaN is never the best.
    #[must_use]
    pub fn best(&self) -> Option<Evaluation> {
        self.state.best
    }

    /// True if the condition of a kind held in as many consecutive measurements, up to the last record, as its patience
    /// requires. Cooldowns and the clock have no influence.
    #[must_use]
    pub fn holds(&self, kind: AlertKind) -> bool {
        let streak = self.state.kinds.get(&kind).map_or(0, |state| state.streak);
        streak > 0 && streak >= self.patience(kind)
    }

    fn patience(&self, kind: AlertKind) -> u64 {
        match kind {
            AlertKind::NanLoss | AlertKind::NanGrad => 1,
            // A window of steps replaces the patience.
            AlertKind::LossRise | AlertKind::NoLearning => 1,
            AlertKind::Divergence => self.config.divergence_patience,
            _ => self.config.patience,
        }
    }

    /// The number of alerts of each kind; kinds without an alert are left out.
    pub fn counts(&self) -> impl Iterator<Item = (AlertKind, u64)> {
        let counts = self.state.kinds.iter().map(|(kind, state)| (*kind, state.fired));
        counts.filter(|(_, fired)| *fired > 0)
    }

    fn loss_keeps_rising(&self) -> bool {
        let patience = self.config.divergence_patience;
        patience > 0
            && self.state.kinds.get(&AlertKind::Divergence).is_some_and(|kind| kind.streak >= patience)
    }

    /// True after warm-up if the learning rate is at least a share of its largest value so far, or unknown.
    fn is_rate_high(&mut self, record: &MetricRecord) -> bool {
        let lr = findings::learning_rate(record);
        self.state.largest_lr = lr.into_iter().fold(self.state.largest_lr, f64::max);
        let is_low = lr.is_some_and(|lr| lr < HIGH_RATE * self.state.largest_lr);
        record.step >= self.facts.warmup_steps && !is_low
    }

    /// Counts steps in a row without a finite loss or gradient.
    fn count_nan(&mut self, verdicts: [&Verdict; 2]) {
        if verdicts.iter().any(|verdict| matches!(verdict, Verdict::Bad(_))) {
            self.state.nan_steps += 1;
        } else if verdicts.iter().any(|verdict| matches!(verdict, Verdict::Fine)) {
            self.state.nan_steps = 0;
        }
    }

    /// The verdict on the record's evaluation, if it holds one.
    fn evaluation(&mut self, record: &MetricRecord) -> Verdict {
        let Some(loss) = findings::held_out_loss(record) else { return Verdict::Missing };
        let verdict = findings::rising(loss, self.state.previous, self.state.best);
        // Without a rise of the training loss the model only generalizes less.
        let verdict = match self.state.training_loss.has_risen() {
            Some(false) if loss.is_finite() => Verdict::Fine,
            _ => verdict,
        };
        self.state.previous = loss.is_finite().then_some(loss);
        if !loss.is_nan() && self.state.best.is_none_or(|best| loss < best.loss) {
            self.state.best = Some(Evaluation { step: record.step, loss });
        }
        if self.config.divergence_patience == 0 { Verdict::Missing } else { verdict }
    }

    /// The verdicts on the record's training loss: whether it rose, and whether the model learned anything.
    fn training_loss(&mut self, record: &MetricRecord) -> [Verdict; 2] {
        let loss = findings::training_loss(record);
        let Some(median) = loss.and_then(|loss| self.state.training_loss.add(record.step, loss)) else {
            return [Verdict::Missing, Verdict::Missing];
        };
        let limit = self.config.loss_rise_threshold.limit();
        let rise = limit.map(|limit| findings::rose(self.state.training_loss.rise(median, limit)));
        let steps = self.config.no_learning_steps;
        let is_due = steps > 0 && record.step >= self.facts.warmup_steps.saturating_add(steps);
        let entropy = self.facts.unigram_entropy.filter(|_| is_due);
        let learning = entropy.map(|entropy| findings::learned_nothing(median, entropy));
        [rise, learning].map(|verdict| verdict.unwrap_or(Verdict::Missing))
    }

    /// The finding, if it lasted long enough and its kind has not fired lately.
    fn weigh(&mut self, kind: AlertKind, verdict: Verdict, now: Duration) -> Option<Finding> {
        let patience = self.patience(kind);
        let cooldown_s = match kind {
            AlertKind::NanLoss | AlertKind::NanGrad => self.config.nan_cooldown_s,
            _ => self.config.cooldown_s,
        };
        let state = self.state.kinds.entry(kind).or_default();
        let finding = match verdict {
            Verdict::Missing => return None,
            Verdict::Fine => {
                state.streak = 0;
                return None;
            }
            Verdict::Bad(finding) => finding,
        };
        state.streak += 1;
        let since = state.fired_at.map(|at| now.saturating_sub(at).as_secs_f64());
        if state.streak < patience || since.is_some_and(|since| since < cooldown_s) {
            return None;
        }
        state.fired_at = Some(now);
        state.fired += 1;
        Some(finding)
    }
}
