//! Folders over which a comparison is easily wrong, and the report's remarks about them.

use std::fs;

use serde_json::json;
use tempfile::TempDir;

use super::{chart, compared, run_with};
use crate::{
    compare::{Basis, Choice, Comparison, LossVerdict, Separated, named},
    figures::{Look, View},
    find::find,
    group::groups,
    page,
    sets::have_other_data,
    status::Status,
};

const RATES: [&str; 10] = ["1e-5", "3e-5", "1e-4", "3e-4", "1e-3", "3e-3", "1e-2", "3e-2", "1e-1", "3e-1"];

/// Held-out loss by rate: best at the sixth of ten, by `extra` worse for the format.
fn loss(rate: usize, seed: u64, extra: f64) -> f64 {
    2.0 + 0.05 * (rate as f64 - 5.0).powi(2) + 0.01 * seed as f64 + extra
}

/// Ten rates of fp32 and of E5M2, three seeds each. The first fp32 label by name is that of 1e-1, which is bad.
fn rate_sweep(folder: &TempDir) {
    for (index, rate) in RATES.iter().enumerate() {
        for seed in 1..4 {
            for (format, extra) in [("none", 0.0), ("E5M2", 0.012 + 0.001 * (seed % 2) as f64)] {
                let quant =
                    format!("weight = \"{format}\"\n[train]\nmax_steps = 10\nlr = {rate}\nmin_lr = {rate}\n");
                let name = format!("{format}_{rate}_{seed}");
                run_with(folder.path(), &name, &quant, seed, loss(index, seed, extra));
            }
        }
    }
}

#[test]
fn a_rate_sweep_holds_the_best_rate_against_the_best_rate() {
    let folder = TempDir::new().unwrap();
    rate_sweep(&folder);
    let (_, _, comparison) = compared(folder.path());
    assert_eq!(comparison.baseline(), Some("fp32 · lr 0.003"));
    assert_eq!((comparison.pairs_tested, comparison.separated.len()), (1, 1), "not one a rate");
    assert_eq!(
        comparison.ranking[2],
        "E5M2 w · lr 0.003 ends above fp32 · lr 0.003, each at the best of 10 settings that both were run at: \
         0.0127 ± 0.0014 nats/token (95 %, n = 3, p = 6.92e-4 after Holm)."
    );
    let row = |label: &str| comparison.rows.iter().find(|row| row.label == label).unwrap();
    assert_eq!(row("E5M2 w · lr 0.003").basis, Some(Basis::BestOf(10)));
    assert_eq!(row("E5M2 w · lr 0.1").p_holm, None, "shown, not tested");
    assert_eq!(row("fp32 · lr 0.003").verdict, LossVerdict::Baseline);
    let note = "The baseline is fp32 · lr 0.003. Other unquantized ones: ";
    assert!(comparison.notes.iter().any(|it| it.starts_with(note)), "{:?}", comparison.notes);
    // The same rate, if the user requests it.
    let found = find(&[folder.path().to_path_buf()]);
    let groups = groups(&found.runs);
    let baseline = named(&found.runs, &groups, "none_1e-5_2");
    let comparison = Comparison::new(&found.runs, &groups, Choice { baseline, ..Choice::default() });
    assert_eq!(comparison.baseline(), Some("fp32 · lr 1e-5"));
    assert!(comparison.ranking[2].starts_with("E5M2 w · lr 1e-5 ends above fp32 · lr 1e-5: 0.0127"));
}

#[test]
fn curves_over_rates_are_separate_for_each_storage_and_rounding() {
    let folder = TempDir::new().unwrap();
    for (index, rate) in RATES[..3].iter().enumerate() {
        for (storage, extra) in [("fp32", 0.0), ("none", 1.0)] {
            let quant = format!(
                "weight = \"E4M3\"\nmaster_weights = \"{storage}\"\n[train]\nmax_steps = 10\nlr = {rate}\nmin_lr = {rate}\n"
            );
            run_with(folder.path(), &format!("{storage}_{rate}"), &quant, 1, loss(index, 1, extra));
        }
    }
    let (found, groups, comparison) = compared(folder.path());
    let view = page::View::default();
    let source =
        page::PageInput { title: "t", found: &found, groups: &groups, comparison: &comparison, view: &view };
    let charts = source.charts();
    let (_, svg, _) = charts.iter().find(|(name, ..)| name == "rates").unwrap();
    for name in ["E4M3 w · adamw · master weights", "E4M3 w · adamw · no master weights"] {
        assert!(svg.contains(&format!(">{name}<")), "{svg:.4000}");
    }
    assert_eq!(svg.matches("class=\"line\"").count(), 2, "{svg:.4000}");
}

