//! The tables of results/alerts, results/range, results/vocabulary, results/e7m0, results/stability and results/reference.

use std::collections::{BTreeMap, BTreeSet};

use super::{difference, differences_to_fp32, family, losses, mean, read};

#[test]
fn the_counts_of_alerts_are_those_of_their_records() {
    let record = read("results/alerts/runs.csv");
    let runs: Vec<Vec<&str>> = record.lines().skip(1).map(|line| line.split(',').collect()).collect();
    let is_failing = |run: &&Vec<&str>| !run[3].is_empty();
    let healthy = runs.iter().filter(|run| run[0] == "healthy" && !is_failing(run));
    let (healthy, alarmed): (usize, usize) =
        healthy.fold((0, 0), |(all, alarmed), run| (all + 1, alarmed + usize::from(!run[6].is_empty())));
    let number = |cell: &str| cell.parse::<i64>().unwrap();
    // The step at which a failure begins, where the first alert is not before the first median over ten steps.
    let early = read("results/alerts/early.csv");
    let begins = |run: &str| {
        let row = early.lines().find_map(|line| line.strip_prefix(run)?.strip_prefix(','));
        row.map(|row| row.split(',').map(str::to_string).collect::<Vec<_>>())
    };
    let (mut before, mut late, mut silent) = (0, Vec::new(), 0);
    for run in runs.iter().filter(is_failing) {
        match (run[5], begins(run[1])) {
            ("", None) => silent += 1,
            (alert, None) if number(alert) < 9 => before += 1,
            (alert, Some(row)) => {
                assert_eq!(row[1], alert, "{}", run[1]);
                match number(alert) - number(&row[0]) {
                    lead if lead < 0 => before += 1,
                    late_by => late.push(late_by),
                }
            }
            (_, None) => panic!("results/alerts/early.csv lacks {}", run[1]),
        }
    }
    let (least, most) = (late.iter().min().unwrap(), late.iter().max().unwrap());
    let rows = [
        format!("| runs of `healthy.toml` that train well | {healthy} |"),
        format!("| of them raised an alert | {alarmed} |"),
        format!("| failing runs of both files | {} |", runs.iter().filter(is_failing).count()),
        format!("| of them raised an alert before the failure begins | {before} |"),
        format!("| of them raised the first alert later, by {least} to {most} steps | {} |", late.len()),
        format!("| of them raised no alert | {silent} |"),
    ];
    let page = read("results/alerts/README.md");
    for row in rows {
        assert!(page.contains(&row), "results/alerts/README.md lacks {row}");
    }
}

#[test]
fn the_tables_of_range_are_those_of_their_records() {
    let (page, profile) = (read("results/range/README.md"), read("results/range/profile.csv"));
    assert_eq!(profile.lines().count(), 1 + 15, "three roles at five sites");
    let name = |site: &str| site.replace('_', " ").replace("mlp", "MLP");
    for line in profile.lines().skip(1) {
        let columns: Vec<&str> = line.split(',').collect();
        let row = format!("| {} | {} | {} |", columns[0], name(columns[1]), columns[2..].join(" | "));
        assert!(page.contains(&row), "results/range/README.md lacks {row}");
    }
    let mut sites = BTreeMap::<String, Vec<String>>::new();
    for line in read("results/range/underflow.csv").lines().skip(1) {
        let columns: Vec<&str> = line.split(',').collect();
        let percent = 100.0 * columns[3].parse::<f64>().unwrap();
        sites.entry(name(columns[2])).or_default().push(format!("{percent:.1}"));
    }
    assert_eq!(sites.len(), 5);
    for (site, percents) in sites {
        let row = format!("| {site} | {} |", percents.join(" | "));
        assert!(page.contains(&row), "results/range/README.md lacks {row}");
    }
}

