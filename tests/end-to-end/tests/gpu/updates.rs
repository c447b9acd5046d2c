//! Optimizers on GPUs: whole trainings follow the CPU's, metrics of updates too, and no parameter is read back for
//! them.
//!
//! A feature that a build or a machine lacks is a skip by name, as in the tests of `gpu`.

use altgrad_end_to_end::{Bench, Outcome, TINY, assert_same_run, gpu_devices, skipped};

use super::missing;

/// Trains TINY on a device, in a folder of the same name; `None`, and a skip, if it does not answer.
fn train(bench: &Bench, test: &str, file: &str, device: &str, log: &str) -> Option<Outcome> {
    let _ = std::fs::remove_dir_all(bench.path(device));
    train_with(bench, test, file, device, &["--out", device], log)
}

/// The same with these arguments, which name the folder.
fn train_with(
    bench: &Bench,
    test: &str,
    file: &str,
    device: &str,
    args: &[&str],
    log: &str,
) -> Option<Outcome> {
    bench.write("run.toml", file);
    let args = [&["run", "run.toml", "--device", device, "--quiet"][..], args].concat();
    let outcome = bench.host_with(&args, &[("ALTGRAD_LOG", log)]);
    if let Some(why) = missing(&outcome) {
        skipped(test, why);
        return None;
    }
    assert_eq!(outcome.code, 0, "{device}: {file}{}", outcome.stderr);
    Some(outcome)
}

/// A row of metrics by name, `None` where a value is missing.
type Row = Vec<(String, Option<f64>)>;

/// The rows of a run's metrics, and after them those of the layers: the step and one value; a layer's name follows its
/// metric's.
fn rows(bench: &Bench, run: &str) -> Vec<Row> {
    let reader = |file: &str| csv::Reader::from_path(bench.path(run).join(file)).unwrap();
    let mut metrics = reader("metrics.csv");
    let names: Vec<String> = metrics.headers().unwrap().iter().map(String::from).collect();
    let row = |record: csv::StringRecord| -> Row {
        names.iter().cloned().zip(record.iter().map(|value| value.parse().ok())).collect()
    };
    let layer = |record: csv::StringRecord| -> Row {
        let value = (format!("{}/{}", &record[2], &record[1]), record[3].parse().ok());
        vec![("step".into(), record[0].parse().ok()), value]
    };
    let metrics = metrics.records().map(|record| row(record.unwrap())).collect::<Vec<_>>();
    metrics.into_iter().chain(reader("layers.csv").records().map(|record| layer(record.unwrap()))).collect()
}

/// True for metrics that a device does not compute: it counts single elements, and not those at the ends of their
/// grids.
fn is_of_the_cpu(name: &str) -> bool {
    ["dead_rows", "update/clamped_frac", "update/dropped_momentum"]
        .iter()
        .any(|metric| name.starts_with(metric))
}

/// The tolerance of a metric: sums are made in another order, and a value near an edge may fall on its other side.
fn tolerance(name: &str, expected: f64) -> Option<f64> {
    let is = |prefix: &str| name.starts_with(prefix);
    if is("train/loss") || is("train/grad_norm") || is("val/loss") {
        Some(1e-3 * expected.abs().max(1e-3))
    } else if is("update/ulp_abs_mean") {
        Some(1e-2 * expected.abs())
    } else if ["update/ulp_abs_p50", "update/ulp_abs_p99"].contains(&name) {
        // Percentiles come from bins that are an eighth wide.
        Some(0.15 * expected.abs())
    } else if is("quant/") && name.contains("kurtosis") {
        Some(1e-3 * expected.abs())
    } else if is("quant/") && name.contains("code_entropy") {
        // Bits. Activations and gradients are sums in another order, so a code in a hundred may be another.
        Some(0.05)
    } else if (is("update/") || is("dead_")) && !name.contains("ulp") {
        // Shares of 64 elements and more: one of them.
        Some(1.0 / 64.0 + 1e-9)
    } else {
        None
    }
}

/// The tolerance of losses and norms of gradients in later steps of runs whose differences grow.
fn later(name: &str, expected: f64) -> Option<f64> {
    let is_one = ["train/loss", "train/grad_norm", "val/loss"].contains(&name);
    is_one.then_some(0.02 * expected.abs())
}

/// A few rules per test: each rule trains in processes of its own, which compile the kernels anew, and tests run at the
/// same time.
#[test]
fn adamw_trains_on_a_device_as_on_the_cpu() {
    train_as_on_the_cpu("adamw_trains_on_a_device_as_on_the_cpu", &["name = \"adamw\"\neps = 1e-6"]);
}

