//! Sinks that hang, fail or run out of disk: the run continues, its results are the same, and lost rows are counted in
//! `run.json` and `events.jsonl` and reported at the end.

use std::fs;

use altgrad_end_to_end::{Bench, Outcome, TINY, built, plugin, started_by};
use serde_json::Value;

/// A run with the CSV sink and these further sinks.
fn bench(sinks: &str) -> Bench {
    let bench = Bench::new();
    for library in ["adamw.so", "e5m2.so", "csv.so"] {
        bench.add_plugin(&plugin(library));
    }
    bench.add_plugin(&built("libaltgrad_fixture_panicker.so"));
    let csv = "[plugins]\ndir = \"plugins\"\n[[sink]]\nname = \"csv\"\n";
    bench.write("run.toml", &format!("{TINY}\n{csv}{sinks}"));
    bench
}

/// The fixture as a sink that does this where it is told.
fn bad(misbehave: &str, more: &str) -> String {
    format!("[[sink]]\nname = \"bad\"\nmisbehave = \"{misbehave}\"\n{more}\n")
}

fn run(bench: &Bench, more: &[&str]) -> Outcome {
    bench.host(&[&["run", "run.toml", "--out", "run"], more].concat())
}

fn status(bench: &Bench) -> Value {
    serde_json::from_str(&bench.read("run/run.json")).unwrap()
}

/// Events about sinks: level and text.
fn events(bench: &Bench) -> Vec<(String, String)> {
    let lines = bench.read("run/events.jsonl");
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let said = |event: &Value, key: &str| event[key].as_str().unwrap().to_string();
    lines
        .filter(|event| event["kind"] == "sink")
        .map(|event| (said(&event, "level"), said(&event, "text")))
        .collect()
}

#[test]
fn a_hung_sink_costs_its_rows_and_nothing_else() {
    let sound = bench("");
    assert_eq!(run(&sound, &[]).code, 0);
    assert_eq!(status(&sound)["sinks"][0]["rows"], 7);
    assert_eq!(status(&sound)["sinks"][0]["missing_rows"], 0);

    let bench = bench(&bad("sink.log:hang", "queue = 2\ndeadline_s = 2.0"));
    // The queue is full by the end, so that no checkpoint asks.
    let outcome = run(&bench, &["--set", "checkpoint.keep_best=false"]);
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    for file in ["metrics.csv", "layers.csv", "histograms.csv", "weights.safetensors"] {
        let bytes = |bench: &Bench| fs::read(bench.path("run").join(file)).unwrap();
        assert!(bytes(&bench) == bytes(&sound), "{file}");
    }
    let status = status(&bench);
    assert_eq!((&status["status"], &status["steps"]), (&"completed".into(), &6.into()));
    assert_eq!((&status["sinks"][0]["name"], &status["sinks"][0]["rows"]), (&"csv".into(), &7.into()));
    let hung = &status["sinks"][1];
    assert_eq!((&hung["name"], &hung["rows"], &hung["missing_rows"]), (&"bad".into(), &0.into(), &7.into()));
    assert!(hung["missing_from_step"] == 0 && hung["missing_events"].as_u64().unwrap() > 0, "{hung}");
    assert!(outcome.stdout.contains("0 rows, 7 rows missing"), "{}", outcome.stdout);
    let events = events(&bench);
    let expected = [
        ("warn", "sink `bad` cannot keep up: its queue of 2 rows and events is full"),
        ("error", "sink `bad` did not finish within 2s"),
        ("error", "sink `bad` is missing 7 rows, from step 0 on"),
        ("error", "sink `bad` is missing "),
    ];
    assert_eq!(events.len(), expected.len(), "{events:?}");
    for ((level, text), (due, begin)) in events.iter().zip(expected) {
        assert!(level == due && text.starts_with(begin), "{level} {text}");
        assert!(outcome.stderr.contains(begin), "{}", outcome.stderr);
    }
}