#[test]
fn the_interventions_at_the_head_are_those_of_their_records() {
    let page = read("results/range/README.md");
    let found = differences_to_fp32(&losses("results/range/head.csv"));
    let zeroed = read("results/range/head_underflow.csv");
    for (cell, (text, detectable)) in family(&found) {
        let own = |line: &&str| line.split(',').next() == Some(cell[0].as_str());
        let zeroed = zeroed.lines().find(own).and_then(|line| line.split(',').nth(1)).unwrap();
        let percent = 100.0 * zeroed.parse::<f64>().unwrap();
        let row = format!("| {} | {percent:.1} | {text} | {detectable:.4} |", cell[0]);
        assert!(page.contains(&row), "results/range/README.md lacks {row}");
    }
    assert_eq!(found.len(), 8);
    let found = differences_to_fp32(&losses("results/range/remedy.csv"));
    for (cell, (text, detectable)) in family(&found) {
        let row = format!("| {} | {text} | {detectable:.4} |", cell[0]);
        assert!(page.contains(&row), "results/range/README.md lacks {row}");
    }
    assert_eq!(found.len(), 6);
}

#[test]
fn the_tables_of_vocabularies_are_those_of_their_records() {
    const SIZES: [&str; 4] = ["256", "1024", "4096", "16384"];
    let (page, cells) = (read("results/vocabulary/README.md"), losses("results/vocabulary/losses.csv"));
    let key = |size: &str, case: &str| vec![size.to_string(), case.to_string()];
    let others = cells.iter().filter(|(cell, _)| cell[1] != "fp32");
    let found: BTreeMap<_, _> =
        others.map(|(cell, of)| (cell.clone(), difference(of, &cells[&key(&cell[0], "fp32")]))).collect();
    let family = family(&found);
    let zeroed: BTreeMap<Vec<String>, String> = read("results/vocabulary/zeroed.csv")
        .lines()
        .skip(1)
        .map(|line| {
            let [size, case, shares @ ..] = &line.split(',').collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            let percent = |share: &&str| format!("{:.1}", 100.0 * share.parse::<f64>().unwrap());
            (key(size, case), shares.iter().map(percent).collect::<Vec<_>>().join(", "))
        })
        .collect();
    let fp32 = SIZES.map(|size| mean(&cells[&key(size, "fp32")].values().copied().collect::<Vec<_>>()));
    let mut rows = vec![format!("| fp32 | {} |", fp32.map(|loss| format!("{loss:.4}")).join(" | "))];
    let cases: BTreeSet<&String> = found.keys().map(|cell| &cell[1]).collect();
    for case in &cases {
        let row = |cell: &dyn Fn(&str) -> String| format!("| {case} | {} |", SIZES.map(cell).join(" | "));
        rows.push(row(&|size| family[&key(size, case)].0.clone()));
        rows.push(row(&|size| format!("{:.4}", family[&key(size, case)].1)));
        rows.push(row(&|size| zeroed[&key(size, case)].clone()));
    }
    let missing: Vec<&String> = rows.iter().filter(|row| !page.contains(*row)).collect();
    assert!(missing.is_empty(), "results/vocabulary/README.md lacks {missing:#?}");
    assert_eq!((cases.len(), found.len()), (11, 44));
}

#[test]
fn the_table_of_e7m0_is_that_of_its_records() {
    let (page, cells) = (read("results/e7m0/README.md"), losses("results/e7m0/losses.csv"));
    let found = differences_to_fp32(&cells);
    for (cell, (text, detectable)) in family(&found) {
        let loss = mean(&cells[cell].values().copied().collect::<Vec<_>>());
        let row = format!("| {} | {loss:.4} | {text} | {detectable:.4} |", cell[0]);
        assert!(page.contains(&row), "results/e7m0/README.md lacks {row}");
    }
    for line in read("results/e7m0/timeline.csv").lines().skip(1) {
        let row = format!("| {} |", line.split(',').collect::<Vec<_>>().join(" | "));
        let is_shown =
            ["all,", "stored-nearest,", "stored-stochastic,"].iter().any(|case| line.starts_with(case));
        assert!(!is_shown || page.contains(&row), "results/e7m0/README.md lacks {row}");
    }
}

