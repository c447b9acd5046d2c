//! The identities that tie the placements to AdamW, lengths of steps in codes, and the effect of rounding on them.
#![allow(clippy::unwrap_used)]

use altgrad_format_kit::{
    random,
    round::{NearestEven, Rounder, Stochastic},
};
use altgrad_optimizer_kit::testing::{Param, numbers, optimizer};
use altgrad_plugin_api::{ConfigValue, Domain, FormatSpec, RandomKey, ValueGrid, grid::minifloat};

use super::*;

mod blocks;
mod recorded;

fn text(value: &str) -> ConfigValue {
    ConfigValue::Text(value.into())
}

fn float(value: f64) -> ConfigValue {
    ConfigValue::Float(value)
}

fn stiff(given: &[(&str, ConfigValue)]) -> StiffnessAdamW {
    optimizer(given).unwrap()
}

/// The canonical formats, E0M7 to E7M0.
fn specs() -> [FormatSpec; 8] {
    [0, 1, 2, 3, 4, 5, 6, 7].map(|e| {
        let domain = [Domain::FIN, Domain::FN, Domain::IEEE][usize::from(e == 4) + 2 * usize::from(e == 5)];
        FormatSpec::Minifloat(minifloat(e, 7 - e, domain).unwrap())
    })
}

/// The same fifty steps on a grid and without one, where the optimizer is plain AdamW.
fn with_and_without_grid(optimizer: &StiffnessAdamW, spec: &FormatSpec, scale: f32) -> [Param; 2] {
    let start = numbers(3, 64);
    let plain = Param::new(&[8, 8], &start);
    let mut params = [plain.clone().on(spec, scale), plain];
    for t in 1..=50 {
        let grad = numbers(100 + t, 64);
        for param in &mut params {
            param.step(optimizer, 1e-3, t, &grad).unwrap();
        }
    }
    params
}

#[test]
fn power_zero_is_adamw_to_the_bit() {
    let optimizer = stiff(&[("placement", text("power")), ("power", float(0.0))]);
    for spec in specs() {
        let [on, plain] = with_and_without_grid(&optimizer, &spec, 1.7);
        assert_eq!((on.w, on.states), (plain.w, plain.states), "{spec:?}");
    }
}

/// Adam's step does not depend on the length of gradients, and a power of two loses no bit.
#[test]
fn pre_on_an_even_grid_is_adamw_to_the_bit() {
    let optimizer = stiff(&[("placement", text("pre")), ("eps", float(1e-30)), ("pre_eps", float(1e-30))]);
    let [_, e1m6, _, _, e4m3, ..] = specs();
    let [on, plain] = with_and_without_grid(&optimizer, &e1m6, 2.0);
    assert_eq!(on.w, plain.w);
    assert_ne!(on.states, plain.states);
    // Another spacing loses bits, and one that changes makes another step.
    for (spec, scale) in [(e1m6, 1.7), (e4m3, 2.0)] {
        let [on, plain] = with_and_without_grid(&optimizer, &spec, scale);
        assert_ne!(on.w, plain.w);
    }
}

/// Gradients times the spacing are as small as AdamW's eps, and would make steps of two thirds of the length.
#[test]
fn pre_has_an_eps_below_gradients_times_the_spacing() {
    let [_, e1m6, ..] = specs();
    let mut param = Param::new(&[1], &[1e-3]).on(&e1m6, 2048.0);
    param.step(&stiff(&[("placement", text("pre"))]), 1e-3, 1, &[1e-3]).unwrap();
    assert!(param.w[0].abs() < 1e-6, "{}", param.w[0]);
}

/// The first step of Adam has length 1 in units of the learning rate: eps = 0, no decay.
fn first_step(given: &[(&str, ConfigValue)], spec: &FormatSpec, scale: f32, w: &[f32], lr: f64) -> Vec<f32> {
    let plain = [("eps", float(1e-30)), ("weight_decay", float(0.0))];
    let optimizer = stiff(&[given, &plain].concat());
    let mut param = Param::new(&[w.len() as u64, 1], w).on(spec, scale);
    let grad: Vec<f32> = (0..w.len()).map(|i| if i % 2 == 0 { 0.1 } else { -7.0 }).collect();
    param.step(&optimizer, lr, 1, &grad).unwrap();
    param.w
}

#[test]
fn post_moves_codes() {
    for spec in specs() {
        let (grid, scale) = (ValueGrid::new(&spec).unwrap(), 0.3f32);
        let w: Vec<f32> =
            numbers(5, 40).iter().map(|x| x * x * x * grid.max_finite().min(1e4) / scale).collect();
        let moved = first_step(&[("ulp_per_lr", float(50.0))], &spec, scale, &w, 0.002);
        for (i, (&from, &to)) in w.iter().zip(&moved).enumerate() {
            let spacing = grid.spacing(f64::from(scale * from)) / f64::from(scale);
            let codes = (f64::from(to) - f64::from(from)) / spacing;
            let expected = if i % 2 == 0 { -0.1 } else { 0.1 };
            // The error of f32 at the weight, in codes.
            let allowed = 1e-6 + f64::from(from.abs()) * 1.2e-7 / spacing;
            assert!((codes - expected).abs() <= allowed, "{spec:?} at {from}: {codes}");
        }
    }
}

