//! The alerts of a record, and the state that is kept for those of failures.

use altgrad_alerts::{Alert, AlertKind, Severity};
use altgrad_plugin_api::AlertLevel;
use altgrad_run_folder::events::Event;

use super::run::Run;
use crate::{checkpoint::CheckpointKind, metrics::MetricRecord};

impl Run<'_> {
    /// Raises the alerts of a record. Returns whether the run has just been found to diverge.
    pub(super) fn raise_alerts(&mut self, record: &MetricRecord) -> bool {
        let known = self.report.alerts.best();
        let mut diverged = false;
        for alert in self.report.alerts.see(record, self.elapsed()) {
            if alert.kind.severity() == Severity::Error {
                diverged |= self.raise_anomaly(alert);
            } else {
                self.logger.log_alert(alert.into());
            }
        }
        if let Some(best) = self.report.alerts.best().filter(|best| known != Some(*best)) {
            let text = format!("the best validation loss so far: {:.4} nats/token", best.loss);
            let event = Event::new(best.step, AlertLevel::INFO, "best", text);
            self.logger.log_event(Event { value: Some(best.loss), ..event });
        }
        diverged && !self.non_finite.is_active()
    }

    /// Handles a failure whose state should be kept for inspection: the alert names the first non-finite tensor, if
    /// there is one, and the state before it is kept.
    fn raise_anomaly(&mut self, alert: Alert) -> bool {
        let not_finite = matches!(alert.kind, AlertKind::NanLoss | AlertKind::NanGrad);
        let mut event = Event::from(alert);
        if not_finite && let Some((step, first)) = self.non_finite.first() {
            event.text = format!("{}; it began at step {step} in {first}", event.text);
            event.place = Some(first.place.to_string());
        }
        self.logger.log_alert(event);
        if not_finite && let Some((before, tensors)) = self.non_finite.take_state() {
            self.checkpoint(CheckpointKind::Anomaly, None, before, tensors);
        }
        !not_finite
    }
}
