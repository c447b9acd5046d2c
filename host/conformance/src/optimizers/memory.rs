//! Steps between guard pages, on gradients that cannot be written; and many of them.

use altgrad_plugin_api::{
    StepScalars, TensorView, TensorViewMut,
    abi::{OptimizerObject, StepCall, stable::std_types::RSliceMut},
};

use super::{
    call::{Param, TestGrid, cases_on_grids, grids, info, numbers, rule_of},
    subject::OptimizerSubject,
};
use crate::{
    CheckResult, Verdict,
    checks::together::MANY,
    guarded::{Guarded, Place, announce, no_memory},
    subject::said,
};

/// Shapes of every length that a loop may be cut into pieces of.
const SHAPES: [&[u64]; 12] =
    [&[1], &[2], &[3], &[5], &[8], &[9], &[3, 5], &[17], &[31], &[4, 16], &[513], &[5, 410]];
const NAME: &str = "h.0.mlp.c_fc.weight";
/// The parameter that is stepped often.
const SMALL: &str = "h.0.ln_1.weight";

pub(super) fn memory(subject: &OptimizerSubject) -> CheckResult {
    let (object, grids) = (subject.instance()?, grids()?);
    for grid in [None, grids[1].as_ref(), grids[2].as_ref()] {
        for shape in SHAPES {
            if rule_of(&object, (NAME, shape), grid)?.is_none() {
                continue;
            }
            let mut param = Param::new(&object, NAME, shape, grid)?;
            if param.is_served() {
                return Ok(Verdict::Skipped("it works on handles of the host, not on memory".into()));
            }
            for place in Place::BOTH {
                step(&object, &param, place)?;
            }
            let grad = numbers(11, param.values.len());
            param.step(&object, &grad, 1).map_err(|error| said("step", &error))?;
        }
    }
    Ok(Verdict::Passed)
}

/// A step of a copy, whose result must be equal to that elsewhere.
fn step(object: &OptimizerObject, param: &Param<'_>, place: Place) -> Result<(), String> {
    let len = param.values.len();
    let side = if place == Place::First { "before" } else { "behind" };
    let what = format!(
        "in step of {len} elements, where nothing {side} them may be touched and only parameter and states be written"
    );
    let grad = numbers(11, len);
    let mut expected = param.clone();
    expected.step(object, &grad, 1).map_err(|error| said("step", &error))?;
    let grad = Guarded::locked(&grad, place).map_err(no_memory)?;
    let mut values = Guarded::new(&param.values, place).map_err(no_memory)?;
    let mut states = Vec::new();
    for state in &param.states {
        states.push(Guarded::new(state, place).map_err(no_memory)?);
    }
    announce(&what);
    let shape = [len as u64];
    let lengths: Vec<[u64; 1]> = param.states.iter().map(|state| [state.len() as u64]).collect();
    let mut call = || {
        let mut views = Vec::new();
        for (state, length) in states.iter_mut().zip(&lengths) {
            views.push(TensorViewMut::new(state.get_mut(), length)?);
        }
        let call = StepCall {
            info: info(param.name, param.shape),
            param: TensorViewMut::new(values.get_mut(), &shape)?,
            grad: TensorView::new(grad.get(), &shape)?,
            states: RSliceMut::from_mut_slice(&mut views),
            scalars: StepScalars::new(1e-3, 1),
            grid: param.grid.map(TestGrid::lend).into(),
        };
        object.step(call).into_result()
    };
    call().map_err(|error| format!("{what}: {}", said("step", &error)))?;
    let states = states.iter().map(|state| state.get().to_vec()).collect();
    let mut got = param.clone();
    (got.values, got.states) = (values.get().to_vec(), states);
    if got.bits() == expected.bits() { Ok(()) } else { Err(format!("{what}: another result than elsewhere")) }
}

pub(super) fn endurance(subject: &OptimizerSubject) -> CheckResult {
    let (object, grids) = (subject.instance()?, grids()?);
    let taken = cases_on_grids(&object, &grids)?;
    let Some(&((name, shape), grid)) = taken.iter().find(|((name, _), _)| *name == SMALL) else {
        return Ok(Verdict::Skipped(format!("`{SMALL}` is refused on every grid")));
    };
    let mut param = Param::new(&object, name, shape, grid)?;
    let grad = numbers(12, param.values.len());
    for update in 1..=MANY as u64 {
        param
            .step(&object, &grad, update)
            .map_err(|error| format!("step {update}: {}", said("step", &error)))?;
    }
    Ok(Verdict::Passed)
}
