//! Checks of optimizer steps.

use altgrad_plugin_api::{ErrorKind, PluginError, Scope, abi::OptimizerObject};

use super::{
    call::{CASES, Param, TestGrid, cases_on_grids, grids, numbers, rule_of, step_together},
    subject::OptimizerSubject,
};
use crate::{CheckResult, Random, Verdict, subject::said};

/// Steps of a check.
const STEPS: u64 = 20;
/// The reason to skip a check of parameters without a grid.
const NEEDS_GRID: &str = "every parameter is refused without a grid";

/// A parameter after some steps of random gradients of that length.
fn stepped<'a>(
    object: &OptimizerObject,
    (name, shape): (&'a str, &'a [u64]),
    grid: Option<&'a TestGrid>,
    length: f32,
) -> Result<Param<'a>, String> {
    continued(object, Param::new(object, name, shape, grid)?, length)
}

/// The parameter after these steps.
fn continued<'a>(object: &OptimizerObject, mut param: Param<'a>, length: f32) -> Result<Param<'a>, String> {
    for update in 1..=STEPS {
        let grad: Vec<f32> =
            numbers(100 + update, param.values.len()).into_iter().map(|g| g * length).collect();
        let name = param.name;
        let failed = |error: PluginError| format!("`{name}`: {}", said("step", &error));
        param.step(object, &grad, update).map_err(failed)?;
    }
    Ok(param)
}

pub(super) fn finite(subject: &OptimizerSubject) -> CheckResult {
    let (object, grids) = (subject.instance()?, grids()?);
    for (case, grid) in cases_on_grids(&object, &grids)? {
        for length in [0.0, 1e-12, 1e-3, 1.0, 1e6] {
            let param = stepped(&object, case, grid, length)?;
            if let Some(bad) = param.states.iter().flatten().chain(&param.values).find(|x| !x.is_finite()) {
                return Err(format!("`{}` has {bad} after gradients of {length}, grid {grid:?}", case.0));
            }
        }
    }
    Ok(Verdict::Passed)
}

/// Everything some steps change, on every grid, as bits.
pub(crate) fn all_steps(subject: &OptimizerSubject) -> Result<Vec<u32>, String> {
    let (object, grids) = (subject.instance()?, grids()?);
    let mut bits = Vec::new();
    for (case, grid) in cases_on_grids(&object, &grids)? {
        bits.extend(stepped(&object, case, grid, 1e-2)?.bits());
    }
    Ok(bits)
}

/// Random parameters, gradients and grids: finite numbers, the same in another instance, and in parts where elements
/// step alone.
pub(super) fn random_steps(subject: &OptimizerSubject) -> CheckResult {
    let grids = grids()?;
    for seed in subject.seed..subject.seed + 40 {
        random_life(subject, &grids, &mut Random(seed)).map_err(|fault| format!("seed {seed}: {fault}"))?;
    }
    Ok(Verdict::Passed)
}

fn random_life(
    subject: &OptimizerSubject,
    grids: &[Option<TestGrid>],
    random: &mut Random,
) -> Result<(), String> {
    let mut below = |bound: u64| random.next_u64() % bound;
    let shape: Vec<u64> = (0..=below(2)).map(|_| 1 + below(40)).collect();
    let grid = grids[below(grids.len() as u64) as usize].as_ref();
    let name = CASES[below(CASES.len() as u64) as usize].0;
    let (first, second) = (subject.instance()?, subject.instance()?);
    let is_taken = |grid| Ok::<_, String>(rule_of(&first, (name, shape.as_slice()), grid)?.is_some());
    let grid = if is_taken(grid)? { grid } else { None };
    if !is_taken(grid)? {
        return Ok(());
    }
    let mut param = Param::new(&first, name, &shape, grid)?;
    let mut again = param.clone();
    for update in 1..=1 + below(12) {
        // From the smallest gradients to the largest that clipping leaves.
        let length = 2f32.powi(below(60) as i32 - 45);
        let grad: Vec<f32> =
            numbers(below(u64::MAX), param.values.len()).iter().map(|g| g * length).collect();
        let part = if param.scope() == Scope::ELEMENTS { 1 + below(50) as usize } else { usize::MAX };
        let failed =
            |error: PluginError| format!("`{name}` {shape:?} update {update}: {}", said("step", &error));
        param.step(&first, &grad, update).map_err(failed)?;
        if part == usize::MAX {
            again.step(&second, &grad, update).map_err(failed)?;
        } else {
            again.step_in_parts(&second, &grad, update, part).map_err(failed)?;
        }
        if param.bits() != again.bits() {
            return Err(format!(
                "`{name}` {shape:?} grid {grid:?}: update {update} gives other bits the second time"
            ));
        }
        if let Some(bad) = param.states.iter().flatten().chain(&param.values).find(|x| !x.is_finite()) {
            return Err(format!(
                "`{name}` {shape:?} grid {grid:?}: {bad} after update {update}, gradients of {length:e}"
            ));
        }
    }
    Ok(())
}

