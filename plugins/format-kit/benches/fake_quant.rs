//! Speed of fake quantization, as a multiple of the time that copying the same array takes.
//!
//! `cargo bench -p altgrad-format-kit`. Each measurement is a copy and a quantization right after it, so that other
//! work of the machine affects both; criterion reports the quantization, the table at the end compares the medians, and
//! the fastest of each. Quantization goes in parts of 65536 elements, as in the host; a copy is one `copy_from_slice`
//! per thread.

#[path = "../../benches/times.rs"]
mod times;

use std::{hint::black_box, thread, time::Duration};

use altgrad_conformance::Random;
use altgrad_format_kit::{cpu, round::Rounder};
use altgrad_plugin_api::{Blocks, Domain, PluginError, QuantParams, QuantStats, RandomKey, Rounding, Scales};
use criterion::{Criterion, SamplingMode};
use rayon::{ThreadPool, ThreadPoolBuilder, prelude::*};
use times::{copy, median_and_least, timed};

/// Elements: 64 MiB of f32.
const ELEMENTS: usize = 16 << 20;
/// Elements a call, as in the host.
const PART: usize = 1 << 16;
/// Columns of the matrix whose columns have scales of their own.
const COLUMNS: u64 = 4096;

/// The measured work.
#[derive(Debug, Clone, Copy)]
struct Work {
    name: &'static str,
    rounding: Rounding,
    counts_codes: bool,
    /// The blocks of elements that share a scale.
    blocks: Blocks,
    /// The ratio that is aimed at.
    aim: f64,
}

/// Nearest-even with one scale.
const PLAIN: Work = Work {
    name: "nearest-even",
    rounding: Rounding::NEAREST_EVEN,
    counts_codes: false,
    blocks: Blocks::WHOLE,
    aim: 1.5,
};

const WORK: [Work; 6] = [
    PLAIN,
    Work { name: "with histogram", counts_codes: true, aim: 2.5, ..PLAIN },
    Work { name: "stochastic", rounding: Rounding::STOCHASTIC, aim: 3.0, ..PLAIN },
    Work { name: "blocks of 32", blocks: Blocks::consecutive(32), ..PLAIN },
    Work { name: "blocks of 16", blocks: Blocks::consecutive(16), ..PLAIN },
    Work {
        name: "columns",
        blocks: Blocks { columns: COLUMNS, block_rows: u64::MAX, block_columns: 1 },
        aim: 5.0,
        ..PLAIN
    },
];

type Failed = Box<dyn std::error::Error>;
/// Rounds a part that begins at an element of the whole, or counts its codes as well.
type Quantize = Box<dyn Fn(&[f32], &mut [f32], usize, Work) -> Result<QuantStats, PluginError> + Sync>;

/// A format with scales of two binades, so that the largest input is its largest value where the scale is largest.
fn quantizer<const E: u32, const M: u32>(domain: Domain, amax: f32) -> Result<Quantize, PluginError> {
    let rounder = Rounder::<E, M>::new(domain)?;
    let scale = rounder.grid().max_finite() / amax;
    let most_blocks = WORK.iter().map(|work| work.blocks.count(ELEMENTS as u64)).max().unwrap_or(1);
    let scales = (0..most_blocks).map(|block| if block % 2 == 0 { scale } else { scale * 0.5 });
    let pairs: Vec<[f32; 2]> = scales.map(|scale| [scale, 1.0 / scale]).collect();
    Ok(Box::new(move |src, dst, first, work| {
        let blocks = work.blocks.count(ELEMENTS as u64) as usize;
        let whole = QuantParams {
            scales: Scales::new(&pairs[..blocks], work.blocks),
            rounding: work.rounding,
            key: RandomKey { seed: 1, step: 2, tensor: 3, offset: 0 },
        };
        let mut histogram = vec![0; if work.counts_codes { rounder.grid().codes() } else { 0 }];
        let stats = cpu::fake_quant(&rounder, src, dst, &whole.skip(first as u64), &mut histogram);
        black_box(histogram);
        stats
    }))
}

fn quantize(
    pool: &ThreadPool,
    format: &Quantize,
    src: &[f32],
    dst: &mut [f32],
    work: Work,
) -> Result<QuantStats, PluginError> {
    let parts: Result<Vec<QuantStats>, PluginError> = pool.install(|| {
        let parts = src.par_chunks(PART).zip(dst.par_chunks_mut(PART)).enumerate();
        parts.map(|(part, (src, dst))| format(src, dst, part * PART, work)).collect()
    });
    let mut stats = QuantStats::default();
    parts?.iter().for_each(|part| stats.merge(part));
    Ok(stats)
}

fn main() -> Result<(), Failed> {
    let mut random = Random(1);
    let src: Vec<f32> = (0..ELEMENTS).map(|_| random.gaussian() as f32).collect();
    let amax = src.iter().fold(0f32, |amax, x| amax.max(x.abs()));
    let formats = [
        ("E5M2", quantizer::<5, 2>(Domain::IEEE, amax)?),
        ("E4M3", quantizer::<4, 3>(Domain::FN, amax)?),
        ("E2M1", quantizer::<2, 1>(Domain::FIN, amax)?),
        ("INT8", quantizer::<0, 7>(Domain::FIN, amax)?),
        ("E1M6", quantizer::<1, 6>(Domain::FIN, amax)?),
        ("E7M0", quantizer::<7, 0>(Domain::FIN, amax)?),
        ("E8M7", quantizer::<8, 7>(Domain::IEEE, amax)?),
    ];
    let mut dst = vec![1.0; ELEMENTS];
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(20)
        .configure_from_args();
    let mut table =
        String::from("format  what            threads  copy ms  quantize ms  ratio  of the fastest  aim\n");
    for threads in [1, thread::available_parallelism()?.get()] {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build()?;
        let mut group = criterion.benchmark_group(format!("{threads} threads"));
        group.sampling_mode(SamplingMode::Flat);
        for (name, format) in &formats {
            for work in WORK {
                let Work { name: what, aim, .. } = work;
                let (mut copies, mut quantizations) = (Vec::new(), Vec::new());
                group.bench_function(format!("{name} {what}"), |bencher| {
                    bencher.iter_custom(|times| {
                        let mut total = Duration::ZERO;
                        for _ in 0..times {
                            copies.push(timed(|| copy(&pool, black_box(&src), black_box(&mut dst))));
                            let took =
                                timed(|| quantize(&pool, format, black_box(&src), black_box(&mut dst), work));
                            quantizations.push(took);
                            total += took;
                        }
                        total
                    });
                });
                if !copies.is_empty() {
                    let [copy, least_copy] = median_and_least(&mut copies);
                    let [took, least_took] = median_and_least(&mut quantizations);
                    let (ratio, least) = (took / copy, least_took / least_copy);
                    table += &format!(
                        "{name:7} {what:15} {threads:7}  {copy:7.2}  {took:11.2}  {ratio:5.2}  {least:14.2}  {aim:3}\n"
                    );
                }
            }
        }
        group.finish();
    }
    criterion.final_summary();
    println!("\n{ELEMENTS} elements, medians of milliseconds\n{table}");
    Ok(())
}
