//! Schedules of casts: resolved entries, and refusals with their message and place.

use altgrad_metrics::AlertKind;

use super::try_load;
use crate::{CastTrigger, PrecisionChoice, QuantSection, RunConfig};

fn load(text: &str) -> RunConfig {
    try_load(text, &[]).unwrap_or_else(|error| panic!("{text}\n{error}")).0
}

const BASE: &str = "[quant]\nweight = 'E4M3'\nactivation = 'E4M3'\ngrad = 'E5M2'\ngrad_rounding = 'stochastic'\n\
    [[quant.layer]]\nmatch = 'h.0.*'\nweight = 'E5M2'\n";

#[test]
fn an_entry_is_laid_over_the_casts_and_not_over_other_entries() {
    let config = load(&format!(
        "{BASE}[[quant.schedule]]\nat = 100\ngrad = 'none'\n\
         [[quant.schedule.layer]]\nmatch = 'h.1.*'\nrounding = 'stochastic'\n\
         [[quant.schedule]]\nat = '80%'\nnone = true\nprecision = 'bf16'\n\
         [[quant.schedule]]\non = 'kurtosis'\nrecipe = 'mxfp8'\n"
    ));
    let [forward, none, recipe] = config.quant.schedule.as_slice() else { panic!("three entries") };
    assert_eq!(forward.trigger, CastTrigger::At(100));
    assert_eq!(
        (forward.quant.grad.as_deref(), forward.quant.weight.as_deref()),
        (Some("none"), Some("E4M3"))
    );
    let patterns: Vec<&str> = forward.quant.layer.iter().map(|rule| rule.pattern.as_str()).collect();
    assert_eq!(patterns, ["h.0.*", "h.1.*"]);
    assert_eq!((none.trigger, none.precision), (CastTrigger::At(400), PrecisionChoice::Bf16));
    assert!(!none.quant.names_a_format());
    assert_eq!(
        (recipe.trigger, recipe.precision),
        (CastTrigger::On(AlertKind::Kurtosis), load("[quant]\nrecipe = 'mxfp8'").train.precision)
    );
    // The name is that of the run.
    let named = load("[quant]\nrecipe = 'mxfp8'").quant;
    assert_eq!(recipe.quant, QuantSection { from_recipe: None, ..named });
    assert_eq!(config.train.precision, PrecisionChoice::Fp32);
}

/// Shares whose product with the steps is a whole number, but not that of the rounded quotient.
#[test]
fn a_share_of_the_steps_is_rounded_up_once() {
    for (percent, steps, step) in [
        ("7", 100, 7),
        ("28", 100, 28),
        ("55", 100, 55),
        ("56", 100, 56),
        ("55.5", 100, 56),
        ("32.2", 500, 161),
        ("0.001", 100, 1),
    ] {
        let schedule = format!("[[quant.schedule]]\nat = '{percent}%'\nnone = true\n");
        let config = load(&format!("[train]\nmax_steps = {steps}\n[quant]\nweight = 'E4M3'\n{schedule}"));
        assert_eq!(config.quant.schedule[0].trigger, CastTrigger::At(step), "{percent} %");
    }
}

#[test]
fn the_resolved_file_says_the_same() {
    let config = load(&format!(
        "{BASE}[[quant.schedule]]\nat = '50%'\nblock = 16\nscaling = {{ type = 'e8m0' }}\n\
         [[quant.schedule]]\non = 'divergence'\nnone = true\n"
    ));
    let resolved = config.to_toml().unwrap();
    let again = try_load(&resolved, &[]).unwrap_or_else(|error| panic!("{resolved}\n{error}")).0;
    assert_eq!(again, config, "{resolved}");
    assert!(!load(BASE).to_toml().unwrap().contains("schedule]]"));
}

