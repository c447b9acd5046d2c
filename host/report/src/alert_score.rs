//! Accuracy of alerts: each run is compared with its unquantized baseline, to count failing runs with an alert and
//! healthy runs without.
//!
//! A baseline has the same seed, data, model and length. The losses of both are compared by the median of their last
//! [`WINDOW`] training losses. A run fails if its median ends more than [`MARGIN`] above its baseline's, or if its loss
//! stops being finite; all others are healthy. The failure begins at the step from which on the median stays that much
//! above.

use std::collections::BTreeMap;

use altgrad_base::statistics::median;
use serde::Serialize;

use super::{alert_replay::AlertReplay, run::Run, sets};

/// Steps of a median.
pub const WINDOW: usize = 40;
/// A run fails if its median loss exceeds its baseline's by more than this share.
pub const MARGIN: f64 = 0.05;
/// The outcome of a run, compared with its baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScoredRun {
    /// Number of the baseline among the runs.
    pub baseline: usize,
    /// Last median of the loss over the baseline's; missing if the loss is not finite.
    pub ratio: Option<f64>,
    /// The step at which the failure begins; missing for a healthy run.
    pub fails_from: Option<u64>,
}

impl ScoredRun {
    fn of(baseline: usize, own: &[(u64, f64)], of_baseline: &[(u64, f64)]) -> Option<Self> {
        let not_finite = own.iter().find(|(_, loss)| !loss.is_finite()).map(|(step, _)| *step);
        let of_baseline: BTreeMap<u64, f64> = medians(of_baseline).into_iter().collect();
        let ratios = medians(own);
        let ratios: Vec<(u64, f64)> = ratios
            .into_iter()
            .filter_map(|(step, loss)| Some((step, loss / of_baseline.get(&step)?)))
            .collect();
        let above = ratios.iter().rev().take_while(|(_, ratio)| *ratio > 1.0 + MARGIN).last();
        let fails_from = above.map(|(step, _)| *step).into_iter().chain(not_finite).min();
        let ratio = ratios.last().map(|(_, ratio)| *ratio).filter(|_| not_finite.is_none());
        (ratio.is_some() || not_finite.is_some()).then_some(Self { baseline, ratio, fails_from })
    }
}

/// The median of the last [`WINDOW`] losses at each step that has as many, up to the first that is not finite.
fn medians(losses: &[(u64, f64)]) -> Vec<(u64, f64)> {
    let finite = losses.iter().position(|(_, loss)| !loss.is_finite()).unwrap_or(losses.len());
    let of_window = |window: &[(u64, f64)]| {
        let (step, _) = window.last()?;
        Some((*step, median(window.iter().map(|(_, loss)| *loss))?))
    };
    losses[..finite].windows(WINDOW).filter_map(of_window).collect()
}

/// The baseline of each run among those named `baseline`, where `*` matches any characters; a run has none if the named
/// runs of its seed, data, model and length are not exactly one.
#[must_use]
pub fn baselines(runs: &[Run], baseline: &str) -> Vec<Option<usize>> {
    let named = wildmatch::WildMatch::new(baseline);
    let keys: Vec<_> = runs.iter().map(|run| (run.seed(), sets::set_keys(&run.config))).collect();
    let baseline_of = |own: usize| {
        let mut baselines =
            (0..runs.len()).filter(|at| named.matches(&runs[*at].name) && keys[*at] == keys[own]);
        baselines.next().filter(|_| baselines.next().is_none())
    };
    (0..runs.len()).map(baseline_of).collect()
}

/// The outcome of each run; `None` without a baseline, or with less than a window of common steps.
#[must_use]
pub fn outcomes(baselines: &[Option<usize>], replays: &[Option<AlertReplay>]) -> Vec<Option<ScoredRun>> {
    let outcome = |(own, baseline): (usize, &Option<usize>)| {
        let (baseline, replay) = ((*baseline)?, replays[own].as_ref()?);
        ScoredRun::of(baseline, &replay.losses, &replays[baseline].as_ref()?.losses)
    };
    baselines.iter().enumerate().map(outcome).collect()
}

/// The score of a set of runs. Alerts are warnings and errors; information does not count.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Score {
    /// Runs that are healthy compared with their baseline.
    pub healthy: usize,
    /// Kinds of alerts that healthy runs raised, each counted once per run.
    pub false_alarms: usize,
    /// Healthy runs that raised any.
    pub alarmed: usize,
    /// Runs that fail.
    pub failing: usize,
    /// Failing runs that raised an alert at all.
    pub detected: usize,
    /// Failing runs that raised an alert before the step at which their failure begins.
    pub detected_before: usize,
    /// Steps from the first alert to the step at which the failure begins, of the failing runs that raised one,
    /// ascending.
    pub lead_steps: Vec<i64>,
    /// Healthy runs by kind of alert.
    pub false_by_kind: BTreeMap<&'static str, usize>,
    /// Failing runs by the kind that came first.
    pub first_by_kind: BTreeMap<&'static str, usize>,
}

impl Score {
    /// The score of runs with an outcome.
    #[must_use]
    pub fn of(replays: &[Option<AlertReplay>], outcomes: &[Option<ScoredRun>]) -> Self {
        let mut score = Self::default();
        for (replay, outcome) in replays.iter().zip(outcomes) {
            if let (Some(replay), Some(outcome)) = (replay, outcome) {
                score.add(replay, outcome);
            }
        }
        score.lead_steps.sort_unstable();
        score
    }

