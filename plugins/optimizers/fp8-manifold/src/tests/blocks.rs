//! Scales by block: each coordinate is that of the weight's own scale.

use altgrad_optimizer_kit::testing::{layouts, scales};
use altgrad_plugin_api::{Blocks, ErrorKind, ValueGrid};

use super::*;

/// Rows longer than the pieces that updates are computed in.
const SHAPE: [u64; 2] = [4, 600];
const COUNT: usize = 4 * 600;

/// 0 to 7 and -8 to -1.
fn table() -> FormatSpec {
    let value = |code: i8| f32::from(if code < 8 { code } else { code - 16 });
    FormatSpec::Table((0..16).map(value).collect())
}

/// Weights from near zero to the ends of the grid.
fn on_blocks(spec: &FormatSpec, blocks: Blocks) -> Param {
    let (scales, max) = (scales(blocks, COUNT), ValueGrid::new(spec).unwrap().max_finite());
    let largest = max / scales.iter().fold(0f32, |largest, &scale| largest.max(scale));
    let w: Vec<f32> = numbers(3, COUNT).iter().map(|x| x.powi(5) * largest).collect();
    Param::new(&SHAPE, &w).on_blocks(spec, &scales, blocks)
}

/// Charts, retractions, and learning rates whose steps are short and long.
fn optimizers() -> impl Iterator<Item = (String, Fp8Manifold, f64)> {
    let kinds = [("minifloat", "exp"), ("minifloat", "linear"), ("asinh", "exp"), ("asinh", "linear")];
    kinds.into_iter().flat_map(|(chart, retraction)| {
        [0.1, 40.0].map(|lr| {
            let given =
                [("chart", text(chart)), ("retraction", text(retraction)), ("weight_decay", float(1e-3))];
            (format!("{chart} {retraction}, lr {lr}"), manifold(&given), lr)
        })
    })
}

#[test]
fn each_element_steps_on_the_chart_of_its_own_scale() {
    let [_, e1m6, _, _, e4m3, e5m2, _, e7m0] = formats();
    for (what, optimizer, lr) in optimizers() {
        for format in [e1m6, e4m3, e5m2, e7m0] {
            for blocks in layouts(SHAPE[1]) {
                let param = on_blocks(&FormatSpec::Minifloat(format), blocks);
                let found = param.first_not_alone(&optimizer, lr).unwrap();
                assert_eq!(found, None, "{what} {blocks:?} {format:?}");
            }
        }
    }
}

#[test]
fn so_it_does_on_decode_tables() {
    for retraction in ["exp", "linear"] {
        let optimizer = manifold(&[("retraction", text(retraction))]);
        for blocks in layouts(SHAPE[1]) {
            let found = on_blocks(&table(), blocks).first_not_alone(&optimizer, 0.3).unwrap();
            assert_eq!(found, None, "{retraction} {blocks:?}");
        }
    }
}

#[test]
fn parts_begin_in_the_middle_of_blocks() {
    let [_, _, _, _, e4m3, ..] = formats();
    for (what, optimizer, lr) in optimizers() {
        for blocks in layouts(SHAPE[1]) {
            let param = on_blocks(&FormatSpec::Minifloat(e4m3), blocks);
            let (mut whole, mut parts) = (param.clone(), param);
            for update in 1..4 {
                let grad = numbers(update, COUNT);
                whole.step(&optimizer, lr, update, &grad).unwrap();
                parts.step_in_parts(&optimizer, lr, update, &grad, 377).unwrap();
            }
            assert!(whole == parts, "{what} {blocks:?}");
        }
    }
}

/// Kernels read the scales of blocks from a buffer: their numbers only identify the block of an element.
#[test]
fn launches_differ_in_the_extents_of_blocks() {
    let [_, _, _, _, e4m3, ..] = formats();
    let (spec, info) = (FormatSpec::Minifloat(e4m3), ParamInfo::new("w", &SHAPE));
    let scalars = StepScalars::new(1e-3, 1);
    for (what, optimizer, _) in optimizers() {
        let launch = |scales: Scales<'_>| {
            let grid = Some(Grid { spec: &spec, scales });
            let [launch] = optimizer.launches(&info, scalars, grid).unwrap().unwrap().try_into().unwrap();
            launch
        };
        let whole = launch(Scales::whole(&[2.0, 0.5]));
        for blocks in layouts(SHAPE[1]) {
            let pairs: Vec<_> = scales(blocks, COUNT).iter().map(|&scale| [scale, 1.0 / scale]).collect();
            let found = launch(Scales::new(&pairs, blocks));
            let words = found.scalars.len() - 4;
            assert_eq!((found.op, &found.scalars[..words]), (whole.op, &whole.scalars[..words]), "{what}");
            let Blocks { columns, block_rows, block_columns } = blocks;
            let extents = [columns, block_rows, block_columns, columns.div_ceil(block_columns)];
            let extents = extents.map(|extent| extent.min(u64::from(u32::MAX)) as u32);
            assert_eq!(found.scalars[words..], extents, "{what} {blocks:?}");
        }
    }
}

#[test]
fn rules_say_what_is_done_with_a_parameter_and_refuse_what_has_no_chart() {
    let [_, _, _, _, e4m3, ..] = formats();
    let bf16 = minifloat(8, 7, Domain::IEEE).unwrap();
    let (minifloat, wide, table) = (FormatSpec::Minifloat(e4m3), FormatSpec::Minifloat(bf16), table());
    let info = ParamInfo::new("w", &SHAPE);
    // Before the first step no scale is known.
    let scales = Scales::new(&[], Blocks::consecutive(32));
    for chart in ["minifloat", "asinh"] {
        for retraction in ["exp", "linear"] {
            let optimizer = manifold(&[("chart", text(chart)), ("retraction", text(retraction))]);
            let rule = |spec| optimizer.rule(&info, Some(Grid { spec, scales }));
            let expected = format!("{chart} chart, {retraction} retraction");
            assert_eq!(rule(&minifloat).unwrap(), expected);
            assert_eq!(optimizer.rule(&info, None).unwrap(), "AdamW: no grid");
            for spec in [&table, &wide] {
                match rule(spec) {
                    Ok(rule) => assert_eq!((chart, rule), ("minifloat", expected.clone())),
                    Err(error) => assert_eq!((chart, error.kind), ("asinh", ErrorKind::UNSUPPORTED)),
                }
            }
        }
    }
    let unquantized = manifold(&[("chart", text("asinh")), ("unquantized", text("E8M7"))]);
    assert!(unquantized.rule(&info, None).is_err(), "as if it were on that grid");
}
