//! Use of the page's charts by a reader.

use std::{fmt::Write as _, fs, path::Path};

use altgrad_metrics::{
    Role, Statistic,
    families::{fidelity::GRAD_COS_SIM, rounding::SQNR_DB},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{compared, elements, rendered, run};
use crate::{
    compare::{Choice, Comparison},
    find::find,
    group::groups,
    page,
    series::Series,
};

/// The page of two formats with two seeds each.
fn page() -> String {
    let folder = TempDir::new().unwrap();
    let runs = [("a", "none", 1, 2.0), ("b", "none", 2, 2.1), ("c", "E4M3", 1, 2.2), ("d", "E4M3", 2, 2.3)];
    for (name, format, seed, loss) in runs {
        run(folder.path(), name, format, seed, loss);
    }
    let (found, groups, comparison) = compared(folder.path());
    rendered("t", &found, &groups, &comparison)
}

#[test]
fn every_drawn_chart_has_a_button_for_its_picture() {
    let page = page();
    let cards = elements(&page, "<figure class=\"card", "</figure>");
    assert!(cards.len() > 5);
    for card in cards {
        let (is_drawn, has_button) = (card.contains("class=\"plot"), card.contains("data-svg=\""));
        assert_eq!(is_drawn, has_button, "{card:.200}");
    }
    // The policy refuses handlers in attributes: the page's script listens.
    assert!(!page.contains(" onclick=") && page.contains("const pictureOf"));
}

#[test]
fn the_page_has_the_colours_and_lines_of_every_key() {
    let page = page();
    let data = elements(&page, "<script id=\"data\" type=\"application/json\">", "</script>")[0];
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    let looks = data["looks"].as_object().unwrap();
    for key in elements(&page, "<select id=\"colour\">", "</select>")[0].split("</option>") {
        let key = key.rsplit('>').next().unwrap();
        assert!(key.is_empty() || looks.contains_key(key), "{key}");
    }
    let format = &looks["format"];
    assert_eq!(format["colours"].as_array().unwrap().len(), 2);
    assert_ne!(format["colours"][0]["ink"], format["colours"][1]["ink"]);
    assert_ne!(format["lines"][0]["dash"], format["lines"][1]["dash"]);
    assert_ne!(format["lines"][0]["groups"], format["lines"][1]["groups"]);
}

/// The page's data for its script.
fn data(page: &str) -> Value {
    let data = elements(page, "<script id=\"data\" type=\"application/json\">", "</script>")[0];
    serde_json::from_str(data).unwrap()
}

/// Values of a layer over steps.
fn series(values: &[f64]) -> Series {
    let mut series = Series::new(24);
    (0..).zip(values).for_each(|(step, value)| series.add(step, *value));
    series
}

#[test]
fn heat_maps_of_a_metric_share_their_rows_and_scale() {
    let folder = TempDir::new().unwrap();
    for (name, format, seed) in [("a", "none", 1), ("b", "E4M3", 1), ("c", "E4M3", 2)] {
        run(folder.path(), name, format, seed, 2.0);
    }
    let (mut found, groups, comparison) = compared(folder.path());
    let cosines = [[1.0 - 1e-6, 1.0 - 1e-6], [0.99, 0.9], [0.97, 0.7]];
    for (run, cosines) in found.runs.iter_mut().zip(cosines) {
        let layers = [("h.0.mlp.c_fc.weight".to_string(), series(&cosines))];
        run.layers.insert(Statistic::new(&GRAD_COS_SIM), layers.into());
    }
    let sqnr = Statistic::new(&SQNR_DB).of_role(Role::Weight);
    let layers = [("h.0.mlp.c_fc.weight", [30.0, 20.0]), ("h.1.mlp.c_fc.weight", [25.0, 30.0])];
    let layers = layers.map(|(layer, values)| (layer.to_string(), series(&values)));
    found.runs[1].layers.insert(sqnr, layers.into());
    let page = rendered("t", &found, &groups, &comparison);
    let maps = &data(&page)["maps"];
    let names: Vec<&String> = maps["metrics"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["grad_cos_sim", "quant/weight/sqnr_db"]);
    let cells = |metric: &str, group: &str| {
        let text = maps["metrics"][metric]["cells"][group].as_str().unwrap();
        BASE64_STANDARD.decode(text).unwrap()
    };
    // One minus the cosine from 1e-6 to 0.2, the mean of 0.1 and 0.3: a place on the logarithm of 0.02 between them.
    let cosine = &maps["metrics"]["grad_cos_sim"];
    assert_eq!((&cosine["title"], &cosine["log"]), (&json!("1 - cosine"), &json!(true)));
    let [low, high] = [0, 1].map(|end| cosine["range"][end].as_f64().unwrap());
    assert!((low / 1e-6 - 1.0).abs() < 1e-6 && (high - 0.2).abs() < 1e-9, "{low}, {high}");
    let share = (0.02f64 / 1e-6).ln() / (0.2f64 / 1e-6).ln();
    let expected = (share * 254.0).round() as u8;
    assert_eq!((cells("grad_cos_sim", "0"), cells("grad_cos_sim", "1")), (vec![0, 0], vec![expected, 254]));
    // The other metric: two layers of one configuration, linear.
    assert_eq!(cells("quant/weight/sqnr_db", "1"), [254, 0, 127, 254]);
    assert_eq!(maps["metrics"]["quant/weight/sqnr_db"]["log"], false);
    assert!(maps["metrics"]["quant/weight/sqnr_db"]["cells"].get("0").is_none());
    let shown = elements(&page, "<div class=\"chart map\"", "</b>");
    assert_eq!(shown.len(), 2, "the first metric is drawn without a script");
    assert_eq!(maps["labels"], json!(["fp32", "E4M3 w"]));
}

/// The layers of each site of a model of one block.
const SITES: [(&str, &str); 5] = [
    ("qkv", "h.0.attn.c_attn.weight"),
    ("attention_output", "h.0.attn.c_proj.weight"),
    ("mlp_up", "h.0.mlp.c_fc.weight"),
    ("mlp_down", "h.0.mlp.c_proj.weight"),
    ("head", "wte.weight"),
];

/// A finished run that rounds `role` at `site`: `together` for all roles, `all` for all sites.
fn site_run(folder: &Path, [format, role, site, seed, loss]: [&str; 5]) {
    let name = format!("{format}_{role}_{site}_{seed}");
    let path = folder.join(&name);
    fs::create_dir_all(&path).unwrap();
    let mut quant = String::new();
    let mut layers = Vec::new();
    for role_key in ["weight", "activation", "grad"].iter().filter(|key| role == "together" || role == **key)
    {
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
    fs::write(path.join("config.toml"), config).unwrap();
    fs::write(path.join("metrics.csv"), "step,train/loss,val/loss\n0,5.5,5.6\n").unwrap();
    let status = json!({
        "name": name, "status": "completed", "steps": 200, "final_val_loss": loss.parse::<f64>().unwrap(),
        "computed": { "linear_layers": layers },
    });
    fs::write(path.join("run.json"), status.to_string()).unwrap();
}

/// The committed losses of `results/where` give its committed figure. `ALTGRAD_BLESS=1` writes the figure.
#[test]
fn the_figure_of_results_where_is_that_of_its_losses() {
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results/where");
    let folder = TempDir::new().unwrap();
    let losses = fs::read_to_string(results.join("losses.csv")).unwrap();
    for line in losses.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        site_run(folder.path(), cells.try_into().unwrap());
    }
    let found = find(&[folder.path().to_path_buf()]);
    let groups = groups(&found.runs);
    let comparison = Comparison::new(&found.runs, &groups, Choice::default());
    let view = page::View::default();
    let source =
        page::Source { title: "t", found: &found, groups: &groups, comparison: &comparison, view: &view };
    let charts = source.charts();
    let (_, svg, csv) = charts.iter().find(|(name, ..)| name == "sites").unwrap();
    // The cell that the tables of the page call significant, and one that they do not.
    assert!(svg.contains(">+0.8371*<") && svg.contains(">± 0.0586<"), "{svg:.2000}");
    assert!(svg.contains(">+0.0149<") && !svg.contains("+0.0149*"));
    assert!(csv.contains("head,gradients,0.837"), "{csv:.2000}");
    let path = results.join("sites.svg");
    if std::env::var_os("ALTGRAD_BLESS").is_some() {
        fs::write(&path, svg).unwrap();
    }
    assert!(
        fs::read_to_string(&path).unwrap_or_default() == *svg,
        "ALTGRAD_BLESS=1 writes {}",
        path.display()
    );
}
