//! Whatever a network does: nothing lost, nothing doubled, the run never stopped.

use std::{
    net::TcpListener,
    time::{Duration, Instant},
};

use super::{
    server::{Fault, Server},
    *,
};

/// A run of 60 steps with time for uploads in between, and the server's final state.
fn run(server: &Server, rig: &Rig) -> Result<(), PluginError> {
    let mut sink = rig.open(None);
    for part in 0..6 {
        log_all(&mut sink, part * 10..part * 10 + 10);
        std::thread::sleep(Duration::from_millis(50));
    }
    let result = sink.finish(RunOutcome::COMPLETED);
    let state = server.state();
    assert_eq!(state.violations, Vec::<String>::new());
    result
}

#[test]
fn all_arrives_as_it_was_logged() {
    let server = Server::start();
    let rig = Rig::new(&server.url)
        .text("group", "g")
        .text("job_type", "j")
        .text("notes", "n")
        .text("display_name", "shown")
        .with("tags", ConfigValue::TextList(vec!["a".into(), "b".into()].into()));
    let mut sink = rig.open(None);
    log_all(&mut sink, 0..100);
    alert(&mut sink, 99, "overflow");
    alert(&mut sink, 99, "overflow");
    sink.summary(&[Metric {
        name: MetricName { name: "final/loss".into(), timing: false },
        value: f64::NAN,
    }])
    .unwrap();
    sink.finish(RunOutcome::COMPLETED).unwrap();
    let run = server.run();
    assert_rows(&parsed(&run.history), 100);
    assert_eq!(run.exits, [0]);
    let variables = &run.variables;
    let said = ["displayName", "groupName", "jobType", "notes"].map(|name| variables[name].as_str().unwrap());
    assert_eq!(said, ["shown", "g", "j", "n"]);
    assert_eq!(variables["tags"], serde_json::json!(["a", "b"]));
    let config: Value = serde_json::from_str(variables["config"].as_str().unwrap()).unwrap();
    assert_eq!(config["train"]["value"]["lr"], 1e-3);
    let summary = json::parse(&run.summary).unwrap();
    assert_eq!((summary["final/loss"].as_str(), step_of(&summary)), (Some("NaN"), 99));
    assert!(number(&summary["_wandb"]["runtime"]) >= 0.0);
    assert_eq!(run.alerts.len(), 2, "every alert that the host lets through");
    assert_eq!(run.alerts[0]["severity"], "ERROR");
}

#[test]
#[ignore = "--all: W&B outages"]
fn every_fault_is_outlived() {
    let faults = [
        Fault::Drop,
        Fault::DropAfter,
        Fault::Hang,
        Fault::Slow,
        Fault::Truncate,
        Fault::BadJson,
        Fault::Status(500, ""),
        Fault::Status(503, ""),
        Fault::Status(408, ""),
        Fault::Status(429, "Retry-After: 0"),
        Fault::Status(429, "RateLimit-Reset: 0"),
    ];
    for target in ["fs", "graphql", "UpsertBucket", "RunResumeStatus"] {
        for fault in &faults {
            let server = Server::start();
            // A late answer is no failure, and the other queries are sent once.
            server.fault(target, fault.clone(), if *fault == Fault::Slow { 1 } else { 2 });
            run(&server, &Rig::new(&server.url))
                .unwrap_or_else(|error| panic!("{target} {fault:?}: {error}"));
            assert!(server.state().faults.is_empty(), "{target} {fault:?} happened");
            assert_rows(&parsed(&server.run().history), 60);
            assert_eq!(server.run().exits.last(), Some(&0));
        }
    }
}

/// The official client repeats it too: the server is busy with the same run.
#[test]
fn a_conflict_while_the_run_is_registered_is_outlived() {
    let server = Server::start();
    server.fault("UpsertBucket", Fault::Status(409, ""), 2);
    run(&server, &Rig::new(&server.url)).unwrap();
    assert!(server.state().faults.is_empty());
    assert_rows(&parsed(&server.run().history), 60);
}

