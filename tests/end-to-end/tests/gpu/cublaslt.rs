//! Products by cuBLASLt without a GPU: `fixtures/no_blas.c` takes its place, beside the driver of `no_gpu`.
//!
//! It multiplies, and driver and library compute what a trial consists of, so that factors, layouts and order of
//! arguments are tested.

use std::{collections::BTreeMap, fs, process::Command};

use altgrad_end_to_end::{Bench, Outcome, TINY, fixture};

use super::no_gpu::host_without_gpu;

const TEST: &str = "products_by_cublaslt_are_tried_and_recorded";

/// One step with a precision of products and with a variable of the library, and what computed its products.
fn step(
    bench: &Bench,
    precision: &str,
    variable: (&str, &str),
) -> Option<(Outcome, BTreeMap<String, String>)> {
    let (set, out) = (format!("train.precision=\"{precision}\""), format!("{precision}-{}", variable.0));
    let args = ["run", "run.toml", "--device", "cuda:0", "--max-steps", "1", "--out", &out, "--set", &set];
    let variables = [("ALTGRAD_BLAS", "cublaslt"), ("ALTGRAD_KERNEL_CACHE", "kept"), variable];
    let outcome = host_without_gpu(TEST, bench, &args, &variables)?;
    // Other kernels compute nothing, so that losses are what the memory held before: 5 is the code of a NaN among them.
    assert!([0, 5].contains(&outcome.code), "{}: {}", outcome.code, outcome.stderr);
    let record: serde_json::Value = serde_json::from_str(&bench.read(&format!("{out}/run.json"))).unwrap();
    // The host's kernels for f32 are not among the products, those of attention are.
    let products = serde_json::from_value(record["environment"]["gpu"]["products"].clone());
    let mut products: BTreeMap<String, String> = products.unwrap_or_default();
    products.retain(|of, _| !of.starts_with("attention"));
    Some((outcome, products))
}

/// All products of both precisions pass their trials. A library that computes wrong, or none, is a warning, and the
/// host's own kernels compute.
#[test]
fn products_by_cublaslt_are_tried_and_recorded() {
    const UNSET: (&str, &str) = ("ALTGRAD_UNSET", "");
    let bench = Bench::new();
    bench.write("run.toml", TINY);
    fs::create_dir_all(bench.path("driver")).unwrap();
    let library = bench.path("driver/libcublasLt.so");
    let compiled = Command::new("g++")
        .args(["-x", "c", "-shared", "-fPIC", "-O1", "-o"])
        .args([&library, &fixture("no_blas.c")])
        .output();
    if let Ok(compiled) = &compiled {
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    }
    for (precision, element) in [("bf16", "bf16"), ("fp32", "f32")] {
        let Some((outcome, products)) = step(&bench, precision, UNSET) else { return };
        let by_library = |by: &String| by == "cuBLASLt 130000, algorithm 0, tile 1, stages 6, 2 parts";
        assert!(products.len() > 4 && products.values().all(by_library), "{products:?}\n{}", outcome.stderr);
        assert!(outcome.stderr.contains(&format!("no_blas: product {element}\n")), "{}", outcome.stderr);
        assert!(!outcome.stderr.contains("is not computed by cuBLASLt"), "{}", outcome.stderr);

        let (outcome, products) = step(&bench, precision, ("NO_BLAS_IS_WRONG", "1")).unwrap();
        assert!(!products.values().any(|by| by.contains("cuBLASLt")), "{precision}: {products:?}");
        let warning = "elements of a trial are wrong";
        assert!(outcome.stderr.contains(warning), "{}", outcome.stderr);
    }
    fs::remove_file(library).unwrap();
    let (outcome, products) = step(&bench, "bf16", ("NO_BLAS", "1")).unwrap();
    assert!(!products.values().any(|by| by.contains("cuBLASLt")), "{products:?}");
    let warnings = outcome.stderr.matches("ALTGRAD_BLAS=cublaslt has no effect").count();
    assert_eq!(warnings, 1, "{}", outcome.stderr);
}
