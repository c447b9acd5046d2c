//! AdamW against PyTorch's own numbers, a plain f64 reference, and its edges.
#![allow(clippy::unwrap_used)]

use altgrad_optimizer_kit::testing::{Param, assert_close, numbers, optimizer, recorded_rate, replay};
use altgrad_plugin_api::{ConfigValue, StepScalars};

use super::*;

fn adamw(given: &[(&str, ConfigValue)]) -> Result<AdamW, PluginError> {
    optimizer(given)
}

/// The recorded run's header describes its origin.
#[test]
fn a_hundred_steps_of_pytorch() {
    let optimizer = adamw(&[]).unwrap();
    let shapes: [(&str, &[u64]); 2] = [("matrix", &[3, 4]), ("vector", &[12])];
    let replayed = replay(include_str!("../tests/data/torch_adamw.txt"), &shapes, |_, param, t, grad| {
        param.step(&optimizer, recorded_rate(1e-3, t), t, grad)
    });
    replayed.unwrap().assert(10, 1e-6);
}

/// The textbook formula, all in f64: w - lr * m_hat / (sqrt(v_hat) + eps) - lr * wd * w.
fn reference_step(state: &mut [f64; 3], g: f64, lr: f64, wd: f64, t: i32) {
    let [w, m, v] = state;
    *m = 0.9 * *m + 0.1 * g;
    *v = 0.95 * *v + 0.05 * g * g;
    let (m_hat, v_hat) = (*m / (1.0 - 0.9f64.powi(t)), *v / (1.0 - 0.95f64.powi(t)));
    *w -= lr * m_hat / (v_hat.sqrt() + 1e-8) + lr * wd * *w;
}

#[test]
fn a_hundred_steps_of_the_formula() {
    for (shape, wd) in [(vec![4, 5], 0.1), (vec![20], 0.0)] {
        let optimizer = adamw(&[]).unwrap();
        let start: Vec<f32> = (0..20).map(|i| (i as f32 - 9.5) * 0.1).collect();
        let mut param = Param::new(&shape, &start);
        let mut reference: Vec<[f64; 3]> = start.iter().map(|&w| [f64::from(w), 0.0, 0.0]).collect();
        for t in 1..=100 {
            let grad: Vec<f32> =
                (0..20).map(|i| ((i * 37 + t * 101) as f32).sin() * 10f32.powi(i % 5 - 3)).collect();
            param.step(&optimizer, 1e-3, t as u64, &grad).unwrap();
            for (state, &g) in reference.iter_mut().zip(&grad) {
                reference_step(state, f64::from(g), 1e-3, wd, t);
            }
        }
        let expected: Vec<f32> = reference.iter().map(|state| state[0] as f32).collect();
        assert_close(&param.w, &expected, 1e-5, "after 100 steps");
    }
}

#[test]
fn decay_is_for_matrices_unless_asked() {
    let rows = [(false, vec![2], 1.0), (false, vec![2, 1], 0.9), (false, vec![], 1.0), (true, vec![2], 0.9)];
    for (decay_1d, shape, factor) in rows {
        let optimizer = adamw(&[("decay_1d", ConfigValue::Bool(decay_1d))]).unwrap();
        let mut param = Param::new(&shape, &[2.0, -3.0]);
        param.step(&optimizer, 1.0, 1, &[0.0, 0.0]).unwrap();
        // A zero gradient moves nothing: 0 / (0 + eps) = 0, and only decay remains.
        assert_eq!(param.w, [2.0 * factor, -3.0 * factor], "decay_1d {decay_1d}, shape {shape:?}");
        assert_eq!(param.states, [[0.0; 2]; 2]);
    }
}

#[test]
fn the_first_step_has_the_length_of_the_learning_rate() {
    let optimizer = adamw(&[("weight_decay", ConfigValue::Float(0.0))]).unwrap();
    let mut param = Param::new(&[1, 3], &[0.0; 3]);
    param.step(&optimizer, 0.01, 1, &[5.0, -1e-3, 1e3]).unwrap();
    assert_close(&param.w, &[-0.01, 0.01, -0.01], 2e-5, "first step");
}

#[test]
fn a_nan_gradient_is_not_hidden() {
    let mut param = Param::new(&[2], &[1.0, 1.0]);
    param.step(&adamw(&[]).unwrap(), 0.1, 1, &[f32::NAN, 0.0]).unwrap();
    assert!(param.w[0].is_nan() && param.w[1] == 1.0);
}

