//! A CUDA driver without a GPU: devices that do not work are refused, every CUDA kernel of a step compiles, and
//! failures of the tensor library end a run.
//!
//! The driver is `fixtures/no_gpu.c`. Kernels are compiled by the NVRTC of the Python that `ALTGRAD_PYTHON` names.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use altgrad_end_to_end::{Bench, Outcome, TINY, fixture, skipped};

use super::missing;

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
    let library = folder.join("libcuda.so.1");
    if library.exists() {
        return Ok(folder);
    }
    fs::create_dir_all(&folder).unwrap();
    let compiled = Command::new("g++")
        .args(["-x", "c", "-shared", "-fPIC", "-O1", "-o"])
        .args([&library, &source])
        .output()
        .map_err(|error| format!("g++ cannot be started: {error}"))?;
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    std::os::unix::fs::symlink(&library, folder.join("libcuda.so")).unwrap();
    Ok(folder)
}

/// A training step on a GPU that is none: launches do nothing, but NVRTC compiles every kernel. `fault` is a variable
/// of the driver and a kernel. `None` with the skip reported where a tool is missing.
fn step_without_gpu(
    test: &str,
    bench: &Bench,
    rounding: &str,
    fault: Option<(&str, &str)>,
) -> Option<Outcome> {
    bench.write("run.toml", TINY);
    let sets =
        [&format!("quant.rounding=\"{rounding}\""), "quant.activation=\"E5M2\"", "quant.grad=\"E5M2\""];
    let mut args = vec!["run", "run.toml", "--device", "cuda:0", "--max-steps", "1", "--out", "run"];
    args.extend(sets.iter().flat_map(|set| ["--set", set]));
    host_without_gpu(test, bench, &args, fault.as_slice())
}

/// The host with the driver of a GPU that is none.
pub(super) fn host_without_gpu(
    test: &str,
    bench: &Bench,
    args: &[&str],
    variables: &[(&str, &str)],
) -> Option<Outcome> {
    let (toolkit, driver) = match nvrtc().and_then(|toolkit| Ok((toolkit, driver(bench)?))) {
        Ok(found) => found,
        Err(why) => {
            skipped(test, &why);
            return None;
        }
    };
    let libraries = format!("{}:{}", driver.display(), toolkit.join("lib").display());
    let mut env = vec![("LD_LIBRARY_PATH", libraries.as_str()), ("CUDA_PATH", toolkit.to_str().unwrap())];
    env.extend(variables);
    let outcome = bench.host_with(args, &env);
    if let Some(why) = missing(&outcome) {
        skipped(test, why);
        return None;
    }
    Some(outcome)
}

/// Cases, and the most launches of a step of size *tiny* (4 layers) on CUDA, clipping included. Lower a number when the
/// step needs fewer. Two set words to zero, which were uploads before.
const BUDGET: [(&str, u64); 2] = [("E5M2+metrics", 288), ("bf16", 170)];
/// The most uploads of a step of the last case.
const UPLOADS: usize = 2;

