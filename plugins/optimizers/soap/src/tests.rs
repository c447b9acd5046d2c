//! SOAP against its algorithm in f64, and its edges.
#![allow(clippy::unwrap_used)]

use altgrad_optimizer_kit::testing::{Param, assert_close, numbers, optimizer, recorded_rate, replay};
use altgrad_plugin_api::{
    ConfigValue::{self, Float, Integer, TextList},
    StateRole,
};

use super::*;

fn soap(given: &[(&str, ConfigValue)]) -> Soap {
    optimizer(given).unwrap()
}

/// The recorded run's header describes its origin.
#[test]
fn a_hundred_steps_of_the_algorithm() {
    let (both, columns) =
        (soap(&[("eps", Float(1e-4))]), soap(&[("eps", Float(1e-4)), ("max_extent", Integer(3))]));
    let shapes: [(&str, &[u64]); 2] = [("both", &[4, 3]), ("columns", &[4, 3])];
    let replayed = replay(include_str!("../tests/data/numpy_soap.txt"), &shapes, |name, param, t, grad| {
        let soap = if name == "both" { &both } else { &columns };
        param.step_with_services(soap, StepScalars::new(recorded_rate(1e-3, t), t), grad)
    });
    replayed.unwrap().assert(10, 2e-5);
}

/// With factors on no axis there is no eigenbasis.
#[test]
fn without_factors_it_is_adamw() {
    let soap = soap(&[("max_extent", Integer(0))]);
    let (mut found, mut expected) =
        (Param::new(&[4, 3], &numbers(1, 12)), Param::new(&[4, 3], &numbers(1, 12)));
    let info = ParamInfo::new("w", &[4u64, 3]);
    assert_eq!((soap.scope(&info), soap.states(&info).len()), (Scope::ELEMENTS, 2));
    let excluded = optimizer::<Soap>(&[("exclude", TextList(vec!["w".into()].into()))]).unwrap();
    for update in 1..=5 {
        found.step(&soap, 0.01, update, &numbers(update, 12)).unwrap();
        expected.step(&excluded, 0.01, update, &numbers(update, 12)).unwrap();
    }
    assert_eq!(found, expected);
}

/// A gradient of rank 1 is one direction of the eigenbasis, along which a first step has the length of the learning
/// rate.
#[test]
fn a_first_step_along_one_direction_has_length_one() {
    let soap = soap(&[("weight_decay", Float(0.0)), ("eps", Float(1e-3))]);
    let (u, v) = ([0.6f32, 0.8], [1.0f32 / 3.0, 2.0 / 3.0, -2.0 / 3.0]);
    let grad: Vec<f32> = (0..6).map(|i| 5.0 * u[i / 3] * v[i % 3]).collect();
    let mut param = Param::new(&[2, 3], &[0.0; 6]);
    param.step_with_services(&soap, StepScalars::new(1.0, 1), &grad).unwrap();
    let expected: Vec<f32> = grad.iter().map(|g| -g / 5.0).collect();
    assert_close(&param.w, &expected, 1e-2, "first step");
}

/// Where eigenvalues pass each other, directions and second moments take the new order together.
#[test]
fn directions_are_sorted_by_eigenvalue() {
    for interval in ["update_interval", "reset_interval"] {
        let soap = soap(&[(interval, Integer(2)), ("shampoo_beta", Float(0.0))]);
        let mut param = Param::new(&[2, 2], &[0.0; 4]);
        param.step_with_services(&soap, StepScalars::new(0.1, 1), &[2.0, 0.0, 0.0, 1.0]).unwrap();
        param.step_with_services(&soap, StepScalars::new(0.1, 2), &[1.0, 0.0, 0.0, 3.0]).unwrap();
        // The second direction first: 0.95 (0.05 * 1) + 0.05 * 9, then 0.95 (0.05 * 4) + 0.05 * 1.
        assert_close(&param.states[1], &[0.4975, 0.0, 0.0, 0.24], 1e-6, interval);
        for basis in [3, 5] {
            let magnitudes: Vec<f32> = param.states[basis].iter().map(|x| x.abs()).collect();
            assert_close(&magnitudes, &[0.0, 1.0, 1.0, 0.0], 1e-6, interval);
        }
    }
}

/// Factors and bases are states: a run that resumes, in another instance, has the same bits.
#[test]
fn a_resumed_run_has_the_same_bits() {
    let given = [("update_interval", Integer(3)), ("reset_interval", Integer(7))];
    let (first, second) = (soap(&given), soap(&given));
    let mut run = Param::new(&[9, 2], &numbers(1, 18));
    let mut resumed = run.clone();
    for update in 1..=20 {
        let scalars = StepScalars::new(0.1, update);
        run.step_with_services(&first, scalars, &numbers(update, 18)).unwrap();
        if update == 8 {
            resumed = run.clone();
        } else if update > 8 {
            resumed.step_with_services(&second, scalars, &numbers(update, 18)).unwrap();
        }
    }
    assert_eq!(run, resumed);
}

#[test]
fn states_hold_both_factors_and_bases() {
    let soap = soap(&[("error_feedback", ConfigValue::Bool(true))]);
    let names = |shape: &[u64], name: &str| -> Vec<String> {
        soap.states(&ParamInfo::new(name, shape)).iter().map(|state| state.name.to_string()).collect()
    };
    let moments = ["exp_avg", "exp_avg_sq"];
    assert_eq!(names(&[6], "b"), moments);
    assert_eq!(names(&[6, 2], "wte.weight"), moments);
    let tall = ["factor_rows", "basis_rows", "factor_columns", "basis_columns"];
    assert_eq!(names(&[4, 2], "w"), [&moments[..], &tall].concat());
    assert_eq!(names(&[600, 2], "w"), [&moments[..], &tall[2..]].concat());
    let shape = [4u64, 2];
    let sizes: Vec<_> =
        soap.states(&ParamInfo::new("w", &shape)).iter().map(|it| it.elements(&shape)).collect();
    assert_eq!(sizes, [8, 8, 16, 16, 4, 4].map(Some));
    let rounded = ParamInfo { rounded: true, ..ParamInfo::new("w", &[4u64, 2]) };
    let states = soap.states(&rounded);
    assert_eq!((states.len(), states[6].role), (7, StateRole::ROUNDING_RESIDUAL));
}

#[test]
fn impossible_calls_are_refused_and_a_nan_is_not_hidden() {
    let soap = soap(&[]);
    let mut param = Param::new(&[2, 2], &[1.0; 4]);
    assert!(param.step_with_services(&soap, StepScalars::new(0.1, 0), &[0.0; 4]).is_err());
    param.step_with_services(&soap, StepScalars::new(0.1, 1), &[1.0, f32::NAN, 0.0, 0.0]).unwrap();
    assert!(param.w[1].is_nan());
    for name in ["beta1", "beta2", "shampoo_beta"] {
        let error = optimizer::<Soap>(&[(name, Float(1.0))]).unwrap_err();
        assert_eq!(error.message, format!("`{name}` must be below 1, found 1"));
    }
}
