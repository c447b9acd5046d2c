//! A traced step is the step itself, the trace shows what the step computed, and provenance names the first tensor that
//! is not finite.

use altgrad_engine::{
    debug::provenance::{self, Provenance},
    metrics::MetricKind,
    passes::Observers,
    setup::ReadyRun,
    step, tensor,
    trace::{Phase, TensorPlace, Trace, TracedTensor},
};

use super::finish;

/// Everything that could tell a traced step from an untraced one: dropout, biases, several micro-batches, stochastic
/// rounding of all roles, scales with a memory.
const RUN: &str = r#"n_layer = 2
bias = true
dropout = 0.1
[train]
max_steps = 6
lr = 0.01
warmup_steps = 0
grad_accum = 2
[optimizer]
name = "adamw"
[quant]
weight = "E4M3"
activation = "E4M3"
grad = "E5M2"
rounding = "stochastic"
scaling = { amax = "delayed", window = 2 }
"#;
const ROUNDING: &str = "weight = \"E4M3\"\nactivation = \"E4M3\"\ngrad = \"E5M2\"\nrounding = \"stochastic\"\n\
    scaling = { amax = \"delayed\", window = 2 }\n";

fn build(text: &str) -> ReadyRun {
    super::built(text).unwrap()
}

/// Takes a step; returns its metrics as bits, without the machine's times, and the origin of non-finite values.
fn take(run: &mut ReadyRun, number: u64, trace: Option<&Trace>) -> (Vec<(String, u64)>, Option<Provenance>) {
    run.state.quant.state.step = number;
    let computed = step::compute_gradients(&run.setup, &mut run.state, number, trace).unwrap();
    let is_finite = computed.1.is_finite();
    let origin = (!is_finite).then(|| provenance::find(&run.setup, &run.state, number).unwrap());
    let (record, _) = finish(run, number, computed);
    let values = record.values.into_iter().filter(|(id, _)| id.definition().kind != MetricKind::Timing);
    (values.map(|(id, value)| (id.to_string(), value.to_bits())).collect(), origin)
}

fn bits(values: &[Vec<f32>]) -> Vec<Vec<u32>> {
    values.iter().map(|values| values.iter().map(|value| value.to_bits()).collect()).collect()
}

/// The tensors of a step, read.
fn traced(ReadyRun { setup, state, .. }: &ReadyRun, number: u64) -> Vec<(TensorPlace, Vec<f32>)> {
    let trace = Trace::default();
    let first = setup.first_micro_batch(number);
    let observers = Observers { trace: Some(&trace), ..Observers::default() };
    state.gradients(&setup.model, setup.micro_batches(number), first, observers).unwrap();
    let read = |TracedTensor { place, values }| (place, tensor::read_f32(values).unwrap());
    trace.into_tensors().into_iter().map(read).collect()
}

fn tensor<'a>(
    events: &'a [(TensorPlace, Vec<f32>)],
    phase: Phase,
    layer: &str,
    operation: &str,
) -> &'a [f32] {
    let found = events.iter().find(|(place, _)| {
        place.phase == phase && place.layer == layer && place.operation == operation && place.micro_batch == 0
    });
    &found.unwrap_or_else(|| panic!("no {phase:?} {layer} {operation}")).1
}

#[test]
fn a_traced_step_is_the_step_itself() {
    let (mut plain, mut watched) = (build(RUN), build(RUN));
    for number in 0..4 {
        let trace = Trace::default();
        let expected = take(&mut plain, number, None);
        assert_eq!(take(&mut watched, number, Some(&trace)), expected, "step {number}");
        let weights = |run: &ReadyRun| bits(&run.state.weights().unwrap());
        assert_eq!(weights(&watched), weights(&plain), "step {number}");
        assert!(trace.into_tensors().len() > 100);
    }
}

#[test]
fn looking_for_an_origin_touches_nothing() {
    let (mut plain, mut searched) = (build(RUN), build(RUN));
    for number in 0..3 {
        searched.state.quant.state.step = number;
        let found = provenance::find(&searched.setup, &searched.state, number).unwrap();
        assert_eq!(found, Provenance { step: number, loss: None, gradient: None });
        assert_eq!(take(&mut searched, number, None), take(&mut plain, number, None), "step {number}");
    }
}

