//! Each kind of alert by hand: threshold, patience, cooldown, recovery, and what is missing.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use altgrad_config::{AlertsSection, Threshold};
use altgrad_metrics::{MetricId, MetricRecord};

use super::{AlertKind, Alerts, Evaluation};

/// Alerts under test, a second a record.
struct Bench {
    alerts: Alerts,
    step: u64,
}

/// Fires at the first measurement and every two seconds.
const QUICK: AlertsSection = AlertsSection {
    bit_stall_threshold: Threshold::Above(0.5),
    overflow_threshold: Threshold::Above(0.01),
    underflow_threshold: Threshold::Above(0.01),
    code_saturation_threshold: Threshold::Above(0.5),
    kurtosis_threshold: Threshold::Above(10.0),
    patience: 1,
    divergence_patience: 2,
    nan_patience: 3,
    cooldown_s: 2.0,
    nan_cooldown_s: 1.0,
};

impl Bench {
    fn new(config: AlertsSection) -> Self {
        Self { alerts: Alerts::new(config), step: 0 }
    }

    /// The kinds and places that the next step's record fires.
    fn see(&mut self, values: &[(&'static str, f64)]) -> Vec<(AlertKind, Option<String>)> {
        let mut record = MetricRecord::new(self.step);
        for (name, value) in values {
            record.push(name.parse::<MetricId>().unwrap(), *value);
        }
        let alerts = self.alerts.see(&record, Duration::from_secs(self.step));
        assert!(alerts.iter().all(|alert| alert.step == self.step));
        self.step += 1;
        alerts.into_iter().map(|alert| (alert.kind, alert.place)).collect()
    }

    fn kinds(&mut self, values: &[(&'static str, f64)]) -> Vec<AlertKind> {
        self.see(values).into_iter().map(|(kind, _)| kind).collect()
    }

    fn counts(&self) -> Vec<(AlertKind, u64)> {
        self.alerts.counts().collect()
    }
}

#[test]
fn thresholds_are_exclusive_and_each_kind_has_its_own() {
    for (name, limit, kind) in [
        ("update/bit_stall_rate", 0.5, AlertKind::BitStall),
        ("quant/overflow_rate", 0.01, AlertKind::Overflow),
        ("quant/underflow_rate", 0.01, AlertKind::Underflow),
        ("quant/grad/kurtosis/wte.weight", 10.0, AlertKind::Kurtosis),
    ] {
        let mut bench = Bench::new(QUICK);
        assert_eq!(bench.kinds(&[(name, limit)]), []);
        assert_eq!(bench.see(&[(name, limit * 1.001)]), [(kind, Some(name.to_string()))]);
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
    }
    let mut bench = Bench::new(QUICK);
    let half = ("quant/weight/overflow_rate/wte.weight", 0.5);
    assert_eq!(bench.kinds(&[half]), [AlertKind::Overflow]);
    assert_eq!(bench.kinds(&[(half.0, 0.51)]), [AlertKind::CodeSaturation], "overflow is in its cooldown");
}

#[test]
fn the_worst_layer_is_named() {
    let mut bench = Bench::new(QUICK);
    let layers = [
        ("quant/overflow_rate", 0.2),
        ("quant/weight/overflow_rate", 0.3),
        ("quant/weight/overflow_rate/h.0.mlp.c_fc.weight", 0.1),
        ("quant/weight/overflow_rate/wte.weight", f64::NAN),
        ("quant/weight/overflow_rate/h.1.mlp.c_fc.weight", 0.3),
        ("quant/weight/sqnr_db/h.0.mlp.c_fc.weight", 40.0),
    ];
    let worst = "quant/weight/overflow_rate/h.1.mlp.c_fc.weight".to_string();
    assert_eq!(bench.see(&layers), [(AlertKind::Overflow, Some(worst))]);
}

#[test]
fn patience_counts_measurements_in_a_row() {
    let mut bench = Bench::new(AlertsSection { patience: 3, ..QUICK });
    let (bad, fine) = ([("quant/overflow_rate", 0.2)], [("quant/overflow_rate", 0.0)]);
    for (values, fires) in [
        (&bad[..], false),
        (&bad, false),
        (&fine, false),
        (&bad, false),
        // Not measured: neither counts nor ends the row.
        (&[], false),
        (&bad, false),
        (&bad, true),
    ] {
        assert_eq!(!bench.see(values).is_empty(), fires, "step {}", bench.step - 1);
    }
}

#[test]
fn a_cooldown_is_a_kinds_own_and_outlives_a_recovery() {
    let mut bench = Bench::new(QUICK);
    let (overflow, underflow) = (("quant/overflow_rate", 0.2), ("quant/underflow_rate", 0.2));
    assert_eq!(bench.kinds(&[overflow]), [AlertKind::Overflow]);
    assert_eq!(bench.kinds(&[("quant/overflow_rate", 0.0), underflow]), [AlertKind::Underflow]);
    assert_eq!(bench.kinds(&[overflow, underflow]), [AlertKind::Overflow]);
    assert_eq!(bench.kinds(&[overflow, underflow]), [AlertKind::Underflow]);
    assert_eq!(bench.counts(), [(AlertKind::Overflow, 2), (AlertKind::Underflow, 2)]);
}

#[test]
fn a_threshold_that_is_off_is_never_exceeded() {
    let off = Threshold::Off;
    let mut bench = Bench::new(AlertsSection { overflow_threshold: off, kurtosis_threshold: off, ..QUICK });
    let values = [("quant/overflow_rate", 1.0), ("quant/weight/kurtosis/wte.weight", 1e9)];
    assert_eq!(bench.kinds(&values), [AlertKind::CodeSaturation]);
}

#[test]
fn nan_in_loss_and_gradients_are_told_apart_and_need_no_patience() {
    let mut bench = Bench::new(AlertsSection { patience: 9, nan_patience: 9, ..QUICK });
    let (loss, norm) = ("train/loss", "train/grad_norm");
    assert_eq!(bench.kinds(&[(loss, 2.0), (norm, 1.0)]), []);
    assert_eq!(bench.kinds(&[(loss, f64::NAN), (norm, 1.0)]), [AlertKind::NanLoss]);
    let gradients = [
        (loss, 2.0),
        (norm, f64::INFINITY),
        ("grad_norm_l2/wpe.weight", 1.0),
        ("grad_norm_l2/wte.weight", f64::INFINITY),
    ];
    assert_eq!(bench.see(&gradients), [(AlertKind::NanGrad, Some("grad_norm_l2/wte.weight".into()))]);
    assert_eq!(
        bench.kinds(&[(loss, f64::INFINITY), (norm, f64::NAN)]),
        [AlertKind::NanLoss, AlertKind::NanGrad]
    );
}

#[test]
fn a_run_is_lost_after_steps_of_nan_in_a_row() {
    let (nan, fine) = ([("train/loss", f64::NAN)], [("train/loss", 1.0), ("train/grad_norm", 1.0)]);
    let gradients = [("train/loss", 1.0), ("train/grad_norm", f64::NAN)];
    let mut bench = Bench::new(QUICK);
    for (values, lost) in [
        (&nan[..], false),
        (&nan, false),
        (&fine, false),
        (&nan, false),
        (&gradients, false),
        (&[], false),
        (&nan, true),
    ] {
        bench.see(values);
        assert_eq!(bench.alerts.run_is_lost(), lost, "step {}", bench.step - 1);
    }
    assert_eq!(bench.alerts.diverged_at(), Some(6));
    let mut bench = Bench::new(AlertsSection { nan_patience: 0, ..QUICK });
    for _ in 0..20 {
        bench.see(&nan);
        assert!(!bench.alerts.run_is_lost());
    }
}

#[test]
fn a_loss_that_keeps_rising_is_divergence() {
    let mut bench = Bench::new(QUICK);
    let mut see = |loss| (bench.see(&[("val/loss", loss)]).len(), bench.alerts.diverged_at());
    let losses = [3.0, 2.0, 2.1, 2.1, 2.2];
    assert!(losses.iter().all(|&loss| see(loss) == (0, None)), "an equal loss does not rise");
    assert_eq!(see(2.3), (1, Some(5)));
    assert_eq!(see(2.4), (0, Some(5)), "cooldown");
    assert_eq!(see(1.0), (0, Some(5)), "it is not forgotten");
    assert_eq!(bench.alerts.best(), Some(Evaluation { step: 7, loss: 1.0 }));
    assert_eq!(bench.counts(), [(AlertKind::Divergence, 1)]);
}

#[test]
fn an_evaluation_without_a_number_is_a_rise_and_never_the_best() {
    let mut bench = Bench::new(QUICK);
    assert!(bench.kinds(&[("val/loss", f64::NAN)]).is_empty());
    assert_eq!(bench.alerts.best(), None);
    assert_eq!(bench.kinds(&[("val/loss", f64::NAN)]), [AlertKind::Divergence]);
    assert_eq!(bench.kinds(&[("val/loss", 9.0)]), []);
    assert_eq!(bench.alerts.best(), Some(Evaluation { step: 2, loss: 9.0 }));
    let mut bench = Bench::new(AlertsSection { divergence_patience: 0, ..QUICK });
    for loss in [1.0, 2.0, 3.0, 4.0] {
        assert!(bench.kinds(&[("val/loss", loss)]).is_empty());
    }
    assert_eq!(bench.alerts.diverged_at(), None);
}

#[test]
fn what_is_missing_never_fires() {
    let mut bench = Bench::new(QUICK);
    let others = [("train/lr", 1e9), ("quant/sqnr_db", 1e9), ("update/flip_rate", 1.0)];
    for _ in 0..3 {
        assert_eq!(bench.see(&others), []);
    }
    assert_eq!(bench.counts(), []);
}

#[test]
fn what_is_remembered_survives_being_written_down() {
    let mut bench = Bench::new(AlertsSection { patience: 2, ..QUICK });
    let values = [("quant/overflow_rate", 0.2), ("train/loss", f64::NAN), ("val/loss", 3.0)];
    bench.see(&values);
    let text = serde_json::to_string(&bench.alerts.state).unwrap();
    let mut resumed = Bench::new(bench.alerts.config);
    resumed.alerts.state = serde_json::from_str(&text).unwrap();
    resumed.step = bench.step;
    assert_eq!(resumed.alerts.state, bench.alerts.state);
    assert_eq!(resumed.see(&values), bench.see(&values));
}
