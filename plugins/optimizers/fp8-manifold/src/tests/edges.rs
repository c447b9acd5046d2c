//! The ends of the grid, zero, powers of two, decay, and refusals.

use super::*;

/// One coordinate after one step: eps = 0 makes the first step the learning rate, but for f32's last bits, against the
/// gradient's sign.
fn stepped(given: &[(&str, ConfigValue)], format: Minifloat, from: f32, codes: f64) -> Param {
    let optimizer = manifold(&[given, &[("eps", float(1e-30))]].concat());
    let mut param = Param::new(&[1], &[from]).on(&FormatSpec::Minifloat(format), 1.0);
    param.step(&optimizer, codes.abs(), 1, &[-(codes.signum() as f32)]).unwrap();
    param
}

#[test]
fn a_coordinate_at_the_largest_code_stays_and_loses_its_momentum_outward() {
    for format in formats() {
        let max = MinifloatGrid::new(format).unwrap().max_finite();
        for chart in ["minifloat", "asinh"] {
            for retraction in ["exp", "linear"] {
                let given = [("chart", text(chart)), ("retraction", text(retraction))];
                for sign in [1.0, -1.0] {
                    let out = stepped(&given, format, sign * max * 0.999, f64::from(sign) * 1e3);
                    assert_eq!(
                        (out.w[0], out.states[0][0]),
                        (sign * max, 0.0),
                        "{format:?} {chart} {retraction}"
                    );
                    let back = stepped(&given, format, sign * max, f64::from(-sign) * 0.5);
                    assert!(back.w[0].abs() < max && back.states[0][0] != 0.0, "{format:?} {chart}");
                }
            }
        }
    }
}

#[test]
fn what_lies_beyond_the_end_is_taken_back_to_it() {
    let [_, _, _, _, e4m3, ..] = formats();
    assert_eq!(stepped(&[], e4m3, 600.0, 0.25).w, [448.0]);
    // Code 126 is 448, and a code there is 32.
    assert_eq!(stepped(&[], e4m3, 600.0, -0.25).w, [440.0]);
}

/// On the asinh chart the square of such a weight may exceed f32's largest value.
#[test]
fn weights_far_beyond_the_end_step_back_to_it() {
    for format in formats() {
        let max = MinifloatGrid::new(format).unwrap().max_finite();
        for chart in ["minifloat", "asinh"] {
            for beyond in [1.3, 1.5, 3.0, 1e6] {
                for grad in [0.0, 1.0, -1.0] {
                    let out = stepped(&[("chart", text(chart))], format, max * beyond, grad);
                    // The step is a difference, rounded at the weight.
                    let at_most = max + max * beyond * f32::EPSILON;
                    assert!((0.0..=at_most).contains(&out.w[0]), "{format:?} {chart} {beyond}: {:?}", out.w);
                }
            }
        }
    }
}

#[test]
fn zero_is_crossed_in_codes() {
    for format in formats() {
        let grid = MinifloatGrid::new(format).unwrap();
        let code = grid.decode(1);
        // The last: from code 3 to code -3, through all binades between.
        for (from, codes, to) in [(0.5, -1.0, -0.5), (-1.0, 1.0, 0.0), (3.0, -6.0, -3.0)] {
            let [from, to] = [from, to].map(|u| grid.phi_inverse(u) as f32);
            let got = stepped(&[], format, from, codes).w[0];
            assert!(
                (got - to).abs() < 1e-6 * code,
                "{format:?}: {from} by {codes} gives {got:e}, not {to:e}"
            );
        }
    }
}

#[test]
fn codes_shrink_below_a_power_of_two_and_the_linear_retraction_does_not_see_it() {
    let [_, _, _, _, e4m3, ..] = formats();
    // From 16 to 18 a code is 2, below 16 it is 1.
    assert_eq!(stepped(&[], e4m3, 16.0, -1.0).w, [15.0]);
    assert_eq!(stepped(&[], e4m3, 17.0, -1.0).w, [15.5]);
    assert_eq!(stepped(&[("retraction", text("linear"))], e4m3, 17.0, -1.0).w, [15.0]);
    assert_eq!(stepped(&[("retraction", text("linear"))], e4m3, 17.0, 0.25).w, [17.5]);
}

