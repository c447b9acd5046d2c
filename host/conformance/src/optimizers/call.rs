//! An optimizer called as the host calls it: with slices, in parts, or with services; on grids of every kind.

use altgrad_plugin_api::{
    Blocks, Domain, ErrorKind, FormatSpec, Grid, ParamInfo, PluginError, Scales, Scope, StateSpec,
    StepScalars, TensorView, TensorViewMut,
    abi::{
        OptimizerObject, ServedParam, ServiceCall, StepCall,
        stable::std_types::{RSlice, RSliceMut},
    },
    grid::minifloat,
    services::{
        plain::{Plain, PlainMatrix},
        rows_and_columns,
        table::Served,
    },
};

use crate::{Random, subject::said};

/// A parameter's name and shape.
pub(super) type Case = (&'static str, &'static [u64]);

/// The largest number of elements of a state.
pub(super) const MOST_ELEMENTS: u64 = (1 << 31) - 1;

/// Parameters as models have them.
pub(super) const CASES: &[Case] = &[
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

/// A grid that weights are rounded to.
#[derive(Debug, Clone)]
pub(crate) struct TestGrid {
    spec: FormatSpec,
    /// More than any parameter of the suite has blocks.
    pairs: Vec<[f32; 2]>,
    blocks: Blocks,
}

impl TestGrid {
    fn new(spec: FormatSpec, scales: &[f32], blocks: Blocks) -> Self {
        Self { spec, pairs: scales.iter().map(|&scale| [scale, 1.0 / scale]).collect(), blocks }
    }

    pub(super) fn lend(&self) -> Grid<'_> {
        Grid { spec: &self.spec, scales: Scales::new(&self.pairs, self.blocks) }
    }
}

/// Grids that weights are rounded to: none, even, floating, powers of two, a decode table; with one scale, and with one
/// for each block.
pub(crate) fn grids() -> Result<Vec<Option<TestGrid>>, String> {
    let table = [-1.0, -0.5, -0.25, -0.0625, 0.0, 0.125, 0.5, 1.0];
    let mut specs = vec![FormatSpec::Table(table.into_iter().collect())];
    for (e, m, domain) in [(1, 6, Domain::FIN), (4, 3, Domain::FN), (7, 0, Domain::FIN)] {
        let spec = minifloat(e, m, domain).map_err(|error| error.message.to_string())?;
        specs.push(FormatSpec::Minifloat(spec));
    }
    let one_scale = |spec: &FormatSpec| TestGrid::new(spec.clone(), &[0.5], Blocks::WHOLE);
    let mut grids: Vec<TestGrid> = specs.iter().map(one_scale).collect();
    let scales: Vec<f32> = (0..128u8).map(|block| 0.25 + f32::from(block % 7)).collect();
    grids.extend(specs.into_iter().map(|spec| TestGrid::new(spec, &scales, Blocks::consecutive(16))));
    Ok(std::iter::once(None).chain(grids.into_iter().map(Some)).collect())
}

/// Each case on each grid that the optimizer does not refuse for it.
pub(super) fn cases_on_grids<'a>(
    object: &OptimizerObject,
    grids: &'a [Option<TestGrid>],
) -> Result<Vec<(Case, Option<&'a TestGrid>)>, String> {
    let mut taken = Vec::new();
    for grid in grids.iter().map(Option::as_ref) {
        for &case in CASES {
            if rule_of(object, case, grid)?.is_some() {
                taken.push((case, grid));
            }
        }
    }
    Ok(taken)
}

/// The rule for a parameter on a grid whose scales are not known yet; `None` if the optimizer cannot update it.
pub(crate) fn rule_of(
    object: &OptimizerObject,
    (name, shape): (&str, &[u64]),
    grid: Option<&TestGrid>,
) -> Result<Option<String>, String> {
    let grid = grid.map(|grid| Grid { spec: &grid.spec, scales: Scales::new(&[], grid.blocks) });
    match object.rule(&info(name, shape), grid.into()).into_result() {
        Ok(rule) => Ok(Some(rule.into())),
        Err(error) if error.kind == ErrorKind::UNSUPPORTED => Ok(None),
        Err(error) => Err(said("rule", &error)),
    }
}

/// Random numbers between -1 and 1.
pub(crate) fn numbers(seed: u64, count: usize) -> Vec<f32> {
    let mut random = Random(seed);
    (0..count).map(|_| (2.0 * random.unit() - 1.0) as f32).collect()
}

/// A parameter with its states, between steps.
#[derive(Debug, Clone)]
pub(crate) struct Param<'a> {
    pub(super) name: &'a str,
    pub(super) shape: &'a [u64],
    pub(super) values: Vec<f32>,
    pub(super) states: Vec<Vec<f32>>,
    pub(super) grid: Option<&'a TestGrid>,
    scope: Scope,
    /// Rows and columns of each state, as services have them.
    state_shapes: Vec<[u64; 2]>,
    /// The states of the whole optimizer, which has this parameter only, and their rows and columns.
    shared: Vec<(Vec<f32>, [u64; 2])>,
}

impl<'a> Param<'a> {
    pub(crate) fn new(
        object: &OptimizerObject,
        name: &'a str,
        shape: &'a [u64],
        grid: Option<&'a TestGrid>,
    ) -> Result<Self, String> {
        let len = shape.iter().product::<u64>() as usize;
        let specs = states_of(object, name, shape)?;
        let states = specs.iter().map(|state| new_state(state, shape)).collect::<Result<Vec<_>, _>>()?;
        let (states, state_shapes) = states.into_iter().unzip();
        let scope = scope_of(object, name, shape)?;
        let shared =
            shared_states(object)?.iter().map(|state| new_state(state, &[])).collect::<Result<_, _>>()?;
        Ok(Self { name, shape, values: numbers(7, len), states, grid, scope, state_shapes, shared })
    }