#[test]
fn stiffness_adamw_trains_on_a_device_as_on_the_cpu() {
    let rules = [
        "name = \"stiffness-adamw\"\neps = 1e-6",
        "name = \"stiffness-adamw\"\neps = 1e-6\nplacement = \"power\"",
        "name = \"stiffness-adamw\"\neps = 1e-6\nplacement = \"pre\"",
    ];
    train_as_on_the_cpu("stiffness_adamw_trains_on_a_device_as_on_the_cpu", &rules);
}

#[test]
fn fp8_manifold_trains_on_a_device_as_on_the_cpu() {
    let rules = [
        "name = \"fp8-manifold\"\neps = 1e-6",
        "name = \"fp8-manifold\"\neps = 1e-6\nretraction = \"linear\"",
    ];
    train_as_on_the_cpu("fp8_manifold_trains_on_a_device_as_on_the_cpu", &rules);
}

#[test]
fn fp8_manifold_in_asinh_trains_on_a_device_as_on_the_cpu() {
    let rules = [
        "name = \"fp8-manifold\"\neps = 1e-6\nchart = \"asinh\"",
        "name = \"fp8-manifold\"\neps = 1e-6\nchart = \"asinh\"\nretraction = \"linear\"",
    ];
    train_as_on_the_cpu("fp8_manifold_in_asinh_trains_on_a_device_as_on_the_cpu", &rules);
}

/// SGD, Lion and Madam have no kernels; Muon's and SOAP's matrices are updated by services of the host.
#[test]
fn sgd_lion_madam_and_muon_train_on_a_device_as_on_the_cpu() {
    Trainings {
        rules: &["name = \"sgd\"", "name = \"lion\"", "name = \"madam\"", "name = \"muon\"\neps = 1e-6"],
        has_kernels: false,
        ..WITH_MASTER_WEIGHTS
    }
    .follow_the_cpu("sgd_lion_madam_and_muon_train_on_a_device_as_on_the_cpu");
}

/// The axes of a small singular value turn with the last bits of a gradient: on the CPU alone, position embeddings that
/// differ by one unit in the last place move later gradient norms by 0.2 %, and distances by 20 %.
#[test]
fn soap_trains_on_a_device_as_on_the_cpu() {
    let rules = &["name = \"soap\"\neps = 1e-3"];
    Trainings { rules, has_kernels: false, exact_until: 0.0, least: 40, ..WITH_MASTER_WEIGHTS }
        .follow_the_cpu("soap_trains_on_a_device_as_on_the_cpu");
}

/// Weights have more blocks than the values on which kernels are tried, and lack the metrics of weights with one scale.
#[test]
fn weights_with_scales_by_block_train_on_a_device_as_on_the_cpu() {
    const TEST: &str = "weights_with_scales_by_block_train_on_a_device_as_on_the_cpu";
    let stored = [
        "weight = \"E4M3\"\nmaster_weights = \"none\"\nblock = 4",
        "weight = \"E4M3\"\nmaster_weights = \"none\"\nblock = [4, 4]",
    ];
    let rules = &["name = \"adamw\"\neps = 1e-6", "name = \"stiffness-adamw\"\neps = 1e-6"];
    let quants = &["weight = \"E4M3\"\nblock = 4"];
    Trainings { rules, quants, least: 100, ..WITH_MASTER_WEIGHTS }.follow_the_cpu(TEST);
    Trainings { rules, quants: &stored, least: 100, ..STORED }.follow_the_cpu(TEST);
}

/// One scale per tensor from history, blocks with powers of two and with two levels, tiles, and blocks after a Hadamard
/// transform. An activation or gradient on an edge's other side affects later steps.
#[test]
fn recipes_train_on_a_device_as_on_the_cpu() {
    // Whole blocks along each product, and a block of the model that NVFP4 rounds.
    let base = TINY
        .replace("n_layer = 1", "n_layer = 2")
        .replace("n_embd = 8", "n_embd = 32")
        .replace("block_size = 8", "block_size = 16");
    let recipes = ["te_delayed", "mxfp8", "deepseek_v3", "nvfp4", "quartet"];
    let quants = recipes.map(|recipe| format!("recipe = \"{recipe}\""));
    let quants = &quants.each_ref().map(String::as_str);
    Trainings { base: &base, quants, exact_until: 1.0, least: 60, ..WITH_MASTER_WEIGHTS }
        .follow_the_cpu("recipes_train_on_a_device_as_on_the_cpu");
}

fn train_as_on_the_cpu(test: &str, rules: &[&str]) {
    Trainings { rules, ..WITH_MASTER_WEIGHTS }.follow_the_cpu(test);
    Trainings { rules, ..STORED }.follow_the_cpu(test);
}

