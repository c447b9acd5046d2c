//! Curves over steps or tokens: the mean of each configuration with the range of its seeds, and single runs.

use std::collections::BTreeMap;

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

use super::{Chart, Context, switches};
use crate::{
    draw::{Axis, Kind, Part, Plot, Rule, Series},
    run::{Run, RunState},
};

/// Curves of more points than this are lines without marks.
const MARKED: usize = 24;
/// Points of all single runs of a chart together, and of all means.
const SINGLES: usize = 6000;
const MEANS: usize = 3000;

/// A chart of a metric.
struct Curve {
    section: &'static str,
    id: &'static str,
    title: &'static str,
    caption: &'static str,
    needs: &'static str,
    metric: &'static MetricDefinition,
    axis: &'static str,
    scale: Scale,
}

#[derive(Clone, Copy, PartialEq)]
enum Scale {
    Linear,
    /// Logarithmic on request.
    Loss,
    Log,
    Share,
    /// One minus the value, logarithmic.
    Complement,
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
        scale: Scale::Loss,
    },
    Curve {
        section: "loss",
        id: "train_loss",
        title: "Training loss",
        caption: "Loss of each step's batch. Of long runs, single curves keep the least and largest value of every bucket of steps, so peaks survive; means are of buckets.",
        needs: "a sink: `[[sink]] name = \"csv\"`",
        metric: &LOSS,
        axis: "nats per token",
        scale: Scale::Loss,
    },
    Curve {
        section: "fidelity",
        id: "cosine",
        title: "Gradient direction error (1 − cosine) over time",
        caption: "One minus the cosine between the quantized gradient and the one in fp32 on the same batch and weights, all parameters together. The least that is drawn is 1e-7, which f32 cannot tell from the same direction.",
        needs: "`[shadow] every`",
        metric: &GRAD_COS_SIM,
        axis: "1 - cosine",
        scale: Scale::Complement,
    },
    Curve {
        section: "fidelity",
        id: "sqnr",
        title: "Signal to rounding noise",
        caption: "Over everything that was rounded in the step, in dB; a significand bit is worth 6.02 dB.",
        needs: "a format in `[quant]`",
        metric: &SQNR_DB,
        axis: "dB",
        scale: Scale::Linear,
    },
    Curve {
        section: "updates",
        id: "stall",
        title: "Codes unchanged",
        caption: "Fraction of the elements with a gradient whose code did not change in the step. A high fraction is normal with master weights or stochastic rounding; `update/rounding_loss` shows what rounding removes.",
        needs: "`[metrics] every` and `[quant] weight`",
        metric: &BIT_STALL_RATE,
        axis: "share of elements",
        scale: Scale::Share,
    },
    Curve {
        section: "updates",
        id: "ulp",
        title: "Median update in ULP",
        caption: "Median distance of an update, in codes of the format. Without master weights, rounding to nearest undoes a step below half a code.",
        needs: "`[metrics] every` and `[quant] weight`",
        metric: &ULP_ABS_P50,
        axis: "ULP",
        scale: Scale::Log,
    },
    Curve {
        section: "codes",
        id: "overflow",
        title: "Overflow",
        caption: "Share of the rounded elements beyond their format's largest value; they saturate.",
        needs: "a format in `[quant]`",
        metric: &OVERFLOW_RATE,
        axis: "share of elements",
        scale: Scale::Share,
    },
];

pub(super) fn all(context: &Context<'_>) -> Vec<(&'static str, Chart)> {
    let chart = |curve: &'static Curve| {
        let Curve { id, title, caption, needs, .. } = *curve;
        Chart { id, title, caption, needs, wide: false, drawings: plot(context, curve).into() }
    };
    CURVES.iter().map(|curve| (curve.section, chart(curve))).collect()
}

/// A curve's points: step or tokens, and value.
type Points = Vec<(u64, f64)>;

