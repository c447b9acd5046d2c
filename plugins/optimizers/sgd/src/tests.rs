//! SGD against the algorithm of PyTorch's documentation in f64, and its edges.
#![allow(clippy::unwrap_used)]

use altgrad_optimizer_kit::testing::{
    Param, assert_close, assert_elements_step_alone, optimizer, recorded_rate, replay,
};
use altgrad_plugin_api::ConfigValue::{Bool, Float, Text};

use super::*;

/// The recorded run's header describes its origin. Its weight decay is coupled.
#[test]
fn a_hundred_steps_of_the_algorithm() {
    let with = |momentum, dampening, nesterov| {
        optimizer::<Sgd>(&[
            ("momentum", Float(momentum)),
            ("dampening", Float(dampening)),
            ("nesterov", Bool(nesterov)),
            ("weight_decay", Float(0.1)),
            ("decay", Text("coupled".into())),
        ])
        .unwrap()
    };
    let [plain, dampened, nesterov] = [with(0.0, 0.0, false), with(0.9, 0.3, false), with(0.95, 0.0, true)];
    let shapes: [(&str, &[u64]); 3] = [("plain", &[3, 4]), ("dampened", &[3, 4]), ("nesterov", &[3, 4])];
    let replayed = replay(include_str!("../tests/data/numpy_sgd.txt"), &shapes, |name, param, t, grad| {
        let sgd = match name {
            "plain" => &plain,
            "dampened" => &dampened,
            _ => &nesterov,
        };
        param.step(sgd, recorded_rate(0.01, t), t, grad)
    });
    replayed.unwrap().assert(15, 1e-5);
}

#[test]
fn elements_step_alone() {
    assert_elements_step_alone::<Sgd>(&[]).unwrap();
    assert_elements_step_alone::<Sgd>(&[("momentum", Float(0.0))]).unwrap();
    assert_elements_step_alone::<Sgd>(&[("nesterov", Bool(true)), ("weight_decay", Float(0.1))]).unwrap();
}

#[test]
fn decoupled_decay_stays_out_of_the_momentum() {
    let decay = ("weight_decay", Float(0.1));
    let rows = [
        ("decoupled", vec![2, 1], 0.9, 0.0),
        ("coupled", vec![2, 1], 0.9, 0.1),
        ("coupled", vec![2], 1.0, 0.0),
    ];
    for (kind, shape, factor, share) in rows {
        let sgd: Sgd = optimizer(&[decay.clone(), ("decay", Text(kind.into()))]).unwrap();
        let mut param = Param::new(&shape, &[2.0, -3.0]);
        param.step(&sgd, 1.0, 1, &[0.0, 0.0]).unwrap();
        assert_close(&param.w, &[2.0 * factor, -3.0 * factor], 1e-6, kind);
        assert_close(&param.states[0], &[2.0 * share, -3.0 * share], 1e-6, kind);
    }
}

#[test]
fn impossible_options_are_refused() {
    let nesterov = ("nesterov", Bool(true));
    for given in [("momentum", Float(0.0)), ("dampening", Float(0.1))] {
        let error = optimizer::<Sgd>(&[nesterov.clone(), given]).unwrap_err();
        assert_eq!(error.message, "`nesterov` needs a `momentum` above 0 and a `dampening` of 0");
    }
    let error = optimizer::<Sgd>(&[("momentum", Float(0.0)), ("dampening", Float(0.1))]).unwrap_err();
    assert_eq!(error.message, "`dampening` needs a `momentum` above 0");
    let error = optimizer::<Sgd>(&[("momentum", Float(1.0))]).unwrap_err();
    assert_eq!(error.message, "`momentum` must be below 1, found 1");
}