#[test]
fn a_step_on_cuda_keeps_its_budget_of_launches_and_uploads() {
    let bench = Bench::new();
    let cases = BUDGET.iter().flat_map(|(case, _)| ["--case", case]);
    let args = ["bench", "--kernels", "--json", "--warmup", "2", "--device", "cuda:0"];
    let args: Vec<_> = args.into_iter().chain(cases).collect();
    let test = "a_step_on_cuda_keeps_its_budget_of_launches_and_uploads";
    let Some(outcome) = host_without_gpu(test, &bench, &args, &[]) else { return };
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let report: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    for ((case, budget), found) in BUDGET.iter().zip(report["cases"].as_array().unwrap()) {
        let launches = found["launches"].as_u64().unwrap();
        assert!(launches <= *budget, "{case}: {launches} launches, budget {budget}: {found}");
    }
    let of_several =
        ["gather_to", "pairs_of_weights", "statistics_of_weights", "weights_to_bf16", "scales_by_parts"];
    for kernel in of_several {
        assert!(outcome.stderr.contains(&format!("no_gpu: launch {kernel}")), "{kernel}");
    }
    // From the loss of a step to that of the next.
    let steps: Vec<&str> = outcome.stderr.split("no_gpu: launch mean_of_rows").collect();
    let uploads = steps[steps.len() - 2].matches("no_gpu: upload").count();
    assert!(uploads <= UPLOADS, "{uploads} uploads, budget {UPLOADS}");
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
        return skipped(TEST, missing(&outcome).unwrap_or_default());
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
        return skipped(TEST, missing(&outcome).unwrap_or_default());
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
    let Some(outcome) =
        step_without_gpu("cuda_kernels_of_a_whole_step_compile", &bench, "nearest-even", None)
    else {
        return;
    };
    // Nothing is computed, so that the losses are what the memory held before: 5 is the code of a NaN among them.
    assert!([0, 5].contains(&outcome.code), "{}: {}", outcome.code, outcome.stderr);
    let launched = outcome.stderr.lines().filter_map(|line| line.strip_prefix("no_gpu: launch "));
    let kernels: BTreeSet<&str> = launched.filter_map(|line| line.split(' ').next()).collect();
    let record: serde_json::Value = serde_json::from_str(&bench.read("run/run.json")).unwrap();
    let gpu = &record["environment"]["gpu"];
    assert_eq!((&gpu["target"], &gpu["autotune"]), (&"ptx_sm90".into(), &false.into()), "{gpu}");
    assert!(gpu["nvrtc"].as_str().is_some_and(|version| version.starts_with("13")), "{gpu}");
    assert!(gpu["fusion"]["beam_search"]["max_blocks"].is_number(), "{gpu}");
    assert!(kernels.len() >= 20, "{kernels:?}");
    let of_the_host = [
        "norm",
        "norm_backward",
        "column_sums",
        "forward",
        "gradient_of_queries",
        "gradient_of_keys_and_values",
        "gelu",
        "gelu_backward",
        "cross_entropy_of_rows",
        "mean_of_rows",
        "times",
        "moments",
        "multiply_to",
        "multiply_twice",
        "scales_of_groups",
        "gather_to",
    ];
    for kernel in of_the_host {
        // Its name, the types by the letters of its generics (`_f_bf16`), and a digest.
        let is_own = |name: &&str| {
            let rest = name.rsplit_once('_').and_then(|(own, _)| own.strip_prefix(kernel));
            rest.is_some_and(|types| types.is_empty() || types.as_bytes().get(2) == Some(&b'_'))
        };
        assert!(kernels.iter().any(is_own), "{kernel}: {kernels:?}");
    }
    assert!(kernels.iter().any(|name| name.contains("fake_quant")), "the format's own kernel: {kernels:?}");
    let bf16 = |name: &&str| name.contains("matmul") && name.contains("lhs_bf16") && name.contains("acc_f32");
    assert!(kernels.iter().any(bf16), "8-bit operands are multiplied as bf16 and added in f32: {kernels:?}");
}

/// CUDA begins rows at multiples of up to 512 bytes. Of this model only logits need padding: 28 of them take 128 bytes.
#[test]
fn padded_logits_are_not_copied() {
    let bench = Bench::new();
    bench.write("run.toml", TINY);
    let bf16 = ["train.precision=\"bf16\"", "quant.weight=\"none\""];
    let e5m2 = ["quant.activation=\"E5M2\"", "quant.grad=\"E5M2\""];
    for (out, sets) in [("bf16", bf16), ("e5m2", e5m2)] {
        let mut args = vec!["run", "run.toml", "--device", "cuda:0", "--max-steps", "1", "--out", out];
        args.extend(["model.n_embd=128"].iter().chain(&sets).flat_map(|set| ["--set", set]));
        let Some(outcome) = host_without_gpu("padded_logits_are_not_copied", &bench, &args, &[]) else {
            return;
        };
        assert!([0, 5].contains(&outcome.code), "{}: {}", outcome.code, outcome.stderr);
        let launched: Vec<&str> =
            outcome.stderr.lines().filter_map(|line| line.strip_prefix("no_gpu: launch ")).collect();
        let has = |kernel: &str| launched.iter().any(|name| name.starts_with(kernel));
        assert!(has("cross_entropy_of_rows") && !has("copy_kernel"), "{out}: {launched:?}");
    }
}