#[test]
fn runs_of_other_data_or_length_have_a_baseline_of_their_own() {
    let folder = TempDir::new().unwrap();
    let of = |format: &str, steps: u32, data: &str| {
        format!("weight = \"{format}\"\n[train]\nmax_steps = {steps}\n[data]\ndataset = \"{data}\"\n")
    };
    // By name the first unquantized run is the short one on other data.
    run_with(folder.path(), "a", &of("none", 20, "bins:other"), 1, 4.0);
    for seed in 1..4 {
        run_with(
            folder.path(),
            &format!("b{seed}"),
            &of("none", 500, "lawgen"),
            seed,
            2.0 + 0.01 * seed as f64,
        );
        for (format, worse) in [("E4M3", 0.1), ("E5M2", 0.2), ("E3M4", 0.15)] {
            let loss = 2.0 + worse + 0.01 * seed as f64 + 0.001 * (seed % 2) as f64;
            run_with(folder.path(), &format!("{format}{seed}"), &of(format, 500, "lawgen"), seed, loss);
        }
    }
    let (_, groups, comparison) = compared(folder.path());
    assert_eq!((groups.len(), comparison.sets.len()), (5, 2));
    assert_eq!(comparison.separated.len(), 3, "{:?}", comparison.ranking);
    assert!(comparison.rows.iter().all(|row| row.verdict != LossVerdict::NotComparable));
    assert_eq!(
        comparison.notes,
        [
            "Runs with data.dataset = lawgen, train.max_steps = 500: the baseline of these is fp32 · dataset lawgen.",
            "Runs with data.dataset = bins:other, train.max_steps = 20: fp32 · dataset bins:other alone: no other \
             configuration has this data, model and length.",
        ]
    );
}

#[test]
fn runs_on_different_tokens_are_not_compared() {
    let folder = TempDir::new().unwrap();
    for (name, format, loss) in [("a", "none", 2.0), ("b", "E5M2", 1.0)] {
        let quant = format!(
            "weight = \"{format}\"\n[train]\nmax_steps = 10\n[data]\ndataset = \"text:corpus.txt\"\n"
        );
        run_with(folder.path(), name, &quant, 1, loss);
    }
    let record = |name: &str, fingerprint: &str| {
        let path = folder.path().join(name).join("run.json");
        let mut status: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        status["data_fingerprint"] = fingerprint.into();
        fs::write(path, status.to_string()).unwrap();
    };
    let sets = || compared(folder.path()).2.sets.len();
    assert_eq!(sets(), 1, "earlier versions record no fingerprint");
    record("a", "0123");
    assert_eq!(sets(), 1, "one is unknown");
    record("b", "0123");
    assert_eq!(sets(), 1);
    record("b", "4567");
    let comparison = compared(folder.path()).2;
    assert_eq!(comparison.sets.len(), 2);
    assert!(comparison.rows.iter().all(|row| row.verdict != LossVerdict::Better));
    assert!(comparison.sets.iter().any(|set| set.what == ["data.fingerprint = 4567"]));
    let status =
        |data: Option<&str>| Status { data_fingerprint: data.map(str::to_string), ..Status::default() };
    for (a, b, differ) in
        [(Some("1"), Some("2"), true), (Some("1"), Some("1"), false), (Some("1"), None, false)]
    {
        assert_eq!(have_other_data(Some(&status(a)), Some(&status(b))), differ);
    }
}

#[test]
fn ten_configurations_are_tested_against_the_baseline_and_not_each_against_each() {
    let folder = TempDir::new().unwrap();
    let quant = |format: &str| format!("weight = \"{format}\"\n[train]\nmax_steps = 10\n");
    // Differences of a mean of -0.0369 and a half interval of 0.0105, as in a folder that was reported, and others of
    // about nothing.
    let sd = 0.0105 * f64::sqrt(3.0) / 4.302_652_7;
    for (seed, part) in [(1, -1.0), (2, 0.0), (3, 1.0)] {
        let base = 2.0 + 0.05 * part;
        run_with(folder.path(), &format!("fp32_{seed}"), &quant("none"), seed, base);
        run_with(folder.path(), &format!("E3M4_{seed}"), &quant("E3M4"), seed, base - 0.0369 + sd * part);
        let others = ["E0M7", "E1M6", "E2M5", "E4M3", "E5M2", "E6M1", "E7M0", "INT8"];
        for (index, format) in others.iter().enumerate() {
            let noise = [0.031, -0.022, -0.013][(seed as usize + index) % 3] + 0.002 * index as f64;
            run_with(folder.path(), &format!("{format}_{seed}"), &quant(format), seed, base + noise);
        }
    }
    let (found, groups, comparison) = compared(folder.path());
    assert_eq!(comparison.ranking[0], "1 of 9 differences from the baseline are significant.");
    let said = |start: &str| comparison.ranking.iter().find(|line| line.starts_with(start)).unwrap().clone();
    assert_eq!(
        said("E3M4"),
        "E3M4 w ends below fp32: -0.0369 ± 0.0105 nats/token (95 %, n = 3, p = 3.91e-2 after Holm)."
    );
    // 0.8 is the power of a noncentral t with 2 degrees of freedom at the level 0.05 / 9, by Monte Carlo.
    assert_eq!(
        said("E0M7"),
        "E0M7 w and fp32: no significant difference, -0.0013 ± 0.0705 nats/token (95 %, n = 3, p = 1.00e0 after Holm). \
         A difference of 0.2786 would be found with probability 80 %."
    );
    // Each against each, the same difference is lost among 45 tests.
    let all = Comparison::new(&found.runs, &groups, Choice { all_pairs: true, ..Choice::default() });
    assert_eq!(all.pairs_tested, 45);
    let is_it = |pair: &Separated| (pair.lower.as_str(), pair.higher.as_str()) == ("E3M4 w", "fp32");
    assert!(!all.separated.iter().any(is_it), "{:?}", all.ranking);
    assert!(comparison.separated.iter().any(is_it));
}

