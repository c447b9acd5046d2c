//! Rounding and training on GPUs by commands: the same numbers as on the CPU, and every CUDA kernel of a step compiled. The engine's
//! test `devices` compares rounding in all formats and modes.
//!
//! A feature that a build or a machine lacks is a skip by name. `cargo xtask test-gpu` stages a host with GPU support;
//! wgpu is tested on any Vulkan device, a software one included, CUDA on a GPU, and its compilation without one.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use altgrad_end_to_end::{Bench, Outcome, TINY, built, fixture, floats, skipped};

/// Devices that may be there.
const DEVICES: [&str; 2] = ["wgpu", "cuda:0"];

/// The devices that answer, and round a value; the others are reported as skipped.
fn devices(test: &str) -> Vec<&'static str> {
    let bench = Bench::new();
    fs::write(bench.path("in.f32"), 1.1f32.to_le_bytes()).unwrap();
    let answers = |device: &&str| {
        let how = ["formats", "quantize", "E5M2", "--input", "in.f32", "--output", "out.f32"];
        let outcome = bench.host(&[how.as_slice(), &["--device", *device]].concat());
        if outcome.code == 4 {
            skipped(test, reason(&outcome));
            return false;
        }
        assert_eq!(outcome.code, 0, "{device}: {}", outcome.stderr);
        assert_eq!(fs::read(bench.path("out.f32")).unwrap(), 1f32.to_le_bytes(), "{device}");
        true
    };
    DEVICES.into_iter().filter(answers).collect()
}

