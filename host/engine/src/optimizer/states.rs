//! The states of a run's optimizer: converted for each update, written to checkpoints and read back.

use std::collections::BTreeMap;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_loader::optimizer::ParamUpdate;
use altgrad_plugin_api::{Grid, ParamInfo, RandomKey, StateRole, StepScalars};
use burn::tensor::Tensor;

use super::{
    OptimizerState, services,
    stored_state::{StateEncoding, StoredState},
};
use crate::{
    model::{Params, layout::ParamId},
    tensor,
    tensor_file::{TensorElements, TensorFile},
};

/// The random bits of states are those of tensors from this number on: roundings of a step use lower ones. Numbers are
/// below 2^32.
const FIRST_TENSOR: u64 = 1 << 31;
/// The names of the state that is momentum.
const MOMENTUM: [&str; 2] = ["exp_avg", "momentum"];
/// Tensor numbers of a parameter. Further states use the bits of later elements of these tensors.
const STATES: usize = 16;
/// The distance between the elements of states with the same tensor number; no state has as many.
const STATE_OFFSET: u64 = 1 << 40;

/// A tensor of a state, as a checkpoint holds it.
#[derive(Debug, Clone)]
pub struct OptimizerBuffer {
    /// The plugin's name for the state, and a suffix that distinguishes its tensors.
    pub name: String,
    /// Extents, if they are not the parameter's.
    pub shape: Option<Vec<usize>>,
    /// Elements.
    pub values: TensorElements,
}

impl OptimizerState {
    /// Number of states of a parameter.
    #[must_use]
    pub fn state_count(&self, id: ParamId) -> usize {
        self.specs[id].len()
    }

    /// The storage of the states by name: in words, and their bytes. Those that services keep are f32.
    #[must_use]
    pub fn storage(&self) -> BTreeMap<String, (String, usize)> {
        let mut all = BTreeMap::new();
        for (id, specs) in self.specs.iter().enumerate() {
            for (index, spec) in specs.iter().enumerate() {
                let (stored_as, bytes) = match (self.states[id].get(index), &self.on_device[id]) {
                    (Some(state), _) => (state.storage_name(), state.bytes()),
                    (None, Some(kept)) => (StateEncoding::F32.name(), 4 * kept.elements()),
                    (None, None) => continue,
                };
                let entry = all.entry(spec.name.to_string()).or_insert_with(|| (stored_as.clone(), 0));
                // Small states may be f32 where others are not.
                if entry.0 == StateEncoding::F32.name() {
                    entry.0 = stored_as;
                }
                entry.1 += bytes;
            }
        }
        all
    }

    /// The tensors of a parameter's states. Reads those that a GPU keeps.
    ///
    /// # Errors
    /// The device failed.
    pub fn states(&self, id: ParamId) -> Result<Vec<OptimizerBuffer>, Diagnostic> {
        let names = || self.specs[id].iter().map(|spec| spec.name.as_str());
        let whole = |(name, values): (&str, TensorElements)| OptimizerBuffer {
            name: name.into(),
            shape: None,
            values,
        };
        if let Some(states) = self.on_device[id].as_ref().filter(|_| self.states[id].is_empty()) {
            return Ok(names().zip(states.values()?).map(whole).collect());
        }
        #[cfg(feature = "gpu")]
        if let Some(device) = self.device.as_ref().filter(|_| self.states[id].is_empty()) {
            return Ok(names()
                .zip(device.read_states(id)?.into_iter().map(TensorElements::F32))
                .map(whole)
                .collect());
        }
        let tensors = |(name, state): (&str, &StoredState)| {
            let buffer =
                |(suffix, shape, values)| OptimizerBuffer { name: format!("{name}{suffix}"), shape, values };
            state.entries().into_iter().map(buffer).collect::<Vec<_>>()
        };
        Ok(names().zip(&self.states[id]).flat_map(tensors).collect())
    }

    /// Continues after `updates` updates of these parameters, with the states in a file; `key` gives the name there of
    /// a state of a parameter.
    ///
    /// # Errors
    /// A state is missing, or has another type or shape.
    pub fn restore(
        &mut self,
        updates: u64,
        params: &Params,
        file: &TensorFile<'_>,
        key: impl Fn(&str, &str) -> String,
    ) -> Result<(), Diagnostic> {
        for (id, specs) in self.specs.iter().enumerate() {
            let param = &params.layout.specs[id];
            let keys = specs.iter().map(|spec| key(&param.name, &spec.name));
            match &mut self.on_device[id] {
                Some(states) if self.states[id].is_empty() => {
                    let values = keys.map(|key| file.required(&key, &param.shape));
                    states.restore(values.collect::<Result<_, _>>()?, &params.values[id].device());
                }
                _ => {
                    if self.states[id].is_empty() {
                        // Kernels had them; they start again from main memory.
                        self.states[id] = vec![StoredState::F32(Default::default()); specs.len()];
                    }
                    for (state, key) in self.states[id].iter_mut().zip(keys) {
                        state.restore(file, &key, &param.shape)?;
                    }
                }
            }
        }
        self.updates = updates;
        Ok(())
    }