/// A checkpoint after every step asks the sink, which hangs; only the first one waits.
#[test]
fn a_sink_that_hangs_costs_one_deadline_however_many_checkpoints_there_are() {
    let steps = ["--set", "train.max_steps=30", "--set", "checkpoint.every=1"];
    let sound = bench("");
    assert_eq!(run(&sound, &steps).code, 0);
    for (place, rows) in [("sink.log:hang", 0), ("sink.state:hang", 1)] {
        let bench = bench(&bad(place, "deadline_s = 2.0"));
        let outcome = run(&bench, &steps);
        assert_eq!(outcome.code, 1, "{place}: {}", outcome.stderr);
        for file in ["metrics.csv", "weights.safetensors"] {
            let bytes = |bench: &Bench| fs::read(bench.path("run").join(file)).unwrap();
            assert!(bytes(&bench) == bytes(&sound), "{place}: {file}");
        }
        let status = status(&bench);
        let hung = &status["sinks"][1];
        assert_eq!((&hung["rows"], &hung["missing_rows"]), (&rows.into(), &(31 - rows).into()), "{place}");
        let missed = "sink `bad` did not return its state for a checkpoint within 2s";
        assert_eq!(status["faults"][0], missed, "{place}");
        let lost = format!("sink `bad` is missing {} rows", 31 - rows);
        assert!(status["faults"][1].as_str().unwrap().starts_with(&lost), "{place}: {}", status["faults"]);
        assert_eq!(events(&bench)[0], ("error".to_string(), missed.to_string()), "{place}");
        assert!(outcome.stderr.contains("training continues without this sink"), "{}", outcome.stderr);
    }
}

#[test]
fn a_sink_that_does_not_open_in_time_is_said_before_anything_is_trained() {
    let bench = bench(&bad("sink.open:hang", "deadline_s = 0.3"));
    let outcome = run(&bench, &[]);
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("sink `bad` did not open within 300ms"), "{}", outcome.stderr);
    assert!(!bench.path("run").exists());
}

#[test]
fn a_sink_that_does_not_finish_in_time_is_left_behind() {
    let bench = bench(&bad("sink.finish:hang", "deadline_s = 2.0"));
    let outcome = run(&bench, &[]);
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("sink `bad` did not finish within 2s"), "{}", outcome.stderr);
    assert_eq!(
        (&status(&bench)["sinks"][1]["rows"], &status(&bench)["status"]),
        (&7.into(), &"completed".into())
    );
}

#[test]
fn a_slow_sink_is_waited_for_at_the_end_and_what_found_no_room_is_counted() {
    let bench = bench(&bad("sink.log:slow", "queue = 4"));
    let outcome = run(&bench, &["--set", "train.max_steps=60", "--set", "train.eval_interval=0"]);
    let slow = &status(&bench)["sinks"][1];
    let (rows, missing) = (slow["rows"].as_u64().unwrap(), slow["missing_rows"].as_u64().unwrap());
    assert_eq!(rows + missing, 61);
    assert!(rows >= 5, "what was queued is written: {slow}");
    let lost = missing + slow["missing_events"].as_u64().unwrap();
    assert_eq!(outcome.code, i32::from(lost > 0), "{}", outcome.stderr);
}

#[test]
fn messages_name_which_of_two_equal_sinks_failed() {
    let bench = bench(&(bad("", "") + &bad("sink.log:error", "")));
    let outcome = run(&bench, &[]);
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("sink plugin `bad (sink.2)`: asked to fail in sink.log"),
        "{}",
        outcome.stderr
    );
    assert!(!outcome.stderr.contains("sink.1"), "{}", outcome.stderr);
    assert!(events(&bench).iter().any(|(level, text)| level == "error" && text.contains("bad (sink.2)")));
    let rows: Vec<u64> = status(&bench)["sinks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|sink| sink["rows"].as_u64().unwrap())
        .collect();
    assert_eq!(rows, [7, 7, 0]);

    let bench = self::bench("[[sink]]\nname = \"csv\"\n");
    let outcome = run(&bench, &[]);
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("the same sink is listed twice with the same settings"),
        "{}",
        outcome.stderr
    );
    // Other settings, but the same file.
    let bench = self::bench("[[sink]]\nname = \"csv\"\nhistograms = false\n");
    let outcome = run(&bench, &[]);
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("metrics.csv`: in use by another sink or run"), "{}", outcome.stderr);
}

