//! What tests of an optimizer need: an instance from options, and a parameter with its states between steps.

use altgrad_plugin_api::{
    Config, ConfigValue, FormatSpec, Grid, Optimizer, ParamInfo, PluginError, StateSpec, Step, StepScalars,
};

/// An optimizer with these options, and defaults for the rest.
///
/// # Errors
/// As the host's check of options, or the optimizer's own.
pub fn optimizer<O: Optimizer>(given: &[(&str, ConfigValue)]) -> Result<O, PluginError> {
    let given = given.iter().map(|(name, value)| (name.to_string(), value.clone()));
    let config = Config::resolve(&O::descriptor().options, given)
        .map_err(|fault| PluginError::config(format!("`{}` {}", fault.key, fault.message)))?;
    O::new(&config)
}

/// A parameter named `w` and its states.
#[derive(Debug, Clone, PartialEq)]
pub struct Param {
    /// Extents.
    pub shape: Vec<u64>,
    /// Values, `[n]`.
    pub w: Vec<f32>,
    /// States, `[n]` each; made by the first step.
    pub states: Vec<Vec<f32>>,
    /// Format and scale.
    pub grid: Option<(FormatSpec, f32)>,
}

impl Param {
    /// A parameter of these values, without a grid.
    #[must_use]
    pub fn new(shape: &[u64], w: &[f32]) -> Self {
        Self { shape: shape.to_vec(), w: w.to_vec(), states: Vec::new(), grid: None }
    }

    /// The same on a grid: stored = scale * value.
    #[must_use]
    pub fn on(self, spec: &FormatSpec, scale: f32) -> Self {
        Self { grid: Some((spec.clone(), scale)), ..self }
    }

    /// One update.
    ///
    /// # Errors
    /// The optimizer's.
    pub fn step<O: Optimizer>(
        &mut self,
        optimizer: &O,
        lr: f64,
        update: u64,
        grad: &[f32],
    ) -> Result<(), PluginError> {
        self.step_in_parts(optimizer, lr, update, grad, usize::MAX)
    }

    /// One update, `part` elements a call. With [`Scope::ELEMENTS`](altgrad_plugin_api::Scope::ELEMENTS) that makes no difference.
    ///
    /// # Errors
    /// The optimizer's.
    pub fn step_in_parts<O: Optimizer>(
        &mut self,
        optimizer: &O,
        lr: f64,
        update: u64,
        grad: &[f32],
        part: usize,
    ) -> Result<(), PluginError> {
        let info = ParamInfo { name: "w".into(), shape: self.shape.as_slice().into() };
        if self.states.is_empty() {
            let buffer = |spec: &StateSpec| vec![spec.initial as f32; self.w.len()];
            self.states = optimizer.states(&info).iter().map(buffer).collect();
        }
        let grid = self.grid.as_ref().map(|(spec, scale)| Grid { spec, scale: *scale });
        let scalars = StepScalars { lr, update };
        let mut states: Vec<_> = self.states.iter_mut().map(|state| state.chunks_mut(part)).collect();
        for (param, grad) in self.w.chunks_mut(part).zip(grad.chunks(part)) {
            let mut states: Vec<&mut [f32]> = states.iter_mut().filter_map(Iterator::next).collect();
            optimizer.step(Step { info, param, grad, states: &mut states, scalars, grid })?;
        }
        Ok(())
    }
}

/// Numbers that look random, between -1 and 1, from a linear congruential generator (Knuth's MMIX).
#[must_use]
pub fn numbers(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}
