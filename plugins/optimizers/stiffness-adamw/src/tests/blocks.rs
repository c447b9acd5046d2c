//! Scales by block: each element steps by the spacing that its own scale gives.

use altgrad_optimizer_kit::testing::{layouts, scales};
use altgrad_plugin_api::Blocks;

use super::*;

const SHAPE: [u64; 2] = [7, 45];
const COUNT: usize = 7 * 45;

/// Powers of four and their negatives.
fn table() -> FormatSpec {
    let magnitude = |i: usize| if i == 0 { 0.0 } else { 4f32.powi(i as i32) / 64.0 };
    let values = (0..16).map(|code| if code < 8 { magnitude(code) } else { -2.0 * magnitude(code - 7) });
    FormatSpec::Table(values.collect())
}

/// Floats, an even grid, powers of two, a decode table.
fn specs_of_each_kind() -> [FormatSpec; 5] {
    let [_, e1m6, _, _, e4m3, e5m2, _, e7m0] = specs();
    [e1m6, e4m3, e5m2, e7m0, table()]
}

fn on_blocks(spec: &FormatSpec, blocks: Blocks) -> Param {
    Param::new(&SHAPE, &numbers(3, COUNT)).on_blocks(spec, &scales(blocks, COUNT), blocks)
}

#[test]
fn each_element_steps_by_its_own_scale() {
    for placement in ["post", "pre"] {
        let optimizer = stiff(&[("placement", text(placement))]);
        for spec in specs_of_each_kind() {
            for blocks in layouts(SHAPE[1]) {
                let found = on_blocks(&spec, blocks).first_not_alone(&optimizer, 1e-2).unwrap();
                assert_eq!(found, None, "{placement} {blocks:?} {spec:?}");
            }
        }
    }
}

#[test]
fn equal_scales_of_all_blocks_are_one_scale() {
    for placement in ["post", "pre"] {
        let optimizer = stiff(&[("placement", text(placement))]);
        for blocks in layouts(SHAPE[1]) {
            let [.., e4m3, _, _, _] = specs();
            let param = Param::new(&SHAPE, &numbers(3, COUNT));
            let equal = vec![3.7; blocks.count(COUNT as u64) as usize];
            let (mut by_block, mut by_tensor) =
                (param.clone().on_blocks(&e4m3, &equal, blocks), param.on(&e4m3, 3.7));
            for update in 1..=10 {
                let grad = numbers(50 + update, COUNT);
                by_block.step(&optimizer, 1e-2, update, &grad).unwrap();
                by_tensor.step(&optimizer, 1e-2, update, &grad).unwrap();
            }
            assert_eq!(
                (by_block.w, by_block.states),
                (by_tensor.w, by_tensor.states),
                "{placement} {blocks:?}"
            );
        }
    }
}

/// log2 of the spacing in weight units at each weight, by the definition.
fn log2_spacings(param: &Param) -> Vec<f64> {
    let Some((spec, pairs, blocks)) = &param.grid else { return Vec::new() };
    let grid = ValueGrid::new(spec).unwrap();
    let log2 = |(i, w): (usize, &f32)| {
        let [scale, _] = pairs[blocks.of(i as u64) as usize];
        (grid.spacing(f64::from(scale * w)) / f64::from(scale)).log2()
    };
    param.w.iter().enumerate().map(log2).collect()
}

/// `w <- keep w - (S / S_bar)^p a`, in f64 from the weights before each update; eps = 0.
#[test]
fn power_takes_its_mean_over_all_blocks() {
    const LR: f64 = 1e-3;
    for (p, spec) in [1.0, 0.5, -1.0].into_iter().flat_map(|p| specs_of_each_kind().map(|spec| (p, spec))) {
        let given = [("placement", text("power")), ("power", float(p)), ("eps", float(1e-30))];
        let optimizer = stiff(&given);
        for blocks in layouts(SHAPE[1]) {
            let mut param = on_blocks(&spec, blocks);
            let (mut m, mut v) = (vec![0f64; COUNT], vec![0f64; COUNT]);
            for update in 1..=5 {
                let (before, logs, grad) =
                    (param.w.clone(), log2_spacings(&param), numbers(70 + update, COUNT));
                let mean = logs.iter().sum::<f64>() / COUNT as f64;
                param.step(&optimizer, LR, update, &grad).unwrap();
                let [correction1, correction2] = [0.9f64, 0.95].map(|beta| 1.0 - beta.powi(update as i32));
                for i in 0..COUNT {
                    let g = f64::from(grad[i]);
                    (m[i], v[i]) = (0.9 * m[i] + 0.1 * g, 0.95 * v[i] + 0.05 * g * g);
                    let adam = LR * (m[i] / correction1) / (v[i] / correction2).sqrt();
                    let step = 2f64.powf(p * (logs[i] - mean)) * adam;
                    let expected = (1.0 - LR * 0.1) * f64::from(before[i]) - step;
                    let (got, w) = (f64::from(param.w[i]), f64::from(before[i]));
                    // The error of f32 in the moments, in the factor, and at the weight.
                    let allowed = 1e-5 * step.abs() + 1.5e-7 * (w.abs() + step.abs());
                    assert!(
                        (got - expected).abs() <= allowed,
                        "power {p}, {blocks:?}, {spec:?}, update {update}, element {i}: {got:e}, expected {expected:e}"
                    );
                }
            }
        }
    }
}

