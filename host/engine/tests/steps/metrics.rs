//! The metrics of a run with everything on: announced, recorded, defined and in the reference.

use std::collections::BTreeSet;

use altgrad_engine::{
    metrics::{self, MetricRecord, MetricSetup},
    setup::ReadyRun,
};
use altgrad_metrics::{Due, MetricId, ValueShape, families, reference};

use super::{built, take};

const EVERYTHING: &str = r#"n_layer = 1
[train]
max_steps = 4
warmup_steps = 1
loss_scale = "dynamic"
[quant]
weight = "E5M2"
activation = "E5M2"
grad = "E5M2"
[shadow]
every = 1
[observe]
formats = ["E4M3"]
every = 1
[metrics]
every = 1
histograms_every = 1
rank_every = 1
dead_neuron_window = 2
"#;

/// A run that measures everything but curvature; with `master` weights or "none".
fn ready(master: &str) -> ReadyRun {
    ready_with(master, "")
}

/// The same with further tables.
fn ready_with(master: &str, tables: &str) -> ReadyRun {
    let master = format!("[quant]\nmaster_weights = \"{master}\"");
    built(&format!("{}\n{tables}", EVERYTHING.replace("[quant]", &master))).unwrap()
}

/// The records of the first steps.
fn records(run: &mut ReadyRun) -> Vec<MetricRecord> {
    (0..4).map(|number| take(run, number).0).collect()
}

#[test]
fn announced_names_are_parsed_to_the_identifiers_they_were_made_from() {
    for id in ready("none").setup.metrics {
        assert_eq!(id.to_string().parse::<MetricId>(), Ok(id));
    }
}

#[test]
fn what_is_announced_is_recorded_and_nothing_else() {
    let mut run = ready("fp32");
    let announced: BTreeSet<MetricId> = run.setup.metrics.iter().cloned().collect();
    assert_eq!(announced.len(), run.setup.metrics.len(), "a metric is announced twice");
    let recorded: BTreeSet<MetricId> =
        records(&mut run).into_iter().flat_map(|record| record.values).map(|(id, _)| id).collect();
    let unannounced: Vec<String> = recorded.difference(&announced).map(ToString::to_string).collect();
    assert!(unannounced.is_empty(), "{unannounced:?}");
    // The step alone makes no evaluation.
    let evaluations = |id: &&MetricId| id.definition().due != Due::Evaluations;
    let names = |ids: &BTreeSet<MetricId>| -> BTreeSet<&str> {
        ids.iter().filter(evaluations).map(|id| id.definition().name).collect()
    };
    let silent: Vec<&str> = names(&announced).difference(&names(&recorded)).copied().collect();
    assert!(silent.is_empty(), "{silent:?}");
}

#[test]
fn every_definition_is_used_and_in_the_reference() {
    let mut run = ready("fp32");
    let mut used: BTreeSet<&str> = run.setup.metrics.iter().map(|id| id.definition().name).collect();
    // Some are of weights without master weights, and of optimizers that know the grid.
    let others = ready_with("none", "[optimizer]\nname = \"fp8-manifold\"\n[curvature]\nevery = 1\n");
    used.extend(others.setup.metrics.iter().map(|id| id.definition().name));
    // And of optimizers with numbers of their own, which no shipped one has, and of GPUs with a known data sheet.
    let state = &others.state;
    let own = MetricSetup::new(&state.params.layout, &state.quant.plan, others.setup.config.metrics, false);
    let own = metrics::names([own.with_optimizer(vec!["d".into()]).with_data_sheet(true)].into_iter());
    used.extend(own.iter().map(|id| id.definition().name));
    for record in records(&mut run) {
        used.extend(record.histograms.iter().map(|histogram| histogram.id.definition().name));
        assert!(
            record
                .histograms
                .iter()
                .all(|histogram| histogram.id.definition().shape == ValueShape::Distribution)
        );
    }
    let page = reference::markdown();
    for definition in families::definitions() {
        let of_the_end = definition.due == Due::End;
        assert!(of_the_end || used.contains(definition.name), "{} is not computed", definition.name);
        let (prefix, own) = definition.parts();
        let names = [definition.name.to_string(), format!("{}/ROLE/{own}", prefix.unwrap_or_default())];
        assert!(names.iter().any(|name| page.contains(&format!("| `{name}"))), "{}", definition.name);
    }
}

/// Subscribers in GPU builds have more methods.
#[cfg(not(feature = "gpu"))]
mod subscribers {
    use altgrad_engine::{
        metrics::update_metrics::UpdateMetrics,
        optimizer::{UpdateEvent, UpdateSubscriber, Wanted},
        step,
    };

    use super::*;

    /// Records what it receives of each update.
    struct Received(Wanted, Vec<(usize, bool)>);

    impl UpdateSubscriber for Received {
        fn wants(&self) -> Wanted {
            self.0
        }

        fn updated(&mut self, event: &UpdateEvent<'_>) {
            let values = event.values.as_ref();
            let lengths = values.map(|values| [values.before.len(), values.after.len()]);
            assert!(lengths.is_none_or(|lengths| lengths == [event.spec.len(); 2]));
            self.1.push((event.id, values.is_some()));
        }
    }

    /// A subscriber receives every parameter's update once, and values only if it wants them. It changes no weight.
    #[test]
    fn a_subscriber_receives_what_it_wants_and_changes_nothing() {
        let updated = |subscriber: &mut dyn UpdateSubscriber| {
            let ReadyRun { setup, mut state, .. } = ready("none");
            let (grads, outputs) = step::compute_gradients(&setup, &mut state, 0, None).unwrap();
            state.update(grads, &outputs.rounding, 1e-2, subscriber).unwrap();
            (state.params.layout.specs.len(), state.weights().unwrap())
        };
        let (count, weights) = updated(&mut UpdateMetrics::off());
        for wanted in [Wanted::default(), Wanted { gradients: true, values: true }] {
            let mut received = Received(wanted, Vec::new());
            assert_eq!(updated(&mut received).1, weights, "{wanted:?}");
            let expected: Vec<(usize, bool)> = (0..count).map(|id| (id, wanted.values)).collect();
            assert_eq!(received.1, expected, "{wanted:?}");
        }
    }
}
