//! An optimizer called as the host calls it: with slices, in parts, or with services.

use altgrad_plugin_api::{
    Domain, FormatSpec, ParamInfo, PluginError, Scope, StateSpec, StepScalars, TensorView, TensorViewMut,
    abi::{
        OptimizerObject, ServiceCall, StepCall,
        abi_stable::std_types::{ROption, RSlice, RSliceMut},
    },
    grid::minifloat,
    services::{
        plain::{Plain, PlainMatrix},
        table::Served,
    },
};

use crate::subject::said;

/// Parameters as models have them: name and shape.
pub(super) const CASES: &[(&str, &[u64])] = &[
    ("wte.weight", &[13, 8]),
    ("h.0.mlp.c_fc.weight", &[24, 8]),
    ("h.0.attn.c_proj.weight", &[5, 31]),
    ("h.0.ln_1.weight", &[8]),
    ("h.0.mlp.c_fc.bias", &[24]),
];

pub(super) fn info<'a>(name: &'a str, shape: &'a [u64]) -> ParamInfo<'a> {
    ParamInfo::new(name, shape)
}

pub(super) fn states_of(
    object: &OptimizerObject,
    name: &str,
    shape: &[u64],
) -> Result<Vec<StateSpec>, String> {
    let states = object.states(&info(name, shape)).into_result();
    states.map(Into::into).map_err(|error| said("states", &error))
}

pub(super) fn scope_of(object: &OptimizerObject, name: &str, shape: &[u64]) -> Result<Scope, String> {
    object.scope(&info(name, shape)).into_result().map_err(|error| said("scope", &error))
}

/// Grids that weights are rounded to: none, even, floating, powers of two, a decode table.
pub(super) fn grids() -> Result<Vec<Option<FormatSpec>>, String> {
    let mut grids = vec![
        None,
        Some(FormatSpec::Table([-1.0, -0.5, -0.25, -0.0625, 0.0, 0.125, 0.5, 1.0].into_iter().collect())),
    ];
    for (e, m, domain) in [(1, 6, Domain::FIN), (4, 3, Domain::FN), (7, 0, Domain::FIN)] {
        let spec = minifloat(e, m, domain).map_err(|error| error.message.to_string())?;
        grids.push(Some(FormatSpec::Minifloat(spec)));
    }
    Ok(grids)
}

/// Numbers that look random, between -1 and 1 (Knuth's MMIX).
pub(super) fn numbers(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// A parameter with its states, between steps.
#[derive(Debug, Clone)]
pub(super) struct Param<'a> {
    pub(super) name: &'a str,
    pub(super) shape: &'a [u64],
    pub(super) values: Vec<f32>,
    pub(super) states: Vec<Vec<f32>>,
    pub(super) grid: Option<&'a FormatSpec>,
    scope: Scope,
}

impl<'a> Param<'a> {
    pub(super) fn new(
        object: &OptimizerObject,
        name: &'a str,
        shape: &'a [u64],
        grid: Option<&'a FormatSpec>,
    ) -> Result<Self, String> {
        let len = shape.iter().product::<u64>() as usize;
        let states = states_of(object, name, shape)?;
        let states = states.iter().map(|state| vec![state.initial as f32; len]).collect();
        let scope = scope_of(object, name, shape)?;
        Ok(Self { name, shape, values: numbers(7, len), states, grid, scope })
    }

    pub(super) fn scope(&self) -> Scope {
        self.scope
    }

    /// Everything a step changes, as bits; NaN are alike.
    pub(super) fn bits(&self) -> Vec<u32> {
        let all = self.states.iter().flatten().chain(&self.values);
        all.map(|x| if x.is_nan() { u32::MAX } else { x.to_bits() }).collect()
    }

    /// One step, in one call.
    pub(super) fn step(
        &mut self,
        object: &OptimizerObject,
        grad: &[f32],
        update: u64,
    ) -> Result<(), PluginError> {
        if self.scope == Scope::SERVICES {
            return self.step_with_services(object, grad, update);
        }
        self.step_in_parts(object, grad, update, usize::MAX)
    }

    /// One step, `part` elements a call.
    pub(super) fn step_in_parts(
        &mut self,
        object: &OptimizerObject,
        grad: &[f32],
        update: u64,
        part: usize,
    ) -> Result<(), PluginError> {
        // A call also where there is nothing to step.
        let starts = (0..self.values.len().max(1)).step_by(part.min(self.values.len().max(1)));
        for start in starts {
            let cut = |len: usize| start..start.saturating_add(part).min(len);
            let grad = &grad[cut(grad.len())];
            let grad_shape = [grad.len() as u64];
            let len = self.values.len();
            let values = &mut self.values[cut(len)];
            let shape = [values.len() as u64];
            let mut states: Vec<&mut [f32]> = Vec::new();
            for state in &mut self.states {
                let len = state.len();
                states.push(&mut state[cut(len)]);
            }
            let shapes: Vec<[u64; 1]> = states.iter().map(|state| [state.len() as u64]).collect();
            let mut views = Vec::new();
            for (state, shape) in states.into_iter().zip(&shapes) {
                views.push(TensorViewMut::new(state, shape)?);
            }
            let call = StepCall {
                info: info(self.name, self.shape),
                param: TensorViewMut::new(values, &shape)?,
                grad: TensorView::new(grad, &grad_shape)?,
                states: RSliceMut::from_mut_slice(&mut views),
                scalars: StepScalars { lr: 1e-3, update },
                grid: ROption::from(self.grid),
                grid_scale: 0.5,
            };
            object.step(call).into_result()?;
        }
        Ok(())
    }

    fn step_with_services(
        &mut self,
        object: &OptimizerObject,
        grad: &[f32],
        update: u64,
    ) -> Result<(), PluginError> {
        let shape = match *self.shape {
            [rows, columns] => [rows, columns],
            _ => [1, self.values.len() as u64],
        };
        let served = Served::new(Plain);
        let give = |values: &[f32], assignable| {
            let matrix = PlainMatrix { shape: shape.map(|extent| extent as usize), values: values.to_vec() };
            served.give(matrix, shape, assignable)
        };
        let (param, grad) = (give(&self.values, true), give(grad, false));
        let states: Vec<u64> = self.states.iter().map(|state| give(state, true)).collect();
        let call = ServiceCall {
            info: info(self.name, self.shape),
            services: &served.object(),
            param,
            grad,
            states: RSlice::from_slice(&states),
            scalars: StepScalars { lr: 1e-3, update },
            grid: ROption::from(self.grid),
            grid_scale: 0.5,
        };
        let result = object.step_with_services(call).into_result();
        let targets = self.states.iter_mut().chain([&mut self.values]);
        for (target, handle) in targets.zip(states.iter().chain([&param])) {
            if let Some(matrix) = served.take(*handle) {
                *target = matrix.values;
            }
        }
        result
    }
}
