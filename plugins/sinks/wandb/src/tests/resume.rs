//! A resumed run repeats steps: each reaches the server once, in all cases.

use super::{server::Server, *};

/// A first life up to a step, killed (the sink is dropped) at once or after the upload.
fn first_life(server: &Server, rig: &Rig, steps: u64, uploaded: bool) {
    let mut sink = rig.open(None);
    log_all(&mut sink, 0..steps);
    alert(&mut sink, steps - 1, "overflow");
    if uploaded {
        // The alert comes after the last row, so that the row is not held back for a histogram.
        wait_for(server, steps as usize, 1);
    }
}

#[test]
fn equal_rows_are_skipped_whether_or_not_they_were_sent() {
    for uploaded in [false, true] {
        let server = Server::start();
        let rig = Rig::new(&server.url);
        first_life(&server, &rig, 25, uploaded);
        let mut sink = rig.open(Some(11));
        // Times differ when a step is repeated; they are not compared.
        for step in 11..40 {
            log(&mut sink, step, -1.0);
            log_histogram(&mut sink, step);
        }
        alert(&mut sink, 24, "overflow");
        sink.state().unwrap();
        let spool = std::fs::read_to_string(rig.path("wandb/spool.log")).unwrap();
        assert!(!spool.contains(" C "), "nothing was cut");
        sink.finish(RunOutcome::COMPLETED).unwrap();
        let run = server.run();
        assert_rows(&parsed(&run.history), 40);
        assert_eq!(run.alerts.len(), 1, "the alert was repeated too");
    }
}

/// Logs a step that the first life had otherwise.
fn log_other(sink: &mut WandbSink, step: u64) {
    sink.log(step, &[Metric { name: MetricName { name: "x".into(), timing: false }, value: step as f64 }])
        .unwrap();
}

#[test]
fn rows_that_differ_replace_what_was_there() {
    for uploaded in [false, true] {
        let server = Server::start();
        let rig = Rig::new(&server.url);
        first_life(&server, &rig, 25, uploaded);
        let mut sink = rig.open(Some(20));
        (20..30).for_each(|step| log_other(&mut sink, step));
        sink.finish(RunOutcome::INTERRUPTED).unwrap();
        let rows = parsed(&server.run().history);
        assert_rows(&rows[..20], 20);
        let rest: Vec<_> = rows[20..].iter().map(|row| (step_of(row), number(&row["x"]))).collect();
        let expected: Vec<_> = (20..30).map(|step| (step, step as f64)).collect();
        assert_eq!(rest, expected, "sent before: {uploaded}");
        // And once more, to check that replaced rows do not come back.
        let mut sink = rig.open(Some(28));
        (28..32).for_each(|step| log_other(&mut sink, step));
        sink.finish(RunOutcome::COMPLETED).unwrap();
        assert_eq!(server.run().history.len(), 32);
    }
}

#[test]
fn a_server_without_rewind_keeps_its_rows_and_the_loss_is_counted() {
    let server = Server::start();
    server.state().no_rewind = true;
    let rig = Rig::new(&server.url);
    first_life(&server, &rig, 25, true);
    let sent = server.run().history.len() as u64;
    let mut sink = rig.open(Some(20));
    (20..30).for_each(|step| log_other(&mut sink, step));
    let error = sink.finish(RunOutcome::COMPLETED).unwrap_err();
    assert!(error.message.contains(&format!("{} rows of repeated steps", sent - 20)), "{error}");
    let steps: Vec<u64> = parsed(&server.run().history).iter().map(step_of).collect();
    assert_eq!(steps, (0..30).collect::<Vec<_>>());
}

#[test]
fn a_run_that_finished_goes_on() {
    let server = Server::start();
    let rig = Rig::new(&server.url);
    let mut sink = rig.open(None);
    log_all(&mut sink, 0..20);
    sink.finish(RunOutcome::INTERRUPTED).unwrap();
    let mut sink = rig.open(Some(20));
    log_all(&mut sink, 20..30);
    sink.finish(RunOutcome::COMPLETED).unwrap();
    assert_rows(&parsed(&server.run().history), 30);
    assert_eq!(server.run().exits, [255, 0]);
}

