//! A recorded run of the definition in f64; the recording's header describes it.

use altgrad_optimizer_kit::testing::{recorded_rate, replay};

use super::*;

#[test]
fn a_hundred_steps_of_the_definition() {
    let cosine = [
        ("schedule", text("cosine")),
        ("schedule_updates", ConfigValue::Integer(100)),
        ("schedule_end", float(0.1)),
    ];
    let placed = |placement: &str, more: &[(&str, ConfigValue)]| {
        stiff(&[&[("placement", text(placement))], more].concat())
    };
    let optimizers = [placed("post", &cosine), placed("power", &[("power", float(0.5))]), placed("pre", &[])];
    let shapes: [(&str, &[u64]); 3] = ["post", "power", "pre"].map(|name| (name, &[3, 4][..]));
    let e4m3 = FormatSpec::Minifloat(minifloat(4, 3, Domain::FN).unwrap());
    let recording = include_str!("../../tests/data/numpy_stiffness.txt");
    let replayed = replay(recording, &shapes, |name, param, t, grad| {
        let (optimizer, _) = optimizers.iter().zip(&shapes).find(|(_, (known, _))| *known == name).unwrap();
        *param = param.clone().on(&e4m3, 2048.0);
        param.step(optimizer, recorded_rate(0.01, t), t, grad)
    });
    replayed.unwrap().assert(15, 2e-5);
}
