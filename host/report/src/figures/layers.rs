//! Charts by layer: one mark a configuration and layer, and pictures of a run, layers over steps.

use std::collections::{BTreeMap, BTreeSet};

use altgrad_metrics::{
    Statistic,
    families::{
        fidelity::GRAD_COS_SIM, ranks::EFFECTIVE_RANK, scale_regret::SQNR_DB_AT, weights::STIFFNESS_GRAD_CORR,
    },
};
use serde_json::{Value, json};

use super::{Chart, Context, in_model_order, layer_name, plain, shorts};
use crate::{run::Run, series::Series, stats::Sample};

/// Pixels of a layer's row.
const ROW: usize = 19;
/// Pixels around the rows.
const FRAME: usize = 110;
/// Columns of a picture.
const COLUMNS: usize = 24;
const COSINE: Statistic = Statistic::new(&GRAD_COS_SIM);
const RANK: Statistic = Statistic::new(&EFFECTIVE_RANK);

pub(super) fn all(context: &Context<'_>) -> Vec<(&'static str, Chart)> {
    vec![
        ("fidelity", cosine_by_layer(context)),
        ("fidelity", cosine_of_a_run(context)),
        ("stiffness", stiffness_correlation(context)),
        ("ranks", rank_left(context)),
        ("ranks", rank_of_a_run(context)),
    ]
}

fn cosine_by_layer(context: &Context<'_>) -> Chart {
    let value = |curve: &Series| curve.mean();
    Chart {
        id: "cosine_by_layer",
        title: "Gradient cosine by layer",
        caption: "Mean over all shadow steps and seeds. A layer far to the left gets its direction from rounding noise.",
        needs: "`[shadow] every`",
        names: ["cosine", "layer", ""],
        height: height(context, COSINE),
        wide: false,
        figures: dots(context, COSINE, "cosine", value),
    }
}

fn cosine_of_a_run(context: &Context<'_>) -> Chart {
    let picture =
        |run: usize| picture(&context.runs[run], COSINE, "cosine", Some(0.0), |_, value| Some(value));
    Chart {
        id: "cosine_of_a_run",
        title: "Gradient cosine of one run, layer by layer",
        caption: "When and where gradients lose their direction.",
        needs: "`[shadow] every`",
        names: ["step", "layer", "cosine"],
        height: height(context, COSINE),
        wide: false,
        figures: context.by_run(picture),
    }
}

fn stiffness_correlation(context: &Context<'_>) -> Chart {
    const METRIC: Statistic = Statistic::new(&STIFFNESS_GRAD_CORR);
    Chart {
        id: "stiffness_corr",
        title: "Stiffness against gradient",
        caption: "Pearson correlation of log2 spacing and log2 gradient, by layer. Above zero, weights where the grid is coarse also get the larger gradients.",
        needs: "`[metrics] histograms_every` and `[quant] weight`",
        names: ["correlation", "layer", ""],
        height: height(context, METRIC),
        wide: false,
        figures: dots(context, METRIC, "correlation", |curve| curve.mean()),
    }
}

fn rank_left(context: &Context<'_>) -> Chart {
    let left = |curve: &Series| Some(curve.last()?.1 / curve.first()?.1).filter(|left| left.is_finite());
    Chart {
        id: "rank_left",
        title: "Effective rank at the end, by layer",
        caption: "As a share of the first one measured. Below 1, the matrix uses fewer directions than it began with.",
        needs: "`[metrics] rank_every`",
        names: ["share of the first rank", "layer", ""],
        height: height(context, RANK),
        wide: false,
        figures: dots(context, RANK, "share of the first", left),
    }
}

fn rank_of_a_run(context: &Context<'_>) -> Chart {
    let share = |curve: &Series, value: f64| Some(value / curve.first()?.1).filter(|share| share.is_finite());
    Chart {
        id: "rank_of_a_run",
        title: "Effective rank of one run over time",
        caption: "Each layer's rank as a share of its first.",
        needs: "`[metrics] rank_every`",
        names: ["step", "layer", "share of the first rank"],
        height: height(context, RANK),
        wide: false,
        figures: context.by_run(|run| picture(&context.runs[run], RANK, "share", None, share)),
    }
}

/// Layers of any run with a statistic, in the model's order.
fn layers<'a>(context: &'a Context<'_>, statistic: Statistic) -> Vec<&'a String> {
    let of_run = |run: &'a Run| run.layers.get(&statistic).into_iter().flat_map(|layers| layers.keys());
    let names: BTreeSet<&String> = context.runs.iter().flat_map(of_run).collect();
    let mut names: Vec<&String> = names.into_iter().collect();
    in_model_order(&mut names);
    names
}

fn height(context: &Context<'_>, statistic: Statistic) -> usize {
    (layers(context, statistic).len() * ROW + FRAME).clamp(340, 2400)
}

