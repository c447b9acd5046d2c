//! Rounding and training on GPUs by commands: the same numbers as on the CPU. The engine's test `devices` compares
//! rounding in all formats and modes.
//!
//! A feature that a build or a machine lacks is a skip by name. `cargo xtask test-gpu` stages a host with GPU support;
//! wgpu is tested on any Vulkan device, a software one included, CUDA on a GPU.

use std::fs;

use altgrad_end_to_end::{Bench, TINY, built, floats, gpu_devices, skipped};

use super::missing;

/// The devices that answer, and round a value; the others are reported as skipped.
fn devices(test: &str) -> Vec<&'static str> {
    let bench = Bench::new();
    fs::write(bench.path("in.f32"), 1.1f32.to_le_bytes()).unwrap();
    let answers = |device: &&str| {
        let how = ["formats", "quantize", "E5M2", "--input", "in.f32", "--output", "out.f32"];
        let outcome = bench.host(&[how.as_slice(), &["--device", *device]].concat());
        if let Some(why) = missing(&outcome) {
            skipped(test, why);
            return false;
        }
        assert_eq!(outcome.code, 0, "{device}: {}", outcome.stderr);
        assert_eq!(fs::read(bench.path("out.f32")).unwrap(), 1f32.to_le_bytes(), "{device}");
        true
    };
    gpu_devices().into_iter().filter(answers).collect()
}

/// [`floats`] as a file.
fn inputs(len: usize) -> Vec<u8> {
    floats(len).into_iter().flat_map(f32::to_le_bytes).collect()
}

/// Scales of kernels and of main memory, blocks within rows and down columns, tiles, a rotation, ties toward zero.
#[test]
fn casts_on_a_device_have_the_bits_of_the_cpu() {
    const CASTS: [&str; 7] = [
        "E4M3",
        "format = 'E5M2', block = 'row', scaling = { pow2 = true }",
        "format = 'E4M3', rounding = 'stochastic', block = 32",
        "format = 'E4M3', block = [32, 32]",
        "format = 'E2M1', block = 16, scaling = { type = 'e4m3', tensor = 'f32' }, transform = { hadamard = 16, signs = 'te' }",
        "format = 'INT8', block = 32, scaling = { type = 'e8m0', rule = 'floor', zero = 'normal' }",
        "format = 'E3M2', rounding = 'nearest-zero', block = 32, scaling = { type = 'e8m0', rule = 'rceil' }",
    ];
    for device in devices("casts_on_a_device_have_the_bits_of_the_cpu") {
        let bench = Bench::new();
        fs::write(bench.path("in.f32"), inputs(96 * 64)).unwrap();
        let files = ["--input", "in.f32", "--output", "out.f32", "--device", device];
        for (cast, axis) in CASTS.into_iter().flat_map(|cast| ["rows", "columns"].map(|axis| (cast, axis))) {
            // Along columns, training numbers the random words of elements otherwise than `casts apply`.
            if cast.contains("stochastic") && axis == "columns" {
                continue;
            }
            let how = ["casts", "apply", "--cast", cast, "--shape", "96,64", "--axis", axis];
            let outcome = bench.host(&[how.as_slice(), &files].concat());
            assert_eq!(outcome.code, 0, "{device}: {cast}: {}", outcome.stderr);
            let said = outcome.stdout.lines().last();
            assert_eq!(said, Some("0 elements differ from the CPU's"), "{device}: {cast}, {axis}");
        }
    }
}

/// A column of a run's metrics.
fn column(bench: &Bench, run: &str, name: &str) -> Vec<f64> {
    let mut reader = csv::Reader::from_path(bench.path(run).join("metrics.csv")).unwrap();
    let index = reader.headers().unwrap().iter().position(|header| header == name).unwrap();
    let cells: Vec<String> = reader.records().map(|row| row.unwrap()[index].to_string()).collect();
    // The row of the final evaluation has no metric of a step.
    cells.iter().filter(|cell| !cell.is_empty()).map(|cell| cell.parse().unwrap()).collect()
}

/// E3M4 by its parameters, and values of unequal steps, the largest of which is negative.
const FILE: &str = "[[format]]\nname = \"E3M4-FILE\"\nexponent_bits = 3\nsignificand_bits = 4\n\
    [[format]]\nname = \"LEVELS\"\n\
    values = [0, 0.08, 0.16, 0.25, 0.34, 0.44, 0.56, 0.72, nan, -2.5, -1, -0.7, -0.53, -0.39, -0.28, -0.18]\n";

