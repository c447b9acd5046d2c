//! The alerts of all runs on one axis of steps.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Chart, Context, plain};
use crate::events::RecordedEvent;

/// Runs with a row; of more, those with the most alerts.
const MOST_ROWS: usize = 60;
/// Marks of a run.
const MOST_MARKS: usize = 200;

/// A mark for each kind, so that colour is not all that tells them apart.
const KINDS: [(&str, &str); 8] = [
    ("nan_loss", "x"),
    ("nan_grad", "cross"),
    ("divergence", "triangle-up"),
    ("bit_stall", "square"),
    ("overflow", "diamond"),
    ("underflow", "triangle-down"),
    ("code_saturation", "star"),
    ("kurtosis", "circle"),
];
const OTHER: &str = "hexagon";

pub(super) fn chart(context: &Context<'_>) -> Chart {
    let alerts = |run: usize| context.runs[run].events.iter().filter(|event| event.is_alert());
    let mut rows: Vec<usize> = (0..context.runs.len()).filter(|run| alerts(*run).next().is_some()).collect();
    rows.sort_by_key(|run| std::cmp::Reverse(alerts(*run).count()));
    rows.truncate(MOST_ROWS);
    rows.sort_unstable();
    rows.sort_by_key(|run| context.group_of[*run]);
    let mut by_kind: BTreeMap<&str, Vec<(usize, &RecordedEvent)>> = BTreeMap::new();
    for run in &rows {
        for event in alerts(*run).take(MOST_MARKS) {
            by_kind.entry(&event.kind).or_default().push((*run, event));
        }
    }
    let mut figures = BTreeMap::new();
    if !rows.is_empty() {
        let traces: Vec<Value> = by_kind.iter().map(|(kind, marks)| trace(context, kind, marks)).collect();
        let names: Vec<String> = rows.iter().map(|run| plain(&context.labels[*run])).collect();
        let layout = json!({
            "xaxis": { "title": { "text": "step" }, "rangemode": "tozero" },
            "yaxis": { "type": "category", "categoryarray": names, "autorange": "reversed", "dtick": 1 },
            "hovermode": "closest",
            "showlegend": true,
            "legend": { "orientation": "h", "y": 1, "yanchor": "bottom", "x": 0, "xanchor": "left" },
        });
        figures.insert("all".to_string(), json!({ "data": traces, "layout": layout }));
    }
    Chart {
        id: "alerts",
        title: "Alerts over time",
        caption: "When each run asked for a look. The cooldown of an alert keeps it from repeating; runs without a row had none.",
        needs: "`events.jsonl` in the run folder, and something to alert about: no run has an alert",
        names: ["step", "run", "alert"],
        height: rows.len() * 26 + 170,
        wide: true,
        figures,
    }
}

fn trace(context: &Context<'_>, kind: &str, marks: &[(usize, &RecordedEvent)]) -> Value {
    let symbol = KINDS.iter().find(|(known, _)| *known == kind).map_or(OTHER, |(_, symbol)| symbol);
    let serious = marks.iter().any(|(_, event)| event.level == "error");
    let text = |(_, event): &(usize, &RecordedEvent)| wrap(&plain(&event.text));
    json!({
        "type": "scatter",
        "mode": "markers",
        "name": plain(&kind.replace('_', " ")),
        "meta": { "tone": if serious { "error" } else { kind }, "label": kind },
        "x": marks.iter().map(|(_, event)| event.step).collect::<Vec<_>>(),
        "y": marks.iter().map(|(run, _)| plain(&context.labels[*run])).collect::<Vec<_>>(),
        "text": marks.iter().map(text).collect::<Vec<_>>(),
        "marker": { "size": 11, "symbol": symbol, "opacity": 0.85 },
        "hovertemplate": "%{y}, step %{x}<br>%{text}<extra></extra>",
    })
}

/// Lines that fit beside the mark.
fn wrap(text: &str) -> String {
    let mut line = 0;
    let words = text.split(' ').map(|word| {
        line += word.len() + 1;
        if line > 60 {
            line = word.len();
            format!("<br>{word}")
        } else {
            word.to_string()
        }
    });
    words.collect::<Vec<_>>().join(" ")
}
