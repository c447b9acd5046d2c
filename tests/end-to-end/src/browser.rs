//! A page in a headless chromium, and its visible content.
//!
//! The page is in a frame of the requested width, because windows have a minimum, and a script in the copy of the page
//! inspects it once its charts are drawn. The script's answer leaves the browser in the dumped document. The page's own
//! policy applies: the script's checksum is added to it, and refusals by the policy are among the errors.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Runs before anything else of the page: records errors.
const LISTEN: &str = r#"<script>
window.seen = [];
addEventListener("error", (event) => seen.push(String(event.message)));
addEventListener("unhandledrejection", (event) => seen.push(String(event.reason)));
addEventListener("securitypolicyviolation", (event) => seen.push(`refused by ${event.effectiveDirective}: ${event.blockedURI}`));
for (const kind of ["error", "warn"]) {
  const own = console[kind];
  console[kind] = (...words) => { seen.push(words.join(" ")); own.apply(console, words); };
}
</script>"#;

/// Runs last: waits for the charts, then looks.
const LOOK: &str = r#"
(async () => {
  const root = document.documentElement;
  for (let i = 0; i < 600 && !root.dataset.drawn; i++) await new Promise((resolve) => setTimeout(resolve, 100));
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
  const answer = {
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
  parent.postMessage(JSON.stringify(answer), "*");
})();
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

/// Opens a page at a width in CSS pixels, in light or dark, and returns its visible content.
///
/// # Panics
/// The browser does not start, or the page never answers.
#[must_use]
pub fn visit(chromium: &Path, page: &Path, width: u32, dark: bool) -> Value {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let html = fs::read_to_string(page).expect("the page");
    // The first head and the last body: scripts of the page hold such words too.
    let (head, rest) = html.split_once("<head>").expect("a head");
    let (body, end) = rest.rsplit_once("</body>").expect("a body");
    let sum = BASE64_STANDARD.encode(Sha256::digest(LOOK));
    let body = body.replacen("script-src ", &format!("script-src 'sha256-{sum}' "), 1);
    let copy = folder.path().join("page.html");
    fs::write(&copy, format!("{head}<head>{LISTEN}{body}<script>{LOOK}</script></body>{end}"))
        .expect("a copy");
    let frame = format!(
        r#"<!doctype html><body style="margin:0"><iframe src="page.html" style="border:0;width:{width}px;height:3000px"></iframe>
<script>addEventListener("message", (event) => {{
  const answer = document.createElement("pre");
  answer.id = "answer";
  answer.textContent = event.data;
  document.body.replaceChildren(answer);
}});</script>"#
    );
    let outer = folder.path().join("frame.html");
    fs::write(&outer, frame).expect("a frame");
    let output = Command::new(chromium)
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--dump-dom",
            "--virtual-time-budget=120000",
        ])
        .arg("--allow-file-access-from-files")
        .arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!dark)))
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("--window-size={},3000", width.max(500)))
        .arg(format!("file://{}", outer.display()))
        .output()
        .expect("chromium starts");
    let dom = String::from_utf8_lossy(&output.stdout);
    let answer = dom.split_once("<pre id=\"answer\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    let Some((answer, _)) = answer else {
        panic!("the page never answered: {}", String::from_utf8_lossy(&output.stderr));
    };
    let answer =
        answer.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").replace("&nbsp;", " ");
    serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"))
}
