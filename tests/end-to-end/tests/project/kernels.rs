//! The lengths of kernels: a scalar from the shape of a tensor, never the length of its buffer, which CUDA pads.
//!
//! The snapshot lists all kernels of the project. A kernel without a scalar `elements` has a fixed number of units; add
//! it to [`FIXED`].

use std::{collections::BTreeSet, fmt::Write as _};

use super::sources::files_named;

/// Kernels that are launched with a unit per element, or for one tile.
const FIXED: [&str; 3] = ["probe", "probe_product", "sums_in_a_loop"];
/// Calls that return the length of a buffer.
const LENGTHS: [&str; 2] = [".len()", "buffer_len"];

/// The items of a source that are compiled for devices, each from its attribute to its closing brace.
fn items(text: &str) -> Vec<&str> {
    let starts = text.match_indices("#[cube").map(|(start, _)| start);
    let is_code =
        |start: &usize| text[..*start].rsplit('\n').next().is_some_and(|line| line.trim().is_empty());
    starts.filter(is_code).map(|start| item(&text[start..])).collect()
}

/// The first item of a text.
fn item(text: &str) -> &str {
    let mut depth = 0;
    for (place, letter) in text.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 1 => return &text[..=place],
            '}' => depth -= 1,
            _ => {}
        }
    }
    text
}

/// The name of a function that is launched, and its parameters: names and types.
fn launched(item: &str) -> Option<(&str, Vec<(&str, &str)>)> {
    let (_, function) = item.strip_prefix("#[cube(launch")?.split_once("fn ")?;
    let (signature, _) = function.split_once(") {")?;
    let (name, parameters) = signature.split_once('(')?;
    let parameters = parameters.split(",\n").flat_map(|line| line.split(", ")).filter_map(|parameter| {
        let (name, of) = parameter.trim().trim_start_matches("#[comptime] ").split_once(": ")?;
        Some((name, of))
    });
    Some((name.split('<').next()?, parameters.collect()))
}

#[test]
fn kernels_take_their_length_from_the_shape() {
    let (mut list, mut fixed) = (String::new(), BTreeSet::new());
    for (path, text) in files_named(".rs") {
        if path.ends_with("project/kernels.rs") {
            continue;
        }
        for item in items(&text) {
            let used = LENGTHS.iter().find(|length| item.contains(**length));
            assert!(
                used.is_none(),
                "{path}: a kernel uses {used:?}: a buffer may be longer than its tensor\n{item}"
            );
            let Some((name, parameters)) = launched(item) else { continue };
            let has_length = ["u32", "Sequence<u32>"].iter().any(|of| parameters.contains(&("elements", of)));
            if FIXED.contains(&name) {
                fixed.insert(name.to_string());
            }
            assert!(
                has_length != FIXED.contains(&name),
                "{path}: `{name}` has no `elements: u32`, or is in FIXED"
            );
            writeln!(list, "{path} {name}: {}", if has_length { "elements" } else { "fixed" }).unwrap();
        }
    }
    assert_eq!(fixed.len(), FIXED.len(), "{fixed:?}");
    let mut lines: Vec<&str> = list.lines().collect();
    lines.sort_unstable();
    insta::assert_snapshot!(lines.join("\n"), @r"
    host/engine/src/fused_ops/attention/backward_kernel.rs gradient_of_keys_and_values: elements
    host/engine/src/fused_ops/attention/backward_kernel.rs gradient_of_queries: elements
    host/engine/src/fused_ops/attention/forward_kernel.rs forward: elements
    host/engine/src/fused_ops/attention/monitor_kernel.rs summarize: elements
    host/engine/src/fused_ops/dropout_kernel.rs draw: elements
    host/engine/src/fused_ops/gelu_kernel.rs gelu: elements
    host/engine/src/fused_ops/gelu_kernel.rs gelu_backward: elements
    host/engine/src/fused_ops/loss_kernel.rs cross_entropy_of_rows: elements
    host/engine/src/fused_ops/loss_kernel.rs mean_of_rows: elements
    host/engine/src/fused_ops/loss_kernel.rs times: elements
    host/engine/src/fused_ops/norm_kernel.rs column_sums: elements
    host/engine/src/fused_ops/norm_kernel.rs norm: elements
    host/engine/src/fused_ops/norm_kernel.rs norm_backward: elements
    host/engine/src/fused_ops/scale_kernel.rs scale: elements
    host/engine/src/metrics/count_kernel.rs count: elements
    host/engine/src/metrics/sums_kernel.rs agreement: elements
    host/engine/src/metrics/sums_kernel.rs moments: elements
    host/engine/src/probe.rs probe: fixed
    host/engine/src/probe.rs probe_product: fixed
    host/engine/src/quant/arithmetic_kernel.rs round_otherwise: elements
    host/engine/src/quant/arithmetic_kernel.rs scale_back: elements
    host/engine/src/quant/arithmetic_kernel.rs scale_elements: elements
    host/engine/src/quant/deviation_kernel.rs scales_of_deviations: elements
    host/engine/src/quant/histogram_kernel.rs codes: elements
    host/engine/src/quant/histogram_kernel.rs powers: elements
    host/engine/src/quant/product_kernel.rs multiply_to: elements
    host/engine/src/quant/product_kernel.rs multiply_twice: elements
    host/engine/src/quant/rotation_kernel.rs rotate_tiles: elements
    host/engine/src/quant/scale_kernel.rs magnitudes_of_parts: elements
    host/engine/src/quant/scale_kernel.rs scales_by_parts: elements
    host/engine/src/quant/scale_kernel.rs scales_of_groups: elements
    host/engine/src/quant/scale_kernel.rs scales_under_tensor: elements
    host/engine/src/quant/table_kernel.rs round_to_table: elements
    host/engine/src/quant/weights_kernel.rs keys_of_weights: elements
    host/engine/src/quant/weights_kernel.rs pairs_of_weights: elements
    host/engine/src/quant/weights_kernel.rs statistics_of_weights: elements
    host/engine/src/quant/weights_kernel.rs weights_to_bf16: elements
    host/engine/src/tensor/cublaslt/trial.rs trial_errors: elements
    host/engine/src/tensor/cublaslt/trial.rs trial_factor: elements
    host/engine/src/tensor/gather_kernel.rs gather_to: elements
    host/engine/src/tensor/parts_kernel.rs sum_of_parts: elements
    host/engine/src/zero_words.rs set_to_zero: elements
    host/engine/tests/devices/padded.rs sums_in_a_loop: fixed
    plugins/kernel-kit/src/kernels.rs fake_quant: elements
    plugins/kernel-kit/src/kernels.rs fake_quant_random: elements
    plugins/kernel-kit/src/update/mod.rs plain_step: elements
    plugins/kernel-kit/src/update/mod.rs power_step: elements
    plugins/kernel-kit/src/update/mod.rs prepare: elements
    plugins/kernel-kit/src/update/mod.rs step: elements
    ");
}

#[test]
fn a_kernel_with_the_length_of_a_buffer_is_found() {
    let text = "/// #[cube]\n#[cube(launch)]\nfn add<N: Size>(x: &[f32], n: u32, #[comptime] m: M) {\n    if a {\n        x.len();\n    }\n}\nfn b() { x.len() }\n";
    assert_eq!(items(text).len(), 1);
    let item = items(text)[0];
    assert!(item.ends_with("    }\n}") && item.contains(LENGTHS[0]), "{item}");
    assert_eq!(launched(item), Some(("add", vec![("x", "&[f32]"), ("n", "u32"), ("m", "M")])));
}
