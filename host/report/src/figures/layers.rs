//! Charts by layer: one mark a configuration and layer, and heat maps of a run, layers over steps.

use std::collections::{BTreeMap, BTreeSet};

use altgrad_metrics::{
    Statistic,
    families::{
        fidelity::GRAD_COS_SIM, ranks::EFFECTIVE_RANK, scale_regret::SQNR_DB_AT, weights::STIFFNESS_GRAD_CORR,
    },
};

use super::{Chart, Context, Drawings, downwards, in_model_order, layer_name};
use crate::{
    draw::{Axis, Kind, Part, Picture, Plot},
    run::Run,
    series::Series,
    stats::Sample,
};

/// Pixels of a layer's row.
const ROW: usize = 19;
/// Columns of a heat map.
const COLUMNS: usize = 24;
/// Below this, one minus a cosine in f32 is rounding.
const LEAST_LOST: f64 = 1e-7;
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

/// The difference of a cosine from 1, at least the smallest distinguishable one.
pub(super) fn lost(cosine: f64) -> f64 {
    (1.0 - cosine).max(LEAST_LOST)
}

fn cosine_by_layer(context: &Context<'_>) -> Chart {
    let value = |curve: &Series| curve.mean().map(lost);
    Chart {
        id: "cosine_by_layer",
        title: "Gradient direction lost by layer",
        caption: "One minus the cosine to the gradient in fp32, mean over all shadow steps and seeds. A layer far to the right gets its direction from rounding noise.",
        needs: "`[shadow] every`",
        wide: false,
        drawings: dots(context, COSINE, "1 - cosine", Kind::Log, value),
    }
}

fn cosine_of_a_run(context: &Context<'_>) -> Chart {
    let scale = Scale { title: "1 - cosine", is_log: true };
    Chart {
        id: "cosine_of_a_run",
        title: "Gradient direction lost in one run, layer by layer",
        caption: "One minus the cosine, on a logarithmic scale that all runs share: when and where gradients lose their direction.",
        needs: "`[shadow] every`",
        wide: false,
        drawings: heat_maps(context, COSINE, scale, |_, value| Some(lost(value))),
    }
}

fn stiffness_correlation(context: &Context<'_>) -> Chart {
    const METRIC: Statistic = Statistic::new(&STIFFNESS_GRAD_CORR);
    Chart {
        id: "stiffness_corr",
        title: "Stiffness against gradient",
        caption: "Pearson correlation of log2 spacing and log2 gradient, by layer. Above zero, weights where the grid is coarse also get the larger gradients.",
        needs: "`[metrics] histograms_every` and `[quant] weight`",
        wide: false,
        drawings: dots(context, METRIC, "correlation", Kind::Linear, Series::mean),
    }
}

fn rank_left(context: &Context<'_>) -> Chart {
    let left = |curve: &Series| Some(curve.last()?.1 / curve.first()?.1).filter(|left| left.is_finite());
    Chart {
        id: "rank_left",
        title: "Effective rank at the end, by layer",
        caption: "As a share of the first one measured. Below 1, the matrix uses fewer directions than it began with.",
        needs: "`[metrics] rank_every`",
        wide: false,
        drawings: dots(context, RANK, "share of the first", Kind::Linear, left),
    }
}

