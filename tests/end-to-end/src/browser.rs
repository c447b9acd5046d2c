//! The visible content of a page in a headless chromium.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::devtools::Browser;

/// Runs before anything else of the page: records errors.
const LISTEN: &str = r#"
window.seen = [];
addEventListener("error", (event) => seen.push(String(event.message)));
addEventListener("unhandledrejection", (event) => seen.push(String(event.reason)));
addEventListener("securitypolicyviolation", (event) => seen.push(`refused by ${event.effectiveDirective}: ${event.blockedURI}`));
for (const kind of ["error", "warn"]) {
  const own = console[kind];
  console[kind] = (...words) => { seen.push(words.join(" ")); own.apply(console, words); };
}
"#;

/// Looks, once the charts are drawn.
const LOOK: &str = r#"
(async () => {
  const root = document.documentElement;
  await new Promise((resolve) => setTimeout(resolve, 500));
  const channels = (colour) => (colour.match(/[\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = channels(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] > 0.9) return colour;
    }
    return [255, 255, 255];
  };
  let smallest = [Infinity, ""], contrast = [Infinity, ""];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data).join("").trim();
    if (!own || ["SCRIPT", "STYLE", "NOSCRIPT"].includes(element.tagName) || !element.getClientRects().length) continue;
    const style = getComputedStyle(element), size = parseFloat(style.fontSize);
    if (size < smallest[0]) smallest = [size, own];
    const svg = element.closest("svg");
    if (svg && style.fillOpacity === "0") continue;
    const [a, b] = [light(channels(svg ? style.fill : style.color)), light(ground(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < contrast[0]) contrast = [ratio, own];
  }
  const charts = [...document.querySelectorAll(".chart")];
  const marks = ".area path.line, .area path.dot, .area image";
  return {
    errors: seen,
    title: document.querySelector("h1").textContent,
    width: innerWidth,
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
    scroll_width: root.scrollWidth,
    charts: charts.length,
    drawn: charts.filter((chart) => chart.querySelector("svg")).length,
    empty: charts.filter((chart) => !chart.hidden && !chart.querySelector(marks)).map((chart) => chart.dataset.chart),
    cut: [...document.querySelectorAll("[id='card-forest'] .ys span")].filter((label) => label.scrollWidth > label.clientWidth).map((label) => label.textContent),
    smallest_px: smallest[0],
    smallest: smallest[1],
    least_contrast: contrast[0],
    contrast_of: contrast[1],
    requests: performance.getEntriesByType("resource").filter((entry) => !/^(data|blob):/.test(entry.name)).length,
    text: document.body.innerText,
  };
})()
"#;

/// The browser, if there is one.
#[must_use]
pub fn chromium() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome", "chrome"];
    std::env::split_paths(&folders)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|path| path.is_file())
}

/// Opens a page at a width in CSS pixels, in light or dark, and returns its visible content. Errors are part of it, and
/// what the page's policy refused.
///
/// # Panics
/// The browser does not start, or the page never draws its charts.
#[must_use]
pub fn visit(chromium: &Path, page: &Path, width: u32, dark: bool) -> Value {
    let mut browser = Browser::start(chromium);
    browser.resize(width, 3000);
    browser.media("screen", if dark { "dark" } else { "light" });
    let _ = browser.call("Page.addScriptToEvaluateOnNewDocument", json!({ "source": LISTEN }));
    let _ = browser.open(&format!("file://{}", page.display()));
    browser.value(LOOK)
}
