//! The optimizer against slow references, at the edges of the grid, and under rounding.
#![allow(clippy::unwrap_used)]

use altgrad_optimizer_kit::testing::{Param, numbers, optimizer};
use altgrad_plugin_api::{ConfigValue, Domain, Minifloat, grid::minifloat};

use super::*;

mod edges;
mod reference;
mod rounding;

fn text(value: &str) -> ConfigValue {
    ConfigValue::Text(value.into())
}

fn float(value: f64) -> ConfigValue {
    ConfigValue::Float(value)
}

/// With these options, no decay, and learning rates that count codes.
fn manifold(given: &[(&str, ConfigValue)]) -> Fp8Manifold {
    let plain = [("weight_decay", float(0.0)), ("ulp_per_lr", float(1.0))];
    optimizer(&[&plain, given].concat()).unwrap()
}

/// The canonical formats, E0M7 to E7M0.
fn formats() -> [Minifloat; 8] {
    [0, 1, 2, 3, 4, 5, 6, 7].map(|e| {
        let domain = [Domain::Fin, Domain::Fn, Domain::Ieee][usize::from(e == 4) + 2 * usize::from(e == 5)];
        minifloat(e, 7 - e, domain).unwrap()
    })
}
