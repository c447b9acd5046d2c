//! The state of [`UpdateMetrics`] between steps, for checkpoints: dead counters, past codes, initial weights or the seed that drew them.

use std::sync::Arc;

use altgrad_base::diagnostic::Diagnostic;

use super::{initial_weights::InitialWeights, update_metrics::UpdateMetrics};
use crate::{
    model::{Layout, layout::ParamSpec},
    tensor_file::{Entry, TensorFile, Values},
};

/// Steps an element has been dead in a row.
const DEAD: &str = "dead";
/// Codes before the last update.
const LAST: &str = "codes.last";
/// Codes before the one before.
const EARLIER: &str = "codes.earlier";
/// Weights before the first update, where the seed does not draw them.
const INITIAL: &str = "initial";

fn entry(what: &str, spec: &ParamSpec, values: Values) -> Entry {
    Entry { name: key(what, spec), shape: spec.shape.clone(), values }
}

fn key(what: &str, spec: &ParamSpec) -> String {
    format!("{what}/{}", spec.name)
}

impl UpdateMetrics {
    /// The state by element, without a copy; of parameters in the layout's order.
    #[must_use]
    pub fn remembered(&self, layout: &Layout) -> Vec<Entry> {
        let mut entries = Vec::new();
        for (param, spec) in layout.specs.iter().enumerate() {
            // Counts of a device stay there.
            if let Some((_, runs)) = self.dead.remembered(param).filter(|(_, runs)| runs.len() == spec.len())
            {
                entries.push(entry(DEAD, spec, Values::from(&runs)));
            }
            if let Some(past) = self.past.get(param) {
                let codes = [(LAST, &past.last), (EARLIER, &past.earlier)];
                let known = codes.into_iter().filter(|(_, codes)| !codes.is_empty());
                entries.extend(known.map(|(what, codes)| entry(what, spec, Values::from(codes))));
            }
            if let Some(InitialWeights::Kept(initial)) = self.initial.get(param) {
                entries.push(entry(INITIAL, spec, Values::F32(initial.clone())));
            }
        }
        entries
    }

    /// The number of steps for which dead elements were counted, by parameter; empty if they are not counted.
    #[must_use]
    pub fn dead_steps(&self) -> Vec<u64> {
        (0..self.past.len()).map_while(|param| Some(self.dead.remembered(param)?.0)).collect()
    }

    /// The seed that drew the initial weights that are not among [`Self::remembered`].
    #[must_use]
    pub fn initial_seed(&self) -> Option<u64> {
        self.initial.iter().find_map(|initial| match initial {
            InitialWeights::Drawn(seed) => Some(*seed),
            _ => None,
        })
    }

    /// Resumes from the saved state; entries that the file lacks are unknown. `initial_seed` is [`Self::initial_seed`].
    ///
    /// # Errors
    /// The state is of other parameters.
    pub fn restore(
        &mut self,
        layout: &Layout,
        dead_steps: &[u64],
        initial_seed: Option<u64>,
        file: &TensorFile<'_>,
    ) -> Result<(), Diagnostic> {
        self.initial.clear();
        for (param, spec) in layout.specs.iter().enumerate() {
            let numbers = |what| file.small_numbers(&key(what, spec), &spec.shape);
            if let (Some(runs), Some(steps)) = (numbers(DEAD)?, dead_steps.get(param)) {
                self.dead.restore(param, *steps, runs);
            }
            if let Some(past) = self.past.get_mut(param) {
                past.last = numbers(LAST)?.unwrap_or_default();
                past.earlier = numbers(EARLIER)?.unwrap_or_default();
            }
            let kept = file.f32(&key(INITIAL, spec), &spec.shape)?;
            self.initial.push(match (kept, initial_seed) {
                (Some(values), _) => InitialWeights::Kept(Arc::new(values)),
                (None, Some(seed)) => InitialWeights::Drawn(seed),
                (None, None) => InitialWeights::Unknown,
            });
        }
        Ok(())
    }
}
