//! Casts of run files: inheritance, recipes, and refusals with their message and place.

use altgrad_metrics::Role;

use super::try_load;
use crate::{
    BlockCount, LayerRule, QuantSection, RECIPES, RoundingChoice, RunConfig,
    cast::{
        BlockChoice, CastRoundingChoice, ResolvedCast, ScaleTypeChoice, TransformChoice, UseSourceChoice,
    },
};

fn load(text: &str) -> RunConfig {
    try_load(text, &[]).unwrap_or_else(|error| panic!("{text}\n{error}")).0
}

fn cast(text: &str, role: Role, layer: Option<usize>) -> ResolvedCast {
    let quant = load(text).quant;
    let rule = layer.map(|index| &quant.layer[index]);
    quant.cast(role, |other: &LayerRule| rule.is_some_and(|rule| std::ptr::eq(rule, other)))
}

#[test]
fn a_format_alone_means_what_it_always_did() {
    let text = "[quant]\nweight = 'E4M3'\nweight_rounding = 'stochastic'\nblock = 8";
    let weight = cast(text, Role::Weight, None);
    assert_eq!((weight.format(), weight.key.as_str()), (Some("E4M3"), "quant.weight"));
    assert_eq!(weight.fields.rounding, Some(CastRoundingChoice::Stochastic));
    assert_eq!(weight.fields.block, Some(BlockChoice::Along(8)));
    assert_eq!(cast(text, Role::WeightDgrad, None).source(), UseSourceChoice::Reuse);
    assert_eq!(cast(text, Role::Activation, None).format(), None);
    assert_eq!(load(text).quant.rounding, RoundingChoice::NearestEven);
}

#[test]
fn the_more_specific_table_wins_and_of_two_alike_the_later() {
    let text = "
        [quant]
        weight = 'E4M3'
        activation = 'E4M3'
        block = 32
        source = 'hp'
        [quant.scaling]
        type = 'e8m0'
        [quant.cast.weight]
        block = [16, 16]
        [quant.cast.weight_dgrad]
        rounding = 'nearest-away'
        scaling = { rule = 'floor' }
        [[quant.layer]]
        match = '*'
        weight = 'E5M2'
        block = 64
        cast.weight_dgrad.format = 'none'";
    let weight = cast(text, Role::Weight, None);
    assert_eq!(
        (weight.fields.block, weight.key_of("block")),
        (Some(BlockChoice::Tile([16, 16])), "quant.cast.weight.block".into())
    );
    let second = cast(text, Role::WeightDgrad, None);
    assert_eq!((second.format(), second.source()), (Some("E4M3"), UseSourceChoice::HighPrecision));
    assert_eq!(
        (second.key_of("source"), second.key_of("scaling.type")),
        ("quant.source".into(), "quant.scaling.type".into())
    );
    let scaling = second.fields.scaling.unwrap().cast_scaling();
    assert_eq!((scaling.storage, scaling.rule.name()), (ScaleTypeChoice::E8m0, "floor"));
    // The rule's block is general, the tile is of the weight.
    let ruled = cast(text, Role::Weight, Some(0));
    assert_eq!((ruled.format(), ruled.fields.block), (Some("E5M2"), Some(BlockChoice::Tile([16, 16]))));
    let off = cast(text, Role::WeightDgrad, Some(0));
    assert_eq!((off.format(), off.key.as_str()), (None, "quant.layer.0.cast.weight_dgrad.format"));
}

#[test]
fn recipes_are_read_and_written_out() {
    for (name, text) in RECIPES {
        let config = load(&format!("[quant]\nrecipe = '{name}'"));
        let own = QuantSection { from_recipe: Some((*name).to_owned()), ..load(text).quant };
        assert_eq!(config.quant, own, "{name}");
        assert_eq!(config.quant.recipe, None);
        let written = config.to_toml().unwrap();
        assert_eq!(load(&written).quant, config.quant, "{name}");
        assert!(text.starts_with("# ") && text.contains("\n# Source: "), "{name} names no source");
    }
    let config = load("[quant]\nrecipe = 'nvfp4'\nskip_last = 2\n[quant.cast.weight]\nblock = [32, 16]");
    assert_eq!(
        (config.quant.skip_last, config.quant.block),
        (BlockCount::Blocks(2), Some(BlockChoice::Along(16)))
    );
    let cast = config.quant.cast(Role::ActivationWgrad, |_| false);
    assert!(matches!(cast.fields.transform, Some(TransformChoice::Hadamard(_))), "{cast:?}");
    assert_eq!(config.quant.cast.of(Role::Weight).unwrap().block, Some(BlockChoice::Tile([32, 16])));
}