fn plot(context: &Context<'_>, curve: &Curve) -> Option<Plot> {
    let has = |run: &&Run| !points(run, curve, 2, false).is_empty();
    let with = context.runs.iter().filter(has).count();
    let (singles, means) =
        ((SINGLES / with.max(1)).clamp(30, 300), (MEANS / context.groups.len().max(1)).clamp(40, 200));
    let mut series: Vec<Series> = Vec::new();
    for (index, group) in context.groups.iter().enumerate() {
        let of_run = |run: &usize| {
            let points = shown(context, *run, points(&context.runs[*run], curve, singles, true));
            let points = points.into_iter().map(|[x, y]| (x, [y])).collect();
            smoothed(points, context.view.smooth).into_iter().map(|(x, [y])| [x, y]).collect::<Vec<_>>()
        };
        let single: Vec<Vec<[f64; 2]>> =
            group.runs.iter().map(of_run).filter(|points| !points.is_empty()).collect();
        let several = single.len() > 1;
        if several {
            series.push(Series {
                is_single: true,
                ..context.series(index, single.into_iter().map(Part::Line).collect())
            });
        }
        let mean = smoothed(mean(context, curve, &group.runs, means), context.view.smooth);
        if !mean.is_empty() {
            let line: Vec<[f64; 2]> = mean.iter().map(|(x, [mean, ..])| [*x, *mean]).collect();
            let band = mean.iter().map(|(x, [_, low, high])| [*x, *low, *high]).collect();
            let dots = (line.len() <= MARKED)
                .then(|| Part::Dots(line.iter().map(|point| (*point, String::new())).collect()));
            let parts = [several.then_some(Part::Band(band)), Some(Part::Line(line)), dots];
            series.push(context.series(index, parts.into_iter().flatten().collect()));
        }
    }
    if series.is_empty() {
        return None;
    }
    let line = |part: &Part| if let Part::Line(points) = part { points.clone() } else { Vec::new() };
    let places = || series.iter().flat_map(|series| series.parts.iter().flat_map(line));
    let is_log = match curve.scale {
        Scale::Log | Scale::Complement => true,
        Scale::Loss => context.view.log,
        Scale::Linear | Scale::Share => false,
    };
    let x = Axis::over(
        if context.view.tokens { "tokens" } else { "step" },
        Kind::Linear,
        places().map(|[x, _]| x),
    );
    let y = Axis::over(curve.axis, if is_log { Kind::Log } else { Kind::Linear }, places().map(|[_, y]| y));
    let y = if curve.scale == Scale::Share { y.percent() } else { y };
    let (y, note) = clipped(context, curve, y, x.range[1]);
    let events = context.runs.iter().filter(has).flat_map(|run| &run.events);
    let rules = match context.view.tokens {
        true => Vec::new(),
        false => switches::steps(events).into_iter().map(|step| Rule::Vertical(step as f64)).collect(),
    };
    Some(Plot { x, y, series, picture: None, rules, texts: note.into_iter().collect(), height: 300 })
}

/// Diverging losses would hide the others: the axis then ends above the initial losses, with a note.
fn clipped(
    context: &Context<'_>,
    curve: &Curve,
    axis: Axis,
    right: f64,
) -> (Axis, Option<(f64, f64, String)>) {
    let firsts = context.runs.iter().filter_map(|run| Some(run.curve(curve.metric)?.first()?.1));
    let begun = firsts.fold(f64::MIN, f64::max) * 1.1;
    let [low, high] = axis.range;
    if curve.scale != Scale::Loss || begun <= low || high <= 1.5 * begun {
        return (axis, None);
    }
    let note = (right, begun - 0.03 * (begun - low), format!("cut off: up to {high:.1e}"));
    (axis.with_range([low, begun]), Some(note))
}

fn points(run: &Run, curve: &Curve, most: usize, with_peaks: bool) -> Points {
    // An evaluation at the end is in no row, and evaluations are few.
    let points = if *curve.metric == VAL_LOSS && run.evaluations.len() <= most.max(200) {
        run.curve_of_evaluations().collect()
    } else {
        let series = run.curve(curve.metric);
        series
            .map(|curve| if with_peaks { curve.points(most) } else { curve.means(most) })
            .unwrap_or_default()
    };
    match curve.scale {
        Scale::Complement => {
            points.into_iter().map(|(step, value)| (step, super::layers::lost(value))).collect()
        }
        _ => points,
    }
}

/// Points as they are shown: over tokens if wanted.
fn shown(context: &Context<'_>, run: usize, points: Points) -> Vec<[f64; 2]> {
    let tokens = context.runs[run].config.tokens_per_step();
    let Some(scale) = (if context.view.tokens { tokens } else { Some(1.0) }) else { return Vec::new() };
    points.into_iter().map(|(step, value)| [step as f64 * scale, value]).collect()
}

/// Exponential means of each of the values at a place, as the page's script makes them.
fn smoothed<const N: usize>(points: Vec<(f64, [f64; N])>, weight: f64) -> Vec<(f64, [f64; N])> {
    let mut past: Option<[f64; N]> = None;
    let mut smooth = |values: [f64; N]| {
        let before = past.unwrap_or(values);
        let now = std::array::from_fn(|index| weight * before[index] + (1.0 - weight) * values[index]);
        past = Some(now);
        now
    };
    points.into_iter().map(|(x, values)| (x, smooth(values))).collect()
}

/// Mean, least and largest over the seeds, where all completed ones have a point. A run without a status counts as
/// completed.
fn mean(context: &Context<'_>, curve: &Curve, runs: &[usize], most: usize) -> Vec<(f64, [f64; 3])> {
    let curves =
        runs.iter().map(|run| (*run, shown(context, *run, points(&context.runs[*run], curve, most, false))));
    let curves: Vec<(usize, Vec<[f64; 2]>)> = curves.filter(|(_, points)| !points.is_empty()).collect();
    let is_done = |run: usize| matches!(context.runs[run].state, RunState::Completed | RunState::Unknown);
    let done = curves.iter().filter(|(run, _)| is_done(*run)).count();
    let mut by_place: BTreeMap<u64, (usize, Vec<f64>)> = BTreeMap::new();
    for (run, points) in &curves {
        for [x, y] in points {
            let (count, values) = by_place.entry(x.to_bits()).or_default();
            *count += usize::from(is_done(*run));
            values.push(*y);
        }
    }
    let complete = by_place.into_iter().filter(|(_, (count, _))| *count == done);
    complete
        .map(|(x, (_, values))| {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let (low, high) =
                values.iter().fold((f64::MAX, f64::MIN), |(low, high), y| (low.min(*y), high.max(*y)));
            (f64::from_bits(x), [mean, low, high])
        })
        .collect()
}
