//! The state of [`UpdateMetrics`] between steps, for checkpoints: dead counters, past codes, initial weights or the
//! seed that drew them.

use std::sync::Arc;

use altgrad_base::diagnostic::Diagnostic;

use super::{
    element_memory::ElementMemory, initial_weights::InitialWeights, update_metrics::UpdateMetrics,
    updates::PastCodes,
};
use crate::{
    model::{
        Layout,
        layout::{ParamId, ParamSpec},
    },
    packed_ints::PackedInts,
    tensor_file::{Entry, TensorElements, TensorFile},
};

/// Steps an element has been dead in a row.
const DEAD: &str = "dead";
/// Codes before the last update.
const LAST: &str = "codes.last";
/// Codes before the one before.
const EARLIER: &str = "codes.earlier";
/// Weights before the first update, where the seed does not draw them.
const INITIAL: &str = "initial";

fn entry(what: &str, spec: &ParamSpec, values: TensorElements) -> Entry {
    Entry { name: key(what, spec), shape: spec.shape.clone(), values }
}

fn key(what: &str, spec: &ParamSpec) -> String {
    format!("{what}/{}", spec.name)
}

impl UpdateMetrics {
    /// The state by element, with what a GPU remembers; of parameters in the layout's order.
    ///
    /// # Errors
    /// The device failed.
    pub fn save(&self, layout: &Layout) -> Result<Vec<Entry>, Diagnostic> {
        #[cfg(feature = "gpu")]
        if let Some(device) = &self.device {
            return self.remembered(layout, |param| device.memory(param));
        }
        self.remembered(layout, |_| Ok(None))
    }

    /// The state by element, without a copy of what is in main memory; of parameters in the layout's order. `on_device`
    /// reads what a device remembers of a parameter.
    ///
    /// # Errors
    /// Those of `on_device`.
    fn remembered(
        &self,
        layout: &Layout,
        on_device: impl Fn(ParamId) -> Result<Option<ElementMemory>, Diagnostic>,
    ) -> Result<Vec<Entry>, Diagnostic> {
        let mut entries = Vec::new();
        for (param, spec) in layout.specs.iter().enumerate() {
            let ElementMemory { last, earlier, dead } = self.with_device(param, on_device(param)?);
            let parts = [(DEAD, dead), (LAST, last), (EARLIER, earlier)];
            let known = parts.into_iter().filter(|(_, numbers)| !numbers.is_empty());
            entries.extend(known.map(|(what, numbers)| entry(what, spec, TensorElements::from(&numbers))));
            if let Some(InitialWeights::Kept(initial)) = self.initial.get(param) {
                entries.push(entry(INITIAL, spec, TensorElements::F32(initial.clone())));
            }
        }
        Ok(entries)
    }

    /// What main memory remembers of a parameter's elements.
    #[must_use]
    fn memory(&self, param: ParamId) -> ElementMemory {
        let codes = self.past.get(param).map(|past| (past.last.clone(), past.earlier.clone()));
        let (last, earlier) = codes.unwrap_or_default();
        let dead = self.dead.remembered(param).map(|(_, runs)| runs).unwrap_or_default();
        ElementMemory { last, earlier, dead }
    }

    /// What is remembered of a parameter's elements: parts that main memory lacks are those of a device, if it has
    /// counted them.
    fn with_device(&self, param: ParamId, device: Option<ElementMemory>) -> ElementMemory {
        let own = self.memory(param);
        let Some(device) = device else { return own };
        let or = |own: PackedInts, counted: bool, of_device: PackedInts| {
            if own.is_empty() && counted { of_device } else { own }
        };
        let codes = self.past.get(param).map_or(0, |past| past.on_device);
        let dead = self.dead.remembered(param).is_some();
        ElementMemory {
            last: or(own.last, codes > 0, device.last),
            earlier: or(own.earlier, codes > 1, device.earlier),
            dead: or(own.dead, dead, device.dead.up_to(self.dead.window)),
        }
    }

    /// The number of steps for which dead elements were counted, by parameter; empty if they are not counted.
    #[must_use]
    pub fn dead_steps(&self) -> Vec<u64> {
        (0..self.past.len()).map_while(|param| Some(self.dead.remembered(param)?.0)).collect()
    }

    /// The seed that drew the initial weights that are not among `remembered`.
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
            let numbers = |what| file.packed_ints(&key(what, spec), &spec.shape);
            if let (Some(runs), Some(steps)) = (numbers(DEAD)?, dead_steps.get(param)) {
                self.dead.restore(param, *steps, runs);
            }
            if let Some(past) = self.past.get_mut(param) {
                let [last, earlier] = [numbers(LAST)?, numbers(EARLIER)?].map(Option::unwrap_or_default);
                *past = PastCodes::restored(last, earlier);
            }
            let kept = file.f32(&key(INITIAL, spec), &spec.shape)?;
            self.initial.push(match (kept, initial_seed) {
                (Some(values), _) => InitialWeights::Kept(Arc::new(values)),
                (None, Some(seed)) => InitialWeights::Drawn(seed),
                (None, None) => InitialWeights::Unknown,
            });
            #[cfg(feature = "gpu")]
            if let Some(device) = &self.device {
                device.restore(param, &self.memory(param));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use altgrad_config::MetricsSection;

    use super::{super::testing::layout, *};
    use crate::{metrics::update_counts::UpdateCounts, tensor_file};

    fn names(entries: &[Entry]) -> Vec<&str> {
        entries.iter().map(|entry| entry.name.as_str()).collect()
    }

    #[test]
    fn a_checkpoint_holds_what_a_device_has_counted_and_a_resumed_run_continues_with_it() {
        let layout = layout();
        let spec = &layout.specs[0];
        let numbers = |number| PackedInts::new(vec![number; spec.len()]);
        let memory = ElementMemory { last: numbers(3), earlier: numbers(5), dead: numbers(1) };
        let on_device = |param: ParamId| Ok((param == 0).then(|| memory.clone()));
        let config = MetricsSection { dead_neuron_window: 2, ..MetricsSection::default() };
        let new = || UpdateMetrics::new(config, layout.specs.len(), 7);
        let count = |update_metrics: &mut UpdateMetrics, step: u64| {
            update_metrics.begin(step, 1.0);
            update_metrics.gradient_on_device(0);
            update_metrics.counted(0, spec, &UpdateCounts::default(), true);
        };

        let all = ["dead/wte.weight", "codes.last/wte.weight", "codes.earlier/wte.weight"];
        let mut update_metrics = new();
        for (step, known) in [(1, 0), (2, 2), (3, 3)] {
            let entries = update_metrics.remembered(&layout, on_device).unwrap();
            assert_eq!(names(&entries), all[..known], "before step {step}");
            count(&mut update_metrics, step);
        }

        let mut bytes = Vec::new();
        tensor_file::write(update_metrics.remembered(&layout, on_device).unwrap(), None, &mut bytes).unwrap();
        let file = TensorFile::parse(Path::new("meter.safetensors"), &bytes).unwrap();
        let mut resumed = new();
        resumed.restore(&layout, &update_metrics.dead_steps(), None, &file).unwrap();
        assert_eq!((resumed.memory(0), resumed.dead_steps()), (memory.clone(), vec![3]));
        assert_eq!(names(&resumed.remembered(&layout, |_| Ok(None)).unwrap()), all, "not transferred yet");
        count(&mut resumed, 4);
        assert_eq!(resumed.memory(0), ElementMemory::default(), "the device has it");
        assert_eq!(names(&resumed.remembered(&layout, on_device).unwrap()), all);
    }
}
