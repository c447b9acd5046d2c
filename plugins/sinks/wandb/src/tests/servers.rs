//! The server of a run: an upload sends the run to no other, and an upload or a resume without a named server continues
//! there.

use super::{
    server::{Fault, Server},
    *,
};

/// A run folder whose server only a variable names, if anything.
fn rig(server: Option<&str>) -> Rig {
    let mut rig = Rig::new("");
    rig.variables.extend(server.map(named));
    rig
}

fn named(server: &str) -> (String, String) {
    ("WANDB_BASE_URL".into(), server.into())
}

/// A run of ten rows that its server has not taken, in a shell without the variable.
fn left_over(server: &str) -> Rig {
    let mut rig = rig(Some(server)).with("finish_timeout_s", ConfigValue::Float(0.3));
    let mut sink = rig.open(None);
    log_all(&mut sink, 0..10);
    sink.finish(RunOutcome::INTERRUPTED).unwrap_err();
    rig.variables.pop();
    rig.options.clear();
    rig
}

#[test]
fn an_upload_goes_to_the_server_of_the_run() {
    let server = Server::start();
    server.fault("graphql", Fault::Drop, u32::MAX);
    let mut rig = left_over(&server.url);
    server.state().faults.clear();
    let other = Server::start();
    rig.variables.push(named(&other.url));
    let error = rig.upload().unwrap_err();
    assert!(error.message.contains(&server.url) && error.message.contains(&other.url), "{error}");
    assert_eq!(other.state().requests, 0);
    rig.variables.pop();
    rig.upload().unwrap();
    assert_rows(&parsed(&server.run().history), 10);
    // Nor does a resume change it.
    let mut sink = rig.open(Some(10));
    log_all(&mut sink, 10..15);
    sink.finish(RunOutcome::COMPLETED).unwrap();
    assert_rows(&parsed(&server.run().history), 15);
}

#[test]
fn a_checkpoint_knows_the_server_of_the_run() {
    let server = Server::start();
    let mut rig = rig(Some(&server.url));
    let mut sink = rig.open(None);
    log_all(&mut sink, 0..10);
    let state = sink.state().unwrap();
    sink.finish(RunOutcome::INTERRUPTED).unwrap();
    std::fs::remove_dir_all(rig.path("wandb")).unwrap();
    rig.variables.pop();
    let mut sink = rig.try_open(Some(10), &state).unwrap();
    log_all(&mut sink, 10..15);
    sink.finish(RunOutcome::COMPLETED).unwrap();
    assert_rows(&parsed(&server.run().history), 15);
}

/// A run folder may come from a stranger.
#[test]
fn the_server_of_a_run_gets_no_key_that_is_not_for_it() {
    let error = left_over("https://no-such-host.invalid").upload().unwrap_err();
    assert!(error.message.contains("WANDB_API_KEY is not sent to no-such-host.invalid"), "{error}");
}

#[test]
fn an_offline_run_that_names_no_server_goes_to_any() {
    let offline = rig(None).text("mode", "offline");
    let mut sink = offline.open(None);
    log_all(&mut sink, 0..10);
    sink.finish(RunOutcome::COMPLETED).unwrap();
    let server = Server::start();
    let mut rig = Rig { options: Vec::new(), ..offline };
    rig.variables.push(named(&server.url));
    rig.upload().unwrap();
    assert_rows(&parsed(&server.run().history), 10);
}

/// Users rename and tag runs in the browser.
#[test]
fn a_resume_keeps_names_and_tags_that_were_given_on_the_server() {
    let server = Server::start();
    let rig = Rig::new(&server.url);
    let mut sink = rig.open(None);
    log_all(&mut sink, 0..10);
    sink.finish(RunOutcome::INTERRUPTED).unwrap();
    let shown = || {
        let run = server.run();
        ["displayName", "tags"].map(|name| run.variables.get(name).cloned().unwrap_or_default())
    };
    assert_eq!(shown(), ["exp".into(), Value::Null]);
    let given = [("displayName", Value::from("mine")), ("tags", serde_json::json!(["good"]))];
    let all = given.clone().map(|(name, value)| (name.to_string(), value));
    server.state().runs.values_mut().for_each(|run| run.variables.extend(all.clone()));
    let mut sink = rig.open(Some(10));
    log_all(&mut sink, 10..15);
    sink.finish(RunOutcome::INTERRUPTED).unwrap();
    rig.upload().unwrap();
    assert_eq!(shown(), given.map(|(_, value)| value));
    // What the user sets here is sent.
    let rig = rig.text("display_name", "set");
    rig.open(Some(15)).finish(RunOutcome::COMPLETED).unwrap();
    assert_eq!(shown()[0], "set");
}
