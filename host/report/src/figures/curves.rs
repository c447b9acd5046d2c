//! Curves over steps, one a run.

use altgrad_metrics::{
    MetricDefinition,
    families::{
        fidelity::GRAD_COS_SIM,
        rounding::{OVERFLOW_RATE, SQNR_DB},
        training::{LOSS, VAL_LOSS},
        update_distances::ULP_ABS_P50,
        updates::BIT_STALL_RATE,
    },
};
use serde_json::{Value, json};

use super::{Chart, Context, MOST_POINTS, plain, short, shorts, switches};
use crate::{run::Run, series::Series};

/// Curves of more points than this are lines without marks.
const MARKED: usize = 40;

/// A chart of a metric.
struct Curve {
    section: &'static str,
    id: &'static str,
    title: &'static str,
    caption: &'static str,
    needs: &'static str,
    metric: &'static MetricDefinition,
    axis: &'static str,
    kind: AxisKind,
}

#[derive(Clone, Copy, PartialEq)]
enum AxisKind {
    Linear,
    Log,
    Share,
}

static CURVES: [Curve; 7] = [
    Curve {
        section: "loss",
        id: "val_loss",
        title: "Held-out loss",
        caption: "Mean cross-entropy over the same held-out windows in every run, before the step's update. Lower is better.",
        needs: "`[train] eval_interval`",
        metric: &VAL_LOSS,
        axis: "nats per token",
        kind: AxisKind::Linear,
    },
    Curve {
        section: "loss",
        id: "train_loss",
        title: "Training loss",
        caption: "Loss of each step's batch. Of long runs every bucket of steps keeps its least and largest value, so peaks survive.",
        needs: "a sink: `[[sink]] name = \"csv\"`",
        metric: &LOSS,
        axis: "nats per token",
        kind: AxisKind::Linear,
    },
    Curve {
        section: "fidelity",
        id: "cosine",
        title: "Gradient cosine over time",
        caption: "Cosine between the quantized gradient and the one in fp32 on the same batch and weights, all parameters together. 1 is the same direction.",
        needs: "`[shadow] every`",
        metric: &GRAD_COS_SIM,
        axis: "cosine",
        kind: AxisKind::Linear,
    },
    Curve {
        section: "fidelity",
        id: "sqnr",
        title: "Signal to rounding noise",
        caption: "Over everything that was rounded in the step, in dB; a significand bit is worth 6.02 dB.",
        needs: "a format in `[quant]`",
        metric: &SQNR_DB,
        axis: "dB",
        kind: AxisKind::Linear,
    },
    Curve {
        section: "updates",
        id: "stall",
        title: "Bit stall",
        caption: "Of the elements with a gradient, the share whose 8-bit code did not change in the step. With fp32 master weights a high share is normal: small steps add up there. Without, it is training that does not happen.",
        needs: "`[metrics] every` and `[quant] weight`",
        metric: &BIT_STALL_RATE,
        axis: "share of elements",
        kind: AxisKind::Share,
    },
    Curve {
        section: "updates",
        id: "ulp",
        title: "Median update in ULP",
        caption: "How far half of the elements move at least, in codes of their format. Below half a code, rounding to nearest undoes a step where there are no master weights.",
        needs: "`[metrics] every` and `[quant] weight`",
        metric: &ULP_ABS_P50,
        axis: "ULP",
        kind: AxisKind::Log,
    },
    Curve {
        section: "codes",
        id: "overflow",
        title: "Overflow",
        caption: "Share of the rounded elements beyond their format's largest value; they saturate.",
        needs: "a format in `[quant]`",
        metric: &OVERFLOW_RATE,
        axis: "share of elements",
        kind: AxisKind::Share,
    },
];

pub(super) fn all(context: &Context<'_>) -> Vec<(&'static str, Chart)> {
    CURVES.iter().map(|curve| (curve.section, chart(context, curve))).collect()
}

