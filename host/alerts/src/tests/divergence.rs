//! Losses that rise: what is divergence, and what is noise.

use altgrad_config::{AlertsSection, Threshold};

use super::{AlertKind, Bench, Evaluation, QUICK};

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
fn losses_around_the_best_are_no_divergence() {
    let mut bench = Bench::new(QUICK);
    let mut see = |loss| (bench.see(&[("val/loss", loss)]).len(), bench.alerts.diverged_at());
    let losses = [2.0, 2.01, 2.02, 2.03];
    assert!(losses.iter().all(|&loss| see(loss) == (0, None)), "within a fiftieth of the best");
    assert_eq!([see(2.05), see(2.06)], [(0, None), (1, Some(5))]);
    // Nothing is left to learn: twice of almost nothing is noise.
    let mut bench = Bench::new(QUICK);
    let mut see = |loss| bench.kinds(&[("val/loss", loss)]).len();
    assert_eq!([4e-4, 5e-4, 6e-4, 7e-4, 9e-3].map(&mut see), [0; 5]);
    assert_eq!([0.01, 0.02].map(&mut see), [0, 1]);
}

#[test]
fn a_held_out_loss_that_rises_while_the_training_loss_falls_is_no_divergence() {
    let mut bench = Bench::new(QUICK);
    for step in 0..130 {
        let falling = ("train/loss", 3.0 - 0.01 * f64::from(step));
        assert_eq!(bench.kinds(&[falling]), [], "before 64 steps the training loss is unknown");
        if step >= 64 {
            assert_eq!(bench.kinds(&[("val/loss", 2.0 + f64::from(step))]), [], "{step}");
        }
    }
    assert_eq!(bench.kinds(&[("train/loss", 2.0), ("val/loss", f64::NAN)]), []);
    assert_eq!(bench.kinds(&[("train/loss", 2.0), ("val/loss", f64::NAN)]), [AlertKind::Divergence]);
    // Both rise.
    let mut bench = Bench::new(AlertsSection { loss_rise_threshold: Threshold::Off, ..QUICK });
    let mut see = |train, held_out| bench.kinds(&[("train/loss", train), ("val/loss", held_out)]);
    let calm: Vec<_> = (0..64).flat_map(|_| see(2.0, 2.0)).collect();
    let risen: Vec<_> = (0..64).flat_map(|step| see(3.0, 2.5 + f64::from(step))).collect();
    assert_eq!((calm.len(), risen[0]), (0, AlertKind::Divergence));
}

/// A run on a plateau: losses between 1.8 and 2.2, uniform and independent.
fn plateau(seed: u64, steps: u64) -> impl Iterator<Item = f64> {
    let next = |state: &mut u64| {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Some(1.8 + 0.4 * (*state >> 33) as f64 / (1u64 << 31) as f64)
    };
    (0..steps).scan(seed, move |state, _| next(state))
}

/// Of enough windows of a constant length, two differ by any noise.
#[test]
fn a_plateau_is_no_rise_however_long_it_is() {
    let config = AlertsSection { no_learning_steps: 0, cooldown_s: 1e9, ..QUICK };
    for seed in 1..4 {
        let mut bench = Bench::new(config);
        let fired: Vec<_> =
            plateau(seed, 4000).flat_map(|loss| bench.kinds(&[("train/loss", loss)])).collect();
        assert_eq!(fired, [], "seed {seed}");
        // By two and a half deviations, found within a tenth of the run.
        let risen = plateau(seed, 400).flat_map(|loss| bench.kinds(&[("train/loss", loss + 0.3)]));
        assert_eq!(risen.collect::<Vec<_>>(), [AlertKind::LossRise], "seed {seed}");
    }
}

#[test]
fn evaluations_that_rise_within_the_noise_of_the_training_loss_are_no_divergence() {
    let mut bench = Bench::new(AlertsSection { loss_rise_threshold: Threshold::Off, ..QUICK });
    let mut see = |level: f64| -> Vec<AlertKind> {
        let held_out = |step: f64| if level > 0.0 { 2.0 + level + 0.001 * step } else { 2.0 };
        let values = plateau(1, 100).enumerate().flat_map(|(step, loss)| {
            bench.kinds(&[("train/loss", loss + level), ("val/loss", held_out(step as f64))])
        });
        values.collect()
    };
    assert_eq!(see(0.0), []);
    assert_eq!(see(0.06), [], "3 %, and two fifths of the noise");
    assert_eq!(see(0.5).first(), Some(&AlertKind::Divergence));
}