pub(super) fn moves(subject: &OptimizerSubject) -> CheckResult {
    let object = subject.instance()?;
    let cases = cases_on_grids(&object, &[None])?;
    if cases.is_empty() {
        return Ok(Verdict::Skipped(NEEDS_GRID.into()));
    }
    for (case, _) in cases {
        // A step that is small beside the parameter is lost in its rounding.
        let is_still = |size: f32| -> Result<bool, String> {
            let mut start = Param::new(&object, case.0, case.1, None)?;
            start.values.iter_mut().for_each(|w| *w *= size);
            Ok(continued(&object, start.clone(), 1e-2)?.values == start.values)
        };
        if is_still(1.0)? && is_still(1e-6)? {
            return Err(format!("`{}` is as it was after {STEPS} steps", case.0));
        }
    }
    Ok(Verdict::Passed)
}

pub(super) fn repeatable(subject: &OptimizerSubject) -> CheckResult {
    let (first, second, grids) = (subject.instance()?, subject.instance()?, grids()?);
    for (case, grid) in cases_on_grids(&first, &grids)? {
        let once = stepped(&first, case, grid, 1e-2)?.bits();
        let again = stepped(&first, case, grid, 1e-2)?.bits();
        let elsewhere = std::thread::scope(|scope| {
            let thread = scope.spawn(|| stepped(&second, case, grid, 1e-2).map(|param| param.bits()));
            thread.join().unwrap_or_else(|_| Err("the thread panicked".into()))
        })?;
        if once != again || once != elsewhere {
            return Err(format!("the same steps of `{}` give other bits, grid {grid:?}", case.0));
        }
    }
    Ok(Verdict::Passed)
}

pub(super) fn parts(subject: &OptimizerSubject) -> CheckResult {
    let (object, grids) = (subject.instance()?, grids()?);
    let mut checked = false;
    for ((name, shape), grid) in cases_on_grids(&object, &grids)? {
        let mut whole = Param::new(&object, name, shape, grid)?;
        if whole.scope() != Scope::ELEMENTS {
            continue;
        }
        checked = true;
        for part in [1, 3, 17] {
            let mut parts = whole.clone();
            for update in 1..=3 {
                let grad = numbers(update, whole.values.len());
                let step = |error: PluginError| format!("`{name}`: {}", said("step", &error));
                whole.step(&object, &grad, update).map_err(step)?;
                parts.step_in_parts(&object, &grad, update, part).map_err(step)?;
            }
            if whole.bits() != parts.bits() {
                return Err(format!("`{name}` in parts of {part} steps otherwise, grid {grid:?}"));
            }
        }
    }
    if checked {
        return Ok(Verdict::Passed);
    }
    Ok(Verdict::Skipped("no parameter is stepped an element at a time".into()))
}

/// A group of all parameters: finite, and the same when another instance continues with the states, as after a resume.
pub(super) fn group(subject: &OptimizerSubject) -> CheckResult {
    match (together(subject, None)?, together(subject, Some(STEPS / 2))?) {
        (None, _) => Ok(Verdict::Skipped("no parameter is updated together with others".into())),
        (first, second) if first == second => Ok(Verdict::Passed),
        _ => Err(format!(
            "the group has other bits after {STEPS} updates if another instance continues with its states after {}",
            STEPS / 2
        )),
    }
}

