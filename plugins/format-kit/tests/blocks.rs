//! Scales by block: every layout gives the bits that calls with one scale each give, statistics included.
#![allow(clippy::unwrap_used)]

mod common;

use altgrad_conformance::Random;
use altgrad_format_kit::{cpu, round::Rounder};
use altgrad_plugin_api::{Blocks, Domain, QuantParams, QuantStats, RandomKey, Rounding, Scales};

const fn tiles(columns: u64, block_rows: u64, block_columns: u64) -> Blocks {
    Blocks { columns, block_rows, block_columns }
}

/// Elements of the tensor: three pieces, and a group that is not full.
const ELEMENTS: usize = 3 * 2048 + 5;
/// Blocks that begin and end between groups of 16 elements, one scale a group; then others, a scale for each element.
const LAYOUTS: [Blocks; 15] = [
    Blocks::WHOLE,
    Blocks::consecutive(16),
    Blocks::consecutive(32),
    Blocks::consecutive(128),
    Blocks::consecutive(3008),
    tiles(80, 1, 32),
    tiles(64, 4, 16),
    tiles(256, 128, 128),
    tiles(2064, 1, 2064),
    Blocks::consecutive(5),
    Blocks::consecutive(24),
    tiles(64, u64::MAX, 1),
    tiles(50, 8, 16),
    tiles(45, 3, 7),
    tiles(2049, 1, 2049),
];
/// First element and number of elements of calls.
const CALLS: [(usize, usize); 7] =
    [(0, ELEMENTS), (1, 2100), (16, 2048), (2048, 4101), (3007, 2), (4099, 300), (6145, 4)];

/// A piece of any bits and one of values around 1, with NaN, infinities and subnormals among them; then values around 1
/// only, whose statistics are taken the fast way.
fn inputs() -> Vec<f32> {
    let mut random = Random(21);
    let special = [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e-40, -0.0, f32::MAX];
    let input = |i: usize| match i {
        i if i < 4096 && i % 89 == 0 => special[i / 89 % special.len()],
        i if i < 2048 => f32::from_bits(random.next_u32()),
        _ => f32::from_bits((random.next_u32() & 0x83ff_ffff) | (0x3e << 24)),
    };
    (0..ELEMENTS).map(input).collect()
}

/// Scales of a few binades; neighbours differ.
fn pairs(blocks: Blocks) -> Vec<[f32; 2]> {
    let scales = [1.0, 3.7, 0.3, 0.001_953_125, 140.8];
    let scale = |block: u64| scales[(block % 5) as usize] * (1.0 + block as f32 / 8192.0);
    (0..blocks.count(ELEMENTS as u64)).map(scale).map(|scale| [scale, 1.0 / scale]).collect()
}

/// The results of calls over a slice: bits of values, statistics, histogram, codes of all but NaN, bits of their
/// values.
struct Made {
    values: Vec<u32>,
    stats: QuantStats,
    histogram: Vec<u64>,
    codes: Vec<u16>,
    decoded: Vec<u32>,
}

impl Made {
    fn nothing(table: &[f32]) -> Self {
        Self {
            values: Vec::new(),
            stats: QuantStats::default(),
            histogram: vec![0; table.len()],
            codes: Vec::new(),
            decoded: Vec::new(),
        }
    }

    fn add<const E: u32, const M: u32>(
        &mut self,
        (rounder, table): (&Rounder<E, M>, &[f32]),
        src: &[f32],
        params: &QuantParams<'_>,
    ) {
        let (mut values, mut plain, mut codes) =
            (vec![0.0; src.len()], vec![0.0; src.len()], vec![0; src.len()]);
        let stats = cpu::fake_quant(rounder, src, &mut values, params, &mut self.histogram).unwrap();
        assert_eq!(stats, cpu::fake_quant(rounder, src, &mut plain, params, &mut []).unwrap());
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<u32>>();
        assert_eq!(bits(&values), bits(&plain), "the histogram changes values");
        let without_nan: Vec<f32> = src.iter().map(|&x| if x.is_nan() { 0.0 } else { x }).collect();
        cpu::encode(rounder, &without_nan, &mut codes, params).unwrap();
        cpu::decode(table, &codes, &mut plain, &params.scales).unwrap();
        self.values.extend(bits(&values));
        self.stats.merge(&stats);
        self.codes.extend(codes);
        self.decoded.extend(bits(&plain));
    }
}

