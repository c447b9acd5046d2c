//! Recorded passes (`ALTGRAD_GRAPHS=on`): the bits of passes that launch their kernels one by one.

use altgrad_end_to_end::{Bench, Outcome, TINY, difference, gpu_devices, is_thorough, skipped};

use super::{missing, no_gpu::host_without_gpu};

const ON: (&str, &str) = ("ALTGRAD_GRAPHS", "on");
/// Fewer lines of the software device.
const LOG: (&str, &str) = ("ALTGRAD_LOG", "info,wgpu_hal=off");

/// The options of a run of eight steps, of which two to five at the end are replayed.
fn options<'a>(set: &[&'a str]) -> Vec<&'a str> {
    let set = ["train.max_steps=8", "train.eval_interval=4"].iter().chain(set);
    set.flat_map(|set| ["--set", set]).collect()
}

fn train(bench: &Bench, test: &str, args: &[&str], graphs: Option<(&str, &str)>) -> Option<Outcome> {
    let args = [&["run", "run.toml"], args].concat();
    let outcome = bench.host_with(&args, &[LOG].into_iter().chain(graphs).collect::<Vec<_>>());
    if let Some(why) = missing(&outcome) {
        skipped(test, why);
        return None;
    }
    assert_eq!(outcome.code, 0, "{args:?}: {}", outcome.stderr);
    Some(outcome)
}

/// True if a run's last process replayed its passes.
fn replays(bench: &Bench, run: &str) -> bool {
    let record: serde_json::Value = serde_json::from_str(&bench.read(&format!("{run}/run.json"))).unwrap();
    record["environment"]["gpu"]["replayed_passes"] == true
}

/// Casts by tensor and dropout, with the metrics of attention in some steps; several micro-batches, a loss scale and
/// z-loss; codes as weights; random bits; scales of earlier steps; blocks with random bits, and with random signs. A
/// resumed run records anew.
#[test]
fn replayed_passes_have_the_bits_of_launched_ones() {
    const TEST: &str = "replayed_passes_have_the_bits_of_launched_ones";
    const BLOCKS: [&str; 3] = ["model.n_layer=2", "model.n_embd=32", "data.block_size=32"];
    let cases: [(&str, &[&str]); 7] = [
        ("activation = \"E4M3\"\ngrad = \"E5M2\"", &["metrics.every=3", "model.dropout=0.2"]),
        (
            "weight = \"E4M3\"",
            &[
                "train.grad_accum=2",
                "model.dropout=0.1",
                "train.loss_scale=\"dynamic\"",
                "train.grad_clip=0.5",
                "train.z_loss=0.001",
            ],
        ),
        ("weight = \"E5M2\"\nmaster_weights = \"none\"", &["metrics.histograms_every=5"]),
        ("weight = \"E5M2\"\ngrad = \"E4M3\"\nrounding = \"stochastic\"", &[]),
        ("recipe = \"te_delayed\"", &BLOCKS),
        ("recipe = \"nvfp4\"", &BLOCKS),
        ("recipe = \"quartet\"", &BLOCKS),
    ];
    // The others are delayed scales, and codes as weights.
    let some = |case: &usize| is_thorough() || ![2, 4].contains(case);
    let cases = cases.into_iter().enumerate().filter(|(number, _)| some(number)).map(|(_, case)| case);
    let cases = cases.flat_map(|case| gpu_devices().into_iter().map(move |device| (case, device)));
    for ((quant, set), device) in cases {
        let bench = Bench::new();
        let file = TINY.replace("weight = \"E5M2\"", quant);
        bench.write("run.toml", &format!("{file}\n[[sink]]\nname = \"csv\"\n"));
        let options = [vec!["--device", device], options(set)].concat();
        let into = |out, more: &[&'static str]| [&options, &["--out", out][..], more].concat();
        if train(&bench, TEST, &into("launched", &[]), None).is_none() {
            continue;
        }
        let outcome = train(&bench, TEST, &into("replayed", &[]), Some(ON)).unwrap();
        assert!(replays(&bench, "replayed") && !replays(&bench, "launched"), "{quant}: {}", outcome.stderr);
        assert_eq!(difference(&bench, "launched", "replayed"), None, "{quant} on {device}");
        if !quant.contains("stochastic") {
            continue;
        }
        let _ = train(&bench, TEST, &into("halves", &["--max-steps", "4"]), Some(ON)).unwrap();
        let _ = train(&bench, TEST, &into("halves", &["--resume"]), Some(ON)).unwrap();
        assert_eq!(difference(&bench, "launched", "halves"), None, "{quant} on {device}");
    }
}

/// The driver without a GPU allows no allocation in a recording. It computes nothing, so that what memory holds
/// decides whether the first replay agrees.
#[test]
fn the_driver_records_a_step_without_uploads_and_allocations() {
    const TEST: &str = "the_driver_records_a_step_without_uploads_and_allocations";
    let bench = Bench::new();
    bench.write("run.toml", TINY);
    for (out, set) in [("bf16", "train.precision=\"bf16\""), ("e5m2", "quant.activation=\"E5M2\"")] {
        let args = ["run", "run.toml", "--device", "cuda:0", "--max-steps", "4", "--out", out];
        let args = [args.as_slice(), &["--set", set, "--set", "quant.grad=\"E5M2\""]].concat();
        let Some(outcome) = host_without_gpu(TEST, &bench, &args, &[ON]) else { return };
        let said = outcome.stderr.split_once("no_gpu: record\n").unwrap_or(("", "")).1;
        let (recorded, rest) = said.split_once("no_gpu: recorded\n").unwrap_or_default();
        assert!(recorded.matches("no_gpu: launch").count() > 40, "{}", outcome.stderr);
        assert!(!recorded.contains("no_gpu: upload") && rest.contains("no_gpu: replay\n"), "{recorded}");
    }
}