    /// One parameter's update in main memory: parameter and gradient, `[n]`.
    pub(super) fn step_slices(
        &mut self,
        id: ParamId,
        info: ParamInfo<'_>,
        (param, grad): (&mut [f32], &[f32]),
        scalars: StepScalars,
        grid: Option<Grid<'_>>,
    ) -> Result<(), Diagnostic> {
        let states = &mut self.states[id];
        let mut loaded = Vec::with_capacity(states.len());
        for state in states.iter() {
            loaded.push(if matches!(state, StoredState::F32(_)) { Vec::new() } else { state.load()? });
        }
        let slices = states.iter_mut().zip(&mut loaded);
        let slices = slices.map(|(state, loaded)| state.as_f32_mut().unwrap_or(loaded)).collect();
        let (_, plugin, _) = self.groups.of(id);
        let result =
            plugin.step(self.scopes[id], ParamUpdate { info, param, grad, states: slices, scalars, grid });
        for (index, values) in loaded.into_iter().enumerate().filter(|(_, values)| !values.is_empty()) {
            self.store(id, index, &values)?;
        }
        result
    }

    /// One parameter's update with services: its new value, and whether the plugin failed.
    ///
    /// # Errors
    /// A state could not be converted.
    pub(super) fn step_with_services(
        &mut self,
        id: ParamId,
        update: services::Update<'_>,
    ) -> Result<(Tensor<1>, Result<(), Diagnostic>), Diagnostic> {
        let (_, plugin, _) = self.groups.of(id);
        let device = update.value.device();
        let Some(states) = &mut self.on_device[id] else { return Ok((update.value, Ok(()))) };
        if !self.states[id].is_empty() {
            let loaded = self.states[id].iter().map(StoredState::load).collect::<Result<_, _>>()?;
            states.restore(loaded, &device);
        }
        let (value, result) = states.step(plugin, update);
        if !self.states[id].is_empty() {
            for (index, values) in states.take()?.into_iter().enumerate() {
                self.store(id, index, &values)?;
            }
        }
        Ok((value, result))
    }

    /// The index of a parameter's rounding residual among its states.
    pub(super) fn residual(&self, id: ParamId) -> Option<usize> {
        self.specs[id].iter().position(|spec| spec.role == StateRole::ROUNDING_RESIDUAL)
    }

    /// The values of a parameter's rounding residual, `[n]`; `None` if it has none.
    pub(super) fn residual_values(&self, id: ParamId) -> Result<Option<Vec<f32>>, Diagnostic> {
        let values = |index: usize| match &self.on_device[id] {
            Some(states) if self.states[id].is_empty() => states.read(index),
            _ => self.states[id][index].load(),
        };
        self.residual(id).map(values).transpose()
    }

    /// The momentum of a parameter in main memory, `[n]`; `None` if it has none.
    pub(super) fn momentum(&self, id: ParamId) -> Result<Option<Vec<f32>>, Diagnostic> {
        let index = self.specs[id].iter().position(|spec| MOMENTUM.contains(&spec.name.as_str()));
        index.and_then(|index| self.states[id].get(index)).map(StoredState::load).transpose()
    }

    /// Assigns these values, `[n]`, to a state.
    pub(super) fn set_state(
        &mut self,
        id: ParamId,
        index: usize,
        values: Tensor<1>,
    ) -> Result<(), Diagnostic> {
        match &mut self.on_device[id] {
            Some(states) if self.states[id].is_empty() => {
                states.set(index, values);
                Ok(())
            }
            _ => {
                let values = tensor::read_f32(values)?;
                self.store(id, index, &values)
            }
        }
    }

    fn store(&mut self, id: ParamId, index: usize, values: &[f32]) -> Result<(), Diagnostic> {
        let stored = self.states[id][index].store(values, random_key(self.seed, self.updates, (id, index)));
        stored.map_err(|mut error| {
            error.message = format!("state `{}`: {}", self.specs[id][index].name, error.message);
            error
        })
    }
}

/// The random bits of state number `index` of a parameter.
fn random_key(seed: u64, step: u64, (id, index): (ParamId, usize)) -> RandomKey {
    RandomKey {
        seed,
        step,
        tensor: FIRST_TENSOR + (id * STATES + index % STATES) as u64,
        offset: STATE_OFFSET * (index / STATES) as u64,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_state_of_every_parameter_has_random_bits_of_its_own() {
        let key = |id, index| random_key(7, 9, (id, index));
        let keys = (0..500).flat_map(|id| (0..40).map(move |index| key(id, index)));
        // Words depend on the number modulo 2^32; those of sites are below 2^31.
        assert!(keys.clone().all(|key| key.tensor as u32 >= 1 << 31));
        let words: BTreeSet<(u32, u64)> = keys.map(|key| (key.tensor as u32, key.offset)).collect();
        assert_eq!(words.len(), 500 * 40);
        // Those of recorded runs.
        let recorded = |tensor| RandomKey { seed: 7, step: 9, tensor, offset: 0 };
        assert_eq!(key(0, 0), recorded(1 << 31));
        assert_eq!(key(3, 15), recorded((1 << 31) + 63));
        assert_eq!(key(4, 0), recorded((1 << 31) + 64));
    }
}
