//! The states of an optimizer's instance as a whole: tensors in an update, and f32 or another storage between updates.

use altgrad_base::diagnostic::Diagnostic;
use altgrad_plugin_api::{RandomKey, StateSpec};
use burn::tensor::Device;

use super::{
    buffers::{OptimizerBuffer, buffer, of_state, shape_of, stored_buffers},
    groups::OptimizerGroups,
    services::DeviceStates,
    stored_state::{StateEncoding, StoredState},
};
use crate::tensor_file::TensorFile;

/// The states of an instance as a whole.
pub(super) struct SharedStates {
    pub(super) specs: Vec<StateSpec>,
    /// What services see.
    pub(super) tensors: DeviceStates,
    /// What is kept between updates; none if all are f32, and the tensors are kept.
    pub(super) stored: Vec<StoredState>,
}

impl SharedStates {
    /// The states of the instances before the first update.
    ///
    /// # Errors
    /// The plugin failed, or declares a state of a type that the host does not have.
    pub(super) fn all(groups: &OptimizerGroups) -> Result<Vec<Self>, Diagnostic> {
        let new = |specs: Vec<StateSpec>| {
            let storage = specs.iter().map(|spec| groups.storage(spec)).collect::<Result<Vec<_>, _>>()?;
            let tensors = DeviceStates::new(&specs, &[]);
            let is_kept = storage.iter().all(|storage| matches!(storage, StateEncoding::F32));
            let stored = specs.iter().zip(&storage).enumerate().filter(|_| !is_kept);
            let stored = stored.map(|(index, (spec, storage))| {
                StoredState::new(storage, tensors.elements(index), spec.initial as f32)
            });
            Ok(Self { stored: stored.collect::<Result<_, _>>()?, specs, tensors })
        };
        groups.shared_states()?.into_iter().map(new).collect()
    }

    /// Their names.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.specs.iter().map(|spec| spec.name.as_str())
    }

    /// The tensors of all.
    pub(super) fn buffers(&self) -> Result<Vec<OptimizerBuffer>, Diagnostic> {
        if self.stored.is_empty() {
            let values = self.specs.iter().zip(self.tensors.values()?);
            return Ok(values.map(|(spec, values)| buffer(spec, values)).collect());
        }
        Ok(self.specs.iter().zip(&self.stored).flat_map(stored_buffers).collect())
    }

    /// The first element of one.
    pub(super) fn first(&self, index: usize) -> Result<f32, Diagnostic> {
        let values = self.stored.get(index).map_or_else(|| self.tensors.read(index), StoredState::load)?;
        Ok(values[0])
    }

    /// Continues with the states in a file under these names.
    pub(super) fn restore(
        &mut self,
        file: &TensorFile<'_>,
        key: impl Fn(&str) -> String,
        device: &Device,
    ) -> Result<(), Diagnostic> {
        let keys = self.specs.iter().map(|spec| (key(&spec.name), shape_of(spec, &[])));
        if self.stored.is_empty() {
            let values = keys.map(|(key, shape)| file.required(&key, &shape));
            self.tensors.restore(values.collect::<Result<_, _>>()?, device);
            return Ok(());
        }
        self.stored
            .iter_mut()
            .zip(keys)
            .try_for_each(|(state, (key, shape))| state.restore(file, &key, &shape))
    }

    /// Makes the tensors of an update from what is kept.
    pub(super) fn load(&mut self, device: &Device) -> Result<(), Diagnostic> {
        if !self.stored.is_empty() {
            let values = self.stored.iter().map(StoredState::load).collect::<Result<_, _>>()?;
            self.tensors.restore(values, device);
        }
        Ok(())
    }

    /// Keeps what an update has left; `key` gives the random bits of a state.
    pub(super) fn store(&mut self, key: impl Fn(usize) -> RandomKey) -> Result<(), Diagnostic> {
        if self.stored.is_empty() {
            return Ok(());
        }
        let values = self.tensors.take()?;
        for (index, (state, values)) in self.stored.iter_mut().zip(values).enumerate() {
            state.store(&values, key(index)).map_err(|error| of_state(&self.specs[index], error))?;
        }
        Ok(())
    }
}
