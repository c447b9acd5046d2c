//! The casts of a run file in a model: refusals that depend on the model or on other casts, the layers that patterns
//! select, and the description of casts.

use altgrad_casts::CastError;
use altgrad_engine::{
    quant::{QuantPass, Role},
    setup::linear_layers,
    trace::TraceScope,
};
use burn::tensor::{Tensor, TensorData};

use super::{Bench, MODEL, TOKENS};

/// Faults that depend on the model or on other casts are refused at the position of the key.
#[test]
fn casts_that_do_not_fit_are_refused_where_they_stand() {
    let linear = "[quant]\nweight = 'E4M3'\nactivation = 'E4M3'\n";
    let transformed = "source = 'hp'\ntransform = { hadamard = 32 }";
    let stored = "[quant]\nweight = 'E4M3'\nmaster_weights = 'none'\n";
    for (quant, message, [line, column]) in [
        (
            format!("{linear}transform = {{ hadamard = 64 }}"),
            "a transform of 64 elements does not divide the 32 elements that the product of `h.0.attn.c_attn.weight` contracts over",
            [4, 13],
        ),
        (
            format!("{linear}[quant.cast.weight]\ntransform = {{ hadamard = 16 }}"),
            "the operands activation and weight of the product of the output are transformed differently in `h.0.attn.c_attn.weight`",
            [5, 13],
        ),
        (
            format!("{linear}source = 'hp'\ntransform = {{ hadamard = 16 }}"),
            "`quant.source` is hp, but the operand of fprop is transformed",
            [4, 10],
        ),
        (
            "[quant]\ngrad = 'E4M3'\n[quant.cast.grad]\ntransform = { hadamard = 16 }".into(),
            "a transformed gradient cannot be reused in the product of the weight's gradient",
            [4, 13],
        ),
        (
            format!("{linear}[quant.cast.weight_dgrad]\nsource = 'dequantized'\nformat = 'none'"),
            "`quant.cast.weight_dgrad.format` has no effect here",
            [6, 1],
        ),
        (
            "[quant]\nrecipe = 'quartet'\n[quant.cast.grad_wgrad]\nsource = 'dequantized'".into(),
            "a transformed gradient cannot be reused in the product of the weight's gradient",
            [4, 10],
        ),
        (
            "[quant]\nweight = 'E4M3'\nblock = 7\n[quant.scaling]\ntype = 'e8m0'\nrule = 'rms'".into(),
            "`quant.scaling.rule` is rms, but blocks of 7 elements do not divide the 32 elements of a row",
            [6, 8],
        ),
        (
            "[quant]\nweight = 'E4M3'\n[quant.scaling]\nrule = 'rms'\namax = 'delayed'".into(),
            "`quant.scaling.amax` = \"delayed\" needs a rule other than rms",
            [5, 8],
        ),
        (
            "[quant]\n[quant.cast.weight_grad]\nformat = 'E4M3'\ntransform = { hadamard = 16 }".into(),
            "`quant.cast.weight_grad.transform`: the role weight_grad cannot be transformed",
            [4, 13],
        ),
        (
            format!("{linear}transform = {{ hadamard = 16 }}\ncast.weight_grad.format = 'E4M3'"),
            "`quant.transform`: the role weight_grad cannot be transformed",
            [4, 13],
        ),
        (
            format!(
                "{linear}grad = 'E4M3'\n[quant.cast.activation_wgrad]\n{transformed}\n[quant.cast.grad_wgrad]\n{transformed}\n[curvature]\nevery = 10"
            ),
            "a transform of 32 elements does not divide the 16 elements that the product of `h.0.attn.c_attn.weight` contracts over",
            [7, 13],
        ),
        (
            format!(
                "{linear}grad = 'E4M3'\nsource = 'hp'\nblock = 'row'\n[quant.scaling]\nrule = 'rms'\n[curvature]\nevery = 10"
            ),
            "`quant.scaling.rule` is rms, but blocks of 64 elements do not divide the 16 elements of a row",
            [8, 8],
        ),
        (
            "[quant]\n[quant.cast.norm_gain]\nformat = 'E4M3'\nblock = [4, 4]".into(),
            "`quant.cast.norm_gain.block` is a tile of several lines, but a norm's gain is a vector",
            [4, 9],
        ),
        (
            "[quant]\nscaling = { type = 'e8m0', rule = 'rms' }\n[quant.cast.norm_gain]\nformat = 'E4M3'"
                .into(),
            "`quant.scaling.rule` is rms, but a norm's gains are equal at the start: their standard deviation is 0",
            [2, 35],
        ),
        (
            "[quant]\n[quant.cast.query]\nformat = 'E4M3'\ntransform = { hadamard = 4 }".into(),
            "`quant.cast.query.transform`: the role query cannot be transformed",
            [4, 13],
        ),
        (
            "[quant]\nweight = 'E4M3'\nblock = 8\n[quant.scaling]\namax = 'delayed'".into(),
            "`quant.scaling.amax` = \"delayed\" needs one scale for the tensor",
            [5, 8],
        ),
        (
            "[quant]\nweight = 'E4M3'\n[quant.cast.weight]\ncenter = 'tokens'".into(),
            "`quant.cast.weight.center`: the role weight has no mean over tokens",
            [4, 10],
        ),
        (
            "[quant]\nrecipe = 'averis'\naccumulate = 'hopper_fp8'".into(),
            "`quant.accumulate`: values of activation in `h.0.attn.c_attn.weight` are not those of codes times one factor for each block",
            [3, 14],
        ),
        (
            "[quant]\nweight = 'E2M1'\nblock = 48\n[quant.scaling]\ntype = 'e4m3'\ntensor = 'f32'\nouter = 144".into(),
            "`quant.scaling.outer` is 144, but the rows of an operand have 32 elements, which are one block",
            [7, 9],
        ),
        (
            "[quant]\nweight = 'E2M1'\nblock = 16\n[quant.scaling]\ntype = 'e4m3'\ntensor = 'f32'\nouter = 24".into(),
            "`scaling.outer` needs blocks of a number of elements along the axis that divides it",
            [7, 9],
        ),
        (
            "[quant]\nweight = 'E2M1'\nblock = 48\n[quant.scaling]\nmicroexponents = [3]".into(),
            "`quant.scaling.microexponents` has sub-blocks of 3, but the rows of an operand have 32 elements, which are one block",
            [5, 18],
        ),
        (
            "[quant]\nweight = 'E2M1'\nblock = 16\nste = 'clipped'\n[quant.scaling]\nmicroexponents = [4]".into(),
            "`quant.scaling.microexponents` excludes ste = \"clipped\", which compares elements with one largest value a block",
            [6, 18],
        ),
        (
            "[quant]\nweight = 'E2M1'\nblock = 16\n[quant.scaling]\nmicroexponents = [5]".into(),
            "`scaling.microexponents` needs blocks of a number of elements along the axis that they divide",
            [5, 18],
        ),
        (
            "[quant]\nweight = 'E2M1'\n[quant.scaling]\narithmetic = 'bf16'".into(),
            "`scaling.arithmetic` is bf16, which is for floating-point bytes without a scale of the tensor",
            [4, 14],
        ),
        (
            "[quant]\nweight = 'E4M3'\nactivation = 'E4M3'\naccumulate = 'blackwell_fp4'".into(),
            "`quant.accumulate`: 16 products of activation in `h.0.attn.c_attn.weight` do not share one scale that is a byte",
            [4, 14],
        ),
        (
            "[quant]\nweight = 'E4M3'\nactivation = 'E4M3'\nblock = 16\naccumulate = 'blackwell_fp4'\n[quant.scaling]\ntype = 'e4m3'\ntensor = 'f32'".into(),
            "`quant.accumulate`: exact sums of codes of activation and weight in `h.0.attn.c_attn.weight` need more than 53 bits",
            [5, 14],
        ),
        (
            "[quant]\nweight = 'E4M3'\n[quant.scaling]\ntype = 'e4m3'\nrule = 'floor'".into(),
            "`scaling.type` is a floating-point byte, which needs rule max without pow2 and margin",
            [4, 8],
        ),
        (
            format!("{stored}stored_scale = {{ rule = 'dynamic' }}\nweight_rounding = 'toward-zero'"),
            "`quant.stored_scale.rule` = \"dynamic\" excludes the rounding toward zero of `h.0.attn.c_attn.weight`",
            [4, 25],
        ),
        (
            format!(
                "{stored}stored_scale = {{ rule = 'fixed' }}\n[[quant.layer]]\nmatch = '*.mlp.c_proj.weight'\nrounding = 'toward-zero'"
            ),
            "`quant.stored_scale.rule` = \"fixed\" excludes the rounding toward zero of `h.0.mlp.c_proj.weight`",
            [4, 25],
        ),
    ] {
        let error = Bench::try_new(&quant).map(|_| ()).unwrap_err();
        let place = error.place.clone().unwrap_or_default();
        assert_eq!(error.message, message, "{quant}");
        let expected = format!("run.toml:{}:{column}", MODEL.lines().count() + line);
        assert!(place.ends_with(&expected) && error.hint.is_some(), "{quant}\n{error}");
    }
}

