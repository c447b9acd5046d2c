//! The calls of a run: in order, in every other order, by several instances and threads.

use std::thread;

use altgrad_plugin_api::{Alert, AlertLevel, ErrorKind, Histogram, PluginError, RunOutcome};

use super::{
    SinkSubject,
    subject::{ANNOUNCED, Instance},
};
use crate::{CheckResult, Verdict, subject::said};

const LEVELS: [AlertLevel; 3] = [AlertLevel::INFO, AlertLevel::WARN, AlertLevel::ERROR];
const OUTCOMES: [RunOutcome; 3] = [RunOutcome::COMPLETED, RunOutcome::INTERRUPTED, RunOutcome::FAILED];

/// Ten steps of all there is.
fn run(sink: &mut Instance) -> Result<(), String> {
    for step in 0..10 {
        let row: Vec<(&str, f64)> = ANNOUNCED.iter().map(|&(name, _)| (name, step as f64 / 3.0)).collect();
        sink.log(step, &row)?;
        sink.histogram(step, "weights/hist/wte.weight", &[-1.0, 0.0, 0.5, 1.0], &[3, 0, step])?;
        for level in LEVELS {
            sink.alert(step, level, "overflow", "look, \"here\": 1 < 2\nsecond line")?;
        }
        if step % 4 == 3 {
            sink.state()?;
        }
    }
    sink.summary(&[("final/train_loss", 3.25), ("best/val_loss", f64::NAN)])
}

pub(super) fn life(subject: &SinkSubject) -> CheckResult {
    for outcome in OUTCOMES {
        let scratch = subject.scratch()?;
        let mut sink = subject.opened(&scratch)?;
        run(&mut sink)?;
        sink.finish(outcome).map_err(|fault| format!("{outcome:?}: {fault}"))?;
        drop(sink);
        scratch.closed(Ok(Verdict::Passed))?;
    }
    Ok(Verdict::Passed)
}

pub(super) fn nothing_to_say(subject: &SinkSubject) -> CheckResult {
    let scratch = subject.scratch()?;
    subject.opened(&scratch)?.finish(RunOutcome::FAILED)?;
    scratch.closed(Ok(Verdict::Passed))?;

    let scratch = subject.scratch()?;
    let mut sink = subject.opened(&scratch)?;
    for step in [0, 1, 7, 1_000_000_000_000] {
        sink.log(step, &[])?;
    }
    sink.state()?;
    sink.summary(&[])?;
    sink.finish(RunOutcome::COMPLETED)?;
    scratch.closed(Ok(Verdict::Passed))
}

/// Calls every method; errors are allowed, panics are not.
fn any_order(sink: &mut Instance, when: &str) -> Result<(), String> {
    let object = sink.object();
    let histogram =
        Histogram { name: "h".into(), edges: [0.0, 1.0].as_slice().into(), counts: [1].as_slice().into() };
    let alert = Alert { step: 1, level: AlertLevel::INFO, kind: "best".into(), text: "so far".into() };
    let calls = [
        ("log", object.log(1, [].as_slice().into()).into_result()),
        ("histogram", object.histogram(1, &histogram).into_result()),
        ("alert", object.alert(&alert).into_result()),
        ("state", object.state().map(drop).into_result()),
        ("summary", object.summary([].as_slice().into()).into_result()),
        ("finish", object.finish(RunOutcome::COMPLETED).into_result()),
    ];
    calls.into_iter().try_for_each(|(call, result)| no_panic(call, when, result))
}

fn no_panic(call: &str, when: &str, result: Result<(), PluginError>) -> Result<(), String> {
    match result {
        Err(error) if [ErrorKind::PANIC, ErrorKind::POISONED].contains(&error.kind) => {
            Err(format!("{when}: {}", said(call, &error)))
        }
        _ => Ok(()),
    }
}

pub(super) fn wrong_order(subject: &SinkSubject) -> CheckResult {
    let scratch = subject.scratch()?;
    let mut sink = subject.instance()?;
    any_order(&mut sink, "before `open`")?;
    let mut sink = subject.opened(&scratch)?;
    sink.finish(RunOutcome::COMPLETED)?;
    any_order(&mut sink, "after `finish`")?;

    let scratch = subject.scratch()?;
    let mut sink = subject.opened(&scratch)?;
    no_panic("open", "already open", sink.try_open(&scratch.run(), None, &[]))?;
    any_order(&mut sink, "opened twice")?;
    drop(sink);
    scratch.closed(Ok(Verdict::Passed))
}

pub(super) fn instances(subject: &SinkSubject) -> CheckResult {
    let scratches = [subject.scratch()?, subject.scratch()?];
    let mut sinks = [subject.opened(&scratches[0])?, subject.opened(&scratches[1])?];
    for step in 0..20 {
        for sink in &mut sinks {
            sink.log(step, &[("train/loss", step as f64)])?;
        }
    }
    let [mut first, mut second] = sinks;
    first.finish(RunOutcome::COMPLETED)?;
    drop(first);
    second.log(20, &[("train/loss", 20.0)])?;
    second.finish(RunOutcome::COMPLETED)?;
    scratches.iter().try_fold(Verdict::Passed, |verdict, scratch| scratch.closed(Ok(verdict)))
}

pub(super) fn threads(subject: &SinkSubject) -> CheckResult {
    let scratch = subject.scratch()?;
    let mut sink = subject.instance()?;
    let folder = scratch.run();
    let used = thread::scope(|scope| {
        let used = scope.spawn(|| {
            sink.open(&folder, None, &[])?;
            run(&mut sink)?;
            sink.finish(RunOutcome::COMPLETED)
        });
        used.join().unwrap_or_else(|_| Err("the thread panicked".into()))
    });
    used?;
    thread::scope(|scope| scope.spawn(move || drop(sink)).join().map_err(|_| "dropping panicked"))?;
    scratch.closed(Ok(Verdict::Passed))
}

pub(super) fn no_folder(subject: &SinkSubject) -> CheckResult {
    let scratch = subject.scratch()?;
    for resume_step in [None, Some(3)] {
        let mut sink = subject.instance()?;
        no_panic("open", "without a folder", sink.try_open(&scratch.nowhere(), resume_step, &[]))?;
        any_order(&mut sink, "without a folder")?;
    }
    scratch.closed(Ok(Verdict::Passed))
}
