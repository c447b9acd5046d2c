//! Real data as a user prepares it: bins, their description, and a run on them.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    process::Stdio,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use altgrad_end_to_end::{Bench, TINY, fixture};
use insta::assert_snapshot;

/// Acts in EURLEX57K's layout, no two alike.
fn acts(count: usize) -> String {
    let act = |n: usize| {
        format!(
            "{{\"celex_id\": \"3{n}\", \"title\": \"Act {n}\\n\", \"header\": \"Commission Regulation No {n}\", \
             \"recitals\": \",\\nWhereas it is number {n};\", \"main_body\": [\"Article 1\\nIt’s {n} × {}.\", \"Done at Brussels.\"]}}\n",
            n * 7
        )
    };
    (0..count).map(act).collect()
}

fn bench() -> Bench {
    let bench = Bench::new();
    bench.write("in/train.jsonl", &acts(60));
    bench.write("in/dev.jsonl", &acts(15));
    bench
}

#[test]
fn prepared_bins_are_described_and_a_run_trains_on_them() {
    let bench = bench();
    let prepare = ["data", "prepare", "eurlex57k", "--input", "in", "--out", "bins"];
    let outcome = bench.host(&prepare);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stdout.contains("bins/train.bin: 60 documents"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("(c) European Union"), "{}", outcome.stdout);
    let again = bench.host(&prepare);
    assert!(again.stdout.contains("nothing was changed"), "{}", again.stdout);

    let meta: serde_json::Value = serde_json::from_str(&bench.read("bins/meta.json")).unwrap();
    assert_eq!(meta["vocab_size"], 50257);
    assert_eq!(meta["separator"], serde_json::json!([50256]));
    let info = bench.host(&["data", "info", "bins", "--json"]);
    let info: serde_json::Value = serde_json::from_str(&info.stdout).unwrap();
    let train = &info["splits"][0];
    assert_eq!(train["documents"], 60);
    let bytes = fs::metadata(bench.path("bins/train.bin")).unwrap().len();
    assert_eq!(train["tokens"], bytes / 2);
    assert!(train["bytes_per_token"].as_f64().unwrap() > 2.0);
    let table = bench.host(&["data", "info", "bins"]).stdout;
    assert!(table.contains("bytes/token") && table.contains("tokenizer: gpt2"), "{table}");

    let config = TINY.replace("text:corpus.txt", "bins:bins").replace("\"char\"", "\"gpt2\"");
    bench.write("tiny.toml", &config);
    let run = bench.host(&["run", "tiny.toml", "--max-steps", "2"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    // A bin that differs from its description is refused.
    fs::write(bench.path("bins/val.bin"), [0; 100]).unwrap();
    let run = bench.host(&["check", "tiny.toml", "--out", "other"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("meta.json says"), "{}", run.stderr);
}

#[test]
fn text_is_tokenized_by_gpt2_at_the_start_of_a_run() {
    let bench = Bench::new();
    bench.write("tiny.toml", &TINY.replace("\"char\"", "\"gpt2\""));
    let run = bench.host(&["run", "tiny.toml", "--max-steps", "2"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
}

#[test]
fn each_fault_of_prepare_is_named_before_anything_is_written() {
    let bench = bench();
    let cases: [&[&str]; 6] = [
        &["multi_eurlex"],
        &["eurlex57k", "--lang", "en"],
        &["eurlex", "--title"],
        &["text"],
        &["eurlex", "--input", "nowhere"],
        &["eurlex", "--input", "in", "--val-fraction", "1"],
    ];
    let mut page = String::new();
    for args in cases {
        let args = [&["data", "prepare"], args, &["--out", "made"]].concat();
        let outcome = bench.host(&args);
        assert_eq!(outcome.code, 2, "{args:?}: {}", outcome.stderr);
        page += &format!("=== {}\n{}\n", args.join(" "), bench.redacted(&outcome.stderr));
        assert!(!bench.path("made").exists(), "{args:?}");
    }
    assert_snapshot!("prepare_faults", page);
    let strict = bench.host(&["data", "prepare", "eurlex", "--input", "in", "--out", "made", "--strict"]);
    assert_eq!(strict.code, 2);
    assert!(strict.stderr.contains("dev.jsonl:1"), "{}", strict.stderr);
    let other = bench.host(&["data", "prepare", "eurlex", "--input", "in", "--out", "made"]);
    assert_eq!(other.code, 2);
    assert!(other.stderr.contains("its records fit `data prepare eurlex57k`"), "{}", other.stderr);
    assert!(!bench.path("made").exists());
}

/// A proxy that reports requests and serves nothing.
fn proxy() -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, asked) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).ok();
            sender.send(line).ok();
            (&stream)
                .write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                .ok();
        }
    });
    (address, asked)
}