/// A run of one step, with a variable of the environment: the record of the file of kernels, and how many kernels the
/// process compiled.
fn kernels_of_a_step(bench: &Bench, out: &str, variable: (&str, &str)) -> Option<(serde_json::Value, usize)> {
    const LOG: (&str, &str) = ("ALTGRAD_LOG", "cubecl_cuda::compute::context=trace");
    bench.write("run.toml", TINY);
    let args = ["run", "run.toml", "--device", "cuda:0", "--max-steps", "1", "--out", out];
    let test = "the_second_process_compiles_no_kernel_again";
    let outcome = host_without_gpu(test, bench, &args, &[LOG, variable])?;
    assert!([0, 5].contains(&outcome.code), "{}: {}", outcome.code, outcome.stderr);
    let record: serde_json::Value = serde_json::from_str(&bench.read(&format!("{out}/run.json"))).unwrap();
    Some((record["environment"]["kernels"].clone(), outcome.stderr.matches("Compiling kernel").count()))
}

/// The second process reads what the first one compiled, except the probe of the device. A damaged file costs time
/// only.
#[test]
fn the_second_process_compiles_no_kernel_again() {
    const PROBES: usize = 2;
    let bench = Bench::new();
    let kept = ("ALTGRAD_KERNEL_CACHE", "kept");
    let Some((first, compiled)) = kernels_of_a_step(&bench, "first", kept) else { return };
    let added = first["added"].as_u64().unwrap();
    assert_eq!((first["read"].as_u64(), added > 20), (Some(0), true), "{first}");
    assert!(compiled as u64 >= added, "{compiled} kernels compiled: {first}");

    let (second, compiled) = kernels_of_a_step(&bench, "second", kept).unwrap();
    assert_eq!((second["read"].as_u64(), second["added"].as_u64()), (Some(added), Some(0)), "{second}");
    assert!(compiled <= PROBES, "{compiled} kernels compiled again");

    let file = PathBuf::from(first["path"].as_str().unwrap());
    let mut bytes = fs::read(bench.path("").join(&file)).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(bench.path("").join(&file), bytes).unwrap();
    let (damaged, _) = kernels_of_a_step(&bench, "damaged", kept).unwrap();
    assert_eq!((damaged["read"].as_u64(), damaged["added"].as_u64()), (Some(0), Some(added)), "{damaged}");
    let (replaced, compiled) = kernels_of_a_step(&bench, "replaced", kept).unwrap();
    assert_eq!(replaced["read"].as_u64(), Some(added), "{replaced}");
    assert!(compiled <= PROBES, "{compiled} kernels compiled again");

    let (off, compiled) = kernels_of_a_step(&bench, "off", ("ALTGRAD_KERNEL_CACHE", "off")).unwrap();
    assert_eq!(
        (off, compiled as u64 >= added),
        (serde_json::Value::Null, true),
        "{compiled} kernels compiled"
    );
}

/// Runs on a GPU do not take turns unless MPS runs, which its pipe shows.
#[test]
fn a_sweep_computes_one_run_on_a_gpu_at_a_time() {
    const TEST: &str = "a_sweep_computes_one_run_on_a_gpu_at_a_time";
    let bench = Bench::new();
    bench.write("run.toml", TINY);
    let set = "set = { run.device = \"cuda:0\", train.max_steps = 1, train.warmup_steps = 0 }\naxes.run.seed = [1, 2]\n";
    bench.write("m.toml", &format!("base = \"run.toml\"\nout = \"out\"\n{set}"));
    bench.write("mps/control", "");
    let sweep = |more: &[&str], variables: &[(&str, &str)]| {
        let args = [["sweep", "m.toml", "--jobs", "2"].as_slice(), more].concat();
        host_without_gpu(TEST, &bench, &args, variables)
    };
    let pipes = bench.path("mps").display().to_string();
    let Some(with_mps) = sweep(&["--check"], &[("CUDA_MPS_PIPE_DIRECTORY", &pipes)]) else { return };
    assert_eq!(with_mps.code, 0, "{}", with_mps.stderr);
    assert!(
        with_mps.stderr.contains("cuda:0 computes up to 2 runs at a time, because MPS runs\n"),
        "{}",
        with_mps.stderr
    );
    let asked = sweep(&["--check", "--jobs-per-gpu", "2"], &[]).unwrap();
    assert!(!asked.stderr.contains("at a time"), "{}", asked.stderr);

    let without = sweep(&[], &[]).unwrap();
    assert!(without.stderr.contains("cuda:0 computes one run at a time, "), "{}", without.stderr);
    let seconds = |key: &str| {
        let runs = fs::read_dir(bench.path("out/m")).unwrap().filter_map(|run| {
            let text = fs::read_to_string(run.unwrap().path().join("run.json")).ok()?;
            serde_json::from_str::<serde_json::Value>(&text).unwrap()[key].as_u64()
        });
        runs.collect::<BTreeSet<_>>()
    };
    let (started, ended) = (seconds("started_unix_s"), seconds("updated_unix_s"));
    assert!(started.last() >= ended.first(), "the second starts after the first: {started:?} {ended:?}");
}

