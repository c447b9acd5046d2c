//! Charts by layer: one mark a configuration and layer. Heat maps are in `maps`.

use std::collections::{BTreeMap, BTreeSet};

use altgrad_metrics::{
    Statistic,
    families::{
        fidelity::GRAD_COS_SIM, ranks::EFFECTIVE_RANK, scale_regret::SQNR_DB_AT, weights::STIFFNESS_GRAD_CORR,
    },
};

use super::{Chart, Context, Drawings, downwards, in_model_order, layer_name};
use crate::{
    draw::{Axis, Kind, Part, Plot},
    run::Run,
    series::Series,
    stats::Sample,
};

/// Pixels of a layer's row.
const ROW: usize = 19;
/// Below this, one minus a cosine in f32 is rounding.
pub(super) const LEAST_LOST: f64 = 1e-7;
const COSINE: Statistic = Statistic::new(&GRAD_COS_SIM);
const RANK: Statistic = Statistic::new(&EFFECTIVE_RANK);

pub(super) fn all(context: &Context<'_>) -> Vec<(&'static str, Chart)> {
    vec![
        ("fidelity", cosine_by_layer(context)),
        ("stiffness", stiffness_correlation(context)),
        ("ranks", rank_left(context)),
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
        title: "Gradient direction error (1 − cosine) by layer",
        caption: "One minus the cosine to the gradient in fp32, mean over all shadow steps and seeds. A layer far to the right gets its direction from rounding noise.",
        needs: "`[shadow] every`",
        wide: false,
        drawings: dots(context, COSINE, "1 - cosine", Kind::Log, value),
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
    let x = Axis::over("offset of the scale, binades", Kind::Linear, all.iter().map(|[x, _]| *x));
    let y = Axis::over("SQNR, dB", Kind::Linear, all.iter().map(|[_, y]| *y));
    let plot = Plot { x, y, series, picture: None, rules: Vec::new(), texts: Vec::new(), height: 300 };
    Chart {
        id: "regret",
        title: "Scale regret",
        caption: "SQNR of the weights at scales multiplied by powers of two; mean over layers at the last measurement. The difference between the peak and offset 0 is the regret.",
        needs: "`[metrics] histograms_every`, `[quant] weight` and fp32 master weights",
        wide: true,
        drawings: Some(plot).filter(|plot| !plot.series.is_empty()).into(),
    }
}
