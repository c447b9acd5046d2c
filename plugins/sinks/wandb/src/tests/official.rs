//! The official client against the same mock: it takes our offline file, continues our run, and we continue its run.
//!
//! `ALTGRAD_WANDB_PYTHON` names a Python that has `wandb`; skipped by name without it, or without the mock.

use std::{
    io::{self, Write},
    process::Command,
};

use super::{mock::Mock, *};

/// The Python that has the official client.
fn python(test: &str) -> Option<String> {
    let python = std::env::var("ALTGRAD_WANDB_PYTHON").ok();
    if python.is_none() {
        let _ = writeln!(io::stderr(), "SKIPPED {test}: ALTGRAD_WANDB_PYTHON names no Python that has wandb");
    }
    python
}

/// Runs the official client.
fn official(python: &str, mock: &Mock, folder: &TempDir, args: &[&str]) {
    let output = Command::new(python)
        .args(args)
        .current_dir(folder.path())
        .env("HOME", folder.path())
        .env("WANDB_BASE_URL", &mock.url)
        .env("WANDB_API_KEY", KEY)
        .env("WANDB_DIR", folder.path())
        .env("WANDB_ERROR_REPORTING", "false")
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

/// Five more rows, by the official client.
const CONTINUE: &str = "
import sys, wandb
run = wandb.init(project='altgrad', id=sys.argv[1], resume=sys.argv[2])
print('start', run.starting_step)
for step in range(5):
    run.log({'x': step})
run.finish()
";

#[test]
#[ignore = "--all: W&B's client"]
fn wandb_sync_takes_the_offline_file() {
    let Some(python) = python("wandb_sync_takes_the_offline_file") else { return };
    let Some(mock) = Mock::start("wandb_sync_takes_the_offline_file", 0, None, &[]) else { return };
    let rig = Rig::new(&mock.url)
        .text("mode", "offline")
        .text("group", "g")
        .text("notes", "n")
        .text("run_id", "off1");
    let mut sink = rig.open(None);
    log_all(&mut sink, 0..1000);
    alert(&mut sink, 999, "overflow");
    sink.summary(&[Metric { name: MetricName { name: "final/loss".into(), timing: false }, value: 0.5 }])
        .unwrap();
    sink.finish(RunOutcome::COMPLETED).unwrap();
    let folders = std::fs::read_dir(rig.path("wandb")).unwrap().flatten().map(|entry| entry.path());
    let folder = folders.filter(|path| path.is_dir()).collect::<Vec<_>>();
    assert_eq!(folder.len(), 1, "{folder:?}");
    official(&python, &mock, &TempDir::new().unwrap(), &["-m", "wandb", "sync", folder[0].to_str().unwrap()]);
    let state = mock.state();
    let run = &state["runs"][0];
    println!(
        "{}",
        serde_json::json!([run["meta"], run["config"], run["summary"], run["alerts"], run["completes"]])
    );
    assert_rows(&mock.rows(), 1000);
    assert_eq!(
        (run["meta"]["displayName"].as_str(), run["meta"]["groupName"].as_str()),
        (Some("exp"), Some("g"))
    );
    assert_eq!(number(&run["summary"]["final/loss"]), 0.5);
    assert_eq!(number(&run["config"]["train"]["value"]["lr"]), 1e-3);
    mock.end();
}

#[test]
#[ignore = "--all: W&B's client"]
fn the_official_client_continues_our_run() {
    let Some(python) = python("the_official_client_continues_our_run") else { return };
    let Some(mock) = Mock::start("the_official_client_continues_our_run", 0, None, &[]) else { return };
    let mut sink = Rig::new(&mock.url).text("run_id", "both").open(None);
    log_all(&mut sink, 0..20);
    sink.finish(RunOutcome::COMPLETED).unwrap();
    official(&python, &mock, &TempDir::new().unwrap(), &["-c", CONTINUE, "both", "must"]);
    let rows = mock.rows();
    assert_rows(&rows[..20], 20);
    let rest: Vec<_> = rows[20..].iter().map(|row| (step_of(row), number(&row["x"]))).collect();
    assert_eq!(rest, [(20, 0.0), (21, 1.0), (22, 2.0), (23, 3.0), (24, 4.0)]);
    mock.end();
}

#[test]
#[ignore = "--all: W&B's client"]
fn we_continue_a_run_of_the_official_client() {
    let Some(python) = python("we_continue_a_run_of_the_official_client") else { return };
    let Some(mock) = Mock::start("we_continue_a_run_of_the_official_client", 0, None, &[]) else { return };
    official(&python, &mock, &TempDir::new().unwrap(), &["-c", CONTINUE, "theirs", "allow"]);
    let rig = Rig::new(&mock.url).text("run_id", "theirs").text("resume", "must");
    let mut sink = rig.open(Some(5));
    log_all(&mut sink, 5..20);
    sink.finish(RunOutcome::COMPLETED).unwrap();
    let rows = mock.rows();
    assert_eq!(rows.iter().map(step_of).collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
    assert_eq!(number(&rows[4]["x"]), 4.0);
    // Whose last value the summary keeps, ours beside it.
    let summary = &mock.state()["runs"][0]["summary"];
    assert_eq!((number(&summary["x"]), step_of(summary)), (4.0, 19));
    mock.end();
}
