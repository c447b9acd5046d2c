//! The suite for optimizers can fail: the right check finds each fault, and a correct optimizer has none.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicU32, Ordering};

use altgrad_conformance::{
    Verdict,
    optimizers::{OptimizerSubject, checks},
};
use altgrad_plugin_api::{
    Config, ConfigValue, Descriptor, FormatSpec, Grid, MapOp, Optimizer, OptionSpec, ParamInfo, PluginError,
    Scope, ServiceStep, StateSpec, Step, ZipOp, adapters::optimizer_object,
};

/// Gradient descent with momentum, and with one fault.
struct Faulty<const FAULT: u8> {
    nesterov: bool,
    calls: AtomicU32,
}

const SOUND: u8 = 0;
const HIDES_NAN: u8 = 1;
const COUNTS_CALLS: u8 = 2;
const NEEDS_THE_WHOLE: u8 = 3;
const PANICS_ON_NOTHING: u8 = 4;
const OTHER_STATES: u8 = 5;
const UNKNOWN_SCOPE: u8 = 6;
const STANDS_STILL: u8 = 7;
const GROWS: u8 = 8;
const PANICS_ON_NAN: u8 = 9;
const TWICE: u8 = 10;
const BAD_DEFAULT: u8 = 11;
const PANICS_WHEN_MADE: u8 = 12;
const SERVED: u8 = 13;
const OTHER_RULE: u8 = 14;
const REFUSES_TABLES: u8 = 15;
const OTHER_SCALES: u8 = 16;
const NEEDS_GRID: u8 = 17;
const PANICS_BY_CHOICE: u8 = 18;
const HIDES_NAN_BY_CHOICE: u8 = 19;
const REFUSES_A_LIMIT: u8 = 20;

impl<const FAULT: u8> Faulty<FAULT> {
    fn refuses(grid: Option<Grid<'_>>) -> bool {
        match FAULT {
            REFUSES_TABLES => grid.is_some_and(|grid| matches!(grid.spec, FormatSpec::Table(_))),
            NEEDS_GRID => grid.is_none(),
            _ => false,
        }
    }
}

impl<const FAULT: u8> Faulty<FAULT> {
    const MOMENTUM: OptionSpec = OptionSpec::float("momentum", if FAULT == BAD_DEFAULT { 2.0 } else { 0.5 })
        .range(0.0, 1.0)
        .help("memory");
}

impl<const FAULT: u8> Optimizer for Faulty<FAULT> {
    const DESCRIPTOR: Descriptor = Descriptor::optimizer("faulty", "1", "momentum").options(&[
        Self::MOMENTUM,
        OptionSpec::bool("nesterov", false).help("step along momentum and gradient"),
    ]);

    fn new(config: &Config) -> Result<Self, PluginError> {
        let momentum = config.float("momentum")?;
        assert!(FAULT != PANICS_WHEN_MADE || momentum < 1.0, "never forgets");
        if FAULT == REFUSES_A_LIMIT && momentum == 1.0 {
            return Err(PluginError::config("`momentum` must be below 1"));
        }
        Ok(Self { nesterov: config.bool("nesterov")?, calls: AtomicU32::new(0) })
    }

    fn states(&self, _: &ParamInfo<'_>) -> Vec<StateSpec> {
        let call = self.calls.fetch_add(u32::from(FAULT == OTHER_STATES), Ordering::Relaxed);
        let first = StateSpec::zeros(&format!("velocity{call}"));
        if FAULT == TWICE { vec![first.clone(), first] } else { vec![first] }
    }

    fn scope(&self, param: &ParamInfo<'_>) -> Scope {
        match FAULT {
            UNKNOWN_SCOPE => Scope(9),
            SERVED if param.rank() == 2 => Scope::SERVICES,
            _ => Scope::ELEMENTS,
        }
    }

    fn rule(&self, _: &ParamInfo<'_>, grid: Option<Grid<'_>>) -> Result<String, PluginError> {
        if Self::refuses(grid) {
            return Err(PluginError::unsupported("no tables"));
        }
        let call = self.calls.fetch_add(u32::from(FAULT == OTHER_RULE), Ordering::Relaxed);
        Ok(format!("rule {call}"))
    }

