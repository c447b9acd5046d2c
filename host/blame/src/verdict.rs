//! The result of a search: a sentence, a table, and the record `blame.json`.

use std::fmt::Write;

use serde::Serialize;

use crate::{
    Options,
    cause::Cause,
    lab::Effect,
    remedy::Remedy,
    search::{Tested, Together},
    window::Window,
};

/// The result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BlameVerdict {
    /// The result in a sentence or two.
    pub sentence: String,
    /// Everything that can be undone.
    pub causes: Vec<String>,
    /// Seeds of each comparison.
    pub seeds: u64,
    /// The step at which runs begin.
    pub from: u64,
    /// The step at which they end.
    pub steps: u64,
    /// Runs of the search.
    pub runs: usize,
    /// The loss of the run minus that of its unrounded baseline.
    pub total: Option<Effect>,
    /// All tested groups, by level of the tree.
    pub levels: Vec<Vec<Tested>>,
    /// The causes, the largest effect first.
    pub found: Vec<Tested>,
    /// The found causes as one group.
    pub together: Option<Together>,
    /// The steps in which they matter: of all of them, and of each.
    pub windows: Vec<Window>,
    /// The remedies that were tried.
    pub remedies: Vec<Remedy>,
    /// False if the search was stopped or its budget is spent.
    pub is_complete: bool,
}

impl BlameVerdict {
    pub(crate) fn new(causes: &[Cause], options: Options) -> Self {
        Self {
            sentence: String::new(),
            causes: causes.iter().map(ToString::to_string).collect(),
            seeds: options.seeds,
            from: options.from,
            steps: options.steps,
            runs: 0,
            total: None,
            levels: Vec::new(),
            found: Vec::new(),
            together: None,
            windows: Vec::new(),
            remedies: Vec::new(),
            is_complete: false,
        }
    }

    /// All found causes, by index.
    #[must_use]
    pub fn members(&self) -> Vec<usize> {
        let mut members: Vec<usize> = self.found.iter().flat_map(|found| found.members.clone()).collect();
        members.sort_unstable();
        members.dedup();
        members
    }

    /// The remedy that was confirmed on fresh seeds.
    #[must_use]
    pub fn remedy(&self) -> Option<&Remedy> {
        self.remedies.iter().find(|remedy| remedy.confirmed.is_some())
    }

    pub(crate) fn said(&self) -> String {
        let Some(total) = self.total else { return "nothing is known yet".into() };
        if !total.is_positive {
            let mut said = format!(
                "no cause found: the run ends {:+.4} ± {:.4} nats per token from its unrounded baseline",
                total.mean, total.half_width
            );
            if let Some(least) = total.detectable() {
                let _ = write!(said, ", smallest detectable effect {least:.4}");
            }
            return said;
        }
        let Some(together) = self.together.filter(|_| !self.found.is_empty()) else {
            let so_far = self.levels.iter().rev().find(|level| level.iter().any(|tested| tested.is_material));
            let causes = match so_far {
                _ if self.is_complete => "no group has a tenth of it".to_string(),
                None => "its causes are not known yet".to_string(),
                Some(level) => {
                    let material = level.iter().filter(|tested| tested.is_material);
                    let names: Vec<&str> = material.map(|tested| tested.name.as_str()).collect();
                    format!("its causes are not known yet, except that they are in {}", names.join(", "))
                }
            };
            return format!(
                "the run ends {:.4} ± {:.4} nats per token above its unrounded baseline, and {causes}",
                total.mean, total.half_width
            );
        };
        let names: Vec<&str> = self.found.iter().map(|found| found.name.as_str()).collect();
        let share = |effect: f64| 100.0 * effect / total.mean;
        let (cause, it) = if names.len() == 1 { ("causes", "it") } else { ("cause", "them together") };
        let mut said = format!(
            "{} {cause} a loss increase of {:.4} ± {:.4} nats per token: undoing {it} recovers {:.0} % ({:.0} to {:.0})",
            names.join(", "),
            total.mean,
            total.half_width,
            share(together.undone.mean),
            share(together.undone.mean - together.undone.half_width),
            share(together.undone.mean + together.undone.half_width),
        );
        let only_together = self.found.len() > 1
            && self
                .found
                .iter()
                .all(|found| found.undone.is_material(total) && !found.alone.is_material(total));
        let each_suffices = self.found.len() > 1
            && self
                .found
                .iter()
                .all(|found| !found.undone.is_material(total) && found.alone.is_material(total));
        if only_together {
            said.push_str("; alone, none has a tenth of it");
        } else if each_suffices {
            said.push_str("; each suffices alone");
        }
        if let Some(Window { from, until, .. }) = self.windows.first() {
            let _ = write!(said, "; rounding there matters in steps {from} to {until} of {}", self.steps);
        }
        said
    }

    /// The sentence, the table of tested groups, and the remedies.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", self.sentence);
        if !self.is_complete {
            text.push_str("the search is not complete\n");
        }
        if !self.levels.is_empty() {
            let _ = write!(
                text,
                "\nLoss in nats per token, mean and interval over {} seeds or more, corrected for the number of tests\n{:<44} {:>20} {:>20}\n",
                self.seeds, "group", "recovered if undone", "caused if alone"
            );
        }
        for (depth, level) in self.levels.iter().enumerate() {
            for tested in level {
                let name = format!("{}{}", "  ".repeat(depth), tested.name);
                let mark = if tested.is_material { "*" } else { "" };
                let _ = writeln!(
                    text,
                    "{name:<44} {:>20} {:>20} {mark}",
                    shown(tested.undone),
                    shown(tested.alone)
                );
            }
        }
        let tests = self.levels.iter().flatten().flat_map(|tested| [tested.undone, tested.alone]);
        if tests.chain(self.total).any(Effect::is_found_by_signs) {
            text.push_str(
                "an interval that includes zero, of an effect found: nearly all seeds have it, by the exact sign-flip test, and a few widen Student's interval\n",
            );
        }
        if !self.remedies.is_empty() {
            let _ = writeln!(
                text,
                "\n{:<44} {:>20} {:>20} {:>20}",
                "remedy", "recovered", "on fresh seeds", "left there"
            );
        }
        for remedy in &self.remedies {
            let or_dash = |effect: Option<Effect>| effect.map_or_else(|| "-".into(), shown);
            let _ = writeln!(
                text,
                "{:<44} {:>20} {:>20} {:>20}",
                remedy.name,
                remedy.effect.map_or_else(|| "refused".into(), shown),
                or_dash(remedy.confirmed),
                or_dash(remedy.left)
            );
        }
        let _ = writeln!(text, "\n{} runs, from step {} to {}", self.runs, self.from, self.steps);
        text
    }
}

fn shown(effect: Effect) -> String {
    format!("{:+.4} ± {:.4}", effect.mean, effect.half_width)
}
