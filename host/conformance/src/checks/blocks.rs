//! Scales by block: a call equals separate calls with each block's one scale, and too few scales are refused.

use altgrad_plugin_api::{Blocks, ErrorKind, QuantParams, QuantStats, RandomKey, Scales};

use super::{
    shapes::{UNWRITTEN_CODE, refused},
    statistics::{recomputed, same_counts, same_sums},
};
use crate::{
    CheckResult, Instance, Subject, Verdict,
    compare::{KEY, mode_name, same_values},
    inputs::{NANS, bit_patterns, in_range, scales},
    oracle::Oracle,
    subject::{UNWRITTEN, said},
};

const fn tiles(columns: u64, block_rows: u64, block_columns: u64) -> Blocks {
    Blocks { columns, block_rows, block_columns }
}

/// Elements of the tensor.
const ELEMENTS: usize = 2500;
/// Ways to cut it into blocks.
const LAYOUTS: [(&str, Blocks); 11] = [
    ("blocks of 16", Blocks::consecutive(16)),
    ("blocks of 32", Blocks::consecutive(32)),
    ("blocks of 5", Blocks::consecutive(5)),
    ("blocks of 32 in rows of 80", tiles(80, 1, 32)),
    ("rows of 48", tiles(48, 1, 48)),
    ("rows of 37", tiles(37, 1, 37)),
    ("columns of 64", tiles(64, u64::MAX, 1)),
    ("columns of 9", tiles(9, 4, 1)),
    ("tiles of 4 x 16", tiles(64, 4, 16)),
    ("ragged tiles of 8 x 16", tiles(50, 8, 16)),
    ("ragged tiles of 3 x 7", tiles(45, 3, 7)),
];
/// First element and number of elements of calls: the whole, then parts that begin and end within blocks.
const CALLS: [(usize, usize); 5] = [(0, ELEMENTS), (1, 600), (83, 2), (112, 700), (1029, ELEMENTS - 1029)];

/// Values of every sort, NaN and infinities among them.
fn values(oracle: &Oracle) -> Vec<f32> {
    let mut values = in_range(oracle, 1.0, ELEMENTS, 111);
    let others = bit_patterns(ELEMENTS / 8, 112);
    values.iter_mut().step_by(8).zip(others).for_each(|(value, other)| *value = other);
    let special = NANS.into_iter().chain([f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0]).cycle();
    values.iter_mut().step_by(37).zip(special).for_each(|(value, special)| *value = special);
    values
}

/// A pair of scale and inverse for each block; neighbours differ.
fn pairs(oracle: &Oracle, blocks: Blocks) -> Vec<[f32; 2]> {
    let scales = scales(oracle).into_iter().cycle();
    let growing = (0..blocks.count(ELEMENTS as u64)).map(|block| 1.0 + block as f32 / 4096.0);
    growing.zip(scales).map(|(factor, scale)| [scale * factor, 1.0 / (scale * factor)]).collect()
}

/// The results of calls over one slice.
struct Made {
    values: Vec<f32>,
    stats: QuantStats,
    histogram: Vec<u64>,
    codes: Vec<u16>,
    decoded: Vec<f32>,
}

impl Made {
    fn nothing(oracle: &Oracle) -> Self {
        Self {
            values: Vec::new(),
            stats: QuantStats::default(),
            histogram: vec![0; oracle.by_code().len()],
            codes: Vec::new(),
            decoded: Vec::new(),
        }
    }

    /// Adds the results of one call of each kind over `src`. NaN, which may have no code, is encoded as zero.
    fn add(&mut self, instance: &Instance, src: &[f32], params: &QuantParams<'_>) -> Result<(), String> {
        let (mut values, mut decoded) = (vec![UNWRITTEN; src.len()], vec![UNWRITTEN; src.len()]);
        let stats = instance
            .fake_quant(src, &mut values, params, &mut self.histogram)
            .map_err(|error| said("fake_quant", &error))?;
        let without_nan: Vec<f32> = src.iter().map(|&x| if x.is_nan() { 0.0 } else { x }).collect();
        let codes = instance.encoded(&without_nan, params)?;
        instance.decode(&codes, &mut decoded, &params.scales).map_err(|error| said("decode", &error))?;
        self.values.extend(values);
        self.stats.merge(&stats);
        self.codes.extend(codes);
        self.decoded.extend(decoded);
        Ok(())
    }
}