    fn step(&self, step: Step<'_>) -> Result<(), PluginError> {
        let Step { param, grad, states, grid, .. } = step;
        assert!(!Self::refuses(grid), "it said so");
        // The scale of the call's first element, applied to all of them.
        let scale = grid.filter(|_| FAULT == OTHER_SCALES).map_or(1.0, |grid| grid.scales.of(0)[0]);
        let call = self.calls.fetch_add(u32::from(FAULT == COUNTS_CALLS), Ordering::Relaxed);
        assert!(FAULT != PANICS_BY_CHOICE || !self.nesterov, "not written yet");
        assert!(FAULT != PANICS_ON_NOTHING || !param.is_empty(), "nothing to do");
        assert!(FAULT != PANICS_ON_NAN || grad.iter().all(|g| !g.is_nan()), "NaN");
        let mean = param.iter().sum::<f32>() / param.len() as f32;
        for ((w, &g), v) in param.iter_mut().zip(grad).zip(states[0].iter_mut()) {
            let hides = FAULT == HIDES_NAN || (FAULT == HIDES_NAN_BY_CHOICE && self.nesterov);
            let g = if hides { g.max(-1e9) } else { g };
            *v = 0.5 * *v + g;
            match FAULT {
                STANDS_STILL => {}
                GROWS => *w *= 1e6,
                NEEDS_THE_WHOLE => *w -= 0.01 * (*v + mean),
                _ => *w -= 0.01 * scale * *v + call as f32 * 1e-4,
            }
        }
        Ok(())
    }

    fn step_with_services(&self, step: ServiceStep<'_>) -> Result<(), PluginError> {
        let step = step.single()?;
        step.states[0].assign(&step.states[0].blend(0.5, &step.grad, 1.0)?)?;
        step.param.assign(&step.param.blend(1.0, &step.states[0], -0.01)?)
    }
}

const FORGETS_SHARED: u8 = 1;
const SHARED_WITHOUT_SHAPE: u8 = 2;
const ALONE_WITH_SHAPE: u8 = 3;
const TOO_LARGE: u8 = 4;
const NO_EVALUATION: u8 = 5;
const PANICS_AT_THE_SECOND: u8 = 6;
const GROWS_TOGETHER: u8 = 7;

/// Gradient descent over all parameters together, whose rate falls with a count of updates; with one fault.
struct Grouped<const FAULT: u8> {
    calls: AtomicU32,
}

impl<const FAULT: u8> Optimizer for Grouped<FAULT> {
    const DESCRIPTOR: Descriptor = Descriptor::optimizer("grouped", "1", "descent of all");

    fn new(_: &Config) -> Result<Self, PluginError> {
        Ok(Self { calls: AtomicU32::new(0) })
    }

    fn states(&self, param: &ParamInfo<'_>) -> Vec<StateSpec> {
        let shape = match FAULT {
            TOO_LARGE => vec![1 << 16; 3],
            ALONE_WITH_SHAPE => vec![3],
            _ => vec![param.shape.first().copied().unwrap_or(1)],
        };
        vec![StateSpec::zeros("rows").of_shape(&shape)]
    }

    fn shared_states(&self) -> Vec<StateSpec> {
        let count = StateSpec::zeros("count");
        vec![if FAULT == SHARED_WITHOUT_SHAPE { count } else { count.of_shape(&[]) }]
    }

    fn evaluations(&self) -> u32 {
        match FAULT {
            NO_EVALUATION => 0,
            PANICS_AT_THE_SECOND => 2,
            _ => 1,
        }
    }

    fn scope(&self, _: &ParamInfo<'_>) -> Scope {
        if FAULT == ALONE_WITH_SHAPE { Scope::ELEMENTS } else { Scope::GROUP }
    }

    fn step(&self, step: Step<'_>) -> Result<(), PluginError> {
        step.param.iter_mut().zip(step.grad).for_each(|(w, g)| *w -= 0.01 * g);
        Ok(())
    }

    fn step_with_services(&self, step: ServiceStep<'_>) -> Result<(), PluginError> {
        assert!(step.evaluation == 1, "not written yet");
        let [count] = step.shared.as_slice() else {
            return Err(PluginError::shape("one state of all is due"));
        };
        if FAULT == FORGETS_SHARED {
            let calls = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
            count.assign(&step.services.full([1, 1], calls as f32)?)?;
        } else {
            count.assign(&count.affine(1.0, 1.0)?)?;
        }
        let rate = count.map(MapOp::RECIPROCAL)?.affine(0.1, 0.0)?;
        // Infinite from the fifteenth update on.
        let rate = if FAULT == GROWS_TOGETHER { count.affine(6.0, 0.0)?.map(MapOp::EXP)? } else { rate };
        for param in &step.params {
            let change = param.grad.zip(ZipOp::MUL, &rate)?;
            param.param.assign(&param.param.blend(1.0, &change, -1.0)?)?;
        }
        Ok(())
    }
}

