//! The controls of the report's page in a browser: axes, smoothing, heat maps of any metric, search, print.

use std::path::PathBuf;

use altgrad_end_to_end::{Bench, TINY, browser, devtools::Browser, skipped};
use serde_json::Value;

/// The mean line of a chart as values: x and y of every point.
const LINE: &str = "((id) => {
  const svg = document.querySelector(`#card-${id} .area svg`);
  const value = (axis, place) => {
    const [kind, low, high] = axis.split(' ').map((part, index) => (index ? Number(part) : part));
    return kind === 'log' ? low * (high / low) ** (place / 1000) : low + (high - low) * place / 1000;
  };
  const points = svg.querySelector('.s:not(.single) .line').getAttribute('d').match(/[ML]-?[\\d.]+ -?[\\d.]+/g);
  return points.map((point) => point.slice(1).split(' ').map(Number)).map(([x, y]) => [value(svg.dataset.x, x), value(svg.dataset.y, 1000 - y)]);
})";

/// A run with every metric and its twin in fp32.
fn page(bench: &Bench) -> String {
    let more =
        "[shadow]\nevery = 1\n[metrics]\nhistograms_every = 2\nrank_every = 2\n[[sink]]\nname = \"csv\"\n";
    bench.write("tiny.toml", &format!("{TINY}{more}"));
    for format in ["none", "E4M3"] {
        let (out, weight) = (format!("runs/{format}"), format!("quant.weight={format}"));
        let outcome = bench.host(&["run", "tiny.toml", "--quiet", "--out", &out, "--set", &weight]);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    }
    let outcome = bench.host(&["report", "runs", "--out", "r.html"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    format!("file://{}", bench.path("r.html").display())
}

fn line(page: &mut Browser, chart: &str) -> Vec<[f64; 2]> {
    serde_json::from_value(page.value(&format!("{LINE}('{chart}')"))).unwrap()
}

/// Sets a control as a user does.
fn set(page: &mut Browser, id: &str, property: &str, value: Value) {
    let _ = page.value(&format!(
        "(() => {{ const control = document.getElementById('{id}'); control.{property} = {value}; \
         control.dispatchEvent(new Event('change', {{ bubbles: true }})); control.dispatchEvent(new Event('input', {{ bubbles: true }})); }})()"
    ));
}

fn close(found: &[[f64; 2]], expected: &[[f64; 2]], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
        // Places have a tenth of a thousandth of the axis.
        assert!((found - expected).abs() < 2e-3 * expected.abs().max(1.0), "{what}: {found}, {expected}");
    }
}

#[test]
#[ignore = "--all: a browser"]
fn axes_and_smoothing_place_the_same_values() {
    const NAME: &str = "axes_and_smoothing_place_the_same_values";
    let Some(chromium) = browser::chromium() else { return skipped(NAME, "no chromium is installed") };
    let bench = Bench::new();
    let address = page(&bench);
    let mut page = Browser::start(&chromium);
    page.resize(1280, 900);
    let _ = page.open(&address);
    let plain = line(&mut page, "train_loss");
    assert_eq!(plain.len(), 6);
    set(&mut page, "log", "checked", true.into());
    close(&line(&mut page, "train_loss"), &plain, "log");
    assert!(
        page.value("document.querySelector('#card-train_loss .area svg').dataset.y")
            .as_str()
            .unwrap()
            .starts_with("log")
    );
    assert!(
        page.value("document.querySelectorAll('#card-train_loss .ys span').length").as_u64().unwrap() > 0
    );
    // A step of TINY has two sequences of eight tokens.
    set(&mut page, "tokens", "checked", true.into());
    let tokens: Vec<[f64; 2]> = plain.iter().map(|[x, y]| [16.0 * x, *y]).collect();
    close(&line(&mut page, "train_loss"), &tokens, "tokens");
    assert_eq!(
        page.value("document.querySelector('#card-train_loss .axes').textContent"),
        "nats per token over tokens"
    );
    set(&mut page, "log", "checked", false.into());
    set(&mut page, "tokens", "checked", false.into());
    close(&line(&mut page, "train_loss"), &plain, "as before");
    set(&mut page, "smooth", "value", "0.5".into());
    let mut past = plain[0][1];
    let smooth: Vec<[f64; 2]> = plain
        .iter()
        .map(|[x, y]| {
            past = 0.5 * past + 0.5 * y;
            [*x, past]
        })
        .collect();
    close(&line(&mut page, "train_loss"), &smooth, "smooth");
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
#[ignore = "--all: a browser"]
fn heat_maps_show_any_metric_and_search_finds_it() {
    const NAME: &str = "heat_maps_show_any_metric_and_search_finds_it";
    let Some(chromium) = browser::chromium() else { return skipped(NAME, "no chromium is installed") };
    let bench = Bench::new();
    let address = page(&bench);
    let mut page = Browser::start(&chromium);
    page.resize(390, 900);
    let _ = page.open(&address);
    let metrics: Vec<String> = serde_json::from_value(
        page.value("[...document.querySelectorAll('.metric option')].map((option) => option.value)"),
    )
    .unwrap();
    for metric in ["grad_cos_sim", "quant/weight/sqnr_db", "grad_norm_l2", "quant/weight/kurtosis"] {
        assert!(metrics.iter().any(|name| name == metric), "{metric} is not among {metrics:?}");
    }
    set(&mut page, "search", "value", "weight/kurtosis".into());
    assert_eq!(page.value("document.querySelector('.metric select').value"), "quant/weight/kurtosis");
    assert_eq!(
        page.value("document.querySelector('#card-maps .scale i').textContent"),
        "quant/weight/kurtosis"
    );
    assert_eq!(page.value("document.querySelectorAll('.card:not(.off)').length"), 1);
    // The picture that the page draws, from the same steps of colour as the map's value.
    let drawn = page.value("document.querySelectorAll('#card-maps .map:not(.off) image').length");
    assert!(drawn.as_u64().unwrap() >= 1, "{drawn}");
    assert_eq!(page.value("document.documentElement.scrollWidth"), 390);
    set(&mut page, "search", "value", "".into());
    for media in ["screen", "print"] {
        page.media(media, "dark");
        if let Some(folder) = std::env::var_os("ALTGRAD_KEEP") {
            page.picture(&PathBuf::from(folder).join(format!("controls-{media}.png")));
        }
    }
    let shown = page.value("getComputedStyle(document.getElementById('look')).display");
    assert_eq!(shown, "none", "controls are not printed");
    assert_eq!(page.complaints(), Vec::<String>::new());
}
