//! Each kind of alert by hand: threshold, patience, cooldown, recovery, and missing metrics.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use altgrad_config::{AlertsSection, Threshold};
use altgrad_metrics::{MetricId, MetricRecord};

mod divergence;

use super::{AlertFacts, AlertKind, Alerts, Evaluation, Severity};

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
    sparsity_threshold: Threshold::Above(0.4),
    code_saturation_threshold: Threshold::Above(0.5),
    kurtosis_threshold: Threshold::Above(10.0),
    kurtosis_growth: 0.0,
    sqnr_threshold: Threshold::Off,
    gradient_sqnr_threshold: Threshold::Above(1.0),
    gradient_cosine_threshold: Threshold::Above(0.5),
    gradient_norm_threshold: Threshold::Above(2.0),
    attention_logit_threshold: Threshold::Above(100.0),
    stable_rank_threshold: Threshold::Above(0.1),
    loss_rise_threshold: Threshold::Above(1.0),
    no_learning_steps: 30,
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
        ("update/rounding_loss", 0.5, AlertKind::BitStall),
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
    assert_eq!(bench.see(&layers), [(AlertKind::Overflow, Some(worst.clone()))]);
    let mut bench = Bench::new(QUICK);
    let nan_last = [(layers[4].0, 0.3), (layers[3].0, f64::NAN)];
    assert_eq!(bench.see(&nan_last), [(AlertKind::Overflow, Some(worst))]);
}

#[test]
fn every_kind_has_a_level() {
    let of = |severity| AlertKind::ALL.into_iter().filter(move |kind| kind.severity() == severity);
    let errors = [AlertKind::NanLoss, AlertKind::NanGrad, AlertKind::Divergence, AlertKind::LossRise];
    assert!(of(Severity::Error).eq(errors));
    assert!(of(Severity::Information).eq([AlertKind::Kurtosis, AlertKind::RankCollapse]));
    assert_eq!(of(Severity::Warning).count(), 10);
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
        assert_eq!(bench.alerts.holds(AlertKind::Overflow), fires, "step {}", bench.step - 1);
    }
    let mut bench = Bench::new(AlertsSection { patience: 0, ..QUICK });
    bench.see(&fine);
    assert!(!bench.alerts.holds(AlertKind::Overflow), "no measurement met the condition");
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
    assert_eq!(bench.kinds(&[(loss, f64::NAN)]), [AlertKind::NanLoss], "a cooldown of their own");
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
fn gradients_of_which_rounding_leaves_little() {
    let mut bench = Bench::new(QUICK);
    // One element of 128 carries all of a logit's gradient, and saturates.
    let rate = ("quant/grad/overflow_rate/wte.weight", 1.0 / 128.0);
    let weights = [("quant/sqnr_db", 0.1), ("quant/weight/sqnr_db/wte.weight", 0.1)];
    assert_eq!(bench.kinds(&[rate, weights[0], weights[1], ("quant/grad/sqnr_db/wte.weight", 1.0)]), []);
    let place = "quant/grad/sqnr_db/wte.weight";
    let few = [("quant/grad/sqnr_db", 0.5), (place, 0.14)];
    assert_eq!(bench.see(&few), [(AlertKind::GradientSqnr, Some(place.into()))]);
    let mut bench = Bench::new(QUICK);
    assert_eq!(bench.kinds(&[("quant/grad/sqnr_db", 0.5)]), [AlertKind::GradientSqnr]);
}