    pub(crate) fn scope(&self) -> Scope {
        self.scope
    }

    /// Everything a step changes, as bits; NaN are alike.
    pub(super) fn bits(&self) -> Vec<u32> {
        let shared = self.shared.iter().flat_map(|(state, _)| state);
        let all = self.states.iter().flatten().chain(&self.values).chain(shared);
        all.map(|x| if x.is_nan() { u32::MAX } else { x.to_bits() }).collect()
    }

    /// One step, in one call.
    pub(crate) fn step(
        &mut self,
        object: &OptimizerObject,
        grad: &[f32],
        update: u64,
    ) -> Result<(), PluginError> {
        if self.is_served() {
            return step_together(object, &mut [self], &[grad], update);
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
            let cut = |len: usize| start.min(len)..start.saturating_add(part).min(len);
            let grad = &grad[cut(grad.len())];
            let grad_shape = [grad.len() as u64];
            let len = self.values.len();
            let values = &mut self.values[cut(len)];
            let shape = [values.len() as u64];
            let mut states: Vec<&mut [f32]> = Vec::new();
            for state in &mut self.states {
                let cut = if part == usize::MAX { 0..state.len() } else { cut(state.len()) };
                states.push(&mut state[cut]);
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
                scalars: StepScalars::new(1e-3, update).skip(start as u64),
                grid: self.grid.map(|grid| grid.lend().skip(start as u64)).into(),
            };
            object.step(call).into_result()?;
        }
        Ok(())
    }

    /// True if it is updated with services.
    pub(super) fn is_served(&self) -> bool {
        [Scope::SERVICES, Scope::GROUP].contains(&self.scope)
    }
}

/// The first values of a state, and its rows and columns.
fn new_state(state: &StateSpec, param: &[u64]) -> Result<(Vec<f32>, [u64; 2]), String> {
    match state.elements(param) {
        Some(elements) if elements <= MOST_ELEMENTS => {
            let values = vec![state.initial as f32; elements as usize];
            Ok((values, rows_and_columns(state.extents(param))))
        }
        _ => Err(format!("state `{}` has more than {MOST_ELEMENTS} elements", state.name)),
    }
}

pub(super) fn shared_states(object: &OptimizerObject) -> Result<Vec<StateSpec>, String> {
    object.shared_states().into_result().map(Into::into).map_err(|error| said("shared_states", &error))
}

/// One update of parameters with services, after each of its gradient evaluations, which all give the same; those of a
/// group have the first one's states of the whole optimizer.
pub(super) fn step_together(
    object: &OptimizerObject,
    params: &mut [&mut Param<'_>],
    grads: &[&[f32]],
    update: u64,
) -> Result<(), PluginError> {
    let is_group = params.first().is_some_and(|param| param.scope == Scope::GROUP);
    let evaluations = if is_group { object.evaluations().into_result()?.max(1) } else { 1 };
    (1..=evaluations)
        .try_for_each(|evaluation| evaluated(object, params, grads, update, (is_group, evaluation)))
}

fn evaluated(
    object: &OptimizerObject,
    params: &mut [&mut Param<'_>],
    grads: &[&[f32]],
    update: u64,
    (is_group, evaluation): (bool, u32),
) -> Result<(), PluginError> {
    let served = Served::new(Plain);
    let give = |values: &[f32], shape: [u64; 2], assignable| {
        let matrix = PlainMatrix { shape: shape.map(|extent| extent as usize), values: values.to_vec() };
        served.give(matrix, shape, assignable)
    };
    let mut handles = Vec::new();
    for (param, grad) in params.iter().zip(grads) {
        let shape = rows_and_columns(param.shape);
        let states = param.states.iter().zip(&param.state_shapes);
        let states: Vec<u64> = states.map(|(state, shape)| give(state, *shape, true)).collect();
        handles.push((give(&param.values, shape, true), give(grad, shape, false), states));
    }
    let shared = params.first().filter(|_| is_group).map_or(&[][..], |param| &param.shared);
    let shared: Vec<u64> = shared.iter().map(|(state, shape)| give(state, *shape, true)).collect();
    let lent = params.iter().zip(&handles).map(|(param, (value, grad, states))| ServedParam {
        info: info(param.name, param.shape),
        param: *value,
        grad: *grad,
        states: RSlice::from_slice(states),
        scalars: StepScalars::new(1e-3, update),
        grid: param.grid.map(TestGrid::lend).into(),
    });
    let lent: Vec<ServedParam<'_>> = lent.collect();
    let call = ServiceCall {
        services: &served.object(),
        params: RSlice::from_slice(&lent),
        shared: RSlice::from_slice(&shared),
        evaluation,
    };
    let result = object.step_with_services(call).into_result();
    let take = |target: &mut Vec<f32>, handle: u64| {
        if let Some(matrix) = served.take(handle) {
            *target = matrix.values;
        }
    };
    for (param, (value, _, states)) in params.iter_mut().zip(&handles) {
        take(&mut param.values, *value);
        param.states.iter_mut().zip(states).for_each(|(state, &handle)| take(state, handle));
    }
    if let Some(first) = params.first_mut() {
        first.shared.iter_mut().zip(&shared).for_each(|((state, _), &handle)| take(state, handle));
    }
    result
}
