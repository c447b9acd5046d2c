//! Speed of fake quantization, as a multiple of the time that copying the same array takes.
//!
//! `cargo bench -p altgrad-format-kit`. Each measurement is a copy and a quantization right after it, so that whatever
//! else the machine does hits both; criterion reports the quantization, the table at the end compares the medians, and the fastest of each.
//! Quantization goes in parts of 65536 elements, as in the host; a copy is one `copy_from_slice` a thread.

use std::{
    hint::black_box,
    thread,
    time::{Duration, Instant},
};

use altgrad_format_kit::{cpu, round::Rounder};
use altgrad_plugin_api::{Domain, PluginError, QuantParams, QuantStats, RandomKey, Rounding};
use criterion::{Criterion, SamplingMode};
use rayon::{ThreadPool, ThreadPoolBuilder, prelude::*};

/// Elements: 64 MiB of f32.
const ELEMENTS: usize = 16 << 20;
/// Elements a call, as in the host.
const PART: usize = 1 << 16;
/// What is measured: name, mode, whether codes are counted, and the ratio that is aimed at.
const WORK: [(&str, Rounding, bool, f64); 3] = [
    ("nearest-even", Rounding::NEAREST_EVEN, false, 1.5),
    ("with histogram", Rounding::NEAREST_EVEN, true, 2.5),
    ("stochastic", Rounding::STOCHASTIC, false, 3.0),
];

type Failed = Box<dyn std::error::Error>;
/// Rounds a part that begins at an element of the whole, or counts its codes as well.
type Quantize =
    Box<dyn Fn(&[f32], &mut [f32], usize, Rounding, bool) -> Result<QuantStats, PluginError> + Sync>;

/// A format scaled so that the largest input is its largest value.
fn quantizer<const E: u32, const M: u32>(domain: Domain, amax: f32) -> Result<Quantize, PluginError> {
    let rounder = Rounder::<E, M>::new(domain)?;
    let scale = rounder.grid().max_finite() / amax;
    Ok(Box::new(move |src, dst, first, rounding, count| {
        let key = RandomKey { seed: 1, step: 2, tensor: 3, offset: first as u64 };
        let params = QuantParams { scale, inv_scale: 1.0 / scale, rounding, key };
        let mut histogram = vec![0; if count { rounder.grid().codes() } else { 0 }];
        let stats = cpu::fake_quant(&rounder, src, dst, &params, &mut histogram);
        black_box(histogram);
        stats
    }))
}

/// Sums of twelve uniform numbers less six: nearly Gaussian, from a linear congruential generator (Knuth's MMIX).
fn inputs() -> Vec<f32> {
    let mut state = 1u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 24) as f32
    };
    (0..ELEMENTS).map(|_| (0..12).map(|_| uniform()).sum::<f32>() - 6.0).collect()
}

fn timed<T>(run: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    black_box(run());
    start.elapsed()
}

/// Milliseconds: in the middle, and the fewest, which a busy machine disturbs least.
fn median_and_least(times: &mut [Duration]) -> [f64; 2] {
    times.sort();
    [times[times.len() / 2], times[0]].map(|time| time.as_secs_f64() * 1e3)
}

fn copy(pool: &ThreadPool, src: &[f32], dst: &mut [f32]) {
    let share = src.len().div_ceil(pool.current_num_threads());
    pool.install(|| {
        src.par_chunks(share).zip(dst.par_chunks_mut(share)).for_each(|(src, dst)| dst.copy_from_slice(src));
    });
}

fn quantize(
    pool: &ThreadPool,
    format: &Quantize,
    src: &[f32],
    dst: &mut [f32],
    (rounding, count): (Rounding, bool),
) -> Result<QuantStats, PluginError> {
    let parts: Result<Vec<QuantStats>, PluginError> = pool.install(|| {
        let parts = src.par_chunks(PART).zip(dst.par_chunks_mut(PART)).enumerate();
        parts.map(|(part, (src, dst))| format(src, dst, part * PART, rounding, count)).collect()
    });
    let mut stats = QuantStats::default();
    parts?.iter().for_each(|part| stats.merge(part));
    Ok(stats)
}

fn main() -> Result<(), Failed> {
    let src = inputs();
    let amax = src.iter().fold(0f32, |amax, x| amax.max(x.abs()));
    let formats = [
        ("E5M2", quantizer::<5, 2>(Domain::IEEE, amax)?),
        ("E4M3", quantizer::<4, 3>(Domain::FN, amax)?),
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
            for (what, rounding, count, aim) in WORK {
                let (mut copies, mut quantizations) = (Vec::new(), Vec::new());
                group.bench_function(format!("{name} {what}"), |bencher| {
                    bencher.iter_custom(|times| {
                        let mut total = Duration::ZERO;
                        for _ in 0..times {
                            copies.push(timed(|| copy(&pool, black_box(&src), black_box(&mut dst))));
                            let took = timed(|| {
                                quantize(
                                    &pool,
                                    format,
                                    black_box(&src),
                                    black_box(&mut dst),
                                    (rounding, count),
                                )
                            });
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