/// Trainings on a device that are compared with those on the CPU.
#[derive(Clone, Copy)]
struct Trainings<'a> {
    base: &'a str,
    /// Lines of `[optimizer]`.
    rules: &'a [&'a str],
    /// Lines of `[quant]`.
    quants: &'a [&'a str],
    /// Kernels of the optimizer update all parameters.
    has_kernels: bool,
    /// All metrics agree until this step, later ones in losses and norms of gradients.
    exact_until: f64,
    /// More values than this are compared.
    least: usize,
}

const WITH_MASTER_WEIGHTS: Trainings = Trainings {
    base: TINY,
    rules: &["name = \"adamw\"\neps = 1e-6"],
    quants: &["weight = \"E4M3\""],
    has_kernels: true,
    exact_until: f64::INFINITY,
    least: 150,
};

/// A stored weight on an edge's other side stays there, and affects later steps.
const STORED: Trainings = Trainings {
    quants: &["weight = \"E4M3\"\nmaster_weights = \"none\"\nrounding = \"stochastic\""],
    exact_until: 2.0,
    ..WITH_MASTER_WEIGHTS
};

impl Trainings<'_> {
    fn follow_the_cpu(self, test: &str) {
        let bench = Bench::new();
        for device in gpu_devices() {
            for (optimizer, quant) in
                self.rules.iter().flat_map(|rule| self.quants.iter().map(move |quant| (rule, quant)))
            {
                let what = format!("{device}: {optimizer}\n{quant}\n");
                let file =
                    self.base.replace("name = \"adamw\"", optimizer).replace("weight = \"E5M2\"", quant);
                let file = format!("{file}\n[metrics]\ndead_neuron_window = 2\n[[sink]]\nname = \"csv\"\n");
                if train(&bench, test, &file, device, "warn,wgpu_hal=off").is_none() {
                    break;
                }
                train(&bench, test, &file, "cpu", "warn").unwrap();
                let record = bench.read(&format!("{device}/run.json"));
                let [mut found, mut expected] = [device, "cpu"].map(|run| rows(&bench, run));
                if self.has_kernels {
                    assert!(!record.contains("main memory"), "{what}: {record}");
                    let mut computed = found.iter().flatten().filter(|(_, value)| value.is_some());
                    assert!(!computed.any(|(name, _)| is_of_the_cpu(name)), "{what}");
                }
                for rows in [&mut found, &mut expected] {
                    rows.retain(|row| row.len() > 2 || !is_of_the_cpu(&row[1].0));
                }
                self.compare(&what, &found, &expected);
            }
        }
    }

    fn compare(self, what: &str, found: &[Row], expected: &[Row]) {
        assert_eq!(found.len(), expected.len(), "{what}: rows");
        assert!(found.len() > 6, "{what}: {} rows", found.len());
        let mut compared = 0;
        for (row, (found, expected)) in found.iter().zip(expected).enumerate() {
            assert_eq!(found.len(), expected.len(), "{what}: metrics");
            let is_exact = expected[0].1.is_some_and(|step| step <= self.exact_until);
            for ((name, found), (_, expected)) in found.iter().zip(expected) {
                if is_of_the_cpu(name) {
                    continue;
                }
                assert_eq!(found.is_some(), expected.is_some(), "{what}, row {row}: {name}");
                let (Some(found), Some(expected)) = (found, expected) else { continue };
                let allowed = if is_exact { tolerance(name, *expected) } else { later(name, *expected) };
                let Some(allowed) = allowed else { continue };
                let close = (found - expected).abs() <= allowed;
                assert!(close, "{what}, row {row}: {name} {found}, on the CPU {expected}");
                compared += 1;
            }
        }
        assert!(compared > self.least, "{what}: {compared} values");
    }
}

/// Muon and SOAP leave vectors and embeddings to AdamW, whose kernels are tried out on parameters that they leave.
#[test]
fn what_muon_and_soap_leave_to_adamw_is_updated_by_kernels() {
    const TEST: &str = "what_muon_and_soap_leave_to_adamw_is_updated_by_kernels";
    let bench = Bench::new();
    let optimizers = ["muon", "soap"];
    for (device, optimizer) in
        gpu_devices().into_iter().flat_map(|device| optimizers.map(|name| (device, name)))
    {
        let file = TINY.replace("name = \"adamw\"", &format!("name = \"{optimizer}\""));
        if train(&bench, TEST, &file, device, "warn,wgpu_hal=off").is_none() {
            continue;
        }
        let record: serde_json::Value =
            serde_json::from_str(&bench.read(&format!("{device}/run.json"))).unwrap();
        let updated_by = record["computed"]["optimizer"]["parameters_updated_by"].as_object().unwrap();
        let count = |by: &str| updated_by.get(by).and_then(serde_json::Value::as_u64);
        // A block has four matrices; with embeddings and norms there are more parameters than these.
        let of_matrices = count("the optimizer, by the host's services");
        assert_eq!((updated_by.len(), of_matrices), (2, Some(4)), "{device}: {updated_by:?}");
        assert!(
            count("the optimizer's kernels").is_some_and(|others| others > 4),
            "{device}: {updated_by:?}"
        );
    }
}

