//! Muon compared with its formulas in f64, the orthogonality of its steps, and the parameters that it leaves to
//! AdamW.
#![allow(clippy::unwrap_used)]

use altgrad_optimizer_kit::testing::{Param, numbers, optimizer, recorded_rate, replay};
use altgrad_plugin_api::{
    ConfigValue::{self, Bool, Text, TextList},
    StateRole,
    services::plain::PlainMatrix,
};

use super::*;

fn muon(given: &[(&str, ConfigValue)]) -> Muon {
    optimizer(given).unwrap()
}

fn random(shape: [usize; 2], seed: u64) -> PlainMatrix {
    PlainMatrix { shape, values: numbers(seed, shape[0] * shape[1]) }
}

const RECORDED: &str = include_str!("../tests/data/numpy_muon.txt");

/// The recorded run's header describes its origin.
#[test]
fn a_hundred_steps_of_the_algorithm() {
    let nesterov = muon(&[]);
    // The kit's parameters are all named `w`.
    let adamw = muon(&[("exclude", TextList(vec!["w".into()].into()))]);
    let heavy = muon(&[("nesterov", Bool(false)), ("scale", Text("spectral".into()))]);
    let shapes: [(&str, &[u64]); 4] =
        [("wide", &[3, 4]), ("tall", &[4, 3]), ("heavy", &[4, 3]), ("wte.weight", &[4, 3])];
    let replayed = replay(RECORDED, &shapes, |name, param, update, grad| {
        let scalars = StepScalars::new(recorded_rate(1e-3, update), update);
        match name {
            "wte.weight" => param.step(&adamw, scalars.lr, update, grad),
            "heavy" => param.step_with_services(&heavy, scalars, grad),
            _ => param.step_with_services(&nesterov, scalars, grad),
        }
    });
    replayed.unwrap().assert(20, 2e-5);
}

/// Rows of f64.
type Wide = Vec<Vec<f64>>;

fn wide(x: &PlainMatrix) -> Wide {
    x.values.chunks(x.shape[1]).map(|row| row.iter().map(|&x| f64::from(x)).collect()).collect()
}

fn transposed(a: &Wide) -> Wide {
    (0..a[0].len()).map(|j| a.iter().map(|row| row[j]).collect()).collect()
}

/// Singular values, by one-sided Jacobi rotations of the rows of the shorter side.
fn singular_values(x: &Wide) -> Vec<f64> {
    let mut rows = if x.len() > x[0].len() { transposed(x) } else { x.clone() };
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    for _ in 0..30 {
        for i in 0..rows.len() {
            for j in i + 1..rows.len() {
                let (a, b, c) = (dot(&rows[i], &rows[i]), dot(&rows[j], &rows[j]), dot(&rows[i], &rows[j]));
                if c.abs() < 1e-14 * (a * b).sqrt() {
                    continue;
                }
                let zeta = (b - a) / (2.0 * c);
                let t = zeta.signum() / (zeta.abs() + (1.0 + zeta * zeta).sqrt());
                let cos = 1.0 / (1.0 + t * t).sqrt();
                for k in 0..rows[i].len() {
                    let (x, y) = (rows[i][k], rows[j][k]);
                    (rows[i][k], rows[j][k]) = (cos * (x - t * y), cos * (t * x + y));
                }
            }
        }
    }
    rows.iter().map(|row| dot(row, row).sqrt()).collect()
}

/// One step from zero without decay is the step itself, in learning rates over the factor of [`Scale::Rms`].
fn step_of(grad: &PlainMatrix) -> Wide {
    let mut param = Param::new(&grad.shape.map(|extent| extent as u64), &vec![0.0; grad.values.len()]);
    param.step_with_services(&muon(&[]), StepScalars::new(-1.0, 1), &grad.values).unwrap();
    let longest = grad.shape[0].max(grad.shape[1]) as f32;
    let values = param.w.iter().map(|x| x / (0.2 * longest.sqrt())).collect();
    wide(&PlainMatrix { shape: grad.shape, values })
}

/// The polynomial acts on each singular value; the known band is 0.7 to 1.2 for those not too small.
#[test]
fn steps_are_nearly_orthogonal() {
    for (seed, shape) in [[8, 8], [10, 25], [25, 10], [3, 40]].into_iter().enumerate() {
        let grad = random(shape, 7 + seed as u64);
        let before = singular_values(&wide(&grad));
        let norm = before.iter().map(|s| s * s).sum::<f64>().sqrt();
        let through = |s: f64| (0..5).fold(s, |s, _| 3.4445 * s - 4.7750 * s.powi(3) + 2.0315 * s.powi(5));
        let mut expected: Vec<f64> = before.iter().map(|s| through(s / norm)).collect();
        let mut found = singular_values(&step_of(&grad));
        expected.sort_by(f64::total_cmp);
        found.sort_by(f64::total_cmp);
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-4, "{shape:?}: {found}, {expected}");
        }
        if before.iter().all(|s| s / norm > 0.02) {
            assert!(found.iter().all(|s| (0.65..1.25).contains(s)), "{shape:?}: {found:?}");
        }
    }
}

#[test]
fn a_step_has_adamws_root_mean_square() {
    let grad = random([16, 48], 3);
    let step = step_of(&grad);
    // Orthogonal rows of norm s around 1: rms = 0.2 sqrt(48) * s / sqrt(48).
    let squares = step.iter().flatten().map(|x| x * x * 0.04 * 48.0).sum::<f64>();
    let rms = (squares / (16.0 * 48.0)).sqrt();
    assert!((0.14..0.24).contains(&rms), "{rms}");
}

#[test]
fn nothing_to_follow_is_no_step_and_a_nan_is_not_hidden() {
    let zeros = PlainMatrix { shape: [2, 3], values: vec![0.0; 6] };
    assert!(step_of(&zeros).iter().flatten().all(|x| *x == 0.0));
    let mut grad = random([2, 3], 1);
    grad.values[4] = f32::NAN;
    assert!(step_of(&grad).iter().flatten().all(|x| x.is_nan()), "a norm spreads it");
}

#[test]
fn vectors_embeddings_and_the_head_are_adamws() {
    let muon = muon(&[("error_feedback", Bool(true))]);
    let rows: [(&str, &[u64], bool); 5] = [
        ("w", &[3, 2], true),
        ("wte.weight", &[3, 2], false),
        ("lm_head.weight", &[3, 2], false),
        ("b", &[6], false),
        ("c", &[1, 2, 3], false),
    ];
    for (name, shape, by_muon) in rows {
        let info = ParamInfo::new(name, shape);
        assert_eq!(muon.scope(&info), if by_muon { Scope::SERVICES } else { Scope::ELEMENTS });
        assert_eq!(muon.states(&info).len(), if by_muon { 1 } else { 2 });
        let scalars = StepScalars::new(0.1, 1);
        assert_eq!(muon.launches(&info, scalars, None).unwrap().is_some(), !by_muon);
        let rounded = ParamInfo { rounded: true, ..info };
        assert_eq!(muon.states(&rounded).last().unwrap().role, StateRole::ROUNDING_RESIDUAL);
        assert!(muon.launches(&rounded, scalars, None).unwrap().is_none());
    }
}

#[test]
fn a_momentum_of_one_is_refused() {
    let error = optimizer::<Muon>(&[("momentum", ConfigValue::Float(1.0))]).unwrap_err();
    assert_eq!(error.message, "`momentum` must be below 1, found 1");
}
