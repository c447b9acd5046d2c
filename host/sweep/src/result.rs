//! The result of a sweep: `sweep.json`, rewritten after every batch, and tables for people. Runs have the matrix's
//! order; they are not ranked.

use std::{collections::BTreeMap, path::PathBuf};

use altgrad_run_folder::{folder::CONFIG, record::ComparisonChoice};
use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};
use serde::Serialize;
use toml::Value;

use super::{
    bisection::Stable,
    outcome::{DATA, Outcome, OutcomeState},
    progress::loss,
    successive_halving::Tuned,
};

/// The result of one run.
#[derive(Debug, Clone, Serialize)]
pub struct RunResult {
    /// Its name.
    pub name: String,
    /// Its name without the seed.
    #[serde(skip)]
    pub group: String,
    /// Its run folder.
    pub folder: PathBuf,
    /// The value of each axis, by the axis's name: a key's value, or an entry's label.
    pub axes: BTreeMap<String, Value>,
    /// The keys of the run file that the axes set, with their values.
    pub set: BTreeMap<String, Value>,
    /// The tuned rate it ran with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// The outcome in its folder.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The step from which on it was found to be worse than its twin, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worse_than_twin: Option<WorseThanTwin>,
    /// The reason why it is not done, if this start of the sweep tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// False if this start of the sweep left it out.
    #[serde(skip)]
    pub is_wanted: bool,
}

/// A run compared with the baseline's run of the same seed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorseThanTwin {
    /// The twin's name.
    pub twin: String,
    /// The last step of the first window of steps over which the run is worse.
    pub step: u64,
    /// Mean training loss of that window over the twin's.
    pub ratio: f64,
}

/// The result of a sweep.
#[derive(Debug, Clone, Serialize)]
pub struct Results {
    /// Its name.
    pub name: String,
    /// The matrix file, as it was given.
    pub matrix: PathBuf,
    /// Threads of each run.
    pub threads: usize,
    /// The runs of the matrix, in its order.
    pub runs: Vec<RunResult>,
    /// Rates chosen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tuned: Vec<Tuned>,
    /// Largest stable rates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stable: Vec<Stable>,
    /// The requested comparison of the runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compare: Option<ComparisonChoice>,
    /// The reasons why trials are not done, by their names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub trial_failures: BTreeMap<String, String>,
    /// True if the user stopped it.
    #[serde(skip)]
    pub stopped: bool,
    /// The job that continues it, if no process waits for it.
    #[serde(skip)]
    pub submitted: Option<String>,
}

impl Results {
    /// True if every wanted run and every search is done, and no run lacks anything.
    #[must_use]
    pub fn all_well(&self) -> bool {
        let well =
            |run: &RunResult| run.outcome.state == OutcomeState::Completed && run.outcome.faults.is_empty();
        self.runs.iter().filter(|run| run.is_wanted).all(|run| well(run) && run.failure.is_none())
            && !self.has_broken_search()
    }

    /// True if a search for a rate has no result, because a trial is not done.
    fn has_broken_search(&self) -> bool {
        self.tuned.iter().any(|tuned| tuned.broken) || self.stable.iter().any(|stable| stable.broken)
    }

