//! Optimizer states in bf16 and in codes, and the rounding residual: the states stored by a step, by hand, and the
//! run's record.

use std::{collections::BTreeMap, fs};

use altgrad_end_to_end::{Bench, TINY};
use serde_json::Value;

/// One tensor of a safetensors file: its type and bytes.
type Tensors = BTreeMap<String, (String, Vec<u8>)>;

fn tensors(bench: &Bench, file: &str) -> Tensors {
    let bytes = fs::read(bench.path(file)).unwrap();
    let len = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..8 + len]).unwrap();
    let tensor = |(name, tensor): (&String, &Value)| {
        let at = |i: usize| 8 + len + tensor["data_offsets"][i].as_u64().unwrap() as usize;
        (name.clone(), (tensor["dtype"].as_str().unwrap().to_string(), bytes[at(0)..at(1)].to_vec()))
    };
    header.as_object().unwrap().iter().filter(|(name, _)| *name != "__metadata__").map(tensor).collect()
}

fn f32s(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// Elements of a block.
const BLOCK: usize = 24;

/// One update of TINY with these settings; the optimizer's tensors and the run's record.
fn first_step(bench: &Bench, out: &str, set: &[&str]) -> (Tensors, Value) {
    bench.write("run.toml", TINY);
    let set: Vec<&str> = set.iter().flat_map(|set| ["--set", set]).collect();
    let args = ["run", "run.toml", "--quiet", "--max-steps", "1", "--out", out];
    let outcome = bench.host(&[args.as_slice(), &set].concat());
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let record = serde_json::from_str(&bench.read(&format!("{out}/run.json"))).unwrap();
    (tensors(bench, &format!("{out}/checkpoints/last/optimizer.safetensors")), record)
}

/// The values of a format's codes, as the host lists them.
fn values(bench: &Bench, format: &str) -> Vec<f32> {
    let outcome = bench.host(&["formats", "table", format, "--json"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let table: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let bits = |code: &Value| f32::from_bits(code["f32_bits"].as_u64().unwrap() as u32);
    table["codes"].as_array().unwrap().iter().map(bits).collect()
}

/// The first update begins with states of zero, so its values are independent of the states' storage: those of the run
/// with f32 states, rounded.
#[test]
fn the_first_step_stores_the_rounded_states() {
    let bench = Bench::new();
    let (exact, _) = first_step(&bench, "f32", &[]);
    let (bf16, record) =
        first_step(&bench, "bf16", &["optimizer.states={exp_avg=\"bf16\", exp_avg_sq=\"bf16\"}"]);
    let mut elements = 0;
    for (name, (dtype, bytes)) in &bf16 {
        assert_eq!(dtype, "BF16", "{name}");
        let exact = f32s(&exact[name].1);
        elements += exact.len();
        for (bits, x) in bytes.as_chunks().0.iter().map(|bytes| u16::from_le_bytes(*bytes)).zip(exact) {
            // The upper half of the bits, rounded to nearest, ties to even.
            let upper = x.to_bits() >> 16;
            let rounded = (x.to_bits() + 0x7fff + (upper & 1)) >> 16;
            assert_eq!(u32::from(bits), rounded, "{name}: {x:e}");
        }
    }
    let states = &record["computed"]["optimizer"]["states"];
    assert_eq!(states["exp_avg"]["stored_as"], "bf16", "{states}");
    let bytes = |name: &str| states[name]["bytes"].as_u64().unwrap() as usize;
    assert_eq!(bytes("exp_avg") + bytes("exp_avg_sq"), 2 * elements);

    for format in ["E4M3", "E5M2", "E3M2", "E2M1", "INT4", "DYNAMIC8"] {
        let codes_of = values(&bench, format);
        let packed = codes_of.len() <= 16;
        let max = codes_of.iter().copied().filter(|x| x.is_finite()).fold(0f32, f32::max);
        let table = format!("{{ format = \"{format}\", block = {BLOCK} }}");
        let set = format!("optimizer.states={{exp_avg={table}, exp_avg_sq={table}}}");
        let (stored, record) = first_step(&bench, format, &[&set]);
        let mut total = 0;
        for (name, (dtype, bytes)) in stored.iter().filter(|(name, _)| !name.ends_with(".scales")) {
            assert_eq!(dtype, "U8", "{name}");
            let (exact, scales) = (f32s(&exact[name].1), f32s(&stored[&format!("{name}.scales")].1));
            assert_eq!(scales.len(), exact.len().div_ceil(BLOCK), "{name}");
            total += bytes.len() + 4 * scales.len();
            // Two codes of four bits lie in a byte.
            let codes: Vec<u8> = match packed {
                true => bytes.iter().flat_map(|byte| [byte & 15, byte >> 4]).collect(),
                false => bytes.clone(),
            };
            assert_eq!(bytes.len(), if packed { exact.len().div_ceil(2) } else { exact.len() }, "{name}");
            for ((codes, x), scale) in codes.chunks(BLOCK).zip(exact.chunks(BLOCK)).zip(scales) {
                let amax = x.iter().fold(0f32, |amax, x| amax.max(x.abs()));
                assert_eq!(scale, if amax == 0.0 { 1.0 } else { (max / amax).min(2f32.powi(126)) }, "{name}");
                for (&code, &x) in codes.iter().zip(x) {
                    let distance = |value: f32| (f64::from(value) - f64::from(x * scale)).abs();
                    let least = codes_of.iter().copied().filter(|x| x.is_finite()).map(distance);
                    let least = least.fold(f64::INFINITY, f64::min);
                    assert_eq!(distance(codes_of[usize::from(code)]), least, "{name}: {x:e} as {code}");
                }
            }
        }
        let states = &record["computed"]["optimizer"]["states"];
        assert_eq!(states["exp_avg"]["stored_as"], format!("{format}, blocks of {BLOCK}"), "{states}");
        let bytes = |name: &str| states[name]["bytes"].as_u64().unwrap() as usize;
        assert_eq!(bytes("exp_avg") + bytes("exp_avg_sq"), total);
    }
}

/// docs/numerics.md, section 9.8: the code is the nearest to the block's power, and small states stay in f32.
#[test]
fn expanded_states_are_powers_and_small_states_stay_exact() {
    let bench = Bench::new();
    let (exact, _) = first_step(&bench, "f32", &[]);
    let table = format!("{{ format = \"E4M3\", block = {BLOCK}, expand = 16, min_size = 65 }}");
    let (stored, record) = first_step(
        &bench,
        "expanded",
        &[&format!("optimizer.states={{exp_avg={table}, exp_avg_sq={table}}}")],
    );
    let grid = values(&bench, "E4M3");
    let mut blocks = 0;
    for (name, (dtype, bytes)) in stored.iter().filter(|(name, _)| exact.contains_key(*name)) {
        let x = f32s(&exact[name].1);
        assert_eq!(dtype, if x.len() < 65 { "F32" } else { "U8" }, "{name}");
        if x.len() < 65 {
            assert_eq!(&exact[name].1, bytes, "{name}");
            continue;
        }
        let [scales, exponents, centers] =
            ["scales", "exponents", "centers"].map(|suffix| f32s(&stored[&format!("{name}.{suffix}")].1));
        for (at, (codes, x)) in bytes.chunks(BLOCK).zip(x.chunks(BLOCK)).enumerate() {
            let amax = x.iter().fold(0f32, |amax, x| amax.max(x.abs()));
            blocks += usize::from(exponents[at] > 1.0);
            for (&code, &x) in codes.iter().zip(x).filter(|_| amax > 0.0) {
                let power = (f64::from(x.abs()) / f64::from(centers[at])).powf(f64::from(exponents[at]));
                let y = power * f64::from(scales[at]) * f64::from(x.signum());
                let distance = |value: f32| (f64::from(value) - y).abs();
                let least = grid.iter().copied().filter(|value| value.is_finite()).map(distance);
                let least = least.fold(f64::INFINITY, f64::min);
                // Rounded values have the error of a power in f32.
                let got = distance(grid[usize::from(code)]);
                assert!(got <= least + 1e-4 * y.abs(), "{name}: {x:e} as {code}, {got} instead of {least}");
            }
        }
    }
    assert!(blocks > 10, "{blocks} blocks with an exponent above 1");
    let states = &record["computed"]["optimizer"]["states"];
    assert!(
        states["exp_avg"]["stored_as"]
            .as_str()
            .is_some_and(|text| text.ends_with("range expanded, f32 below 65 elements")),
        "{states}"
    );
}

/// Blocks of few elements have more bytes for scales, exponents and centers than for codes.
#[test]
fn states_of_any_block_resume() {
    let bench = Bench::new();
    bench.write("run.toml", TINY);
    for block in [1, 2] {
        let table = format!("{{ format = \"E4M3\", block = {block}, expand = 16 }}");
        let set = format!("optimizer.states={{exp_avg={table}, exp_avg_sq={table}}}");
        let (whole, parts) = (format!("whole-{block}"), format!("parts-{block}"));
        for (out, more) in [
            (&whole, &["--quiet"][..]),
            (&parts, &["--quiet", "--max-steps", "3"]),
            (&parts, &["--quiet", "--resume"]),
        ] {
            let outcome = bench.host(&[&["run", "run.toml", "--out", out, "--set", &set], more].concat());
            assert_eq!(outcome.code, 0, "blocks of {block}: {}", outcome.stderr);
        }
        let weights = |run: &str| fs::read(bench.path(run).join("weights.safetensors")).unwrap();
        assert!(weights(&whole) == weights(&parts), "blocks of {block}");
    }
}

/// The loss by rounding in the first update of a weight without a master copy: the difference to a run that rounds
/// nothing at the end of the update, and begins with the same weights and gradients.
#[test]
fn the_residual_is_what_the_rounding_of_the_update_lost() {
    let bench = Bench::new();
    let set = ["quant.master_weights=none", "quant.block=none", "optimizer.error_feedback=true"];
    let (stored, record) = first_step(&bench, "fed", &set);
    let rules = &record["computed"]["optimizer"]["rules"];
    assert_eq!(rules["AdamW with error feedback"].as_array().map(Vec::len), Some(5), "{rules}");
    let grid = values(&bench, "E5M2");
    let weights = tensors(&bench, "fed/checkpoints/last/model.safetensors");
    let mut some = 0;
    for (name, (_, residual)) in stored.iter().filter(|(name, _)| name.ends_with("/rounding_residual")) {
        let param = name.trim_end_matches("/rounding_residual");
        let weight = f32s(&weights[&format!("transformer.{param}")].1);
        for (lost, w) in f32s(residual).into_iter().zip(weight) {
            // The value before the rounding is nearest to the value after it.
            let before = f64::from(w) + f64::from(lost);
            let nearest = |value: &f32| (f64::from(*value) - before).abs();
            let least = grid.iter().filter(|x| x.is_finite()).map(nearest).fold(f64::INFINITY, f64::min);
            assert_eq!(least, f64::from(lost).abs(), "{param}: {w:e} and {lost:e}");
            some += usize::from(lost != 0.0);
        }
    }
    assert!(some > 100, "{some} residuals");
}

/// Steps below half of the spacing: rounding to nearest loses most of them, and a residual keeps them. Optimizers on
/// the CPU, and with the host's services.
#[test]
fn what_a_residual_keeps_is_not_lost() {
    let bench = Bench::new();
    bench.write("run.toml", &format!("{TINY}\n[[sink]]\nname = \"csv\"\n"));
    let losses = |optimizer: &str, feedback: bool| -> Vec<f64> {
        let out = format!("{optimizer}-{feedback}");
        let set = [
            "quant.master_weights=none",
            "train.lr=3e-4",
            "train.min_lr=3e-4",
            &format!("optimizer.name={optimizer}"),
            &format!("optimizer.error_feedback={feedback}"),
        ];
        let set: Vec<&str> = set.into_iter().flat_map(|set| ["--set", set]).collect();
        let outcome = bench.host(&[&["run", "run.toml", "--quiet", "--out", &out], set.as_slice()].concat());
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        bench.metrics(&out)["update/rounding_loss"].iter().map(|cell| cell.parse().unwrap()).collect()
    };
    for optimizer in ["adamw", "muon"] {
        let (lost, kept) = (losses(optimizer, false), losses(optimizer, true));
        assert!(lost.len() == 6 && lost.iter().all(|lost| *lost > 0.3), "{optimizer}: {lost:?}");
        assert!(kept.len() == 6 && kept.iter().all(|lost| lost.abs() < 1e-3), "{optimizer}: {kept:?}");
    }
}

#[test]
fn storage_that_does_not_exist_is_refused() {
    let bench = Bench::new();
    bench.write("run.toml", TINY);
    for (set, message) in [
        ("optimizer.states={exp_average=\"bf16\"}", "optimizer `adamw` has no state `exp_average`"),
        ("optimizer.states={exp_avg={format=\"E9M9\"}}", "E9M9"),
        ("optimizer.states={exp_avg={format=\"E4M3\", block=0}}", "block"),
        ("optimizer.states={exp_avg={format=\"E4M3\", expand=0}}", "expand"),
        ("optimizer.states={exp_avg=\"f16\"}", "f32"),
    ] {
        let outcome = bench.host(&["run", "run.toml", "--quiet", "--out", "run", "--set", set]);
        assert_eq!(outcome.code, 2, "{set}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(message), "{set}: {}", outcome.stderr);
    }
}
