//! Formats of other widths than 8 bits, and integers: the loss of a small GPT in each, and the run's metrics of their
//! codes.

use altgrad_end_to_end::{Bench, TINY};
use serde_json::Value;

/// (name, bits, dB of signal to noise on Gaussian data): docs/numerics.md, section 10.1.
const FORMATS: [(&str, u32, f64); 8] = [
    ("E2M1", 4, 18.5),
    ("INT4", 4, 16.2),
    ("E2M3", 6, 30.9),
    ("E3M2", 6, 25.6),
    ("INT8", 8, 41.2),
    ("E5M6", 12, 49.6),
    ("E8M7", 16, 55.6),
    ("E5M10", 16, 73.7),
];
/// Tensors here are larger than those of the table, so their largest elements are, which costs integers a little.
const DECIBELS: f64 = 2.5;

/// A small GPT, with one format everywhere.
fn run_file(format: &str, quant: &str) -> String {
    let quant = format!(
        "weight = \"{format}\"\nactivation = \"{format}\"\ngrad = \"{format}\"\ngrad_rounding = \"stochastic\"\n{quant}"
    );
    let model = TINY
        .replace("n_layer = 1", "n_layer = 2")
        .replace("n_head = 2", "n_head = 4")
        .replace("n_embd = 8", "n_embd = 64")
        .replace("block_size = 8", "block_size = 64")
        .replace("batch_size = 2", "batch_size = 4")
        .replace("max_steps = 6", "max_steps = 12")
        .replace("lr = 0.01", "lr = 0.005");
    model.replace("weight = \"E5M2\"", &quant)
        + "\n[metrics]\nhistograms_every = 6\n[[sink]]\nname = \"csv\"\n"
}

#[test]
fn each_width_trains_and_is_measured() {
    let bench = Bench::new();
    for (format, bits, expected) in FORMATS {
        bench.write("run.toml", &run_file(format, ""));
        let outcome = bench.host(&["run", "run.toml", "--quiet", "--out", format]);
        assert_eq!(outcome.code, 0, "{format}: {}", outcome.stderr);
        let metrics = bench.metrics(format);
        let numbers = |name: &str| -> Vec<f64> {
            let values = metrics.get(name).into_iter().flatten().filter(|value| !value.is_empty());
            values.map(|value| value.parse().unwrap()).collect()
        };
        let losses = numbers("train/loss");
        assert!(losses[losses.len() - 1] < losses[0] - 0.5, "{format}: {losses:?}");
        let sqnr = numbers("quant/weight/sqnr_db");
        assert!(sqnr.iter().all(|db| (db - expected).abs() < DECIBELS), "{format}: {sqnr:?}");
        // Codes of more than 8 bits are not counted.
        let entropy = numbers("quant/weight/code_entropy");
        assert_eq!(entropy.is_empty(), bits > 8, "{format}: {entropy:?}");
        assert!(entropy.iter().all(|share| (0.0..=f64::from(bits)).contains(share)), "{format}: {entropy:?}");
        let record: Value = serde_json::from_str(&bench.read(&format!("{format}/run.json"))).unwrap();
        let layers = record["computed"]["linear_layers"].as_array().unwrap();
        assert!(layers.iter().all(|layer| layer["weight"]["bits"] == bits), "{format}: {layers:?}");
    }
}

/// The saved weights of a run without master weights have no more magnitudes than the format has.
#[test]
fn weights_lie_on_the_grid_of_each_width() {
    let bench = Bench::new();
    for (format, bits, _) in FORMATS {
        bench.write(
            "run.toml",
            &run_file(format, "master_weights = \"none\"\nweight_rounding = \"stochastic\""),
        );
        let outcome = bench.host(&["run", "run.toml", "--quiet", "--out", format]);
        assert_eq!(outcome.code, 0, "{format}: {}", outcome.stderr);
        let bytes = std::fs::read(bench.path(format).join("weights.safetensors")).unwrap();
        let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let name = "transformer.h.0.mlp.c_fc.weight";
        let values = tensors.tensor(name).unwrap().data().as_chunks::<4>().0.to_vec();
        let mut magnitudes: Vec<u32> =
            values.into_iter().map(|bytes| u32::from_le_bytes(bytes) & 0x7fff_ffff).collect();
        magnitudes.sort_unstable();
        magnitudes.dedup();
        assert!((3..=1 << (bits - 1)).contains(&magnitudes.len()), "{format}: {}", magnitudes.len());
    }
}