#[test]
fn power_zero_is_adamw_to_the_bit_under_any_scales() {
    let optimizer = stiff(&[("placement", text("power")), ("power", float(0.0))]);
    for blocks in layouts(SHAPE[1]) {
        let mut on = on_blocks(&specs()[4], blocks);
        let mut plain = Param { grid: None, ..on.clone() };
        for update in 1..=10 {
            let grad = numbers(90 + update, COUNT);
            on.step(&optimizer, 1e-3, update, &grad).unwrap();
            plain.step(&optimizer, 1e-3, update, &grad).unwrap();
        }
        assert_eq!((on.w, on.states), (plain.w, plain.states), "{blocks:?}");
    }
}

/// A block that rounds to zero has a scale of E8M0's or E4M3's smallest number: its elements step as by AdamW, and the
/// others as without it. No kernels are launched for it.
#[test]
fn power_leaves_blocks_of_zeros_out() {
    let (e4m3, blocks, width) = (&specs()[4], Blocks::consecutive(45), 45);
    for (p, scale) in [(1.0, 2f32.powi(127)), (-1.0, 2f32.powi(127)), (-1.0, f32::MAX)] {
        let optimizer = stiff(&[("placement", text("power")), ("power", float(p))]);
        let (values, zeros) = (numbers(3, 2 * width), vec![0f32; width]);
        let mut kept = Param::new(&[2, 45], &values).on_blocks(e4m3, &[4.0, 3.0], blocks);
        let mut plain = Param::new(&[1, 45], &zeros);
        let mut whole =
            Param::new(&[3, 45], &[values, zeros].concat()).on_blocks(e4m3, &[4.0, 3.0, scale], blocks);
        for update in 1..=5 {
            let grad = numbers(60 + update, 3 * width);
            whole.step(&optimizer, 1e-2, update, &grad).unwrap();
            kept.step(&optimizer, 1e-2, update, &grad[..2 * width]).unwrap();
            plain.step(&optimizer, 1e-2, update, &grad[2 * width..]).unwrap();
        }
        assert_eq!(whole.w, [kept.w, plain.w].concat(), "power {p}, scale {scale:e}");

        let (info, scalars) = (ParamInfo::new("w", &[3, 45]), StepScalars::new(1e-3, 1));
        let pairs = [4.0, 3.0, scale].map(|scale| [scale, 1.0 / scale]);
        let launches = |count: usize| {
            let grid = Grid { spec: e4m3, scales: Scales::new(&pairs[..count], blocks) };
            optimizer.launches(&info, scalars, Some(grid)).unwrap()
        };
        assert_eq!((launches(2).is_some(), launches(3).is_some()), (true, false), "scale {scale:e}");
    }
}

#[test]
fn parts_begin_in_the_middle_of_blocks() {
    let optimizer = stiff(&[]);
    for blocks in layouts(SHAPE[1]) {
        let (mut whole, mut parts) = (on_blocks(&specs()[4], blocks), on_blocks(&specs()[4], blocks));
        for update in 1..4 {
            let grad = numbers(update, COUNT);
            whole.step(&optimizer, 1e-3, update, &grad).unwrap();
            parts.step_in_parts(&optimizer, 1e-3, update, &grad, 37).unwrap();
        }
        assert!(whole == parts, "{blocks:?}");
    }
}

/// Kernels read the scales of blocks from a buffer: their numbers only identify the block of an element.
#[test]
fn launches_differ_in_the_extents_of_blocks() {
    let (info, scalars) = (ParamInfo::new("w", &SHAPE), StepScalars::new(1e-3, 1));
    for placement in ["post", "power", "pre"] {
        let optimizer = stiff(&[("placement", text(placement))]);
        let launches = |scales: Scales<'_>| {
            let grid = Grid { spec: &specs()[4], scales };
            optimizer.launches(&info, scalars, Some(grid)).unwrap().unwrap()
        };
        let whole = launches(Scales::whole(&[2.0, 0.5]));
        for blocks in layouts(SHAPE[1]) {
            let pairs = vec![[4.0, 0.25]; blocks.count(COUNT as u64) as usize];
            let found = launches(Scales::new(&pairs, blocks));
            assert_eq!(found.len(), whole.len(), "{placement}");
            for (found, whole) in found.iter().zip(&whole) {
                let words = found.scalars.len() - 4;
                assert_eq!((found.op, &found.scalars[..words]), (whole.op, &whole.scalars[..words]));
                let Blocks { columns, block_rows, block_columns } = blocks;
                let extents = [columns, block_rows, block_columns, columns.div_ceil(block_columns)];
                let extents = extents.map(|extent| extent.min(u64::from(u32::MAX)) as u32);
                assert_eq!(found.scalars[words..], extents, "{placement} {blocks:?}");
            }
        }
    }
}

#[test]
fn rules_say_what_is_done_with_a_parameter() {
    let info = ParamInfo::new("w", &SHAPE);
    let (spec, table) = (&specs()[4], &table());
    let scales = Scales::new(&[], Blocks::consecutive(32));
    for (given, expected) in [
        (vec![], "post: steps in ULP"),
        (vec![("placement", text("pre"))], "pre: gradients times the spacing"),
        (vec![("placement", text("power")), ("power", float(0.5))], "power 0.5 of the relative spacing"),
    ] {
        let optimizer = stiff(&given);
        for spec in [spec, table] {
            assert_eq!(optimizer.rule(&info, Some(Grid { spec, scales })).unwrap(), expected);
        }
        assert_eq!(optimizer.rule(&info, None).unwrap(), "AdamW: no grid");
        let named = stiff(&[given, vec![("unquantized", text("E5M2"))]].concat());
        assert_eq!(named.rule(&info, None).unwrap(), expected, "as if it were on that grid");
    }
}