const STABLE_FORMATS: [&str; 6] = ["fp32", "E3M4", "E4M3", "E5M2", "E7M0", "E2M1"];

/// Largest stable rate and smallest unstable one as written, by format, optimizer and seed.
fn stable_rates() -> BTreeMap<[String; 2], BTreeMap<u64, [String; 2]>> {
    let mut rates = BTreeMap::<_, BTreeMap<_, _>>::new();
    for line in read("results/stability/rates.csv").lines().skip(1) {
        let [format, optimizer, seed, stable, unstable] =
            line.split(',').map(String::from).collect::<Vec<_>>().try_into().unwrap();
        rates.entry([format, optimizer]).or_default().insert(seed.parse().unwrap(), [stable, unstable]);
    }
    rates
}

#[test]
fn the_ranges_of_stable_rates_are_those_of_their_records() {
    let (page, rates) = (read("results/stability/README.md"), stable_rates());
    for format in STABLE_FORMATS {
        let cell = |optimizer: &str| {
            let shown = |[stable, unstable]: &[String; 2]| match (stable.is_empty(), unstable.is_empty()) {
                (true, _) => (0.0, "none".to_string()),
                (false, true) => (stable.parse().unwrap(), format!("≥ {stable}")),
                (false, false) => (stable.parse::<f64>().unwrap(), stable.clone()),
            };
            let mut of: Vec<_> = rates[&[format, optimizer].map(String::from)].values().map(shown).collect();
            of.sort_by(|a, b| a.partial_cmp(b).unwrap());
            assert_eq!(of.len(), 5);
            format!("{} ({} to {})", of[2].1, of[0].1, of[4].1)
        };
        let row = format!("| {format} | {} |", ["adamw", "sgd", "muon"].map(cell).join(" | "));
        assert!(page.contains(&row), "results/stability/README.md lacks {row}");
    }
}

#[test]
fn the_factors_of_stable_rates_are_those_of_their_records() {
    let (page, rates) = (read("results/stability/README.md"), stable_rates());
    // Cells that bisection bounded for every seed.
    let logarithms = |of: &BTreeMap<u64, [String; 2]>| -> Option<BTreeMap<u64, f64>> {
        let log = |[stable, unstable]: &[String; 2]| {
            (!unstable.is_empty()).then(|| stable.parse::<f64>().ok().map(f64::log2)).flatten()
        };
        of.iter().map(|(seed, ends)| Some((*seed, log(ends)?))).collect()
    };
    let mut found = BTreeMap::new();
    for ([format, optimizer], of) in rates.iter().filter(|([format, _], _)| format != "fp32") {
        let baseline = logarithms(&rates[&["fp32".to_string(), optimizer.clone()]]);
        if let (Some(own), Some(baseline)) = (logarithms(of), baseline) {
            found.insert(vec![optimizer.clone(), format.clone()], difference(&own, &baseline));
        }
    }
    for (cell, (text, detectable)) in family(&found) {
        let of = found[cell];
        let factor = format!("{:.2}", of.mean.exp2());
        let factor = if text.starts_with("**") { format!("**{factor}**") } else { factor };
        let [low, high] = [of.mean - of.half, of.mean + of.half].map(f64::exp2);
        let row =
            format!("| {} | {factor} | {low:.2} to {high:.2} | {:.2} |", cell.join(" | "), detectable.exp2());
        assert!(page.contains(&row), "results/stability/README.md lacks {row}");
    }
    assert!(found.len() >= 5, "{found:?}");
}

