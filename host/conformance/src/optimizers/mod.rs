//! The suite for optimizers: properties that the host relies on for every optimizer.
//!
//! Only the author of an optimizer knows its correct updates. The suite checks the requirements common to all
//! optimizers: determinism, finite results for finite inputs, errors instead of panics, and equal results for a tensor
//! in parts where the optimizer declares that. Instances are called as the host calls them, with slices or, where an
//! optimizer asks for services, with [`plain`](altgrad_plugin_api::services::plain) ones.

mod call;
mod choices;
mod memory;
mod steps;
mod subject;

use altgrad_plugin_api::{DType, PluginKind, Scope, StateRole, StateSpec, abi::OptimizerObject};

use crate::{Check, CheckResult, Verdict, checks::identity, subject::said};
use call::{CASES, MOST_ELEMENTS, states_of};
pub(crate) use call::{Param, grids, numbers, rule_of};
pub(crate) use steps::all_steps;
pub use subject::OptimizerSubject;

macro_rules! table {
    ($([$name:ident, $run:path, $what:literal])*) => {
        &[$(Check { name: stringify!($name), what: $what, run: $run }),*]
    };
}

/// The whole suite, in the order in which it should run.
#[must_use]
pub fn checks() -> &'static [Check<OptimizerSubject>] {
    table! {
        [descriptor, descriptor, "name, version, summary and options are well formed, and every default is allowed"]
        [options, options, "no option value makes the constructor panic, and all declared choices and limits work"]
        [states, states, "names are plain and unique, types, roles and shapes possible, first values finite; the same parameter always has the same"]
        [scope, scope, "the scope of a step is a known one, and the same for the same parameter"]
        [rule, rule, "a parameter's rule is one line, the same when asked again, or refused as UNSUPPORTED"]
        [finite, steps::finite, "twenty steps of finite gradients leave finite numbers, on every grid and without one"]
        [moves, steps::moves, "a gradient moves the parameter"]
        [repeatable, steps::repeatable, "the same steps give the same bits, in another instance and on another thread"]
        [parts, steps::parts, "where elements step alone, parts give the bits that the whole gives"]
        [group, steps::group, "parameters that are updated together: finite numbers, and the same if another instance continues with the states"]
        [not_finite, steps::not_finite, "NaN and infinities end in numbers or errors, never in a panic; NaN is not hidden"]
        [shapes, steps::shapes, "no element, one element, and shapes of any rank"]
        [choices, choices::choices, "steps with every declared choice of an option are as those by default; none panics at a limit"]
        [random_steps, steps::random_steps, "random shapes, gradients, grids and parts: finite, and the same twice; failures name the seed"]
        [memory, memory::memory, "between guard pages: it reads and writes nothing beside its arguments, nor writes to the gradient"]
        [endurance, memory::endurance, "120,000 steps of an instance succeed"]
        [wrong_lengths, steps::wrong_lengths, "a gradient or state of another length is refused, and nothing is changed"]
    }
}

/// Checks of an optimizer before a run uses it.
pub const QUICK: &[&str] = &[
    "descriptor",
    "options",
    "states",
    "scope",
    "rule",
    "finite",
    "parts",
    "group",
    "not_finite",
    "shapes",
    "choices",
    "random_steps",
    "wrong_lengths",
    "repeatable",
];

/// Checks of an optimizer with the options of a run. None judges the values of an update, which the options determine.
pub const WITH_OPTIONS: &[&str] = &["states", "scope", "rule", "parts", "repeatable"];

/// The check of that name.
#[must_use]
pub fn check(name: &str) -> Option<&'static Check<OptimizerSubject>> {
    checks().iter().find(|check| check.name == name)
}

fn descriptor(subject: &OptimizerSubject) -> CheckResult {
    identity::described(&subject.descriptor, PluginKind::OPTIMIZER)
}

fn options(subject: &OptimizerSubject) -> CheckResult {
    identity::constructed(&subject.descriptor, |config| subject.construct(config).map(drop))
}

