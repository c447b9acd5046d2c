//! Final loss over a number that was swept, such as the learning rate.

use std::collections::BTreeMap;

use super::{Chart, Context};
use crate::{
    compare::Set,
    draw::{Axis, Kind, Part, Plot},
    group::{Group, differing},
    label::distinction,
    run_file::RunFile,
    stats::Sample,
};

/// The treatment of a curve: the number of its set, the formats, the optimizer, and the values of other keys in which
/// treatments differ.
type Treatment<'a> = (usize, &'a str, Option<&'a str>, Vec<Option<&'a str>>);

/// Prefixes of the keys that distinguish treatments. Keys of the schedule are not among them, because they change with
/// the learning rate.
const PREFIXES: [&str; 3] = ["quant.", "optimizer.", "train.precision"];
/// Values from which on a sweep is a curve.
const LEAST: usize = 3;

pub(super) fn chart(context: &Context<'_>) -> Chart {
    let settings = context.comparison.sets.iter().flat_map(|set| &set.settings);
    Chart {
        id: "rates",
        title: "Final loss by setting",
        caption: "Held-out loss at the end, mean and range over seeds, by the first setting with at least three values. A treatment whose minimum lies at an end was not swept far enough.",
        needs: "three values of a numeric key, such as `train.lr`, in the same data, model and length",
        wide: false,
        drawings: settings.into_iter().find_map(|key| plot(context, key)).into(),
    }
}

/// Formats, optimizer, the other keys as labels have them, and what distinguishes its set from others.
fn name(group: &Group, config: &RunFile, keys: &[&String], set: &Set) -> String {
    let others = keys.iter().filter_map(|key| distinction(config, key)).chain(set.what.iter().cloned());
    [Some(group.format.clone()), group.optimizer.clone()]
        .into_iter()
        .flatten()
        .chain(others)
        .collect::<Vec<_>>()
        .join(" · ")
}

fn plot(context: &Context<'_>, key: &str) -> Option<Plot> {
    let config = |group: &Group| &context.runs[group.runs[0]].config;
    let value = |group: &Group| config(group).get(key).and_then(|value| value.parse::<f64>().ok());
    let keys = differing(context.groups.iter().map(config));
    let is_of_treatment = |other: &&String| *other != key && PREFIXES.iter().any(|of| other.starts_with(of));
    let keys: Vec<&String> = keys.iter().filter(is_of_treatment).collect();
    let mut curves: BTreeMap<Treatment<'_>, Vec<(f64, usize)>> = BTreeMap::new();
    let sets = &context.comparison.sets;
    for (set, index) in
        sets.iter().enumerate().flat_map(|(at, set)| set.groups.iter().map(move |group| (at, *group)))
    {
        let group = &context.groups[index];
        if let Some(value) = value(group) {
            let others = keys.iter().map(|key| config(group).get(key)).collect();
            let treatment = (set, group.format.as_str(), group.optimizer.as_deref(), others);
            curves.entry(treatment).or_default().push((value, index));
        }
    }
    let distinct = |points: &[(f64, usize)]| {
        let mut values: Vec<f64> = points.iter().map(|(value, _)| *value).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        values.len()
    };
    curves.retain(|_, points| distinct(points) >= LEAST);
    let mut series = Vec::new();
    for ((set, ..), points) in &mut curves {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let losses = |group: usize| -> Vec<f64> {
            let runs = context.groups[group].runs.iter();
            runs.filter_map(|run| Some(context.runs[*run].final_loss()?.loss)).collect()
        };
        let all: Vec<(f64, Vec<f64>)> = points
            .iter()
            .map(|(value, group)| (*value, losses(*group)))
            .filter(|(_, losses)| !losses.is_empty())
            .collect();
        let mean = |losses: &[f64]| Sample::of(losses).map_or(f64::NAN, |sample| sample.mean);
        let line: Vec<[f64; 2]> = all.iter().map(|(value, losses)| [*value, mean(losses)]).collect();
        let band = all.iter().map(|(value, losses)| {
            let end = |best: fn(f64, f64) -> f64| losses.iter().copied().reduce(best).unwrap_or(f64::NAN);
            [*value, end(f64::min), end(f64::max)]
        });
        let dots = line.iter().map(|point| (*point, String::new())).collect();
        let Some((_, first)) = points.first() else { continue };
        let mut one =
            context.series(*first, vec![Part::Band(band.collect()), Part::Line(line), Part::Dots(dots)]);
        one.name = name(&context.groups[*first], config(&context.groups[*first]), &keys, &sets[*set]);
        (one.group, one.dash) = (None, 0);
        series.push(one);
    }
    let places = || {
        series.iter().flat_map(|series| &series.parts).flat_map(|part| match part {
            Part::Line(points) => points.clone(),
            _ => Vec::new(),
        })
    };
    let is_log = places().all(|[x, _]| x > 0.0);
    places().next()?;
    let x = Axis::over(key, if is_log { Kind::Log } else { Kind::Linear }, places().map(|[x, _]| x));
    let y = if context.view.log { Kind::Log } else { Kind::Linear };
    let y = Axis::over("nats per token", y, places().map(|[_, y]| y));
    Some(Plot { x, y, series, picture: None, rules: Vec::new(), texts: Vec::new(), height: 300 })
}
