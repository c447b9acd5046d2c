//! The filter of alerts: those that are urgent enough, and not repeated before the cooldown of their kind is over.
//!
//! Servers and official client do not throttle. Omitted alerts are counted, and the next alert of the kind has the
//! count.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use altgrad_plugin_api::{Alert, AlertLevel};

use crate::index::SpooledAlert;

/// Longest title a server takes whole, in characters.
const MAX_TITLE: usize = 63;

/// The time when each kind was last sent, and the number of omitted alerts since.
#[derive(Debug)]
pub(crate) struct Alerts {
    least: AlertLevel,
    cooldown: Duration,
    sent: HashMap<String, (Instant, u64)>,
}

/// The server's word for a level; of one of a later version, the most urgent.
fn severity(level: AlertLevel) -> &'static str {
    match level {
        AlertLevel::INFO => "INFO",
        AlertLevel::WARN => "WARN",
        _ => "ERROR",
    }
}

impl Alerts {
    pub(crate) fn new(least: AlertLevel, cooldown: Duration) -> Self {
        Self { least, cooldown, sent: HashMap::new() }
    }

    /// The alert as it is sent, if it is.
    pub(crate) fn pass(&mut self, alert: &Alert<'_>) -> Option<SpooledAlert> {
        if alert.level.0 < self.least.0 {
            return None;
        }
        let now = Instant::now();
        let kind = alert.kind.as_str();
        let mut left_out = 0;
        if let Some((last, count)) = self.sent.get_mut(kind) {
            if now.duration_since(*last) < self.cooldown {
                *count += 1;
                return None;
            }
            left_out = *count;
        }
        self.sent.insert(kind.to_string(), (now, 0));
        let more =
            if left_out > 0 { format!(" ({left_out} more since the last one)") } else { String::new() };
        Some(SpooledAlert {
            step: alert.step,
            kind: kind.to_string(),
            title: format!("altgrad: {kind}").chars().take(MAX_TITLE).collect(),
            text: format!("step {}: {}{more}", alert.step, alert.text),
            severity: severity(alert.level).to_string(),
            wait_ms: self.cooldown.as_millis() as u64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alert(level: AlertLevel) -> Alert<'static> {
        Alert { step: 7, level, kind: "overflow".into(), text: "much".into() }
    }

    #[test]
    fn a_kind_rests_for_its_cooldown_and_then_says_what_was_left_out() {
        let mut alerts = Alerts::new(AlertLevel::WARN, Duration::from_millis(40));
        assert_eq!(alerts.pass(&alert(AlertLevel::INFO)), None);
        let first =
            alerts.pass(&alert(AlertLevel::WARN)).map(|alert| (alert.text, alert.severity, alert.wait_ms));
        assert_eq!(first, Some(("step 7: much".into(), "WARN".into(), 40)));
        assert_eq!(alerts.pass(&alert(AlertLevel::ERROR)), None);
        std::thread::sleep(Duration::from_millis(60));
        let text = alerts.pass(&alert(AlertLevel::ERROR)).map(|alert| alert.text);
        assert_eq!(text.as_deref(), Some("step 7: much (1 more since the last one)"));
    }
}
