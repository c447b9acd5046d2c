//! Marks as SVG paths in the square of 1000 units.

use std::fmt::Write as _;

use super::{DASHES, Part, Plot, Rule, Series, axis::Kind, escape};

/// Everything within the area: grid, heat map, rules, series.
pub(super) fn all(plot: &Plot) -> String {
    let mut text = String::new();
    let mut grid = String::new();
    for (place, _) in plot.x.ticks() {
        let _ = write!(grid, "M{} 0V1000", unit(place));
    }
    if !matches!(plot.y.kind, Kind::Names(_)) || plot.picture.is_none() {
        for (place, _) in plot.y.ticks() {
            let _ = write!(grid, "M0 {}H1000", unit(1000.0 - place));
        }
    }
    let _ = write!(text, "<path class=\"grid\" d=\"{grid}\"/>");
    if let Some(picture) = &plot.picture {
        let _ = write!(text, "{}", picture.element(plot));
    }
    for rule in &plot.rules {
        let line = match rule {
            Rule::Vertical(x) => plot.x.place(*x).map(|x| format!("M{} 0V1000", unit(x))),
            Rule::Horizontal(y) => plot.y.place(*y).map(|y| format!("M0 {}H1000", unit(1000.0 - y))),
        };
        let _ = write!(text, "<path class=\"rule\" d=\"{}\"/>", line.unwrap_or_default());
    }
    plot.series.iter().for_each(|series| text.push_str(&of_series(plot, series)));
    text
}

fn of_series(plot: &Plot, series: &Series) -> String {
    let [light, dark] = &series.ink;
    let group = series.group.map_or(String::new(), |group| format!(" data-g=\"{group}\""));
    let class = if series.is_single { "s single" } else { "s" };
    let mut text = format!(
        "<g class=\"{class}\"{group} style=\"--l:{light};--d:{dark}\" data-name=\"{}\">",
        escape(&series.name)
    );
    for part in &series.parts {
        text.push_str(&of_part(plot, part, series.dash));
    }
    text.push_str("</g>");
    text
}

fn of_part(plot: &Plot, part: &Part, dash: usize) -> String {
    let at = |x: f64, y: f64| Some((unit(plot.x.place(x)?), unit(1000.0 - plot.y.place(y)?)));
    match part {
        Part::Line(points) => {
            let pattern = DASHES[dash % DASHES.len()];
            let dash =
                if pattern.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{pattern}\"") };
            format!("<path class=\"line\"{dash} d=\"{}\"/>", joined(points.iter().map(|[x, y]| at(*x, *y))))
        }
        Part::Band(points) => {
            let up = points.iter().map(|[x, _, high]| at(*x, *high));
            let down = points.iter().rev().map(|[x, low, _]| at(*x, *low));
            format!("<path class=\"band\" d=\"{}Z\"/>", joined(up.chain(down).filter(Option::is_some)))
        }
        Part::Dots(points) => {
            let dots = points.iter().filter_map(|([x, y], note)| {
                let (x, y) = at(*x, *y)?;
                let note =
                    if note.is_empty() { String::new() } else { format!(" data-note=\"{}\"", escape(note)) };
                Some(format!("<path class=\"dot\"{note} d=\"M{x} {y}h0\"/>"))
            });
            // Points without texts are one path.
            match points.iter().all(|(_, note)| note.is_empty()) {
                true => {
                    let all = points.iter().filter_map(|([x, y], _)| at(*x, *y));
                    let all: String = all.map(|(x, y)| format!("M{x} {y}h0")).collect();
                    format!("<path class=\"dot\" d=\"{all}\"/>")
                }
                false => dots.collect(),
            }
        }
        Part::Intervals(intervals) => {
            let one = |[y, low, high]: &[f64; 3]| {
                let ((from, y), (to, _)) = (at(*low, *y)?, at(*high, *y)?);
                Some(format!("M{from} {y}H{to}"))
            };
            format!("<path class=\"line\" d=\"{}\"/>", intervals.iter().filter_map(one).collect::<String>())
        }
    }
}

/// Points joined by lines, with a gap where one cannot be shown.
fn joined(points: impl Iterator<Item = Option<(String, String)>>) -> String {
    let mut text = String::new();
    let mut begins = true;
    for point in points {
        match point {
            Some((x, y)) => {
                let _ = write!(text, "{}{x} {y}", if begins { "M" } else { "L" });
                begins = false;
            }
            None => begins = true,
        }
    }
    text
}

/// A coordinate with one digit after the point.
fn unit(place: f64) -> String {
    let text = format!("{place:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_string)
}
