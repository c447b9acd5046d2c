//! A drawing as an SVG file of its own, in the colours of a light page.

use std::fmt::Write as _;

use super::{DASHES, Kind, Picture, Plot, Series, escape, marks};

/// Pixels of the whole, and around the area; long names of rows widen both.
const WIDTH: f64 = 760.0;
const LEFT: f64 = 190.0;
/// Pixels of a character in the names of rows, which widen the space at the left.
const CHARACTER: f64 = 6.5;
const RIGHT: f64 = 20.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 52.0;
/// Lines of the key, below the area.
const KEY_LINE: f64 = 16.0;
/// The scale of a heat map, below it.
const SCALE: f64 = 40.0;

/// The marks' part of the page's style sheet, for a separate file.
const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#16191d}.t{font-weight:600;font-size:15px}path{fill:none;vector-effect:non-scaling-stroke}\
.grid{stroke:#e0e4e8}.rule{stroke:#555e68;stroke-dasharray:3 3}.s{--c:var(--l)}.line{stroke:var(--c);stroke-width:1.75}\
.band{fill:var(--c);opacity:.18}.dot{stroke:var(--c);stroke-width:7;stroke-linecap:round}.single{display:none}image{image-rendering:pixelated}";

/// The file's text.
pub(crate) fn svg(plot: &Plot, title: &str) -> String {
    // A row's name says which series it is.
    let is_row = |name: &String| matches!(&plot.y.kind, Kind::Names(rows) if rows.contains(name));
    let is_in_key = |series: &&Series| !series.is_single && !series.name.is_empty() && !is_row(&series.name);
    let named: Vec<_> = plot.series.iter().filter(is_in_key).collect();
    let key = named.len() as f64 * KEY_LINE + if plot.picture.is_some() { SCALE } else { 0.0 };
    let (width, height) = (WIDTH - LEFT - RIGHT, plot.height as f64);
    let longest = plot.y.ticks().iter().map(|(_, name)| name.chars().count()).max().unwrap_or(0);
    let left = LEFT.max(longest as f64 * CHARACTER + 16.0);
    let whole = left + width + RIGHT;
    let all = TOP + height + BOTTOM + key;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{whole}\" height=\"{all}\" viewBox=\"0 0 {whole} {all}\"><style>{STYLE}</style>\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/><text class=\"t\" x=\"16\" y=\"26\">{}</text>\
         <svg x=\"{left}\" y=\"{TOP}\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 1000 1000\" preserveAspectRatio=\"none\">{}</svg>",
        escape(title),
        marks::all(plot)
    );
    let mut label = |x: f64, y: f64, anchor: &str, label: &str| {
        let _ =
            write!(text, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>", escape(label));
    };
    for (place, name) in plot.y.ticks() {
        label(left - 8.0, TOP + height * (1.0 - place / 1000.0) + 4.0, "end", &name);
    }
    for (place, name) in plot.x.ticks() {
        label(left + width * place / 1000.0, TOP + height + 18.0, "middle", &name);
    }
    for (x, y, name) in &plot.texts {
        if let Some((x, y)) = plot.x.place(*x).zip(plot.y.place(*y)) {
            label(left + width * x / 1000.0, TOP + height * (1.0 - y / 1000.0) + 4.0, "middle", name);
        }
    }
    label(left + width / 2.0, TOP + height + 38.0, "middle", &plot.x.title);
    label(left, TOP - 6.0, "start", &plot.y.title);
    if let Some(picture) = &plot.picture {
        let top = TOP + height + BOTTOM;
        label(left - 8.0, top + 10.0, "end", &picture.title);
        for (share, text) in &picture.scale {
            label(left + width * share, top + 26.0, "middle", text);
        }
        text.push_str(&scale(picture, [left, top], width));
    }
    for (index, series) in named.into_iter().enumerate() {
        let y = TOP + height + BOTTOM + index as f64 * KEY_LINE;
        let _ = write!(
            text,
            "<path d=\"M{left} {:.0}h28\" stroke=\"{}\" stroke-width=\"3\" stroke-dasharray=\"{}\"/><text x=\"{:.0}\" y=\"{:.0}\">{}</text>",
            y - 4.0,
            series.ink[0],
            DASHES[series.dash % DASHES.len()],
            left + 36.0,
            y,
            escape(&series.name)
        );
    }
    text.push_str("</svg>\n");
    text
}

/// The colours of a heat map from low to high.
fn scale(picture: &Picture, [left, top]: [f64; 2], width: f64) -> String {
    let stops = picture.palette.stops();
    let last = stops.len().saturating_sub(1).max(1) as f64;
    let stop = |(index, colour): (usize, &String)| {
        format!("<stop offset=\"{}\" stop-color=\"{colour}\"/>", index as f64 / last)
    };
    let stops: String = stops.iter().enumerate().map(stop).collect();
    format!(
        "<linearGradient id=\"scale\">{stops}</linearGradient>\
         <rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"10\" fill=\"url(#scale)\"/>"
    )
}

#[cfg(test)]
mod tests {
    use super::{super::Axis, *};

    #[test]
    fn the_space_at_the_left_holds_the_longest_name_of_a_row() {
        let width = |name: &str| {
            let plot = Plot {
                x: Axis::over("", Kind::Linear, [0.0, 1.0].into_iter()),
                y: Axis::over("", Kind::Names(vec![name.into()]), std::iter::empty()),
                series: Vec::new(),
                picture: None,
                rules: Vec::new(),
                texts: Vec::new(),
                height: 40,
            };
            let text = svg(&plot, "title");
            text.split("width=\"").nth(1).unwrap().split('"').next().unwrap().parse::<f64>().unwrap()
        };
        assert_eq!(width("fp32"), WIDTH);
        // 72 characters are the longest label.
        assert_eq!(width(&"x".repeat(72)), WIDTH - LEFT + 72.0 * CHARACTER + 16.0);
    }
}