#[test]
fn queue_and_deadline_outside_their_ranges_are_refused() {
    for (more, message) in [
        ("queue = 0", "`sink.1.queue` must be between 1 and 1000000, found 0"),
        ("queue = -1", "sink"),
        ("deadline_s = 0.0", "`sink.1.deadline_s` must be above 0"),
        ("deadline_s = inf", "`sink.1.deadline_s` must be finite"),
    ] {
        let outcome = run(&bench(&bad("", more)), &[]);
        assert_eq!(outcome.code, 2, "{more}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(message), "{more}: {}", outcome.stderr);
    }
}

/// A run in which files may not grow beyond 64 KiB: the disk is full for the sink's files, and there is space for the
/// weights.
fn run_on_a_small_disk(bench: &Bench, more: &str) -> Outcome {
    let args = ["run", "run.toml", "--out", "run", "--set", "train.eval_interval=0"];
    let args: Vec<&str> = args.into_iter().chain(more.split(' ')).collect();
    let host = bench.command(&args);
    let bash = ["bash", "-c", "trap '' XFSZ; ulimit -f 64; exec \"$0\" \"$@\""];
    Outcome::from(started_by(&bash, &host).output().unwrap())
}

#[test]
fn a_full_disk_costs_rows_and_not_the_run() {
    let bench = bench("");
    let sets = "--set train.max_steps=200 --set metrics.histograms_every=0";
    let outcome = run_on_a_small_disk(&bench, sets);
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("layers.csv`: ") && outcome.stderr.contains("training continues without"),
        "{}",
        outcome.stderr
    );
    let (status, csv) = (status(&bench), &status(&bench)["sinks"][0]);
    assert_eq!((&status["status"], &status["steps"]), (&"completed".into(), &200.into()));
    let (rows, missing) = (csv["rows"].as_u64().unwrap(), csv["missing_rows"].as_u64().unwrap());
    assert!(rows + missing == 201 && rows > 5 && missing > 10, "{csv}");
    assert!(outcome.stderr.contains(&format!("sink `csv` is missing {missing} rows")), "{}", outcome.stderr);
    assert!(bench.path("run/weights.safetensors").is_file());
    // The row without space was removed.
    let layers = bench.read("run/layers.csv");
    assert!(layers.ends_with('\n') && layers.len() <= 65536, "{}", layers.len());
    assert_eq!(bench.metrics("run")["step"].len() as u64, rows + 1, "metrics.csv had room for one more");
}

/// The disk is full for the sink in the first part of a run; the second part has room, and the rows stay missing.
#[test]
fn lost_rows_stay_lost_when_the_run_is_resumed() {
    let bench = bench("");
    let sets = "--set train.max_steps=300 --set metrics.histograms_every=0";
    let outcome = run_on_a_small_disk(&bench, &format!("{sets} --set checkpoint.every=0 --max-steps 200"));
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    let lost = status(&bench)["sinks"][0].clone();
    // The row of the final evaluation is missing too; the next step comes in its place.
    let missing = lost["missing_rows"].as_u64().unwrap() - 1;
    assert!(missing > 10, "{lost}");
    let more =
        sets.split(' ').chain(["--set", "train.eval_interval=0", "--resume", "auto"]).collect::<Vec<_>>();
    let outcome = run(&bench, &more);
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    let csv = status(&bench)["sinks"][0].clone();
    assert_eq!((&csv["rows"], &csv["missing_rows"]), (&(301 - missing).into(), &missing.into()), "{csv}");
    assert_eq!(csv["missing_from_step"], lost["missing_from_step"], "{csv}");
    assert!(outcome.stderr.contains(&format!("sink `csv` is missing {missing} rows")), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("has no state of sink `csv` (it is closed)"), "{}", outcome.stderr);
}

#[test]
fn rows_that_are_gone_when_a_run_is_resumed_are_reported_and_kept() {
    let bench = bench("");
    assert_eq!(run(&bench, &["--max-steps", "4"]).code, 0);
    let text = bench.read("run/metrics.csv");
    fs::write(bench.path("run/metrics.csv"), &text[..=text.find("\n2,").unwrap()]).unwrap();
    let gap = "metrics.csv`: 2 of 4 rows are missing, those of steps 2 to 3";
    // The gap is the run's from then on, in a later part too.
    for more in [["--max-steps", "5"], ["--set", "train.max_steps=6"]] {
        let outcome = run(&bench, &[&more[..], &["--resume", "auto"]].concat());
        assert_eq!(outcome.code, 1, "{}", outcome.stderr);
        let csv = &status(&bench)["sinks"][0];
        let [said] = &csv["gaps"].as_array().unwrap()[..] else { panic!("{csv}") };
        assert!(said.as_str().unwrap().ends_with(gap), "{csv}");
        let said =
            events(&bench).iter().filter(|(level, text)| level == "warn" && text.ends_with(gap)).count();
        assert_eq!(said, 1, "{more:?}");
        assert!(outcome.stderr.contains(gap), "{}", outcome.stderr);
    }
    let text = bench.read("run/metrics.csv");
    let steps: Vec<&str> = text.lines().skip(1).map(|line| &line[..1]).collect();
    assert_eq!(steps, ["0", "1", "4", "5", "6"]);
}