#[test]
fn post_works_on_decode_tables() {
    // Values 0 to 6 and -8 to -1, times 2; a hole of 4 at the top.
    let values: Vec<f32> = (0..16).map(|i: i16| f32::from(if i < 8 { i } else { i - 16 }) * 2.0).collect();
    let spec = FormatSpec::Table([&values[..7], &[16.0], &values[8..]].concat().into());
    let moved = first_step(&[], &spec, 1.0, &[3.0, 13.0, -7.0, -3.5], 0.001);
    for (got, expected) in moved.iter().zip([3.0 - 0.2, 13.0 + 0.4, -7.0 - 0.2, -3.5 + 0.2]) {
        assert!((got - expected).abs() < 1e-6, "{got}, expected {expected}");
    }
}

#[test]
fn power_keeps_the_geometric_mean_of_steps() {
    let [_, _, _, _, e4m3, ..] = specs();
    // Stored values of E4M3 in binades -3, 0, 4 and 7: their mean is 2.
    let w = [0.2f32, 1.5, 20.0, 130.0].map(|x| x / 8.0);
    for p in [1.0, 0.5, -1.0] {
        let given = [("placement", text("power")), ("power", float(p))];
        let moved = first_step(&given, &e4m3, 8.0, &w, 1e-3);
        for ((from, to), binade) in w.iter().zip(&moved).zip([-3.0, 0.0, 4.0, 7.0]) {
            let expected = 1e-3 * 2f64.powf(p * (binade - 2.0));
            let got = f64::from((to - from).abs());
            let allowed = 1e-5 * expected + f64::from(from * f32::EPSILON);
            assert!((got - expected).abs() <= allowed, "p {p}, {from}: {got:e}, expected {expected:e}");
        }
    }
}

#[test]
fn the_schedule_multiplies_the_factor() {
    let [_, e1m6, ..] = specs();
    let given = [
        ("schedule", text("linear")),
        ("schedule_updates", ConfigValue::Integer(2)),
        ("schedule_end", float(0.5)),
        ("eps", float(1e-30)),
    ];
    let optimizer = stiff(&given);
    let mut param = Param::new(&[1], &[1.0]).on(&e1m6, 1.0);
    // Equal gradients make equal steps, here of 2^-5 * 0.1 times the schedule.
    for (update, expected) in [(1, 1.0), (2, 0.75), (3, 0.5), (4, 0.5)] {
        let before = param.w[0];
        param.step(&optimizer, 1e-3, update, &[-2.0]).unwrap();
        assert!(((param.w[0] - before) * 320.0 - expected).abs() < 1e-4, "update {update}");
    }
}

#[test]
fn parameters_without_a_format_go_as_told() {
    let grad = numbers(9, 12);
    let named = stiff(&[("unquantized", text("E5M2"))]);
    let mut told = Param::new(&[3, 4], &numbers(8, 12));
    let mut given = told.clone().on(&FormatSpec::Minifloat(minifloat(5, 2, Domain::IEEE).unwrap()), 1.0);
    told.step(&named, 1e-3, 1, &grad).unwrap();
    given.step(&stiff(&[]), 1e-3, 1, &grad).unwrap();
    assert_eq!(told.w, given.w);
    let error = optimizer::<StiffnessAdamW>(&[("unquantized", text("posit8"))]).unwrap_err();
    assert!(error.message.contains("neither adamw nor a minifloat"));
}

#[test]
fn nan_is_not_hidden_and_impossible_calls_are_refused() {
    let [.., e7m0] = specs();
    for placement in ["post", "power", "pre"] {
        let optimizer = stiff(&[("placement", text(placement))]);
        let mut param = Param::new(&[2], &[1.0, 1.0]).on(&e7m0, 1.0);
        assert!(param.step(&optimizer, 0.1, 0, &[0.0; 2]).is_err());
        assert!(param.step(&optimizer, 0.1, 1, &[0.0; 3]).is_err());
        param.step(&optimizer, 0.1, 1, &[f32::NAN, 0.0]).unwrap();
        assert!(param.w[0].is_nan() && param.w[1] == 1.0, "{placement}");
    }
    assert!(optimizer::<StiffnessAdamW>(&[("beta2", float(1.0))]).is_err());
    assert!(optimizer::<StiffnessAdamW>(&[("placement", text("after"))]).is_err());
}