#[test]
#[rustfmt::skip]
fn refusals() {
    let rows = [
        ("grad = 'none'", "`quant.schedule.0` needs either `at` or `on`", ":9:1", "at = 400"),
        ("at = 0\ngrad = 'none'", "`quant.schedule.0.at` must be from step 1 to 499, found 0", ":10:6", "set casts that apply from the first step"),
        ("at = 500\ngrad = 'none'", "`quant.schedule.0.at` must be from step 1 to 499, found 500", ":10:6", "a run ends before"),
        ("at = '99.9%'\ngrad = 'none'", "`quant.schedule.0.at` must be from step 1 to 499, found 500", ":10:6", "shares are rounded up to whole steps"),
        ("at = '80'\ngrad = 'none'", "`quant.schedule.0.at` must be a step, or a percentage of `train.max_steps`, found \"80\"", ":10:6", "write at = 400"),
        ("on = 'kurtosi'\ngrad = 'none'", "`quant.schedule.0.on` names no alert: \"kurtosi\"", ":10:6", "did you mean `kurtosis`?"),
        ("at = 9\ngrad = 'none'\n[[quant.schedule]]\nat = 9\nnone = true", "`quant.schedule.1.at` is step 9, and `quant.schedule.0` comes before it with step 9", ":13:6", "sort the entries by step"),
        ("on = 'kurtosis'\ngrad = 'none'\n[[quant.schedule]]\non = 'kurtosis'\nnone = true", "the alert `kurtosis` already triggers `quant.schedule.0`", ":13:6", "an alert triggers one entry"),
        ("on = 'kurtosis'\nnone = true\n[metrics]\nhistograms_every = 0", "`quant.schedule.0.on`: the alert `kurtosis` never fires in this run", ":10:6", "its metric is not measured"),
        ("on = 'kurtosis'\nnone = true\n[alerts]\nkurtosis_threshold = 'off'", "`quant.schedule.0.on`: the alert `kurtosis` never fires in this run", ":10:6", "set alerts.kurtosis_threshold"),
        ("on = 'rank_collapse'\nnone = true\n[alerts]\nstable_rank_threshold = 'off'", "`quant.schedule.0.on`: the alert `rank_collapse` never fires in this run", ":10:6", "set alerts.stable_rank_threshold"),
        ("on = 'divergence'\ngrad = 'none'\n[train]\neval_interval = 0", "`quant.schedule.0.on`: the alert `divergence` never fires in this run", ":10:6", "there is no evaluation before the end"),
        ("at = 9\ngrad = 'E5M2'", "`quant.schedule.0` changes nothing: its casts are in force already", ":10:6", "say what it changes"),
        ("at = 9\nnone = false", "`quant.schedule.0.none` must be true, found false", ":11:8", "without `none`"),
        ("at = 9\nnone = true\nrecipe = 'mxfp8'", "`quant.schedule.0.none` and `quant.schedule.0.recipe` exclude each other", ":11:8", "remove one"),
        ("at = 9\nrecipe = 'mxfp9'", "in `quant.schedule.0`: there is no recipe `mxfp9`", ":11:10", "did you mean"),
        ("at = 9\nwaight = 'E5M2'", "in `quant.schedule.0`: unknown key `quant.waight`", ":11:1", "did you mean `weight`?"),
        ("at = 9\nschedule = []", "unknown key `quant.schedule.0.schedule`", ":11:12", "an entry has no schedule"),
        ("at = 9\nblock = [0, 4]", "in `quant.schedule.0`: ", ":11:9", ""),
        ("at = 9\ncast.norm.rounding = 'stochastic'", "in `quant.schedule.0`: `quant.cast.norm.rounding` has no effect here", ":11:11", "it needs a format"),
        ("at = 9\nmaster_weights = 'none'", "`quant.schedule.0` changes how weights are stored, which cannot change during a run: without master weights they lie on the grids of their formats", ":11:18", "train with master_weights"),
    ];
    for (entry, message, at, hint) in rows {
        let text = format!("{BASE}[[quant.schedule]]\n{entry}");
        let error = try_load(&text, &[]).map(|_| ()).expect_err(entry);
        assert!(error.message.starts_with(message), "{entry}: {error}");
        assert_eq!(error.place.as_deref(), Some(format!("conf/x.toml{at}").as_str()), "{entry}: {error}");
        assert!(error.hint.as_deref().unwrap_or_default().starts_with(hint), "{entry}: {error}");
    }
    let text = "[quant.schedule]\nat = 9";
    let error = try_load(text, &[]).map(|_| ()).unwrap_err();
    assert_eq!((error.message.as_str(), error.hint.as_deref()), ("`quant.schedule` must be an array of tables", Some("write [[quant.schedule]]")));
}
