//! Which casts raise a run's loss, by counterfactual runs: the run again with a group of its casts undone, and its
//! unrounded baseline with only this group.
//!
//! [`cause`] lists what can be undone, as a tree: role, layer type, layer. [`trial`] is a run with some of it undone,
//! [`runner`] makes such runs through the folders and launchers of sweeps, and [`lab`] compares their losses by seed.
//! [`search`] descends the tree, [`window`] finds the steps that matter, [`remedy`] tries cheaper casts, and
//! [`verdict`] is the result.
//!
//! The state is the run folders: the search depends on nothing but losses, so that a repeated command makes only the
//! missing runs and ends with the same verdict.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod cause;
pub mod lab;
pub mod remedy;
pub mod runner;
pub mod search;
pub mod trial;
pub mod verdict;
pub mod window;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_config::{CastTrigger, RunConfig};

use cause::Cause;
use lab::{Halt, Lab, Losses};
use verdict::BlameVerdict;

/// The most causes whose steps are searched one by one.
const MOST_WINDOWS: usize = 4;

/// Options of a search.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Seeds of each comparison, at least 2: the run's own and those after it.
    pub seeds: u64,
    /// The step of the checkpoint at which all runs begin; 0: their initial weights.
    pub from: u64,
    /// The step at which runs end.
    pub steps: u64,
    /// The most runs that the search may make.
    pub budget: usize,
}

/// Finds the causes of a run's loss.
///
/// # Errors
/// Runs cannot be made. A search whose runs are not all done is in the verdict.
pub fn blame(
    config: &RunConfig,
    causes: Vec<Cause>,
    options: Options,
    runs: &mut dyn Losses,
) -> Result<BlameVerdict, Diagnostic> {
    let mut lab = Lab::new(config.run.seed, options, runs);
    let mut verdict = BlameVerdict::new(&causes, options);
    match investigate(config, &causes, &mut lab, &mut verdict) {
        Ok(()) => verdict.is_complete = true,
        Err(Halt::Unfinished) => {}
        Err(Halt::Fault(fault)) => return Err(fault),
    }
    verdict.runs = lab.runs();
    verdict.sentence = verdict.said();
    Ok(verdict)
}

fn investigate(
    config: &RunConfig,
    causes: &[Cause],
    lab: &mut Lab<'_>,
    verdict: &mut BlameVerdict,
) -> Result<(), Halt> {
    let total = search::total(causes.len(), lab)?;
    verdict.total = Some(total);
    if !total.is_positive {
        return Ok(());
    }
    search::descend(causes, total, lab, &mut verdict.levels)?;
    verdict.found = search::found(&verdict.levels);
    if verdict.found.is_empty() {
        return Ok(());
    }
    let members = verdict.members();
    let together = search::together(causes.len(), &members, total, lab)?;
    verdict.together = Some(together);
    if !members.iter().all(|index| matches!(causes[*index], Cause::Cast { .. })) {
        return Ok(());
    }
    // An alert that changes casts comes at another step once casts are undone.
    if config.quant.schedule.iter().all(|phase| matches!(phase.trigger, CastTrigger::At(_))) {
        let found = verdict.found.clone();
        let name = if found.len() == 1 { found[0].name.as_str() } else { "all of them" };
        verdict.windows.extend(window::of(name, &members, together.undone, lab)?);
        let single = found.iter().filter(|cause| found.len() > 1 && cause.undone.is_positive);
        for cause in single.take(MOST_WINDOWS) {
            verdict.windows.extend(window::of(&cause.name, &cause.members, cause.undone, lab)?);
        }
    }
    verdict.remedies = remedy::tried(causes, &members, together.undone, lab)?;
    Ok(())
}