#[test]
fn the_trace_is_in_time_order_and_complete() {
    let events = traced(&build(RUN), 0);
    let names = |micro_batch: u64, phase: Phase| -> Vec<String> {
        let of = |place: &TensorPlace| place.micro_batch == micro_batch && place.phase == phase;
        let events = events.iter().filter(|(place, _)| of(place) && place.operation != "gradient");
        events.map(|(place, _)| format!("{} {}", place.layer, place.operation)).collect()
    };
    let forward = names(0, Phase::Forward);
    let linear = |layer: &str| {
        ["weight", "rounded weight", "rounded input", "product", "output"]
            .map(|what| format!("{layer} {what}"))
    };
    let block = |block: usize| {
        let at = |what: &str| format!("h.{block}.{what}");
        let parts = [
            vec![at("ln_1 weight"), at("ln_1 output")],
            linear(&at("attn.c_attn")).to_vec(),
            ["scores", "softmax", "output"].map(|what| at(&format!("attn {what}"))).to_vec(),
            linear(&at("attn.c_proj")).to_vec(),
            vec![at("attn residual"), at("ln_2 weight"), at("ln_2 output")],
            linear(&at("mlp.c_fc")).to_vec(),
            vec![at("mlp gelu")],
            linear(&at("mlp.c_proj")).to_vec(),
            vec![at("mlp residual")],
        ];
        parts.concat()
    };
    let start = ["wte weight", "wte lookup", "wpe weight", "embeddings sum"].map(String::from).to_vec();
    let end = [
        ["ln_f weight", "ln_f output"].map(String::from).to_vec(),
        linear("lm_head").to_vec(),
        ["loss log_softmax", "loss cross-entropy"].map(String::from).to_vec(),
    ];
    let expected = [start, block(0), block(1), end.concat()].concat();
    assert_eq!(forward, expected);
    assert_eq!(names(1, Phase::Forward), expected);
    // The tensors with a gradient, in reverse: the parameters' own come later, and nothing depends on the loss's mean.
    let of_gradients = expected.iter().rev().filter_map(|name| match name.split_once(' ')? {
        (_, "weight" | "cross-entropy") => None,
        (layer, "product") => Some(format!("{layer} rounded gradient")),
        (layer, operation) => Some(format!("{layer} gradient of {operation}")),
    });
    assert_eq!(names(0, Phase::Backward), of_gradients.collect::<Vec<_>>());
    // Parameters come last, in the layout's order.
    let (last, _) = events.last().unwrap();
    assert_eq!((last.layer.as_str(), &*last.operation), ("ln_f.bias", "gradient"));
}

/// dL/dW = g^T Q(x), and the estimator passes it on as it is; a bias, never rounded, is added to the product and gets
/// the sum over tokens of the gradient before rounding: against f64 on the trace's own operands.
#[test]
fn the_trace_shows_what_the_products_used() {
    let run = build(&RUN.replace("grad_accum = 2", "grad_accum = 1"));
    let events = traced(&run, 0);
    for layer in ["h.0.attn.c_attn", "h.1.mlp.c_proj"] {
        let forward = |what| tensor(&events, Phase::Forward, layer, what);
        let backward = |what| tensor(&events, Phase::Backward, layer, what);
        let (x, w, y) = (forward("rounded input"), forward("rounded weight"), forward("product"));
        let (raw, g, dw) = (
            backward("gradient of output"),
            backward("rounded gradient"),
            backward("gradient of rounded weight"),
        );
        assert_ne!(forward("weight"), w);
        assert_ne!(raw, g);
        let db = tensor(&events, Phase::Backward, &format!("{layer}.bias"), "gradient");
        let tokens = 16;
        let (inputs, outputs) = (x.len() / tokens, y.len() / tokens);
        let close = |found: f32, terms: &mut dyn Iterator<Item = f64>| {
            let (sum, size) = terms.fold((0.0, 1e-12), |(sum, size), term| (sum + term, size + term.abs()));
            assert!((f64::from(found) - sum).abs() < 1e-6 * size, "{layer}: {found}, {sum}");
        };
        let product = |a: f32, b: f32| f64::from(a) * f64::from(b);
        for out in 0..outputs {
            for token in 0..tokens {
                let term = |i| product(x[token * inputs + i], w[out * inputs + i]);
                close(y[token * outputs + out], &mut (0..inputs).map(term));
            }
            close(db[out], &mut (0..tokens).map(|token| f64::from(raw[token * outputs + out])));
            for input in 0..inputs {
                let term = |token| product(g[token * outputs + out], x[token * inputs + input]);
                close(dw[out * inputs + input], &mut (0..tokens).map(term));
            }
        }
        assert_eq!(tensor(&events, Phase::Backward, &format!("{layer}.weight"), "gradient"), dw);
    }
}