#[test]
fn impossible_calls_are_refused() {
    for name in ["beta1", "beta2"] {
        let error = adamw(&[(name, ConfigValue::Float(1.0))]).unwrap_err();
        assert_eq!(error.message, format!("`{name}` must be below 1, found 1"));
    }
    let optimizer = adamw(&[]).unwrap();
    let mut param = Param::new(&[2], &[1.0, 1.0]);
    assert!(param.step(&optimizer, 0.1, 0, &[0.0; 2]).is_err());
    let error = param.step(&optimizer, 0.1, 1, &[0.0; 3]).unwrap_err();
    assert_eq!(error.message, "`w` has 2 elements, gradient and states [3, 2, 2]");
    let info = ParamInfo::new("w", &[2u64]);
    assert_eq!(optimizer.states(&info).len(), 2);
    let scalars = StepScalars::new(0.1, 1);
    let step = Step { info, param: &mut param.w, grad: &[0.0; 2], states: &mut [], scalars, grid: None };
    assert_eq!(optimizer.step(step).unwrap_err().message, "`w` needs 2 states, has 0");
}

#[test]
fn parts_of_a_parameter_step_as_the_whole() {
    let (optimizer, start, grad) = (adamw(&[]).unwrap(), numbers(1, 1000), numbers(2, 1000));
    let (mut whole, mut parts) = (Param::new(&[10, 100], &start), Param::new(&[10, 100], &start));
    for update in 1..4 {
        whole.step(&optimizer, 0.1, update, &grad).unwrap();
        parts.step_in_parts(&optimizer, 0.1, update, &grad, 77).unwrap();
    }
    let info = ParamInfo::new("w", &[10u64, 100]);
    assert!(whole == parts && optimizer.scope(&info) == Scope::ELEMENTS);
}

/// One weight, stored in E4M3 without a scale and rounded to nearest after each update, pushed by a constant gradient:
/// each update is a hundredth of a step of the grid. Exact: the same updates without rounding.
#[test]
fn error_feedback_follows_the_exact_trajectory() {
    let rounded = |x: f32| {
        // From 1 to 2 the values of E4M3 are an eighth apart.
        assert!((1.0..=2.0).contains(&x), "{x}");
        (x * 8.0).round_ties_even() / 8.0
    };
    let off = [("weight_decay", ConfigValue::Float(0.0))];
    let on = [off[0].clone(), ("error_feedback", ConfigValue::Bool(true))];
    let (plain, fed) = (adamw(&off).unwrap(), adamw(&on).unwrap());
    let info = ParamInfo { rounded: true, ..ParamInfo::new("w", &[1]) };
    assert_eq!(plain.states(&info).len(), 2);
    assert_eq!(fed.states(&info)[2], StateSpec::rounding_residual("rounding_residual"));
    assert_eq!(fed.states(&ParamInfo::new("w", &[1])).len(), 2, "nothing is rounded");

    let mut exact = Param::new(&[1], &[2.0]);
    let (mut stalled, mut weight) = ([2f32], [2f32]);
    let (mut of_stalled, mut of_weight) = ([[0f32]; 2], [[0f32]; 3]);
    let mut difference = 0.0;
    for update in 1..=600 {
        let scalars = StepScalars::new(0.00125, update);
        exact.step(&plain, scalars.lr, update, &[1.0]).unwrap();
        let mut states: Vec<&mut [f32]> = of_stalled.iter_mut().map(|state| &mut state[..]).collect();
        let (param, grad) = (&mut stalled, &[1.0]);
        plain.step(Step { info, param, grad, states: &mut states, scalars, grid: None }).unwrap();
        stalled[0] = rounded(stalled[0]);
        let mut states: Vec<&mut [f32]> = of_weight.iter_mut().map(|state| &mut state[..]).collect();
        let (param, grad) = (&mut weight, &[1.0]);
        fed.step(Step { info, param, grad, states: &mut states, scalars, grid: None }).unwrap();
        let before = weight[0];
        weight[0] = rounded(before);
        of_weight[2] = [before - weight[0]];
        // The stored value plus the residual is the exact value; the stored one is the nearest to it.
        assert!((weight[0] + of_weight[2][0] - exact.w[0]).abs() < 1e-5, "update {update}");
        assert!((weight[0] - exact.w[0]).abs() <= 1.0 / 16.0 + 1e-5, "update {update}");
        difference += f64::from(weight[0] - exact.w[0]);
    }
    assert_eq!(stalled, [2.0], "nearest rounding alone never moves");
    assert!((exact.w[0] - 1.25).abs() < 1e-3, "{}", exact.w[0]);
    assert!((difference / 600.0).abs() < 2e-3, "mean difference {}", difference / 600.0);
}
