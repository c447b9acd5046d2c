//! The opening of a run folder: sinks, run file, status.

use std::{fs, io, path::Path};

use altgrad_base::{diagnostic::Diagnostic, files::Disk};
use altgrad_run_folder::{
    folder::{CONFIG, RunFolder, WEIGHTS},
    record::RunStatus,
};
use altgrad_sinks::{RunFacts, SinkSetup, Sinks};

use super::status::{self, RunReport};
use crate::{checkpoint::Start, setup::RunSetup, state::TrainState};

/// Opens the sinks, then sets the status to running and removes the final weights of an earlier part: a run whose sinks
/// do not open keeps both. Rewinding comes first, because sinks rewind too, some of them when they open: no checkpoint
/// may be later than the rows of any sink.
pub(super) fn open(
    (setup, state): (&RunSetup, &TrainState),
    sinks: Vec<SinkSetup>,
    folder: &RunFolder,
    start: &Start,
    report: &RunReport,
) -> Result<Sinks, Diagnostic> {
    start.rewind(&Disk::default(), folder.path())?;
    let config_toml = setup.config.to_toml()?;
    let facts = RunFacts {
        name: setup.config.run.name.clone(),
        folder: folder.path().display().to_string(),
        config_toml: config_toml.clone(),
        metrics: setup.metrics.clone(),
        resume: start.sinks.clone(),
    };
    folder.reserve()?;
    let sinks = Sinks::open(sinks, facts)?;
    folder.write(CONFIG, config_toml.as_bytes())?;
    status::write((setup, state), folder, RunStatus::Running, report, None)?;
    remove_final_weights(folder.path())?;
    Ok(sinks)
}

/// Removes the final weights of the run's earlier part: the run is no longer at their step.
fn remove_final_weights(folder: &Path) -> Result<(), Diagnostic> {
    let path = folder.join(WEIGHTS);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Diagnostic::run(format!("the weights of the run's earlier part cannot be removed ({error})"))
                .at(path.display())
                .hint("is the folder read-only?"))
        }
        _ => Ok(()),
    }
}