    /// The reason why the sweep is incomplete, and the effect of repeating the command.
    #[must_use]
    pub fn what_is_left(&self) -> &'static str {
        let undone = |run: &&RunResult| {
            run.failure.is_some() || matches!(run.outcome.state, OutcomeState::Missing | OutcomeState::Broken)
        };
        let diverged = |tuned: &Tuned| tuned.chosen.is_none() && !tuned.broken;
        let waits = |run: &RunResult| {
            run.failure.is_none()
                && run.outcome.state == OutcomeState::Missing
                && self.tuned.iter().any(|tuned| diverged(tuned) && tuned.group == run.group)
        };
        let (waiting, others): (Vec<&RunResult>, Vec<&RunResult>) =
            self.runs.iter().filter(|run| run.is_wanted).filter(undone).partition(|run| waits(run));
        if !others.is_empty() || self.has_broken_search() {
            "some runs or trials are not done; the same command tries those again."
        } else if !waiting.is_empty() {
            "some runs did not begin, because the last trials of [tune] diverged; give it other values."
        } else {
            "all runs are done; some diverged or had faults, which the same command would not change."
        }
    }

    /// For people: runs, rates, and reasons why runs are not done.
    #[must_use]
    pub fn text(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        if !self.tuned.is_empty() {
            parts.push(self.tuned_table().to_string());
        }
        if !self.stable.is_empty() {
            parts.push(self.stable_table().to_string());
        }
        parts.push(self.runs_table().to_string());
        for (trial, failure) in &self.trial_failures {
            parts.push(format!("trial {trial}: {failure}"));
        }
        for run in &self.runs {
            let error = run.failure.as_ref().or(run.outcome.error.as_ref());
            for said in error.into_iter().chain(&run.outcome.faults) {
                parts.push(format!("{}: {said}", run.name));
            }
        }
        parts.extend(self.unlike());
        parts.extend(self.offer());
        parts.join("\n")
    }

    /// The command that finds the casts behind an alert, for the first rounded run with one, or that is worse than its
    /// twin.
    fn offer(&self) -> Option<String> {
        let rounds = |run: &RunResult| {
            let config = altgrad_config::load(&run.folder.join(CONFIG), &[]).ok();
            config.is_some_and(|(config, _)| config.quant.rounds_weights() || config.quant.rounds_values())
        };
        let is_open = |run: &&RunResult| run.outcome.has_alerts || run.worse_than_twin.is_some();
        let run = self.runs.iter().filter(is_open).find(|run| rounds(run))?;
        let (folder, from) =
            (run.folder.display(), if run.outcome.has_alerts { " --from alert" } else { "" });
        Some(format!("{}: `altgrad-host blame {folder}{from}` finds the casts that raise its loss", run.name))
    }

    /// The properties in which the runs differ (host, device, threads, libraries, data), one sentence each: comparisons
    /// of such runs need care.
    fn unlike(&self) -> Vec<String> {
        let mut first: BTreeMap<(&str, String), (&str, &str)> = BTreeMap::new();
        let mut said: BTreeMap<&str, String> = BTreeMap::new();
        for run in &self.runs {
            // The matrix may give runs different data.
            let axes = run.set.iter().filter(|(key, _)| key.starts_with("data."));
            let axes: Vec<String> = axes.map(|(key, value)| format!("{key} = {value}")).collect();
            for (key, value) in &run.outcome.made_with {
                let alike = if key == DATA { axes.join(", ") } else { String::new() };
                let (other, known) =
                    *first.entry((key.as_str(), alike)).or_insert((run.name.as_str(), value.as_str()));
                if known != value {
                    said.entry(key.as_str()).or_insert_with(|| {
                        format!(
                            "not all runs were made alike: {key} was {known} for {other}, {value} for {}",
                            run.name
                        )
                    });
                }
            }
        }
        said.into_values().collect()
    }

    fn runs_table(&self) -> Table {
        let mut table = table(["run", "status", "steps", "held-out loss, nats/token"]);
        for run in &self.runs {
            let state = match run.outcome.state {
                OutcomeState::Missing => "not begun",
                OutcomeState::Completed if run.outcome.diverged => "completed, diverged",
                OutcomeState::Completed if !run.outcome.faults.is_empty() => "completed, with faults",
                OutcomeState::Completed => "completed",
                OutcomeState::Diverged => "failed: not finite",
                OutcomeState::Broken if run.failure.is_some() => "failed",
                OutcomeState::Broken => "not done",
            };
            let name = match run.rate {
                Some(rate) => format!("{} (rate {})", run.name, super::names::number(rate)),
                None => run.name.clone(),
            };
            let steps = run.outcome.steps.to_string();
            table.add_row([name.as_str(), state, &steps, &loss(run.outcome.final_val_loss)]);
        }
        table
    }

    fn tuned_table(&self) -> Table {
        let mut table = table(["group", "tuned key", "chosen", "held-out loss by value"]);
        for tuned in &self.tuned {
            let edge = if tuned.at_edge { ", at an end of what was tried" } else { "" };
            let none = if tuned.broken { "not found" } else { "none: the last trials diverged" };
            let chosen = tuned.chosen.map_or(none.to_string(), super::names::number);
            let trials: Vec<String> = tuned
                .trials
                .iter()
                .map(|trial| format!("{}: {}", super::names::number(trial.value), loss(trial.val_loss)))
                .collect();
            table.add_row([&tuned.group, &tuned.key, &format!("{chosen}{edge}"), &trials.join(", ")]);
        }
        table
    }

    fn stable_table(&self) -> Table {
        let mut table = table(["group", "key", "largest stable", "smallest unstable", "trials"]);
        for stable in &self.stable {
            let said = |value: Option<f64>, otherwise: &str| {
                value.map_or(otherwise.to_string(), super::names::number)
            };
            table.add_row([
                &stable.group,
                &stable.key,
                &said(stable.largest_stable, "none tried"),
                &said(stable.smallest_unstable, "none tried"),
                &format!("{}{}", stable.trials.len(), if stable.broken { ", not done" } else { "" }),
            ]);
        }
        table
    }
}