/// Names of the checks that an optimizer does not pass.
fn failed<const FAULT: u8>() -> Vec<&'static str> {
    failed_of::<Faulty<FAULT>>()
}

fn failed_of<O: Optimizer>() -> Vec<&'static str> {
    let subject = OptimizerSubject::new(O::DESCRIPTOR, optimizer_object::<O>).unwrap();
    let passed = |run: fn(&OptimizerSubject) -> altgrad_conformance::CheckResult| {
        matches!(run(&subject), Ok(Verdict::Passed | Verdict::Skipped(_)))
    };
    checks().iter().filter(|check| !passed(check.run)).map(|check| check.name).collect()
}

#[test]
fn sound_optimizers_pass_everything() {
    assert_eq!(failed::<SOUND>(), [""; 0]);
    assert_eq!(failed::<SERVED>(), [""; 0]);
    assert_eq!(failed::<REFUSES_TABLES>(), [""; 0]);
    assert_eq!(failed::<NEEDS_GRID>(), [""; 0]);
    assert_eq!(failed::<REFUSES_A_LIMIT>(), [""; 0]);
}

#[test]
fn each_fault_is_found() {
    assert_eq!(failed::<HIDES_NAN>(), ["not_finite"]);
    assert!(failed::<COUNTS_CALLS>().contains(&"repeatable"));
    assert_eq!(failed::<NEEDS_THE_WHOLE>(), ["parts", "random_steps"]);
    assert_eq!(failed::<PANICS_ON_NOTHING>(), ["shapes"]);
    assert!(failed::<OTHER_STATES>().contains(&"states"));
    assert!(failed::<UNKNOWN_SCOPE>().contains(&"scope"));
    // An optimizer that never moves hides NaN, too.
    assert_eq!(failed::<STANDS_STILL>(), ["moves", "not_finite"]);
    assert!(failed::<GROWS>().contains(&"finite"));
    assert_eq!(failed::<PANICS_ON_NAN>(), ["not_finite"]);
    assert!(failed::<TWICE>().contains(&"states"));
    assert_eq!(failed::<BAD_DEFAULT>(), ["descriptor"]);
    assert_eq!(failed::<PANICS_WHEN_MADE>(), ["options"]);
    assert!(failed::<OTHER_RULE>().contains(&"rule"));
    assert_eq!(failed::<PANICS_BY_CHOICE>(), ["choices"]);
    assert_eq!(failed::<HIDES_NAN_BY_CHOICE>(), ["choices"]);
    // One scale for a whole call: parts that begin in another block step otherwise.
    assert_eq!(failed::<OTHER_SCALES>(), ["parts", "random_steps"]);
}

#[test]
fn faults_of_optimizers_over_several_parameters_are_found() {
    assert_eq!(failed_of::<Grouped<SOUND>>(), [""; 0]);
    // A count that is no state is lost by a resume.
    let forgets = failed_of::<Grouped<FORGETS_SHARED>>();
    assert!(forgets.contains(&"group") && forgets.contains(&"repeatable"), "{forgets:?}");
    assert!(failed_of::<Grouped<SHARED_WITHOUT_SHAPE>>().contains(&"states"));
    assert!(failed_of::<Grouped<ALONE_WITH_SHAPE>>().contains(&"states"));
    assert!(failed_of::<Grouped<TOO_LARGE>>().contains(&"states"));
    assert_eq!(failed_of::<Grouped<NO_EVALUATION>>(), ["states"]);
    assert!(failed_of::<Grouped<PANICS_AT_THE_SECOND>>().contains(&"group"));
    assert!(failed_of::<Grouped<GROWS_TOGETHER>>().contains(&"group"));
}

#[test]
fn a_choice_that_fails_is_named() {
    let (descriptor, make) =
        (Faulty::<PANICS_BY_CHOICE>::DESCRIPTOR, optimizer_object::<Faulty<PANICS_BY_CHOICE>>);
    let subject = OptimizerSubject::new(descriptor, make).unwrap();
    let choices = checks().iter().find(|check| check.name == "choices").unwrap();
    let fault = (choices.run)(&subject).unwrap_err();
    assert!(fault.starts_with("with `nesterov` = Bool(true): finite: "), "{fault}");
    assert!(fault.ends_with(": not written yet"), "{fault}");
    // The user's options are not varied.
    let given = subject.with_options([("nesterov".to_owned(), ConfigValue::Bool(false))]).unwrap();
    assert_eq!((choices.run)(&given), Ok(Verdict::Passed));
}
