//! SOAP against its algorithm in f64, its linear algebra, and its edges.
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
        param.step(if name == "both" { &both } else { &columns }, recorded_rate(1e-3, t), t, grad)
    });
    replayed.unwrap().assert(10, 2e-5);
}

fn dense(rows: usize, columns: usize, seed: u64) -> Dense {
    Dense::from_numbers(rows, columns, numbers(seed, rows * columns).into_iter().map(f64::from))
}

fn assert_orthogonal(q: &Dense) {
    let product = q.transposed().times(q);
    let identity = Dense::identity(q.rows);
    for (found, expected) in product.values.iter().zip(&identity.values) {
        assert!((found - expected).abs() < 1e-12, "{q:?}");
    }
}

/// Of full rank, of rank 3, and zero.
fn symmetric() -> [Dense; 3] {
    let (full, thin) = (dense(8, 8, 1), dense(8, 3, 2));
    [full.times(&full.transposed()), thin.times(&thin.transposed()), Dense { values: vec![0.0; 64], ..full }]
}

#[test]
fn eigenvectors_make_a_matrix_diagonal() {
    for a in symmetric() {
        let q = a.eigenvectors().unwrap();
        assert_orthogonal(&q);
        let turned = q.transposed().times(&a).times(&q);
        let off = (0..64).filter(|i| i / 8 != i % 8).map(|i| turned.values[i].abs()).fold(0.0, f64::max);
        assert!(off < 1e-12, "{off:e}");
        let values: Vec<f64> = turned.values.iter().step_by(9).copied().collect();
        assert!(values.is_sorted_by(|a, b| a + 1e-12 >= *b), "{values:?}");
    }
}

#[test]
fn the_orthogonal_factor_is_that_of_qr() {
    for a in symmetric() {
        let q = a.orthonormal();
        assert_orthogonal(&q);
        // R is upper triangular, without negative numbers on its diagonal, and QR is A.
        let r = q.transposed().times(&a);
        for (i, x) in r.values.iter().enumerate() {
            assert!(i / 8 <= i % 8 || x.abs() < 1e-11, "{i}: {x:e}");
            assert!(i / 8 != i % 8 || *x > -1e-11, "{i}: {x:e}");
        }
        let again = q.times(&r);
        assert!(again.values.iter().zip(&a.values).all(|(x, y)| (x - y).abs() < 1e-11));
    }
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
    param.step(&soap, 1.0, 1, &grad).unwrap();
    let expected: Vec<f32> = grad.iter().map(|g| -g / 5.0).collect();
    assert_close(&param.w, &expected, 1e-2, "first step");
}

/// Where eigenvalues pass each other, directions and second moments take the new order together.
#[test]
fn directions_are_sorted_by_eigenvalue() {
    for interval in ["update_interval", "reset_interval"] {
        let soap = soap(&[(interval, Integer(2)), ("shampoo_beta", Float(0.0))]);
        let mut param = Param::new(&[2, 2], &[0.0; 4]);
        param.step(&soap, 0.1, 1, &[2.0, 0.0, 0.0, 1.0]).unwrap();
        param.step(&soap, 0.1, 2, &[1.0, 0.0, 0.0, 3.0]).unwrap();
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
        run.step(&first, 0.1, update, &numbers(update, 18)).unwrap();
        if update == 8 {
            resumed = run.clone();
        } else if update > 8 {
            resumed.step(&second, 0.1, update, &numbers(update, 18)).unwrap();
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
    assert!(param.step(&soap, 0.1, 0, &[0.0; 4]).is_err());
    assert!(param.step(&soap, 0.1, 1, &[0.0; 5]).is_err());
    param.step(&soap, 0.1, 1, &[1.0, f32::NAN, 0.0, 0.0]).unwrap();
    assert!(param.w[1].is_nan());
    for name in ["beta1", "beta2", "shampoo_beta"] {
        let error = optimizer::<Soap>(&[(name, Float(1.0))]).unwrap_err();
        assert_eq!(error.message, format!("`{name}` must be below 1, found 1"));
    }
}
