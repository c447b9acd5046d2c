//! The end of an upload: servers that return within its time limit, and the message to the user in each case.

use std::{thread, time::Duration};

use super::{
    server::{Fault, Server},
    *,
};

/// A server that is back so long after the end of a run of 30 rows.
fn comes_back(fault: &Fault, after: Duration, rig: fn(&Server) -> Rig) {
    let server = Server::start();
    for target in ["fs", "graphql"] {
        server.fault(target, fault.clone(), u32::MAX);
    }
    let rig = rig(&server);
    let mut sink = rig.open(None);
    log_all(&mut sink, 0..30);
    let back = server.clone();
    thread::spawn(move || {
        thread::sleep(after);
        back.state().faults.clear();
    });
    let finished = sink.finish(RunOutcome::COMPLETED);
    finished.unwrap_or_else(|error| panic!("{fault:?}, back after {after:?}: {error}"));
    assert_rows(&parsed(&server.run().history), 30);
    assert_eq!(server.run().exits.last(), Some(&0));
}

/// Each outage, ended after each of these times. Cases run at once, because most of their time is waiting. One that
/// fails runs again alone, at most twice: the machine is less loaded then, and an error in the code fails each time.
fn each_outage(ends: impl Iterator<Item = Duration> + Clone, rig: fn(&Server) -> Rig) {
    let start = |(fault, after): (Fault, Duration)| thread::spawn(move || comes_back(&fault, after, rig));
    let cases = OUTAGES.into_iter().flat_map(|fault| ends.clone().map(move |after| (fault.clone(), after)));
    let started: Vec<_> = cases.map(|case| (case.clone(), start(case))).collect();
    let failed: Vec<_> =
        started.into_iter().filter_map(|(case, thread)| thread.join().err().map(|_| case)).collect();
    for case in failed {
        let again = || start(case.clone()).join();
        again().or_else(|_| again()).unwrap();
    }
}

const OUTAGES: [Fault; 4] =
    [Fault::Drop, Fault::Hang, Fault::Status(503, ""), Fault::Status(429, "Retry-After: 60")];

/// The time at the end is 6 s here, and the server is back after each tenth of it. A shorter time would test the
/// machine's load.
#[test]
#[ignore = "--all: W&B outages"]
fn a_server_that_is_back_at_any_tenth_of_the_end_gets_all() {
    each_outage((0..10).map(|tenth| Duration::from_millis(600 * tenth)), |server| {
        let rig = Rig::new(&server.url).with("finish_timeout_s", ConfigValue::Float(6.0));
        // After `Retry-After: 60` the next request comes 0.8 s before the end.
        let pace = Pace { backoff_last: Duration::from_millis(400), ..rig.pace };
        Rig { pace, ..rig }
    });
}

/// The defaults: 20 s, the usual pace, and a server that is back after each second.
#[test]
#[ignore = "--all: W&B outages"]
fn a_server_that_is_back_at_any_second_of_the_end_gets_all() {
    each_outage((0..20).map(Duration::from_secs), |server| {
        let usual = Pace::usual(Duration::from_secs(15));
        Rig { pace: usual, ..Rig::new(&server.url) }
    });
}

/// The message of a run at its end, and that of a later `wandb-upload` if there is one.
#[test]
fn each_ending_says_what_is_left_and_what_to_do() {
    type Prepare = fn(&Server, Rig) -> Rig;
    let cases: [(&str, Prepare); 9] = [
        ("all is there", |_, rig| rig),
        ("a server that does not answer", |server, rig| {
            server.fault("graphql", Fault::Drop, u32::MAX);
            quick(rig)
        }),
        ("a server that breaks down", |server, rig| {
            server.fault("fs", Fault::Status(503, ""), u32::MAX);
            quick(rig)
        }),
        ("a server that refuses rows", |server, rig| {
            server.fault("fs", Fault::Status(413, ""), 1);
            rig
        }),
        ("another key", |_, rig| variable(rig, &KEY.replace('0', "z"))),
        ("no key", |_, rig| variable(rig, "")),
        ("no key, but something else", |_, rig| variable(rig, "short")),
        ("a run of others under its id", |server, rig| {
            let mut sink = Rig::new(&server.url).text("run_id", "taken").open(None);
            log_all(&mut sink, 0..3);
            sink.finish(RunOutcome::COMPLETED).unwrap();
            rig.text("run_id", "taken")
        }),
        ("alerts that are refused", |server, rig| {
            server.fault("NotifyScriptableRunAlert", Fault::Errors, 1);
            rig
        }),
    ];
    let mut page = String::new();
    for (what, prepare) in cases {
        let server = Server::start();
        let rig = prepare(&server, Rig::new(&server.url));
        let mut sink = rig.open(None);
        log_all(&mut sink, 0..10);
        alert(&mut sink, 9, "overflow");
        page += &told(what, &rig, sink.finish(RunOutcome::COMPLETED));
    }
    for (what, damage) in [("a damaged spool", true), ("a spool that was cut", false)] {
        let server = Server::start();
        server.fault("graphql", Fault::Drop, u32::MAX);
        let rig = quick(Rig::new(&server.url));
        let mut sink = rig.open(None);
        log_all(&mut sink, 0..10);
        sink.finish(RunOutcome::COMPLETED).unwrap_err();
        drop(sink);
        let path = rig.path("wandb/spool.log");
        let mut spool = std::fs::read(&path).unwrap();
        let middle = spool.len() / 2;
        if damage {
            spool[middle] ^= 1;
        } else {
            spool.truncate(middle);
        }
        std::fs::write(&path, spool).unwrap();
        server.state().faults.clear();
        let rig = Rig { options: Vec::new(), ..rig };
        page += &told(&format!("{what}, uploaded later"), &rig, rig.upload());
    }
    insta::assert_snapshot!("endings", page);
}

/// With little time at the end, for a server that does not come back.
fn quick(rig: Rig) -> Rig {
    rig.with("finish_timeout_s", ConfigValue::Float(0.5))
}

fn variable(mut rig: Rig, key: &str) -> Rig {
    rig.variables = vec![("WANDB_API_KEY".into(), key.into())];
    rig
}

/// An ending in words: the error and its hint.
fn told(what: &str, rig: &Rig, ending: Result<(), PluginError>) -> String {
    let said = match ending {
        Ok(()) => "ok".to_string(),
        Err(error) if error.hint.is_empty() => error.message.to_string(),
        Err(error) => format!("{}\nhint: {}", error.message, error.hint),
    };
    let said = said.replace(&*rig.url, "[server]").replace(&rig.run.display().to_string(), "[run]");
    let said = said.replace(rig.url.trim_start_matches("http://"), "[host]");
    // How a connection breaks depends on the moment.
    let line = |line: &str| match line.split_once("no answer from [server] (") {
        Some((before, _)) => format!("{before}no answer from [server] (...)"),
        None => line.to_string(),
    };
    let said = said.lines().map(line).collect::<Vec<_>>().join("\n");
    let spool = if rig.path("wandb/spool.log").exists() { "kept" } else { "deleted" };
    format!("=== {what}\n{said}\nspool: {spool}\n\n")
}
