//! Drawings: axes and marks as numbers, written as HTML that fits any width or as an SVG file.
//!
//! Marks lie in a square of 1000 by 1000 units that is stretched to the room there is; strokes and dots keep their size
//! (`vector-effect`). Labels are text beside it. [`html`] and [`svg`] write the same drawing, [`axis`] places values
//! and chooses labels, [`marks`] writes paths, [`picture`] makes heat maps.

pub(crate) mod axis;
pub(crate) mod csv;
pub(crate) mod html;
mod marks;
pub(crate) mod picture;
pub(crate) mod svg;

pub(crate) use axis::{Axis, Kind};
pub(crate) use picture::{Palette, Picture};

/// One drawing.
#[derive(Debug, Clone)]
pub(crate) struct Plot {
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
    /// A heat map below all else.
    pub picture: Option<Picture>,
    /// Lines across the whole area.
    pub rules: Vec<Rule>,
    /// Texts at places of the area: x, y, text.
    pub texts: Vec<(f64, f64, String)>,
    /// Pixels of the area.
    pub height: usize,
}

/// Marks of one colour.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    /// Its name.
    pub name: String,
    /// The configuration it belongs to, if it does to one.
    pub group: Option<usize>,
    /// True if it is one run beside the mean of all.
    pub is_single: bool,
    /// Colour in light and in dark, `#rrggbb`.
    pub ink: [String; 2],
    /// Number of the line's pattern.
    pub dash: usize,
    pub parts: Vec<Part>,
}

/// The marks of a chart.
#[derive(Debug, Clone)]
pub(crate) enum Part {
    /// Points joined by lines.
    Line(Vec<[f64; 2]>),
    /// The area between two curves: x, low, high.
    Band(Vec<[f64; 3]>),
    /// Points, each with a text of its own where there is one.
    Dots(Vec<([f64; 2], String)>),
    /// Horizontal intervals: y, low, high.
    Intervals(Vec<[f64; 3]>),
}

/// A line across the area.
#[derive(Debug, Clone)]
pub(crate) enum Rule {
    /// At this x.
    Vertical(f64),
    /// At this y.
    Horizontal(f64),
}

/// Patterns of lines: lengths of strokes and gaps in pixels.
pub(crate) const DASHES: [&str; 6] = ["", "9 5", "2 4", "9 4 2 4", "14 5", "14 4 2 4"];

/// Text that is put into HTML or SVG.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            letter if letter.is_control() => escaped.push('\u{fffd}'),
            letter => escaped.push(letter),
        }
    }
    escaped
}