    fn add(&mut self, replay: &AlertReplay, outcome: &ScoredRun) {
        let Some(fails_from) = outcome.fails_from else {
            self.healthy += 1;
            self.alarmed += usize::from(replay.warnings().next().is_some());
            for alert in replay.warnings() {
                self.false_alarms += 1;
                *self.false_by_kind.entry(alert.kind.name()).or_default() += 1;
            }
            return;
        };
        self.failing += 1;
        let Some(first) = replay.warnings().next() else { return };
        self.detected += 1;
        // A loss that stops being finite gives no earlier sign of itself than the step at which it does.
        let is_before = first.step < fails_from || (outcome.ratio.is_none() && first.step == fails_from);
        self.detected_before += usize::from(is_before);
        self.lead_steps.push(fails_from.cast_signed() - first.step.cast_signed());
        *self.first_by_kind.entry(first.kind.name()).or_default() += 1;
    }

    /// Alerts per healthy run; `None` without one.
    #[must_use]
    pub fn false_alarm_rate(&self) -> Option<f64> {
        (self.healthy > 0).then(|| self.false_alarms as f64 / self.healthy as f64)
    }

    /// The score in sentences.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let kinds = |kinds: &BTreeMap<&str, usize>| {
            kinds.iter().map(|(kind, runs)| format!("{kind} {runs}")).collect::<Vec<_>>().join(", ")
        };
        let rate = self.false_alarm_rate().map_or(String::new(), |rate| format!(", {rate:.3} per run"));
        let mut lines = vec![format!(
            "{} healthy runs: {} raised an alert; {} alerts{rate}",
            self.healthy, self.alarmed, self.false_alarms
        )];
        if self.false_alarms > 0 {
            lines.push(format!("alerts in healthy runs: {}", kinds(&self.false_by_kind)));
        }
        lines.push(format!(
            "{} failing runs: {} raised an alert, {} of them before the loss was {:.0} % above the baseline's",
            self.failing,
            self.detected,
            self.detected_before,
            MARGIN * 100.0
        ));
        let leads = &self.lead_steps;
        let middle = median(leads.iter().map(|lead| *lead as f64));
        if let (Some(least), Some(most), Some(median)) = (leads.first(), leads.last(), middle) {
            lines.push(format!("lead in steps: median {median}, from {least} to {most}"));
            lines.push(format!("first alert in failing runs: {}", kinds(&self.first_by_kind)));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use altgrad_alerts::{Alert, AlertKind};

    use super::*;

    fn losses(of: impl Fn(u64) -> f64) -> Vec<(u64, f64)> {
        (0..200).map(|step| (step, of(step))).collect()
    }

    fn outcome(own: impl Fn(u64) -> f64) -> Option<ScoredRun> {
        ScoredRun::of(0, &losses(own), &losses(|_| 2.0))
    }

    #[test]
    fn a_run_fails_from_the_step_where_its_median_stays_above() {
        assert_eq!(outcome(|_| 2.0), Some(ScoredRun { baseline: 0, ratio: Some(1.0), fails_from: None }));
        assert_eq!(outcome(|_| 2.09).and_then(|outcome| outcome.fails_from), None);
        assert_eq!(outcome(|_| 2.11).and_then(|outcome| outcome.fails_from), Some(39));
        // A step at 100: the median of 40 steps is above from the 20th of them on.
        assert_eq!(outcome(|step| if step < 100 { 2.0 } else { 3.0 }).unwrap().fails_from, Some(119));
        // A rise that passes is none.
        let passing = outcome(|step| if (50..120).contains(&step) { 3.0 } else { 2.0 });
        assert_eq!(passing.unwrap().fails_from, None);
        let lost = outcome(|step| if step < 60 { 2.0 } else { f64::NAN }).unwrap();
        assert_eq!((lost.ratio, lost.fails_from), (None, Some(60)));
        assert_eq!(ScoredRun::of(0, &losses(|_| 2.0)[..30], &losses(|_| 2.0)), None);
    }

    #[test]
    fn a_score_counts_alarms_of_healthy_runs_and_leads_of_failing_ones() {
        let alert = |step, kind| Alert { step, kind, place: None, value: None, text: String::new() };
        let replay = |alerts| Some(AlertReplay { alerts, losses: Vec::new() });
        let outcome = |fails_from| Some(ScoredRun { baseline: 0, ratio: None, fails_from });
        let replays = [
            replay(vec![]),
            replay(vec![
                alert(1, AlertKind::Kurtosis),
                alert(3, AlertKind::Overflow),
                alert(9, AlertKind::BitStall),
            ]),
            replay(vec![alert(20, AlertKind::LossRise)]),
            replay(vec![alert(90, AlertKind::BitStall)]),
            replay(vec![]),
            None,
        ];
        let outcomes =
            [None, outcome(None), outcome(Some(50)), outcome(Some(50)), outcome(Some(7)), outcome(None)];
        let score = Score::of(&replays, &outcomes);
        assert_eq!((score.healthy, score.false_alarms, score.alarmed), (1, 2, 1));
        assert_eq!((score.failing, score.detected, score.detected_before), (3, 2, 1));
        assert_eq!(score.lead_steps, [-40, 30]);
        assert!(score.lines().contains(&"lead in steps: median -5, from -40 to 30".to_string()));
        assert_eq!(score.false_alarm_rate(), Some(2.0));
        assert_eq!(Score::default().false_alarm_rate(), None);
    }
}