#[test]
fn an_evaluation_without_a_number_is_a_rise_and_never_the_best() {
    let mut bench = Bench::new(QUICK);
    assert!(bench.kinds(&[("val/loss", f64::NAN)]).is_empty());
    assert_eq!(bench.alerts.best(), None);
    assert_eq!(bench.kinds(&[("val/loss", f64::NAN)]), [AlertKind::Divergence]);
    assert_eq!(bench.kinds(&[("val/loss", 9.0)]), []);
    assert_eq!(bench.alerts.best(), Some(Evaluation { step: 2, loss: 9.0 }));
    let mut bench = Bench::new(QUICK);
    let mut see = |loss| bench.kinds(&[("val/loss", loss)]);
    assert_eq!([see(f64::NAN), see(9.0), see(10.0)], [[], [], []], "the first number after NaN is no rise");
    assert_eq!(see(f64::INFINITY), [AlertKind::Divergence]);
    assert_eq!(bench.alerts.state().check(10, 10), Ok(()), "an infinity is no loss to compare with");
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

#[test]
fn stalled_updates_count_after_warmup_only() {
    let mut bench = Bench::new(QUICK);
    bench.alerts = bench.alerts.with_facts(AlertFacts { warmup_steps: 2, unigram_entropy: None });
    let stalled = [("update/rounding_loss", 0.99)];
    assert_eq!([bench.kinds(&stalled), bench.kinds(&stalled)], [[], []]);
    assert_eq!(bench.kinds(&stalled), [AlertKind::BitStall]);
    assert_eq!(bench.kinds(&[("update/bit_stall_rate", 1.0)]), [], "codes alone say nothing");
    let mut bench = Bench::new(QUICK);
    let layer = "update/rounding_loss/wte.weight";
    assert_eq!(bench.kinds(&[("update/rounding_loss", 0.1), (layer, 0.9)]), [], "over all layers");
}

#[test]
fn movement_of_master_weights_that_rounding_removes() {
    let mut bench = Bench::new(QUICK);
    let (all, layer) = ("update/movement_loss", "update/movement_loss/wte.weight");
    assert_eq!(bench.kinds(&[(all, 0.5), (layer, 0.9)]), []);
    assert_eq!(bench.see(&[(all, 0.51), (layer, 0.1)]), [(AlertKind::BitStall, Some(all.into()))]);
}

/// At the end of a schedule nearest rounding removes most of an update that is small.
#[test]
fn stalled_updates_count_while_the_learning_rate_is_high() {
    let mut bench = Bench::new(QUICK);
    let mut see = |lr, loss| bench.kinds(&[("train/lr", lr), ("update/rounding_loss", loss)]);
    assert_eq!([see(0.5, 0.1), see(1.0, 0.1), see(0.249, 0.99)], [[], [], []]);
    assert_eq!(see(0.25, 0.99), [AlertKind::BitStall]);
    // A rate below a quarter neither continues nor ends a row of measurements.
    let mut bench = Bench::new(AlertsSection { patience: 2, ..QUICK });
    let mut see = |lr, loss| bench.kinds(&[("train/lr", lr), ("update/rounding_loss", loss)]);
    assert_eq!([see(1.0, 0.99), see(0.1, 0.99), see(0.1, 0.0)], [[], [], []]);
    assert_eq!(see(1.0, 0.99), [AlertKind::BitStall]);
}

#[test]
fn overflow_and_underflow_count_where_the_signal_to_noise_is_low() {
    let sqnr_threshold = Threshold::Above(6.0);
    for (name, kind) in [("overflow_rate", AlertKind::Overflow), ("underflow_rate", AlertKind::Underflow)] {
        let rate: &'static str = format!("quant/grad/{name}/wte.weight").leak();
        let mut bench = Bench::new(AlertsSection { sqnr_threshold, ..QUICK });
        assert_eq!(bench.kinds(&[(rate, 0.3)]), [], "not measured");
        for (sqnr, place, fires) in [
            (6.0, "quant/grad/sqnr_db/wte.weight", false),
            (5.9, "quant/weight/sqnr_db/wte.weight", false),
            (5.9, "quant/grad/sqnr_db/wpe.weight", false),
            (5.9, "quant/grad/sqnr_db/wte.weight", true),
        ] {
            assert_eq!(bench.kinds(&[(rate, 0.3), (place, sqnr)]) == [kind], fires, "{place} {sqnr}");
        }
        // Without a signal to noise nothing is measured: the sequence of measurements continues.
        let mut bench = Bench::new(AlertsSection { sqnr_threshold, patience: 2, ..QUICK });
        let noisy = [(rate, 0.3), ("quant/grad/sqnr_db/wte.weight", 3.0)];
        assert_eq!([bench.kinds(&noisy), bench.kinds(&[(rate, 0.3)])], [[], []]);
        assert_eq!(bench.kinds(&noisy), [kind]);
    }
}

#[test]
fn a_kurtosis_counts_once_it_has_grown() {
    let mut bench = Bench::new(AlertsSection { kurtosis_growth: 20.0, ..QUICK });
    let (layer, other) = ("quant/grad/kurtosis/wte.weight", "quant/grad/kurtosis/wpe.weight");
    assert_eq!(bench.kinds(&[(layer, 200.0)]), [], "the first measurement");
    assert_eq!(bench.kinds(&[(layer, 3999.0), (other, 3.0)]), []);
    assert_eq!(bench.kinds(&[(layer, 200.0), (other, 61.0)]), [AlertKind::Kurtosis], "from its own start");
    let mut bench = Bench::new(AlertsSection { kurtosis_growth: 2.0, ..QUICK });
    assert_eq!([bench.kinds(&[(layer, 1.0)]), bench.kinds(&[(layer, 9.0)])], [[], []], "below the threshold");
}

#[test]
fn gradients_that_point_elsewhere() {
    let mut bench = Bench::new(QUICK);
    assert_eq!(
        bench.kinds(&[("grad_cos_sim", 0.5), ("grad_cos_sim/wte.weight", 0.1)]),
        [],
        "over all layers"
    );
    assert_eq!(
        bench.see(&[("grad_cos_sim", 0.49)]),
        [(AlertKind::GradientCosine, Some("grad_cos_sim".into()))]
    );
}

#[test]
fn elements_of_a_role_that_become_zero() {
    let config = AlertsSection { underflow_threshold: Threshold::Off, ..QUICK };
    let mut bench = Bench::new(config);
    assert_eq!(
        bench.kinds(&[("quant/underflow_rate", 0.9), ("quant/grad/underflow_rate/wte.weight", 0.9)]),
        []
    );
    assert_eq!(bench.kinds(&[("quant/grad/underflow_rate", 0.4)]), []);
    let role = "quant/grad/underflow_rate";
    assert_eq!(bench.see(&[(role, 0.41)]), [(AlertKind::Sparsity, Some(role.into()))]);
}

#[test]
fn scores_of_attention_that_choose_one_position() {
    let (whole, layer) = ("attention/max_logit", "attention/max_logit/h.1.attn.c_attn.weight");
    let fires = [(AlertKind::AttentionLogit, Some(whole.into()))];
    let mut bench = Bench::new(QUICK);
    let mut see = |score| bench.see(&[(whole, score), (layer, score)]);
    assert_eq!([see(0.25), see(100.0)], [[], []]);
    assert_eq!(see(100.5), fires);
    // Weights that begin with large scores are compared with their own start: the largest of all layers.
    let mut bench = Bench::new(QUICK);
    let mut see = |score| bench.see(&[(whole, score), (layer, score / 2.0)]);
    assert_eq!([see(500.0), see(999.0), see(450.0)], [[], [], []]);
    assert_eq!(see(1000.0), fires);
    let mut bench = Bench::new(QUICK);
    assert_eq!(bench.kinds(&[(whole, 500.0), (layer, 60.0)]), []);
    assert_eq!(bench.kinds(&[(whole, 500.0), (layer, 300.0)]), [], "a layer that began with less");
}

#[test]
fn gradients_that_are_much_longer_or_shorter() {
    let mut bench = Bench::new(QUICK);
    for (ratio, fires) in [(1.0, false), (2.0, false), (0.5, false), (2.1, true)] {
        assert_eq!(bench.kinds(&[("grad_norm_ratio", ratio)]) == [AlertKind::GradientNorm], fires, "{ratio}");
    }
    let mut bench = Bench::new(QUICK);
    assert_eq!(bench.kinds(&[("grad_norm_ratio/wte.weight", 9.0)]), [], "over all layers");
    assert_eq!(
        bench.see(&[("grad_norm_ratio", 0.49)]),
        [(AlertKind::GradientNorm, Some("grad_norm_ratio".into()))]
    );
}

#[test]
fn a_stable_rank_counts_as_a_share_of_its_first_value() {
    let mut bench = Bench::new(QUICK);
    let (layer, other) = ("weights/stable_rank/h.0.attn.c_attn.weight", "weights/stable_rank/wpe.weight");
    assert_eq!(bench.kinds(&[(layer, 40.0), (other, 2.0)]), [], "the first measurement");
    assert_eq!(bench.kinds(&[(layer, 4.0), (other, 1.0)]), []);
    assert_eq!(bench.see(&[(layer, 3.9), (other, 1.0)]), [(AlertKind::RankCollapse, Some(layer.into()))]);
}

/// Losses around a level, half of them 0.1 above and half below: the median absolute deviation is 0.1, and the noise
/// 0.148.
fn losses(bench: &mut Bench, level: f64, steps: u64) -> Vec<AlertKind> {
    let loss = |step| level + if step % 2 == 0 { 0.1 } else { -0.1 };
    (0..steps).flat_map(|step| bench.kinds(&[("train/loss", loss(step))])).collect()
}

#[test]
fn a_training_loss_that_rises_above_its_noise_and_stays() {
    let config = AlertsSection { no_learning_steps: 0, cooldown_s: 1e9, patience: 9, ..QUICK };
    let mut bench = Bench::new(config);
    assert_eq!(losses(&mut bench, 3.0, 100), []);
    assert_eq!(losses(&mut bench, 3.13, 100), [], "less than the noise");
    assert_eq!(losses(&mut bench, 9.0, 25), [], "a spike that is over");
    assert_eq!(losses(&mut bench, 3.0, 100), []);
    assert_eq!(losses(&mut bench, 3.16, 100), [AlertKind::LossRise]);
    // A loss without noise: a fiftieth.
    let mut quiet = Bench::new(config);
    let mut see = |loss| (0..64).flat_map(|_| quiet.kinds(&[("train/loss", loss)])).count();
    assert_eq!([see(1.0), see(1.019), see(1.021)], [0, 0, 1]);
    let mut learned = Bench::new(config);
    let mut see = |loss| (0..64).flat_map(|_| learned.kinds(&[("train/loss", loss)])).count();
    assert_eq!([see(4e-4), see(5e-4), see(0.011)], [0, 0, 1], "nothing is left to learn below 0.01");
    // The noise is that of the lowest window or of the last one, whichever is larger.
    let mut calmer = Bench::new(config);
    assert_eq!(losses(&mut calmer, 3.0, 100), []);
    assert_eq!((0..100).flat_map(|_| calmer.kinds(&[("train/loss", 3.13)])).count(), 0);
    let mut noisier = Bench::new(config);
    assert_eq!((0..100).flat_map(|_| noisier.kinds(&[("train/loss", 3.0)])).count(), 0);
    assert_eq!(losses(&mut noisier, 3.13, 100), []);
    let mut infinite = Bench::new(AlertsSection { nan_cooldown_s: 1e9, ..config });
    assert_eq!(losses(&mut infinite, 3.0, 100), []);
    let found: Vec<_> = (0..50).flat_map(|_| infinite.kinds(&[("train/loss", f64::INFINITY)])).collect();
    assert_eq!(found, [AlertKind::NanLoss]);
    let mut off = Bench::new(AlertsSection { loss_rise_threshold: Threshold::Off, ..config });
    assert_eq!([losses(&mut off, 1.0, 100), losses(&mut off, 9.0, 100)], [[], []]);
}

#[test]
fn a_model_that_knows_no_more_than_how_often_tokens_occur() {
    let facts = AlertFacts { warmup_steps: 10, unigram_entropy: Some(3.0) };
    let quick = AlertsSection { no_learning_steps: 54, cooldown_s: 1e9, patience: 9, ..QUICK };
    let config = AlertsSection { loss_rise_threshold: Threshold::Off, ..quick };
    let mut bench = Bench::new(config);
    bench.alerts = bench.alerts.with_facts(facts);
    assert_eq!(losses(&mut bench, 3.0, 64), [], "until there are 64 losses and warm-up is over for 54 steps");
    assert_eq!(losses(&mut bench, 3.0, 1), [AlertKind::NoLearning]);
    // A corpus of one token has nothing to learn, once its frequency is known.
    for (loss, fires) in [(3e-6, 0), (0.02, 1)] {
        let mut bench = Bench::new(config);
        bench.alerts = bench.alerts.with_facts(AlertFacts { unigram_entropy: Some(0.0), ..facts });
        let fired = (0..100).flat_map(|_| bench.kinds(&[("train/loss", loss)]));
        assert_eq!(fired.count(), fires, "{loss}");
    }
    let mut off = Bench::new(AlertsSection { no_learning_steps: 0, ..config });
    off.alerts = off.alerts.with_facts(facts);
    assert_eq!(losses(&mut off, 3.0, 100), []);
    let mut learns = Bench::new(quick);
    learns.alerts = learns.alerts.with_facts(facts);
    assert_eq!(losses(&mut learns, 2.9, 100), []);
}