/// A trace a configuration: the mean over its seeds of a number of each layer's curve.
fn dots(
    context: &Context<'_>,
    statistic: Statistic,
    axis: &str,
    value: impl Fn(&Series) -> Option<f64>,
) -> BTreeMap<String, Value> {
    let layers = layers(context, statistic);
    let mut traces = Vec::new();
    for (index, group) in context.groups.iter().enumerate() {
        let of_layer = |layer: &&String| {
            let curves =
                group.runs.iter().filter_map(|run| context.runs[*run].layers.get(&statistic)?.get(*layer));
            let values: Vec<f64> = curves.filter_map(&value).collect();
            Some((layer_name(layer), Sample::of(&values)?.mean))
        };
        let marks: Vec<(String, f64)> = layers.iter().filter_map(of_layer).collect();
        if marks.is_empty() {
            continue;
        }
        traces.push(json!({
            "type": "scatter",
            "mode": "lines+markers",
            "name": plain(&group.label),
            "meta": context.meta(index, &group.label),
            "x": shorts(marks.iter().map(|(_, value)| *value)),
            "y": marks.iter().map(|(layer, _)| layer).collect::<Vec<_>>(),
            "line": { "width": 1, "dash": context.dash(index) },
            "marker": { "size": 7 },
            "hovertemplate": "%{fullData.name}<br>%{y}: %{x:.4~g}<extra></extra>",
        }));
    }
    let order: Vec<String> = layers.iter().map(|layer| layer_name(layer)).collect();
    let layout = json!({
        "xaxis": { "title": { "text": axis } },
        "yaxis": { "autorange": "reversed", "type": "category", "categoryarray": order, "dtick": 1 },
        "hovermode": "closest",
    });
    figure(traces, layout)
}

/// A picture of a run: layers over steps. Colours reach from `lowest` to 1, or over what there is.
fn picture(
    run: &Run,
    statistic: Statistic,
    name: &str,
    lowest: Option<f64>,
    value: impl Fn(&Series, f64) -> Option<f64>,
) -> Option<Value> {
    let curves = run.layers.get(&statistic)?;
    let mut layers: Vec<&String> = curves.keys().collect();
    in_model_order(&mut layers);
    let points: Vec<BTreeMap<u64, f64>> =
        layers.iter().map(|layer| curves[*layer].means(COLUMNS).into_iter().collect()).collect();
    let steps: BTreeSet<u64> = points.iter().flat_map(|points| points.keys().copied()).collect();
    let row = |(layer, points): (&&String, &BTreeMap<u64, f64>)| {
        let cell =
            |step| points.get(step).and_then(|point| value(&curves[*layer], *point)).unwrap_or(f64::NAN);
        shorts(steps.iter().map(cell))
    };
    let rows: Vec<Vec<Value>> = layers.iter().zip(&points).map(row).collect();
    let names: Vec<String> = layers.iter().map(|layer| layer_name(layer)).collect();
    Some(json!({
        "data": [{
            "type": "heatmap",
            "x": steps.iter().map(u64::to_string).collect::<Vec<_>>(),
            "y": names,
            "z": rows,
            "meta": { "scale": "sequential" },
            "zmin": lowest,
            "zmax": lowest.map(|_| 1.0),
            "colorbar": { "title": { "text": name } },
            "hovertemplate": format!("%{{y}}, step %{{x}}<br>{name} %{{z:.4~g}}<extra></extra>"),
        }],
        "layout": {
            "xaxis": { "title": { "text": "step" }, "type": "category", "nticks": 8 },
            "yaxis": { "autorange": "reversed", "type": "category", "dtick": 1 },
        },
    }))
}

/// Signal to noise against the scale's offset, mean over layers and seeds, at the last measurement.
pub(super) fn regret(context: &Context<'_>) -> Chart {
    let mut traces = Vec::new();
    for (index, group) in context.groups.iter().enumerate() {
        let mut by_offset: BTreeMap<i8, Vec<f64>> = BTreeMap::new();
        for run in &group.runs {
            for (statistic, layers) in &context.runs[*run].layers {
                let offset = statistic.index.filter(|_| *statistic.definition == SQNR_DB_AT);
                let Some(offset) = offset else { continue };
                let values = layers.values().filter_map(|curve| Some(curve.last()?.1));
                by_offset.entry(offset).or_default().extend(values);
            }
        }
        let means = by_offset.iter().filter_map(|(offset, values)| Some((*offset, Sample::of(values)?.mean)));
        let means: Vec<(i8, f64)> = means.collect();
        if !means.is_empty() {
            traces.push(json!({
                "type": "scatter",
                "mode": "lines+markers",
                "name": plain(&group.label),
                "meta": context.meta(index, &group.label),
                "x": means.iter().map(|(offset, _)| offset).collect::<Vec<_>>(),
                "y": shorts(means.iter().map(|(_, value)| *value)),
                "line": { "width": 1.75, "dash": context.dash(index) },
                "marker": { "size": 6 },
                "hovertemplate": "%{fullData.name}<br>scale moved by 2^%{x}: %{y:.2f} dB<extra></extra>",
            }));
        }
    }
    let layout = json!({
        "xaxis": { "title": { "text": "scale moved by, binades" }, "dtick": 1 },
        "yaxis": { "title": { "text": "SQNR, dB" } },
    });
    Chart {
        id: "regret",
        title: "Scale regret",
        caption: "Signal to rounding noise of the weights, had their scale been moved by so many binades; mean over layers at the last measurement. A peak away from 0 is what the scaling rule gives away.",
        needs: "`[metrics] histograms_every`, `[quant] weight` and fp32 master weights",
        names: ["binades", "SQNR, dB", ""],
        height: 340,
        wide: true,
        figures: figure(traces, layout),
    }
}

fn figure(traces: Vec<Value>, layout: Value) -> BTreeMap<String, Value> {
    let figure =
        (!traces.is_empty()).then(|| ("all".to_string(), json!({ "data": traces, "layout": layout })));
    figure.into_iter().collect()
}