#[test]
fn rules_of_the_run_file_come_after_those_of_its_recipe() {
    let text = "[quant]\nrecipe = 'hybrid'\n[[quant.layer]]\nmatch = 'h.0.*'\nweight = 'E7M0'";
    let (config, source) = try_load(text, &[]).unwrap();
    let patterns: Vec<&str> = config.quant.layer.iter().map(|rule| rule.pattern.as_str()).collect();
    assert_eq!(patterns, ["*.mlp.*", "lm_head.weight", "h.0.*"]);
    assert_eq!(source.locate("quant.layer.2.weight"), "conf/x.toml:5:10");
    assert!(
        source.locate("quant.layer.0.match").starts_with("recipe hybrid:"),
        "{}",
        source.locate("quant.layer.0.match")
    );
}

/// A rule with a recipe inherits nothing from [quant] and earlier rules; later rules inherit from it.
#[test]
fn rules_with_a_recipe_begin_anew() {
    let text = "[quant]\nrecipe = 'quartet'\n[[quant.layer]]\nmatch = 'a'\ngrad = 'E5M2'\n\
        [[quant.layer]]\nmatch = '*'\nrecipe = 'nvfp4'\ncast.weight.block = [8, 16]\n\
        [[quant.layer]]\nmatch = 'b'\nrecipe = 'none'\nweight = 'E4M3'\n[[quant.layer]]\nmatch = 'c'\nblock = 64";
    let quant = load(text).quant;
    let nvfp4 = load("[quant]\nrecipe = 'nvfp4'\n[quant.cast.weight]\nblock = [8, 16]").quant;
    for role in Role::LINEAR {
        let of = |last: usize| {
            quant.cast(role, |rule| quant.layer[..last].iter().any(|other| std::ptr::eq(rule, other)))
        };
        assert_eq!(of(2).fields, nvfp4.cast(role, |_| false).fields, "{role:?}");
        let weight = load("[quant]\nweight = 'E4M3'").quant.cast(role, |_| false).fields;
        assert_eq!(of(3).fields, weight, "{role:?}");
        assert_eq!(of(4).fields.block, Some(BlockChoice::Along(64)), "{role:?}");
    }
    assert_eq!(load(&load(text).to_toml().unwrap()).quant, quant);
    for (recipe, message) in
        [("mxpf8", "there is no recipe `mxpf8`"), ("hybrid", "the recipe `hybrid` has `quant.layer`")]
    {
        let refused =
            try_load(&format!("[[quant.layer]]\nmatch = '*'\nrecipe = '{recipe}'"), &[]).unwrap_err().message;
        assert!(refused.starts_with(message), "{refused}");
    }
}

/// Sums of limited width are never written as f32.
#[test]
fn the_resolved_file_has_the_width_of_sums() {
    for sums in [
        "'f32'",
        "'hopper_fp8'",
        "'blackwell_fp4'",
        "{ bits = 13, round = 'nearest', group = 32, promote = 128, promote_round = 'truncate' }",
    ] {
        let config = load(&format!("[quant]\nweight = 'E4M3'\nactivation = 'E4M3'\naccumulate = {sums}"));
        let written = config.to_toml().unwrap();
        assert_eq!(load(&written).quant, config.quant, "{written}");
        assert_eq!(written.contains("bits = "), sums != "'f32'", "{written}");
    }
}