/// The bits of a group of all parameters after updates by an instance, and by another one from `resumed_at` on; `None`
/// without such parameters.
fn together(subject: &OptimizerSubject, resumed_at: Option<u64>) -> Result<Option<Vec<u32>>, String> {
    let mut object = subject.instance()?;
    let mut params = Vec::new();
    for (case, grid) in cases_on_grids(&object, &[None])? {
        params.push(Param::new(&object, case.0, case.1, grid)?);
    }
    params.retain(|param| param.scope() == Scope::GROUP);
    if params.is_empty() {
        return Ok(None);
    }
    for update in 1..=STEPS {
        let of = |(i, param): (usize, &Param<'_>)| numbers(update * 100 + i as u64, param.values.len());
        let grads: Vec<Vec<f32>> = params.iter().enumerate().map(of).collect();
        let grads: Vec<&[f32]> = grads.iter().map(Vec::as_slice).collect();
        let mut all: Vec<&mut Param<'_>> = params.iter_mut().collect();
        step_together(&object, &mut all, &grads, update)
            .map_err(|error| said("step_with_services", &error))?;
        if resumed_at == Some(update) {
            object = subject.instance()?;
        }
    }
    let bits: Vec<u32> = params.iter().flat_map(Param::bits).collect();
    match bits.iter().map(|&bits| f32::from_bits(bits)).find(|x| !x.is_finite()) {
        Some(bad) => Err(format!("the group has {bad} after {STEPS} updates")),
        None => Ok(Some(bits)),
    }
}

fn no_panic(what: &str, result: Result<(), PluginError>) -> Result<bool, String> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if [ErrorKind::PANIC, ErrorKind::POISONED].contains(&error.kind) => {
            Err(format!("{what}: {}", said("step", &error)))
        }
        Err(_) => Ok(false),
    }
}

pub(super) fn not_finite(subject: &OptimizerSubject) -> CheckResult {
    let (object, grids) = (subject.instance()?, grids()?);
    for ((name, shape), grid) in cases_on_grids(&object, &grids)? {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, 1e-45] {
            let param = Param::new(&object, name, shape, grid)?;
            let grad = numbers(1, param.values.len());
            let (mut bad_grad, mut bad_weight) = (grad.clone(), param.clone());
            let mut with_bad_grad = param;
            bad_grad[1] = bad;
            bad_weight.values[1] = bad;
            let what = format!("{bad} in `{name}`");
            let stepped = no_panic(&what, with_bad_grad.step(&object, &bad_grad, 1))?;
            no_panic(&what, bad_weight.step(&object, &grad, 1))?;
            if bad.is_nan() && stepped && !with_bad_grad.values[1].is_nan() {
                return Err(format!("a NaN gradient of `{name}` left {}", with_bad_grad.values[1]));
            }
        }
    }
    Ok(Verdict::Passed)
}

pub(super) fn shapes(subject: &OptimizerSubject) -> CheckResult {
    let object = subject.instance()?;
    let shapes: [&[u64]; 9] = [&[], &[0], &[1], &[0, 4], &[4, 0], &[1, 1], &[1, 9], &[9, 1], &[2, 3, 4]];
    let mut checked = false;
    for shape in shapes {
        if rule_of(&object, ("w", shape), None)?.is_none() {
            continue;
        }
        checked = true;
        let mut param = Param::new(&object, "w", shape, None)?;
        let grad = numbers(1, param.values.len());
        param
            .step(&object, &grad, 1)
            .map_err(|error| format!("shape {shape:?}: {}", said("step", &error)))?;
        if param.values.iter().any(|x| !x.is_finite()) {
            return Err(format!("shape {shape:?} has numbers that are not finite"));
        }
    }
    Ok(if checked { Verdict::Passed } else { Verdict::Skipped(NEEDS_GRID.into()) })
}

pub(super) fn wrong_lengths(subject: &OptimizerSubject) -> CheckResult {
    let object = subject.instance()?;
    for &(name, shape) in CASES {
        let param = Param::new(&object, name, shape, None)?;
        if param.is_served() {
            continue;
        }
        let len = param.values.len();
        let refused = |mut param: Param<'_>, grad: usize, what: &str| {
            let before = param.bits();
            if no_panic(what, param.step(&object, &numbers(1, grad), 1))? || param.bits() != before {
                return Err(format!("`{name}`: {what} is taken, or changes something"));
            }
            Ok(())
        };
        refused(param.clone(), len - 1, "a gradient too short")?;
        refused(param.clone(), len + 1, "a gradient too long")?;
        for state in 0..param.states.len() {
            let mut short = param.clone();
            short.states[state].pop();
            refused(short, len, "a state too short")?;
        }
    }
    Ok(Verdict::Passed)
}
