//! Casts that are read, and casts that are refused, each with its exact words.

use super::*;

#[test]
fn a_cast_may_be_a_name_a_line_a_table_or_a_document() {
    let (name, source, _) = read_cast("--cast", " E4M3").unwrap();
    assert_eq!(source.locate("format"), "--cast:1:2");
    assert_eq!(
        (name.format.as_str(), name.block, name.scaling),
        ("E4M3", BlockChoice::Tensor, Default::default())
    );
    let line = "format = \"E2M1\", block = [16, 16], scaling = { type = \"e4m3\", tensor = \"f32\" }";
    let (cast, ..) = read_cast("--cast", line).unwrap();
    assert_eq!(cast.block, BlockChoice::Tile([16, 16]));
    assert_eq!(cast.scaling.storage, ScaleTypeChoice::E4m3);
    let lines = "format = \"E2M1\"\nblock = [16, 16]\nscaling.type = \"e4m3\"\nscaling.tensor = \"f32\"";
    for other in [format!("{{ {line} }}"), lines.to_owned()] {
        assert_eq!(read_cast("--cast", &other).unwrap().0, cast, "{other}");
    }
}

#[test]
fn what_a_cast_cannot_be_is_refused_where_it_stands() {
    const HINT: &str = "a cast is keys such as format = \"E4M3\", block = 32, scaling = { type = \"e8m0\", rule = \"rceil\" }";
    for (text, message, place, hint) in [
        ("", "the cast has no `format`", "--cast", HINT),
        (
            "format = \"E4M3\", blok = 3",
            "unknown key `blok`",
            "--cast:1:18",
            "did you mean `block`? known keys: format, rounding, random_bits, random_mode, overflow, block, transform, center, scaling",
        ),
        (
            "{format = \"E4M3\", scaling = { ruel = 'max' }}",
            "unknown key `scaling.ruel`",
            "--cast:1:31",
            "did you mean `rule`? known keys in [scaling]: type, rule, pow2, order, tensor, tensor_target, target, outer, correction, round, choice, candidates, microexponents, arithmetic, margin, floor, limit, zero, nonfinite, factor, quantize, dequantize, amax, static_amax, deviations",
        ),
        (
            "format = 'E4M3', block = 'column'",
            "`block` must be \"none\", \"tensor\", \"row\", an integer above 0, or a tile such as [16, 16], found \"column\"",
            "--cast:1:26",
            HINT,
        ),
        (
            "format = 'E4M3', block = [16, 0]",
            "`block` must be \"none\", \"tensor\", \"row\", an integer above 0, or a tile such as [16, 16], found an array",
            "--cast:1:26",
            HINT,
        ),
        (
            "format = 'E4M3', scaling = { type = 'e5m2' }",
            "`scaling.type` must be `f32`, `e8m0`, `e4m3`, `ue5m3`, `ue5m3:ieee` or `e6m2`, found \"e5m2\"",
            "--cast:1:37",
            "did you mean `e6m2`?",
        ),
        (
            "format = 'E4M3', scaling = { microexponents = [4, 8] }",
            "`scaling.microexponents` must be up to four sizes, each dividing the one before, such as [8, 4], found an array",
            "--cast:1:47",
            HINT,
        ),
        ("format = 'E4M3', scaling = 'max'", "`scaling` must be a table, found \"max\"", "--cast:1:28", HINT),
        (
            "format = 'E4M3', scaling = { amax = 'delayed' }",
            "`scaling.amax` is delayed, but a single cast has no history of amax",
            "--cast:1:37",
            "give the past amax: amax = \"static\", static_amax = 3.5",
        ),
        (
            "format = 'E4M3', scaling = { amax = 'static' }",
            "`scaling.amax` is static, but no amax is given",
            "--cast:1:37",
            "add static_amax = 3.5",
        ),
    ] {
        let error = read_cast("--cast", text).unwrap_err();
        assert_eq!(error.message, message, "{text}");
        assert_eq!((error.place.as_deref(), error.hint.as_deref()), (Some(place), Some(hint)), "{text}");
    }
}

/// A program may write every key of every cast.
#[test]
fn keys_without_effect_are_named_and_change_nothing() {
    for (text, plain, messages) in [
        (
            "format = 'E4M3', scaling = { rule = 'floor', order = 'decode', limit = 'f32' }",
            "format = 'E4M3', scaling = { rule = 'floor' }",
            &["`scaling.order` has no effect here", "`scaling.limit` has no effect here"][..],
        ),
        (
            "format = 'E4M3', scaling = { static_amax = 1 }",
            "E4M3",
            &["`scaling.static_amax` has no effect here"],
        ),
        (
            "format = 'E4M3', block = 'none', scaling = { factor = 2, amax = 'static', static_amax = 3 }",
            "format = 'E4M3', block = 'none'",
            &["`scaling` has no effect with block none"],
        ),
        ("format = 'E4M3', scaling = { factor = 2 }", "format = 'E4M3', scaling = { factor = 2 }", &[]),
    ] {
        let (cast, _, idle) = read_cast("--cast", text).unwrap();
        let found: Vec<&str> = idle.iter().map(|key| key.message.as_str()).collect();
        assert_eq!(found, messages, "{text}");
        let expected = read_cast("--cast", plain).unwrap().0.cast();
        if !text.contains("order") {
            assert_eq!(cast.cast(), expected, "{text}");
        }
    }
}