#[test]
fn decode_tables_have_codes_too() {
    let spec = FormatSpec::Table([0.0, 1.0, 3.0, 7.0, -0.5, -1.0, -1.5, -2.0].to_vec().into());
    let optimizer = manifold(&[("eps", float(1e-30))]);
    let mut param = Param::new(&[3], &[0.5, 2.0, -1.75]).on(&spec, 1.0);
    param.step(&optimizer, 1.0, 1, &[1.0, -1.0, 1.0]).unwrap();
    assert_eq!(param.w, [-0.25, 5.0, -2.0]);
    assert_eq!((param.states[0][0] > 0.0, param.states[0][2]), (true, 0.0));
    let error = param.step(&manifold(&[("chart", text("asinh"))]), 1.0, 1, &[0.0; 3]).unwrap_err();
    assert_eq!(error.message, "the asinh chart needs a minifloat of up to 7 exponent bits");
}

#[test]
fn decay_is_adamws_and_no_gradient_is_no_step() {
    for format in formats() {
        let spec = FormatSpec::Minifloat(format);
        let max = MinifloatGrid::new(format).unwrap().max_finite();
        let w = numbers(1, 6).iter().map(|x| x * max / 3.7).collect::<Vec<f32>>();
        let optimizer = manifold(&[("weight_decay", float(0.5))]);
        for (shape, keep) in [(vec![2, 3], 0.75), (vec![6], 1.0)] {
            let mut param = Param::new(&shape, &w).on(&spec, 3.7);
            param.step(&optimizer, 0.5, 1, &[0.0; 6]).unwrap();
            let expected: Vec<f32> = w.iter().map(|w| w * keep).collect();
            assert_eq!(param.w, expected, "{format:?}");
        }
    }
}

/// The gradient was taken before decay, which crosses the edge of a binade wherever a weight is a power of two.
#[test]
fn decay_does_not_enter_the_moments() {
    for format in formats() {
        let spec = FormatSpec::Minifloat(format);
        let grid = MinifloatGrid::new(format).unwrap();
        let w: Vec<f32> = (0..=grid.max_code()).map(|code| grid.decode(code)).collect();
        let grad = numbers(7, w.len());
        for (chart, retraction) in
            [("minifloat", "exp"), ("minifloat", "linear"), ("asinh", "exp"), ("asinh", "linear")]
        {
            let [decayed, kept] = [0.1, 0.0].map(|weight_decay| {
                let given = [
                    ("chart", text(chart)),
                    ("retraction", text(retraction)),
                    ("weight_decay", float(weight_decay)),
                ];
                let mut param = Param::new(&[1, w.len() as u64], &w).on(&spec, 1.0);
                param.step(&manifold(&given), 1e-3, 1, &grad).unwrap();
                param
            });
            // But for the largest code, where momentum may be lost.
            let inner = 0..w.len() - 1;
            for (decayed, kept) in decayed.states.iter().zip(&kept.states) {
                assert_eq!(decayed[inner.clone()], kept[inner.clone()], "{format:?} {chart} {retraction}");
            }
            assert_ne!(decayed.w, kept.w);
        }
    }
}

/// A code of E7M0 at 4 is 4, just below it is 2: of the decayed weight the moments would be a half and a quarter.
#[test]
fn moments_at_a_power_of_two_of_e7m0() {
    let [.., e7m0] = formats();
    let mut param = Param::new(&[1, 1], &[4.0]).on(&FormatSpec::Minifloat(e7m0), 1.0);
    param.step(&manifold(&[("weight_decay", float(0.1))]), 1e-3, 1, &[0.5]).unwrap();
    let [m, v] = [param.states[0][0], param.states[1][0]];
    // h = 4 * 0.5; the shares of a first gradient are 0.1 and 0.05.
    assert!((m - 0.1 * 2.0).abs() < 1e-7 && (v - 0.05 * 4.0).abs() < 1e-7, "m {m}, v {v}");
}

