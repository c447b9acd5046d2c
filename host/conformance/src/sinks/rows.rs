//! Checks of rows and distributions with unusual content.

use altgrad_plugin_api::{AlertLevel, RunOutcome};

use super::{SinkSubject, subject::Instance};
use crate::{CheckResult, Verdict, checks::together::MANY};

/// A fresh run that is given to `write`, finished, and looked after.
fn in_a_run(subject: &SinkSubject, write: impl FnOnce(&mut Instance) -> Result<(), String>) -> CheckResult {
    let scratch = subject.scratch()?;
    let mut sink = subject.opened(&scratch)?;
    write(&mut sink)?;
    sink.finish(RunOutcome::COMPLETED)?;
    drop(sink);
    scratch.closed(Ok(Verdict::Passed))
}

/// Unusual names, each different.
pub(super) fn names() -> Vec<String> {
    let odd = [
        "",
        " ",
        "a,b",
        "a\"b",
        "\"",
        "a\nb",
        "a\r\nb",
        "a\tb",
        "a;b",
        "'",
        "\\",
        "a/b/c/d/e",
        "/",
        "//",
        "a/",
        "/a",
        "..",
        "../up",
        "train/loss ",
        "ä/ß/漢字/🧪",
        "e\u{301}",
        "\u{feff}x",
        "\u{202e}x",
        "\u{1}",
        "%s%n",
        "{}",
        "null",
        "NaN",
        "true",
        "0",
        "-1",
        "=1+1",
        "#",
        "a=b",
        "a:b",
        "_step",
        "_timestamp",
        "layers/a, \"b\".c",
        "x/.",
        "x/..",
    ];
    odd.iter().map(ToString::to_string).chain(["long/".to_string() + &"x".repeat(10_000)]).collect()
}

pub(super) fn odd_names(subject: &SinkSubject) -> CheckResult {
    in_a_run(subject, |sink| {
        for (step, name) in (0..).zip(names()) {
            let fault = |fault| format!("name {name:.40?}: {fault}");
            sink.log(step, &[("train/loss", 1.0), (&name, 2.0)]).map_err(fault)?;
            sink.histogram(step, &name, &[0.0, 1.0], &[5]).map_err(fault)?;
            sink.alert(step, AlertLevel::WARN, &name, &name).map_err(fault)?;
        }
        let (names, step) = (names(), names().len() as u64);
        let row: Vec<(&str, f64)> = names.iter().map(|name| (name.as_str(), 0.5)).collect();
        sink.log(step, &row)?;
        sink.summary(&row)
    })
}

/// Values at the ends of f64's range.
pub(super) const VALUES: [f64; 14] = [
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    0.0,
    -0.0,
    5e-324,
    -5e-324,
    f64::MIN_POSITIVE,
    f64::MAX,
    f64::MIN,
    1.0 / 3.0,
    1e300,
    9_007_199_254_740_993.0,
    -1.5,
];

pub(super) fn odd_values(subject: &SinkSubject) -> CheckResult {
    in_a_run(subject, |sink| {
        for (step, value) in (0..).zip(VALUES) {
            let row = [("train/loss", value), ("grad_norm_l2/wte.weight", value), ("time/step_ms", value)];
            sink.log(step, &row).map_err(|fault| format!("value {value:?}: {fault}"))?;
        }
        sink.state()?;
        let names: Vec<String> = (0..VALUES.len()).map(|index| format!("final/value_{index}")).collect();
        let values: Vec<(&str, f64)> = names.iter().map(String::as_str).zip(VALUES).collect();
        sink.summary(&values)
    })
}

pub(super) fn odd_distributions(subject: &SinkSubject) -> CheckResult {
    in_a_run(subject, |sink| {
        let wide: Vec<f64> = (0..=5_000).map(f64::from).collect();
        let distributions: [(&str, &[f64], &[u64]); 6] = [
            ("one", &[0.0, 1.0], &[7]),
            ("empty", &[0.0, 1.0, 2.0], &[0, 0]),
            ("ends", &[f64::NEG_INFINITY, 0.0, f64::INFINITY], &[1, u64::MAX]),
            ("huge", &[f64::MIN, -1.0, f64::MAX], &[1, 1]),
            ("none", &[0.0], &[]),
            ("wide", &wide, &[3; 5_000]),
        ];
        for (step, (name, edges, counts)) in (0..).zip(distributions) {
            sink.log(step, &[("train/loss", 1.0)])?;
            let taken = sink.histogram(step, name, edges, counts);
            taken.map_err(|fault| format!("distribution `{name}`: {fault}"))?;
        }
        Ok(())
    })
}

pub(super) fn new_metrics(subject: &SinkSubject) -> CheckResult {
    in_a_run(subject, |sink| {
        for step in 0..40 {
            let name = format!("late/{}", step / 2);
            let layer = format!("late/{}/h.{}.weight", step / 3, step / 2);
            sink.log(step, &[("train/loss", 1.0), (&name, 2.0), (&layer, 3.0)])?;
        }
        let names: Vec<String> = (0..2_000).map(|index| format!("many/{index}")).collect();
        let row: Vec<(&str, f64)> = names.iter().map(|name| (name.as_str(), 0.25)).collect();
        sink.log(40, &row)?;
        sink.log(41, &[("train/loss", 1.0)])
    })
}

pub(super) fn many_rows(subject: &SinkSubject) -> CheckResult {
    in_a_run(subject, |sink| {
        (0..MANY as u64).try_for_each(|step| sink.log(step, &[("train/loss", 1.0 / (1.0 + step as f64))]))
    })
}