/// A parameter's name and the change of its values.
type Change<'a> = (&'a str, &'a dyn Fn(&mut [f32]));

/// Changes parameters and takes the step.
fn origin_with(text: &str, changes: &[Change<'_>]) -> Provenance {
    let mut run = build(text);
    let params = &mut run.state.params;
    for (name, change) in changes {
        let id = params.layout.specs.iter().position(|spec| spec.name == *name).unwrap();
        let device = params.values[id].device();
        let mut values = tensor::read_f32(params.values[id].clone()).unwrap();
        change(&mut values);
        params.values[id] = tensor::flat(values, &device);
    }
    take(&mut run, 0, None).1.expect("the step is not finite")
}

fn name(origin: &Option<provenance::Origin>) -> Option<String> {
    origin.as_ref().map(|origin| origin.place.to_string())
}

#[test]
fn a_nan_in_a_weight_is_found_there() {
    let found = origin_with(RUN, &[("h.1.mlp.c_fc.weight", &|values| values[5] = f32::NAN)]);
    let loss = found.loss.clone().unwrap();
    assert_eq!((loss.place.layer.as_str(), &*loss.place.operation), ("h.1.mlp.c_fc", "weight"));
    assert_eq!((loss.index, loss.count, loss.elements), (5, 1, 256));
    assert_eq!(name(&found.gradient).as_deref(), Some("lm_head, gradient of output"));
    let text = found.to_string();
    let start = "step 0 is not finite; first in the forward pass: h.1.mlp.c_fc, weight \
        (NaN at element 5, 1 of 256 not finite); first in the backward pass: lm_head, gradient of output (NaN";
    assert!(text.starts_with(start), "{text}");
}

/// Without rounding 1e30 is an ordinary f32, until it meets another.
fn unrounded() -> String {
    let text = RUN.replace(ROUNDING, "").replace("dropout = 0.1", "dropout = 0.0");
    assert!(!text.contains("E4M3"));
    text
}

/// A huge query and a huge key, of the first head: finite, until scores multiply them.
#[test]
fn an_overflow_is_found_where_it_happens() {
    let huge = |values: &mut [f32]| (values[0], values[8]) = (1e30, 1e30);
    let found = origin_with(&unrounded(), &[("h.1.attn.c_attn.bias", &huge)]);
    assert_eq!(name(&found.loss).as_deref(), Some("h.1.attn, scores"));
    let loss = found.loss.unwrap();
    // One head of two.
    assert_eq!((loss.value, loss.count, loss.elements), (f32::INFINITY, 2 * 64, 2 * 2 * 64));
}

/// Two huge weights on the way back; on the way forward zeros come by, and GELU's slope at zero is 1/2.
#[test]
fn gradients_that_overflow_alone_are_told_apart() {
    let huge = |values: &mut [f32]| values[0] = 1e30;
    let changes: [Change<'_>; 3] = [
        ("h.1.ln_2.weight", &|values| values.fill(0.0)),
        ("h.1.mlp.c_fc.weight", &huge),
        ("h.1.mlp.c_proj.weight", &huge),
    ];
    let found = origin_with(&unrounded(), &changes);
    assert_eq!(found.loss, None);
    assert_eq!(name(&found.gradient).as_deref(), Some("h.1.mlp.c_fc, gradient of rounded input"));
    let text = found.to_string();
    assert!(
        text.starts_with("step 0 is not finite; all tensors of the forward pass are finite; first"),
        "{text}"
    );
}
