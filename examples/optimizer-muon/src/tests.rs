//! Muon against its formulas in f64, the orthogonality of its steps, and what it leaves to AdamW.
#![allow(clippy::unwrap_used)]

use altgrad_plugin_api::{
    ConfigValue, StepScalars,
    services::plain::{self, PlainMatrix},
};

use super::*;

fn muon(given: &[(&str, ConfigValue)]) -> Muon {
    let given = given.iter().map(|(name, value)| (name.to_string(), value.clone()));
    Muon::new(&Config::resolve(&Muon::DESCRIPTOR.options, given).unwrap()).unwrap()
}

/// Numbers that look random and normal enough: sums of three uniform ones.
fn random(shape: [usize; 2], seed: u64) -> PlainMatrix {
    let mut state = seed;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
    };
    let values = (0..shape[0] * shape[1]).map(|_| uniform() + uniform() + uniform()).collect();
    PlainMatrix { shape, values }
}

/// Rows of f64.
type Wide = Vec<Vec<f64>>;

fn wide(x: &PlainMatrix) -> Wide {
    x.values.chunks(x.shape[1]).map(|row| row.iter().map(|&x| f64::from(x)).collect()).collect()
}

fn product(a: &Wide, b: &Wide) -> Wide {
    let column = |j: usize, row: &Vec<f64>| (0..b.len()).map(|k| row[k] * b[k][j]).sum();
    a.iter().map(|row| (0..b[0].len()).map(|j| column(j, row)).collect()).collect()
}

fn transposed(a: &Wide) -> Wide {
    (0..a[0].len()).map(|j| a.iter().map(|row| row[j]).collect()).collect()
}

/// `x` times a factor, `y` times another, added.
fn mixed(x: &Wide, a: f64, y: &Wide, b: f64) -> Wide {
    x.iter().zip(y).map(|(x, y)| x.iter().zip(y).map(|(x, y)| a * x + b * y).collect()).collect()
}

/// The reference code's function, which turns tall matrices round.
fn newton_schulz(g: &Wide) -> Wide {
    let tall = g.len() > g[0].len();
    let mut x = if tall { transposed(g) } else { g.clone() };
    let norm = x.iter().flatten().map(|x| x * x).sum::<f64>().sqrt() + 1e-7;
    x = mixed(&x, 1.0 / norm, &x, 0.0);
    for _ in 0..5 {
        let gram = product(&x, &transposed(&x));
        let mix = mixed(&gram, -4.7750, &product(&gram, &gram), 2.0315);
        x = mixed(&x, 3.4445, &product(&mix, &x), 1.0);
    }
    if tall { transposed(&x) } else { x }
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

const SHAPES: [[usize; 2]; 4] = [[6, 6], [5, 12], [12, 5], [1, 7]];

/// Ten steps, by the plugin and by the formulas.
#[test]
fn ten_steps_of_the_formulas() {
    let muon = muon(&[]);
    for shape in SHAPES {
        let mut param = random(shape, 1);
        let mut states = [PlainMatrix { shape, values: vec![0.0; shape[0] * shape[1]] }];
        let (mut w, mut m) = (wide(&param), wide(&states[0]));
        let longest = shape[0].max(shape[1]) as f64;
        for update in 1..=10 {
            let (mut grad, lr) = (random(shape, 100 + update), 1e-2);
            let scalars = StepScalars { lr, update };
            plain::step(&muon, "w", [&mut param, &mut grad], &mut states, scalars, None).unwrap();
            let g = wide(&grad);
            m = mixed(&m, 0.95, &g, 0.05);
            let step = newton_schulz(&mixed(&g, 0.05, &m, 0.95));
            w = mixed(&w, 1.0 - lr * 0.1, &step, -lr * 0.2 * longest.sqrt());
        }
        for (found, expected) in param.values.iter().zip(w.iter().flatten()) {
            assert!((f64::from(*found) - expected).abs() < 2e-5, "{shape:?}: {found}, {expected}");
        }
    }
}

/// One step from zero without decay is the step itself.
fn step_of(grad: &PlainMatrix) -> Wide {
    let zeros = || PlainMatrix { shape: grad.shape, values: vec![0.0; grad.values.len()] };
    let (mut param, mut states, mut grad) = (zeros(), [zeros()], grad.clone());
    let scalars = StepScalars { lr: -1.0, update: 1 };
    plain::step(&muon(&[]), "w", [&mut param, &mut grad], &mut states, scalars, None).unwrap();
    let longest = grad.shape[0].max(grad.shape[1]) as f64;
    mixed(&wide(&param), 1.0 / (0.2 * longest.sqrt()), &wide(&param), 0.0)
}

/// Each singular value goes its own way through the polynomial; the known band is 0.7 to 1.2 for those not too small.
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
fn vectors_and_embeddings_are_adamws() {
    let muon = muon(&[]);
    let cases = [
        ("w", vec![3, 2], true),
        ("wte.weight", vec![3, 2], false),
        ("b", vec![6], false),
        ("c", vec![1, 2, 3], false),
    ];
    for (name, shape, by_muon) in cases {
        let shape: Vec<u64> = shape;
        let info = ParamInfo::new(name, &shape);
        assert_eq!(muon.scope(&info), if by_muon { Scope::SERVICES } else { Scope::ELEMENTS });
        assert_eq!(muon.states(&info).len(), if by_muon { 1 } else { 2 });
    }
    // A first step has the length of the learning rate.
    let (mut param, mut mean, mut square) = ([1.0f32, 1.0], [0.0; 2], [0.0; 2]);
    let info = ParamInfo::new("b", &[2u64]);
    let states: &mut [&mut [f32]] = &mut [&mut mean, &mut square];
    let scalars = StepScalars { lr: 0.1, update: 1 };
    muon.step(Step { info, param: &mut param, grad: &[3.0, -1e-3], states, scalars, grid: None }).unwrap();
    assert!((param[0] - 0.9).abs() < 1e-5 && (param[1] - 1.1).abs() < 1e-5, "{param:?}");
}
