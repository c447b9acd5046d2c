//! `watch`: the report's page, live, for a browser on this machine; and the same beside a run or a sweep.

use std::{
    io,
    path::Path,
    process::{Child, Command, ExitCode, Stdio},
    thread,
};

use altgrad_base::{diagnostic::Diagnostic, eprintln, println};
use altgrad_watch::WatchOptions;
use clap::Args;

use super::compare::RunsArgs;

/// `altgrad-host watch`.
#[derive(Debug, Args)]
pub(super) struct WatchArgs {
    #[command(flatten)]
    runs: RunsArgs,
    /// The port on 127.0.0.1; 0 selects a free port.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// The page's heading.
    #[arg(long, default_value = "Runs")]
    title: String,
    /// Ends when its standard input ends: with the process that started it, however that ends.
    #[arg(long, hide = true)]
    while_input: bool,
}

pub(super) fn run(args: WatchArgs) -> Result<ExitCode, Diagnostic> {
    let WatchArgs { runs, port, title, while_input } = args;
    if while_input {
        thread::spawn(|| {
            let _ = io::copy(&mut io::stdin(), &mut io::sink());
            // No file is being written, so there is no state to save.
            std::process::exit(0);
        });
    }
    let options = WatchOptions {
        named: runs.paths().to_vec(),
        title,
        port,
        compare: Box::new(move |found, groups| runs.compared(found, groups)),
    };
    let hint = if while_input { "" } else { "\nCtrl-C ends it; runs go on." };
    altgrad_watch::serve(options, |url| println!("{url}{hint}"))?;
    Ok(ExitCode::SUCCESS)
}

/// The live page of a folder, in a process of its own, which ends with this one.
pub(super) struct LivePage(Option<Child>);

impl LivePage {
    /// Starts it if `is_wanted`. Its address goes to standard error; training does not depend on it.
    pub(super) fn beside(folder: &Path, is_wanted: bool) -> Self {
        if !is_wanted {
            return Self(None);
        }
        let start = |host: std::path::PathBuf| {
            let mut command = Command::new(host);
            command.arg("watch").arg("--while-input").arg("--").arg(folder);
            command.stdin(Stdio::piped()).stdout(io::stderr()).spawn()
        };
        let started = std::env::current_exe().and_then(start);
        Self(started.map_err(|error| eprintln!("the live page cannot be served ({error})")).ok())
    }
}

impl Drop for LivePage {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}
