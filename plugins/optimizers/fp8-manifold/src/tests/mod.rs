//! The optimizer against slow references, at the edges of the grid, and under rounding.
#![allow(clippy::unwrap_used)]

use altgrad_optimizer_kit::testing::{Param, numbers, optimizer};
use altgrad_plugin_api::{ConfigValue, Domain, Minifloat, grid::minifloat};

use super::*;

mod blocks;
mod edges;
mod recorded;
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
        let domain = [Domain::FIN, Domain::FN, Domain::IEEE][usize::from(e == 4) + 2 * usize::from(e == 5)];
        minifloat(e, 7 - e, domain).unwrap()
    })
}

#[test]
fn every_chart_has_kernels_for_minifloats_and_none_for_tables() {
    use altgrad_plugin_api::kernel::rules::UpdateRule;
    let scalars = StepScalars::new(1e-3, 3);
    let info = ParamInfo::new("w", &[4, 4][..]);
    let table = FormatSpec::Table(vec![-1.0, 0.0, 1.0, 2.0].into());
    let rules = [
        ("minifloat", "exp", UpdateRule::Exp),
        ("minifloat", "linear", UpdateRule::Linear),
        ("asinh", "exp", UpdateRule::SmoothExp),
        ("asinh", "linear", UpdateRule::SmoothLinear),
    ];
    for (chart, retraction, rule) in rules {
        let given = [
            ("chart", ConfigValue::Text(chart.into())),
            ("retraction", ConfigValue::Text(retraction.into())),
        ];
        let optimizer = optimizer::<Fp8Manifold>(&given).unwrap();
        let of = |spec: &FormatSpec| {
            optimizer.launches(&info, scalars, Some(Grid { spec, scales: Scales::whole(&[2.0, 0.5]) }))
        };
        for e in 0..=7 {
            let spec = FormatSpec::Minifloat(minifloat(e, 7 - e, Domain::FIN).unwrap());
            let launches = of(&spec).unwrap().unwrap();
            assert_eq!(launches.iter().map(|launch| launch.op).collect::<Vec<_>>(), [rule.op()]);
        }
        // As the CPU function, which refuses the chart too.
        assert_eq!(of(&table).is_err(), chart == "asinh");
        assert_eq!(of(&table).unwrap_or(None), None);
    }
}