#[test]
fn labels_have_the_keys_that_differ_and_stay_short() {
    let folder = TempDir::new().unwrap();
    let quant = |master: &str, more: &str| {
        format!("weight = \"E7M0\"\nmaster_weights = \"{master}\"\n{more}[train]\nmax_steps = 10\n")
    };
    let long = format!("exclude = [{:?}]\n", "x".repeat(1 << 20));
    for (name, text) in [
        ("a", quant("fp32", "")),
        ("b", quant("none", "")),
        ("c", quant("fp32", &long)),
        ("d\u{1b}[2J", quant("none", &long)),
    ] {
        run_with(folder.path(), name, &text, 1, 2.0);
    }
    let (found, groups, _) = compared(folder.path());
    let labels: Vec<&str> = groups.iter().map(|group| group.label.as_str()).collect();
    assert!(labels.contains(&"E7M0 w · master weights") && labels.contains(&"E7M0 w · no master weights"));
    assert!(labels.iter().all(|label| label.chars().count() <= 80), "{labels:?}");
    assert_eq!(found.runs.iter().find(|run| run.path.ends_with("d\u{1b}[2J")).unwrap().name, "d\\u001b[2J");
}

/// Runs of a sweep are called and coloured by the labels of its matrix file; a baseline may still be named by its
/// format.
#[test]
fn configurations_of_a_sweep_have_its_labels() {
    let folder = TempDir::new().unwrap();
    let stored = "weight = \"E7M0\"\nmaster_weights = \"none\"\n";
    let mut runs = Vec::new();
    for (label, text) in [
        ("full precision", ""),
        ("nearest", stored),
        ("stochastic", &format!("{stored}weight_rounding = \"stochastic\"\n")),
        ("feedback", stored),
    ] {
        for seed in [1, 2] {
            let name = format!("s{seed}_{label}");
            let path = run_with(folder.path(), &name, text, seed, 2.0 + seed as f64 / 10.0);
            if label == "feedback" {
                let config = fs::read_to_string(path.join("config.toml")).unwrap();
                let config = config.replace("[optimizer]", "[optimizer]\nerror_feedback = true");
                fs::write(path.join("config.toml"), config).unwrap();
            }
            runs.push(json!({ "name": name, "axes": { "case": label, "run.seed": seed } }));
        }
    }
    fs::write(folder.path().join("sweep.json"), json!({ "runs": runs }).to_string()).unwrap();
    let (found, groups, comparison) = compared(folder.path());
    let labels: Vec<&str> = groups.iter().map(|group| group.label.as_str()).collect();
    assert_eq!(labels, ["full precision", "feedback", "nearest", "stochastic"]);
    assert_eq!(named(&found.runs, &groups, "fp32"), Some(0));
    assert_eq!(named(&found.runs, &groups, "nearest"), Some(2));
    // Error feedback is a treatment: all three are compared with fp32.
    let compared = comparison.rows.iter().filter(|row| row.baseline.as_deref() == Some("full precision"));
    assert_eq!(compared.count(), 3, "{:?}", comparison.rows);
    let look = |view: &View| Look::new(&found.runs, &groups, &comparison, view);
    assert_eq!((look(&View::default()).colour.as_str(), look(&View::default()).colours.len()), ("label", 4));
    let by_format = View { colour: Some("format".into()), ..View::default() };
    assert_eq!(look(&by_format).colours.len(), 2);
}

