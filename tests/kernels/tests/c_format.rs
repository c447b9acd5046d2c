//! The example in C against its twin in Rust: values, codes, statistics and histograms bit for bit, on the CPU and as
//! kernel text.
//!
//! Both are loaded by the host's loader, as a run does.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use altgrad_conformance::{Instance, Random, Subject};
use altgrad_end_to_end::{built, compile_c, root, skipped};
use altgrad_loader::LoadedLibrary;
use altgrad_plugin_api::{Config, KernelLanguage, KernelOp, QuantParams, QuantStats, Rounding};
use altgrad_test_kernels::{cases, check, cuda};

const MODES: [Rounding; 2] = [Rounding::NEAREST_EVEN, Rounding::TOWARD_ZERO];

/// The only format of a library.
fn instance(library: &Path) -> Instance {
    let library = LoadedLibrary::load(library, None).unwrap();
    let descriptor = library.info.descriptors[0];
    let id = descriptor.id.to_string();
    let make = move |config: &Config| library.format_object(&id, config);
    let name = descriptor.id.to_string();
    Subject::new(descriptor, &name, make).unwrap().instance().unwrap()
}

/// The format in C and the one in Rust; `None`, with a message, without a C compiler.
fn twins(test: &str) -> Option<[Instance; 2]> {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("int8-c.so");
    let source = root().join("examples/format-c/int8.c");
    match compile_c(&source, &library) {
        Ok(()) => Some([instance(&library), instance(&built("libaltgrad_example_int8.so"))]),
        Err(why) => {
            skipped(test, &why);
            None
        }
    }
}

/// Every grid point and middle with its neighbours, the ends of f32, NaN, and random bit patterns.
fn inputs(scale: f32) -> Vec<f32> {
    let mut inputs: Vec<f32> = (-520..=520).map(|quarters| quarters as f32 / 4.0 / scale).collect();
    inputs = inputs.into_iter().flat_map(|x| [x, x.next_up(), x.next_down()]).collect();
    let ends =
        [0.0, f32::from_bits(1), f32::MIN_POSITIVE, f32::MAX, f32::INFINITY, f32::from_bits(0x7fc1_2345)];
    inputs.extend(ends.into_iter().flat_map(|x| [x, -x]));
    let mut random = Random(11);
    inputs.extend((0..1 << 18).map(|_| f32::from_bits(random.next_u32())));
    inputs
}

fn words(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Values, histogram and statistics of one call.
fn quantized(instance: &Instance, x: &[f32], params: &QuantParams<'_>) -> (Vec<u32>, Vec<u64>, QuantStats) {
    let (mut y, mut histogram) = (vec![0.0; x.len()], vec![0; 256]);
    let stats = instance.fake_quant(x, &mut y, params, &mut histogram).unwrap();
    (words(&y), histogram, stats)
}

fn codes(instance: &Instance, x: &[f32], params: &QuantParams<'_>) -> Vec<u16> {
    let mut codes = vec![0; x.len()];
    instance.encode(x, &mut codes, params).unwrap();
    codes
}

#[test]
fn the_c_format_is_its_twin_in_rust_bit_for_bit() {
    let Some([c, rust]) = twins("the_c_format_is_its_twin_in_rust_bit_for_bit") else { return };
    assert_eq!(format!("{:?}", c.spec().unwrap()), format!("{:?}", rust.spec().unwrap()));
    for scale in cases::SCALES {
        let x = inputs(scale);
        for rounding in MODES {
            let pair = [scale, 1.0 / scale];
            let params = cases::params(&pair, rounding, 1);
            // Statistics too: both add in the order of the elements.
            assert!(quantized(&c, &x, &params) == quantized(&rust, &x, &params), "{params:?}");
            assert!(codes(&c, &x, &params) == codes(&rust, &x, &params), "{params:?}");
        }
    }
    for rounding in [Rounding::NEAREST_AWAY, Rounding::STOCHASTIC] {
        let params = cases::params(&[1.0; 2], rounding, 1);
        let kind = |instance: &Instance| instance.encode(&[1.0], &mut [0], &params).unwrap_err().kind;
        assert_eq!(kind(&c), kind(&rust));
    }
}

#[test]
fn the_c_formats_kernel_text_computes_what_the_twin_does() {
    let test = "the_c_formats_kernel_text_computes_what_the_twin_does";
    if let Err(why) = cuda::available() {
        return skipped(test, &why);
    }
    let Some([c, rust]) = twins(test) else { return };
    let target = check::target(KernelLanguage::CUDA, 4);
    let text = |op: KernelOp| c.kernel(op, &target).unwrap().unwrap();
    let ops = MODES.map(|mode| KernelOp::FAKE_QUANT.with_rounding(mode));
    let program = cuda::CudaOnCpu::of(ops.map(text).to_vec(), false);
    for scale in cases::SCALES {
        let x = inputs(scale);
        for rounding in MODES {
            let pair = [scale, 1.0 / scale];
            let params = cases::params(&pair, rounding, 1);
            let what = format!("{params:?}");
            let (values, _, stats) = quantized(&rust, &x, &params);
            let kernel = text(KernelOp::FAKE_QUANT.with_rounding(rounding));
            let found = check::launch(&program, &kernel, &x, &params);
            check::same_bits(&what, &x, &found.values, &values);
            check::same_stats(&what, &found.stats, &stats);
        }
    }
}
