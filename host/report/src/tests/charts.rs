//! Use of the page's charts by a reader.

use altgrad_metrics::{
    Role, Statistic,
    families::{fidelity::GRAD_COS_SIM, rounding::SQNR_DB},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{compared, elements, rendered, run};
use crate::series::Series;

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
