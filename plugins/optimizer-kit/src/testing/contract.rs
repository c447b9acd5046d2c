//! Properties of every optimizer that updates elements independently.

use altgrad_plugin_api::{
    ConfigValue, Optimizer, ParamInfo, PluginError, Scope, StateRole, Step, StepScalars,
};

use super::{Param, numbers, optimizer};

/// Holds an optimizer, made from its defaults and `given`, to the contract: parts step as the whole; steps depend on
/// parameter, gradient and states only, so that a run that resumes has the same bits; a NaN gradient is not hidden;
/// wrong buffers are refused; with error feedback a step begins at the weight plus the residual.
///
/// # Errors
/// The optimizer's error.
///
/// # Panics
/// One of these does not hold.
pub fn assert_elements_step_alone<O: Optimizer>(given: &[(&str, ConfigValue)]) -> Result<(), PluginError> {
    for shape in [&[10u64, 100][..], &[1000]] {
        let made: O = optimizer(given)?;
        assert_eq!(made.scope(&ParamInfo::new("w", shape)), Scope::ELEMENTS);
        let (start, grad) = (numbers(1, 1000), numbers(2, 1000));
        let (mut whole, mut parts) = (Param::new(shape, &start), Param::new(shape, &start));
        for update in 1..6 {
            whole.step(&made, 0.01, update, &grad)?;
            parts.step_in_parts(&optimizer::<O>(given)?, 0.01, update, &grad, 77)?;
            assert_eq!(whole, parts, "parts, by an instance of their own, after update {update}");
        }
        let mut broken = grad;
        broken[3] = f32::NAN;
        whole.step(&made, 0.01, 6, &broken)?;
        let found: Vec<usize> = (0..1000).filter(|&i| whole.w[i].is_nan()).collect();
        assert_eq!(found, [3], "weights that are NaN");
    }
    assert_refusals::<O>(given)?;
    assert_feedback::<O>(given)
}

fn assert_refusals<O: Optimizer>(given: &[(&str, ConfigValue)]) -> Result<(), PluginError> {
    let made: O = optimizer(given)?;
    let mut param = Param::new(&[2, 1], &[1.0, 1.0]);
    assert!(param.step(&made, 0.1, 0, &[0.0; 2]).is_err(), "updates count from 1");
    assert!(param.step(&made, 0.1, 1, &[0.0; 3]).is_err(), "a gradient that is too long");
    let mut extra = vec![[0f32; 2]; param.states.len() + 1];
    let mut states: Vec<&mut [f32]> = extra.iter_mut().map(|state| &mut state[..]).collect();
    let (info, scalars) = (ParamInfo::new("w", &[2u64, 1]), StepScalars::new(0.1, 1));
    let step = Step { info, param: &mut param.w, grad: &[0.0; 2], states: &mut states, scalars, grid: None };
    assert!(made.step(step).is_err(), "one state too many");
    Ok(())
}

fn assert_feedback<O: Optimizer>(given: &[(&str, ConfigValue)]) -> Result<(), PluginError> {
    let on = [given, &[("error_feedback", ConfigValue::Bool(true))]].concat();
    let (plain, fed): (O, O) = (optimizer(given)?, optimizer(&on)?);
    let info = ParamInfo { rounded: true, ..ParamInfo::new("w", &[2u64, 1]) };
    let (few, more) = (plain.states(&info), fed.states(&info));
    assert_eq!(fed.states(&ParamInfo::new("w", &[2u64, 1])), few, "nothing is rounded");
    assert_eq!(more[..few.len()], few[..]);
    assert_eq!(
        more[few.len()..].iter().map(|state| state.role).collect::<Vec<_>>(),
        [StateRole::ROUNDING_RESIDUAL]
    );
    let (weights, lost, scalars) = ([0.5f32, -1.5], [0.25f32, -0.125], StepScalars::new(0.01, 1));
    let run = |made: &O, mut w: [f32; 2], residual: Option<[f32; 2]>| {
        let mut buffers: Vec<[f32; 2]> =
            few.iter().map(|state| [state.initial as f32; 2]).chain(residual).collect();
        let mut states: Vec<&mut [f32]> = buffers.iter_mut().map(|state| &mut state[..]).collect();
        let grad = &[1.0, -3.0];
        made.step(Step { info, param: &mut w, grad, states: &mut states, scalars, grid: None })?;
        Ok::<_, PluginError>((w, buffers))
    };
    let (expected, _) = run(&plain, [weights[0] + lost[0], weights[1] + lost[1]], None)?;
    let (found, buffers) = run(&fed, weights, Some(lost))?;
    assert_eq!(found, expected, "a step begins at the weight plus the residual");
    assert_eq!(buffers.last(), Some(&lost), "the host writes the residual");
    Ok(())
}