fn table<const N: usize>(head: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(head);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(name: &str, hash: &str) -> RunResult {
        let made_with = [("a.so".to_string(), hash.to_string())].into();
        let outcome = Outcome { state: OutcomeState::Completed, made_with, ..Outcome::default() };
        let (folder, axes) = (PathBuf::from(name), BTreeMap::new());
        RunResult {
            name: name.into(),
            group: name.into(),
            folder,
            axes,
            set: BTreeMap::new(),
            rate: None,
            outcome,
            failure: None,
            worse_than_twin: None,
            is_wanted: true,
        }
    }

    fn results(hashes: [&str; 3]) -> Results {
        Results {
            name: "m".into(),
            matrix: "m.toml".into(),
            threads: 1,
            runs: ["x", "y", "z"].into_iter().zip(hashes).map(|(name, hash)| run(name, hash)).collect(),
            tuned: Vec::new(),
            stable: Vec::new(),
            compare: None,
            trial_failures: BTreeMap::new(),
            stopped: false,
            submitted: None,
        }
    }

    #[test]
    fn a_sweep_whose_trials_are_not_done_is_not_well_although_its_runs_are() {
        let mut results = results(["1"; 3]);
        assert!(results.all_well());
        results.tuned.push(Tuned {
            group: "x".into(),
            key: "train.lr".into(),
            seed: 1,
            chosen: None,
            at_edge: false,
            broken: true,
            trials: Vec::new(),
        });
        assert!(!results.all_well());
        assert!(results.what_is_left().starts_with("some runs or trials are not done"));
    }

    #[test]
    fn runs_of_different_builds_are_named() {
        assert!(results(["1", "1", "1"]).unlike().is_empty());
        let said = results(["1", "2", "3"]).unlike();
        assert_eq!(said, ["not all runs were made alike: a.so was 1 for x, 2 for y"]);
        let mut results = results(["1"; 3]);
        for (run, data) in results.runs.iter_mut().zip(["7", "8", "8"]) {
            run.outcome.made_with.insert(DATA.into(), data.into());
        }
        assert_eq!(results.unlike(), ["not all runs were made alike: data was 7 for x, 8 for y"]);
        // The axis of the matrix says so.
        results.runs[0].set.insert("data.dataset".into(), "bins:other".into());
        assert!(results.unlike().is_empty());
    }
}