#[test]
fn parameters_without_a_format_go_as_told() {
    let [_, _, _, e3m4, ..] = formats();
    let (start, grad) = (numbers(5, 8), numbers(6, 8));
    let mut told = Param::new(&[8], &start);
    let mut given = told.clone().on(&FormatSpec::Minifloat(e3m4), 1.0);
    told.step(&manifold(&[("unquantized", text("E3M4"))]), 0.5, 1, &grad).unwrap();
    given.step(&manifold(&[]), 0.5, 1, &grad).unwrap();
    assert_eq!(told, Param { grid: None, ..given });
    let mut plain = Param::new(&[8], &start);
    plain.step(&manifold(&[]), 0.5, 1, &grad).unwrap();
    // AdamW's first step: the learning rate against the gradient's sign.
    for ((w, start), g) in plain.w.iter().zip(&start).zip(&grad) {
        assert!((w - (start - 0.5 * g.signum())).abs() < 1e-5);
    }
}

/// `eps` is in units of gradients per code, which only parameters with a grid have.
#[test]
fn parameters_without_a_grid_have_adamws_eps() {
    // A gradient of eps halves the first step.
    let step = |eps, on: Option<FormatSpec>| {
        let mut param = Param::new(&[1], &[0.0]);
        param = if let Some(spec) = on { param.on(&spec, 1.0) } else { param };
        param.step(&manifold(&[("eps", float(eps))]), 1.0, 1, &[1e-8]).unwrap();
        param.w[0]
    };
    for eps in [1e-30, 1e-16, 1e-3] {
        assert!((step(eps, None) + 0.5).abs() < 1e-6, "eps {eps}: {}", step(eps, None));
    }
    // On integers, a gradient per code is one per unit.
    let integers = || Some(FormatSpec::Table((0..8).map(|i| f32::from(i as i8 - 4)).collect()));
    assert!((step(1e-8, integers()) + 0.5).abs() < 1e-6 && (step(1e-16, integers()) + 1.0).abs() < 1e-6);
}

/// The launch of such a parameter has the numbers of AdamW's.
#[test]
fn so_they_have_on_a_device() {
    let (info, scalars) = (ParamInfo::new("bias", &[8]), StepScalars::new(1e-3, 3));
    let launches = |eps| manifold(&[("eps", float(eps))]).launches(&info, scalars, None).unwrap().unwrap();
    let [found, expected] = [1e-16, 1e-8].map(launches);
    assert_eq!(found, expected);
    assert!(found[0].scalars.contains(&1e-8f32.to_bits()));
}

#[test]
fn nan_is_not_hidden_and_impossible_calls_are_refused() {
    for format in formats() {
        for chart in ["minifloat", "asinh"] {
            let optimizer = manifold(&[("chart", text(chart))]);
            let mut param = Param::new(&[4], &[1.0, f32::NAN, f32::INFINITY, 0.0])
                .on(&FormatSpec::Minifloat(format), 1.0);
            assert!(param.step(&optimizer, 0.1, 0, &[0.0; 4]).is_err());
            assert!(param.step(&optimizer, 0.1, 1, &[0.0; 3]).is_err());
            param.step(&optimizer, 0.1, 1, &[f32::NAN, 0.0, 0.0, 0.0]).unwrap();
            let finite = param.w.iter().map(|w| w.is_finite()).collect::<Vec<_>>();
            assert_eq!(finite, [false, false, false, true], "{format:?} {chart}: {:?}", param.w);
        }
    }
    for (name, value) in [("beta1", float(1.0)), ("chart", text("log")), ("ulp_per_lr", float(-1.0))] {
        assert!(optimizer::<Fp8Manifold>(&[(name, value)]).is_err(), "{name}");
    }
}

#[test]
fn parts_of_a_parameter_step_as_the_whole() {
    let (start, grad) = (numbers(1, 2000), numbers(2, 2000));
    let info = ParamInfo::new("w", &[20u64, 100]);
    for chart in ["minifloat", "asinh"] {
        let optimizer = manifold(&[("chart", text(chart))]);
        let [_, _, _, _, e4m3, ..] = formats();
        let param = Param::new(&[20, 100], &start).on(&FormatSpec::Minifloat(e4m3), 300.0);
        let (mut whole, mut parts) = (param.clone(), param);
        for update in 1..4 {
            whole.step(&optimizer, 1.0, update, &grad).unwrap();
            parts.step_in_parts(&optimizer, 1.0, update, &grad, 777).unwrap();
        }
        assert!(whole == parts && optimizer.scope(&info) == Scope::ELEMENTS, "{chart}");
    }
}