fn chart(context: &Context<'_>, curve: &Curve) -> Chart {
    let with = context.runs.iter().filter(|run| !points(run, curve.metric, 2).is_empty()).count();
    let budget = (MOST_POINTS / with.max(1)).clamp(40, 600);
    let traces: Vec<Value> =
        (0..context.runs.len()).filter_map(|run| trace(context, curve, run, budget)).collect();
    let mut figures = std::collections::BTreeMap::new();
    if !traces.is_empty() {
        let kind = if curve.kind == AxisKind::Log { "log" } else { "linear" };
        let format = if curve.kind == AxisKind::Share { ".2~p" } else { "" };
        let mut layout = json!({
            "xaxis": { "title": { "text": "step" } },
            "yaxis": { "title": { "text": curve.axis }, "type": kind, "tickformat": format },
        });
        if let Some(marks) = marks(context, curve) {
            layout["yaxis"]["tickvals"] = marks;
            layout["yaxis"]["tickformat"] = json!("~g");
        }
        if let Some((range, note)) = clipped(context, curve) {
            layout["yaxis"]["range"] = range;
            layout["annotations"] = json!([note]);
        }
        let shown = context.runs.iter().filter(|run| !points(run, curve.metric, 2).is_empty());
        let lines = switches::lines(shown.flat_map(|run| &run.events));
        if !lines.is_empty() {
            layout["shapes"] = lines.into();
        }
        figures.insert("all".to_string(), json!({ "data": traces, "layout": layout }));
    }
    let (id, title, caption, needs) = (curve.id, curve.title, curve.caption, curve.needs);
    Chart {
        id,
        title,
        caption,
        needs,
        names: ["step", curve.metric.name, ""],
        height: 340,
        wide: false,
        figures,
    }
}

/// Decades up to which 2 and 5 have marks too.
const FEW_DECADES: i32 = 2;

/// Marks of a logarithmic axis; plotly's own between the decades are too small to read.
fn marks(context: &Context<'_>, curve: &Curve) -> Option<Value> {
    let of = |value: fn(&Series) -> Option<(u64, f64)>| {
        let values = context.runs.iter().filter_map(move |run| Some(value(run.curve(curve.metric)?)?.1));
        values.filter(|value| *value > 0.0)
    };
    let high = of(Series::largest).reduce(f64::max).filter(|_| curve.kind == AxisKind::Log)?;
    let low = of(Series::least).reduce(f64::min).unwrap_or(high);
    let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let steps: &[f64] =
        if decades.end() - decades.start() <= FEW_DECADES { &[1.0, 2.0, 5.0] } else { &[1.0] };
    Some(decades.flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade))).collect())
}

/// Losses that explode leave nothing to see of the others: the axis then ends above where the runs began, and says so.
fn clipped(context: &Context<'_>, curve: &Curve) -> Option<(Value, Value)> {
    if ![&LOSS, &VAL_LOSS].contains(&curve.metric) {
        return None;
    }
    let of = |value: fn(&Series) -> Option<(u64, f64)>| {
        context.runs.iter().filter_map(move |run| Some(value(run.curve(curve.metric)?)?.1))
    };
    let begun = of(Series::first).reduce(f64::max)? * 1.1;
    let (low, high) = (of(Series::least).reduce(f64::min)?, of(Series::largest).reduce(f64::max)?);
    let text = format!("up to {high:.1e}: double-click shows all");
    let note = json!({
        "text": text, "showarrow": false, "xref": "paper", "yref": "paper", "x": 1, "y": 1, "xanchor": "right", "yanchor": "top",
    });
    (high > 1.5 * begun).then(|| (json!([low - 0.05 * (begun - low), begun]), note))
}

fn points(run: &Run, metric: &'static MetricDefinition, most: usize) -> Vec<(u64, f64)> {
    // An evaluation at the end is in no row, and evaluations are few.
    if *metric == VAL_LOSS && run.evaluations.len() <= most.max(600) {
        return run.curve_of_evaluations().collect();
    }
    run.curve(metric).map(|curve| curve.points(most)).unwrap_or_default()
}

fn trace(context: &Context<'_>, curve: &Curve, run: usize, budget: usize) -> Option<Value> {
    let points = points(&context.runs[run], curve.metric, budget);
    let marked = points.len() <= MARKED;
    if points.is_empty() {
        return None;
    }
    let (label, group) = (&context.labels[run], context.group_of[run]);
    let format = match curve.kind {
        AxisKind::Share => ".3~p",
        _ => ".5~g",
    };
    Some(json!({
        "type": "scatter",
        "mode": if marked { "lines+markers" } else { "lines" },
        "name": plain(label),
        "meta": context.meta(group, label),
        "x": points.iter().map(|(step, _)| short(*step as f64)).collect::<Vec<_>>(),
        "y": shorts(points.iter().map(|(_, value)| *value)),
        "line": { "width": 1.75, "dash": context.dash(group) },
        "marker": { "size": 4 },
        "hovertemplate": format!("%{{fullData.name}}<br>step %{{x}}: %{{y:{format}}}<extra></extra>"),
    }))
}