fn rank_of_a_run(context: &Context<'_>) -> Chart {
    let share = |curve: &Series, value: f64| Some(value / curve.first()?.1).filter(|share| share.is_finite());
    Chart {
        id: "rank_of_a_run",
        title: "Effective rank of one run over time",
        caption: "Each layer's rank as a share of its first, on a scale that all runs share.",
        needs: "`[metrics] rank_every`",
        wide: false,
        drawings: heat_maps(context, RANK, Scale { title: "share", is_log: false }, share),
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

pub(super) fn height(rows: usize) -> usize {
    (rows * ROW + 10).clamp(160, 2400)
}

/// Marks of each configuration: the mean over its seeds of a number of each layer's curve.
fn dots(
    context: &Context<'_>,
    statistic: Statistic,
    axis: &str,
    kind: Kind,
    value: impl Fn(&Series) -> Option<f64>,
) -> Drawings {
    let layers = layers(context, statistic);
    let place = |index: usize| (layers.len() - 1 - index) as f64;
    let mut series = Vec::new();
    for (index, group) in context.groups.iter().enumerate() {
        let of_layer = |(place_of, layer): (usize, &&String)| {
            let curves =
                group.runs.iter().filter_map(|run| context.runs[*run].layers.get(&statistic)?.get(*layer));
            let values: Vec<f64> = curves.filter_map(&value).collect();
            Some(([Sample::of(&values)?.mean, place(place_of)], layer_name(layer)))
        };
        let marks: Vec<([f64; 2], String)> = layers.iter().enumerate().filter_map(of_layer).collect();
        if !marks.is_empty() {
            let line = marks.iter().map(|(point, _)| *point).collect();
            let dots = marks.into_iter().map(|(point, _)| (point, String::new())).collect();
            series.push(context.series(index, vec![Part::Line(line), Part::Dots(dots)]));
        }
    }
    if series.is_empty() {
        return Drawings::None;
    }
    let values = series.iter().flat_map(|series| match &series.parts[0] {
        Part::Line(points) => points.clone(),
        _ => Vec::new(),
    });
    let x = Axis::over(axis, kind, values.map(|[x, _]| x));
    let names: Vec<String> = layers.iter().map(|layer| layer_name(layer)).collect();
    let y = Axis::over("", Kind::Names(downwards(&names)), std::iter::empty());
    let height = height(layers.len());
    Some(Plot { x, y, series, picture: None, rules: Vec::new(), texts: Vec::new(), height }).into()
}

/// The mapping of values to colours.
#[derive(Clone, Copy)]
struct Scale {
    title: &'static str,
    is_log: bool,
}

/// Rows of a run: names from above to below, cells by step.
struct Rows {
    names: Vec<String>,
    steps: Vec<u64>,
    cells: Vec<Vec<Option<f64>>>,
}

/// Heat maps of the runs in detail, all on one scale.
fn heat_maps(
    context: &Context<'_>,
    statistic: Statistic,
    scale: Scale,
    value: impl Fn(&Series, f64) -> Option<f64>,
) -> Drawings {
    let rows = context.detailed.iter();
    let rows = rows.filter_map(|run| Some((*run, rows_of(&context.runs[*run], statistic, &value)?)));
    let rows: Vec<(usize, Rows)> = rows.collect();
    let all = rows.iter().flat_map(|(_, rows)| rows.cells.iter().flatten().copied().flatten());
    // Values at the floor have no influence on the scale.
    let all = all.filter(|value| !scale.is_log || *value > LEAST_LOST);
    let kind = if scale.is_log { Kind::Log } else { Kind::Linear };
    let axis = Axis::over(scale.title, kind, all);
    let plot = |rows: Rows| {
        let picture = Picture {
            rows: rows.cells,
            range: axis.range,
            is_log: scale.is_log,
            title: scale.title.into(),
            scale: axis.ticks().into_iter().map(|(place, text)| (place / 1000.0, text)).collect(),
        };
        over_steps(picture, &rows.names, &rows.steps)
    };
    rows.into_iter().map(|(run, rows)| (run, plot(rows))).collect::<BTreeMap<_, _>>().into()
}

fn rows_of(run: &Run, statistic: Statistic, value: impl Fn(&Series, f64) -> Option<f64>) -> Option<Rows> {
    let curves = run.layers.get(&statistic)?;
    let mut layers: Vec<&String> = curves.keys().collect();
    in_model_order(&mut layers);
    let points: Vec<BTreeMap<u64, f64>> =
        layers.iter().map(|layer| curves[*layer].means(COLUMNS).into_iter().collect()).collect();
    let steps: BTreeSet<u64> = points.iter().flat_map(|points| points.keys().copied()).collect();
    let row = |(layer, points): (&&String, &BTreeMap<u64, f64>)| {
        let cell = |step| points.get(step).and_then(|point| value(&curves[*layer], *point));
        steps.iter().map(cell).collect()
    };
    let cells = layers.iter().zip(&points).map(row).collect();
    let names = layers.iter().map(|layer| layer_name(layer)).collect();
    Some(Rows { names, steps: steps.into_iter().collect(), cells })
}

/// A heat map whose columns are steps.
pub(super) fn over_steps(picture: Picture, names: &[String], steps: &[u64]) -> Plot {
    let y = Axis::over("", Kind::Names(downwards(names)), std::iter::empty());
    let height = height(names.len());
    Plot {
        x: columns(steps),
        y,
        series: Vec::new(),
        picture: Some(picture),
        rules: Vec::new(),
        texts: Vec::new(),
        height,
    }
}

/// An axis with a name for some of the steps, so that names do not touch.
pub(super) fn columns(steps: &[u64]) -> Axis {
    let stride = steps.len().div_ceil(5).max(1);
    let name = |(index, step): (usize, &u64)| {
        if index % stride == 0 { step.to_string() } else { String::new() }
    };
    let names = steps.iter().enumerate().map(name).collect();
    Axis::over("step", Kind::Names(names), std::iter::empty())
}

/// Signal to noise against the scale's offset, mean over layers and seeds, at the last measurement.
pub(super) fn regret(context: &Context<'_>) -> Chart {
    let mut series = Vec::new();
    let mut all: Vec<[f64; 2]> = Vec::new();
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
        let means = by_offset
            .iter()
            .filter_map(|(offset, values)| Some([f64::from(*offset), Sample::of(values)?.mean]));
        let means: Vec<[f64; 2]> = means.collect();
        if !means.is_empty() {
            all.extend(&means);
            let dots = means.iter().map(|point| (*point, String::new())).collect();
            series.push(context.series(index, vec![Part::Line(means), Part::Dots(dots)]));
        }
    }
    let x = Axis::over("scale moved by, binades", Kind::Linear, all.iter().map(|[x, _]| *x));
    let y = Axis::over("SQNR, dB", Kind::Linear, all.iter().map(|[_, y]| *y));
    let plot = Plot { x, y, series, picture: None, rules: Vec::new(), texts: Vec::new(), height: 300 };
    Chart {
        id: "regret",
        title: "Scale regret",
        caption: "Signal to rounding noise of the weights, had their scale been moved by so many binades; mean over layers at the last measurement. A peak away from 0 is what the scaling rule gives away.",
        needs: "`[metrics] histograms_every`, `[quant] weight` and fp32 master weights",
        wide: true,
        drawings: Some(plot).filter(|plot| !plot.series.is_empty()).into(),
    }
}
