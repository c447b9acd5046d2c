//! `compare` and `report` over real runs and over invalid ones; the page in a real browser.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Stdio,
};

use altgrad_end_to_end::{Bench, TINY, browser, size, skipped};
use insta::assert_snapshot;

/// Runs of two formats and two seeds, one that stopped being finite, and folders that are no runs.
fn runs() -> Bench {
    let bench = Bench::new();
    let measured =
        "[shadow]\nevery = 1\n[metrics]\nhistograms_every = 2\nrank_every = 2\n[[sink]]\nname = \"csv\"\n";
    bench.write("tiny.toml", &format!("{TINY}{measured}"));
    for format in ["none", "E4M3", "E5M2"] {
        for seed in [1, 2] {
            let formats = ["weight", "activation", "grad"].map(|role| format!("quant.{role}={format}"));
            let (out, name) = (format!("runs/{format}_{seed}"), format!("run.name={format}_{seed}"));
            let seed = format!("run.seed={seed}");
            let mut args = vec!["run", "tiny.toml", "--quiet", "--out", &out, "--set", &seed, "--set", &name];
            formats.iter().for_each(|format| args.extend(["--set", format.as_str()]));
            let outcome = bench.host(&args);
            assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        }
    }
    let lost = [
        "run",
        "tiny.toml",
        "--quiet",
        "--out",
        "runs/lost",
        "--set",
        "run.name=lost",
        "--set",
        "train.lr=1e30",
    ];
    let sets =
        ["--set", "train.min_lr=1e29", "--set", "train.warmup_steps=0", "--set", "alerts.nan_patience=2"];
    let outcome = bench.host(&[&lost[..], &sets[..]].concat());
    assert_eq!(outcome.code, 5, "{}", outcome.stderr);
    broken(&bench);
    bench
}

/// Everything that lies about in folders of runs.
fn broken(bench: &Bench) {
    bench.write("runs/foreign/notes.txt", "not a run");
    bench.write("runs/never_started/run.json", "");
    bench.write("runs/half_status/run.json", "{\"status\": \"runni");
    bench.write("runs/garbage/metrics.csv", "\u{0}\u{1}\u{2}");
    bench.write("runs/other_columns/metrics.csv", "time,loss\n1,2\n");
    bench.write("runs/header_only/metrics.csv", "step,train/loss\n");
    fs::create_dir_all(bench.path("runs/empty")).unwrap();
    fs::create_dir_all(bench.path("runs/folder_as_file/metrics.csv")).unwrap();
    // A run that is still going, its last line half written, and CSV alone.
    fs::create_dir_all(bench.path("runs/going")).unwrap();
    for file in ["config.toml", "run.json", "metrics.csv"] {
        fs::copy(bench.path("runs/E4M3_1").join(file), bench.path("runs/going").join(file)).unwrap();
    }
    let status = bench.read("runs/going/run.json").replace("\"completed\"", "\"running\"");
    bench.write("runs/going/run.json", &status.replace("\"final_val_loss\": ", "\"was\": "));
    let rows = bench.read("runs/going/metrics.csv");
    let cut = rows.trim_end().rfind('\n').unwrap() + 6;
    bench.write("runs/going/metrics.csv", &rows[..cut]);
    bench.write("alone.csv", "step,train/loss,val/loss\n0,5.5,5.6\n1,5.1,\n2,4.9,5.0\n");
}

