//! The instances of a run's optimizer: one for all parameters, and one more per group with options of its own.

use std::collections::{BTreeMap, BTreeSet};

use altgrad_base::diagnostic::Diagnostic;
use altgrad_loader::{OptimizerPlugin, instance::Identity};
use altgrad_plugin_api::{Config, DType, ParamInfo, StateRole, StateSpec};

use super::stored_state::StateEncoding;
use crate::{
    memory::StateBytes,
    model::{Layout, layout::ParamId},
    quant::QuantPlan,
};

/// The largest number of elements of a state, which is the limit of kernels.
const MOST_ELEMENTS: u64 = (1 << 31) - 1;

/// The instances of a run's optimizer, and the instance of each parameter.
pub struct OptimizerGroups {
    plugins: Vec<OptimizerPlugin>,
    /// By parameter: the instance, and the factor of the learning rate.
    of: Vec<(usize, f64)>,
    /// The storage of states by their names; other states are stored as the optimizer declares.
    storage: BTreeMap<String, StateEncoding>,
}

impl OptimizerGroups {
    /// One instance for all parameters.
    #[must_use]
    pub fn one(plugin: OptimizerPlugin, layout: &Layout) -> Self {
        Self { plugins: vec![plugin], of: vec![(0, 1.0); layout.specs.len()], storage: BTreeMap::new() }
    }

    /// The options of the instance of all parameters that no group matches.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.plugins[0].config
    }

    /// Another instance for some parameters.
    pub fn add(&mut self, plugin: OptimizerPlugin, lr_scale: f64, members: &[ParamId]) {
        self.plugins.push(plugin);
        for &id in members {
            self.of[id] = (self.plugins.len() - 1, lr_scale);
        }
    }

    /// The same optimizer with this storage of states, by their names.
    #[must_use]
    pub fn with_storage(self, storage: BTreeMap<String, StateEncoding>) -> Self {
        Self { storage, ..self }
    }

    /// The storage of a state.
    pub(super) fn storage(&self, state: &StateSpec) -> Result<StateEncoding, Diagnostic> {
        if let Some(storage) = self.storage.get(state.name.as_str()) {
            return Ok(storage.clone());
        }
        match state.dtype {
            DType::F32 => Ok(StateEncoding::F32),
            DType::BF16 => Ok(StateEncoding::Bf16),
            other => {
                let name = &self.identity().name;
                let message = format!("optimizer `{name}` wants state `{}` in {other:?}", state.name);
                Err(Diagnostic::plugin(message).hint("this host stores f32 and bf16"))
            }
        }
    }

    /// Bytes of the states of all parameters.
    ///
    /// # Errors
    /// The plugin failed, or declares a state of a type that the host does not have.
    pub fn state_bytes(&self, layout: &Layout, quant: &QuantPlan) -> Result<StateBytes, Diagnostic> {
        let mut bytes = StateBytes::default();
        for (id, spec) in layout.specs.iter().enumerate() {
            let shape = extents(&spec.shape);
            let info = param_info(&spec.name, &shape, quant.is_stored_on_grid(id));
            let (_, plugin, _) = self.of(id);
            let mut converted = 0.0;
            for state in plugin.states(&info).map_err(|error| error.at(&spec.name))? {
                let storage = self.storage(&state).map_err(|error| error.at(&spec.name))?;
                let elements = self.elements(&state, &info)?;
                bytes.stored += storage.bytes(elements);
                converted += if matches!(storage, StateEncoding::F32) { 0.0 } else { 4.0 * elements as f64 };
            }
            bytes.converted = bytes.converted.max(converted);
        }
        for state in self.shared_states()?.iter().flatten() {
            let elements = self.elements(state, &param_info("", &[], false))?;
            bytes.stored += self.storage(state)?.bytes(elements);
        }
        Ok(bytes)
    }

    /// The elements of a state of a parameter.
    ///
    /// # Errors
    /// There are too many, or the host writes the state and it is not the parameter's shape.
    pub(super) fn elements(&self, state: &StateSpec, param: &ParamInfo<'_>) -> Result<usize, Diagnostic> {
        let refused = |why: &str| {
            let message = format!("optimizer `{}` wants state `{}` {why}", self.identity().name, state.name);
            Err(Diagnostic::plugin(message).at(&self.identity().library))
        };
        if state.role == StateRole::ROUNDING_RESIDUAL && state.shape.is_some() {
            return refused("as a rounding residual of a shape of its own");
        }
        match state.elements(&param.shape) {
            Some(elements) if elements <= MOST_ELEMENTS => Ok(elements as usize),
            _ => refused(&format!(
                "of shape {:?}: {MOST_ELEMENTS} elements are allowed",
                state.extents(&param.shape)
            )),
        }
    }

    /// The states of each instance as a whole.
    ///
    /// # Errors
    /// The plugin failed.
    pub(super) fn shared_states(&self) -> Result<Vec<Vec<StateSpec>>, Diagnostic> {
        self.plugins.iter().map(OptimizerPlugin::shared_states).collect()
    }

    /// The instances by number.
    pub(super) fn plugins(&self) -> &[OptimizerPlugin] {
        &self.plugins
    }

    /// Refuses storage of a state that no parameter has.
    pub(super) fn check_storage<'a>(&self, names: impl Iterator<Item = &'a str>) -> Result<(), Diagnostic> {
        let known: BTreeSet<&str> = names.collect();
        let Some(unknown) = self.storage.keys().find(|name| !known.contains(name.as_str())) else {
            return Ok(());
        };
        let message = format!("optimizer `{}` has no state `{unknown}`", self.identity().name);
        let known: Vec<&str> = known.into_iter().collect();
        Err(Diagnostic::config(message).hint(format!("its states are {}", known.join(", "))))
    }

    /// The name and origin of the optimizer.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.plugins[0].identity
    }

    /// The index of the instance that updates a parameter, the instance, and its factor of the learning
    /// rate.
    pub(super) fn of(&self, id: ParamId) -> (usize, &OptimizerPlugin, f64) {
        let (plugin, lr_scale) = self.of[id];
        (plugin, &self.plugins[plugin], lr_scale)
    }
}

/// The parameter's facts for a plugin; `rounded`: its updates end with a rounding.
pub(super) fn param_info<'a>(name: &'a str, shape: &'a [u64], rounded: bool) -> ParamInfo<'a> {
    ParamInfo { rounded, ..ParamInfo::new(name, shape) }
}

pub(super) fn extents(shape: &[usize]) -> Vec<u64> {
    shape.iter().map(|&extent| extent as u64).collect()
}