#[test]
fn a_lost_spool_is_made_up_for_by_the_checkpoint_and_the_server() {
    let server = Server::start();
    let rig = Rig::new(&server.url);
    let mut sink = rig.open(None);
    log_all(&mut sink, 0..21);
    let state = sink.state().unwrap();
    log_all(&mut sink, 21..26);
    sink.finish(RunOutcome::FAILED).unwrap();
    std::fs::remove_dir_all(rig.path("wandb")).unwrap();
    let mut sink = rig.try_open(Some(21), &state).unwrap();
    log_all(&mut sink, 21..30);
    sink.finish(RunOutcome::COMPLETED).unwrap();
    assert_rows(&parsed(&server.run().history), 30);
}

#[test]
fn rows_that_are_missing_before_the_checkpoint_are_reported_once() {
    let rig = Rig::new("http://127.0.0.1:9").text("mode", "offline");
    let mut sink = rig.open(None);
    log_all(&mut sink, 0..20);
    let state = sink.state().unwrap();
    log_all(&mut sink, 20..25);
    drop(sink);
    // Steps that come again do not count.
    let mut sink = rig.try_open(Some(20), &state).unwrap();
    log_all(&mut sink, 20..22);
    let later = sink.state().unwrap();
    drop(sink);
    rig.try_open(Some(22), &later).unwrap();

    let path = rig.path("wandb/spool.log");
    let spool = std::fs::read_to_string(&path).unwrap();
    let end = spool.match_indices("\"_step\":15").next().unwrap().0;
    std::fs::write(&path, &spool[..end]).unwrap();
    let error = rig.try_open(Some(20), &state).unwrap_err();
    assert!(error.kind == altgrad_plugin_api::ErrorKind::GAP, "{error}");
    assert!(error.message.ends_with("5 of 20 rows before the checkpoint are missing"), "{error}");
    // As the host does then: the next checkpoint counts the existing rows.
    let mut sink = rig.open(Some(20));
    let state = sink.state().unwrap();
    drop(sink);
    rig.try_open(Some(20), &state).unwrap();
    // A state of an earlier version has no count.
    let mut earlier: Value = serde_json::from_slice(&later).unwrap();
    earlier.as_object_mut().unwrap().remove("rows").unwrap();
    rig.try_open(Some(22), earlier.to_string().as_bytes()).unwrap();
}

#[test]
fn a_run_of_others_is_continued_only_if_that_was_said() {
    let server = Server::start();
    let rig = || Rig::new(&server.url).text("run_id", "shared");
    let mut sink = rig().open(None);
    log_all(&mut sink, 0..10);
    sink.finish(RunOutcome::COMPLETED).unwrap();

    let mut sink = rig().open(Some(10));
    log_all(&mut sink, 10..12);
    let error = sink.finish(RunOutcome::COMPLETED).unwrap_err();
    assert!(error.message.contains("resume = \"allow\""), "{error}");

    // Nor by a second try from a checkpoint.
    let other = rig();
    let mut sink = other.open(None);
    log_all(&mut sink, 0..5);
    let state = sink.state().unwrap();
    assert!(sink.finish(RunOutcome::FAILED).is_err());
    std::fs::remove_dir_all(other.path("wandb")).unwrap();
    assert!(other.try_open(Some(5), &state).unwrap().finish(RunOutcome::FAILED).is_err());
    assert_eq!(server.run().history.len(), 10);

    let mut sink = rig().text("resume", "must").open(Some(10));
    log_all(&mut sink, 10..20);
    sink.finish(RunOutcome::COMPLETED).unwrap();
    assert_rows(&parsed(&server.run().history), 20);

    // Without a checkpoint its steps come first, and the server has them: they are counted.
    let mut sink = rig().text("resume", "allow").open(None);
    log_all(&mut sink, 0..25);
    let error = sink.finish(RunOutcome::COMPLETED).unwrap_err();
    assert!(error.message.contains("20 rows of repeated steps"), "{error}");
    assert_eq!(server.run().history.len(), 25);

    let mut sink = Rig::new(&server.url).text("run_id", "other").text("resume", "must").open(None);
    let error = sink.finish(RunOutcome::COMPLETED).unwrap_err();
    assert!(error.message.contains("no run `other`"), "{error}");
}

