//! Lion against its algorithm in f64, and its edges.
#![allow(clippy::unwrap_used)]

use altgrad_optimizer_kit::testing::{Param, assert_elements_step_alone, optimizer, recorded_rate, replay};
use altgrad_plugin_api::ConfigValue::Float;

use super::*;

/// The recorded run's header describes its origin.
#[test]
fn a_hundred_steps_of_the_algorithm() {
    let lion: Lion = optimizer(&[]).unwrap();
    let shapes: [(&str, &[u64]); 2] = [("matrix", &[3, 4]), ("vector", &[12])];
    let replayed = replay(include_str!("../tests/data/numpy_lion.txt"), &shapes, |_, param, t, grad| {
        param.step(&lion, recorded_rate(1e-3, t), t, grad)
    });
    // Two units of the last place of the starting weight: steps of 1e-3 are added to weights of 0.1.
    replayed.unwrap().assert(10, 2e-5);
}

#[test]
fn elements_step_alone() {
    assert_elements_step_alone::<Lion>(&[]).unwrap();
}

#[test]
fn a_step_has_the_length_of_the_learning_rate_or_none() {
    let lion: Lion = optimizer(&[("weight_decay", Float(0.0))]).unwrap();
    let mut param = Param::new(&[1, 4], &[0.0; 4]);
    param.step(&lion, 0.25, 1, &[1e-30, -5.0, 0.0, -0.0]).unwrap();
    assert_eq!(param.w, [-0.25, 0.25, 0.0, 0.0]);
}

#[test]
fn a_beta_of_one_is_refused() {
    for name in ["beta1", "beta2"] {
        let error = optimizer::<Lion>(&[(name, Float(1.0))]).unwrap_err();
        assert_eq!(error.message, format!("`{name}` must be below 1, found 1"));
    }
}
