//! A run of the search: the causes that are undone in it, in which steps, and its seed.

use std::collections::BTreeSet;

use altgrad_config::{CastPhase, CastTrigger, RunConfig};
use sha2::{Digest, Sha256};

use crate::cause::{Cause, undo};

/// A setting of a run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Setting {
    /// The causes that are undone, by index.
    pub undone: BTreeSet<usize>,
    /// They are undone before this step only; `None`: in all steps.
    pub until: Option<u64>,
    /// The rules of a remedy, as TOML; see [`crate::remedy`].
    pub rules: Vec<String>,
}

impl Setting {
    /// The run with these causes undone.
    #[must_use]
    pub fn without(undone: impl IntoIterator<Item = usize>) -> Self {
        Self { undone: undone.into_iter().collect(), ..Self::default() }
    }

    /// The run file of this setting. `None`: a rule cannot be read.
    #[must_use]
    pub fn config(&self, config: &RunConfig, causes: &[Cause]) -> Option<RunConfig> {
        let undone = undo(config, self.undone.iter().map(|index| &causes[*index]));
        let mut result = match self.until {
            Some(step) => until(config, undone, step),
            None => undone,
        };
        for rule in &self.rules {
            let rule: altgrad_config::LayerRule = toml::from_str(rule).ok()?;
            result.quant.schedule.iter_mut().for_each(|phase| phase.quant.layer.push(rule.clone()));
            result.quant.layer.push(rule);
        }
        Some(result)
    }

    /// A short name that no other setting has.
    #[must_use]
    pub fn name(&self) -> String {
        let digest = Sha256::digest(format!("{self:?}"));
        let hash: String = digest.iter().take(5).map(|byte| format!("{byte:02x}")).collect();
        match (self.undone.len(), self.until, self.rules.is_empty()) {
            (0, _, true) => "as-it-is".into(),
            (_, None, true) => format!("undone-{hash}"),
            (_, Some(step), _) => format!("until-{step}-{hash}"),
            (_, None, false) => format!("remedy-{hash}"),
        }
    }
}

/// `undone` before a step, and `config` from there on.
fn until(config: &RunConfig, mut undone: RunConfig, step: u64) -> RunConfig {
    let at = |phase: &CastPhase| match phase.trigger {
        CastTrigger::At(at) => at,
        CastTrigger::On(_) => u64::MAX,
    };
    let original = &config.quant.schedule;
    let current = original.iter().rfind(|phase| at(phase) <= step);
    let (quant, precision) = current.map_or_else(
        || {
            let mut quant = config.quant.clone();
            quant.schedule.clear();
            (quant, config.train.precision)
        },
        |phase| (phase.quant.clone(), phase.precision),
    );
    undone.quant.schedule.retain(|phase| at(phase) < step);
    undone.quant.schedule.push(CastPhase { trigger: CastTrigger::At(step), precision, quant });
    undone.quant.schedule.extend(original.iter().filter(|phase| at(phase) > step).cloned());
    undone
}
