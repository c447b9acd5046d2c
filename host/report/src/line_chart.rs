//! A chart of one line as an SVG file, for commands that draw no runs.

use super::draw::{Axis, Kind, Part, Plot, Series, svg::svg};

/// Pixels of the area.
const HEIGHT: usize = 320;

/// The file's text. `axes` are the titles of x and y, both linear.
#[must_use]
pub fn line_chart(title: &str, [x, y]: [&str; 2], points: &[[f64; 2]]) -> String {
    let axis = |title: &str, at: usize| Axis::over(title, Kind::Linear, points.iter().map(|point| point[at]));
    // One line needs no name in a key.
    let line = Series {
        name: String::new(),
        group: None,
        is_single: false,
        ink: ["#c00000".into(), "#ff8080".into()],
        dash: 0,
        parts: vec![Part::Line(points.to_vec())],
    };
    let plot = Plot {
        x: axis(x, 0),
        y: axis(y, 1),
        series: vec![line],
        picture: None,
        rules: Vec::new(),
        texts: Vec::new(),
        height: HEIGHT,
    };
    svg(&plot, title)
}

#[cfg(test)]
mod tests {
    use super::line_chart;

    #[test]
    fn a_line_has_its_axes_and_its_points() {
        let text = line_chart("E4M3", ["log2 |w|", "log2 spacing"], &[[0.0, 0.0], [1.0, 2.0]]);
        assert!(text.starts_with("<svg") && text.contains(">log2 |w|</text>"), "{text}");
        assert_eq!(text.matches("class=\"line\"").count(), 1);
    }
}