/// Kernels of the host for casts that formats have no kernels for: scales from deviations, few random bits.
#[test]
fn cuda_kernels_of_other_casts_compile() {
    let bits = "quant.cast.weight={rounding=\"stochastic\",random_bits=8,random_mode=\"b\"}";
    let deviations = "quant.scaling={rule=\"rms\",type=\"e8m0\"}";
    let truncates = Some(("NO_GPU_TRUNCATES", "1"));
    let cases = [(deviations, None, "scales_of_deviations"), (bits, truncates, "round_otherwise")];
    for (set, rounding, kernel) in cases {
        let bench = Bench::new();
        bench.write("run.toml", TINY);
        let mut args = vec!["run", "run.toml", "--device", "cuda:0", "--max-steps", "1", "--out", "run"];
        args.extend(["--set", "quant.block=8", "--set", set]);
        let Some(outcome) =
            host_without_gpu("cuda_kernels_of_other_casts_compile", &bench, &args, rounding.as_slice())
        else {
            return;
        };
        assert!([0, 5].contains(&outcome.code), "{}: {}", outcome.code, outcome.stderr);
        let launch = format!("no_gpu: launch {kernel}");
        assert!(outcome.stderr.contains(&launch), "{kernel}: {}", outcome.stderr);
    }
}

/// The driver without a GPU rounds to nearest only, so a format's other kernels give other values than the CPU.
#[test]
fn a_device_that_rounds_wrong_is_refused() {
    let bench = Bench::new();
    let Some(outcome) =
        step_without_gpu("a_device_that_rounds_wrong_is_refused", &bench, "toward-zero", None)
    else {
        return;
    };
    assert_eq!(outcome.code, 3, "{}", outcome.stderr);
    let said = &outcome.stderr;
    assert!(said.contains("E5M2") && said.contains("do not run on device cuda:0: toward-zero of"), "{said}");
    assert!(!bench.path("run").join("metrics.csv").exists());
}

/// A step whose first sum of gradients fails; the run's end.
fn failed_step(test: &str, variable: &str) -> Option<Outcome> {
    let bench = Bench::new();
    let outcome = step_without_gpu(test, &bench, "nearest-even", Some((variable, "moments_")))?;
    assert_eq!(outcome.code, 4, "{}", outcome.stderr);
    let record: serde_json::Value = serde_json::from_str(&bench.read("run/run.json")).unwrap();
    assert_eq!(record["status"], "failed", "{record}");
    let error = record["error"].as_str().unwrap();
    assert!(error.starts_with("the device failed: ") && outcome.stderr.contains(error), "{}", outcome.stderr);
    Some(outcome)
}

/// The driver's answer to a launch that needs more than the device has.
const REFUSED: &str = "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES";

#[test]
fn a_kernel_that_the_driver_refuses_ends_the_run() {
    let outcome = failed_step("a_kernel_that_the_driver_refuses_ends_the_run", "NO_GPU_REFUSES");
    let said = outcome.map_or_else(|| REFUSED.to_string(), |outcome| outcome.stderr);
    assert!(said.contains(REFUSED), "the reason is in the message: {said}");
}

/// The panic is on a thread of the tensor library, which logs it and goes on.
#[test]
fn a_panic_that_the_library_only_logs_ends_the_run() {
    let outcome = failed_step("a_panic_that_the_library_only_logs_ends_the_run", "NO_GPU_FAILS_AFTER");
    let said = outcome.map(|outcome| outcome.stderr);
    assert!(said.is_none_or(|said| said.contains("the device failed: an operation panicked: ")));
}
