//! Madam against its algorithm in f64, and its edges.
#![allow(clippy::unwrap_used)]

use altgrad_optimizer_kit::testing::{
    Param, assert_close, assert_elements_step_alone, numbers, optimizer, recorded_rate, replay,
};
use altgrad_plugin_api::ConfigValue::{Bool, Float, Text};

use super::*;

fn madam(given: &[(&str, altgrad_plugin_api::ConfigValue)]) -> Madam {
    optimizer(given).unwrap()
}

/// The recorded run's header describes its origin.
#[test]
fn a_hundred_steps_of_the_algorithm() {
    let [natural, binary] = ["e", "2"].map(|base| madam(&[("base", Text(base.into()))]));
    let shapes: [(&str, &[u64]); 3] = [("natural", &[3, 4]), ("binary", &[3, 4]), ("vector", &[12])];
    let replayed = replay(include_str!("../tests/data/numpy_madam.txt"), &shapes, |name, param, t, grad| {
        param.step(if name == "natural" { &natural } else { &binary }, recorded_rate(0.01, t), t, grad)
    });
    replayed.unwrap().assert(15, 2e-5);
}

#[test]
fn elements_step_alone_under_a_given_bound() {
    let bound = ("weight_bound_unit", Text("one".into()));
    assert_elements_step_alone::<Madam>(std::slice::from_ref(&bound)).unwrap();
    assert_elements_step_alone::<Madam>(&[bound, ("vectors", Text("multiplicative".into()))]).unwrap();
    assert_elements_step_alone::<Madam>(&[("weight_bound", Float(0.0))]).unwrap();
}

/// One weight after two steps of equal gradients, whose normalised length is 1.
fn stepped(given: &[(&str, altgrad_plugin_api::ConfigValue)], shape: &[u64], from: f32, g: f32) -> f32 {
    let (madam, mut param) = (madam(given), Param::new(shape, &[from]));
    for update in 1..=2 {
        param.step(&madam, 0.125, update, &[g]).unwrap();
    }
    param.w[0]
}

#[test]
fn steps_are_factors_for_matrices_and_terms_for_vectors() {
    let natural = [("base", Text("e".into()))];
    let factor = 0.25f32.exp2();
    let rows: [(f32, f32, f32); 4] =
        [(0.5, 3.0, 0.5 / factor), (0.5, -3.0, 0.5 * factor), (-0.5, 1e-3, -0.5 * factor), (0.0, 1.0, 0.0)];
    for (from, g, expected) in rows {
        assert_close(&[stepped(&[], &[1, 1], from, g)], &[expected], 1e-6, "base 2");
    }
    assert_close(&[stepped(&natural, &[1, 1], 0.5, -3.0)], &[0.5 * 0.25f32.exp()], 1e-6, "base e");
    assert_close(&[stepped(&[], &[1], 0.0, 2.0)], &[-0.25], 1e-6, "a vector");
    let multiplicative = [("vectors", Text("multiplicative".into()))];
    assert_eq!(stepped(&multiplicative, &[1], 0.0, 2.0), 0.0);
    assert_eq!(stepped(&[], &[1, 1], 0.3, 0.0), 0.3, "no gradient, no step");
    assert!(stepped(&[], &[1, 1], 0.3, f32::NAN).is_nan());
}

#[test]
fn weights_stay_within_their_bound() {
    let one = ("weight_bound_unit", Text("one".into()));
    assert_eq!(stepped(&[("weight_bound", Float(0.55)), one], &[1, 1], 0.5, -1.0), 0.55);
    // The root mean square of one weight is its magnitude.
    assert_eq!(stepped(&[("weight_bound", Float(1.0))], &[1, 1], -0.5, 1.0), -0.5);
}

#[test]
fn a_nan_weight_spreads_no_further() {
    let mut param = Param::new(&[1, 3], &[f32::NAN, 0.5, -0.5]);
    param.step(&madam(&[]), 0.1, 1, &[1.0, 0.0, 0.0]).unwrap();
    assert!(param.w[0].is_nan() && param.w[1..] == [0.5, -0.5], "{:?}", param.w);
}

/// A logarithmic grid of eight values a binade: with a rate of 1/8 every step ends on the grid.
#[test]
fn whole_steps_stay_on_a_logarithmic_grid() {
    let madam = madam(&[("whole_steps", Bool(true)), ("weight_bound", Float(0.0))]);
    let start: Vec<f32> = (0..100).map(|k| (k as f32 / 8.0 - 6.0).exp2()).collect();
    let mut param = Param::new(&[10, 10], &start);
    for update in 1..=10 {
        let grad: Vec<f32> = numbers(update, 100).iter().map(|x| x * x * x).collect();
        param.step(&madam, 0.125, update, &grad).unwrap();
    }
    let codes: Vec<f32> = param.w.iter().map(|w| w.log2() * 8.0).collect();
    assert!(codes.iter().all(|code| (code - code.round()).abs() < 1e-3), "{codes:?}");
    assert!(codes.iter().zip(0..).any(|(code, k)| (code.round() - (k - 48) as f32).abs() > 1.0));
}

/// The bound that was measured in the first update is a state: a run that resumes does not measure again.
#[test]
fn the_measured_bound_outlives_a_resume() {
    let (first, second) = (madam(&[]), madam(&[]));
    let mut run = Param::new(&[10, 10], &numbers(1, 100));
    for update in 1..=5 {
        run.step(&first, 0.1, update, &numbers(update, 100)).unwrap();
    }
    let mut resumed = run.clone();
    for update in 6..=10 {
        run.step(&first, 0.1, update, &numbers(update, 100)).unwrap();
        resumed.step(&second, 0.1, update, &numbers(update, 100)).unwrap();
    }
    assert_eq!(run, resumed);
    let bound = (3.0 * root_mean_square(&numbers(1, 100))) as f32;
    assert_eq!(run.states[1], [bound; 100]);
}