/// The host's own line about the missing device.
fn reason(outcome: &Outcome) -> &str {
    outcome.stderr.lines().find(|line| line.starts_with("error: device")).unwrap_or(&outcome.stderr)
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

#[test]
fn training_on_a_device_follows_the_cpu() {
    for device in devices("training_on_a_device_follows_the_cpu") {
        let bench = Bench::new();
        bench.write("run.toml", &format!("{TINY}\n[[sink]]\nname = \"csv\"\n"));
        for (device, out) in [(device, "device"), ("cpu", "cpu")] {
            let outcome = bench.host(&["run", "run.toml", "--device", device, "--out", out, "--quiet"]);
            assert_eq!(outcome.code, 0, "{device}: {}", outcome.stderr);
        }
        for name in ["train/loss", "train/grad_norm", "quant/underflow_rate", "quant/sqnr_db"] {
            let (found, expected) = (column(&bench, "device", name), column(&bench, "cpu", name));
            assert_eq!(found.len(), 6);
            for (step, (found, expected)) in found.iter().zip(&expected).enumerate() {
                // Other orders of summation, grown over six updates.
                let close = (found - expected).abs() <= 1e-3 * expected.abs().max(1e-3);
                assert!(close, "{device}, step {step}: {name} {found}, on the CPU {expected}");
            }
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

/// The folder of NVRTC's wheels, for the Python that `ALTGRAD_PYTHON` names.
fn nvrtc() -> Result<PathBuf, String> {
    let python = std::env::var("ALTGRAD_PYTHON").map_err(|_| "ALTGRAD_PYTHON is not set".to_string())?;
    let find = "import nvidia, os; print(os.path.join(list(nvidia.__path__)[0], 'cu13'))";
    let output = Command::new(&python).args(["-c", find]).output().map_err(|e| format!("{python}: {e}"))?;
    let folder = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    if folder.join("lib").is_dir() { Ok(folder) } else { Err(format!("{python} has no NVRTC 13 wheels")) }
}

/// A folder with a `libcuda.so.1` that needs no GPU.
fn driver(bench: &Bench) -> Result<PathBuf, String> {
    let (folder, source) = (bench.path("driver"), fixture("no_gpu.c"));
    if !source.exists() {
        return Err("the source of the driver is not here".into());
    }
    fs::create_dir_all(&folder).unwrap();
    let library = folder.join("libcuda.so.1");
    let compiled = Command::new("g++")
        .args(["-x", "c", "-shared", "-fPIC", "-O1", "-o"])
        .args([&library, &source])
        .output()
        .map_err(|error| format!("g++ cannot be started: {error}"))?;
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    std::os::unix::fs::symlink(&library, folder.join("libcuda.so")).unwrap();
    Ok(folder)
}

/// A training step on a GPU that is none: launches do nothing, but NVRTC compiles every kernel. `None` with the skip
/// reported where a tool is missing.
fn step_without_gpu(test: &str, bench: &Bench, rounding: &str) -> Option<Outcome> {
    let (toolkit, driver) = match nvrtc().and_then(|toolkit| Ok((toolkit, driver(bench)?))) {
        Ok(found) => found,
        Err(why) => {
            skipped(test, &why);
            return None;
        }
    };
    bench.write("run.toml", TINY);
    let libraries = format!("{}:{}", driver.display(), toolkit.join("lib").display());
    let env = [("LD_LIBRARY_PATH", libraries.as_str()), ("CUDA_PATH", toolkit.to_str().unwrap())];
    let sets =
        [&format!("quant.rounding=\"{rounding}\""), "quant.activation=\"E5M2\"", "quant.grad=\"E5M2\""];
    let mut args = vec!["run", "run.toml", "--device", "cuda:0", "--max-steps", "1", "--out", "run"];
    args.extend(sets.iter().flat_map(|set| ["--set", set]));
    let outcome = bench.host_with(&args, &env);
    if outcome.code == 4 {
        skipped(test, reason(&outcome));
        return None;
    }
    Some(outcome)
}

/// A driver that answers is not enough: without a compiler nothing is computed. `auto` is then the CPU.
#[test]
fn a_device_without_a_compiler_is_not_available() {
    const TEST: &str = "a_device_without_a_compiler_is_not_available";
    let bench = Bench::new();
    let driver = match driver(&bench) {
        Ok(folder) => folder,
        Err(why) => return skipped(TEST, &why),
    };
    // A library without NVRTC's functions, found before the machine's.
    fs::copy(driver.join("libcuda.so.1"), driver.join("libnvrtc.so")).unwrap();
    fs::write(bench.path("in.f32"), 1f32.to_le_bytes()).unwrap();
    let on = |device: &str| {
        let args = ["formats", "quantize", "E5M2", "--input", "in.f32", "--output", "out.f32"];
        let env = [("LD_LIBRARY_PATH", driver.to_str().unwrap())];
        bench.host_with(&[args.as_slice(), &["--device", device]].concat(), &env)
    };
    let outcome = on("cuda:0");
    assert_eq!(outcome.code, 4, "{}", outcome.stderr);
    if outcome.stderr.contains("this build has no CUDA") {
        return skipped(TEST, reason(&outcome));
    }
    assert!(outcome.stderr.contains("hint: libnvrtc of CUDA 13"), "{}", outcome.stderr);
    assert!(!bench.path("out.f32").exists());
    let outcome = on("auto");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("device `cuda:0` is not available: "), "{}", outcome.stderr);
}

/// Small kernels compile without headers, bf16 products do not: a toolkit without them is found before a run begins.
#[test]
fn a_device_without_the_headers_of_its_toolkit_is_not_available() {
    const TEST: &str = "a_device_without_the_headers_of_its_toolkit_is_not_available";
    let bench = Bench::new();
    let (toolkit, driver) = match nvrtc().and_then(|toolkit| Ok((toolkit, driver(&bench)?))) {
        Ok(found) => found,
        Err(why) => return skipped(TEST, &why),
    };
    fs::create_dir_all(bench.path("toolkit/include")).unwrap();
    fs::write(bench.path("in.f32"), 1f32.to_le_bytes()).unwrap();
    let libraries = format!("{}:{}", driver.display(), toolkit.join("lib").display());
    let quantize = |toolkit: &Path| {
        let args = ["formats", "quantize", "E5M2", "--input", "in.f32", "--output", "out.f32"];
        let env = [("LD_LIBRARY_PATH", libraries.as_str()), ("CUDA_PATH", toolkit.to_str().unwrap())];
        bench.host_with(&[args.as_slice(), &["--device", "cuda:0"]].concat(), &env)
    };
    let outcome = quantize(&toolkit);
    if outcome.stderr.contains("this build has no CUDA") {
        return skipped(TEST, reason(&outcome));
    }
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let outcome = quantize(&bench.path("toolkit"));
    assert_eq!(outcome.code, 4, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("CUDA_PATH must name a folder with its include/"), "{}", outcome.stderr);
}

/// Forward, backward, clipping, the optimizer, rounding in the format's own kernels: all compiled for compute
/// capability 9.0 as they would be on the GPU.
#[test]
fn cuda_kernels_of_a_whole_step_compile() {
    let bench = Bench::new();
    let Some(outcome) = step_without_gpu("cuda_kernels_of_a_whole_step_compile", &bench, "nearest-even")
    else {
        return;
    };
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let launched = outcome.stderr.lines().filter_map(|line| line.strip_prefix("no_gpu: launch "));
    let kernels: BTreeSet<&str> = launched.filter_map(|line| line.split(' ').next()).collect();
    assert!(kernels.len() >= 20, "{kernels:?}");
    assert!(kernels.iter().any(|name| name.contains("fake_quant")), "the format's own kernel: {kernels:?}");
    let bf16 = |name: &&str| name.contains("matmul") && name.contains("lhs_bf16") && name.contains("acc_f32");
    assert!(kernels.iter().any(bf16), "8-bit operands are multiplied as bf16 and added in f32: {kernels:?}");
}

/// The driver without a GPU rounds to nearest only, so a format's other kernels give other values than the CPU.
#[test]
fn a_device_that_rounds_wrong_is_refused() {
    let bench = Bench::new();
    let Some(outcome) = step_without_gpu("a_device_that_rounds_wrong_is_refused", &bench, "toward-zero")
    else {
        return;
    };
    assert_eq!(outcome.code, 3, "{}", outcome.stderr);
    let said = &outcome.stderr;
    assert!(said.contains("E5M2") && said.contains("do not run on device cuda:0: toward-zero of"), "{said}");
    assert!(!bench.path("run").join("metrics.csv").exists());
}
