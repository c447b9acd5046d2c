//! The comparison that a user requests; options that the user leaves out are those of the sweep.
//!
//! Refused: a user's baseline that no run or configuration is called, and a user's margin that is no share. A sweep's
//! baseline may not have begun, and its record may have been edited: then the default is used, with a note.

use altgrad_base::diagnostic::Diagnostic;
pub use altgrad_run_folder::record::ComparisonChoice;

use super::{Choice, Comparison, MARGIN, named};
use crate::{find::FoundRuns, group::Group};

impl Comparison {
    /// Compares groups by the options of a user, else by those of the sweep.
    ///
    /// # Errors
    /// The user's baseline is unknown, or the user's margin does not lie between 0 and 1.
    pub fn requested(
        found: &FoundRuns,
        groups: &[Group],
        user: &ComparisonChoice,
        all_pairs: bool,
    ) -> Result<Self, Diagnostic> {
        let sweep = &found.choice;
        let mut notes = Vec::new();
        let name = user.baseline.as_ref().or(sweep.baseline.as_ref());
        let baseline = name.and_then(|name| named(&found.runs, groups, name));
        if let Some(name) = name.filter(|_| baseline.is_none()) {
            if user.baseline.is_some() {
                let known: Vec<&str> = groups.iter().map(|group| group.label.as_str()).collect();
                return Err(Diagnostic::config(format!("no run or configuration is called `{name}`"))
                    .hint(format!("there are: {}", known.join(", "))));
            }
            notes.push(format!("`[compare] baseline` of the sweep, `{name}`, is no single configuration of these runs: the default baseline is used."));
        }
        let mut margin = user.margin.or(sweep.margin).unwrap_or(MARGIN);
        if !ComparisonChoice::is_margin(margin) {
            if user.margin.is_some() {
                return Err(Diagnostic::config(format!(
                    "the margin must lie between 0 and 1, found {margin}"
                ))
                .hint("it is a share of the baseline's loss: 0.1 is 10 %"));
            }
            notes.push(format!("`[compare] margin` of the sweep, {margin}, does not lie between 0 and 1: the default margin, {MARGIN}, is used."));
            margin = MARGIN;
        }
        let mut comparison = Self::new(&found.runs, groups, Choice { baseline, margin, all_pairs });
        comparison.notes.extend(notes);
        Ok(comparison)
    }
}