/// The source of one rule gives a block of another an effect, also with a rule in between.
#[test]
fn rules_may_act_together() {
    let activations = "[quant]\nactivation = 'E4M3'\nblock = 32\n";
    let rule = |pattern: &str, keys: &str| format!("[[quant.layer]]\nmatch = '{pattern}'\n{keys}\n");
    let (source, other) = (rule("*.mlp.*", "source = 'hp'"), rule("*.attn.*", "source = 'reuse'"));
    let block = rule("*.mlp.c_proj.weight", "cast.activation_wgrad.block = 16");
    load(&format!("{activations}{source}{block}"));
    load(&format!("{activations}{source}{other}{block}"));
    let refused = try_load(&format!("{activations}{other}{block}"), &[]).map(|_| ()).unwrap_err().message;
    assert_eq!(refused, "`quant.layer.1.cast.activation_wgrad.block` has no effect here");
}

/// Keys of scales that another use than the weight without master weights takes, or that override an inherited one.
#[test]
fn keys_that_some_cast_takes_are_accepted() {
    let stored = "[quant]\nweight = 'E4M3'\nmaster_weights = 'none'\n";
    load(&format!("{stored}activation = 'E4M3'\n[quant.scaling]\nrule = 'floor'"));
    load(&format!("{stored}[quant.cast.weight.scaling]\ntype = 'f32'\ndequantize = 'divide'"));
    let second = "[quant.cast.weight_dgrad]\nsource = 'hp'\n";
    load(&format!("{stored}{second}[quant.cast.weight.scaling]\nrule = 'floor'"));
    load(
        "[quant]\nweight = 'E4M3'\nscaling.amax = 'delayed'\n[quant.cast.weight.scaling]\nrule = 'rms'\namax = 'dynamic'",
    );
}