/// Tiles of a transform that span rows do not cancel: a pass of other extents than those of the training fails.
#[test]
fn a_transform_that_does_not_divide_rows_is_a_fault() {
    let bench = Bench::new(
        "[quant]\nactivation = 'E4M3'\n[quant.cast.activation_wgrad]\nsource = 'hp'\ntransform = { hadamard = 32 }\n\
         [quant.cast.grad_wgrad]\nsource = 'hp'\nformat = 'E5M2'\ntransform = { hadamard = 32 }\n",
    );
    let layer = bench.layout.blocks[0].c_fc.weight;
    let ones = |rows: usize| {
        let ones = TensorData::new(vec![1f32; rows * 32], [rows, 32]);
        Tensor::from_inner(Tensor::<2>::from_data(ones, &bench.device.tensors)).require_grad()
    };
    let pass = |tokens: usize| {
        let pass = QuantPass::new(&bench.quant);
        let y = pass.linear(layer, ones(tokens), ones(128), 0, TraceScope::OFF);
        pass.end_backward(&y.sum().backward());
        pass.read_stats().map(|_| ()).map_err(|error| error.message)
    };
    assert_eq!(pass(TOKENS), Ok(()));
    assert_eq!(pass(24), Err(CastError::Transform { length: 24, size: 32 }.to_string()));
}