#[test]
fn a_retry_waits_as_long_as_the_server_wants() {
    let server = Server::start();
    server.fault("fs", Fault::Status(429, "Retry-After: 1"), 1);
    let start = Instant::now();
    run(&server, &Rig::new(&server.url)).unwrap();
    assert!(start.elapsed() >= Duration::from_secs(1));
    assert_rows(&parsed(&server.run().history), 60);
}

#[test]
fn a_refusal_stops_the_upload_and_keeps_the_rows() {
    for status in [400, 401, 403, 404, 409, 410, 413, 422, 302] {
        let server = Server::start();
        let rig = Rig::new(&server.url);
        server.fault("fs", Fault::Status(status, ""), 1);
        let error = run(&server, &rig).unwrap_err();
        assert!(error.message.contains(&format!("answers {status}")), "{error}");
        assert!(error.message.contains("60 of 60 rows"), "{error}");
        assert!(error.message.contains("(key hidden)") && !error.message.contains(KEY), "{error}");
        assert!(!everything(&rig.run).contains(KEY));
        assert!(error.hint.contains("altgrad-host wandb-upload"), "{}", error.hint);
        rig.upload().unwrap();
        assert_rows(&parsed(&server.run().history), 60);
    }
    let server = Server::start();
    server.fault("UpsertBucket", Fault::Errors, 1);
    assert!(run(&server, &Rig::new(&server.url)).unwrap_err().message.contains("UpsertBucket: no"));
}

#[test]
fn rows_that_the_spool_has_lost_are_counted() {
    type Damage = fn(&mut Vec<u8>);
    let damage: [(&str, &str, Damage); 2] = [
        ("a flipped bit", "1 damaged lines of the spool are lost", |spool| {
            let middle = spool.len() / 2;
            spool[middle] ^= 1;
        }),
        ("half of the file", "rows that were written to it", |spool| spool.truncate(spool.len() / 2)),
    ];
    for (what, said, damage) in damage {
        let server = Server::start();
        server.fault("graphql", Fault::Drop, u32::MAX);
        let rig = Rig::new(&server.url).with("finish_timeout_s", ConfigValue::Float(0.2));
        let mut sink = rig.open(None);
        log_all(&mut sink, 0..50);
        sink.finish(RunOutcome::COMPLETED).unwrap_err();
        drop(sink);
        let path = rig.path("wandb").join("spool.log");
        let mut spool = std::fs::read(&path).unwrap();
        damage(&mut spool);
        std::fs::write(&path, spool).unwrap();
        server.state().faults.clear();
        let rig = Rig { options: Vec::new(), ..rig };
        // Another upload finds nothing to send, and still does not report a complete upload.
        for upload in 1..=2 {
            let error = rig.upload().unwrap_err();
            assert!(error.message.contains(said), "{what}, upload {upload}: {error}");
        }
        assert!(!server.run().history.is_empty(), "{what}: the others are sent");
    }
}

#[test]
fn a_server_that_comes_late_gets_all() {
    // A port without a listener, until one starts; other programs listen on other addresses of this machine.
    let place = TcpListener::bind("127.7.7.7:0").unwrap().local_addr().unwrap();
    let rig = Rig::new(&format!("http://{place}")).with("finish_timeout_s", ConfigValue::Float(0.3));
    let mut sink = rig.open(None);
    log_all(&mut sink, 0..50);
    let start = Instant::now();
    let error = sink.finish(RunOutcome::COMPLETED).unwrap_err();
    // Only without a deadline would it take longer.
    assert!(start.elapsed() < Duration::from_secs(60), "finish has a deadline");
    assert!(error.message.contains("50 of 50 rows"), "{error}");
    let server = Server::start_at(&place.to_string());
    let rig = Rig { options: Vec::new(), ..rig };
    rig.upload().unwrap();
    assert_rows(&parsed(&server.run().history), 50);
    assert_eq!(server.run().exits, [0], "the end as it was, not as the uploader was told");
    let requests = server.state().requests;
    rig.upload().unwrap();
    assert_eq!(server.state().requests, requests, "nothing was left");
}

