//! The staged wandb sink in real runs: offline, without a server, and with the remaining rows sent later.
//!
//! The protocol itself is tested in the plugin. `ALTGRAD_WANDB_MOCK` names a mock server in Python; tests that need
//! it are skipped by name without it.

use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use altgrad_end_to_end::{Bench, TINY, skipped};
use serde_json::Value;

const KEY: &str = "0123456789abcdef0123456789abcdef01234567";

/// A tiny run with the csv and the wandb sink.
fn write(bench: &Bench, options: &str) {
    let text =
        format!("{TINY}\n[[sink]]\nname = \"csv\"\n[[sink]]\nname = \"wandb\"\nrun_id = \"e2e\"\n{options}");
    bench.write("tiny.toml", &text);
}

/// Every file below a folder, as one text.
fn everything(folder: &Path) -> String {
    let entries = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    let text = |path: std::path::PathBuf| {
        if path.is_dir() {
            everything(&path)
        } else {
            String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned()
        }
    };
    entries.map(text).collect()
}

#[test]
fn an_offline_run_leaves_a_file_and_needs_nothing() {
    let bench = Bench::new();
    write(&bench, "mode = \"offline\"\n");
    let outcome = bench.host(&["run", "tiny.toml"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("wandb sync "), "{}", outcome.stderr);
    let files = |folder: &str| fs::read_dir(bench.path(folder)).unwrap().flatten().map(|entry| entry.path());
    let folder = files("runs/tiny/wandb").find(|path| path.is_dir()).unwrap();
    let file = folder.join("run-e2e.wandb");
    let bytes = fs::read(&file).unwrap();
    assert_eq!(bytes[..7], [0x3a, 0x57, 0x26, 0x42, 0xe1, 0xbe, 0x00]);
    // The same file again, from the spool.
    fs::remove_file(&file).unwrap();
    let outcome = bench.host(&["wandb-upload", "runs/tiny", "--offline"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(fs::read(&file).unwrap(), bytes);
}

#[test]
fn a_run_without_a_server_trains_and_says_what_is_left() {
    let bench = Bench::new();
    let mock = std::env::var("ALTGRAD_WANDB_MOCK");
    // A port without a listener. Other programs, and the mock, listen on 127.0.0.1.
    let address = if mock.is_ok() { "127.0.0.1:0" } else { "127.7.7.7:0" };
    let place = TcpListener::bind(address).unwrap().local_addr().unwrap();
    let options = format!("base_url = \"http://{place}\"\nfinish_timeout_s = 1\n");
    write(&bench, &options);
    let host = |args: &[&str]| bench.host_with(args, &[("WANDB_API_KEY", KEY)]);
    let outcome = host(&["run", "tiny.toml"]);
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    assert!(bench.path("runs/tiny/weights.safetensors").is_file());
    assert!(outcome.stderr.contains("7 of 7 rows"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("altgrad-host wandb-upload "), "{}", outcome.stderr);
    let shown = everything(&bench.path("runs/tiny")) + &outcome.stderr + &outcome.stdout;
    assert!(!shown.contains(KEY), "the key shows");
    let again = host(&["wandb-upload", "runs/tiny", "--timeout", "1"]);
    assert_eq!(again.code, 1, "{}", again.stderr);
    assert!(again.stderr.contains("7 of 7 rows"), "{}", again.stderr);

    let Ok(mock) = mock else {
        return skipped("wandb: uploading what was left", "ALTGRAD_WANDB_MOCK names no mock server");
    };
    let state = bench.path("state.json");
    let mut mock = Command::new("python3")
        .args([&mock, "--port", &place.port().to_string(), "--enforce", "--exit-code", "--state"])
        .arg(&state)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while std::net::TcpStream::connect(place).is_err() {
        thread::sleep(Duration::from_millis(20));
    }
    let outcome = host(&["wandb-upload", "runs/tiny"]);
    Command::new("kill").arg(mock.id().to_string()).status().unwrap();
    assert_eq!(mock.wait().unwrap().code(), Some(0), "the mock saw a rule broken");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stdout.contains("all rows are on the server"), "{}", outcome.stdout);
    let state: Value = serde_json::from_str(&fs::read_to_string(state).unwrap()).unwrap();
    let rows = state["runs"][0]["files"]["wandb-history.jsonl"].as_array().unwrap();
    assert_eq!(rows.len(), 7);
    assert_eq!(state["runs"][0]["completes"], serde_json::json!([0]));
}

#[test]
fn what_cannot_be_uploaded_is_named() {
    let bench = Bench::new();
    bench.write("tiny.toml", &format!("{TINY}\n[[sink]]\nname = \"csv\"\n"));
    assert_eq!(bench.host(&["run", "tiny.toml", "--quiet"]).code, 0);
    let outcome = bench.host(&["wandb-upload", "runs/tiny"]);
    assert_eq!(outcome.code, 2);
    assert!(outcome.stderr.contains("no `wandb` sink"), "{}", outcome.stderr);
    write(&bench, "project = \"a/b\"\n");
    let outcome = bench.host(&["run", "tiny.toml", "--out", "refused"]);
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("project `a/b`"), "{}", outcome.stderr);
    // The first sink is open when the second one refuses: its files go with the folder.
    write(&bench, "mode = \"offline\"\n[[sink]]\nname = \"wandb\"\nmode = \"offline\"\n");
    let outcome = bench.host(&["run", "tiny.toml", "--out", "refused"]);
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("in use"), "{}", outcome.stderr);
    assert!(!bench.path("refused").exists());
}
