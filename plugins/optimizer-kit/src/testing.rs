//! What tests of an optimizer need: an instance from options, and a parameter with its states between steps.

use altgrad_plugin_api::{
    Blocks, Config, ConfigValue, FormatSpec, Grid, Optimizer, ParamInfo, PluginError, Scales, StateSpec,
    Step, StepScalars,
};

/// An optimizer with these options, and defaults for the rest.
///
/// # Errors
/// As the host's check of options, or the optimizer's own.
pub fn optimizer<O: Optimizer>(given: &[(&str, ConfigValue)]) -> Result<O, PluginError> {
    let given = given.iter().map(|(name, value)| (name.to_string(), value.clone()));
    let config = Config::resolve(&O::DESCRIPTOR.options, given)
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
    /// Format, scales with their inverses, and which elements share one.
    pub grid: Option<(FormatSpec, Vec<[f32; 2]>, Blocks)>,
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
        self.on_blocks(spec, &[scale], Blocks::WHOLE)
    }

    /// The same with a scale for each block.
    #[must_use]
    pub fn on_blocks(self, spec: &FormatSpec, scales: &[f32], blocks: Blocks) -> Self {
        let pairs = scales.iter().map(|&scale| [scale, 1.0 / scale]).collect();
        Self { grid: Some((spec.clone(), pairs, blocks)), ..self }
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
        let info = ParamInfo::new("w", &self.shape);
        if self.states.is_empty() {
            let buffer = |spec: &StateSpec| vec![spec.initial as f32; self.w.len()];
            self.states = optimizer.states(&info).iter().map(buffer).collect();
        }
        let grid = self.grid.as_ref();
        let grid = grid.map(|(spec, pairs, blocks)| Grid { spec, scales: Scales::new(pairs, *blocks) });
        let scalars = StepScalars { lr, update };
        let mut states: Vec<_> = self.states.iter_mut().map(|state| state.chunks_mut(part)).collect();
        for (index, (param, grad)) in self.w.chunks_mut(part).zip(grad.chunks(part)).enumerate() {
            let grid = grid.map(|grid| grid.skip((index * part) as u64));
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
