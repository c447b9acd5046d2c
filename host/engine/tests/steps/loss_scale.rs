//! Loss scaling of whole steps: invariants, and the effects of an overflow.

use altgrad_base::diagnostic::Diagnostic;
use altgrad_engine::{
    metrics::{MetricKind, MetricRecord},
    setup::ReadyRun,
    state::DynamicLossScale,
    step::AppliedUpdate,
};

use super::take;

/// The run with a loss scale and further tables, or the reason of its refusal.
fn built(scale: &str, tables: &str) -> Result<ReadyRun, Diagnostic> {
    super::built(&format!(
        "n_layer = 1\n[train]\nmax_steps = 4\nwarmup_steps = 1\ngrad_accum = 2\nloss_scale = {scale}\n\n{tables}"
    ))
}

/// The same without a refusal.
fn ready(scale: &str, tables: &str) -> ReadyRun {
    built(scale, tables).unwrap()
}

/// The bits of the weights.
fn weights(run: &ReadyRun) -> Vec<u32> {
    run.state.weights().unwrap().into_iter().flatten().map(f32::to_bits).collect()
}

fn value(record: &MetricRecord, name: &str) -> Option<f64> {
    record.values.iter().find(|(id, _)| id.to_string() == name).map(|(_, value)| *value)
}

#[test]
fn a_power_of_two_changes_no_bit_in_fp32() {
    let mut plain = ready("1", "");
    for scale in ["1024", "\"dynamic\"", "0.0625"] {
        let mut plain = ready("1", "");
        let mut scaled = ready(scale, "");
        for number in 0..4 {
            let (expected, _) = take(&mut plain, number);
            let (record, update) = take(&mut scaled, number);
            assert!(!update.is_skipped);
            let all = |record: &MetricRecord| -> Vec<(String, u64)> {
                // The memory of the process differs.
                let values =
                    record.values.iter().filter(|(id, _)| id.definition().kind != MetricKind::Timing);
                values
                    .map(|(id, value)| (id.to_string(), value.to_bits()))
                    .filter(|(id, _)| !["train/loss_scale", "train/skipped_steps"].contains(&id.as_str()))
                    .collect()
            };
            assert_eq!(all(&record), all(&expected), "{scale}");
            assert_eq!(weights(&scaled), weights(&plain), "{scale}");
        }
    }
    // Another number rounds the gradients.
    let mut other = ready("3", "");
    take(&mut plain, 0);
    take(&mut other, 0);
    let pairs = weights(&plain).into_iter().zip(weights(&other));
    let most = pairs.map(|(a, b)| (f32::from_bits(a) - f32::from_bits(b)).abs()).fold(0.0, f32::max);
    assert!(most > 0.0 && most < 1e-3, "{most}");
}

#[test]
fn an_overflow_halves_the_scale_and_skips_the_step() {
    let mut run = ready("\"dynamic\"", "[metrics]\nhistograms_every = 1");
    // Large weights make large gradients: those above 4 overflow under the largest scale.
    run.state.params.values.iter_mut().for_each(|value| *value = value.clone().mul_scalar(1e4));
    let before = weights(&run);
    let scale = 2f32.powi(126);
    let start = DynamicLossScale { scale, good_steps: 7, skipped_steps: 0 };
    run.state.loss_scale.restore(Some(start));
    let mut step = 0;
    loop {
        let (record, update) = take(&mut run, step);
        let used = scale / 2f32.powi(step as i32);
        assert_eq!(value(&record, "train/loss_scale"), Some(f64::from(used)));
        if !update.is_skipped {
            assert!(value(&record, "train/grad_norm").unwrap().is_finite());
            assert_eq!(value(&record, "train/skipped_steps"), Some(step as f64));
            break;
        }
        step += 1;
        assert_eq!(weights(&run), before, "a skipped step changes nothing");
        assert_eq!((run.state.optimizer.updates(), value(&record, "train/grad_norm")), (0, None));
        assert_eq!(
            run.state.loss_scale.state(),
            Some(DynamicLossScale { scale: used / 2.0, good_steps: 0, skipped_steps: step })
        );
        assert!(step < 100, "it never fits");
    }
    assert!(step > 0, "nothing overflowed");
    assert_ne!(weights(&run), before);
}

#[test]
fn a_format_without_a_scale_that_saturates_is_an_overflow() {
    let quant = "[quant]\ngrad = \"E4M3\"\nblock = \"none\"";
    let mut run = ready("\"dynamic\"", quant);
    let skipped = |(record, update): (MetricRecord, AppliedUpdate)| {
        // Alerts ignore saturation that the loss scale caused.
        assert_eq!(value(&record, "quant/grad/overflow_rate").is_none(), update.is_skipped);
        assert!(value(&record, "train/loss").is_some());
        update.is_skipped
    };
    let skipped: Vec<bool> = (0..12).map(|number| skipped(take(&mut run, number))).collect();
    let count = skipped.iter().filter(|skipped| **skipped).count();
    assert!(skipped[0] && !skipped[11], "{skipped:?}");
    assert_eq!(run.state.loss_scale.state().map(|state| state.skipped_steps), Some(count as u64));
    // With a scale of its own a tensor cannot saturate.
    let mut run = ready("\"dynamic\"", "[quant]\ngrad = \"E4M3\"");
    assert!((0..4).all(|number| !take(&mut run, number).1.is_skipped));
}

#[test]
fn static_scales_of_gradients_do_not_follow_a_dynamic_loss_scale() {
    let quant = "[quant]\nweight = \"E4M3\"\ngrad = \"E5M2\"\n[quant.scaling]\namax = \"static\"";
    let error = built("\"dynamic\"", quant).map(|_| ()).unwrap_err();
    assert!(error.message.starts_with("`train.loss_scale` is dynamic, and gradients of `"), "{error}");
    assert!(error.place.as_deref().is_some_and(|place| place.ends_with(":18:14")), "{error}");
    assert!(error.hint.is_some_and(|hint| hint.starts_with("give gradients dynamic or delayed scales")));
    built("1024", quant).unwrap();
    built("\"dynamic\"", &quant.replace("static", "delayed")).unwrap();
}
