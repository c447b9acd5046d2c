//! The end of the training process: in one sentence, in `run.json` and as an exit code.

use std::{
    io::{self, Write},
    process::ExitCode,
    sync::atomic::Ordering,
    time::Duration,
};

use altgrad_base::{
    diagnostic::{Diagnostic, Fault},
    eprintln, interrupt,
};
use altgrad_loader::calls::{Call, Mark};
use altgrad_run_folder::{
    crash_recovery::End,
    record::{Failure, Progress, RunStatus},
};
use nix::sys::{signal::Signal, wait::WaitStatus};

use super::{
    Asked,
    shared::{EXIT, Shared},
};

/// The number that a shell adds to a signal.
const SIGNALLED: u8 = 128;
/// Signals from outside the process: they are independent of the plugin call that they interrupt.
const FROM_OUTSIDE: [Signal; 7] = [
    Signal::SIGKILL,
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGXCPU,
    Signal::SIGUSR2,
];
/// The signals by which a user ends a run that has not begun.
const BY_THE_USER: [Signal; 4] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT];

/// The reason why the supervising process killed the other.
#[derive(Debug)]
pub(super) enum Killed {
    /// A plugin call did not return for so long.
    Stuck(Mark, Duration),
    /// The process that started the run is gone for so long.
    Orphaned(Duration),
}

/// The end of the process.
#[derive(Debug, PartialEq, Eq)]
struct Verdict {
    code: u8,
    /// The reason, if it did not end by itself.
    error: Option<String>,
    /// True if a handler has reported it already.
    is_said: bool,
    status: RunStatus,
}

/// Says how it ended, writes it into the run folder, and returns the exit code.
pub(super) fn close(status: WaitStatus, shared: &Shared, asked: Asked, killed: Option<Killed>) -> ExitCode {
    let verdict = judge(status, shared, killed);
    let progress = shared.progress();
    let claim = shared.claimed();
    let Some(error) = &verdict.error else {
        // Its last message may be missing nevertheless: a full disk.
        if let Some(claim) = claim.filter(|claim| shared.has_begun() && claim.is_running()) {
            let error = "the run ended without being able to write its status";
            // The reason is reported already.
            let _ = claim.finish(&End { status: RunStatus::Failed, error, progress });
        }
        return ExitCode::from(verdict.code);
    };
    let hint = match &claim {
        Some(claim) if shared.has_begun() => {
            format!("`--resume` resumes from the last checkpoint in {}", claim.path.display())
        }
        _ => "the run had not begun".to_string(),
    };
    let diagnostic = Diagnostic::run(error).hint(hint);
    if !verdict.is_said {
        eprintln!("{diagnostic}");
    }
    if asked.json && verdict.status == RunStatus::Failed {
        let error = Some(Failure::from(&diagnostic));
        let line = Progress { status: RunStatus::Failed, error, ..progress.clone() }.to_line();
        let _ = writeln!(io::stdout(), "{line}");
    }
    match claim {
        Some(claim) if shared.has_begun() => {
            report(claim.finish(&End { status: verdict.status, error, progress }));
        }
        Some(claim) => claim.discard(),
        None => {}
    }
    ExitCode::from(verdict.code)
}

fn report(result: Result<(), Diagnostic>) {
    if let Err(fault) = result {
        eprintln!("{fault}");
    }
}

fn judge(status: WaitStatus, shared: &Shared, killed: Option<Killed>) -> Verdict {
    let plugin = Fault::Plugin.exit_code();
    let failed =
        |code, error: String| Verdict { code, error: Some(error), is_said: false, status: RunStatus::Failed };
    let calls = &shared.calls;
    let running: Vec<String> = calls.running().map(|(_, mark)| calls.description(mark)).collect();
    let running = (!running.is_empty()).then(|| format!("during {}", running.join(" and ")));
    let fatal = shared.fatal();
    match (status, killed) {
        (WaitStatus::Signaled(..), Some(Killed::Stuck(mark, after))) => {
            failed(plugin, format!("{} did not return within {after:?}", calls.description(mark)))
        }
        (WaitStatus::Signaled(..), Some(Killed::Orphaned(after))) => failed(
            Fault::Run.exit_code(),
            format!("the program that started the run is gone, and the run did not end within {after:?}"),
        ),
        (WaitStatus::Exited(_, code), _) if shared.ended.load(Ordering::Acquire) => {
            Verdict { code: code as u8, error: None, is_said: true, status: RunStatus::Running }
        }
        (WaitStatus::Exited(..), _) if shared.at_once.load(Ordering::Acquire) => Verdict {
            is_said: true,
            status: RunStatus::Interrupted,
            ..failed(interrupt::EXIT_CODE, "the user stopped the run at once".into())
        },
        (WaitStatus::Exited(..), _) if fatal.is_some_and(|fatal| fatal.how == EXIT) => {
            let place = fatal.map(|fatal| calls.description(fatal.mark)).unwrap_or_default();
            Verdict { is_said: true, ..failed(plugin, format!("{place} ended the process (exit)")) }
        }
        (WaitStatus::Exited(_, code), _) => match running {
            Some(running) => failed(plugin, format!("the process ended with exit code {code} {running}")),
            None => failed(
                (code as u8).max(Fault::Run.exit_code()),
                format!("the process ended with exit code {code} before the run was done"),
            ),
        },
        (WaitStatus::Signaled(_, signal, _), _) => of_signal(signal, shared, running, failed),
        _ => failed(Fault::Run.exit_code(), format!("the process ended: {status:?}")),
    }
}