/// The spool of a run that the server has whole is deleted. The run may be uploaded again, resumed from its end, and
/// from before.
#[test]
fn a_finished_spool_is_deleted_and_the_run_goes_on() {
    for run_id in ["", "chosen"] {
        let server = Server::start();
        let rig = Rig::new(&server.url).text("run_id", run_id);
        let mut sink = rig.open(None);
        log_all(&mut sink, 0..20);
        let early = sink.state().unwrap();
        log_all(&mut sink, 20..30);
        let last = sink.state().unwrap();
        sink.finish(RunOutcome::COMPLETED).unwrap();
        let files = |name: &str| rig.path("wandb").join(name).exists();
        assert_eq!([files("spool.log"), files("written.json"), files("uploaded.json")], [false, false, true]);
        let requests = server.state().requests;
        rig.upload().unwrap();
        assert_eq!(server.state().requests, requests, "nothing was left");

        let mut sink = rig.try_open(Some(30), &last).unwrap();
        log_all(&mut sink, 30..40);
        sink.finish(RunOutcome::COMPLETED).unwrap();
        assert_rows(&parsed(&server.run().history), 40);
        let mut sink = rig.try_open(Some(20), &early).unwrap();
        log_all(&mut sink, 20..50);
        sink.finish(RunOutcome::COMPLETED).unwrap();
        assert_rows(&parsed(&server.run().history), 50);
        assert_eq!(server.run().exits, [0, 0, 0]);
    }
}

