//! Optimizers in the host. Those that know the weights' grids are told it, train on it, and leave other parameters to
//! AdamW; the others train at rates of their own.

use altgrad_end_to_end::{Bench, TINY, plugin};

/// Trains TINY for 60 steps with this optimizer table and these formats; training losses, and the weights' file.
fn train(bench: &Bench, optimizer: &str, quant: &str) -> (Vec<f64>, Vec<u8>) {
    let file = TINY
        .replace("max_steps = 6", "max_steps = 60")
        .replace("eval_interval = 2", "eval_interval = 0")
        .replace("name = \"adamw\"", optimizer)
        .replace("weight = \"E5M2\"", quant);
    bench.write("run.toml", &format!("{file}\n[[sink]]\nname = \"csv\"\n"));
    let _ = std::fs::remove_dir_all(bench.path("run"));
    let outcome = bench.host(&["run", "run.toml", "--quiet", "--out", "run"]);
    assert_eq!(outcome.code, 0, "{optimizer}: {}", outcome.stderr);
    let mut reader = csv::Reader::from_path(bench.path("run/metrics.csv")).unwrap();
    let column = reader.headers().unwrap().iter().position(|name| name == "train/loss").unwrap();
    let losses = reader.records().filter_map(|row| row.unwrap()[column].parse().ok()).collect();
    (losses, std::fs::read(bench.path("run/weights.safetensors")).unwrap())
}

#[test]
fn optimizers_train_on_the_weights_grid() {
    let bench = Bench::new();
    let grids = [
        "weight = \"E4M3\"\nscaling = { margin = 1 }",
        "weight = \"E4M3\"\nmaster_weights = \"none\"\nrounding = \"stochastic\"",
    ];
    for quant in grids {
        for optimizer in ["stiffness-adamw", "fp8-manifold"] {
            let table = format!("name = \"{optimizer}\"\nulp_per_lr = 400.0");
            let (losses, _) = train(&bench, &table, quant);
            let (first, last) = (losses[0], losses.last().unwrap());
            assert!(last < &(first - 0.5), "{optimizer} {quant}: {first} -> {last}");
        }
    }
}

/// Each at a rate of its own: they train, with master weights and without, to the same bits again.
#[test]
fn optimizers_without_a_grid_train() {
    let bench = Bench::new();
    let scales = [("sgd", 20.0), ("lion", 1.0), ("madam", 30.0), ("muon", 1.0), ("soap", 1.0)];
    let grids =
        ["weight = \"E4M3\"", "weight = \"E4M3\"\nmaster_weights = \"none\"\nrounding = \"stochastic\""];
    for quant in grids {
        for (optimizer, scale) in scales {
            let group = format!("[[optimizer.group]]\nmatch = \"*\"\nlr_scale = {scale:?}");
            let table = format!("name = \"{optimizer}\"\n{group}");
            let (losses, weights) = train(&bench, &table, quant);
            let (first, last) = (losses[0], losses.last().unwrap());
            assert!(last < &(first - 0.5), "{optimizer} {quant}: {first} -> {last}");
            assert!(train(&bench, &table, quant) == (losses, weights), "{optimizer} {quant}: other bits");
        }
    }
}

/// Products of matrices are the host's: on weights in fp32, and on weights that lie on a grid.
#[test]
fn muon_trains_with_the_hosts_services() {
    let bench = Bench::new();
    for library in [plugin("csv.so"), plugin("e4m3.so"), plugin("muon.so")] {
        bench.add_plugin(&library);
    }
    let grids =
        ["weight = \"E4M3\"", "weight = \"E4M3\"\nmaster_weights = \"none\"\nrounding = \"stochastic\""];
    for quant in grids {
        let quant = &format!("{quant}\n[plugins]\ndir = \"plugins\"");
        let (losses, weights) = train(&bench, "name = \"muon\"", quant);
        let (first, last) = (losses[0], losses.last().unwrap());
        assert!(last < &(first - 0.5), "{quant}: {first} -> {last}");
        let again = train(&bench, "name = \"muon\"", quant);
        assert!(again == (losses, weights), "{quant}: a run is reproducible to the bit");
    }
}

/// A weight that is transformed before it is rounded lies on no grid: an optimizer that depends on grids says that it
/// has none, and no metric of grids is listed.
#[test]
fn transformed_weights_have_no_grid() {
    const WARNING: &str = "transformed before they are rounded lie on none: it updates 5 of them";
    let bench = Bench::new();
    let plain = "weight = \"E4M3\"\nactivation = \"E4M3\"\n";
    let transformed = format!("{plain}transform = {{ hadamard = 8 }}");
    for (optimizer, quant, warns) in [
        ("stiffness-adamw", transformed.as_str(), true),
        ("fp8-manifold", transformed.as_str(), true),
        ("adamw", transformed.as_str(), false),
        ("stiffness-adamw", plain, false),
    ] {
        let file = TINY.replace("adamw", optimizer).replace("weight = \"E5M2\"", quant);
        bench.write("run.toml", &format!("{file}\n[[sink]]\nname = \"csv\"\n"));
        let out = format!("{optimizer}-{}", quant == plain);
        let outcome = bench.host(&["run", "run.toml", "--quiet", "--out", &out]);
        assert_eq!((outcome.code, outcome.stderr.contains(WARNING)), (0, warns), "{}", outcome.stderr);
        let metrics = bench.metrics(&out);
        for name in ["update/flip_rate", "update/movement_loss"] {
            assert_eq!(metrics.contains_key(name), quant == plain, "{optimizer}: {name}");
        }
    }
}

/// Without a format there is no grid, and all runs are bit-identical to AdamW.
#[test]
fn without_a_grid_they_are_adamw() {
    let bench = Bench::new();
    let adamw = train(&bench, "name = \"adamw\"\neps = 1e-8", "");
    for optimizer in ["stiffness-adamw", "fp8-manifold"] {
        let found = train(&bench, &format!("name = \"{optimizer}\"\neps = 1e-8"), "");
        assert!(found == adamw, "{optimizer}: {:?}, {:?}", found.0, adamw.0);
    }
    // On a grid they are not.
    let on_grid = "weight = \"E4M3\"";
    let (plain, _) = train(&bench, "name = \"adamw\"", on_grid);
    assert_ne!(train(&bench, "name = \"stiffness-adamw\"", on_grid).0, plain);
}
