//! A recorded run of the definition in f64; the recording's header describes it.

use altgrad_optimizer_kit::testing::{recorded_rate, replay};

use super::*;

#[test]
fn a_hundred_steps_of_the_definition() {
    let options: [(&str, &[(&str, ConfigValue)]); 3] =
        [("exp", &[]), ("linear", &[("retraction", text("linear"))]), ("asinh", &[("chart", text("asinh"))])];
    let optimizers = options.map(|(_, given)| optimizer::<Fp8Manifold>(given).unwrap());
    let shapes: [(&str, &[u64]); 3] = options.map(|(name, _)| (name, &[3, 4][..]));
    let e4m3 = FormatSpec::Minifloat(minifloat(4, 3, Domain::FN).unwrap());
    let recording = include_str!("../../tests/data/numpy_manifold.txt");
    let mut at_ends = 0;
    let replayed = replay(recording, &shapes, |name, param, t, grad| {
        let (optimizer, _) = optimizers.iter().zip(&shapes).find(|(_, (known, _))| *known == name).unwrap();
        *param = param.clone().on(&e4m3, 2048.0);
        param.step(optimizer, recorded_rate(0.01, t), t, grad)?;
        let [m, ..] = &param.states[..] else { unreachable!() };
        at_ends += m.iter().filter(|m| **m == 0.0).count();
        Ok(())
    });
    replayed.unwrap().assert(15, 5e-6);
    // In the first step three gradients of each are zero.
    assert!(at_ends > 9, "no step met an end of the grid");
}
