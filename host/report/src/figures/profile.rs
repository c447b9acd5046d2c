//! Parallel coordinates: every configuration as one line through all of its measures.
//!
//! Made of scatter lines, because plotly's own kind needs WebGL. Axes lie one below the other, each with its own range
//! at its ends, so that names fit on any screen.

use std::collections::BTreeMap;

use altgrad_metrics::report::{self, ColumnFormat};
use serde_json::{Value, json};

use super::{Chart, Context, plain, short};
use crate::compare::Row;

/// A measure of configurations.
struct Axis {
    name: &'static str,
    /// Its number among the columns of metrics; `None` for the held-out loss.
    column: Option<usize>,
    is_share: bool,
}

impl Axis {
    fn value(&self, row: &Row) -> Option<f64> {
        self.column.map_or(row.loss.map(|loss| loss.mean), |column| row.metrics.0[column])
    }
}

/// The held-out loss and the metrics that have a column.
fn axes() -> Vec<Axis> {
    let loss = Axis { name: "held-out loss", column: None, is_share: false };
    let metrics = report::columns().into_iter().enumerate().map(|(index, (_, column))| Axis {
        name: column.head,
        column: Some(index),
        is_share: column.format == ColumnFormat::Percent,
    });
    std::iter::once(loss).chain(metrics).collect()
}

pub(super) fn chart(context: &Context<'_>) -> Chart {
    let rows = &context.comparison.rows;
    let measured = |axis: &Axis| rows.iter().filter(|row| axis.value(row).is_some()).count() > 1;
    let axes: Vec<Axis> = axes().into_iter().filter(measured).collect();
    let mut figures = BTreeMap::new();
    if axes.len() > 1 && rows.len() > 1 {
        figures.insert("all".to_string(), figure(context, &axes));
    }
    Chart {
        id: "profile",
        title: "Parallel coordinates",
        caption: "Each line is a configuration; each row a measure from its least (left) to its largest value (right). Lines that cross trade one measure for another. A gap is a measure that was not recorded.",
        needs: "two configurations with an evaluation",
        names: ["place on the axis, 0 to 1", "axis", ""],
        height: axes.len() * 78 + 40,
        wide: true,
        figures,
    }
}

fn figure(context: &Context<'_>, axes: &[Axis]) -> Value {
    let rows = &context.comparison.rows;
    let ranges: Vec<(f64, f64)> =
        axes.iter().map(|axis| range(rows.iter().filter_map(|row| axis.value(row)))).collect();
    let traces: Vec<Value> = rows.iter().map(|row| trace(context, row, axes, &ranges)).collect();
    let mut annotations = Vec::new();
    for (index, (Axis { name, is_share, .. }, (low, high))) in axes.iter().zip(&ranges).enumerate() {
        let note = |text: String, x: f64, anchor: &str| {
            json!({
                "x": x, "y": index, "yshift": 14, "text": text, "showarrow": false, "xanchor": anchor,
                "xref": "x", "yref": "y",
            })
        };
        annotations.push(note(format!("<b>{name}</b>"), 0.5, "center"));
        annotations.push(note(said(*low, *is_share), 0.0, "left"));
        annotations.push(note(said(*high, *is_share), 1.0, "right"));
    }
    json!({
        "data": traces,
        "layout": {
            "xaxis": { "range": [-0.02, 1.02], "visible": false, "fixedrange": true },
            "yaxis": {
                "range": [axes.len() as f64 - 0.6, -0.7], "tickvals": (0..axes.len()).collect::<Vec<_>>(),
                "showticklabels": false, "zeroline": false, "fixedrange": true,
            },
            "annotations": annotations,
            "hovermode": "closest",
            "margin": { "l": 8, "r": 8 },
        },
    })
}

fn trace(context: &Context<'_>, row: &Row, axes: &[Axis], ranges: &[(f64, f64)]) -> Value {
    let group = context.groups.iter().position(|group| group.label == row.label).unwrap_or(0);
    let place = |(axis, (low, high)): (&Axis, &(f64, f64))| {
        axis.value(row).map_or(Value::Null, |value| {
            if high > low { short((value - low) / (high - low)) } else { json!(0.5) }
        })
    };
    let told = |axis: &Axis| {
        axis.value(row).map_or(String::new(), |value| format!("{} {}", axis.name, said(value, axis.is_share)))
    };
    json!({
        "type": "scatter",
        "mode": "lines+markers",
        "name": plain(&row.label),
        "meta": context.meta(group, &row.label),
        "x": axes.iter().zip(ranges).map(place).collect::<Vec<_>>(),
        "y": (0..axes.len()).collect::<Vec<_>>(),
        "text": axes.iter().map(told).collect::<Vec<_>>(),
        "line": { "width": 1.75, "dash": context.dash(group), "shape": "linear" },
        "marker": { "size": 7 },
        "hovertemplate": "%{fullData.name}<br>%{text}<extra></extra>",
    })
}

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)))
}

fn said(value: f64, share: bool) -> String {
    match value {
        0.0 => "0".into(),
        _ if share && value < 1e-5 => format!("{value:.1e}"),
        _ if share => format!("{:.3} %", value * 100.0),
        value if value.abs() >= 100.0 => format!("{value:.0}"),
        value => format!("{value:.4}"),
    }
}
