//! Figures of `results/`: the committed losses give the committed pictures. `ALTGRAD_BLESS=1` writes the pictures.

use std::{fmt::Write as _, fs, path::Path};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    compare::{Choice, Comparison, named},
    find::find,
    group::groups,
    page,
};

/// The rows of a file of `results/`, without its heading.
fn records<const N: usize>(file: &str) -> Vec<[String; N]> {
    let text = fs::read_to_string(results(file)).unwrap();
    let cells = |line: &str| line.split(',').map(str::to_string).collect::<Vec<_>>().try_into().unwrap();
    text.lines().skip(1).map(cells).collect()
}

fn results(file: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results").join(file)
}

/// A completed run of 200 steps in a folder of its own.
fn finished_run(folder: &Path, name: &str, config: &str, loss: &str, computed: Value) {
    let path = folder.join(name);
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("config.toml"), config).unwrap();
    fs::write(path.join("metrics.csv"), "step,train/loss,val/loss\n0,5.5,5.6\n").unwrap();
    let status = json!({
        "name": name, "status": "completed", "steps": 200, "final_val_loss": loss.parse::<f64>().unwrap(),
        "computed": computed,
    });
    fs::write(path.join("run.json"), status.to_string()).unwrap();
}

/// The picture and the values of a chart over the runs of a folder. The picture must be the committed one.
fn figure(folder: &Path, chart: &str, baseline: &str, view: &page::View, file: &str) -> [String; 2] {
    let found = find(&[folder.to_path_buf()]);
    let groups = groups(&found.runs);
    let baseline = named(&found.runs, &groups, baseline);
    assert!(baseline.is_some());
    let comparison = Comparison::new(&found.runs, &groups, Choice { baseline, ..Choice::default() });
    let source =
        page::PageInput { title: "t", found: &found, groups: &groups, comparison: &comparison, view };
    let charts = source.charts();
    let (_, svg, csv) = charts.iter().find(|(name, ..)| name == chart).unwrap();
    let path = results(file);
    if std::env::var_os("ALTGRAD_BLESS").is_some() {
        fs::write(&path, svg).unwrap();
    }
    let is_same = fs::read_to_string(&path).unwrap_or_default() == *svg;
    assert!(is_same, "ALTGRAD_BLESS=1 writes {}", path.display());
    [svg.clone(), csv.clone()]
}

/// The layer of each layer type of a model of one block, by its name in the records.
const SITES: [(&str, &str); 5] = [
    ("qkv", "h.0.attn.c_attn.weight"),
    ("attention_output", "h.0.attn.c_proj.weight"),
    ("mlp_up", "h.0.mlp.c_fc.weight"),
    ("mlp_down", "h.0.mlp.c_proj.weight"),
    ("head", "wte.weight"),
];

/// A finished run that rounds `role` in the layer type `site`: `together` for all roles, `all` for all layer types.
fn site_run(folder: &Path, [format, role, site, seed, loss]: &[String; 5]) {
    let name = format!("{format}_{role}_{site}_{seed}");
    let mut quant = String::new();
    let mut layers = Vec::new();
    for role_key in ["weight", "activation", "grad"].iter().filter(|key| role == "together" || role == *key) {
        writeln!(quant, "{role_key} = {format:?}").unwrap();
    }
    let precision = if role == "none" { format } else { "fp32" };
    for (own, layer) in SITES {
        let cast = |key: &str| match (role == "together" || role == key) && (site == "all" || site == own) {
            true => json!({ "format": format, "bits_per_value": 8 }),
            false => json!("f32"),
        };
        layers.push(json!({ "layers": [layer], "weight": cast("weight"), "activation": cast("activation"), "grad": cast("grad") }));
    }
    let config = format!(
        "[run]\nname = {name:?}\nseed = {seed}\n[quant]\nexclude = [\"not {site}\"]\n{quant}[train]\nmax_steps = 200\nprecision = {precision:?}\n"
    );
    finished_run(folder, &name, &config, loss, json!({ "linear_layers": layers }));
}