fn states(subject: &OptimizerSubject) -> CheckResult {
    let (first, second) = (subject.instance()?, subject.instance()?);
    for (name, shape) in CASES {
        let states = states_of(&first, name, shape)?;
        if states != states_of(&first, name, shape)? || states != states_of(&second, name, shape)? {
            return Err(format!("`{name}` {shape:?} has other states when asked again"));
        }
        for (index, state) in states.iter().enumerate() {
            if !is_plain(state.name.as_str()) {
                let what = "letters, digits, `-`, `_` and `.`, at most 64, and no `.` first";
                return Err(format!(
                    "the name of the state {:?} is not made of {what}: it becomes part of file contents",
                    state.name
                ));
            }
            if state.name.is_empty() || states[..index].iter().any(|other| other.name == state.name) {
                return Err(format!("`{name}` has two states named {:?}, or one without a name", state.name));
            }
            let is_known = [DType::F32, DType::BF16].contains(&state.dtype)
                && [StateRole::OPTIMIZER, StateRole::ROUNDING_RESIDUAL].contains(&state.role);
            if !is_known || !(state.initial as f32).is_finite() {
                let what = "f32 or bf16, in a known role, with a finite first value";
                return Err(format!("state `{}` is not {what}", state.name));
            }
            check_shape(state, shape, call::scope_of(&first, name, shape)?)?;
        }
    }
    let shared = call::shared_states(&first)?;
    if shared != call::shared_states(&second)? {
        return Err("two instances have other states as a whole".into());
    }
    let evaluations = |object: &OptimizerObject| object.evaluations().into_result();
    match evaluations(&first).map_err(|error| said("evaluations", &error))? {
        0 => return Err("an update has 0 gradient evaluations".into()),
        count if evaluations(&second).is_ok_and(|other| other == count) => {}
        _ => return Err("two instances have other numbers of gradient evaluations".into()),
    }
    for state in shared {
        if !is_plain(&state.name) || state.shape.is_none() || !(state.initial as f32).is_finite() {
            return Err(format!(
                "state {:?} of the whole optimizer needs a plain name, a shape and a finite first value",
                state.name
            ));
        }
        check_shape(&state, &[], Scope::GROUP)?;
    }
    Ok(Verdict::Passed)
}

/// Refuses shapes that the host refuses.
fn check_shape(state: &StateSpec, param: &[u64], scope: Scope) -> Result<(), String> {
    let fixed = scope == Scope::ELEMENTS || state.role == StateRole::ROUNDING_RESIDUAL;
    if fixed && state.shape.is_some() {
        return Err(format!("state `{}` must have the parameter's shape", state.name));
    }
    match state.elements(param) {
        Some(elements) if elements <= MOST_ELEMENTS => Ok(()),
        _ => Err(format!("state `{}` has more than {MOST_ELEMENTS} elements", state.name)),
    }
}

/// True if a name is safe in file names and on terminals.
fn is_plain(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (1..=64).contains(&name.len()) && !name.starts_with('.') && name.chars().all(allowed)
}

fn scope(subject: &OptimizerSubject) -> CheckResult {
    let (first, second) = (subject.instance()?, subject.instance()?);
    for (name, shape) in CASES {
        let scope = call::scope_of(&first, name, shape)?;
        if ![Scope::WHOLE, Scope::ELEMENTS, Scope::SERVICES, Scope::GROUP].contains(&scope) {
            return Err(format!("scope {} of `{name}` is none of this host's", scope.0));
        }
        if scope != call::scope_of(&first, name, shape)? || scope != call::scope_of(&second, name, shape)? {
            return Err(format!("`{name}` has another scope when asked again"));
        }
    }
    Ok(Verdict::Passed)
}

fn rule(subject: &OptimizerSubject) -> CheckResult {
    let (first, second) = (subject.instance()?, subject.instance()?);
    for grid in grids()? {
        for &case in CASES {
            let rule = rule_of(&first, case, grid.as_ref())?;
            if rule.as_ref().is_some_and(|rule| rule.contains(char::is_control)) {
                return Err(format!("the rule of `{}` is more than a line of text: {rule:?}", case.0));
            }
            let again = [&first, &second].map(|object| rule_of(object, case, grid.as_ref()));
            if again.iter().any(|again| again.as_ref() != Ok(&rule)) {
                return Err(format!("`{}` has another rule when asked again: {rule:?}, {again:?}", case.0));
            }
        }
    }
    Ok(Verdict::Passed)
}