#[test]
#[rustfmt::skip]
fn what_casts_cannot_be_is_refused_where_it_stands() {
    let blocks = "`quant.block` must be \"none\", \"tensor\", \"row\", an integer above 0, or a tile such as [16, 16]";
    let (named, zero) = (format!("{blocks}, found \"diagonal\""), format!("{blocks}, found 0"));
    let reuse = "it needs a format, and in weight_dgrad, activation_wgrad and grad_wgrad a source other than \"reuse\"";
    let first = "the cast of the tensor's first product sets it, unless source is \"hp\", or \"dequantized\" with a format";
    for (text, message, at, hint) in [
        ("[quant]\nweight = 'E4M3'\nblock = 'diagonal'", named.as_str(), ":3:9", ""),
        ("[quant]\nweight = 'E4M3'\nblock = 0", zero.as_str(), ":3:9", ""),
        ("[quant]\nweight = 'E4M3'\n[quant.cast.bias]\nformat = 'E4M3'", "unknown key `quant.cast.bias`", ":3:13", "known keys in `quant.cast`: weight, activation, grad, weight_dgrad, activation_wgrad, grad_wgrad, weight_grad, qkv, query, key, value, probabilities, scores_grad, attention_grad, qkv_grad, residual, norm, norm_gain, embedding, logits"),
        ("[quant]\nweight = 'E4M3'\n[quant.scaling]\ntype = 'e5m2'", "`quant.scaling.type` must be `f32`, `e8m0`, `e4m3`, `ue5m3`, `ue5m3:ieee` or `e6m2`, found \"e5m2\"", ":4:8", "did you mean `e6m2`?"),
        ("[quant]\nweight = 'E4M3'\n[quant.cast.weight_dgrad]\nblock = 32", "`quant.cast.weight_dgrad.block` has no effect here", ":4:1", reuse),
        ("[quant]\nweight = 'E4M3'\n[quant.cast.weight_dgrad]\ntransform = { hadamard = 16 }", "`quant.cast.weight_dgrad.transform` has no effect here", ":4:1", reuse),
        ("[quant]\nactivation = 'E4M3'\n[quant.cast.activation_wgrad]\nformat = 'E5M2'", "`quant.cast.activation_wgrad.format` has no effect here", ":4:1", first),
        ("[quant]\nactivation = 'E4M3'\ngrad = 'E4M3'\n[quant.cast.grad_wgrad]\nformat = 'none'", "`quant.cast.grad_wgrad.format` has no effect here", ":5:1", first),
        ("[quant]\nweight = 'E4M3'\n[quant.cast.grad]\nrounding = 'stochastic'", "`quant.cast.grad.rounding` has no effect here", ":4:1", reuse),
        ("[quant]\nweight = 'E4M3'\n[quant.cast.weight]\nsource = 'hp'\n[quant.cast.grad]\nsource = 'hp'", "`quant.cast.grad.source` has no effect here", ":6:1", "it is for the operands weight_dgrad, activation_wgrad and grad_wgrad"),
        ("[quant]\nweight = 'E4M3'\n[quant.scaling]\nrule = 'floor'\norder = 'decode'", "`quant.scaling.order` has no effect here", ":5:1", "it needs rule max"),
        ("[quant]\nweight = 'E4M3'\n[quant.scaling]\nfirst = 'one'", "`quant.scaling.first` has no effect here", ":4:1", "it needs amax = \"delayed\""),
        ("[quant]\nweight = 'E4M3'\nmaster_weights = 'none'\n[quant.cast.weight.scaling]\nrule = 'floor'", "`quant.cast.weight.scaling.rule` has no effect here", ":5:1", "quant.stored_scale has the scales of weights without master weights"),
        ("[quant]\nweight = 'E4M3'\n[quant.cast.weight.scaling]\nrule = 'rms'\namax = 'delayed'", "`quant.cast.weight.scaling.amax` has no effect here", ":5:1", "it needs a format with scales that follow from a largest magnitude"),
        ("[quant]\nrecipe = 'mxpf8'", "there is no recipe `mxpf8`", ":2:10", "did you mean `mxfp8`?"),
        ("[quant]\nskip_last = '15'\nweight = 'E4M3'", "`quant.skip_last` must be a number of blocks, or a share of all such as \"15%\", found \"15\"", ":2:13", ""),
        ("[quant]\nweight = 'E4M3'\n[quant.cast.weight]\ntransform = 'fft'", "`quant.cast.weight.transform` must be \"none\" or a table such as { hadamard = 16 }, found \"fft\"", ":4:13", ""),
        ("[quant]\nweight = 'E4M3'\ntransform = { hadamard = 16, sign = 'te' }", "unknown key `quant.transform.sign`", ":3:30", "did you mean `signs`? known keys in `quant.transform`: hadamard, signs, to"),
        ("[quant]\nweight = 'E4M3'\ntransform = { hadamard = 16, signs = 'sed' }", "`quant.transform.signs` must be `none`, `te` or `seed`, found \"sed\"", ":3:38", "did you mean `seed`?"),
        ("[optimizer.states]\nm = { format = 'E4M3', blok = 16 }", "unknown key `optimizer.states.m.blok`", ":2:24", "did you mean `block`? known keys in `optimizer.states.m`: format, block, rounding, min_size, expand"),
        ("[optimizer.states]\nm = { format = 'E4M3', rounding = 'up' }", "`optimizer.states.m.rounding` must be `nearest-even`, `nearest-away`, `nearest-zero`, `nearest-up`, `toward-zero` or `stochastic`, found \"up\"", ":2:35", ""),
        ("[optimizer.states]\nm = 'fp32'", "`optimizer.states.m` must be `f32`, `bf16` or a table { format, block, rounding, min_size, expand }, found \"fp32\"", ":2:5", ""),
    ] {
        let error = try_load(text, &[]).map(|_| ()).unwrap_err();
        let said = (error.message.as_str(), error.place.as_deref().unwrap_or_default(), error.hint.as_deref().unwrap_or_default());
        let hint = if message.ends_with("no effect here") { format!("{hint}; else remove the key") } else { hint.to_owned() };
        assert_eq!(said, (message, format!("conf/x.toml{at}").as_str(), hint.as_str()), "{text}");
        super::refusals::follow_hints(text);
    }
}

/// The recipe's keys of delayed scales are not at fault where the run file replaces them.
#[test]
fn keys_of_a_recipe_that_the_run_file_replaces_are_not_refused() {
    let delayed = "[quant]\nrecipe = 'te_delayed'\nblock = 32\n";
    load(&format!("{delayed}scaling.amax = 'dynamic'"));
    super::refusals::follow_hints(&format!("{delayed}scaling.window = 4\nscaling.amax = 'dynamic'"));
}