#[test]
fn the_map_of_sensitivity_is_that_of_its_losses() {
    let folder = TempDir::new().unwrap();
    records("where/losses.csv").iter().for_each(|record| site_run(folder.path(), record));
    let [svg, csv] = figure(folder.path(), "sensitivity", "fp32", &page::View::default(), "where/sites.svg");
    // The cell that the tables of the page call significant, and one that they do not.
    assert!(svg.contains(">+0.8371*<") && svg.contains(">± 0.0586<"), "{svg:.2000}");
    assert!(svg.contains(">+0.0149<") && !svg.contains("+0.0149*"));
    assert!(csv.contains("head,gradients,0.837"), "{csv:.2000}");
}

#[test]
fn the_figure_of_recipes_is_that_of_their_losses() {
    let folder = TempDir::new().unwrap();
    for [recipe, seed, loss] in records("recipes/losses.csv") {
        let name = format!("{recipe}_{seed}");
        let quantity = match recipe.as_str() {
            "fp32" | "bf16" => format!("[train]\nprecision = {recipe:?}\n"),
            _ => format!("[quant]\nrecipe = {recipe:?}\n"),
        };
        let config = format!("[run]\nname = {name:?}\nseed = {seed}\n{quantity}");
        finished_run(folder.path(), &name, &config, &loss, Value::Null);
    }
    let [svg, csv] = figure(folder.path(), "forest", "fp32", &page::View::default(), "recipes/recipes.svg");
    assert!(svg.contains(">nvfp4<") && csv.lines().count() > 18, "{csv}");
}

/// Weights in each format with master weights, by optimizer. The baseline is AdamW in fp32.
#[test]
fn the_figure_of_optimizers_is_that_of_their_losses() {
    let folder = TempDir::new().unwrap();
    let mut runs = Vec::new();
    let records = records("optimizers/losses.csv");
    for [format, storage, optimizer, seed, loss] in &records {
        if !["fp32", "master"].contains(&storage.as_str()) {
            continue;
        }
        let name = format!("{optimizer}_{format}_{seed}");
        let weight = if format == "fp32" { "none" } else { format };
        let config = format!(
            "[run]\nname = {name:?}\nseed = {seed}\n[optimizer]\nname = {optimizer:?}\n[quant]\nweight = {weight:?}\n"
        );
        finished_run(folder.path(), &name, &config, loss, Value::Null);
        runs.push(
            json!({ "name": name, "axes": { "case": format!("{optimizer} · {format}"), "run.seed": seed } }),
        );
    }
    fs::write(folder.path().join("sweep.json"), json!({ "runs": runs }).to_string()).unwrap();
    let view = page::View { colour: Some("optimizer.name".into()), ..page::View::default() };
    let [svg, csv] = figure(folder.path(), "forest", "adamw · fp32", &view, "optimizers/optimizers.svg");
    assert!(svg.contains(">muon · E4M3<") && csv.contains("muon"), "{csv:.500}");
}

/// The held-out losses of the reference experiment by step, those of runs that have not ended included.
#[test]
fn the_curves_of_the_reference_experiment_are_those_of_its_record() {
    let folder = TempDir::new().unwrap();
    let mut rows = std::collections::BTreeMap::<String, String>::new();
    for [run, step, train, held_out, ..] in records::<7>("reference/steps.csv") {
        writeln!(rows.entry(run).or_default(), "{step},{train},{held_out}").unwrap();
    }
    for (run, rows) in &rows {
        let cast = match run.as_str() {
            "fp32" | "bf16" => format!("[train]\nprecision = {run:?}\n"),
            "per-layer" => "[quant]\nrecipe = \"hybrid\"\n".to_string(),
            _ => {
                let (forward, gradient) = run.split_once('-').unwrap_or((run, run));
                format!("[quant]\nweight = {forward:?}\nactivation = {forward:?}\ngrad = {gradient:?}\n")
            }
        };
        let path = folder.path().join(run);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("config.toml"), format!("[run]\nname = {run:?}\nseed = 42\n{cast}")).unwrap();
        fs::write(path.join("metrics.csv"), format!("step,train/loss,val/loss\n{rows}")).unwrap();
        let status = json!({ "name": run, "status": "interrupted" });
        fs::write(path.join("run.json"), status.to_string()).unwrap();
    }
    let view = page::View { log: true, ..page::View::default() };
    let [svg, csv] = figure(folder.path(), "val_loss", "bf16", &view, "reference/reference.svg");
    assert!(svg.contains(">bf16<") && svg.contains(">E5M2<"), "{csv:.500}");
}