#[test]
fn without_a_connection_prepare_names_the_file_to_download_by_hand() {
    let bench = bench();
    let (proxy, asked) = proxy();
    let args = [
        "data",
        "prepare",
        "eurlex57k",
        "--out",
        "bins",
        "--mirror",
        "http://mirror.invalid/data",
        "--quiet",
    ];
    let env = [
        ("HTTP_PROXY", &*proxy),
        ("http_proxy", &*proxy),
        ("HTTPS_PROXY", &*proxy),
        ("https_proxy", &*proxy),
        ("NO_PROXY", ""),
        ("no_proxy", ""),
    ];
    let outcome = bench.host_with(&args, &env);
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    for part in
        ["--input dataset.zip", "dc6830ce8ea49aea", "https://archive.org/download/EURLEX57K/dataset.zip"]
    {
        assert!(outcome.stderr.contains(part), "{}", outcome.stderr);
    }
    let asked: Vec<String> = asked.try_iter().collect();
    assert!(asked[0].starts_with("GET http://mirror.invalid/data/dataset.zip "), "{asked:?}");
    assert!(asked[1].starts_with("CONNECT archive.org:443 "), "{asked:?}");
    assert!(!bench.path("bins").exists());
}

/// Killed at several moments, also while the bins get their names, then run again: the bins are those of an undisturbed
/// preparation.
#[test]
fn a_preparation_killed_at_any_moment_is_completed_by_the_next() {
    let bench = Bench::new();
    bench.write("in/train.jsonl", &acts(60_000));
    let prepare =
        |out: &'static str| ["data", "prepare", "eurlex57k", "--input", "in", "--out", out, "--quiet"];
    let begun = Instant::now();
    let undisturbed = bench.host(&prepare("whole"));
    let whole = begun.elapsed();
    assert_eq!(undisturbed.code, 0, "{}", undisturbed.stderr);
    let is_there = |name: &str| bench.path("bins").join(name).exists();
    let kill_when = |moment: &str, has_come: &dyn Fn() -> bool| {
        let mut child = bench.command(&prepare("bins")).stdout(Stdio::null()).spawn().unwrap();
        while !has_come() && child.try_wait().unwrap().is_none() {
            thread::sleep(Duration::from_micros(50));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let bins = ["train.bin", "val.bin", "meta.json"].map(is_there);
        assert!(bins == [true; 3] || !(bins[0] && bins[1]), "{bins:?}, killed at {moment}");
    };
    let complete = |killed: &str| {
        let outcome = bench.host(&prepare("bins"));
        assert_eq!(outcome.code, 0, "killed at {killed}: {}", outcome.stderr);
        for name in ["train.bin", "val.bin"] {
            let bytes = |folder: &str| fs::read(bench.path(folder).join(name)).unwrap();
            assert!(bytes("bins") == bytes("whole"), "{name}, killed at {killed}");
        }
        let mut left = fs::read_dir(bench.path("bins")).unwrap().flatten();
        assert!(!left.any(|entry| entry.file_name().to_string_lossy().ends_with(".part")), "{killed}");
    };
    for share in [0.01, 0.2, 0.5, 0.8, 0.95] {
        let begun = Instant::now();
        kill_when(&format!("{share} of the time"), &|| begun.elapsed() >= whole.mul_f64(share));
    }
    complete("several moments");
    for name in ["meta.json", "train.bin"] {
        fs::remove_dir_all(bench.path("bins")).unwrap();
        kill_when(name, &|| is_there(name));
        assert!(is_there(name), "the preparation ended without {name}");
        complete(name);
    }
}

#[test]
fn run_files_of_prepared_bins_pass_their_check() {
    let bench = bench();
    let out = ["data", "prepare", "eurlex57k", "--input", "in", "--out", "data/eurlex57k"];
    assert_eq!(bench.host(&out).code, 0);
    // Their data lie beside the folder `configs`.
    let files: Vec<String> = fs::read_dir(fixture("../../../configs/eurlex"))
        .unwrap()
        .flatten()
        .map(|entry| {
            let file = format!("configs/eurlex/{}", entry.file_name().display());
            bench.write(&file, &fs::read_to_string(entry.path()).unwrap());
            file
        })
        .collect();
    for file in &files {
        let outcome = bench.host(&["check", file, "--set", "data.batch_size=1"]);
        assert_eq!(outcome.code, 0, "{file}: {}", outcome.stderr);
    }
    assert_eq!(files.len(), 3);
}