#[test]
fn a_baseline_is_named_by_the_part_of_run_names_that_only_it_has() {
    let folder = TempDir::new().unwrap();
    for seed in [1, 2] {
        for (format, part) in [("none", "weight-none"), ("E4M3", "weight-E4M3"), ("E5M2", "weight_x-E5M2")] {
            let quant = format!("weight = \"{format}\"\n[train]\nmax_steps = 10\n");
            run_with(folder.path(), &format!("{part}_s{seed}"), &quant, seed, 2.0);
        }
    }
    let (found, groups, _) = compared(folder.path());
    let label = |name: &str| named(&found.runs, &groups, name).map(|group| groups[group].label.as_str());
    assert_eq!(label("weight-none"), Some("fp32"));
    assert_eq!(label("weight-E4M3"), Some("E4M3 w"));
    assert_eq!(label("weight_x-E5M2"), Some("E5M2 w"), "a part may hold the separator");
    assert_eq!((label("none"), label("s3")), (None, None));
    assert_eq!(label("s1"), None, "no configuration has it in all of its runs");
}

#[test]
fn a_quantized_baseline_is_not_called_unquantized() {
    let folder = TempDir::new().unwrap();
    for format in ["none", "E4M3", "E5M2"] {
        let quant = format!("weight = \"{format}\"\n[train]\nmax_steps = 10\n");
        run_with(folder.path(), format, &quant, 1, 2.0);
    }
    let (found, groups, _) = compared(folder.path());
    let baseline = named(&found.runs, &groups, "E4M3");
    let comparison = Comparison::new(&found.runs, &groups, Choice { baseline, ..Choice::default() });
    let note = "The baseline is E4M3 w. Unquantized ones: fp32; `--baseline NAME` chooses.";
    assert!(comparison.notes.iter().any(|it| it == note), "{:?}", comparison.notes);
}

#[test]
fn curves_over_rates_are_of_one_length() {
    let folder = TempDir::new().unwrap();
    for (index, rate) in RATES[..6].iter().enumerate() {
        let steps = if index < 3 { 10 } else { 20 };
        let quant =
            format!("weight = \"E4M3\"\n[train]\nmax_steps = {steps}\nlr = {rate}\nmin_lr = {rate}\n");
        run_with(folder.path(), rate, &quant, 1, loss(index, 1, 0.0));
    }
    let (found, groups, comparison) = compared(folder.path());
    let csv = chart(&found, &groups, &comparison, "rates");
    for (steps, rate) in [(10, "0.00001"), (20, "0.0003")] {
        let start = format!("E4M3 w · adamw · train.max_steps = {steps},{rate},");
        assert!(csv.contains(&start), "{csv}");
    }
}

/// Configurations of these run files' ends, after the tables of a run of E4M3.
fn configurations(ends: &[&str]) -> Vec<String> {
    let folder = TempDir::new().unwrap();
    for (index, end) in ends.iter().enumerate() {
        let quant = format!("weight = \"E4M3\"\n[train]\nmax_steps = 10\n{end}");
        run_with(folder.path(), &index.to_string(), &quant, index as u64, 2.0);
    }
    compared(folder.path()).1.into_iter().map(|group| group.label).collect()
}

#[test]
fn keys_of_measurements_and_limits_make_no_configuration() {
    let ends =
        ["[curvature]\nevery = 5\n", "[limits]\nplugin_call_timeout_s = 9.0\n", "[alerts]\npatience = 9\n"];
    assert_eq!(configurations(&ends), ["E4M3 w"]);
}

#[test]
fn keys_of_alerts_make_a_configuration_if_an_alert_switches_casts() {
    let schedule = |more: &str| format!("{more}[[quant.schedule]]\non = \"kurtosis\"\nnone = true\n");
    let [few, many] = [3, 9].map(|patience| schedule(&format!("[alerts]\npatience = {patience}\n")));
    let labels = configurations(&[&few, &many, &few]);
    assert_eq!(labels, ["E4M3 w · patience 3", "E4M3 w · patience 9"]);
    // They do not distinguish it from a configuration without such a switch.
    let labels = configurations(&["[alerts]\npatience = 3\n", &many]);
    assert!(labels.len() == 2 && labels.iter().all(|label| !label.contains("patience")), "{labels:?}");
}

/// A configuration that an alert switches is compared with its baseline at the same setting.
#[test]
fn keys_of_alerts_are_part_of_the_treatment() {
    let folder = TempDir::new().unwrap();
    let schedule = "[alerts]\npatience = 3\n[[quant.schedule]]\non = \"kurtosis\"\nnone = true\n";
    for (name, format, end) in [("a", "none", ""), ("b", "E4M3", schedule)] {
        let quant = format!("weight = \"{format}\"\n[train]\nmax_steps = 10\n{end}");
        run_with(folder.path(), name, &quant, 1, 2.0);
    }
    let (_, _, comparison) = compared(folder.path());
    assert_eq!(comparison.rows[1].basis, Some(Basis::SameSetting));
    assert!(comparison.sets[0].settings.is_empty(), "{:?}", comparison.sets);
}
