//! The alerts of all runs on one axis of steps.

use std::collections::BTreeMap;

use super::{Chart, Context, downwards};
use crate::{
    colours,
    draw::{Axis, Kind, Part, Plot, Series},
    events::RecordedEvent,
};

/// Runs with a row; of more, those with the most alerts.
const MOST_ROWS: usize = 60;
/// Marks of a run.
const MOST_MARKS: usize = 200;
/// Pixels of a row.
const ROW: usize = 24;
/// Colour of events that end a run or invalidate its result.
const ERROR: [&str; 2] = ["#b3261e", "#ff8f86"];

pub(super) fn chart(context: &Context<'_>) -> Chart {
    let alerts = |run: usize| context.runs[run].events.iter().filter(|event| event.is_warning());
    let mut rows: Vec<usize> = (0..context.runs.len()).filter(|run| alerts(*run).next().is_some()).collect();
    rows.sort_by_key(|run| std::cmp::Reverse(alerts(*run).count()));
    rows.truncate(MOST_ROWS);
    rows.sort_unstable();
    rows.sort_by_key(|run| context.group_of[*run]);
    let mut by_kind: BTreeMap<&str, Vec<(usize, &RecordedEvent)>> = BTreeMap::new();
    for (index, run) in rows.iter().enumerate() {
        for event in alerts(*run).take(MOST_MARKS) {
            by_kind.entry(&event.kind).or_default().push((rows.len() - 1 - index, event));
        }
    }
    let series = by_kind.iter().enumerate().map(|(index, (kind, marks))| {
        let dot = |(row, event): &(usize, &RecordedEvent)| {
            ([event.step as f64, *row as f64], crate::text::shortened(&event.text, 300))
        };
        let serious = marks.iter().any(|(_, event)| event.level == "error");
        Series {
            name: crate::text::shortened(&kind.replace('_', " "), 40),
            group: None,
            is_single: false,
            ink: if serious { ERROR.map(str::to_string) } else { colours::plain(index) },
            dash: 0,
            parts: vec![Part::Dots(marks.iter().map(dot).collect())],
        }
    });
    let steps = by_kind.values().flatten().map(|(_, event)| event.step as f64);
    let names: Vec<String> = rows.iter().map(|run| context.labels[*run].clone()).collect();
    let plot = Plot {
        x: Axis::over("step", Kind::Linear, steps.chain([0.0])),
        y: Axis::over("", Kind::Names(downwards(&names)), std::iter::empty()),
        series: series.collect(),
        picture: None,
        rules: Vec::new(),
        texts: Vec::new(),
        height: rows.len() * ROW + 16,
    };
    Chart {
        id: "alerts",
        title: "Alerts over time",
        caption: "Steps of alerts by run and kind. The cooldown of an alert keeps it from repeating; runs without a row had none.",
        needs: "`events.jsonl` in the run folder, and something to alert about: no run has an alert",
        wide: true,
        drawings: Some(plot).filter(|plot| !plot.series.is_empty()).into(),
    }
}
