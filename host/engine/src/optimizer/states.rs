//! The states of a run's optimizer: converted for each update, written to checkpoints and read back.

use std::collections::BTreeMap;

use altgrad_base::diagnostic::Diagnostic;
use altgrad_loader::optimizer::ParamUpdate;
use altgrad_plugin_api::{Grid, ParamInfo, StateRole, StateSpec, StepScalars};
use burn::tensor::Tensor;

use super::{
    OptimizerState,
    buffers::{OptimizerBuffer, buffer, of_state, shape_of, stored_buffers},
    random_bits::random_key,
    services,
    shared_states::SharedStates,
    stored_state::{StateEncoding, StoredState},
};
use crate::{
    model::{Layout, Params, layout::ParamId},
    tensor,
    tensor_file::TensorFile,
};

/// The names of the state that is momentum.
const MOMENTUM: [&str; 2] = ["exp_avg", "momentum"];

impl OptimizerState {
    /// The elements of each state of each parameter of these shapes, and of each state of the whole instances.
    pub fn state_elements(&self, layout: &Layout) -> impl Iterator<Item = usize> {
        let elements = |spec: &StateSpec, param: &[usize]| shape_of(spec, param).iter().product::<usize>();
        let of_params = self.specs.iter().zip(&layout.specs);
        let of_params = of_params
            .flat_map(move |(states, param)| states.iter().map(move |spec| elements(spec, &param.shape)));
        let shared = self.shared.iter().flat_map(|shared| &shared.specs);
        of_params.chain(shared.map(move |spec| elements(spec, &[])))
    }