#[test]
fn compare_says_what_the_seeds_support_and_names_what_it_leaves_out() {
    let bench = runs();
    let outcome = bench.host(&["compare", "runs", "alone.csv", "/no/such/run"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    for name in [
        "foreign",
        "never_started",
        "half_status",
        "garbage",
        "other_columns",
        "header_only",
        "empty",
        "folder_as_file",
    ] {
        let line = outcome.stderr.lines().find(|line| line.contains(&format!("left out: runs/{name}: ")));
        assert!(line.is_some(), "{name} is not named: {}", outcome.stderr);
    }
    assert!(outcome.stderr.contains("left out: /no/such/run: it does not exist"), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("corrected for their number by Holm's method"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("still running"), "{}", outcome.stdout);
    let json = bench.host(&["compare", "runs", "--json"]);
    let answer: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    let comparison = &answer["comparison"];
    assert_eq!(comparison["sets"][0]["baseline"], "fp32 · lr 0.01");
    let row = |label: &str| {
        let rows = comparison["rows"].as_array().unwrap();
        rows.iter()
            .find(|row| row["label"] == label)
            .unwrap_or_else(|| panic!("no {label}: {comparison:#}"))
            .clone()
    };
    // The table's values are those of the runs.
    let final_loss = |run: &str| {
        let status: serde_json::Value =
            serde_json::from_str(&bench.read(&format!("runs/{run}/run.json"))).unwrap();
        status["final_val_loss"].as_f64().unwrap()
    };
    let [a, b] = [final_loss("E5M2_1") - final_loss("none_1"), final_loss("E5M2_2") - final_loss("none_2")];
    let difference = &row("E5M2 · lr 0.01")["difference"];
    assert_eq!(difference["n"], 2);
    assert!((difference["mean"].as_f64().unwrap() - (a + b) / 2.0).abs() < 1e-12);
    let half = 12.706_204_736_174_7 * (a - b).abs() / 2.0;
    assert!((difference["half_width"].as_f64().unwrap() - half).abs() < 1e-6 * half.max(1e-3), "{half}");
    assert_eq!(row("fp32 · lr 0.01")["verdict"], "baseline");
}

/// A run of three seeds a configuration with losses that are written here, so that the tables are the same everywhere.
fn written_runs() -> Bench {
    let bench = Bench::new();
    let rows = [
        ("fp32", "", [3.0, 3.1, 3.05]),
        ("e4m3", "weight = \"E4M3\"", [3.013, 3.108, 3.064]),
        ("e5m2", "weight = \"E5M2\"", [3.5, 3.65, 3.57]),
    ];
    for (name, quant, losses) in rows {
        for (seed, loss) in (1..).zip(losses) {
            let folder = format!("runs/{name}_{seed}");
            let config = format!(
                "[run]\nname = \"{name}_{seed}\"\nseed = {seed}\n[train]\nmax_steps = 4\nwarmup_steps = 1\n[quant]\n{quant}\n"
            );
            let status = serde_json::json!({
                "status": "completed", "steps": 4, "final_val_loss": loss, "best_val_loss": loss, "best_val_step": 4,
                "diverged": false, "tokens": 64, "alerts": {},
            });
            bench.write(&format!("{folder}/config.toml"), &config);
            bench.write(&format!("{folder}/run.json"), &status.to_string());
            bench.write(&format!("{folder}/metrics.csv"), "step,train/loss,val/loss\n0,5.5,5.6\n2,4.9,5.0\n");
        }
    }
    bench
}

#[test]
fn compare_prints_a_row_a_configuration_and_what_the_seeds_tell_apart() {
    let bench = written_runs();
    assert_snapshot!("compare", bench.page(&bench.host(&["compare", "runs"])));
    for form in ["markdown", "latex"] {
        let outcome = bench.host(&["compare", "runs", &format!("--{form}")]);
        assert_snapshot!(format!("compare_{form}"), bench.page(&outcome));
    }
}

/// A sweep's own choice of a baseline is no fault before the baseline's run has begun; one on the command line is.
#[test]
fn the_baseline_of_a_sweep_may_not_have_begun() {
    let bench = written_runs();
    bench.write("runs/sweep.json", r#"{ "compare": { "baseline": "bf16", "margin": 0.05 }, "runs": [] }"#);
    let outcome = bench.host(&["compare", "runs"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let note = "`bf16`, is no single configuration of these runs: the default baseline is used";
    assert!(outcome.stdout.contains(note), "{}", outcome.stdout);
    assert_eq!(bench.host(&["report", "runs"]).code, 0);
    assert!(bench.read("report.html").contains("the default baseline is used"));
    let named = bench.host(&["compare", "runs", "--baseline", "bf16"]);
    assert_eq!(named.code, 2, "{}", named.stdout);
    assert!(named.stderr.contains("no run or configuration is called `bf16`"), "{}", named.stderr);
    // A part of the names of one configuration's runs. The sweep may also be below the named folder.
    bench.write("runs/sweep.json", r#"{ "compare": { "baseline": "e4m3" }, "runs": [] }"#);
    for named in ["runs", "."] {
        let outcome = bench.host(&["compare", named]);
        assert!(outcome.stdout.contains("The baseline is E4M3 w."), "{named}: {}", outcome.stdout);
    }
    bench.write("runs/sweep.json", r#"{ "compare": { "baseline": "e4m3" }, "ru"#);
    let outcome = bench.host(&["compare", "runs"]);
    let left = "left out: runs/sweep.json: the sweep's results cannot be read (";
    assert!(outcome.code == 0 && outcome.stderr.contains(left), "{}", outcome.stderr);
}

#[test]
fn a_key_in_which_the_runs_do_not_differ_sets_no_colour() {
    let bench = written_runs();
    let outcome = bench.host(&["report", "runs", "--colour", "quant.wight"]);
    assert_eq!(outcome.code, 2, "{}", outcome.stdout);
    assert!(outcome.stderr.contains("did you mean `quant.weight`? keys"), "{}", outcome.stderr);
    assert!(!bench.path("report.html").exists());
    assert_eq!(bench.host(&["report", "runs", "--colour", "quant.weight"]).code, 0);
}

#[test]
fn one_seed_ranks_nothing_and_tables_come_in_every_form() {
    let bench = runs();
    let outcome = bench.host(&["compare", "runs/none_1", "runs/E5M2_1"]);
    assert!(
        outcome.stdout.contains("Nothing can be ranked: every configuration has one seed (n = 1)"),
        "{}",
        outcome.stdout
    );
    assert!(outcome.stdout.contains("(n = 1)"), "{}", outcome.stdout);
    for (flag, sign) in
        [("--markdown", "| ---: |"), ("--latex", "\\toprule"), ("--csv", "configuration,seeds,steps")]
    {
        let outcome = bench.host(&["compare", "runs/none_1", "runs/E5M2_1", flag]);
        assert!(outcome.code == 0 && outcome.stdout.contains(sign), "{flag}: {}", outcome.stdout);
    }
    let outcome = bench.host(&["compare", "runs", "--baseline", "nobody"]);
    assert_eq!(outcome.code, 2);
    assert!(outcome.stderr.contains("no run or configuration is called `nobody`"), "{}", outcome.stderr);
    let outcome = bench.host(&["compare", "runs/empty", "runs/foreign"]);
    assert_eq!(outcome.code, 2);
    let outcome = bench.host(&["report", "runs", "--out", "r.html", "--tables", "tables"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(fs::read_dir(bench.path("tables")).unwrap().count(), 30, "ten tables, three forms");
}

#[test]
#[ignore = "--all: a browser"]
fn the_page_draws_every_chart_in_a_browser_without_errors_or_requests() {
    const NAME: &str = "the_page_draws_every_chart_in_a_browser_without_errors_or_requests";
    let Some(chromium) = browser::chromium() else { return skipped(NAME, "no chromium is installed") };
    let bench = runs();
    // Names that would break a page that believes them.
    for (from, name) in [("E4M3_1", "<script>alert(1)</script>"), ("E4M3_2", "</script><b>&amp;\"'")] {
        let path = format!("runs/{from}/run.json");
        let status =
            bench.read(&path).replace(&format!("\"name\": \"{from}\""), &format!("\"name\": {name:?}"));
        bench.write(&path, &status);
    }
    let title = "A <b>title</b> & </script><script>alert(2)</script>";
    let outcome = bench.host(&["report", "runs", "alone.csv", "--out", "r.html", "--title", title]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    for (width, dark) in [(1280, false), (390, false), (1280, true), (390, true)] {
        let seen = browser::visit(&chromium, &bench.path("r.html"), width, dark);
        let at = format!("width {width}, dark {dark}");
        assert_eq!(seen["errors"], serde_json::json!([]), "{at}");
        assert_eq!(seen["requests"], 0, "{at}: the page asks the network for something");
        assert_eq!((&seen["width"], &seen["dark"]), (&width.into(), &dark.into()));
        assert!(seen["charts"].as_u64().unwrap() >= 15, "{at}: {seen:#}");
        assert_eq!(seen["charts"], seen["drawn"], "{at}");
        assert_eq!(seen["empty"], serde_json::json!([]), "{at}: charts without a mark");
        assert!(seen["scroll_width"].as_u64() <= seen["width"].as_u64(), "{at}: wider than the window");
        assert_eq!(seen["cut"], serde_json::json!([]), "{at}: labels of the forest plot");
        let smallest = seen["smallest_px"].as_f64().unwrap();
        assert!(smallest >= 12.0, "{at}: {smallest} px in {}", seen["smallest"]);
        let contrast = seen["least_contrast"].as_f64().unwrap();
        assert!(contrast >= 4.5, "{at}: {contrast} in {}", seen["contrast_of"]);
        assert_eq!(seen["title"], title);
        let text = seen["text"].as_str().unwrap();
        assert!(text.contains("<script>alert(1)</script>"), "names are shown as they are");
    }
    keep(&bench.path("r.html"));
}

/// Text that escaping keeps out of the page, with escaping removed: no script of it runs, and no request is made.
#[test]
#[ignore = "--all: a browser"]
fn markup_that_is_not_the_pages_own_runs_nothing_in_a_browser() {
    const NAME: &str = "markup_that_is_not_the_pages_own_runs_nothing_in_a_browser";
    let Some(chromium) = browser::chromium() else { return skipped(NAME, "no chromium is installed") };
    let bench = Bench::new();
    bench.write("alone.csv", "step,train/loss,val/loss\n0,5.5,5.6\n1,5.1,\n2,4.9,5.0\n");
    let outcome = bench.host(&["report", "alone.csv", "--out", "r.html"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let hostile = "<script>document.querySelector('h1').textContent = 'taken over'</script>\
        <img src=\"picture.png\" onerror=\"document.querySelector('h1').textContent = 'taken over'\">\
        <style>@import url(\"style.css\");</style><iframe src=\"frame.html\"></iframe><object data=\"o.svg\"></object>\
        <base href=\"https://example.invalid/\"><link rel=\"stylesheet\" href=\"style.css\">";
    let page = bench.read("r.html");
    let (head, rest) = page.split_once("<body>").unwrap();
    bench.write("hostile.html", &format!("{head}<body>{hostile}{rest}"));
    let sound = browser::visit(&chromium, &bench.path("r.html"), 1280, false);
    assert_eq!(sound["errors"], serde_json::json!([]));
    let seen = browser::visit(&chromium, &bench.path("hostile.html"), 1280, false);
    assert_eq!(seen["title"], sound["title"]);
    assert_eq!(seen["charts"], seen["drawn"], "the page itself works as before");
    let errors: Vec<&str> =
        seen["errors"].as_array().unwrap().iter().filter_map(|error| error.as_str()).collect();
    for directive in ["script-src-elem", "img-src", "style-src-elem", "frame-src", "object-src", "base-uri"] {
        let refused = format!("refused by {directive}");
        assert!(errors.iter().any(|error| error.starts_with(&refused)), "{directive}: {errors:#?}");
    }
}

/// A copy for a person to look at, if `ALTGRAD_KEEP` names a folder.
fn keep(page: &Path) {
    if let Some(folder) = std::env::var_os("ALTGRAD_KEEP") {
        fs::copy(page, Path::new(&folder).join("report.html")).unwrap();
    }
}

#[test]
fn a_folder_without_permissions_does_not_end_compare() {
    let bench = runs();
    let closed = bench.path("runs/E4M3_1");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let outcome = bench.host(&["compare", "runs"]);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
}

/// The curve of `quant/weight/sqnr_db_at/OFFSET` of a layer at step 0, at its scale and one binade below.
#[test]
fn scale_regret_is_the_sqnr_at_other_scales() {
    let bench = Bench::new();
    bench.write("tiny.toml", &format!("{TINY}[metrics]\nhistograms_every = 2\n[[sink]]\nname = \"csv\"\n"));
    for (format, lost_db) in [("E1M6", 6.02), ("E5M2", 0.0)] {
        let (weight, out) = (format!("quant.weight={format}"), format!("runs/{format}"));
        let outcome = bench.host(&["run", "tiny.toml", "--quiet", "--out", &out, "--set", &weight]);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        let metrics = bench.metrics(&out);
        let value = |statistic: &str, step: usize| -> f64 {
            metrics[&format!("{statistic}/h.0.mlp.c_fc.weight")][step].parse().unwrap()
        };
        for step in [0, 2, 4] {
            // At the step's own scale it equals the step's own measurement.
            let (here, own) = (value("quant/weight/sqnr_db_at/0", step), value("quant/weight/sqnr_db", step));
            assert!((here - own).abs() < 1e-6 * own, "{format}, step {step}: {here}, {own}");
            // A linear grid loses a bit a binade, a floating one nothing but at its ends; few weights, so roughly.
            let lost = here - value("quant/weight/sqnr_db_at/-1", step);
            assert!((lost - lost_db).abs() < 1.0, "{format}, step {step}: {lost} dB");
            assert!(value("quant/weight/sqnr_db_at/1", step) < here, "the largest saturate");
        }
        assert!(metrics["quant/weight/sqnr_db_at/0/h.0.mlp.c_fc.weight"][1].is_empty(), "not due");
    }
}

/// Rows of a CSV file repeated until `steps` steps are full, each taken `stride` steps apart.
fn stretched(text: &str, steps: u64, stride: u64) -> String {
    let mut lines = text.lines();
    let header = lines.next().unwrap();
    let mut by_step: Vec<(u64, Vec<&str>)> = Vec::new();
    for (step, rest) in lines.map(|line| line.split_once(',').unwrap()) {
        let step = step.parse().unwrap();
        match by_step.last_mut().filter(|(last, _)| *last == step) {
            Some((_, rows)) => rows.push(rest),
            None => by_step.push((step, vec![rest])),
        }
    }
    let mut out = format!("{header}\n");
    for index in 0..steps / stride {
        for row in &by_step[index as usize % by_step.len()].1 {
            out.push_str(&format!("{},{row}\n", index * stride));
        }
    }
    out
}

/// Metrics at every step, layers at every tenth, histograms at every hundredth. Needs some 3 GB of disk and a release
/// build: `ALTGRAD_STAGE=$PWD/target/altgrad`. `ALTGRAD_REPORT_RUNS` sets the number of runs; 200 of 2000 steps must
/// take under 30 s and 20 MB.
#[test]
#[ignore = "on demand: CONTRIBUTING.md has the command"]
fn on_demand_two_hundred_runs_of_two_thousand_steps() {
    let runs = size("ALTGRAD_REPORT_RUNS", 200);
    let bench = Bench::new();
    let tiny = "[run]\nname = \"one\"\n[train]\nmax_steps = 20\nwarmup_steps = 2\neval_interval = 5\neval_batches = 2\n[shadow]\nevery = 5\n\
                [metrics]\nhistograms_every = 5\n[quant]\nweight = \"E4M3\"\nactivation = \"E4M3\"\ngrad = \"E4M3\"\n[[sink]]\nname = \"csv\"\n";
    bench.write("one.toml", tiny);
    let outcome = bench.host(&["run", "one.toml", "--quiet", "--out", "one"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let [metrics, layers, timings, histograms] =
        [("metrics", 1), ("layers", 10), ("timings", 1), ("histograms", 100)]
            .map(|(name, every)| stretched(&bench.read(&format!("one/{name}.csv")), 2000, every));
    let (config, status, events) =
        (bench.read("one/config.toml"), bench.read("one/run.json"), bench.read("one/events.jsonl"));
    let mut bytes = 0;
    for run in 0..runs {
        let format = ["E4M3", "E5M2", "E3M4", "E7M0", "E1M6"][run as usize % 5];
        let folder = format!("many/{format}_{run}");
        for (name, text) in
            [("metrics", &metrics), ("layers", &layers), ("timings", &timings), ("histograms", &histograms)]
        {
            bench.write(&format!("{folder}/{name}.csv"), text);
            bytes += text.len();
        }
        let seed = format!("seed = {}", 1 + run / 20);
        let lr = format!("lr = 0.00{}", 1 + run / 5 % 4);
        let config = config.replace("\"E4M3\"", &format!("{format:?}")).replace("seed = 1337", &seed);
        bench.write(
            &format!("{folder}/config.toml"),
            &config.replace("\nlr = 0.001", &format!("\n{lr}")).replace("max_steps = 20", "max_steps = 2000"),
        );
        bench.write(
            &format!("{folder}/run.json"),
            &status
                .replace("\"one\"", &format!("\"{format}_{run}\""))
                .replace("\"steps\": 20,", "\"steps\": 2000,"),
        );
        bench.write(&format!("{folder}/events.jsonl"), &events);
    }
    let begin = std::time::Instant::now();
    let outcome = bench.host(&["report", "many", "--out", "many.html"]);
    let (took, page) = (begin.elapsed(), fs::metadata(bench.path("many.html")).unwrap().len());
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    println!(
        "{runs} runs, {:.1} GB: report in {:.1} s, page of {:.1} MB",
        bytes as f64 / 1e9,
        took.as_secs_f64(),
        page as f64 / 1e6
    );
    assert!(took.as_secs() < 30 && page < 20_000_000, "{took:?}, {page} bytes");
    cost_of_watching(&bench, "many");
}

/// Memory and processor time of `watch`: the first view, and a minute with a browser while a run grows by ten rows a
/// second.
fn cost_of_watching(bench: &Bench, folder: &str) {
    let mut server = bench.command(&["watch", folder]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines().map_while(Result::ok);
    let address = lines.find_map(|line| line.strip_prefix("http://").map(str::to_string)).unwrap();
    let (host, token) = address.trim_end_matches('/').split_once('/').unwrap();
    let ask = |path: &str| {
        let mut stream = TcpStream::connect(host).unwrap();
        write!(stream, "GET /{token}/{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        stream
    };
    let process = Path::new("/proc").join(server.id().to_string());
    let seconds = || {
        let stat = fs::read_to_string(process.join("stat")).unwrap();
        let times = stat.rsplit_once(')').unwrap().1.split_whitespace().skip(11).take(2);
        times.map(|ticks| ticks.parse::<f64>().unwrap() / 100.0).sum::<f64>()
    };
    let mut page = String::new();
    ask("").read_to_string(&mut page).unwrap();
    assert!(page.starts_with("HTTP/1.1 200"), "{page:.200}");
    let mut news = BufReader::new(ask("events")).lines().map_while(Result::ok);
    let _ = news.find(|line| line.starts_with("data: ["));
    println!("watch: the first view takes {:.1} s of processor time", seconds());
    let run = fs::read_dir(bench.path(folder)).unwrap().next().unwrap().unwrap().path();
    let status = fs::read_to_string(run.join("run.json")).unwrap();
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let mut status: serde_json::Value = serde_json::from_str(&status).unwrap();
    (status["status"], status["updated_unix_s"]) = ("running".into(), now.into());
    fs::write(run.join("run.json"), status.to_string()).unwrap();
    let row = fs::read_to_string(run.join("metrics.csv")).unwrap();
    // Not the row of the final evaluation, which is no step.
    let loss = row.lines().next().unwrap().split(',').position(|name| name == "train/loss").unwrap();
    let is_step = |row: &&str| row.split(',').nth(loss).is_some_and(|loss| !loss.is_empty());
    let row = row.lines().rev().find(is_step).unwrap().split_once(',').unwrap().1.to_string();
    let mut metrics = fs::OpenOptions::new().append(true).open(run.join("metrics.csv")).unwrap();
    let (before, begun) = (seconds(), std::time::Instant::now());
    for step in 2000..2600 {
        writeln!(metrics, "{step},{row}").unwrap();
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let share = (seconds() - before) / begun.elapsed().as_secs_f64();
    let _ = news.find(|line| line.contains("\"step\":2600,")).unwrap();
    let status = fs::read_to_string(process.join("status")).unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    println!("watch: {:.2} % of a core while a run grows; peak memory {peak}", 100.0 * share);
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(share < 0.01, "{share}");
}