fn of_signal(
    signal: Signal,
    shared: &Shared,
    running: Option<String>,
    failed: impl Fn(u8, String) -> Verdict,
) -> Verdict {
    let (name, shell) = (signal.as_str(), SIGNALLED.saturating_add(signal as u8));
    let plugin = Fault::Plugin.exit_code();
    if let Some(fatal) = shared.fatal().filter(|fatal| fatal.how == signal as u32) {
        let (code, place) = match fatal.mark.call() {
            Call::None => (shell, "outside of plugin calls".to_string()),
            _ => (plugin, format!("in {}", shared.calls.description(fatal.mark))),
        };
        return Verdict { is_said: true, ..failed(code, format!("{name} {place}")) };
    }
    if BY_THE_USER.contains(&signal) && !shared.listens.load(Ordering::Acquire) {
        return Verdict { error: None, is_said: true, ..failed(shell, String::new()) };
    }
    let memory = if signal == Signal::SIGKILL { " (perhaps for its memory)" } else { "" };
    let from_outside = FROM_OUTSIDE.contains(&signal);
    let code = if running.is_some() && !from_outside { plugin } else { shell };
    let running = running.map(|running| format!(" {running}")).unwrap_or_default();
    failed(code, format!("the process was ended by {name}{memory}{running}"))
}

#[cfg(test)]
mod tests {
    use nix::unistd::Pid;

    use super::*;

    fn exited(code: i32) -> WaitStatus {
        WaitStatus::Exited(Pid::from_raw(7), code)
    }

    fn signalled(signal: Signal) -> WaitStatus {
        WaitStatus::Signaled(Pid::from_raw(7), signal, false)
    }

    /// Exit code and error.
    fn of(status: WaitStatus, prepare: impl FnOnce(&Shared)) -> (u8, String) {
        let shared = Box::new(Shared::new());
        prepare(&shared);
        let verdict = judge(status, &shared, None);
        (verdict.code, verdict.error.unwrap_or_default())
    }

    #[test]
    fn a_process_that_ended_by_itself_keeps_its_exit_code() {
        for code in [0, 1, 2, 3, 4, 130] {
            let own = of(exited(code), |shared| shared.ended.store(true, Ordering::Release));
            assert_eq!(own, (code as u8, String::new()));
        }
    }

    #[test]
    fn an_end_that_is_nobodys_own_is_a_failure() {
        let (code, error) = of(exited(0), |_| {});
        assert_eq!((code, error.as_str()), (1, "the process ended with exit code 0 before the run was done"));
        assert_eq!(of(exited(101), |_| {}).0, 101);
        let listens = |shared: &Shared| shared.listens.store(true, Ordering::Release);
        let (code, error) = of(signalled(Signal::SIGKILL), listens);
        assert_eq!(
            (code, error.as_str()),
            (137, "the process was ended by SIGKILL (perhaps for its memory)")
        );
        let outside = |shared: &Shared| shared.record_fatal(11, Mark::from_bits(0));
        assert_eq!(of(signalled(Signal::SIGSEGV), outside), (139, "SIGSEGV outside of plugin calls".into()));
    }

    #[test]
    fn what_the_user_ends_before_it_begins_needs_no_words() {
        assert_eq!(of(signalled(Signal::SIGINT), |_| {}), (130, String::new()));
        let (code, error) = of(exited(130), |shared| shared.at_once.store(true, Ordering::Release));
        assert_eq!((code, error.as_str()), (130, "the user stopped the run at once"));
    }
}
