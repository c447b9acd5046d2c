//! The same against the strict mock server in Python that `ALTGRAD_WANDB_MOCK` names; skipped by name without it.

use std::{
    fs,
    io::{self, Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::*;

/// A running mock, which answers 4xx where a rule is broken and ends with 3 if one was.
pub(super) struct Mock {
    process: Child,
    pub(super) url: String,
    folder: TempDir,
}

impl Mock {
    /// None, and a printed line, if there is none.
    pub(super) fn start(test: &str, port: u16, folder: Option<TempDir>, args: &[&str]) -> Option<Self> {
        let Ok(script) = std::env::var("ALTGRAD_WANDB_MOCK") else {
            let _ = writeln!(io::stderr(), "SKIPPED {test}: ALTGRAD_WANDB_MOCK names no mock server");
            return None;
        };
        let folder = folder.unwrap_or_else(|| TempDir::new().unwrap());
        let path = |name: &str| folder.path().join(name).display().to_string();
        let _ = fs::remove_file(path("port"));
        let process = Command::new("python3")
            .args([
                &script,
                "--port",
                &port.to_string(),
                "--port-file",
                &path("port"),
                "--enforce",
                "--exit-code",
            ])
            .args(args)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let start = Instant::now();
        let port = loop {
            if let Ok(port) = fs::read_to_string(path("port")) {
                break port;
            }
            assert!(start.elapsed() < Duration::from_secs(20), "the mock does not start");
            thread::sleep(Duration::from_millis(20));
        };
        Some(Self { process, url: format!("http://127.0.0.1:{port}"), folder })
    }

    fn state_file(folder: &TempDir) -> String {
        folder.path().join("state.json").display().to_string()
    }

    /// The state of the mock.
    pub(super) fn state(&self) -> Value {
        let mut stream = TcpStream::connect(self.url.strip_prefix("http://").unwrap()).unwrap();
        stream.write_all(b"GET /__mock__/state HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        json::parse(text.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    /// Rows of the only run.
    pub(super) fn rows(&self) -> Vec<Value> {
        let state = self.state();
        assert_eq!(state["violations"], serde_json::json!([]));
        assert_eq!(state["runs"].as_array().unwrap().len(), 1);
        state["runs"][0]["history"].as_array().unwrap().clone()
    }

    /// Ends the mock; no rule was broken.
    pub(super) fn end(mut self) -> TempDir {
        Command::new("kill").arg(self.process.id().to_string()).status().unwrap();
        assert_eq!(self.process.wait().unwrap().code(), Some(0), "the mock saw a rule broken");
        self.folder
    }
}

/// 99th percentile of durations.
fn p99(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() * 99 / 100]
}

#[test]
fn a_hundred_thousand_rows() {
    let Some(mock) = Mock::start("a_hundred_thousand_rows", 0, None, &[]) else { return };
    let steps: u64 = std::env::var("ALTGRAD_WANDB_ROWS").map_or(20_000, |rows| rows.parse().unwrap());
    let rig = Rig::new(&mock.url).with("finish_timeout_s", ConfigValue::Float(600.0));
    let start = Instant::now();
    let mut sink = rig.open(None);
    let times: Vec<Duration> = (0..steps)
        .map(|step| {
            let start = Instant::now();
            log(&mut sink, step, 0.0);
            let time = start.elapsed();
            log_histogram(&mut sink, step);
            time
        })
        .collect();
    let logged = start.elapsed();
    sink.finish(RunOutcome::COMPLETED).unwrap();
    let all = start.elapsed();
    println!(
        "{steps} rows: logged at {:.0} rows/s, on the server at {:.0} rows/s; log p99 {:?}, most {:?}",
        steps as f64 / logged.as_secs_f64(),
        steps as f64 / all.as_secs_f64(),
        p99(times.clone()),
        times.iter().max().unwrap(),
    );
    assert_rows(&mock.rows(), steps);
    mock.end();
}

#[test]
fn each_fault_of_the_mock() {
    let faults = [
        "fs:500:2",
        "fs:429:2:retry-after=1",
        "fs:drop:2",
        "fs:drop-after:2",
        "fs:hang:1:s=2",
        "fs:slow:2:s=0.3",
        "fs:truncate:2",
        "fs:badjson:2",
        "gql:500:2",
        "gql:429:1:retry-after=1",
        "gql:drop:2",
        "gql:drop-after:2",
        "gql:hang:1:s=2",
        "gql:slow:1:s=0.3",
        "gql:truncate:2",
        "gql:badjson:2",
        "fs:drop-after:1:when=complete",
        "fs:drop:1:when=heartbeat",
        "fs:503:1:after=1",
        "fs:stopped:1",
    ];
    for fault in faults {
        let Some(mock) = Mock::start("each_fault_of_the_mock", 0, None, &["--fault", fault]) else { return };
        let mut rig = Rig::new(&mock.url);
        rig.pace.heartbeat = Duration::from_millis(30);
        let mut sink = rig.open(None);
        let mut times = Vec::new();
        for step in 0..300 {
            let start = Instant::now();
            log(&mut sink, step, 0.0);
            times.push(start.elapsed());
            log_histogram(&mut sink, step);
            thread::sleep(Duration::from_millis(1));
        }
        sink.finish(RunOutcome::COMPLETED).unwrap_or_else(|error| panic!("{fault}: {error}"));
        assert_rows(&mock.rows(), 300);
        println!("{fault}: 300 rows once each; log p99 {:?}", p99(times));
        mock.end();
    }
}

#[test]
fn each_refusal_of_the_mock() {
    for status in [400, 401, 403, 404, 409, 410, 413, 422] {
        for target in ["fs", "gql.UpsertBucket", "gql.RunResumeStatus"] {
            // A conflict there passes: `faults` tests it.
            if (status, target) == (409, "gql.UpsertBucket") {
                continue;
            }
            let fault = format!("{target}:{status}:1");
            let Some(mock) = Mock::start("each_refusal_of_the_mock", 0, None, &["--fault", &fault]) else {
                return;
            };
            let rig = Rig::new(&mock.url);
            let mut sink = rig.open(None);
            log_all(&mut sink, 0..50);
            let error = sink.finish(RunOutcome::COMPLETED).unwrap_err();
            assert!(error.message.contains(&format!("answers {status}")), "{error}");
            rig.upload().unwrap();
            assert_rows(&mock.rows(), 50);
            mock.end();
        }
    }
}

#[test]
fn a_mock_that_restarts_and_limits() {
    let name = "a_mock_that_restarts_and_limits";
    let folder = TempDir::new().unwrap();
    let state = Mock::state_file(&folder);
    let args = ["--state", state.as_str(), "--run-rps", "20"];
    let Some(mock) = Mock::start(name, 0, Some(folder), &args) else { return };
    let port: u16 = mock.url.rsplit(':').next().unwrap().parse().unwrap();
    let rig = Rig::new(&mock.url);
    let mut sink = rig.open(None);
    log_all(&mut sink, 0..100);
    thread::sleep(Duration::from_millis(300));
    let folder = mock.end();
    log_all(&mut sink, 100..200);
    thread::sleep(Duration::from_millis(300));
    let mock = Mock::start(name, port, Some(folder), &args).unwrap();
    log_all(&mut sink, 200..300);
    sink.finish(RunOutcome::COMPLETED).unwrap();
    assert_rows(&mock.rows(), 300);
    // And one that is not there yet when the run starts.
    let folder = mock.end();
    fs::remove_file(&state).unwrap();
    let rig = Rig::new(&rig.url);
    let mut sink = rig.open(None);
    log_all(&mut sink, 0..100);
    thread::sleep(Duration::from_millis(200));
    let mock = Mock::start(name, port, Some(folder), &args).unwrap();
    sink.finish(RunOutcome::COMPLETED).unwrap();
    assert_rows(&mock.rows(), 100);
    mock.end();
}

#[test]
fn the_mock_rewinds_and_takes_alerts() {
    let Some(mock) = Mock::start("the_mock_rewinds_and_takes_alerts", 0, None, &[]) else { return };
    let rig = Rig::new(&mock.url);
    let mut sink = rig.open(None);
    log_all(&mut sink, 0..20);
    // A histogram that the next process will not repeat.
    log(&mut sink, 20, 0.0);
    sink.histogram(
        20,
        &Histogram { name: "odd".into(), edges: [0.0, 1.0].as_slice().into(), counts: [1].as_slice().into() },
    )
    .unwrap();
    alert(&mut sink, 20, "overflow");
    sink.finish(RunOutcome::INTERRUPTED).unwrap();
    let mut sink = rig.open(Some(15));
    log_all(&mut sink, 15..40);
    sink.finish(RunOutcome::COMPLETED).unwrap();
    assert_rows(&mock.rows(), 40);
    assert_eq!(mock.state()["runs"][0]["alerts"].as_array().unwrap().len(), 1);
    mock.end();
}
