//! Names of all definitions, written and parsed; and consistency of the definitions.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use crate::{
    AlertKind, FormatName, Layer, MetricId, Over, Role, Scope, Statistic, alert,
    families::{self, Family, rounding, scale_regret, training},
    report,
};

/// An identifier of each scope, role and index of each definition.
fn all() -> Vec<MetricId> {
    let mut ids = Vec::new();
    for definition in families::definitions() {
        let indices: Vec<Option<i8>> =
            definition.index.map_or(vec![None], |index| index.range().map(Some).collect());
        for index in indices {
            let format = FormatName::new("E3M4:ieee").filter(|_| definition.by_format);
            let statistic = Statistic { index, format, ..Statistic::new(definition) };
            for scope in definition.scopes {
                let layer = || Over::Layer(Layer::from("h.0.attn.c_attn.weight"));
                match scope {
                    Scope::Run => ids.push(statistic.over(Over::All)),
                    Scope::MeanOfLayers => ids.push(statistic.over(Over::MeanOfLayers)),
                    Scope::LeastOfLayers => ids.push(statistic.over(Over::LeastOfLayers)),
                    Scope::Role => ids.extend(Role::ALL.map(|role| statistic.of_role(role).over(Over::All))),
                    Scope::Layer => ids.push(statistic.over(layer())),
                    Scope::RoleAndLayer => {
                        ids.extend(Role::ALL.map(|role| statistic.of_role(role).over(layer())));
                    }
                }
            }
        }
    }
    ids
}

#[test]
fn every_name_is_parsed_to_its_identifier() {
    let ids = all();
    for id in &ids {
        assert_eq!(id.to_string().parse::<MetricId>().as_ref(), Ok(id));
        assert_eq!(Statistic::parse(&id.statistic.to_string()), Some(id.statistic));
    }
    let names: BTreeSet<String> = ids.iter().map(ToString::to_string).collect();
    assert_eq!(names.len(), ids.len(), "two metrics have one name");
}

#[test]
fn names_are_built_from_role_index_and_layer() {
    let layer = Layer::from("h.0.mlp.c_fc.weight");
    let overflow = Statistic::new(&rounding::OVERFLOW_RATE);
    assert_eq!(MetricId::from(&training::LOSS).to_string(), "train/loss");
    assert_eq!(MetricId::from(overflow).to_string(), "quant/overflow_rate");
    assert_eq!(MetricId::from(overflow.of_role(Role::Grad)).to_string(), "quant/grad/overflow_rate");
    assert_eq!(
        overflow.of_role(Role::Weight).of_layer(&layer).to_string(),
        "quant/weight/overflow_rate/h.0.mlp.c_fc.weight"
    );
    assert_eq!(
        Statistic::new(&scale_regret::SQNR_DB_AT).of_role(Role::Weight).at(-1).of_layer(&layer).to_string(),
        "quant/weight/sqnr_db_at/-1/h.0.mlp.c_fc.weight"
    );
}

#[test]
fn other_names_are_refused() {
    for name in [
        "",
        "train",
        "train/los",
        "train/loss/h.0.w",
        "quant/head/overflow_rate",
        "quant/overflow_rate/wte.weight",
        "quant/weight/bit_active/8",
        "quant/weight/bit_active",
        "observe/weight/sqnr_db",
        "observe/weight/sqnr_db/",
        "observe/sqnr_db/E4M3",
        "quant/weight/sqnr_db_at/-4/wte.weight",
        "grad_cos_sim/max",
        "grad_norm_l2",
    ] {
        assert!(name.parse::<MetricId>().is_err(), "{name}");
    }
}

#[test]
fn definitions_are_of_their_family_and_say_what_they_are() {
    for family in Family::ALL {
        for definition in family.definition().metrics {
            assert_eq!(definition.family, family, "{}", definition.name);
            assert!(definition.meaning().ends_with('.'), "{}: {:?}", definition.name, definition.meaning);
        }
    }
}

#[test]
fn each_threshold_and_column_is_defined_once() {
    let kinds: Vec<AlertKind> = alert::thresholds().iter().map(|(_, alert)| alert.kind).collect();
    let named: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
    // A stall is measured in two ways: with master weights and without.
    let expected = [
        "bit_stall",
        "bit_stall",
        "overflow",
        "underflow",
        "code_saturation",
        "kurtosis",
        "gradient_cosine",
        "gradient_norm",
        "rank_collapse",
        "sparsity",
        "attention_logit",
        "gradient_sqnr",
    ];
    assert_eq!(named, expected);
    let positions: Vec<u8> = report::columns().iter().map(|(_, column)| column.position).collect();
    assert_eq!(positions, [0, 1, 2, 3]);
}