#[test]
fn the_table_of_the_reference_experiment_is_that_of_its_record() {
    let page = read("results/reference/README.md");
    // Held-out loss, gradient cosine, unchanged codes and overflow by step.
    let mut runs = BTreeMap::<String, BTreeMap<u64, [Option<f64>; 4]>>::new();
    for line in read("results/reference/steps.csv").lines().skip(1) {
        let [run, step, _, values @ ..] = &line.split(',').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let values = values.iter().map(|value| value.parse().ok()).collect::<Vec<_>>().try_into().unwrap();
        runs.entry(run.to_string()).or_default().insert(step.parse().unwrap(), values);
    }
    let loss = |run: &str, step: u64| runs[run].get(&step).and_then(|values| values[0]);
    for (run, rows) in &runs {
        let is_shared = |step: &&u64| loss(run, **step).is_some() && loss("bf16", **step).is_some();
        let last = *rows.keys().filter(is_shared).max().unwrap();
        let until = |metric: usize| -> Vec<f64> {
            rows.range(..=last).filter_map(|(_, values)| values[metric]).collect()
        };
        let average = |values: Vec<f64>| match values.len() {
            0 => String::new(),
            _ => format!("{:.4}", mean(&values)),
        };
        let own = loss(run, last).unwrap();
        let ratio = own / loss("bf16", last).unwrap();
        let overflow = until(3).into_iter().reduce(f64::max);
        let verdict = match run.as_str() {
            "bf16" => "baseline",
            _ if (ratio - 1.0).abs() <= 0.1 => "within 10 %",
            _ => "outside 10 %",
        };
        let perplexity = own.exp();
        let perplexity =
            if perplexity < 1e6 { format!("{perplexity:.2}") } else { format!("{perplexity:.2e}") };
        let start = format!("| {run} | {last} | {own:.4} | {perplexity} | {ratio:.4} |");
        let end = format!("{verdict} |");
        let row = page.lines().find(|line| line.starts_with(&start) && line.ends_with(&end));
        let row = row.unwrap_or_else(|| panic!("results/reference/README.md lacks {start} ... {end}"));
        assert!(row.contains(&format!("| {} | {} |", average(until(1)), average(until(2)))), "{row}");
        let shown = row.split('|').nth(8).unwrap().trim().parse::<f64>().ok();
        let is_same = |(shown, of): (f64, f64)| (shown - of).abs() <= of * 0.005;
        assert!(shown.is_some() == overflow.is_some() && shown.zip(overflow).is_none_or(is_same), "{row}");
    }
}

#[test]
fn the_table_of_zeroed_gradients_is_that_of_its_record() {
    let (page, record) = (read("results/reference/README.md"), read("results/reference/zeroed.csv"));
    let rows: Vec<Vec<&str>> = record.lines().skip(1).map(|line| line.split(',').collect()).collect();
    let mut runs: Vec<&str> = rows.iter().map(|row| row[0]).collect();
    runs.dedup();
    for layer_type in ["qkv", "attention output", "MLP up", "MLP down", "head"] {
        let cell = |run: &&str| {
            let found = rows.iter().find(|row| row[..2] == [*run, layer_type]);
            found.map_or(String::new(), |row| format!("{:.2}", 100.0 * row[2].parse::<f64>().unwrap()))
        };
        let row = format!("| {layer_type} | {} |", runs.iter().map(cell).collect::<Vec<_>>().join(" | "));
        assert!(page.contains(&row), "results/reference/README.md lacks {row}");
    }
    assert!(page.contains(&format!("| layer type | {} |", runs.join(" | "))));
}

#[test]
fn the_table_of_the_gradient_at_the_head_is_that_of_its_record() {
    let page = read("results/reference/README.md");
    let (head, steps) = (read("results/reference/head.csv"), read("results/reference/steps.csv"));
    let loss = |run: &str, step: &str| {
        let row = |text: &str, column: usize| {
            let mut rows = text.lines().map(|line| line.split(',').map(str::to_string).collect::<Vec<_>>());
            rows.find(|row| row[..2] == [run, step]).map(|row| row[column].parse::<f64>().unwrap())
        };
        row(&head, 2).or_else(|| row(&steps, 3)).unwrap()
    };
    for run in ["bf16", "E3M4", "head-grad-E5M2", "head-grad-stochastic"] {
        let row = format!("| {run} | {:.4} | {:.4} |", loss(run, "100"), loss(run, "200"));
        assert!(page.contains(&row), "results/reference/README.md lacks {row}");
    }
}