#[test]
fn casts_to_formats_of_files_have_the_bits_of_the_cpu() {
    const KEYS: [&str; 4] = [
        "block = 'tensor'",
        "rounding = 'nearest-away', block = 32",
        "rounding = 'toward-zero', block = 16, scaling = { type = 'e8m0', rule = 'rceil' }",
        "rounding = 'stochastic', block = 'none'",
    ];
    for device in devices("casts_to_formats_of_files_have_the_bits_of_the_cpu") {
        let bench = Bench::new();
        bench.write("plugins/file.toml", FILE);
        fs::write(bench.path("in.f32"), inputs(96 * 64)).unwrap();
        let files = ["--input", "in.f32", "--output", "out.f32", "--device", device, "--plugins", "plugins"];
        for (format, keys) in
            ["E3M4-FILE", "LEVELS"].into_iter().flat_map(|name| KEYS.map(|keys| (name, keys)))
        {
            let cast = format!("format = '{format}', {keys}");
            let how = ["casts", "apply", "--cast", &cast, "--shape", "96,64", "--axis", "rows"];
            let outcome = bench.host(&[how.as_slice(), &files].concat());
            assert_eq!(outcome.code, 0, "{device}: {cast}: {}", outcome.stderr);
            let said = outcome.stdout.lines().last();
            assert_eq!(said, Some("0 elements differ from the CPU's"), "{device}: {cast}");
        }
    }
}

#[test]
fn training_on_a_device_follows_the_cpu() {
    let file = TINY.replace(
        "[quant]\nweight = \"E5M2\"",
        "[plugins]\nformats = [\"file.toml\"]\n[quant]\nweight = \"LEVELS\"",
    );
    let bf16 = TINY
        .replace("block_size = 8", "block_size = 72")
        .replace("n_embd = 8", "n_embd = 48\ndropout = 0.1")
        .replace("[train]", "[train]\nprecision = \"bf16\"");
    // Other orders of summation, grown over six updates; in bf16 one of them now and then rounds to another value.
    let files = [(TINY, 1e-3), (&file, 1e-3), (&bf16, 5e-3)];
    let devices = devices("training_on_a_device_follows_the_cpu");
    for (device, (run, tolerance)) in
        devices.into_iter().flat_map(|device| files.iter().map(move |file| (device, *file)))
    {
        let bench = Bench::new();
        bench.write("file.toml", FILE);
        bench.write("run.toml", &format!("{run}\n[[sink]]\nname = \"csv\"\n"));
        for (device, out) in [(device, "device"), ("cpu", "cpu")] {
            let outcome = bench.host(&["run", "run.toml", "--device", device, "--out", out, "--quiet"]);
            assert_eq!(outcome.code, 0, "{device}: {}", outcome.stderr);
        }
        for name in ["train/loss", "train/grad_norm", "quant/underflow_rate", "quant/sqnr_db"] {
            let (found, expected) = (column(&bench, "device", name), column(&bench, "cpu", name));
            assert_eq!(found.len(), 6);
            for (step, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let close = (found - expected).abs() <= tolerance * expected.abs().max(1e-3);
                assert!(close, "{device}, step {step}: {name} {found}, on the CPU {expected}");
            }
        }
        if device.starts_with("cuda") && run == bf16 {
            let record: serde_json::Value = serde_json::from_str(&bench.read("device/run.json")).unwrap();
            let products = record["environment"]["gpu"]["products"].as_object().unwrap();
            let (_, attention) = products.iter().find(|(of, _)| of.starts_with("attention")).unwrap();
            assert_eq!(attention, "tensor cores, tiles of 64", "{products:?}");
        }
    }
}

/// A text that the device's compiler refuses is the plugin's fault, and reported before anything is computed with it.
#[test]
fn a_kernel_that_does_not_compile_is_refused() {
    for device in devices("a_kernel_that_does_not_compile_is_refused") {
        let bench = Bench::new();
        bench.add_plugin(&built("libaltgrad_fixture_misbehaver.so"));
        fs::write(bench.path("in.f32"), 1f32.to_le_bytes()).unwrap();
        let args = ["formats", "quantize", "BAD2", "--plugins", "plugins", "--device", device];
        let files = ["--input", "in.f32", "--output", "out.f32"];
        let outcome = bench.host_with(&[&args, files.as_slice()].concat(), &[("ALTGRAD_MISBEHAVE", "text")]);
        assert_eq!(outcome.code, 3, "{device}: {}", outcome.stderr);
        assert!(
            outcome.stderr.contains("BAD2") && outcome.stderr.contains("do not run on device"),
            "{}",
            outcome.stderr
        );
        assert!(!bench.path("out.f32").exists());
    }
}