/// Sums are added in a fixed order: without master weights, also those of the updates that rounding removes.
#[test]
fn equal_runs_on_a_device_have_equal_metrics() {
    const TEST: &str = "equal_runs_on_a_device_have_equal_metrics";
    let bench = Bench::new();
    let file = TINY.replace("weight = \"E5M2\"", "weight = \"E5M2\"\nmaster_weights = \"none\"");
    let file = format!("{file}\n[[sink]]\nname = \"csv\"\n");
    for device in gpu_devices() {
        let run = || train(&bench, TEST, &file, device, "warn,wgpu_hal=off").map(|_| rows(&bench, device));
        let Some(first) = run() else { continue };
        let lost = first.iter().flatten().find(|(name, _)| name == "update/rounding_loss");
        assert!(lost.is_some_and(|(_, value)| value.is_some()), "{device}");
        assert_eq!(Some(first), run(), "{device}");
    }
}

/// A checkpoint holds what counting remembers on the device: codes of the last steps, and the time without a gradient.
#[test]
fn a_resumed_run_on_a_device_has_the_metrics_of_an_uninterrupted_one() {
    const TEST: &str = "a_resumed_run_on_a_device_has_the_metrics_of_an_uninterrupted_one";
    let bench = Bench::new();
    for (device, master) in
        gpu_devices().into_iter().flat_map(|device| ["fp32", "none"].map(|kind| (device, kind)))
    {
        let file = TINY
            .replace("eval_interval = 2", "eval_interval = 3")
            .replace("weight = \"E5M2\"", &format!("weight = \"E5M2\"\nmaster_weights = \"{master}\""));
        let file = format!(
            "{file}\n[metrics]\ndead_neuron_window = 2\n[alerts]\ncooldown_s = 0\nnan_cooldown_s = 0\n[[sink]]\nname = \"csv\"\n"
        );
        let run = |args: &[&str]| train_with(&bench, TEST, &file, device, args, "warn,wgpu_hal=off");
        let [whole, parts] = ["whole", "parts"].map(|name| format!("{device}-{master}-{name}"));
        if run(&["--out", &whole]).is_none() {
            continue;
        }
        run(&["--out", &parts, "--max-steps", "3"]);
        run(&["--out", &parts, "--resume"]);
        assert_same_run(&bench, &whole, &parts);
        let layers = [&whole, &parts].map(|name| bench.read(&format!("{name}/layers.csv")));
        assert_eq!(layers[0], layers[1], "{whole}");
        // Both metrics are known from the third step on.
        let rows = rows(&bench, &parts);
        let oscillation =
            |row: &Row| row.iter().any(|(name, value)| name == "update/oscillation" && value.is_some());
        assert_eq!(
            [1, 2, 3, 4].map(|step: usize| oscillation(&rows[step])),
            [false, true, true, true],
            "{parts}"
        );
        let resumed = layers[1].lines().filter(|line| line.starts_with("3,"));
        assert!(resumed.filter(|line| line.contains("dead_persistent")).count() > 4, "{parts}");
    }
}

/// An ordinary step reads twice: its numbers before the update, and the counts of the update after it. Without master
/// weights it also reads the scales after the update, which the counts use.
#[test]
fn a_step_reads_back_its_numbers_and_its_counts_only() {
    const TEST: &str = "a_step_reads_back_its_numbers_and_its_counts_only";
    let bench = Bench::new();
    for (device, master) in
        gpu_devices().into_iter().flat_map(|device| ["fp32", "none"].map(|kind| (device, kind)))
    {
        let mut reads = Vec::new();
        for steps in [3, 6] {
            // A weight whose scale changes is read back: here none does.
            let quant = match master {
                "none" => "weight = \"E5M2\"\nmaster_weights = \"none\"\nstored_scale = { rule = \"fixed\" }",
                _ => "weight = \"E5M2\"",
            };
            let file = TINY
                .replace("max_steps = 6", &format!("max_steps = {steps}"))
                .replace("eval_interval = 2", "eval_interval = 0")
                .replace("weight = \"E5M2\"", quant);
            let file = format!("{file}\n[metrics]\nhistograms_every = 0\n");
            let Some(outcome) = train(&bench, TEST, &file, device, "altgrad_engine=debug,wgpu_hal=off")
            else {
                break;
            };
            reads.push(outcome.stderr.lines().filter(|line| line.contains("read back: ")).count());
        }
        if let [three, six] = reads[..] {
            let per_step = if master == "none" { 3 } else { 2 };
            let what = format!("{device}, master weights {master}");
            assert_eq!(six - three, 3 * per_step, "{what}: {three} and {six} readings");
        }
    }
}