/// A call with one scale for each run of elements of the same block.
fn in_turn<const E: u32, const M: u32>(
    format: (&Rounder<E, M>, &[f32]),
    src: &[f32],
    params: &QuantParams<'_>,
) -> Made {
    let scales = &params.scales;
    let block = |i: usize| scales.blocks.of(scales.first + i as u64);
    let elements: Vec<usize> = (0..src.len()).collect();
    let mut made = Made::nothing(format.1);
    for run in elements.chunk_by(|&a, &b| block(a) == block(b)) {
        let pair = scales.of(run[0] as u64);
        let one = QuantParams { scales: Scales::whole(&pair), ..params.skip(run[0] as u64) };
        made.add(format, &src[run[0]..run[0] + run.len()], &one);
    }
    made
}

fn check<const E: u32, const M: u32>() {
    let rounder = Rounder::<E, M>::new(Domain::IEEE).or_else(|_| Rounder::new(Domain::FIN)).unwrap();
    let grid = rounder.grid();
    let table: Vec<f32> = (0..grid.codes()).map(|code| grid.decode(code as u16)).collect();
    let (format, inputs) = ((&rounder, table.as_slice()), inputs());
    for blocks in LAYOUTS {
        let pairs = pairs(blocks);
        for rounding in Rounding::ALL {
            let key = RandomKey { seed: 1, step: 2, tensor: 3, offset: 4 };
            let whole = QuantParams { scales: Scales::new(&pairs, blocks), rounding, key };
            for (first, count) in CALLS {
                let (src, params) = (&inputs[first..first + count], whole.skip(first as u64));
                let mut got = Made::nothing(&table);
                got.add(format, src, &params);
                let expected = in_turn(format, src, &params);
                let what = format!("E{E}M{M} {rounding:?}, {blocks:?}, {count} from {first}");
                assert!(got.values == expected.values, "{what}: values");
                assert!(got.codes == expected.codes, "{what}: codes");
                assert!(got.decoded == expected.decoded, "{what}: values of codes");
                assert!(got.histogram == expected.histogram, "{what}: histogram");
                check_stats(&got.stats, &expected.stats, &what);
            }
        }
    }
}

/// Counts and amax are equal; each sum is off by at most 1e-6 of it, so two of them by twice that.
fn check_stats(got: &QuantStats, expected: &QuantStats, what: &str) {
    let QuantStats { sum_x2, sum_err2, sum_x_xhat, .. } = *got;
    assert_eq!(QuantStats { sum_x2, sum_err2, sum_x_xhat, ..*expected }, *got, "{what}");
    let sums = [(sum_x2, expected.sum_x2), (sum_err2, expected.sum_err2), (sum_x_xhat, expected.sum_x_xhat)];
    for (got, expected) in sums {
        assert!(
            got == expected || (got - expected).abs() <= 2e-6 * expected,
            "{what}: {got:e}, {expected:e}"
        );
    }
}

#[test]
fn floats_of_each_shape() {
    check::<4, 3>();
    check::<5, 2>();
}

#[test]
fn linear_grids_and_powers_of_two() {
    check::<1, 6>();
    check::<0, 7>();
    check::<7, 0>();
}

#[test]
fn f32s_own_exponents() {
    check::<8, 7>();
}

#[test]
fn an_unknown_rounding_mode_is_refused() {
    let rounder = Rounder::<4, 3>::new(Domain::FN).unwrap();
    let params = QuantParams { rounding: Rounding(4), ..QuantParams::IDENTITY };
    let quantized = cpu::fake_quant(&rounder, &[1.0], &mut [0.0], &params, &mut []).unwrap_err();
    let encoded = cpu::encode(&rounder, &[1.0], &mut [0], &params).unwrap_err();
    assert_eq!(quantized, Rounding(4).unsupported());
    assert_eq!(encoded, quantized);
}

#[test]
fn too_few_scales_are_refused() {
    let rounder = Rounder::<4, 3>::new(Domain::FN).unwrap();
    let scales = Scales::new(&[[1.0; 2]; 3], Blocks::consecutive(16));
    let params = QuantParams::nearest(scales);
    let mut dst = [0.0; 49];
    assert!(cpu::fake_quant(&rounder, &[0.0; 48], &mut dst[..48], &params, &mut []).is_ok());
    assert!(cpu::fake_quant(&rounder, &[0.0; 49], &mut dst, &params, &mut []).is_err());
    assert!(cpu::encode(&rounder, &[0.0; 49], &mut [0; 49], &params).is_err());
    assert!(cpu::decode(&[0.0; 2], &[0; 49], &mut dst, &scales).is_err());
    assert!(cpu::decode(&[0.0; 2], &[0; 8], &mut dst[..8], &scales.skip(41)).is_err());
}