/// `wandb sync` of all folders sends an offline run once.
#[test]
fn an_offline_run_that_goes_on_leaves_one_folder() {
    let rig = Rig::new("http://127.0.0.1:9").text("mode", "offline").text("run_id", "off");
    let mut sink = rig.open(None);
    log_all(&mut sink, 0..5);
    sink.finish(RunOutcome::INTERRUPTED).unwrap();
    drop(sink);
    let folders = || {
        let entries = std::fs::read_dir(rig.path("wandb")).unwrap().flatten();
        let folders = entries.filter(|entry| entry.path().is_dir());
        let mut names: Vec<_> =
            folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    let [first] = &folders()[..] else { panic!("{:?}", folders()) };
    // Of an hour ago, and beside it another run's.
    let [before, foreign] = ["offline-run-20200101_000000-off", "offline-run-20200101_000000-not-off"];
    std::fs::rename(rig.path("wandb").join(first), rig.path("wandb").join(before)).unwrap();
    std::fs::create_dir(rig.path("wandb").join(foreign)).unwrap();
    let mut sink = rig.open(Some(5));
    log_all(&mut sink, 5..10);
    sink.finish(RunOutcome::COMPLETED).unwrap();
    let [kept, export] = &folders()[..] else { panic!("{:?}", folders()) };
    assert!(kept == foreign && export.ends_with("-off"), "{kept}, {export}");
    assert!(rig.path("wandb").join(export).join("run-off.wandb").is_file());
}

/// An upload that is not whole, or of a run that did not complete, keeps its spool.
#[test]
fn other_spools_stay() {
    let server = Server::start();
    let place = "http://127.0.0.1:9";
    for (url, outcome) in [(&*server.url, RunOutcome::INTERRUPTED), (place, RunOutcome::COMPLETED)] {
        let rig = Rig::new(url).with("finish_timeout_s", ConfigValue::Float(0.5));
        let mut sink = rig.open(None);
        log_all(&mut sink, 0..5);
        assert_eq!(sink.finish(outcome).is_ok(), url != place);
        assert!(rig.path("wandb/spool.log").exists());
    }
}

/// Copies a folder as `cp -r` does.
fn copy(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// A run of 20 rows that the server has, and a copy of its folder.
fn copied(server: &Server) -> (Rig, Rig, Vec<u8>) {
    let (rig, other) = (Rig::new(&server.url), Rig::new(&server.url));
    let mut sink = rig.open(None);
    log_all(&mut sink, 0..20);
    let state = sink.state().unwrap();
    sink.finish(RunOutcome::INTERRUPTED).unwrap();
    copy(&rig.path("wandb"), &other.path("wandb"));
    (rig, other, state)
}

#[test]
fn a_copy_of_a_run_folder_is_a_run_of_its_own() {
    let server = Server::start();
    let (rig, other, state) = copied(&server);
    // An upload of what is left goes to the run of the copy's rows, which has all.
    other.upload().unwrap();
    for (rig, until) in [(&rig, 25), (&other, 30)] {
        let mut sink = rig.try_open(Some(20), &state).unwrap();
        log_all(&mut sink, 20..until);
        sink.finish(RunOutcome::INTERRUPTED).unwrap();
    }
    let lengths = || {
        let mut lengths: Vec<_> = server.state().runs.values().map(|run| run.history.len()).collect();
        lengths.sort_unstable();
        lengths
    };
    assert_eq!(lengths(), [25, 30]);
    let runs: Vec<_> = server.state().runs.values().map(|run| parsed(&run.history)).collect();
    runs.iter().for_each(|rows| assert_rows(rows, rows.len() as u64));
    // From then on the copy has its own identity.
    let mut sink = other.try_open(Some(30), &state).unwrap();
    log_all(&mut sink, 30..35);
    sink.finish(RunOutcome::COMPLETED).unwrap();
    assert_eq!(lengths(), [25, 35]);
}

#[test]
fn a_copy_continues_the_original_s_run_if_that_is_said_and_a_renamed_folder_always() {
    let server = Server::start();
    let (_, other, state) = copied(&server);
    let other = other.text("resume", "allow");
    let mut sink = other.try_open(Some(20), &state).unwrap();
    log_all(&mut sink, 20..25);
    sink.finish(RunOutcome::INTERRUPTED).unwrap();
    assert_rows(&parsed(&server.run().history), 25);

    let server = Server::start();
    let mut rig = Rig::new(&server.url);
    rig.run = rig.path("before");
    std::fs::create_dir(&rig.run).unwrap();
    let mut sink = rig.open(None);
    log_all(&mut sink, 0..10);
    let state = sink.state().unwrap();
    sink.finish(RunOutcome::INTERRUPTED).unwrap();
    let after = rig.run.with_file_name("after");
    std::fs::rename(&rig.run, &after).unwrap();
    rig.run = after;
    let mut sink = rig.try_open(Some(10), &state).unwrap();
    log_all(&mut sink, 10..20);
    sink.finish(RunOutcome::COMPLETED).unwrap();
    assert_rows(&parsed(&server.run().history), 20);
}

#[test]
fn another_server_gets_the_run_from_its_first_row() {
    let (first, second) = (Server::start(), Server::start());
    let mut rig = Rig::new(&first.url);
    let mut sink = rig.open(None);
    log_all(&mut sink, 0..20);
    let state = sink.state().unwrap();
    sink.finish(RunOutcome::INTERRUPTED).unwrap();
    rig.url.clone_from(&second.url);
    let mut sink = rig.try_open(Some(20), &state).unwrap();
    log_all(&mut sink, 20..30);
    sink.finish(RunOutcome::COMPLETED).unwrap();
    assert_eq!(first.run().history.len(), 20);
    assert_rows(&parsed(&second.run().history), 30);
}
