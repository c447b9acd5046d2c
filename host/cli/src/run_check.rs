//! `check`: all faults of a run file, or the planned run.

use std::{process::ExitCode, time::Duration};

use altgrad_base::{diagnostic::Diagnostic, eprintln, println};
use altgrad_config::accept_or_list;
use altgrad_engine::{bench::trial, setup::ReadyRun};
use altgrad_run_folder::folder::RunFolder;
use indicatif::HumanDuration;

use super::{ConfigArgs, run};

pub(super) fn run(args: &ConfigArgs) -> Result<ExitCode, Diagnostic> {
    let mut folder = None;
    let accepted = accept_or_list(&args.config, &args.set, |mut config, source| {
        let mut source = source.clone();
        run::take_arguments(args, &mut config, &mut source);
        folder = Some(run::folder(args, &config));
        ReadyRun::build(config, &source)
    });
    let (ready, mut faults) = match accepted {
        Ok(ready) => (Some(ready), Vec::new()),
        Err(faults) => (None, faults),
    };
    // Last, because it does not concern the file.
    faults.extend(folder.as_deref().and_then(|folder| RunFolder::check(folder).err()));
    match (ready, faults.pop()) {
        (Some(ready), None) => {
            println!("{}", ready.summary());
            println!("{}", plan(ready)?);
            println!("OK: {} can run", args.config.display());
            Ok(ExitCode::SUCCESS)
        }
        (_, Some(last)) if faults.is_empty() => Err(last),
        (_, Some(last)) => {
            faults.iter().for_each(|fault| eprintln!("{fault}\n"));
            eprintln!("{last}\n\n{} errors", faults.len() + 1);
            Ok(ExitCode::from(last.fault.exit_code()))
        }
        (None, None) => Err(Diagnostic::run("the run file was refused without a reason")),
    }
}

/// The planned run with its estimated memory and time.
fn plan(mut ready: ReadyRun) -> Result<String, Diagnostic> {
    let config = &ready.setup.config;
    let (steps, sinks) = (config.train.max_steps, &config.sink);
    let sinks: Vec<&str> = sinks.iter().map(|sink| sink.name.as_str()).collect();
    let sinks = if sinks.is_empty() { "none".to_owned() } else { sinks.join(", ") };
    let tokens = ready.setup.tokens_per_step();
    let mut plan = format!(
        "plan: {steps} steps of {tokens} tokens, {} in all; sinks: {sinks}",
        steps.saturating_mul(tokens)
    );
    if let Some([needed, available]) = ready.setup.memory {
        let gib = |bytes: f64| bytes / f64::from(1 << 30);
        plan += &format!("\nmemory: about {:.1} GiB of {:.1} GiB", gib(needed), gib(available));
    }
    let estimate = trial::estimate(&mut ready)?;
    plan += &format!(
        "\ntime: about {}, {} per step and {} for each of {} evaluations",
        HumanDuration(estimate.total(steps)),
        milliseconds(estimate.step),
        milliseconds(estimate.evaluation),
        estimate.evaluations,
    );
    if let Some(time) = estimate.whole_split {
        plan += &format!(", {} for the whole split at the end", milliseconds(time));
    }
    Ok(plan)
}

fn milliseconds(time: Duration) -> String {
    if time < Duration::from_secs(10) {
        format!("{:.0} ms", time.as_secs_f64() * 1e3)
    } else {
        HumanDuration(time).to_string()
    }
}