/// The head that is tied to the embedding has a name of its own, which does not select the embedding.
#[test]
fn the_name_of_the_head_is_not_that_of_the_embedding() {
    let formats = "cast.embedding.format = 'E4M3'\ncast.logits.format = 'E4M3'\n";
    for choice in [
        "exclude = ['lm_head.weight']\n",
        "[[quant.layer]]\nmatch = 'lm_head.weight'\ncast.embedding.format = 'none'\ncast.logits.format = 'none'\n",
    ] {
        let bench = Bench::new(&format!("[quant]\n{formats}{choice}"));
        let roles: Vec<Role> = bench.quant.plan.sites().iter().map(|site| site.role).collect();
        assert_eq!(roles, [Role::Embedding], "{choice}");
    }
}

#[test]
fn transformed_weights_lie_on_no_grid() {
    let linear = "[quant]\nweight = 'E4M3'\nactivation = 'E4M3'\n";
    for (transform, has_grid) in [("", true), ("transform = { hadamard = 8 }", false)] {
        let bench = Bench::new(&format!("{linear}{transform}"));
        let layer = bench.layout.blocks[0].c_fc.weight;
        let grid = bench.quant.plan.future_weight_grid(layer, &bench.layout.specs[layer].shape);
        assert_eq!(grid.is_some(), has_grid, "{transform}");
        let known = (bench.quant.plan.weight_format(layer).is_some(), bench.quant.plan.has_one_scale(layer));
        assert_eq!(known, (has_grid, has_grid), "{transform}");
        let lost = bench.quant.plan.weight_grid_before_transform(layer, &bench.layout.specs[layer].shape);
        assert_eq!(lost.is_some(), !has_grid, "{transform}");
    }
}

/// A row of 32 elements has three blocks of 12, the last one shorter.
#[test]
fn bits_per_value_count_all_scales_of_a_row() {
    for (block, bits) in [("12", 11.0), ("[2, 12]", 9.5), ("'tensor'", 8.0)] {
        let bench = Bench::new(&format!("[quant]\nweight = 'E4M3'\nblock = {block}"));
        let layers = linear_layers(&bench.quant.plan, &bench.layout, &bench.device);
        assert_eq!(layers[0]["weight"]["bits_per_value"], bits, "{block}");
    }
}