/// The results of calls with one scale each over `src`: one call for each run of elements of the same block.
fn made_in_turn(
    instance: &Instance,
    oracle: &Oracle,
    src: &[f32],
    params: &QuantParams<'_>,
) -> Result<Made, String> {
    let scales = &params.scales;
    let block = |i: usize| scales.blocks.of(scales.first + i as u64);
    let elements: Vec<usize> = (0..src.len()).collect();
    let mut made = Made::nothing(oracle);
    for run in elements.chunk_by(|&a, &b| block(a) == block(b)) {
        let (first, pair) = (run[0] as u64, scales.of(run[0] as u64));
        let one = QuantParams { scales: Scales::whole(&pair), ..params.skip(first) };
        made.add(instance, &src[run[0]..run[0] + run.len()], &one)?;
    }
    Ok(made)
}

pub(crate) fn block_scales(subject: &Subject) -> CheckResult {
    let (instance, oracle) = subject.instance_and_oracle()?;
    let values = values(&oracle);
    for (layout, blocks) in LAYOUTS {
        let pairs = pairs(&oracle, blocks);
        for rounding in instance.modes()? {
            let key = RandomKey { offset: 3, ..KEY };
            let whole = QuantParams { scales: Scales::new(&pairs, blocks), rounding, key };
            for (first, count) in CALLS {
                let (src, params) = (&values[first..first + count], whole.skip(first as u64));
                check_call(&instance, &oracle, src, &params).map_err(|fault| {
                    let mode = mode_name(rounding);
                    format!("{layout}, {count} elements from element {first}, {mode}: {fault}")
                })?;
            }
        }
        too_few(&instance, &pairs, blocks).map_err(|fault| format!("{layout}: {fault}"))?;
    }
    Ok(Verdict::Passed)
}

fn check_call(
    instance: &Instance,
    oracle: &Oracle,
    src: &[f32],
    params: &QuantParams<'_>,
) -> Result<(), String> {
    let mut got = Made::nothing(oracle);
    got.add(instance, src, params)?;
    let expected = made_in_turn(instance, oracle, src, params)?;
    same_values("fake_quant", &got.values, &expected.values)?;
    same_counts(&got.stats, &expected.stats)?;
    same_sums(&got.stats, &recomputed(oracle, src, &got.values, &params.scales))?;
    if got.histogram != expected.histogram {
        return Err("the histograms differ".into());
    }
    if let Some(i) = (0..src.len()).find(|&i| got.codes[i] != expected.codes[i]) {
        return Err(format!("encode: code {i} is {:#x}, {:#x} expected", got.codes[i], expected.codes[i]));
    }
    same_values("decode", &got.decoded, &expected.decoded)
}

/// Scales that do not cover a call, and blocks without extent, are refused; nothing is written.
fn too_few(instance: &Instance, pairs: &[[f32; 2]], blocks: Blocks) -> Result<(), String> {
    let short = &pairs[..pairs.len() - 1];
    let faults = [
        ("a scale too few", Scales::new(short, blocks)),
        ("no columns", Scales::new(pairs, Blocks { columns: 0, ..blocks })),
        ("blocks without rows", Scales::new(pairs, Blocks { block_rows: 0, ..blocks })),
        ("blocks without columns", Scales::new(pairs, Blocks { block_columns: 0, ..blocks })),
    ];
    let (src, codes) = (vec![0.0; ELEMENTS], vec![0; ELEMENTS]);
    for (what, scales) in faults {
        let (params, kind) = (QuantParams::nearest(scales), ErrorKind::SHAPE);
        refused(&format!("fake_quant with {what}"), kind, UNWRITTEN, ELEMENTS, |dst| {
            instance.fake_quant(&src, dst, &params, &mut []).map(drop)
        })?;
        refused(&format!("encode with {what}"), kind, UNWRITTEN_CODE, ELEMENTS, |dst| {
            instance.encode(&src, dst, &params)
        })?;
        refused(&format!("decode with {what}"), kind, UNWRITTEN, ELEMENTS, |dst| {
            instance.decode(&codes, dst, &scales)
        })?;
    }
    Ok(())
}