    /// The storage of the states by name: in words, and their bytes. Those that services keep are f32.
    #[must_use]
    pub fn storage(&self) -> BTreeMap<String, (String, usize)> {
        let mut all = BTreeMap::new();
        let of_instances = self.shared.iter().map(|of| (&of.specs, &of.stored, Some(&of.tensors)));
        let of_params = self.specs.iter().zip(&self.states).zip(&self.on_device);
        let of_params = of_params.map(|((specs, stored), kept)| (specs, stored, kept.as_ref()));
        for (specs, stored, kept) in of_instances.chain(of_params) {
            for (index, spec) in specs.iter().enumerate() {
                let (stored_as, bytes) = match (stored.get(index), kept) {
                    (Some(state), _) => (state.storage_name(), state.bytes()),
                    (None, Some(kept)) => (StateEncoding::F32.name(), 4 * kept.elements(index)),
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
        let specs = &self.specs[id];
        let whole = |(spec, values)| buffer(spec, values);
        if let Some(states) = self.on_device[id].as_ref().filter(|_| self.states[id].is_empty()) {
            return Ok(specs.iter().zip(states.values()?).map(whole).collect());
        }
        #[cfg(feature = "gpu")]
        if let Some(device) = self.device.as_ref().filter(|_| self.states[id].is_empty()) {
            let values = device.read_states(id)?.into_iter().map(crate::tensor_file::TensorElements::F32);
            return Ok(specs.iter().zip(values).map(whole).collect());
        }
        Ok(specs.iter().zip(&self.states[id]).flat_map(stored_buffers).collect())
    }

    /// The tensors of the states of whole instances, with the number of the instance.
    ///
    /// # Errors
    /// The device failed.
    pub fn shared_states(&self) -> Result<Vec<(usize, OptimizerBuffer)>, Diagnostic> {
        let mut all = Vec::new();
        for (instance, shared) in self.shared.iter().enumerate() {
            all.extend(shared.buffers()?.into_iter().map(|buffer| (instance, buffer)));
        }
        Ok(all)
    }

    /// The states of one number of whole instances, by name; those of the first instance, and of others with its
    /// number: `d`, `d-1`.
    fn own_numbers(&self) -> impl Iterator<Item = (String, &SharedStates, usize)> {
        self.shared.iter().enumerate().flat_map(|(instance, shared)| {
            let is_one = |(index, _): &(usize, &StateSpec)| shared.tensors.elements(*index) == 1;
            shared.specs.iter().enumerate().filter(is_one).map(move |(index, spec)| {
                let of = if instance == 0 { String::new() } else { format!("-{instance}") };
                (format!("{}{of}", spec.name), shared, index)
            })
        })
    }

    /// The names of the numbers that the optimizer records.
    #[must_use]
    pub fn number_names(&self) -> Vec<String> {
        self.own_numbers().map(|(name, ..)| name).collect()
    }

    /// The numbers that the optimizer records. Reads the device.
    ///
    /// # Errors
    /// The device failed.
    pub fn numbers(&self) -> Result<Vec<f64>, Diagnostic> {
        self.own_numbers().map(|(_, shared, index)| Ok(f64::from(shared.first(index)?))).collect()
    }

    /// Continues after `updates` updates of these parameters, with the states in a file; `key` gives the name there of
    /// a state of a parameter, `shared_key` that of a state of an instance.
    ///
    /// # Errors
    /// A state is missing, or has another type or shape.
    pub fn restore(
        &mut self,
        updates: u64,
        params: &Params,
        file: &TensorFile<'_>,
        key: impl Fn(&str, &str) -> String,
        shared_key: impl Fn(usize, &str) -> String,
    ) -> Result<(), Diagnostic> {
        let device = params.values[0].device();
        for (instance, shared) in self.shared.iter_mut().enumerate() {
            shared.restore(file, |name| shared_key(instance, name), &device)?;
        }
        for (id, specs) in self.specs.iter().enumerate() {
            let param = &params.layout.specs[id];
            let keys = specs.iter().map(|spec| (key(&param.name, &spec.name), shape_of(spec, &param.shape)));
            match &mut self.on_device[id] {
                Some(states) if self.states[id].is_empty() => {
                    let values = keys.map(|(key, shape)| file.required(&key, &shape));
                    states.restore(values.collect::<Result<_, _>>()?, &params.values[id].device());
                }
                _ => {
                    if self.states[id].is_empty() {
                        // Kernels had them; they start again from main memory.
                        self.states[id] = vec![StoredState::F32(Default::default()); specs.len()];
                    }
                    for (state, (key, shape)) in self.states[id].iter_mut().zip(keys) {
                        state.restore(file, &key, &shape)?;
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

    /// Updates parameters of an instance with services, after that gradient evaluation; with the states of the whole
    /// instance if it is a group. Returns their new values, and whether the plugin failed.
    ///
    /// # Errors
    /// A state could not be converted.
    pub(super) fn step_with_services(
        &mut self,
        ids: &[ParamId],
        updates: Vec<services::Update<'_>>,
        group: Option<usize>,
        evaluation: u32,
    ) -> Result<(Vec<Tensor<1>>, Result<(), Diagnostic>), Diagnostic> {
        let Some((_, plugin, _)) = ids.first().map(|&id| self.groups.of(id)) else {
            return Ok((Vec::new(), Ok(())));
        };
        let mut states = Vec::with_capacity(ids.len());
        for (&id, update) in ids.iter().zip(&updates) {
            let Some(mut kept) = self.on_device[id].take() else { continue };
            if !self.states[id].is_empty() {
                let loaded = self.states[id].iter().map(StoredState::load).collect::<Result<_, _>>()?;
                kept.restore(loaded, &update.value.device());
            }
            states.push(kept);
        }
        let mut shared = group.map(|instance| (&mut self.shared[instance], self.specs.len() + instance));
        if let (Some((shared, _)), Some(update)) = (&mut shared, updates.first()) {
            shared.load(&update.value.device())?;
        }
        let tensors = shared.as_mut().map(|(shared, _)| &mut shared.tensors);
        let (values, result) = services::step(plugin, updates, &mut states, tensors, evaluation);
        if let Some((shared, id)) = shared {
            shared.store(|index| random_key(self.seed, self.updates, (id, index)))?;
        }
        for (&id, mut kept) in ids.iter().zip(states) {
            if !self.states[id].is_empty() {
                for (index, values) in kept.take()?.into_iter().enumerate() {
                    self.store(id, index, &values)?;
                }
            }
            self.on_device[id] = Some(kept);
        }
        Ok((values, result))
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
        let is_momentum = |spec: &StateSpec| MOMENTUM.contains(&spec.name.as_str()) && spec.shape.is_none();
        let index = self.specs[id].iter().position(is_momentum);
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
        stored.map_err(|error| of_state(&self.specs[id][index], error))
    }
}