#[test]
fn a_server_that_lost_rows_gets_them_again_and_a_foreign_one_is_left_alone() {
    let server = Server::start();
    let rig = Rig::new(&server.url).with("finish_timeout_s", ConfigValue::Float(0.0));
    let mut sink = rig.open(None);
    log_all(&mut sink, 0..30);
    // The last row may yet get histograms.
    wait_for(&server, 29, 0);
    drop(sink);
    server.state().runs.values_mut().for_each(|run| run.history.truncate(7));
    let rig = Rig { options: Vec::new(), ..rig };
    rig.upload().unwrap();
    assert_rows(&parsed(&server.run().history), 30);

    server.state().runs.values_mut().for_each(|run| run.history[29] = r#"{"_step":29,"x":1}"#.into());
    let mut sink = rig.open(Some(30));
    log_all(&mut sink, 30..35);
    let error = sink.finish(RunOutcome::COMPLETED).unwrap_err();
    assert!(error.message.contains("another process has written"), "{error}");
    assert_eq!(server.run().history.len(), 30, "nothing was written over it");
}

#[test]
fn a_wrong_key_or_host_or_tls_never_stops_a_run_and_the_key_shows_nowhere() {
    let server = Server::start();
    let tls = server.url.replace("http://", "https://");
    let cases = [
        (server.url.as_str(), KEY.replace('0', "z"), "401"),
        (server.url.as_str(), String::new(), "no API key"),
        (server.url.as_str(), "short".to_string(), "not an API key"),
        ("https://no-such-host.invalid", KEY.to_string(), "no answer from https://no-such-host.invalid"),
        ("http://no-such-host.invalid", KEY.to_string(), "not sent over http"),
        (tls.as_str(), KEY.to_string(), "no answer from https://"),
    ];
    for (url, key, expected) in cases {
        let mut rig = Rig::new(url).with("finish_timeout_s", ConfigValue::Float(2.0)).text("notes", KEY);
        rig.variables = vec![("WANDB_API_KEY".into(), key.clone()), ("WANDB_BASE_URL".into(), url.into())];
        let mut sink = rig.open(None);
        log_all(&mut sink, 0..20);
        sink.alert(&Alert { step: 1, level: AlertLevel::ERROR, kind: "k".into(), text: (&*key).into() })
            .unwrap();
        let state = sink.state().unwrap();
        let error = sink.finish(RunOutcome::COMPLETED).unwrap_err();
        assert!(error.message.contains(expected), "{expected}: {error}");
        assert!(error.message.contains("20 of 20 rows"), "{error}");
        if key.len() >= 40 {
            let written = everything(&rig.run) + &error.message + &error.hint;
            assert!(!written.contains(&key) && !String::from_utf8_lossy(&state).contains(&key), "{expected}");
        }
    }
}

#[test]
fn signs_of_life_go_on_without_rows_and_a_wish_to_stop_is_no_kill() {
    let server = Server::start();
    let rig = Rig::new(&server.url);
    server.state().stopped = true;
    let mut sink = rig.open(None);
    log_all(&mut sink, 0..5);
    let begun = Instant::now();
    let heartbeats = || server.state().runs.values().map(|run| run.heartbeats).max().unwrap_or(0);
    while heartbeats() < 2 && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    log_all(&mut sink, 5..10);
    sink.finish(RunOutcome::INTERRUPTED).unwrap();
    assert!(server.run().heartbeats >= 2, "{}", server.run().heartbeats);
    assert_rows(&parsed(&server.run().history), 10);
    assert_eq!(server.run().exits, [255]);
}
