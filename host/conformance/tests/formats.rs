//! The suite on formats that are known to be right: one of every kind of minifloat, and a table.
#![allow(clippy::unwrap_used)]

mod common;

use altgrad_conformance::{Subject, check, subject_names};
use altgrad_format_kit::MinifloatFormat;
use altgrad_plugin_api::{Config, Descriptor, Domain, OptionSpec, PluginError, adapters};
use common::{Lopsided, Table, named};

named!(E5M2, Domain::IEEE, &[Domain::IEEE, Domain::FN, Domain::FIN]);
named!(E4M3, Domain::FN, &[Domain::IEEE, Domain::FN, Domain::FIN]);
named!(E1M6, Domain::FIN, &[Domain::IEEE, Domain::FIN]);
named!(E7M0, Domain::FIN, &[Domain::IEEE, Domain::FN, Domain::FIN]);
named!(E0M7, Domain::FIN, &[Domain::FIN]);
named!(E2M1, Domain::FIN, &[Domain::IEEE, Domain::FN, Domain::FIN]);
named!(E8M7, Domain::IEEE, &[Domain::IEEE]);

/// OCP, with infinities and NaN.
mod e5m2 {
    altgrad_conformance::format_suite!(altgrad_format_kit::MinifloatFormat<super::E5M2, 5, 2>);
}

/// OCP, one NaN.
mod e4m3 {
    altgrad_conformance::format_suite!(super::MinifloatFormat<super::E4M3, 4, 3>);
}

/// A linear grid.
mod e1m6 {
    altgrad_conformance::format_suite!(super::MinifloatFormat<super::E1M6, 1, 6>);
}

/// Powers of two.
mod e7m0 {
    altgrad_conformance::format_suite!(super::MinifloatFormat<super::E7M0, 7, 0>);
}

/// Only subnormals.
mod e0m7 {
    altgrad_conformance::format_suite!(super::MinifloatFormat<super::E0M7, 0, 7>);
}

/// 4 bits.
mod e2m1 {
    altgrad_conformance::format_suite!(super::MinifloatFormat<super::E2M1, 2, 1>);
}

/// 16 bits, the exponent range of f32.
mod bf16 {
    altgrad_conformance::format_suite!(super::MinifloatFormat<super::E8M7, 8, 7>);
}

/// A table with uneven steps, an unused code, and no stochastic rounding.
mod table {
    altgrad_conformance::format_suite!(super::Table);
}

#[test]
fn ties_that_fall_to_one_side_are_no_fault_of_a_symmetric_table() {
    for subject in Subject::all_of::<Lopsided>().unwrap() {
        for name in ["sign_symmetry", "nearest_even_edges"] {
            let outcome = (check(name).unwrap().run)(&subject);
            assert!(outcome.is_ok(), "{} {name}: {outcome:?}", subject.name());
        }
    }
}

#[test]
fn a_constructor_may_refuse_a_limit_because_of_another_option() {
    const OPTIONS: [OptionSpec; 2] = [
        OptionSpec::integer("exponent_bits", 3).range(1.0, 5.0),
        OptionSpec::integer("significand_bits", 2).range(0.0, 7.0),
    ];
    let descriptor = Descriptor::format("PAIR", "1.0.0", "at most eight bits together").options(&OPTIONS);
    let make =
        |config: &Config| match config.integer("exponent_bits")? + config.integer("significand_bits")? {
            ..=8 => adapters::format_object::<Table>(&Config::default()),
            bits => Err(PluginError::config(format!("{bits} bits: at most 8"))),
        };
    let refused = |name: &String| Subject::new(descriptor, name, make).unwrap().refused_limit();
    let found: Vec<_> = subject_names(&descriptor)
        .into_iter()
        .filter_map(|name| refused(&name).map(|why| (name, why)))
        .collect();
    assert_eq!(found, [("PAIR:significand_bits=7".to_string(), "10 bits: at most 8".to_string())]);
}