/// The number of changes of each finite code of a format when it moves 0.1 ULP, up and down, and is rounded: keys of
/// 400 steps.
fn survival<const E: u32, const M: u32>(spec: &FormatSpec) {
    let FormatSpec::Minifloat(minifloat) = spec else { return };
    let rounder = Rounder::<E, M>::new(minifloat.domain).unwrap();
    let grid = rounder.grid();
    // Up and down of all but the largest code, which cannot move up.
    let codes: Vec<u16> = (1..grid.max_code()).flat_map(|code| [code, code]).collect();
    let w: Vec<f32> = codes.iter().map(|&code| grid.decode(code)).collect();
    let moved = first_step(&[], spec, 1.0, &w, 1e-3);
    let mut share = vec![0f64; w.len()];
    for step in 0..400 {
        let mut words = vec![0; w.len()];
        random::fill(&RandomKey { seed: 1, step, tensor: 0, offset: 0 }, 0, &mut words);
        for (i, (&to, word)) in moved.iter().zip(words).enumerate() {
            assert_eq!(rounder.value::<NearestEven>(to, 0), w[i], "E{E}M{M}: nearest moved {}", w[i]);
            share[i] += f64::from(u8::from(rounder.value::<Stochastic>(to, word) != w[i])) / 400.0;
        }
    }
    for (i, share) in share.iter().enumerate() {
        // Below a power of two, codes are half as far apart, and 0.1 ULP is 0.2 of the way.
        let edge = i % 2 == 0 && grid.spacing(f64::from(w[i])) != grid.spacing(f64::from(w[i].next_down()));
        let expected: f64 = if edge { 0.2 } else { 0.1 };
        let deviation = (expected * (1.0 - expected) / 400.0).sqrt();
        assert!((share - expected).abs() < 5.0 * deviation, "E{E}M{M} at {}: {share}", w[i]);
    }
    let all = share.iter().sum::<f64>() / share.len() as f64;
    assert!(M == 0 || (0.09..0.14).contains(&all), "E{E}M{M}: {all}");
}

#[test]
fn a_tenth_of_a_code_stalls_under_nearest_and_survives_stochastic_rounding() {
    let [e0, e1, e2, e3, e4, e5, e6, e7] = &specs();
    survival::<0, 7>(e0);
    survival::<1, 6>(e1);
    survival::<2, 5>(e2);
    survival::<3, 4>(e3);
    survival::<4, 3>(e4);
    survival::<5, 2>(e5);
    survival::<6, 1>(e6);
    survival::<7, 0>(e7);
}

#[test]
fn parts_of_a_parameter_step_as_the_whole_unless_a_mean_is_taken() {
    let (start, grad) = (numbers(1, 1000), numbers(2, 1000));
    let info = ParamInfo::new("w", &[10u64, 100]);
    for (placement, scope) in [("post", Scope::ELEMENTS), ("pre", Scope::ELEMENTS), ("power", Scope::WHOLE)] {
        let optimizer = stiff(&[("placement", text(placement))]);
        let param = Param::new(&[10, 100], &start).on(&specs()[4], 300.0);
        let (mut whole, mut parts) = (param.clone(), param);
        for update in 1..4 {
            whole.step(&optimizer, 1e-3, update, &grad).unwrap();
            parts.step_in_parts(&optimizer, 1e-3, update, &grad, 77).unwrap();
        }
        assert_eq!(
            (whole == parts, optimizer.scope(&info)),
            (scope == Scope::ELEMENTS, scope),
            "{placement}"
        );
    }
}

#[test]
fn every_placement_has_kernels_for_minifloats_and_none_for_tables() {
    use altgrad_plugin_api::{BufferRole, KernelLanguage, KernelTarget};
    let target = KernelTarget {
        language: KernelLanguage::WGSL,
        architecture: 0,
        vector: 4,
        plane: [32, 32],
        max_units_per_cube: 256,
        max_shared_bytes: 16 << 10,
    };
    let table = FormatSpec::Table(vec![-1.0, 0.0, 1.0, 2.0].into());
    let scalars = StepScalars::new(1e-3, 3);
    for (placement, launches) in [("post", 1), ("power", 2), ("pre", 1)] {
        let optimizer = stiff(&[("placement", text(placement))]);
        let of = |shape: &[u64], spec: Option<&FormatSpec>| {
            let info = ParamInfo::new("w", shape);
            let grid = |spec| Grid { spec, scales: Scales::whole(&[2.0, 0.5]) };
            optimizer.launches(&info, scalars, spec.map(grid)).unwrap()
        };
        for spec in specs() {
            let found = of(&[8, 8], Some(&spec)).unwrap();
            assert_eq!(found.len(), launches, "{placement}");
            for launch in found {
                let text = optimizer.kernel(launch.op, &target).unwrap().unwrap();
                let scratch = text.buffers.iter().any(|buffer| buffer.role == BufferRole::SCRATCH);
                assert_eq!(scratch, launches == 2, "{placement}: memory that launches share");
            }
        }
        assert_eq!(of(&[8, 8], Some(&table)), None, "{placement}");
        assert_eq!(of(&[8], None).unwrap().len(), 1, "AdamW for what has no format");
        // Exponents of more elements than that cannot be added up exactly.
        assert_eq!(of(&[1 << 28], Some(&specs()[4])).is_none(), placement == "power");
    }
}
