//! Helpers for tests of an optimizer: an instance from options, a parameter with its states between steps, and a
//! recorded run to follow.

use altgrad_plugin_api::{
    Blocks, Config, ConfigValue, FormatSpec, Grid, Optimizer, ParamInfo, PluginError, Scales, StateSpec,
    Step, StepScalars,
    services::{
        plain::{self, PlainMatrix, PlainParam},
        rows_and_columns,
    },
};

mod contract;
mod recorded;

pub use contract::assert_elements_step_alone;
pub use recorded::{RecordedRun, assert_close, recorded_rate, replay};

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
    /// States, made by the first step: `[n]`, or of a shape of their own.
    pub states: Vec<Vec<f32>>,
    /// Format, scales with their inverses, and the blocks that share them.
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

    /// Element `i` as a parameter of its own, of the same rank, under the one scale of its block.
    #[must_use]
    pub fn element(&self, i: usize) -> Self {
        let grid = self.grid.as_ref().map(|(spec, pairs, blocks)| {
            (spec.clone(), vec![pairs[blocks.of(i as u64) as usize]], Blocks::WHOLE)
        });
        Self {
            shape: vec![1; self.shape.len()],
            w: vec![self.w[i]],
            states: self.states.iter().map(|state| vec![state[i]]).collect(),
            grid,
        }
    }

    /// The first element that five updates leave with other bits than they leave [`Self::element`] with; `None` where
    /// elements step alone. NaN counts as a difference.
    ///
    /// # Errors
    /// The optimizer's error.
    pub fn first_not_alone<O: Optimizer>(
        &self,
        optimizer: &O,
        lr: f64,
    ) -> Result<Option<usize>, PluginError> {
        let mut whole = self.clone();
        let mut elements: Vec<Self> = (0..self.w.len()).map(|i| self.element(i)).collect();
        for update in 1..=5 {
            let grad = numbers(1000 + update, self.w.len());
            whole.step(optimizer, lr, update, &grad)?;
            for (element, g) in elements.iter_mut().zip(grad) {
                element.step(optimizer, lr, update, &[g])?;
            }
        }
        let numbers = |param: &Self| [&param.w[..], &param.states.concat()].concat();
        let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() && !a.is_nan();
        let differs = |i: &usize| !numbers(&whole.element(*i)).iter().zip(&numbers(&elements[*i])).all(same);
        Ok((0..elements.len()).find(differs))
    }

    /// One update.
    ///
    /// # Errors
    /// The optimizer's error.
    pub fn step<O: Optimizer>(
        &mut self,
        optimizer: &O,
        lr: f64,
        update: u64,
        grad: &[f32],
    ) -> Result<(), PluginError> {
        self.step_in_parts(optimizer, lr, update, grad, usize::MAX)
    }

    /// One update by the contract's plain services, of an optimizer that declares them.
    ///
    /// # Errors
    /// The optimizer's error.
    pub fn step_with_services<O: Optimizer>(
        &mut self,
        optimizer: &O,
        scalars: StepScalars,
        grad: &[f32],
    ) -> Result<(), PluginError> {
        self.make_states(optimizer);
        let matrix = |shape: &[u64], values: &[f32]| PlainMatrix {
            shape: rows_and_columns(shape).map(|extent| extent as usize),
            values: values.to_vec(),
        };
        let specs = optimizer.states(&ParamInfo::new("w", &self.shape));
        let states = specs.iter().zip(&self.states);
        let mut served = [PlainParam {
            name: "w",
            value: matrix(&self.shape, &self.w),
            grad: matrix(&self.shape, grad),
            states: states.map(|(spec, state)| matrix(spec.extents(&self.shape), state)).collect(),
            scalars,
            grid: None,
        }];
        plain::step(|step| optimizer.step_with_services(step), &mut served, &mut [], 1)?;
        let [PlainParam { value, states, .. }] = served;
        (self.w, self.states) = (value.values, states.into_iter().map(|state| state.values).collect());
        Ok(())
    }

    fn make_states<O: Optimizer>(&mut self, optimizer: &O) {
        if self.states.is_empty() {
            let info = ParamInfo::new("w", &self.shape);
            let elements = [self.w.len() as u64];
            let elements = |spec: &StateSpec| spec.elements(&elements).unwrap_or_default() as usize;
            let buffer = |spec: &StateSpec| vec![spec.initial as f32; elements(spec)];
            self.states = optimizer.states(&info).iter().map(buffer).collect();
        }
    }

    /// One update, `part` elements a call. With [`Scope::ELEMENTS`](altgrad_plugin_api::Scope::ELEMENTS) that makes no
    /// difference.
    ///
    /// # Errors
    /// The optimizer's error.
    pub fn step_in_parts<O: Optimizer>(
        &mut self,
        optimizer: &O,
        lr: f64,
        update: u64,
        grad: &[f32],
        part: usize,
    ) -> Result<(), PluginError> {
        self.make_states(optimizer);
        let info = ParamInfo::new("w", &self.shape);
        let grid = self.grid.as_ref();
        let grid = grid.map(|(spec, pairs, blocks)| Grid { spec, scales: Scales::new(pairs, *blocks) });
        let scalars = StepScalars::new(lr, update);
        let mut states: Vec<_> = self.states.iter_mut().map(|state| state.chunks_mut(part)).collect();
        for (index, (param, grad)) in self.w.chunks_mut(part).zip(grad.chunks(part)).enumerate() {
            let grid = grid.map(|grid| grid.skip((index * part) as u64));
            let mut states: Vec<&mut [f32]> = states.iter_mut().filter_map(Iterator::next).collect();
            optimizer.step(Step { info, param, grad, states: &mut states, scalars, grid })?;
        }
        Ok(())
    }
}

/// Ways to split a matrix with rows of `columns` elements into blocks: rows (channels), parts of rows, columns, tiles,
/// and consecutive elements independent of rows.
#[must_use]
pub const fn layouts(columns: u64) -> [Blocks; 5] {
    [
        Blocks { columns, block_rows: 1, block_columns: columns },
        Blocks { columns, block_rows: 1, block_columns: 16 },
        Blocks { columns, block_rows: u64::MAX, block_columns: 1 },
        Blocks { columns, block_rows: 3, block_columns: 8 },
        Blocks::consecutive(32),
    ]
}

/// A scale for each block of a parameter of `elements` elements: no two are equal, and they span four binades.
#[must_use]
pub fn scales(blocks: Blocks, elements: usize) -> Vec<f32> {
    let scale = |block: u64| 2f32.powi((block % 4) as i32) * (3.7 + block as f32 / 1024.0);
    (0..blocks.count(elements as u64)).map(scale).collect()
}

/// Pseudo-random numbers between -1 and 1, from a linear congruential generator (Knuth's MMIX).
#[must_use]
pub fn numbers(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}
