//! A drawing as HTML: marks in an SVG element that fills its space, labels as text beside it.

use std::fmt::Write as _;

use super::{Plot, axis::Kind, escape, marks};

/// The drawing. `words` is its text alternative.
pub(crate) fn html(plot: &Plot, words: &str) -> String {
    let names = matches!(plot.y.kind, Kind::Names(_));
    let mut text = format!(
        "<div class=\"plot{}\" style=\"--h:{}px\"><div class=\"ys\">",
        if names { " names" } else { "" },
        plot.height
    );
    let ticks = plot.y.ticks();
    // Labels lie at places of their own; the widest one makes the column as wide as it needs to be.
    let widest = ticks.iter().map(|(_, label)| label.as_str()).max_by_key(|label| label.chars().count());
    let _ = write!(text, "<b aria-hidden=\"true\">{}</b>", escape(widest.unwrap_or_default()));
    for (place, label) in ticks.iter().filter(|(_, label)| !label.is_empty()) {
        let label = escape(label);
        let _ =
            write!(text, "<span style=\"top:{:.2}%\" title=\"{label}\">{label}</span>", 100.0 - place / 10.0);
    }
    let _ = write!(
        text,
        "</div><div class=\"area\"><svg viewBox=\"0 0 1000 1000\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\"{}>{}</svg>",
        escape(words),
        axes(plot),
        marks::all(plot)
    );
    for (x, y, label) in &plot.texts {
        if let Some((x, y)) = plot.x.place(*x).zip(plot.y.place(*y)) {
            let anchor = if x < 100.0 {
                "start"
            } else if x > 900.0 {
                "end"
            } else {
                "middle"
            };
            let _ = write!(
                text,
                "<span class=\"{anchor}\" style=\"left:{:.1}%;top:{:.1}%\">{}</span>",
                x / 10.0,
                100.0 - y / 10.0,
                escape(label)
            );
        }
    }
    text.push_str("</div><div class=\"xs\">");
    for (place, label) in plot.x.ticks().into_iter().filter(|(_, label)| !label.is_empty()) {
        let _ = write!(text, "<span style=\"left:{:.2}%\">{}</span>", place / 10.0, escape(&label));
    }
    let (x, y) = (escape(&plot.x.title), escape(&plot.y.title));
    let title = if y.is_empty() || names { x } else { format!("{y} over {x}") };
    let _ = write!(text, "</div><p class=\"axes\">{title}</p></div>");
    text
}

/// The axes for scripts, which turn places back into values.
fn axes(plot: &Plot) -> String {
    let one = |name: &str, axis: &super::Axis| {
        let kind = match &axis.kind {
            Kind::Linear => "linear",
            Kind::Log => "log",
            Kind::Names(_) => "names",
        };
        format!(
            " data-{name}=\"{kind} {} {}\" data-{name}-title=\"{}\"",
            axis.range[0],
            axis.range[1],
            escape(&axis.title)
        )
    };
    one("x", &plot.x) + &one("y", &plot.y)
}
