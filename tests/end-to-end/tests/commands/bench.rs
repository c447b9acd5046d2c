//! The benchmark: every case measured, ratios to the first, and refusals.

use altgrad_end_to_end::Bench;

#[test]
fn cases_are_compared_with_the_first() {
    let args = ["bench", "--steps", "1", "--warmup", "0", "--json", "--device", "cpu"];
    let cases = ["--case", "fp32", "--case", "bf16", "--case", "E5M2+metrics+shadow"];
    let outcome = Bench::new().host(&[args.as_slice(), &cases].concat());
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let report: serde_json::Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    assert_eq!((&report["size"], &report["device"]), (&"tiny".into(), &"cpu".into()));
    let cases = report["cases"].as_array().expect("cases");
    let names: Vec<&str> = cases.iter().filter_map(|case| case["case"].as_str()).collect();
    assert_eq!(names, ["fp32", "bf16", "E5M2+metrics+shadow"]);
    assert_eq!(cases[0]["median_ratio"], 1.0);
    for case in cases {
        for number in ["median_ms", "least_ms", "median_ratio", "least_ratio", "tokens_per_s"] {
            assert!(case[number].as_f64().is_some_and(|number| number > 0.0), "{number} of {case}");
        }
    }
}

#[test]
fn unknown_cases_are_refused() {
    for (case, message) in [
        ("fp32+metric", "unknown part `metric` of case `fp32+metric`"),
        (
            "E9M9",
            "unknown format `E9M9`\n  --> --case E9M9\nhint: a case is fp32, bf16, hybrid, recipe:NAME or",
        ),
    ] {
        let outcome = Bench::new().host(&["bench", "--case", case]);
        assert_eq!(outcome.code, 2, "{}", outcome.stderr);
        assert!(outcome.stderr.contains(message), "{}", outcome.stderr);
    }
}
